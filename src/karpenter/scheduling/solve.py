"""The entry point of the solver: a problem in, a plan out.

Only ``solve`` compares packings: it keeps the first of those that leave the fewest pods unplaced.
Usually Karpenter's is the only one.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from karpenter.api.pods import Pod
from karpenter.scheduling.attempt import Attempt, HasTime, always, pack
from karpenter.scheduling.bound import FreeRoom, lower_bound
from karpenter.scheduling.cheapest.pool_markets import wants_cheapest
from karpenter.scheduling.commitments import Use
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompileBudget, CompiledProblem
from karpenter.scheduling.packing.packer import Packing
from karpenter.scheduling.plan import (
    Bound,
    Plan,
    PlannedClaim,
    Reason,
    Unplaced,
    Why,
    with_coverage,
)
from karpenter.scheduling.problem import Problem
from karpenter.scheduling.reasons.pool_refusals import nothing_offered
from karpenter.scheduling.result import ClaimWriter
from karpenter.scheduling.spot.pool_ratio import RatioRule, ratio_outcomes
from karpenter.state.pods import key_of

_MOST_STAGES: Final = 16  # stages of a class that are checked one by one
_ROUNDED_UP: Final = 1 + 1e-9  # covers rounding errors of floats
Witness = Callable[[CompiledProblem, "Attempt"], None]


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
        has_time: the deadline check, called now and then, while compiling too; once it is false,
            the remaining pods are reported as not evaluated.
        first: uids of pods to begin with, in this order: those the last pass did not evaluate.
        compiler: the cache of earlier passes.
        witness: is called with the packing that the plan was made from, for diagnosis.
        last: uids of pods that come after all others, such as those not created so far.
    """
    if not problem.pools:
        return _without_pools(problem)
    compiled = CompiledProblem(problem, compiler, CompileBudget(has_time, first))
    found = list(_packings(compiled, has_time, first, last))
    attempt, plan = min(found, key=lambda each: each[1].left_out)
    if wants_cheapest(compiled):
        insists = attempt is found[0][0]
        attempt, plan = _cheapest(compiled, attempt, plan, has_time, insists=insists)
    if witness is not None:
        witness(compiled, attempt)
    return plan


def _cheapest(
    compiled: CompiledProblem, attempt: Attempt, plan: Plan, has_time: HasTime, *, insists: bool
) -> tuple[Attempt, Plan]:
    # Imported on demand: few clusters are packed by price, and the import slows a command's start
    from karpenter.scheduling.cheapest.candidates import choose

    ledger = compiled.problem.ledger
    return choose(
        compiled,
        attempt,
        plan,
        lambda made: _plan(compiled, made),
        has_time,
        insists=insists,
        balance=ledger.balance() if ledger is not None else None,
    )


def _without_pools(problem: Problem) -> Plan:
    """The plan without pools: every pod is unplaced; machines that exist are not tried either."""
    reason = Reason("", Why.NO_POOLS, "no dynamic node pool is ready")
    names = sorted(key_of(pod) for pod in problem.pods)
    return Plan(unplaced=tuple(Unplaced(name, (reason,)) for name in names))


def _packings(
    compiled: CompiledProblem, has_time: HasTime, first: Sequence[str], last: Collection[str]
) -> Iterator[tuple[Attempt, Plan]]:
    """Yield the packings to choose from, each with the plan it makes.

    A claim for the best domain of a spread may use up limits or reservations that another pod
    needs, so where pods are left out, a second packing allows runner-up domains.
    """
    attempt = pack(compiled, has_time, first, last=last)
    ratios = RatioRule()
    ratios.pin(compiled, attempt.packing.claims)
    plan = _plan(compiled, attempt)
    yield attempt, plan
    if plan.left_out and attempt.packing.has_insisted and has_time():
        attempt = pack(compiled, has_time, first, insists=False, last=last)
        ratios.pin(compiled, attempt.packing.claims)
        yield attempt, _plan(compiled, attempt)


