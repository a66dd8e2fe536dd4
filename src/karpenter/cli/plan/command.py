"""``karpenter plan``: what would happen now, and why; nothing is changed."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from karpenter.console import output
from karpenter.console.help_pages import PlainCommand, unset_option
from karpenter.console.screen import View
from karpenter.inquiry import question
from karpenter.inquiry import settings as plan_settings
from karpenter.inquiry.question import TimeBudget, asking

if TYPE_CHECKING:
    from rich.console import RenderableType

    from karpenter.disruption.plan import DisruptionPlan
    from karpenter.disruption.rebalance.preview import RebalancePreview
    from karpenter.report.difference import Difference
    from karpenter.scheduling.provisioning import ProvisioningPlan

HELP = """\
Show what the controllers would do now, and why. Nothing is changed.

Reads a live cluster, or its manifests: pods and their workloads, nodes, NodePools and everything \
else that a plan depends on. Prints the nodes to create with their prices, the pods that fit on \
existing nodes, and for every other pod the reason of each NodePool; then the nodes to remove, the \
savings, and for every other node the reason to keep it. Manifests of old versions are converted first.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter plan

  karpenter plan --only disruption --context production

  karpenter plan cluster.yaml deployment.yaml

  karpenter plan --provider aws nodepool.yaml nodeclass.yaml deployment.yaml

  karpenter plan --with new-nodepool.yaml

  karpenter plan --packing cheapest

  karpenter plan --rebalance=10,50

  karpenter plan -R manifests/ --instance-types types.json -o json

  kubectl get pods,nodes,nodepools,nodeclaims -A -o yaml | karpenter plan - --set PREFERENCE_POLICY=Ignore
"""
DEFAULT_PERCENTS: Final = "0,5,10,25,50,100"
_REBALANCE: Final = "--rebalance"


class PlanCommand(PlainCommand):
    """The command, with an option whose value may be omitted: only ``=`` gives it one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments, after adding the default to an option without its value."""
        end = args.index("--") if "--" in args else len(args)
        own = [f"{_REBALANCE}={DEFAULT_PERCENTS}" if a == _REBALANCE else a for a in args[:end]]
        return super().parse_args(ctx, [*own, *args[end:]])


@asking
def plan(
    ask: Callable[..., question.Question],
    only: Annotated[
        Literal["provisioning", "disruption", "rebalance"] | None,
        unset_option("Plan only this part."),
    ] = None,
    rebalance: Annotated[
        str | None,
        unset_option(
            "Show what moving pods would save, whatever REBALANCE says: 0, 5, 10, 25, 50 and 100 % of"
            " the pods, or these percentages.",
            metavar="[=PERCENTS]",
        ),
    ] = None,
    time_budget: TimeBudget = None,
    packing: Annotated[
        Literal["karpenter", "cheapest"] | None,
        unset_option("Pack in Karpenter's order or by price, in place of the setting PACKING."),
    ] = None,
    overlay: Annotated[
        list[str] | None,
        unset_option(
            "Manifests to add to the cluster, to show what they would change; may be repeated.",
            "--with",
            metavar="FILE",
        ),
    ] = None,
    form: Annotated[View, typer.Option("--output", "-o", help="Output format.")] = "table",
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of -o json, and no plan.")
    ] = False,
) -> None:
    """Plan, and print the plan."""
    if schema:
        from karpenter.report.provisioning import plan_schema

        output.write(plan_schema())
        return
    wanted = DEFAULT_PERCENTS if rebalance is None and only == "rebalance" else rebalance
    percentages = plan_settings.percentages(wanted) if wanted is not None else ()
    more = (f"PACKING={packing}",) if packing else ()
    asked = ask(overlay=overlay or (), time_budget=time_budget, more_assignments=more)
    if only in (None, "disruption"):
        _point_out_pods_of_cluster_autoscaler(asked)
    with output.progress("planning"):
        made, removed = _parts_of(asked, only)
        made = asked.with_cheapest(made) if made is not None else None
        difference = _difference(asked, made, removed, only)
        moved = asked.rebalance(percentages) if percentages else None
    if form == "table":
        output.write(_for_people(asked, made, removed, difference, moved))
    else:
        output.write(output.render([_as_data(asked, made, removed, difference, moved)], form))


def _point_out_pods_of_cluster_autoscaler(asked: question.Question) -> None:
    """Note which pods have only Cluster Autoscaler's protection, which has no effect here."""
    from karpenter.model.labels import DO_NOT_DISRUPT, SAFE_TO_EVICT
    from karpenter.state.departing_pods import is_evictable
    from karpenter.state.pods import is_daemon

    keys = sorted(
        key
        for key, pod in asked.snapshot.pods.items()
        if pod.metadata.annotations.get(SAFE_TO_EVICT) == "false"
        and is_evictable(pod, now=asked.now)
        and not is_daemon(pod)
    )
    if keys:
        count = "1 pod has" if len(keys) == 1 else f"{len(keys)} pods have"
        more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
        output.note(
            f'note: {count} {SAFE_TO_EVICT}: "false", which only Cluster Autoscaler honours'
            f' ({keys[0]}{more}); {DO_NOT_DISRUPT}: "true" keeps a pod where it is'
        )


