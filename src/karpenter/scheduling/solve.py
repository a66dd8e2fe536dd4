"""The entry point of the solver: a problem in, a plan out.

Only ``solve`` compares packings: it keeps the first of those that leave the fewest pods unplaced.
Usually Karpenter's is the only one.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from karpenter.api.pods import Pod
from karpenter.scheduling.bound import lower_bound
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompileBudget, CompiledProblem
from karpenter.scheduling.devices.protocol import IGNORING_DEVICES, Devices
from karpenter.scheduling.packing.joining import Joining
from karpenter.scheduling.packing.packer import Packer, Packing
from karpenter.scheduling.packing.reservations import Reservations
from karpenter.scheduling.plan import Plan, PlannedClaim, Reason, Unplaced, Why
from karpenter.scheduling.problem import Problem
from karpenter.scheduling.reasons.pool_refusals import Diagnosis, nothing_offered
from karpenter.scheduling.result import ClaimWriter
from karpenter.state.pods import key_of

HasTime = Callable[[], bool]
Witness = Callable[[CompiledProblem, "Attempt"], None]


def always() -> bool:
    """There is time."""
    return True


@dataclass(frozen=True, slots=True)
class Attempt:
    """One packing of a problem's pods, with what is needed to look back at it."""

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
        last: uids of pods that come after all others, such as those not created so far.
    """
    if not problem.pools:
        return _without_pools(problem)
    compiled = CompiledProblem(problem, compiler, CompileBudget(has_time, first))
    found = list(_packings(compiled, has_time, first, last))
    attempt, plan = min(found, key=lambda each: each[1].left_out)
    if witness is not None:
        witness(compiled, attempt)
    return plan


def _without_pools(problem: Problem) -> Plan:
    """Leave every pod as it is; machines that exist are not tried either."""
    reason = Reason("", Why.NO_POOLS, "no dynamic node pool is ready")
    names = sorted(key_of(pod) for pod in problem.pods)
    return Plan(unplaced=tuple(Unplaced(name, (reason,)) for name in names))


def _packings(
    compiled: CompiledProblem, has_time: HasTime, first: Sequence[str], last: Collection[str]
) -> Iterator[tuple[Attempt, Plan]]:
    """Yield the packings to choose from, each with the plan it makes.

    A claim for the best domain of a spread may use up limits or reservations that another pod would
    have needed, so where pods are left out it is tried whether more fit on fewer claims.
    """
    attempt = pack(compiled, has_time, first, last=last)
    plan = _plan(compiled, attempt)
    yield attempt, plan
    if plan.left_out and attempt.packing.has_insisted and has_time():
        attempt = pack(compiled, has_time, first, insists=False, last=last)
        yield attempt, _plan(compiled, attempt)


def pack(
    compiled: CompiledProblem,
    has_time: HasTime = always,
    first: Sequence[str] = (),
    *,
    insists: bool = True,
    last: Collection[str] = (),
) -> Attempt:
    """Place the pods of a compiled problem greedily, in Karpenter's order.

    ``insists`` says whether a claim for the best domain of a spread goes before a runner-up.
    """
    problem = compiled.problem
    options = problem.options
    reservations = None
    if options.reserved_capacity:
        reservations = Reservations(
            (template.universe for template in compiled.templates),
            strict=options.strict_reservations,
            credits=options.reservation_credits,
        )
    joining = Joining(
        compiled.remaining_limits(),
        reservations,
        best_effort_min_values=options.best_effort_min_values,
        devices=devices_for(compiled, compiled.classes),
    )
    states = compiled.states()
    packer = Packer(
        compiled.nodes,
        compiled.templates,
        states,
        joining,
        compiled.classes,
        topology_keys=compiled.topology_keys,
        without_nodes=compiled.leaving_nodes,
        custom_labels=compiled.custom_labels,
        insists=insists,
    )
    order = pod_order(problem.pods, compiled.class_of, first, last)
    packing = packer.pack(order, compiled.class_of, has_time)
    well_known = problem.facts.well_known_labels
    return Attempt(packing, Diagnosis(compiled.templates, states, joining, well_known))


def devices_for(compiled: CompiledProblem, classes: Iterable[PodClass]) -> Devices:
    """What gives devices to pods of these classes."""
    if compiled.problem.options.ignore_device_claims or not any(
        pod_class.uses_devices for pod_class in classes
    ):
        return IGNORING_DEVICES
    # Few clusters have devices, and starting a command should not cost more for them
    from karpenter.scheduling.devices.allocator import DeviceAllocator

    return DeviceAllocator(compiled)


def pod_order(
    pods: Sequence[Pod],
    class_of: Sequence[PodClass],
    first: Sequence[str] = (),
    last: Collection[str] = (),
) -> list[int]:
    """The order in which pods are tried: largest cpu, then memory, then oldest, then by uid.

    Pods that are costly to plan for come after all others, in the same order. A pod that is
    not created yet, such as a virtual pod of a buffer, is the youngest. Names order pods without
    a uid, so that the order of the input never matters.
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


