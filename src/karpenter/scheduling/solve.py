"""The solver's front door: a problem in, a plan out.

Exactly one place compares packings: ``solve`` keeps the first of those that leave the fewest pods
behind. Mostly there is Karpenter's alone.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from karpenter.api.pods import Pod
from karpenter.scheduling.bound import lower_bound
from karpenter.scheduling.classes import PodClass
from karpenter.scheduling.compiler import Compiler
from karpenter.scheduling.devices.protocol import IGNORING_DEVICES, Devices
from karpenter.scheduling.joining import Joining
from karpenter.scheduling.packing import Packer, Packing
from karpenter.scheduling.plan import Plan, PlannedClaim, Reason, Unplaced, Why
from karpenter.scheduling.problem import Problem
from karpenter.scheduling.reasons import Diagnosis, nothing_offered
from karpenter.scheduling.reservations import Reservations
from karpenter.scheduling.result import ClaimWriter
from karpenter.scheduling.world import Haste, World
from karpenter.state.pods import key_of

HasTime = Callable[[], bool]
Witness = Callable[[World, "Attempt"], None]


def always() -> bool:
    """There is time."""
    return True


@dataclass(frozen=True, slots=True)
class Attempt:
    """One packing of a world's pods, with what is needed to look back at it."""

    packing: Packing
    diagnosis: Diagnosis


def solve(
    problem: Problem,
    has_time: HasTime = always,
    first: Sequence[str] = (),
    compiler: Compiler | None = None,
    witness: Witness | None = None,
    *,
    last: Collection[str] = (),
) -> Plan:
    """Plan where the pods of a problem go.

    Args:
        has_time: asked now and then, while compiling too; once it says no, pods whose turn has
            not come are reported as not evaluated.
        first: uids of pods to begin with, in this order: those the last pass did not come to.
        compiler: what was compiled for earlier passes, to be used again.
        witness: is shown the packing that the plan was made from, to look back at it.
        last: uids of pods that come after all others, such as those nobody has created so far.
    """
    if not problem.pools:
        return _without_pools(problem)
    world = World(problem, compiler, Haste(has_time, first))
    found = list(_packings(world, has_time, first, last))
    attempt, plan = min(found, key=lambda each: each[1].left_out)
    if witness is not None:
        witness(world, attempt)
    return plan


def _without_pools(problem: Problem) -> Plan:
    """Leave every pod as it is; machines that exist are not tried either."""
    reason = Reason("", Why.NO_POOLS, "no dynamic node pool is ready")
    names = sorted(key_of(pod) for pod in problem.pods)
    return Plan(unplaced=tuple(Unplaced(name, (reason,)) for name in names))


def _packings(
    world: World, has_time: HasTime, first: Sequence[str], last: Collection[str]
) -> Iterator[tuple[Attempt, Plan]]:
    """Yield the packings to choose from, each with the plan it makes.

    A claim for the best domain of a spread may use up limits or reservations that another pod would
    have needed, so where pods are left out it is tried whether more fit on fewer claims.
    """
    attempt = pack(world, has_time, first, last=last)
    plan = _plan(world, attempt)
    yield attempt, plan
    if plan.left_out and attempt.packing.has_insisted and has_time():
        attempt = pack(world, has_time, first, insists=False, last=last)
        yield attempt, _plan(world, attempt)


def pack(
    world: World,
    has_time: HasTime = always,
    first: Sequence[str] = (),
    *,
    insists: bool = True,
    last: Collection[str] = (),
) -> Attempt:
    """Place the pods of a world's problem greedily, in Karpenter's order.

    ``insists`` says whether a claim for the best domain of a spread goes before a runner-up.
    """
    problem = world.problem
    options = problem.options
    reservations = None
    if options.reserved_capacity:
        reservations = Reservations(
            (template.universe for template in world.templates),
            strict=options.strict_reservations,
            credits=options.reservation_credits,
        )
    joining = Joining(
        world.remaining_limits(),
        reservations,
        best_effort_min_values=options.best_effort_min_values,
        devices=devices_for(world, world.classes),
    )
    states = world.states()
    packer = Packer(
        world.nodes,
        world.templates,
        states,
        joining,
        world.classes,
        topology_keys=world.topology_keys,
        without_nodes=world.leaving_nodes,
        told_labels=world.told_labels,
        insists=insists,
    )
    order = pod_order(problem.pods, world.class_of, first, last)
    packing = packer.pack(order, world.class_of, has_time)
    well_known = problem.facts.well_known_labels
    return Attempt(packing, Diagnosis(world.templates, states, joining, well_known))


def devices_for(world: World, classes: Iterable[PodClass]) -> Devices:
    """What gives devices to pods of these classes."""
    if world.problem.options.ignore_device_claims or not any(
        pod_class.uses_devices for pod_class in classes
    ):
        return IGNORING_DEVICES
    # Few clusters have devices, and starting a command should not cost more for them
    from karpenter.scheduling.devices.allocator import DeviceAllocator

    return DeviceAllocator(world)