def _plan(compiled: CompiledProblem, attempt: Attempt) -> Plan:
    problem = compiled.problem
    packing = attempt.packing
    names = [key_of(pod) for pod in problem.pods]
    claims: list[PlannedClaim] = []
    unplaced = _unplaced(compiled, attempt, names)
    # pods on nodes to be bought, and on those that exist
    served = [position for pods in packing.on_nodes.values() for position in pods]
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
    uses: tuple[Use, ...] = ()
    made = tuple(claims)
    if problem.ledger is not None:
        made, uses = with_coverage(made, problem.ledger)
    return Plan(
        claims=made,
        existing=_existing(compiled, packing, names),
        unplaced=tuple(sorted(unplaced, key=lambda entry: entry.pod)),
        deferred=tuple(sorted(names[p] for p in packing.deferred)),
        unevaluated=(*(names[p] for p in packing.unevaluated), *map(key_of, compiled.left_out)),
        costly=_costly(compiled),
        empty_pools=_empty_pools(compiled),
        hourly_cost=sum(claim.launch.price for claim in claims if claim.launch),
        commitments=uses,
        least_cost=lambda: _least_cost(compiled, served),
        rough_least_cost=lambda: _rough_least_cost(compiled, served),
        expectation=lambda: _expected_cost(compiled, attempt),
        ratios=ratio_outcomes(compiled, packing.claims),
    )


def _costly(compiled: CompiledProblem) -> dict[str, str]:
    found: list[Pod] = []
    if any(pod_class.is_costly for pod_class in compiled.classes):
        everybody = zip(compiled.problem.pods, compiled.class_of, strict=True)
        found = [pod for pod, pod_class in everybody if pod_class.is_costly]
    efforts = ((pod, compiled.effort(pod)) for pod in (*found, *compiled.left_out))
    costly = {key_of(pod): str(effort) for pod, effort in efforts if effort is not None}
    return dict(sorted(costly.items()))


def _expected_cost(compiled: CompiledProblem, attempt: Attempt) -> float:
    from karpenter.scheduling.cheapest.candidates import expected_cost

    ledger = compiled.problem.ledger
    return expected_cost(compiled, attempt, ledger.balance() if ledger is not None else None)


def _least_cost(compiled: CompiledProblem, served: Sequence[int]) -> Bound:
    found = Bound(_rough_least_cost(compiled, served))
    if not wants_cheapest(compiled):
        return found
    from karpenter.scheduling.cheapest.cluster_bound import configuration_bound

    classes = Counter(compiled.class_of[position] for position in served)
    sharper = configuration_bound(compiled, classes, _undefined(compiled), free_room(compiled))
    if sharper is None or sharper <= found.hourly:
        return found
    return Bound(sharper, "configurations")


def _rough_least_cost(compiled: CompiledProblem, served: Sequence[int]) -> float:
    classes = Counter(compiled.class_of[position] for position in served)
    found = lower_bound(compiled.templates, classes, _undefined(compiled), free_room(compiled))
    ledger = compiled.problem.ledger
    if ledger is None or not found:
        return found
    # what is left of commitments pays at most so much of the list prices
    return max(0.0, found - ledger.balance().worth * _ROUNDED_UP)


def _undefined(compiled: CompiledProblem) -> frozenset[str]:
    """Labels that a pool need not define for a pod that requires them.

    A pod may go to a pool without its label, once another pod has made a claim define it.
    """
    return compiled.problem.facts.well_known_labels | compiled.custom_labels


def free_room(compiled: CompiledProblem) -> FreeRoom:
    """What is free on the machines of a problem, for pods that may go there."""
    nodes = compiled.nodes
    staying = ((1 << len(nodes.targets)) - 1) & ~compiled.leaving_nodes

    def usable(pod_class: PodClass) -> int:
        stages = pod_class.stages
        if len(stages) > _MOST_STAGES:
            return staying  # too many stages to check; overstated room only makes the bound lower
        found = 0
        for stage in stages:
            found |= nodes.allowed(pod_class, stage)  # a bound holds whatever a pod prefers
        return found & staying

    return FreeRoom([dict(target.free.items()) for target in nodes.targets], usable)


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
