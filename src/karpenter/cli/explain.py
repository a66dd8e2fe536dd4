"""``karpenter explain``: the reasons behind one object."""

import difflib
from collections.abc import Iterable
from typing import Annotated

import typer

from karpenter.cli import output, planning
from karpenter.cli.inputs import Filenames, Recursive
from karpenter.cli.planning import Assignments, InstanceTypes, Now, Provider
from karpenter.cli.screen import View, in_order

HELP = "Say why: the reasons behind one object of a plan. Nothing is changed."
POD_HELP = """\
Say where a pod would go, or why nowhere, and what else was possible.

Plans for the whole cluster and then asks about one pod: every check of every pool with its \
figures, why nodes that exist refuse it, and which of its wishes are met.
"""
POD_EXAMPLES = """\
[bold]Examples[/bold]

  karpenter explain pod web-0 cluster.yaml

  karpenter explain pod shop/cart-3 -R manifests/ -o json
"""

explain = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@explain.callback()
def _explain() -> None:
    """Take the kind of object as a command of its own."""


@explain.command("pod", help=POD_HELP, epilog=POD_EXAMPLES)
def pod(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pod: name or namespace/name.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Manifests of the cluster: files, folders, or - for standard input.",
            show_default=False,
        ),
    ] = None,
    filenames: Filenames = None,
    recursive: Recursive = False,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="The pod's namespace.", show_default=False
        ),
    ] = None,
    instance_types: InstanceTypes = None,
    provider: Provider = "kwok",
    assignments: Assignments = None,
    now: Now = None,
    form: Annotated[View, typer.Option("--output", "-o", help="How to print it.")] = "table",
) -> None:
    """Explain one pod."""
    if namespace is not None and "/" in name:
        output.fail(f"{name} names a namespace already: leave --namespace away")
    asked = planning.question(
        [*(files or ()), *(filenames or ())],
        recursive=recursive,
        instance_types=instance_types,
        provider=provider,
        assignments=assignments or (),
        now=now,
    )
    key = _known(f"{namespace}/{name}" if namespace else name, asked.snapshot.pods)

    from karpenter.report.explanation import explain_pod, explanation_document
    from karpenter.scheduling.look_back import LookBack

    look_back = LookBack()
    with output.progress("planning"):
        outcome = asked.answer(look_back)
        told = explain_pod(key, asked.snapshot, outcome, look_back)
    if form == "table":
        from karpenter.cli.explain_view import explanation_parts
        from karpenter.cli.screen import laid_out

        output.write(laid_out(explanation_parts(told)))
    else:
        output.write(output.render([explanation_document(told)], form))


def _known(name: str, pods: Iterable[str]) -> str:
    """Find the pod that is meant, or end the command."""
    keys = sorted(pods)
    if "/" in name:
        found = [key for key in keys if key == name]
    else:
        found = [key for key in keys if key == f"default/{name}"]
        found = found or [key for key in keys if key.partition("/")[2] == name]
    if not found:
        output.fail(f"there is no pod {name}{_hint(name, keys)}")
    if len(found) > 1:
        output.fail(f"several pods are called {name}: say which of {', '.join(found[:5])}")
    return found[0]


def _hint(name: str, keys: list[str]) -> str:
    if not keys:
        return ": the input has no pods, nor anything that makes pods"
    bare = name.rpartition("/")[2]
    by_name = {key.partition("/")[2]: key for key in reversed(keys)}
    begins = [known for known in by_name if known.startswith(f"{bare}-")]
    close = in_order(begins)[:3] or difflib.get_close_matches(bare, by_name, n=3)
    meant = ", ".join(by_name[known] for known in close)
    return f"; did you mean {meant}?" if meant else f" among the {len(keys):,} there are"
