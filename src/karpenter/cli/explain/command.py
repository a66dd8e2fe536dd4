"""``karpenter explain``: the reasons behind one object."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

import typer

from karpenter.console import output
from karpenter.console.help_pages import PlainCommand, PlainGroup, unset_option
from karpenter.console.screen import View, in_order, laid_out
from karpenter.inquiry import completion, question
from karpenter.inquiry.names import no_such_key
from karpenter.inquiry.question import asking

if TYPE_CHECKING:
    from karpenter.report.pod_explanation import PodExplanation
    from karpenter.state.snapshot import Snapshot

HELP = "Explain the plan for one object. Nothing is changed."
POD_HELP = """\
Show where a pod would be scheduled, or why it cannot be, with the alternatives.

Plans for the whole cluster and then explains one pod: every check of every NodePool with its \
figures, why existing nodes cannot take it, and which of its preferences are met.
"""
POD_EXAMPLES = """\
[bold]Examples[/bold]

  karpenter explain pod web-0 cluster.yaml

  karpenter explain pod shop/cart-3 -R manifests/ -o json

  karpenter explain pod web-0 --provider aws cluster.yaml
"""
NODE_HELP = """\
Show whether a node would be removed or replaced, or why it is kept.

Plans for the whole cluster and then explains one node: its state, the pod or budget that blocks \
its disruption, and the cheapest action for it, with its price. A node that would be created is \
explained by the name that `plan` gives it.
"""
NODE_EXAMPLES = """\
[bold]Examples[/bold]

  karpenter explain node ip-10-0-0-17

  karpenter explain node general-t6k2x cluster.yaml -o json
"""
POOL_HELP = """\
Show what a NodePool can launch, and what its limits and budgets still allow.

Lists the instance types that it includes and excludes with the reasons, the cheapest offering of \
each size, what is left of its limits and disruption budgets, and when the next budget window opens.
"""
POOL_EXAMPLES = """\
[bold]Examples[/bold]

  karpenter explain nodepool general

  karpenter explain nodepool general cluster.yaml --now 2026-08-01T12:00:00Z
"""
DEPLOYMENT_HELP = """\
Show where the pods of a Deployment would be scheduled, or why they cannot be.

Explains one pod of each group with the same result, as `explain pod` does; -o json has each pod, \
up to the first hundred.
"""
DEPLOYMENT_EXAMPLES = """\
[bold]Examples[/bold]

  karpenter explain deployment web cluster.yaml

  karpenter explain deploy shop/cart