def _parts_of(
    asked: question.Question, only: str | None
) -> "tuple[ProvisioningPlan | None, DisruptionPlan | None]":
    return (
        asked.provisioning() if only in (None, "provisioning") else None,
        asked.disruption() if only in (None, "disruption") else None,
    )


def _difference(
    asked: question.Question,
    made: "ProvisioningPlan | None",
    removed: "DisruptionPlan | None",
    only: str | None,
) -> "Difference | None":
    """What differs from the plan for the cluster as it is, where something is laid over it."""
    if asked.before is None or only == "rebalance":
        return None
    from karpenter.report.difference import Difference, Planned

    made_before, removed_before = _parts_of(asked.before, only)
    static_before = asked.before.static_nodes(made_before)
    return Difference(
        Planned(asked.before.snapshot, made_before, removed_before, static_before),
        Planned(asked.snapshot, made, removed, asked.static_nodes(made)),
    )


def _for_people(
    asked: question.Question,
    made: "ProvisioningPlan | None",
    removed: "DisruptionPlan | None",
    difference: "Difference | None",
    moved: "RebalancePreview | None",
) -> str:
    from karpenter.cli.plan.disruption_view import disruption_parts
    from karpenter.cli.plan.provisioning_view import plan_parts
    from karpenter.console.screen import laid_out, words
    from karpenter.report.disruption import reported_reasons

    parts: list[RenderableType] = []
    if made is not None:
        static = difference.after.static if difference is not None else asked.static_nodes(made)
        parts += plan_parts(made, asked.snapshot, static)
    if made is not None and removed is not None:
        parts.append(words(""))
    if removed is not None:
        reasons = reported_reasons(with_repair=asked.settings.repair)
        parts += disruption_parts(removed, now=asked.now, reasons=reasons)
    if difference is not None:
        from karpenter.cli.plan.difference_view import difference_parts

        parts += [words(""), *difference_parts(difference)]
    if moved is not None:
        from karpenter.cli.plan.rebalance_view import rebalance_parts

        parts += [*([words("")] if parts else []), *rebalance_parts(moved)]
    return laid_out(parts)


def _as_data(
    asked: question.Question,
    made: "ProvisioningPlan | None",
    removed: "DisruptionPlan | None",
    difference: "Difference | None",
    moved: "RebalancePreview | None",
) -> dict[str, Any]:
    from karpenter.report.disruption import disruption_document
    from karpenter.report.provisioning import provisioning_document

    document: dict[str, Any] = {}
    if made is not None:
        document["provisioning"] = provisioning_document(made)
    if removed is not None:
        with_repair = asked.settings.repair
        document["disruption"] = disruption_document(removed, with_repair=with_repair)
    if difference is not None:
        from karpenter.report.difference import difference_document

        document["difference"] = difference_document(difference)
    if moved is not None:
        from karpenter.report.rebalance import rebalance_document

        document["rebalance"] = rebalance_document(moved)
    return document
