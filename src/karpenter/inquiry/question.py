"""What ``plan`` and ``explain`` ask the planners: the same question, put together in one place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, TypeAlias

import typer

from karpenter.cli import output, plan_settings
from karpenter.os_errors import os_reason

if TYPE_CHECKING:
    from karpenter.api.karpenter import NodeClassReference, NodePool
    from karpenter.cli.cluster_files import Change
    from karpenter.cloud.kwok.faults import OfferingPattern
    from karpenter.cloud.provider import RepairPolicy
    from karpenter.cloud.types import InstanceType, ProviderFacts
    from karpenter.disruption.commands import Command
    from karpenter.disruption.passes import DisruptionSettings, Pass
    from karpenter.disruption.plan import DisruptionPlan
    from karpenter.scheduling.provisioning import Catalogue, ProvisioningPlan
    from karpenter.scheduling.solve import Witness
    from karpenter.settings import Settings
    from karpenter.state.snapshot import Snapshot

InstanceTypes: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--instance-types",
        metavar="FILE",
        help="Machines to choose from, as a JSON list; any kind of node class will do then.",
        show_default=False,
    ),
]
Provider: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Whose machines to choose from; unless CLOUD_PROVIDER says it, that of the node classes "
        "the pools name. For files: kwok, or aws on a simulated account.",
        show_default=False,
    ),
]
Context: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The context of the kubeconfig to use, where no file is named.",
        show_default=False,
    ),
]
Assignments: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the controller, such as PREFERENCE_POLICY=Ignore; may be repeated.",
        show_default=False,
    ),
]
Now: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="The moment to plan for, such as 2026-08-01T12:00:00Z, in place of the present.",
        show_default=False,
    ),
]
TimeBudget: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Stop each part after that long, such as 10s, and say what was not looked at.",
        show_default=False,
    ),
]

STANDARD_INPUT: Final = "-"
KWOK: Final = "kwok"
AWS: Final = "aws"
_KNOWN_OFFLINE: Final = (KWOK, AWS)  # whose machines are known without anybody to ask
_REPAIR: Final = "NodeRepair"


@dataclass(frozen=True, slots=True)
class Market:
    """What can be had, and when what is had counts as broken."""

    catalogue: "Catalogue"
    facts: "ProviderFacts"
    repair_policies: "Sequence[RepairPolicy]" = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A cluster, what can be had, and the settings to plan with."""

    snapshot: "Snapshot"
    market: Market
    settings: "DisruptionSettings"
    now: datetime
    time_budget: float | None = None  # seconds, for each part
    before: "Question | None" = None  # the same without what is laid over the cluster

    def provisioning(self, witness: "Witness | None" = None) -> "ProvisioningPlan":
        """Plan one pass; a ``witness`` is shown what the plan was made from."""
        from karpenter.scheduling.provisioning import plan_provisioning

        has_time = plan_settings.stopwatch(self.time_budget)
        market, settings = self.market, self.settings.planning
        made = plan_provisioning(
            self.snapshot,
            market.catalogue,
            market.facts,
            settings,
            now=self.now,
            has_time=has_time,
            last=self._imagined(),
            witness=witness,
        )
        if not (made.plan.unplaced and (made.plan.claims or made.plan.existing)):
            return made
        from karpenter.report.later_passes import with_later_passes

        return with_later_passes(
            made,
            self.snapshot,
            market.catalogue,
            market.facts,
            settings,
            now=self.now,
            has_time=has_time,
        )

    def _imagined(self) -> frozenset[str]:
        """The pods that workloads are yet to make, where others exist already and so come first.

        In manifests alone nobody exists, and all pods would come at once.
        """
        pods = self.snapshot.pods.values()
        if not any(pod.metadata.creation_timestamp is not None for pod in pods):
            return frozenset()
        return frozenset(p.metadata.uid for p in pods if p.metadata.creation_timestamp is None)

    def disruption(self) -> "DisruptionPlan":
        """Plan everything that would be removed now."""
        from karpenter.cloud.repair import RepairPolicies
        from karpenter.disruption.plan import plan_disruption

        policies, settings = self.market.repair_policies, self.settings
        has_time = plan_settings.stopwatch(self.time_budget)
        return plan_disruption(
            self.snapshot,
            self.market.catalogue,
            self.market.facts,
            settings,
            now=self.now,
            policies=RepairPolicies(policies) if settings.repair else None,
            legacy_policies=policies if settings.legacy_repair else (),
            timer=lambda method: has_time,
        )

    def view(self, begun: "Sequence[Command]" = ()) -> "Pass":
        """The cluster as disruption looks at it once these commands have begun."""
        from karpenter.cloud.repair import RepairPolicies
        from karpenter.disruption.outlook import Outlook

        settings, market = self.settings, self.market
        outlook = Outlook(
            self.snapshot,
            market.catalogue,
            market.facts,
            settings,
            now=self.now,
            policies=RepairPolicies(market.repair_policies) if settings.repair else None,
        )
        for command in begun:
            outlook.begin(command)
        return outlook.look()


