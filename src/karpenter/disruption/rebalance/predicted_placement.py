"""Whether kube-scheduler would undo a rebalance, since it decides where the moved pods go.

The moved pods are placed by a model of kube-scheduler on the machines that will be there: those
that stay, and the replacements, initialized and empty. That is done in the order of the plan and in
reverse, because the order in which evicted pods come back is unknown. A move is refused when in
either order a pod finds no place, a replacement stays empty, or single-node consolidation would
find a saving on a replacement as soon as it looks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Condition
from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.cloud.types import InstanceType
from karpenter.disruption.commands import SINGLE, Command
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.methods.consolidation import Consolidation
from karpenter.disruption.projected_state import ProjectedState
from karpenter.disruption.rebalance.scheduler_model import SchedulerModel
from karpenter.disruption.rebalance.scheduler_rules import Place, SchedulerRules, SpreadRules
from karpenter.model.conditions import CONSOLIDATABLE, INITIALIZED, LAUNCHED, REGISTERED, TRUE
from karpenter.model.labels import HOSTNAME, ZONE
from karpenter.model.resources import NO_RESOURCES
from karpenter.scheduling.compiled.existing_nodes import machine_requirements
from karpenter.scheduling.inputs.daemons import Daemon, reserve_on
from karpenter.scheduling.inputs.default_spread import default_spread
from karpenter.scheduling.plan import Plan
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot

# What kube-scheduler gives to pods without constraints unless it is configured otherwise
_BUILT_IN_SPREAD: Final = tuple(
    TopologySpreadConstraint(max_skew, key, "ScheduleAnyway")
    for key, max_skew in ((HOSTNAME, 3), (ZONE, 5))
)
_SETTLED: Final = (LAUNCHED, REGISTERED, INITIALIZED, CONSOLIDATABLE)


def objection(view: DisruptionContext, command: Command) -> str:
    """Why kube-scheduler would undo a command, as a sentence; empty when it would not."""
    going = frozenset(command.names)
    pods = _moved(view, command)
    state = _without(view, going)
    known = {machine.name for machine in state.snapshot.nodes}
    state.carry_out(Plan(claims=tuple(replace(claim, pods=()) for claim in command.replacements)))
    made = [machine.name for machine in state.snapshot.nodes if machine.name not in known]
    if len(made) < len(command.replacements):
        return "a replacement could not be launched as planned"
    rules = _rules(view, state.snapshot, pods)
    kinds = dict(
        zip(made, (c.launch.instance_type for c in command.replacements if c.launch), strict=True)
    )
    model = SchedulerModel(rules)
    seen: list[Mapping[str, str]] = []
    for order in (pods, list(reversed(pods))):
        placed = model.placed(order)
        if placed in seen:
            continue
        seen.append(placed)
        problem = _problem(view, state.snapshot, placed, kinds)
        if problem:
            return problem
    return ""


def _moved(view: DisruptionContext, command: Command) -> list[Pod]:
    """The pods that come back, in the order of the plan."""
    order = [pod for claim in command.replacements for pod in claim.pods]
    order += [pod for _, pods in sorted(command.placements.items()) for pod in pods]
    held = view.snapshot.pods
    return [held[name] for name in dict.fromkeys(order) if name in held]


def _without(view: DisruptionContext, going: frozenset[str]) -> ProjectedState:
    nodes = tuple(machine for machine in view.snapshot.nodes if machine.name not in going)
    types = {name: tuple(known.values()) for name, known in view.inspection.types.items()}

    def catalogue(pool: NodePool) -> tuple[InstanceType, ...]:
        return types.get(pool.metadata.name, ())

    return ProjectedState(replace(view.snapshot, nodes=nodes), view.facts, catalogue)


def _rules(view: DisruptionContext, after: Snapshot, pods: Sequence[Pod]) -> SchedulerRules:
    problem, _ = view.ground.problem(pods)
    configured = view.settings.planning.default_constraints
    given = default_spread(pods, configured or _BUILT_IN_SPREAD, view.snapshot)

    def spread_of(pod: Pod) -> SpreadRules:
        stated = pod.spec.topology_spread_constraints
        if stated:
            return SpreadRules(stated)
        # the built-in constraints count nodes without a zone too, those of a configuration do not
        return SpreadRules(given.get(pod.metadata.uid, ()), needs_labels=bool(configured))

    return SchedulerRules(
        [_place(machine, problem.daemons) for machine in after.nodes if _takes_pods(machine)],
        pods,
        spread_of=spread_of,
        volumes_of=lambda pod: (
            problem.volumes[pod.metadata.uid].alternatives
            if pod.metadata.uid in problem.volumes
            else ()
        ),
        namespaces=problem.namespaces,
    )


def _takes_pods(machine: StateNode) -> bool:
    """Whether pods that come back soon may go there."""
    return machine.node is not None and machine.is_initialized and not machine.is_deleting


def _place(machine: StateNode, daemons: Sequence[Daemon]) -> Place:
    reserved = NO_RESOURCES
    if machine.is_managed:
        requirements = machine_requirements(machine.labels, machine.hostname)
        reserved = reserve_on(machine, requirements, daemons)
    return Place(
        name=machine.name,
        labels={**machine.labels, HOSTNAME: machine.hostname},
        taints=machine.taints,
        allocatable=machine.allocatable,
        pods=machine.pods,
        requested=machine.requested,
        reserved=reserved,
        is_unschedulable=machine.node is not None and machine.node.spec.unschedulable,
    )


def _problem(
    view: DisruptionContext,
    after: Snapshot,
    placed: Mapping[str, str],
    kinds: Mapping[str, str],
) -> str:
    """What is wrong with where pods would go; ``kinds`` are the replacements with their types."""
    homeless = sorted(pod for pod, place in placed.items() if not place)
    if homeless:
        more = f" and {len(homeless) - 1} more" if len(homeless) > 1 else ""
        return f"kube-scheduler would place the pods so that {homeless[0]}{more} finds no room"
    by_place: dict[str, list[str]] = {}
    for pod, place in placed.items():
        by_place.setdefault(place, []).append(pod)
    for name, kind in kinds.items():
        if name not in by_place:
            return f"kube-scheduler would leave a replacement ({kind}) empty"
    for name, saving in _single_finds(view, after, by_place, frozenset(kinds)):
        return (
            "kube-scheduler would place the pods so that consolidation saves"
            f" ${saving:.4f}/h on a replacement ({kinds[name]}) at once"
        )
    return ""


def _single_finds(
    view: DisruptionContext,
    after: Snapshot,
    by_place: Mapping[str, Sequence[str]],
    replacements: frozenset[str],
) -> Iterable[tuple[str, float]]:
    """Yield replacements that single-node consolidation would remove, with what that saves."""
    state = ProjectedState(after, view.facts, lambda pool: ())
    state.carry_out(Plan(existing={name: tuple(pods) for name, pods in by_place.items()}))
    settled = replace(
        state.snapshot,
        nodes=tuple(
            _settled(machine) if machine.name in replacements else machine
            for machine in state.snapshot.nodes
        ),
    )
    consolidation = Consolidation(view.over(settled), only=replacements)
    for candidate in consolidation.candidates:
        found = consolidation.command(SINGLE, [candidate])
        if isinstance(found, Command):
            found, _ = consolidation.judged(found)
        if isinstance(found, Command) and found.savings > 0:
            yield candidate.name, found.savings


def _settled(machine: StateNode) -> StateNode:
    """A replacement whose pods have stopped changing."""
    claim = machine.node_claim
    assert claim is not None
    conditions = tuple(Condition(type=kind, status=TRUE) for kind in _SETTLED)
    status = msgspec.structs.replace(claim.status, conditions=conditions)
    return replace(machine, node_claim=msgspec.structs.replace(claim, status=status))
