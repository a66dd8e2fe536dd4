"""What would happen if: the plan without and with a change, and how they differ.

Both plans are made by the planners that make every plan, for a cluster that exists in memory only.
Nodes that are drained count as if their deletion had been asked for: their pods need other places,
but for those that a PDB or an annotation holds, which are named.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Resource
from karpenter.api.node_classes import NodeClass
from karpenter.api.pods import Pod
from karpenter.dashboard.answers.change import changed
from karpenter.dashboard.answers.world import World
from karpenter.dashboard.contract import Difference, WhatIfRequest
from karpenter.disruption.candidates import Inspection
from karpenter.disruption.commands import Command
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.costs import price_of
from karpenter.inquiry.plans import Plans
from karpenter.model.conditions import DRIFTED
from karpenter.report import difference
from karpenter.report.difference import NOWHERE, Planned
from karpenter.report.nodepool_explanation import pool_document
from karpenter.report.provisioning import claim_document
from karpenter.scheduling.plan import PlannedClaim
from karpenter.state.departing_pods import is_protected, is_reschedulable, protection_in_words
from karpenter.state.object_keys import key_of
from karpenter.state.pods import is_active, is_bound
from karpenter.state.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a what-if, before it is said when it was made."""

    before: dict[str, Any]
    after: dict[str, Any]
    diff: Difference
    held: list[dict[str, Any]]
    drifted: list[str]
    pools: list[dict[str, Any]]
    is_partial: bool


def what_if(world: World, request: WhatIfRequest, before: Plans, seconds: float | None) -> Outcome:
    """Plan for a cluster with a change.

    Args:
        world: the cluster as it is.
        request: the change.
        before: the plans for the cluster as it is.
        seconds: how long planning may take; None for as long as it needs.

    Raises:
        BadQuestionError: something is wrong with the change.
        TooLargeError: it is too much.
    """
    other, applied = changed(world, request)
    after = Plans(other.asked(seconds))
    was, is_now = before.document(), after.document()
    drained = sorted(other.going)
    changes_pools = any(isinstance(each, NodePool | NodeClass) for each in applied)
    view = before.asked.view() if drained or changes_pools else None
    drifted = _drifted(after.asked.view()) if changes_pools else set()
    return Outcome(
        before=was,
        after=is_now,
        diff=_difference(
            before,
            after,
            _prices(view, drained) if view is not None else {},
            is_estimate=view is not None and _rests_on_estimates(view, drained),
        ),
        held=list(_held(view.inspection, drained)) if view is not None else [],
        drifted=sorted(drifted - _drifted(view)) if view is not None else [],
        pools=[pool_document(after.pool(name)) for name in _pools(applied)],
        is_partial=before.is_partial or after.is_partial,
    )


def _pools(applied: Iterable[Resource]) -> list[str]:
    return sorted({each.metadata.name for each in applied if isinstance(each, NodePool)})


def _drifted(view: DisruptionContext) -> set[str]:
    return {each.name for each in view.snapshot.nodes if each.has_condition(DRIFTED)}


