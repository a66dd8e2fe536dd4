"""What ``plan`` and ``explain`` ask the planners: the same question, put together in one place."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec, TypeAlias

from karpenter.console import output
from karpenter.console.help_pages import unset_argument, unset_option
from karpenter.console.manifest_files import Filenames, Recursive
from karpenter.inquiry import completion
from karpenter.inquiry import settings as plan_settings

if TYPE_CHECKING:
    from karpenter.cloud.provider import RepairPolicy
    from karpenter.cloud.types import ProviderFacts
    from karpenter.disruption.commands import Command
    from karpenter.disruption.context import DisruptionContext, DisruptionSettings
    from karpenter.disruption.plan import DisruptionPlan
    from karpenter.disruption.rebalance.preview import RebalancePreview
    from karpenter.inquiry.files import Change
    from karpenter.report.static_nodes import StaticNodes
    from karpenter.scheduling.provisioning import Catalogue, ProvisioningPlan
    from karpenter.scheduling.solve import Witness
    from karpenter.settings import Settings
    from karpenter.state.snapshot import Snapshot

P = ParamSpec("P")
Files: TypeAlias = Annotated[
    list[str] | None,
    unset_argument(
        "Manifests: files, folders, or - for standard input; without any, the live cluster.",
        metavar="FILE",
    ),
]
InstanceTypes: TypeAlias = Annotated[
    str | None,
    unset_option(
        "Instance types to choose from, as a JSON list; any kind of node class is accepted then.",
        "--instance-types",
        metavar="FILE",
    ),
]
Provider: TypeAlias = Annotated[
    str | None,
    unset_option(
        "Cloud provider of the instance types; by default CLOUD_PROVIDER, or the provider of the "
        "node classes. For files: kwok, or aws on a simulated account.",
        metavar="NAME",
    ),
]
Context: TypeAlias = Annotated[
    str,
    unset_option(
        "The context of the kubeconfig to use, if no file is named.",
        metavar="NAME",
        autocompletion=completion.contexts,
    ),
]
Kubeconfig: TypeAlias = Annotated[
    str,
    unset_option(
        "The kubeconfig to use in place of KUBECONFIG, if no manifest is named.", metavar="FILE"
    ),
]
Assignments: TypeAlias = Annotated[
    list[str] | None,
    unset_option(
        "A setting of the controller, such as PREFERENCE_POLICY=Ignore; may be repeated.",
        "--set",
        metavar="NAME=VALUE",
        autocompletion=completion.assignments,
    ),
]
Now: TypeAlias = Annotated[
    str | None,
    unset_option(
        "The time to plan for, such as 2026-08-01T12:00:00Z; by default now.",
        metavar="TIME",
    ),
]
TimeBudget: TypeAlias = Annotated[
    str | None,
    unset_option(
        "Stop each part after this time, such as 10s, and list what was not evaluated.",
        metavar="DURATION",
    ),
]

STANDARD_INPUT: Final = "-"
_FAR_FROM_THE_BOUND: Final = 0.05
_WORTH_SAYING: Final = 0.005  # smallest saving by price that is reported, as a share of the cost


@dataclass(frozen=True, slots=True)
class CloudOffer:
    """What a cloud offers to a plan: the catalogue, the facts and repair policies of its provider."""

    catalogue: "Catalogue"
    facts: "ProviderFacts"
    repair_policies: "Sequence[RepairPolicy]" = ()
    not_asked: str = ""  # why the provider was not asked, where its built-in estimates are offered


@dataclass(frozen=True, slots=True)
class Question:
    """A cluster, what the cloud offers, and the settings to plan with."""

    snapshot: "Snapshot"
    offer: CloudOffer
    settings: "DisruptionSettings"
    now: datetime
    time_budget: float | None = None  # seconds, for each part
    before: "Question | None" = None  # the same without what is laid over the cluster
    namespace: str = ""  # the one that the context of the kubeconfig names

    def provisioning(self, witness: "Witness | None" = None) -> "ProvisioningPlan":
        """Plan one pass; a ``witness`` is shown what the plan was made from."""
        from karpenter.scheduling.provisioning import plan_provisioning

        has_time = plan_settings.stopwatch(self.time_budget)
        settings = self.settings.planning
        found = (self._as_found(), self.offer.catalogue, self.offer.facts)
        made = plan_provisioning(
            *found,
            settings,
            now=self.now,
            has_time=has_time,
            last=self._imagined(),
            witness=witness,
        )
        from karpenter.disruption.later_passes import may_fit_later, with_later_passes

        if not may_fit_later(made):
            return made
        return with_later_passes(made, *found, settings, now=self.now, has_time=has_time)

    def with_cheapest(self, made: "ProvisioningPlan") -> "ProvisioningPlan":
        """Add what packing by price would cost, where Karpenter's order is far from the bound.

        The controller never computes this: it takes another pass over the cluster.
        """
        from karpenter.report.provisioning import gap_of
        from karpenter.scheduling.plan import Alternative
        from karpenter.scheduling.problem import PackingMode

        gap = gap_of(made.plan)
        if made.plan.packing is not None or gap is None or gap <= _FAR_FROM_THE_BOUND:
            return made
        settings = self.settings.planning
        cost = replace(settings.options.cost, packing=PackingMode.CHEAPEST)
        options = replace(settings.options, cost=cost)
        disruption = replace(self.settings, planning=replace(settings, options=options))
        cheapest = replace(self, settings=disruption).provisioning().plan
        is_better = cheapest.marginal_cost < made.plan.marginal_cost * (1 - _WORTH_SAYING)
        if cheapest.packing is None or cheapest.left_out > made.plan.left_out or not is_better:
            return made
        found = Alternative(
            cheapest.packing.candidate,
            cheapest.marginal_cost,
            cheapest.expected_cost,
            len(cheapest.claims),
        )
        return replace(made, cheapest=found)

    @property
    def _cluster(self) -> "tuple[Snapshot, Catalogue, ProviderFacts]":
        """The first arguments of planners."""
        return self.snapshot, self.offer.catalogue, self.offer.facts

    def _as_found(self) -> "Snapshot":
        """The cluster as a pass finds it: with expired and broken machines being deleted."""
        from karpenter.disruption.methods.forced import ended_machines
        from karpenter.state.snapshot import with_going

        facts = self.offer.facts
        ended = ended_machines(self.snapshot, facts, self._legacy_policies, now=self.now)
        return with_going(self.snapshot, ended)

    @property
    def _legacy_policies(self) -> "Sequence[RepairPolicy]":
        return self.offer.repair_policies if self.settings.legacy_repair else ()

    def _imagined(self) -> frozenset[str]:
        """The pods that workloads have not created yet, to be planned after those that exist.

        In manifests alone no pod exists, so all are planned together.
        """
        pods = self.snapshot.pods.values()
        if not any(pod.metadata.creation_timestamp is not None for pod in pods):
            return frozenset()
        return frozenset(p.metadata.uid for p in pods if p.metadata.creation_timestamp is None)

    def disruption(self) -> "DisruptionPlan":
        """Plan everything that would be removed now."""
        from karpenter.cloud.repair import RepairPolicies
        from karpenter.disruption.plan import plan_disruption

        policies, settings = self.offer.repair_policies, self.settings
        has_time = plan_settings.stopwatch(self.time_budget)
        return plan_disruption(
            *self._cluster,
            settings,
            now=self.now,
            policies=RepairPolicies(policies) if settings.repair else None,
            legacy_policies=self._legacy_policies,
            timer=lambda method: has_time,
        )

    def rebalance(self, percentages: "Sequence[float]") -> "RebalancePreview":
        """What moving these shares of the pods would save."""
        from karpenter.disruption.rebalance.preview import preview_of

        has_time = plan_settings.stopwatch(self.time_budget)
        return preview_of(self.view(), percentages, has_time)

    def static_nodes(self, made: "ProvisioningPlan | None") -> "StaticNodes":
        """What static pools would create and delete according to a plan, with prices."""
        from karpenter.disruption.context import DisruptionContext
        from karpenter.report.static_nodes import StaticNodes, static_nodes

        if made is None or not any(each.create or each.delete for each in made.static):
            return StaticNodes()
        view = DisruptionContext(*self._cluster, self.settings, now=self.now)
        return static_nodes(made, view)

    def view(self, begun: "Sequence[Command]" = ()) -> "DisruptionContext":
        """The cluster as disruption sees it once these commands have begun."""
        from karpenter.cloud.repair import RepairPolicies
        from karpenter.disruption.forecast import DisruptionForecast

        policies = RepairPolicies(self.offer.repair_policies) if self.settings.repair else None
        outlook = DisruptionForecast(
            *self._cluster,
            self.settings,
            now=self.now,
            policies=policies,
            legacy_policies=self._legacy_policies,
        )
        for command in begun:
            outlook.begin(command)
        return outlook.context()


@dataclass(frozen=True, slots=True)
class Source:
    """Where a cluster is to be read, and what machines there are."""

    names: Sequence[str]  # files and folders; none for the cluster of the kubeconfig
    recursive: bool = False
    context: str = ""
    provider: str | None = None
    instance_types: str | None = None
    overlay: Sequence[str] = ()  # manifests to lay over it
    kubeconfig: str = ""  # in place of the one in the environment
    takes_estimates: bool = False  # of a provider that cannot be asked


def question(
    source: Source,
    *,
    assignments: Sequence[str],
    now: str | None,
    time_budget: str | None = None,
) -> Question:
    """Read everything a plan depends on, or end the command with one sentence."""
    moment = plan_settings.moment(now)  # first, so that a wrong value ends the command at once
    seconds = plan_settings.seconds(time_budget)
    settings, gates_are_set = plan_settings.assigned(assignments)
    plan_settings.for_planners(settings)  # validates them before anything is read
    if STANDARD_INPUT in source.names and STANDARD_INPUT in source.overlay:
        output.fail("standard input can be read only once: name - only once")
    if source.names:
        worlds, namespace = _from_files(source, settings), ""
    else:
        worlds, there, namespace = _from_cluster(source, settings)
        moment = there if there is not None and now is None else moment
    asked: Question | None = None
    for snapshot, offer in worlds:
        is_last = snapshot is worlds[-1][0]  # notes are printed once, for the changed cluster
        if is_last:
            _point_out_foreign_pools(snapshot, offer.facts)
        asked = asked_about(
            snapshot,
            offer,
            settings,
            moment,
            gates_are_set=gates_are_set,
            is_said=is_last,
            time_budget=seconds,
            before=asked,
            namespace=namespace,
        )
    assert asked is not None, "there is a cluster to plan for"
    return asked


def asked_about(
    snapshot: "Snapshot",
    offer: CloudOffer,
    settings: "Settings",
    now: datetime,
    *,
    gates_are_set: bool,
    is_said: bool = True,
    **more: Any,
) -> Question:
    """The question that is asked about a cluster.

    Args:
        snapshot: the cluster.
        offer: what the cloud offers to it.
        settings: those of the controller.
        now: the moment to plan for.
        gates_are_set: whether the user sets feature gates; otherwise a cluster that uses one has it.
        is_said: whether to print notes.
        more: the other fields of a question.
    """
    from karpenter.scheduling.inputs.cluster import as_planned

    opened = plan_settings.with_gates_for(
        snapshot, settings, gates_are_set=gates_are_set, is_said=is_said
    )
    planners = plan_settings.for_planners(opened)
    shown = as_planned(snapshot, offer.facts.name, overlays=planners.planning.overlays)
    if is_said:
        _point_out_unusable_overlays(snapshot, shown, offer.facts.name)
    return Question(shown, offer, planners, now, **more)


_World: TypeAlias = "tuple[Snapshot, CloudOffer]"


def _from_files(source: Source, settings: "Settings") -> "list[_World]":
    """The cluster of the files; where something is laid over it, the one with it comes second."""
    from karpenter.inquiry import offline
    from karpenter.inquiry.files import load_cluster

    provider = source.provider or offline.DEFAULT
    if not offline.is_known(provider):
        _find(provider, has_types=source.instance_types is not None)
    if source.context:
        output.fail("--context applies to a live cluster: omit it, or name no files")
    if source.kubeconfig:
        output.fail("--kubeconfig applies to a live cluster: omit it, or name no files")
    left_of = offline.offers(provider, source.instance_types, settings)
    before, after = load_cluster(
        source.names,
        recursive=source.recursive,
        provider=provider,
        change=_change(source, provider),
    )
    snapshots = [before] if after is None else [before, after]
    return [(each, left_of(each)) for each in snapshots]


def _change(source: Source, provider: str) -> "Change | None":
    from karpenter.inquiry.files import load_change

    if not source.overlay:
        return None
    return load_change(source.overlay, recursive=source.recursive, provider=provider)


def _find(provider: str, *, has_types: bool) -> None:
    """End the command where there is no such provider, or its catalogue needs a live cluster."""
    from karpenter.cloud.registry import ProviderError, load_provider

    try:
        load_provider(provider)
    except ProviderError as error:
        output.fail(str(error))
    if has_types:
        return
    output.fail(
        f"what provider {provider} sells is known only where it runs: use --instance-types FILE in"
        " its place, or name no files"
    )


def _from_cluster(
    source: Source, settings: "Settings"
) -> "tuple[list[_World], datetime | None, str]":
    import os

    from karpenter.inquiry import offline
    from karpenter.inquiry.live import BY_NODE_CLASSES, LiveCluster, read_cluster
    from karpenter.scheduling.inputs.cluster import catalogue_of

    left_of = None
    if source.instance_types is not None:
        left_of = offline.offers(offline.DEFAULT, source.instance_types, settings)
    provider = source.provider or os.environ.get("CLOUD_PROVIDER") or BY_NODE_CLASSES
    change = _change(source, provider or offline.DEFAULT)
    with output.progress("reading the cluster"):
        live = read_cluster(
            {**os.environ, **({"KUBECONFIG": source.kubeconfig} if source.kubeconfig else {})},
            context=source.context,
            provider=provider if left_of is None else None,
            settings=settings,
            overlay=change.over if change is not None else None,
            takes_estimates=source.takes_estimates,
        )

    def offer(found: LiveCluster) -> CloudOffer:
        if left_of is not None:
            return left_of(found.snapshot)
        if found.is_simulated:
            return offline.simulated(found.snapshot, settings, found.fault_injection)
        if live.not_asked:
            return replace(offline.simulated(found.snapshot, settings), not_asked=live.not_asked)
        return CloudOffer(catalogue_of(found.types), found.facts, found.repair_policies)

    worlds = [live] if live.changed is None else [live, live.changed]
    return [(each.snapshot, offer(each)) for each in worlds], live.now, live.namespace


def _point_out_unusable_overlays(snapshot: "Snapshot", shown: "Snapshot", provider: str) -> None:
    """Warn about overlays that have no effect, because they are invalid."""
    from karpenter.scheduling.inputs.cluster import overlay_problem

    for name in sorted(snapshot.node_overlays.keys() - shown.node_overlays.keys()):
        problem = overlay_problem(snapshot.node_overlays[name], provider)
        output.warning(f"NodeOverlay {name} applies nowhere: {problem}")


def _point_out_foreign_pools(snapshot: "Snapshot", facts: "ProviderFacts") -> None:
    """When all pools are of another cloud, say how to plan for them."""
    references = [pool.spec.template.spec.node_class_ref for pool in snapshot.node_pools.values()]
    if not references or any(map(facts.serves, references)):
        return
    from karpenter.inquiry import offline

    names = {reference.kind or "no kind" for reference in references}
    option = offline.option_for(names)
    others = f"{option} or " if option else ""
    output.note(
        f"note: pools of class {' and '.join(sorted(names))} need {others}--instance-types FILE, which says what machines"
        f" there are; the provider {facts.name} knows only its own"
    )


def _asked_with(
    files: Files = None,
    filenames: Filenames = None,
    recursive: Recursive = False,
    instance_types: InstanceTypes = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    provider: Provider = None,
    assignments: Assignments = None,
    now: Now = None,
    **more: Any,
) -> Question:
    """Read the cluster that the arguments and options of a command name."""
    names = [*(files or ()), *(filenames or ())]
    overlay = more.pop("overlay", ())
    source = Source(names, recursive, context, provider, instance_types, overlay, kubeconfig)
    stated = (*(assignments or ()), *more.pop("more_assignments", ()))
    return question(source, assignments=stated, now=now, **more)


def asking(command: Callable[Concatenate[Callable[..., Question], P], None]) -> Callable[..., None]:
    """Give a command the options that name a cluster; it is read when the command asks for it.

    An argument without a default stays in front of them.
    """
    *shared, _ = inspect.signature(_asked_with).parameters.values()
    own = list(inspect.signature(command).parameters.values())[1:]
    first = [each for each in own if each.default is inspect.Parameter.empty]

    @wraps(command)
    def with_options(*args: P.args, **given: P.kwargs) -> None:
        options = {each.name: given.pop(each.name) for each in shared}
        command(partial(_asked_with, **options), *args, **given)  # type: ignore[arg-type]

    every = (*first, *shared, *(each for each in own if each not in first))
    with_options.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in every}
    return with_options
