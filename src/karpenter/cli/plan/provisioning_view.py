"""A provisioning plan as text: totals first, then nodes, then what is left over and why.

Equal rows are folded into one with a count, so that a plan for twenty thousand pods is still read
in a minute.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from karpenter.console.screen import (
    BAD,
    ESTIMATES,
    GOOD,
    MOST_ROWS,
    QUIET,
    TIMES,
    TITLE,
    WAITING,
    Column,
    Parts,
    counted,
    fitted,
    in_column,
    in_order,
    indented,
    per_hour,
    per_month,
    sample,
    sentences,
    table,
    total_cost,
    way,
    without_default,
    words,
)
from karpenter.model.resources import CPU, MEMORY, readable_amount
from karpenter.report.launch_progress import awaited_by
from karpenter.report.provisioning import deferred_with_reasons, unplaced_with_reasons
from karpenter.report.static_nodes import StaticNodes
from karpenter.scheduling.inputs.cost_annotations import INVALID_COST_ANNOTATION
from karpenter.scheduling.plan import Launch, Plan, PlannedClaim, Reason, Why, rests_on_estimates
from karpenter.scheduling.provisioning import ProvisioningPlan
from karpenter.scheduling.spot.annotations import SPOT_RATIO_IGNORED
from karpenter.state.snapshot import Snapshot

_REASONS_SHOWN = 12  # for one pod
_FAR_MISSES = (Why.UNTOLERATED_TAINT, Why.REQUIREMENT_CONFLICT)  # pools meant for other pods
_LEGEND = f"{TIMES}N: so many alike; pods and requests are of each of them, prices of all together"
_SHORTEST_NAME, _SHORTEST_TYPE, _SHORTEST_ZONE = 16, 9, 7
_NO_STATIC_NODES = StaticNodes()
_CENT = 0.005  # dollars per hour; smaller amounts are not worth a line
_ROUGH = 0.1  # larger gaps are shown without decimals
_WORTH_SAYING = 0.005  # smallest difference that is shown, as a share of the cost
_OF_ANNOTATIONS = (INVALID_COST_ANNOTATION, SPOT_RATIO_IGNORED)  # events: what has no effect


def plan_parts(
    outcome: ProvisioningPlan, snapshot: Snapshot, static: StaticNodes = _NO_STATIC_NODES
) -> Parts:
    """Lay out a plan from top to bottom."""
    yield from _totals(outcome, static)
    yield from _new_nodes(outcome.plan.claims)
    yield from _existing_nodes(outcome.plan.existing, snapshot)
    yield from _unplaced(outcome)
    yield from _waiting(outcome)
    yield from _costly(outcome)
    yield from _static_pools(outcome, static)
    yield from _buffers(outcome)
    yield from _unusable(outcome)
    yield from _ignored(outcome)


def _totals(outcome: ProvisioningPlan, static: StaticNodes) -> Parts:
    plan = outcome.plan
    if plan.claims:
        cost = total_cost(plan.hourly_cost, is_estimate=plan.is_estimate)
        yield words(f"{counted(len(plan.claims), 'node')} to create: {cost}", TITLE)
        yield from _covered(plan)
        yield words(_gap(plan), QUIET)
        yield from _packed(outcome)
        yield from _ratios(outcome)
    elif _waits(outcome) or not static.created:
        yield words(_nothing_to_create(outcome), TITLE)
    if static.created:
        yield words(_static_total(static, is_more=bool(plan.claims)), TITLE)
    new = sum(len(claim.pods) for claim in plan.claims)
    old = sum(len(pods) for pods in plan.existing.values())
    later = len(plan.deferred) + len(plan.unevaluated) + len(outcome.next_passes)
    lost = len(plan.unplaced)
    shares = [
        (new, "on new nodes"),
        (old, "on nodes that exist"),
        (lost, "fits nowhere" if lost == 1 else "fit nowhere"),
        (later, f"{'waits' if later == 1 else 'wait'} for another pass"),
    ]
    waiting = sum(count for count, _ in shares)
    if waiting:
        summary = ", ".join(f"{count:,} {where}" for count, where in shares if count)
        yield words(f"{counted(waiting, 'pod')} to place: {summary}")


def _waits(outcome: ProvisioningPlan) -> bool:
    """Whether there is a pod to be placed."""
    plan = outcome.plan
    return bool(plan.unplaced or plan.deferred or plan.unevaluated or plan.existing)


def _static_total(static: StaticNodes, *, is_more: bool) -> str:
    more = "more " if is_more else ""
    nodes = counted(static.created.total(), f"{more}node")
    stuck = sum(count for (_, launch), count in static.created.items() if launch is None)
    if stuck == static.created.total():
        return f"{nodes} to create for static pools, which cannot be launched now"
    cost = total_cost(static.hourly, is_estimate=static.is_estimate)
    but = f", {stuck:,} of them cannot be launched now" if stuck else ""
    return f"{nodes} to create for static pools: {cost}{but}"


def _nothing_to_create(outcome: ProvisioningPlan) -> str:
    if outcome.waiting_for:
        return "No node is created before the claims that were made last have launched"
    if not _waits(outcome):
        return "No node to create: no pod waits for one"
    if not outcome.pools.dynamic:
        if not (outcome.pools.excluded or outcome.pools.static):
            return "No node can be created: there is no NodePool"
        return "No node can be created: there is no NodePool that pods may use"
    return "No node to create"


def _covered(plan: Plan) -> Parts:
    """What commitments pay of new nodes, and what of them stays unused."""
    paid: dict[str, float] = {}
    for claim in plan.claims:
        for each in claim.launch.covered_by if claim.launch is not None else ():
            paid[each.commitment] = paid.get(each.commitment, 0.0) + each.hourly
    for use in plan.commitments:
        said = []
        if use.name in paid:
            covered = per_hour(paid[use.name], is_estimate=plan.is_estimate)
            said.append(f"{covered} of it is covered by {use.name}")
        if use.wasted >= _CENT:
            said.append(f"{per_hour(use.wasted, is_estimate=False)} of {use.name} stays unused")
        if said:
            yield words("; ".join(said), GOOD if use.name in paid else WAITING)
    if paid:
        rise = per_hour(plan.marginal_cost, is_estimate=plan.is_estimate)
        yield words(f"The bill rises by {rise} per hour")


def _gap(plan: Plan) -> str:
    bound = plan.lower_bound
    if bound <= 0:
        return "How cheap it could be at best is not known"
    gap = max(0.0, plan.marginal_cost / bound - 1)
    least = per_hour(bound, is_estimate=plan.is_estimate)
    told = f"{gap:.1%}" if gap < _ROUGH else f"{gap:.0%}"
    return f"No plan for them can cost less than {least} per hour: a gap of {told}"


def _packed(outcome: ProvisioningPlan) -> Parts:
    """How the plan was chosen, or what packing by price would save."""
    plan, cheapest = outcome.plan, outcome.cheapest
    if cheapest is not None:
        cost = per_hour(cheapest.hourly, is_estimate=plan.is_estimate)
        less = 1 - cheapest.hourly / plan.marginal_cost
        yield words(f"PACKING=cheapest would cost {cost} per hour, {less:.0%} less", GOOD)
    if plan.packing is None:
        return
    base = plan.packing.alternatives[0]
    if base.hourly > plan.marginal_cost * (1 + _WORTH_SAYING):
        theirs = per_hour(base.hourly, is_estimate=plan.is_estimate)
        nodes = counted(base.nodes, "node")
        yield words(f"Karpenter's order would cost {theirs} per hour on {nodes}", QUIET)
    for failure in plan.packing.failures:
        yield words(f"Packed without the solver: {failure}", WAITING)


def _ratios(outcome: ProvisioningPlan) -> Parts:
    """What the plan makes of the spot ratios of pools and workloads."""
    for ratio in outcome.plan.ratios:
        told = f"ratio: {ratio.percent:.0f}% spot, {ratio.asked:g}% asked"
        if ratio.base:
            told += f" beyond {ratio.base:g} cpu"
        yield words(f"NodePool {ratio.node_pool} {told}", QUIET if ratio.is_met else WAITING)
    for workload in outcome.workload_ratios:
        off_spot = workload.bound + len(workload.pinned)
        told = f"{off_spot} of {counted(workload.pods, 'pod')} off spot, {workload.asked} asked"
        yield words(f"{workload.owner}: {told}", QUIET if workload.is_met else WAITING)


def _new_nodes(claims: Sequence[PlannedClaim]) -> Parts:
    if not claims:
        return
    yield from _title("Nodes to create")
    folded = _folded(claims)
    yield fitted(_columns(folded[:MOST_ROWS]))
    yield from _rest(len(folded), "row")
    if any(len(alike) > 1 for alike in folded):
        yield sentences([(_LEGEND, QUIET)])
    if rests_on_estimates(claims):
        yield words(f"  {ESTIMATES}", QUIET)


def _columns(folded: Sequence[Sequence[PlannedClaim]]) -> list[Column]:
    """The table of new nodes, column by column."""
    first = [alike[0] for alike in folded]
    launches = [claim.launch for claim in first]
    hourly, monthly = (
        [_price(launch, len(alike), each) for alike, launch in zip(folded, launches, strict=True)]
        for each in (per_hour, per_month)
    )
    times = [f" {TIMES}{len(alike)}" if len(alike) > 1 else "" for alike in folded]
    pods = [
        sample([without_default(pod) for pod in claim.pods]) or "for buffers" for claim in first
    ]
    types = [launch.instance_type if launch else "none left" for launch in launches]
    cpu = [readable_amount(CPU, claim.requests.cpu) for claim in first]
    memory = [readable_amount(MEMORY, claim.requests.memory) for claim in first]
    return [
        Column(
            "name",
            [claim.name + n for claim, n in zip(first, times, strict=True)],
            at_worst=_SHORTEST_NAME,
        ),
        Column("pool", [claim.node_pool for claim in first], may_go=1),
        Column("type", types, at_worst=_SHORTEST_TYPE),
        Column("zone", [each.zone if each else "" for each in launches], at_worst=_SHORTEST_ZONE),
        Column("capacity", [launch.capacity_type if launch else "" for launch in launches]),
        Column("pods", [f"{len(claim.pods):,}" for claim in first], is_number=True),
        Column("", pods, may_go=3),
        Column("cpu", cpu, is_number=True, may_go=2),
        Column("memory", memory, is_number=True, may_go=2),
        Column("$/hour", hourly, is_number=True),
        Column("$/month", monthly, is_number=True),
    ]


def _price(launch: Launch | None, count: int, written: Callable[..., str]) -> str:
    """The total price of equal nodes; empty where none of them can be launched."""
    if launch is None:
        return ""
    return in_column(written(launch.price * count, is_estimate=launch.is_estimate))


def _folded(claims: Iterable[PlannedClaim]) -> list[list[PlannedClaim]]:
    """Put claims together that differ only in their names and in which pods they hold."""
    alike: dict[object, list[PlannedClaim]] = {}
    for claim in claims:
        key = (claim.node_pool, claim.launch, claim.requests, len(claim.pods), claim.instance_types)
        alike.setdefault(key, []).append(claim)
    return list(alike.values())


def _existing_nodes(existing: Mapping[str, Sequence[str]], snapshot: Snapshot) -> Parts:
    if not existing:
        return
    yield from _title("On nodes that exist or are on their way")
    rows = table([("node", "left"), ("pool", "left"), ("pods", "right"), ("", "left")])
    awaited: dict[str, list[str]] = {}
    for name, pods in sorted(existing.items())[:MOST_ROWS]:
        node = snapshot.node(name)
        if node is not None and (why := awaited_by(node)):
            awaited.setdefault(why, []).append(name)
        pool = node.node_pool if node is not None else ""
        shown = sample([without_default(pod) for pod in pods], most=4)
        rows.add_row("", *map(words, (name, pool or "none", f"{len(pods):,}", shown)))
    yield rows
    yield from _rest(len(existing), "node")
    for why, names in awaited.items():
        yield sentences([(f"not up yet: {sample(names)}: {why}", WAITING)])


def _unplaced(outcome: ProvisioningPlan) -> Parts:
    if not outcome.plan.unplaced:
        return
    alike: dict[tuple[Reason, ...], list[str]] = {}
    for entry, reasons in unplaced_with_reasons(outcome):
        alike.setdefault(reasons, []).append(entry.pod)
    yield from _title("Pods that fit nowhere", BAD)
    for reasons, pods in list(alike.items())[:MOST_ROWS]:
        yield sentences([(f"✗ {_pods(pods)}", "")])
        rows = table([("", "left"), ("", "left")])
        rows.show_header = False
        by_detail = _by_detail(reasons)
        for detail, pools in by_detail[:_REASONS_SHOWN]:
            rows.add_row("", words(sample(pools) or "any pool"), words(detail))
        yield indented(rows, 4)
        left = sum(len(pools) for _, pools in by_detail[_REASONS_SHOWN:])
        if left:
            yield words(f"      … and {counted(left, 'pool')} more; -o json has them all", QUIET)
    yield from _rest(len(alike), "group of pods", "groups of pods")


def _pods(pods: Sequence[str]) -> str:
    shown = sample([without_default(pod) for pod in in_order(pods)], most=3)
    return shown if len(pods) == 1 else f"{counted(len(pods), 'pod')}: {shown}"


def _by_detail(reasons: Iterable[Reason]) -> list[tuple[str, list[str]]]:
    """Put the pools together that give the same reason; where there are many, near misses first."""
    found: dict[str, list[str]] = {}
    ranks: dict[str, int] = {}
    for reason in reasons:
        found.setdefault(reason.detail, []).extend([reason.node_pool] if reason.node_pool else [])
        is_far = reason.why in _FAR_MISSES and not reason.detail.startswith("would fit")
        ranks[reason.detail] = int(is_far)
    if len(found) <= _REASONS_SHOWN:
        return list(found.items())
    return sorted(found.items(), key=lambda item: ranks[item[0]])


def _waiting(outcome: ProvisioningPlan) -> Parts:
    alike: dict[str, list[str]] = {}
    for pod, _, detail in deferred_with_reasons(outcome):
        alike.setdefault(detail, []).append(pod)
    yield from _listed("Pods that wait for another pass", alike, WAITING)


def _costly(outcome: ProvisioningPlan) -> Parts:
    alike: dict[str, list[str]] = {}
    for pod, detail in outcome.plan.costly.items():
        alike.setdefault(detail, []).append(pod)
    yield from _listed("Pods that are costly to plan for", alike, WAITING)


def _ignored(outcome: ProvisioningPlan) -> Parts:
    refused: dict[str, list[str]] = {}
    left_alone: dict[str, list[str]] = {}
    for entry in outcome.ignored:
        where = refused if entry.is_refused else left_alone
        where.setdefault(entry.detail, []).append(entry.pod)
    yield from _listed("Pods that cannot be served", refused, BAD)
    yield from _listed("Pods that are left alone", left_alone, QUIET)


def _listed(title: str, alike: Mapping[str, Sequence[str]], style: str) -> Parts:
    """List groups of equal items, each with its detail."""
    if not alike:
        return
    yield from _title(title, style)
    rows = table([("", "left"), ("", "left")])
    rows.show_header = False
    for detail, names in list(alike.items())[:MOST_ROWS]:
        rows.add_row("", words(f"{_pods(names)}"), words(detail))
    yield rows
    yield from _rest(len(alike), "reason")


def _static_pools(outcome: ProvisioningPlan, static: StaticNodes) -> Parts:
    if not outcome.static:
        return
    yield from _title("Static pools")
    columns = ("wanted", "have", "create", "delete")
    rows = table([("pool", "left"), *((name, "right") for name in columns), ("", "left")])
    for pool in outcome.static[:MOST_ROWS]:
        counts = (pool.replicas, pool.have, pool.create, len(pool.delete))
        launches = static.launches(pool.node_pool)
        kinds = [way(launch) if launch is not None else "none left" for launch in launches]
        is_limited = pool.have + pool.create < pool.replicas
        more = sample(kinds) or sample(pool.delete)
        more = "limits.nodes of the pool allows no more" if is_limited else more
        cells = [pool.node_pool, *(f"{count:,}" for count in counts), more]
        rows.add_row("", *map(words, cells))
    yield rows
    yield from _rest(len(outcome.static), "pool")


def _buffers(outcome: ProvisioningPlan) -> Parts:
    if not outcome.buffers:
        return
    yield from _title("Buffers")
    rows = table([("buffer", "left"), ("replicas", "right"), ("", "left"), ("nodes", "left")])
    for buffer in outcome.buffers[:MOST_ROWS]:
        state = words("ready", GOOD) if buffer.ready else words("needs new nodes", WAITING)
        if buffer.detail:
            state = words("cannot be made out", BAD)
        where = words(buffer.detail or sample(buffer.nodes, most=3))
        rows.add_row("", words(buffer.name), words(f"{buffer.replicas:,}"), state, where)
    yield rows
    yield from _rest(len(outcome.buffers), "buffer")


def _unusable(outcome: ProvisioningPlan) -> Parts:
    said = [(f"NodePool {r.node_pool}", r.detail) for r in outcome.pools.excluded]
    said += [(f"NodePool {r.node_pool}", r.detail) for r in outcome.plan.empty_pools]
    said += [(f"NodeOverlay {each.name}", each.detail) for each in outcome.refused_overlays]
    said += [(f"Commitment {each.name}", each.detail) for each in outcome.refused_commitments]
    said += [
        (each.target.replace("/", " ", 1), each.message)
        for each in outcome.events
        if each.reason in _OF_ANNOTATIONS
    ]
    alike: dict[str, list[str]] = {}
    for name, detail in said:
        alike.setdefault(detail, []).append(name)
    if not alike:
        return
    yield from _title("What cannot be used", WAITING)
    rows = table([("", "left"), ("", "left")])
    rows.show_header = False
    for detail, names in list(alike.items())[:MOST_ROWS]:
        rows.add_row("", words(sample(names)), words(detail))
    yield rows
    yield from _rest(len(alike), "reason")


def _title(text: str, style: str = "") -> Parts:
    yield words("")
    yield words(text, f"{TITLE} {style}".strip())


def _rest(count: int, noun: str, plural: str = "") -> Parts:
    if count > MOST_ROWS:
        more = counted(count - MOST_ROWS, noun, plural)
        yield words(f"  … and {more} more; -o json has them all", QUIET)
