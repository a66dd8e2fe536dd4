"""``karpenter plan``: what would happen now, and why; nothing is changed."""

from typing import Annotated, Any, Literal

import typer

from karpenter.cli import output, planning
from karpenter.cli.inputs import Filenames, Recursive
from karpenter.cli.planning import Assignments, InstanceTypes, Now, Provider, TimeBudget
from karpenter.cli.screen import View

HELP = """\
Say what would happen now, and why. Nothing is changed.

Reads the manifests of a cluster: pods and what makes pods, nodes, NodePools and the rest of what \
a plan depends on. Prints the nodes to create with their prices, which pods fit on nodes that \
exist, and for every pod left over the reason of each pool. Manifests of old versions are \
converted first.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter plan cluster.yaml deployment.yaml

  karpenter plan -R manifests/ --instance-types types.json -o json

  kubectl get pods,nodes,nodepools,nodeclaims -A -o yaml | karpenter plan - --set PREFERENCE_POLICY=Ignore
"""


def plan(
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
    instance_types: InstanceTypes = None,
    provider: Provider = "kwok",
    assignments: Assignments = None,
    now: Now = None,
    only: Annotated[
        Literal["provisioning", "disruption"] | None,
        typer.Option(help="Plan just this part.", show_default=False),
    ] = None,
    time_budget: TimeBudget = None,
    form: Annotated[View, typer.Option("--output", "-o", help="How to print the plan.")] = "table",
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of -o json, and no plan.")
    ] = False,
) -> None:
    """Plan, and print the plan."""
    if schema:
        from karpenter.report.schema import plan_schema

        output.write(plan_schema())
        return
    if only == "disruption":
        output.fail("disruption cannot be planned so far: leave --only away")
    asked = planning.question(
        [*(files or ()), *(filenames or ())],
        recursive=recursive,
        instance_types=instance_types,
        provider=provider,
        assignments=assignments or (),
        now=now,
        time_budget=time_budget,
    )
    with output.progress("planning"):
        outcome = asked.answer()
    if only is None:
        output.note("note: disruption is not planned so far; this is the provisioning part alone")
    if form == "table":
        from karpenter.cli.plan_view import plan_parts
        from karpenter.cli.screen import laid_out

        output.write(laid_out(plan_parts(outcome, asked.snapshot)))
    else:
        from karpenter.report.provisioning import provisioning_document

        document: dict[str, Any] = {"provisioning": provisioning_document(outcome)}
        output.write(output.render([document], form))