def pod_order(
    pods: Sequence[Pod],
    class_of: Sequence[PodClass],
    first: Sequence[str] = (),
    last: Collection[str] = (),
) -> list[int]:
    """The order in which pods are tried: largest cpu, then memory, then oldest, then by uid.

    Pods that are costly to plan for come after all others, in the same order. A pod that nobody has
    created yet, such as one that stands for spare room, is the youngest. Names tell apart what has
    no uid, so that the order the pods come in never matters.
    """
    # sorting is stable, so it is done once for each key, the last one to decide first; keys that
    # are one number or text each sort several times as fast as tuples
    metas = [pod.metadata for pod in pods]
    uids = [meta.uid for meta in metas]
    order = list(range(len(pods)))
    if len(set(uids)) < len(uids):
        order.sort(key=lambda position: (metas[position].namespace, metas[position].name))
    order.sort(key=uids.__getitem__)
    created = [meta.creation_timestamp for meta in metas]
    if any(created):
        ages = [moment.timestamp() if moment else math.inf for moment in created]
        order.sort(key=ages.__getitem__)
    sizes = _ranks_by_size(class_of)
    order.sort(key=sizes.__getitem__)
    if first:
        place = {uid: number for number, uid in enumerate(first)}
        order.sort(key=lambda n: (class_of[n].is_costly, place.get(uids[n], len(place))))
    if last:
        order.sort(key=lambda n: uids[n] in last)
    return order


def _ranks_by_size(class_of: Sequence[PodClass]) -> list[int]:
    """A number for each pod: the larger the pod, the lower, and highest for costly ones."""
    sizes = {c.number: (c.is_costly, -c.requests.cpu, -c.requests.memory) for c in class_of}
    ranks = {size: rank for rank, size in enumerate(sorted(set(sizes.values())))}
    rank_of = {number: ranks[size] for number, size in sizes.items()}
    return [rank_of[c.number] for c in class_of]


def _plan(world: World, attempt: Attempt) -> Plan:
    problem = world.problem
    packing = attempt.packing
    names = [key_of(pod) for pod in problem.pods]
    claims: list[PlannedClaim] = []
    unplaced = _unplaced(world, attempt, names)
    served: list[int] = []  # pods on nodes to be bought
    writer = ClaimWriter(problem.facts, problem.options)
    for claim in packing.claims:
        template = world.templates[claim.template]
        pods = [names[position] for position in claim.members]
        planned = writer.planned(template, claim, pods)
        if isinstance(planned, PlannedClaim):
            claims.append(planned)
            served += claim.members if planned.launch is not None else ()
            continue
        detail = "; ".join(str(shortfall) for shortfall in planned)
        reason = Reason(template.name, Why.MIN_VALUES, detail)
        unplaced += [Unplaced(pod, (reason,)) for pod in pods]
    return Plan(
        claims=tuple(claims),
        existing=_existing(world, packing, names),
        unplaced=tuple(sorted(unplaced, key=lambda entry: entry.pod)),
        deferred=tuple(sorted(names[p] for p in packing.deferred)),
        unevaluated=(*(names[p] for p in packing.unevaluated), *map(key_of, world.left_out)),
        costly=_costly(world),
        empty_pools=_empty_pools(world),
        hourly_cost=sum(claim.launch.price for claim in claims if claim.launch),
        least_cost=lambda: _least_cost(world, served),
    )


def _costly(world: World) -> dict[str, str]:
    found: list[Pod] = []
    if any(pod_class.is_costly for pod_class in world.classes):
        everybody = zip(world.problem.pods, world.class_of, strict=True)
        found = [pod for pod, pod_class in everybody if pod_class.is_costly]
    efforts = ((pod, world.effort(pod)) for pod in (*found, *world.left_out))
    told = {key_of(pod): str(effort) for pod, effort in efforts if effort is not None}
    return dict(sorted(told.items()))


def _least_cost(world: World, served: Iterable[int]) -> float:
    classes = Counter(world.class_of[position] for position in served)
    # a pod may go to a pool that does not define its label, where another one tells a claim of it
    undefined = world.problem.facts.well_known_labels | world.told_labels
    return lower_bound(world.templates, classes, undefined)


def _existing(world: World, packing: Packing, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, positions in sorted(packing.on_nodes.items()):
        name = world.nodes.targets[number].name  # a Node and a NodeClaim may share it
        found[name] = (*found.get(name, ()), *(names[p] for p in positions))
    return found


def _unplaced(world: World, attempt: Attempt, names: Sequence[str]) -> list[Unplaced]:
    reasons: dict[int, tuple[Reason, ...]] = {}  # class -> why no pool takes it
    found = []
    for position in attempt.packing.failed:
        pod_class = world.class_of[position]
        if pod_class.number not in reasons:
            reasons[pod_class.number] = attempt.diagnosis.reasons(pod_class)
        found.append(Unplaced(names[position], reasons[pod_class.number]))
    return found


def _empty_pools(world: World) -> tuple[Reason, ...]:
    found = []
    for template in world.templates:
        if not template.offered:
            found.append(Reason(template.name, *nothing_offered(template)))
            continue
        short = template.shortfalls(template.requirements, template.offered)
        if short and not world.problem.options.best_effort_min_values:
            detail = "; ".join(str(shortfall) for shortfall in short)
            found.append(Reason(template.name, Why.MIN_VALUES, detail))
    return tuple(found)