def _plan(compiled: CompiledProblem, attempt: Attempt) -> Plan:
    problem = compiled.problem
    packing = attempt.packing
    names = [key_of(pod) for pod in problem.pods]
    claims: list[PlannedClaim] = []
    unplaced = _unplaced(compiled, attempt, names)
    served: list[int] = []  # pods on nodes to be bought
    writer = ClaimWriter(problem.facts, problem.options)
    for claim in packing.claims:
        template = compiled.templates[claim.template]
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
        existing=_existing(compiled, packing, names),
        unplaced=tuple(sorted(unplaced, key=lambda entry: entry.pod)),
        deferred=tuple(sorted(names[p] for p in packing.deferred)),
        unevaluated=(*(names[p] for p in packing.unevaluated), *map(key_of, compiled.left_out)),
        costly=_costly(compiled),
        empty_pools=_empty_pools(compiled),
        hourly_cost=sum(claim.launch.price for claim in claims if claim.launch),
        least_cost=lambda: _least_cost(compiled, served),
    )


def _costly(compiled: CompiledProblem) -> dict[str, str]:
    found: list[Pod] = []
    if any(pod_class.is_costly for pod_class in compiled.classes):
        everybody = zip(compiled.problem.pods, compiled.class_of, strict=True)
        found = [pod for pod, pod_class in everybody if pod_class.is_costly]
    efforts = ((pod, compiled.effort(pod)) for pod in (*found, *compiled.left_out))
    costly = {key_of(pod): str(effort) for pod, effort in efforts if effort is not None}
    return dict(sorted(costly.items()))


def _least_cost(compiled: CompiledProblem, served: Iterable[int]) -> float:
    classes = Counter(compiled.class_of[position] for position in served)
    # a pod may go to a pool without its label, once another pod has made a claim define it
    undefined = compiled.problem.facts.well_known_labels | compiled.custom_labels
    return lower_bound(compiled.templates, classes, undefined)


def _existing(
    compiled: CompiledProblem, packing: Packing, names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, positions in sorted(packing.on_nodes.items()):
        name = compiled.nodes.targets[number].name  # a Node and a NodeClaim may share it
        found[name] = (*found.get(name, ()), *(names[p] for p in positions))
    return found


def _unplaced(compiled: CompiledProblem, attempt: Attempt, names: Sequence[str]) -> list[Unplaced]:
    reasons: dict[int, tuple[Reason, ...]] = {}  # class -> why no pool takes it
    found = []
    for position in attempt.packing.failed:
        pod_class = compiled.class_of[position]
        if pod_class.number not in reasons:
            reasons[pod_class.number] = attempt.diagnosis.reasons(pod_class)
        found.append(Unplaced(names[position], reasons[pod_class.number]))
    return found


def _empty_pools(compiled: CompiledProblem) -> tuple[Reason, ...]:
    found = []
    for template in compiled.templates:
        if not template.offered:
            found.append(Reason(template.name, *nothing_offered(template)))
            continue
        short = template.shortfalls(template.requirements, template.offered)
        if short and not compiled.problem.options.best_effort_min_values:
            detail = "; ".join(str(shortfall) for shortfall in short)
            found.append(Reason(template.name, Why.MIN_VALUES, detail))
    return tuple(found)