"""
_MOST_PODS: Final = 100  # of a Deployment that are explained

Form: TypeAlias = Annotated[View, typer.Option("--output", "-o", help="Output format.")]
Namespace: TypeAlias = Annotated[
    str | None,
    unset_option(
        "Namespace of the object.",
        "--namespace",
        "-n",
        metavar="NAME",
        autocompletion=completion.namespaces,
    ),
]
Ask: TypeAlias = Callable[[], question.Question]


class Kinds(PlainGroup):
    """The kinds that can be explained, by the names that kubectl takes as well."""

    other_names: ClassVar[Mapping[str, str]] = {
        "pods": "pod",
        "po": "pod",
        "nodes": "node",
        "no": "node",
        "nodeclaim": "node",
        "nodeclaims": "node",
        "nodepools": "nodepool",
        "np": "nodepool",
        "deployments": "deployment",
        "deploy": "deployment",
    }


explain = typer.Typer(cls=Kinds, no_args_is_help=True, rich_markup_mode="rich")


@explain.callback()
def _explain() -> None:
    """Take the kind of object as a command of its own."""


def _named(text: str, names: Callable[..., list[str]]) -> Any:
    """The argument that names the object to explain; ``names`` completes it."""
    return typer.Argument(metavar="NAME", help=text, autocompletion=names)


@explain.command(cls=PlainCommand, name="pod", help=POD_HELP, epilog=POD_EXAMPLES)
@asking
def pod(
    ask: Ask,
    name: Annotated[str, _named("The pod: name or namespace/name.", completion.pods)],
    namespace: Namespace = None,
    form: Form = "table",
) -> None:
    """Explain one pod."""
    name = _scoped(name, namespace)
    asked = ask()
    (explanation,) = _explained([_known_pod(name, asked.snapshot.pods, asked.namespace)], asked)
    if form == "table":
        from karpenter.cli.explain.pod_view import explanation_parts

        output.write(laid_out(explanation_parts(explanation)))
    else:
        from karpenter.report.pod_explanation import explanation_document

        output.write(output.render([explanation_document(explanation)], form))


@explain.command(
    cls=PlainCommand, name="deployment", help=DEPLOYMENT_HELP, epilog=DEPLOYMENT_EXAMPLES
)
@asking
def deployment(
    ask: Ask,
    name: Annotated[str, _named("The Deployment: name or namespace/name.", completion.deployments)],
    namespace: Namespace = None,
    form: Form = "table",
) -> None:
    """Explain the pods of a Deployment."""
    name = _scoped(name, namespace)
    asked = ask()
    keys = _pods_of(name, asked.snapshot, asked.namespace)
    explanations = _explained(keys[:_MOST_PODS], asked)
    if form == "table":
        from karpenter.cli.explain.pod_view import explanations_parts

        output.write(
            laid_out(explanations_parts(explanations, omitted=len(keys) - len(explanations)))
        )
    else:
        from karpenter.report.pod_explanation import explanation_document

        output.write(output.render([explanation_document(each) for each in explanations], form))


def _explained(keys: Sequence[str], asked: question.Question) -> "list[PodExplanation]":
    """Plan for the whole cluster once, and explain some of its pods."""
    from karpenter.inquiry.plans import Plans

    plans = Plans(asked)
    with output.progress("planning"):
        return [plans.pod(key) for key in keys]


def _scoped(name: str, namespace: str | None) -> str:
    """A name with the namespace that was named beside it."""
    if namespace is not None and "/" in name:
        output.fail(f"{name} names a namespace already: omit --namespace")
    return f"{namespace}/{name}" if namespace else name


def _pods_of(name: str, snapshot: "Snapshot", namespace: str) -> list[str]:
    """The pods of a Deployment in natural order, or end the command where there are none."""
    from karpenter.state.owners import deployment_of_pod

    pods: dict[str, list[str]] = {}  # Deployment -> pods
    for key, pod in snapshot.pods.items():
        if owner := deployment_of_pod(pod, snapshot.replica_sets, snapshot.deployments):
            pods.setdefault(owner, []).append(key)
    known = sorted(pods.keys() | snapshot.deployments.keys())
    key = _one_of("Deployment", name, known, namespace)
    if key not in pods:
        output.fail(
            f"Deployment {key} has no pods and asks for none; {output.program_name()} plan shows all pods"
        )
    return in_order(pods[key])


@explain.command(cls=PlainCommand, name="node", help=NODE_HELP, epilog=NODE_EXAMPLES)
@asking
def node(
    ask: Ask,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="The Node, its NodeClaim, or a new node of the plan.",
            autocompletion=completion.nodes,
        ),
    ],
    form: Form = "table",
) -> None:
    """Explain one node."""
    asked = ask()

    from karpenter.inquiry.plans import NoSuchObjectError, Plans
    from karpenter.report.node_explanation import PlannedNode, node_document, planned_document

    try:
        with output.progress("planning"):
            explanation = Plans(asked).node(name)
    except NoSuchObjectError as error:
        output.fail(str(error))
    if form != "table":
        if isinstance(explanation, PlannedNode):
            output.write(output.render([planned_document(explanation)], form))
        else:
            output.write(output.render([node_document(explanation)], form))
        return

    from karpenter.cli.explain.node_view import node_parts, planned_parts

    if isinstance(explanation, PlannedNode):
        output.write(laid_out(planned_parts(explanation)))
    else:
        output.write(laid_out(node_parts(explanation, now=asked.now)))


@explain.command(cls=PlainCommand, name="nodepool", help=POOL_HELP, epilog=POOL_EXAMPLES)
@asking
def nodepool(
    ask: Ask,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The NodePool.", autocompletion=completion.node_pools),
    ],
    form: Form = "table",
) -> None:
    """Explain one pool."""
    asked = ask()

    from karpenter.inquiry.plans import NoSuchObjectError, Plans
    from karpenter.report.nodepool_explanation import pool_document

    try:
        with output.progress("looking"):
            explanation = Plans(asked).pool(name)
    except NoSuchObjectError as error:
        output.fail(str(error))
    if form == "table":
        from karpenter.cli.explain.nodepool_view import pool_parts

        output.write(laid_out(pool_parts(explanation, now=asked.now)))
    else:
        output.write(output.render([pool_document(explanation)], form))


def _known_pod(name: str, pods: Iterable[str], namespace: str) -> str:
    """Find the pod that is meant, or end the command."""
    keys = sorted(pods)
    if not keys:
        output.fail(f"there is no pod {name}: the input has no pods, nor anything that makes pods")
    return _one_of("pod", name, keys, namespace)


def _one_of(kind: str, name: str, keys: list[str], namespace: str) -> str:
    """Find what is meant by a name with or without its namespace, or end the command.

    The default namespace is that of the kubeconfig's context, as for kubectl, or any in which the
    name is unique.
    """
    if "/" in name:
        found = [key for key in keys if key == name]
    else:
        found = [key for key in keys if key == f"{namespace or 'default'}/{name}"]
        found = found or [key for key in keys if key.partition("/")[2] == name]
    if not found:
        output.fail(no_such_key(kind, name, keys))
    if len(found) > 1:
        output.fail(f"several {kind}s are called {name}: say which of {', '.join(found[:5])}")
    return found[0]