def _held(inspection: Inspection, drained: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The pods of drained nodes that are not evicted now, and why."""
    for name in drained:
        machine = inspection.snapshot.node(name)
        for pod in sorted(machine.pods if machine is not None else (), key=key_of):
            if not is_reschedulable(pod):
                continue
            if is_active(pod) and is_protected(pod, now=inspection.now):
                yield {"pod": key_of(pod), "pdb": "", "detail": protection_in_words(pod)}
            elif detail := inspection.held_by(pod):
                matching = inspection.pdbs.matching(pod)
                yield {"pod": key_of(pod), "pdb": key_of(matching[0]), "detail": detail}


def _prices(view: DisruptionContext, names: Iterable[str]) -> dict[str, float | None]:
    """The prices of some nodes, in dollars an hour."""
    types = view.inspection.types
    machines = {name: view.snapshot.node(name) for name in names}
    return {
        name: price_of(machine, types.get(machine.node_pool, {})) if machine is not None else None
        for name, machine in machines.items()
    }


def _rests_on_estimates(view: DisruptionContext, names: Iterable[str]) -> bool:
    """Whether the price of one of some nodes is an estimate."""
    machines = (view.snapshot.node(name) for name in names)
    return any(view.inspection.described(each).is_estimate for each in machines if each is not None)


def _difference(
    before: Plans, after: Plans, drained: Mapping[str, float | None], *, is_estimate: bool
) -> Difference:
    was = Planned(before.asked.snapshot, before.made, before.removed, before.static)
    is_now = Planned(after.asked.snapshot, after.made, after.removed, after.static)
    gone = {each.name for each in was.snapshot.nodes} - {e.name for e in is_now.snapshot.nodes}
    places = dict(_places(was)), dict(_places(is_now))
    moved, unplaced, placed = _pods(was.snapshot, is_now.snapshot, *places)
    return Difference(
        nodes_added=[claim_document(claim) for claim in _added(was, is_now)],
        nodes_removed=sorted(((is_now.going | gone) - was.going).union(drained)),
        pods_moved=moved,
        pods_unplaced=unplaced,
        pods_placed=placed,
        hourly=_hourly(difference.Difference(was, is_now), drained.values()),
        is_estimate=was.is_estimate or is_now.is_estimate or is_estimate,
    )


def _hourly(found: difference.Difference, saved: Iterable[float | None]) -> float | None:
    """What carrying out both the change and its plan costs more an hour."""
    more = found.hourly_change
    for price in saved:
        if price is None or more is None:
            return None
        more -= price
    return more


def _claims(planned: Planned) -> list[PlannedClaim]:
    replacements = (claim for command in planned.commands for claim in command.replacements)
    return [*planned.claims, *replacements]


def _added(was: Planned, is_now: Planned) -> Iterator[PlannedClaim]:
    """The nodes that only the later plan creates; those for the same pods are the same ones."""
    known = Counter(map(_likeness, _claims(was)))
    rest = []
    for claim in _claims(is_now):
        if known[_likeness(claim)]:
            known[_likeness(claim)] -= 1
        else:
            rest.append(claim)
    left = Counter(model for likeness, count in known.items() for model in [likeness[:-1]] * count)
    for claim in rest:
        model = _likeness(claim)[:-1]
        if left[model]:
            left[model] -= 1
        else:
            yield claim


def _likeness(claim: PlannedClaim) -> tuple[object, ...]:
    launch = claim.launch
    model = (launch.instance_type, launch.zone, launch.capacity_type) if launch else ()
    return claim.node_pool, model, tuple(sorted(claim.pods))


def _places(planned: Planned) -> Iterator[tuple[str, str]]:
    """Where pods would go: those that wait, and those that a command moves."""
    for command in planned.commands:
        yield from _moved_by(command)
    yield from planned.places.items()


def _moved_by(command: Command) -> Iterator[tuple[str, str]]:
    own = {key_of(pod) for candidate in command.candidates for pod in candidate.movable}
    for node, pods in command.placements.items():
        yield from ((pod, f"Node/{node}") for pod in pods if pod in own)
    for claim in command.replacements:
        yield from ((pod, f"NodePool/{claim.node_pool}") for pod in claim.pods if pod in own)


def _pods(
    before: Snapshot, after: Snapshot, was: dict[str, str], is_now: dict[str, str]
) -> tuple[list[str], list[str], list[str]]:
    """The pods that move, lose their place, and find one, only with the change."""
    moved, unplaced, placed = [], [], []
    for key, place in sorted(is_now.items()):
        if key in was and was[key] == place:
            continue
        had_place = _is_at_home(before.pods.get(key)) or was.get(key, NOWHERE) != NOWHERE
        if place == NOWHERE:
            if had_place or key not in before.pods:
                unplaced.append(key)
        elif _is_at_home(after.pods.get(key)):
            moved.append(key)
        elif not had_place:
            placed.append(key)
    return moved, unplaced, placed


def _is_at_home(pod: Pod | None) -> bool:
    return pod is not None and is_bound(pod)
