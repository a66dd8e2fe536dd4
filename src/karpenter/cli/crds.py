"""``karpenter crds``: print the custom resource definitions."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from karpenter.cli import output
from karpenter.cli.output import Format

HELP = """\
Print the custom resource definitions, ready for kubectl apply.

All current kinds, or those that are named: by kind, plural, singular or short name.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter crds | kubectl apply --server-side -f -

  karpenter crds nodepool ec2nodeclass -o json
"""


def crds(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND",
            help="Kinds to print, for example NodePool, nodepools or ec2nc.",
            show_default=False,
        ),
    ] = None,
    legacy: Annotated[
        bool, typer.Option("--legacy", help="Include the alpha kinds that v1 replaced.")
    ] = False,
    form: Annotated[Format, typer.Option("--output", "-o", help="How to print them.")] = "yaml",
) -> None:
    """Print custom resource definitions."""
    from karpenter.admission.crds import builtin_crds, crd_text

    definitions = builtin_crds(legacy=True)
    if kinds:
        names = [_named(kind, definitions) for kind in kinds]
    else:
        names = sorted(builtin_crds(legacy=legacy))
    names = list(dict.fromkeys(names))
    if form == "json":
        output.write(output.render([definitions[name] for name in names], "json"))
    else:
        output.write("---\n".join(_without_separator(crd_text(name)) for name in names))


def _named(kind: str, definitions: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of the definition of a kind, whichever of its names is given."""
    by_alias = {
        alias.lower(): name
        for name, definition in definitions.items()
        for alias in _aliases(name, definition["spec"]["names"])
    }
    if kind.lower() not in by_alias:
        kinds = {name: item["spec"]["names"]["kind"] for name, item in definitions.items()}
        close = difflib.get_close_matches(kind.lower(), by_alias, n=1)
        advice = f"did you mean {kinds[by_alias[close[0]]]}? " if close else ""
        output.fail(f'no kind "{kind}": {advice}the kinds are {", ".join(sorted(kinds.values()))}')
    return by_alias[kind.lower()]


def _aliases(name: str, names: Mapping[str, Any]) -> Iterable[str]:
    yield name
    yield names["kind"]
    yield names["plural"]
    yield names.get("singular") or names["kind"]
    yield from names.get("shortNames", ())


def _without_separator(text: str) -> str:
    return text.removeprefix("---\n")