@dataclass(frozen=True, slots=True)
class Source:
    """Where a cluster is to be read, and what machines there are."""

    names: Sequence[str]  # files and folders; none for the cluster of the kubeconfig
    recursive: bool = False
    context: str = ""
    provider: str | None = None
    instance_types: str | None = None
    overlay: Sequence[str] = ()  # manifests to lay over it


def question(
    source: Source,
    *,
    assignments: Sequence[str],
    now: str | None,
    time_budget: str | None = None,
) -> Question:
    """Read everything a plan depends on, or say in one sentence what is wrong with it."""
    moment = plan_settings.moment(now)  # which may be wrong, and nothing is read then
    seconds = plan_settings.seconds(time_budget)
    settings, gates_are_set = plan_settings.assigned(assignments)
    plan_settings.for_planners(settings)  # to find what is wrong with them before reading anything
    if STANDARD_INPUT in source.names and STANDARD_INPUT in source.overlay:
        output.fail("standard input can be read only once: name - only once")
    if source.names:
        worlds = _from_files(source, settings)
    else:
        worlds, there = _from_cluster(source, settings)
        moment = there if there is not None and now is None else moment
    asked: Question | None = None
    for snapshot, market in worlds:
        is_last = snapshot is worlds[-1][0]  # which has whatever the first one has
        opened = plan_settings.with_gates_for(
            snapshot, settings, gates_are_set=gates_are_set, is_said=is_last
        )
        if is_last:
            _point_out_foreign_pools(snapshot, market.facts)
        planners = plan_settings.for_planners(opened)
        asked = Question(snapshot, market, planners, moment, seconds, asked)
    assert asked is not None, "there is a cluster to plan for"
    return asked


_World: TypeAlias = "tuple[Snapshot, Market]"


def _from_files(source: Source, settings: "Settings") -> "list[_World]":
    """The cluster of the files; where something is laid over it, the one with it comes second."""
    from karpenter.cli.cluster_files import load_cluster

    provider = source.provider or KWOK
    if provider not in _KNOWN_OFFLINE:
        _refuse(provider)
    if source.context:
        output.fail("--context is of a cluster that runs: leave it away, or name no files")
    left_of = None
    if provider != AWS or source.instance_types is not None:
        left_of = _market(source.instance_types, with_repair=settings.feature_gates[_REPAIR])
    before, after = load_cluster(
        source.names,
        recursive=source.recursive,
        provider=provider,
        change=_change(source, provider),
    )
    snapshots = [before] if after is None else [before, after]
    if left_of is None:
        return [(each, _simulated_aws(each, settings)) for each in snapshots]
    return [(each, left_of(each)) for each in snapshots]


def _change(source: Source, provider: str) -> "Change | None":
    from karpenter.cli.cluster_files import load_change

    if not source.overlay:
        return None
    return load_change(source.overlay, recursive=source.recursive, provider=provider)


def _simulated_aws(snapshot: "Snapshot", settings: "Settings") -> Market:
    import os

    from karpenter.cli.planning_aws import aws_market

    with output.progress("asking the simulated account"):
        with_repair = settings.feature_gates[_REPAIR]
        return aws_market(snapshot, settings, os.environ, with_repair=with_repair)


def _refuse(provider: str) -> NoReturn:
    from karpenter.cloud.registry import ProviderError, load_provider

    try:
        load_provider(provider)
    except ProviderError as error:
        output.fail(str(error))
    output.fail(
        f"what provider {provider} sells is known only where it runs: use --instance-types FILE in"
        " its place, or name no files"
    )


def _from_cluster(source: Source, settings: "Settings") -> "tuple[list[_World], datetime | None]":
    import os

    from karpenter.cli.cluster_live import BY_NODE_CLASSES, LiveCluster, read_cluster

    left_of = None
    if source.instance_types is not None:
        left_of = _market(source.instance_types, with_repair=settings.feature_gates[_REPAIR])
    provider = source.provider or os.environ.get("CLOUD_PROVIDER") or BY_NODE_CLASSES
    change = _change(source, provider or KWOK)
    with output.progress("reading the cluster"):
        live = read_cluster(
            os.environ,
            context=source.context,
            provider=provider if left_of is None else None,
            settings=settings,
            overlay=change.over if change is not None else None,
        )

    def market(found: LiveCluster) -> Market:
        if left_of is not None:
            return left_of(found.snapshot)
        if found.is_simulated:
            return _simulated_aws(found.snapshot, settings)
        types = found.types
        return Market(
            lambda pool: types.get(pool.metadata.name, ()), found.facts, found.repair_policies
        )

    worlds = [live] if live.changed is None else [live, live.changed]
    return [(each.snapshot, market(each)) for each in worlds], live.now


def _market(file: str | None, *, with_repair: bool) -> "Callable[[Snapshot], Market]":
    """The machines of a file, or those of the simulated provider; what a cluster leaves of them."""
    from karpenter.api.karpenter import NodeClassReference
    from karpenter.cloud.kwok import catalogue
    from karpenter.cloud.kwok.faults import without
    from karpenter.cloud.kwok.leftovers import taken_by, what_is_left

    types, facts = catalogue.built_in() if file is None else _listed(file), catalogue.FACTS
    if file is not None:
        facts = replace(catalogue.facts_about(types), node_classes=())
    policies = _simulated_policies() if with_repair else ()

    def left_of(snapshot: "Snapshot") -> Market:
        used = taken_by(machine.labels for machine in snapshot.nodes)
        left = what_is_left(types, used)
        sold_out = _sold_out(snapshot)
        # one object for pools alike: a catalogue is compiled once for all that share it
        shown = {patterns: without(left, patterns) for patterns in {(), *sold_out.values()}}

        def catalogue_of(pool: "NodePool") -> "tuple[InstanceType, ...]":
            reference = pool.spec.template.spec.node_class_ref
            return shown[sold_out.get(reference, everywhere)]

        everywhere = sold_out[NodeClassReference()]
        return Market(catalogue_of, facts, policies)

    return left_of


def _sold_out(
    snapshot: "Snapshot",
) -> "Mapping[NodeClassReference, tuple[OfferingPattern, ...]]":
    """What the environment and node classes declare sold out; what all share under no name."""
    import os

    from karpenter.api.karpenter import NodeClassReference
    from karpenter.api.kwok import KWOKNodeClass
    from karpenter.cloud.kwok.faults import PatternError, declared, declared_everywhere

    try:
        everywhere = declared_everywhere(os.environ)
    except PatternError as error:
        output.fail(str(error))
    found = {NodeClassReference(): everywhere}
    for reference, node_class in snapshot.node_classes.items():
        if not isinstance(node_class, KWOKNodeClass):
            continue
        try:
            own = declared(node_class.metadata.annotations, node_class.metadata.name)
        except PatternError as error:
            output.warning(f"no node can be launched with a node class: {error}")
            continue
        found[reference] = (*everywhere, *own)
    return found


def _simulated_policies() -> "Sequence[RepairPolicy]":
    from karpenter.cloud.kwok.provider import REPAIR_POLICIES

    return REPAIR_POLICIES


def _listed(file: str) -> "tuple[InstanceType, ...]":
    from karpenter.cloud.kwok import catalogue
    from karpenter.cloud.kwok.entries import CatalogueError

    try:
        return catalogue.load(Path(file).read_bytes(), file)
    except CatalogueError as error:
        output.fail(str(error))
    except OSError as error:
        output.fail(f"{file}: {os_reason(error)}")


def _point_out_foreign_pools(snapshot: "Snapshot", facts: "ProviderFacts") -> None:
    """Tell whose pools all are of another cloud how to plan for them."""
    references = [pool.spec.template.spec.node_class_ref for pool in snapshot.node_pools.values()]
    kinds = {(reference.group, reference.kind) for reference in references}
    if not kinds or not facts.node_classes or kinds & set(facts.node_classes):
        return
    names = " and ".join(sorted({kind or "no kind" for _, kind in kinds}))
    others = "--provider aws or " if names == "EC2NodeClass" else ""
    output.note(
        f"note: pools of class {names} need {others}--instance-types FILE, which says what machines"
        f" there are; the provider {facts.name} knows only its own"
    )
