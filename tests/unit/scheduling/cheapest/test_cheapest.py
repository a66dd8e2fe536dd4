"""Plans of ``PACKING=cheapest``, by the cases of docs/spec/optimize.md.

Types unless said: ``s`` 2 cpu/4Gi $0.10, ``m`` 4/8 $0.19, ``l`` 8/16 $0.36, ``x`` 32/64 $2.00.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

import msgspec
import pytest

from helpers.builders import (
    APP_T,
    daemon_set,
    expression,
    managed_node,
    min_values,
    node_pool,
    offering,
    pod,
    pod_term,
    pods,
    priced_type,
    reserved,
    spread,
)
from helpers.builders.workloads import PodOptions
from helpers.priced_catalogues import TYPES, M, S, X
from helpers.solver import CHEAPEST, Answer, Setting, question, solved
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.scheduling.cheapest import candidates, configurations, solver_library, topping_up
from karpenter.scheduling.cheapest.market import Configuration, Market, Size, Work, fill
from karpenter.scheduling.plan import Candidate, KeptFor, PackingOutcome, Purchase
from karpenter.scheduling.problem import CostOptions, Options, PackingMode
from karpenter.scheduling.solve import solve


def also_sold(*ways: tuple[str, str, float]) -> list[InstanceType]:
    """The usual types, sold besides in these zones and ways, at so much of their price."""
    return [
        each.with_offerings(
            (*each.offerings, *(offering(z, c, each.offerings[0].price * p) for z, c, p in ways))
        )
        for each in TYPES
    ]


def some(count: int, name: str = "pod", **options: Unpack[PodOptions]) -> list[Pod]:
    options.setdefault("cpu", "1")
    options.setdefault("memory", "1Gi")
    return pods(count, name, **options)


def planned(
    wanted: Sequence[Pod], cost: CostOptions = CHEAPEST, **setting: Unpack[Setting]
) -> Answer:
    setting.setdefault("types", TYPES)
    setting["options"] = replace(setting.get("options", Options()), cost=cost)
    return solved(wanted, **setting)


def in_karpenters_order(wanted: Sequence[Pod], **setting: Unpack[Setting]) -> Answer:
    return planned(wanted, replace(CHEAPEST, packing=PackingMode.KARPENTER), **setting)


def annotated(pool: NodePool, annotations: dict[str, str]) -> NodePool:
    metadata = msgspec.structs.replace(pool.metadata, annotations=annotations)
    return msgspec.structs.replace(pool, metadata=metadata)


def cost_of(answer: Answer) -> float:
    return round(answer.plan.hourly_cost, 6)


def packing_of(answer: Answer) -> PackingOutcome:
    assert answer.plan.packing is not None
    return answer.plan.packing


@pytest.mark.case("OPT-2")
def test_several_smaller_nodes_where_they_cost_less() -> None:
    answer = planned(some(16))

    assert (["l", "l"], 0.72) == (answer.types, cost_of(answer))
    assert (["x"], 2.0) == (
        in_karpenters_order(some(16)).types,
        cost_of(in_karpenters_order(some(16))),
    )


@pytest.mark.case("OPT-3")
def test_what_a_node_costs_beside_its_price_counts() -> None:
    assert ["x"] == planned(some(16), replace(CHEAPEST, node_cost=2.0)).types


@pytest.mark.case("OPT-4")
def test_karpenters_order_wins_a_tie() -> None:
    answer = planned(some(4))

    assert (["m"], 0.19) == (answer.types, cost_of(answer))
    assert Candidate.KARPENTER is packing_of(answer).candidate


@pytest.mark.case("OPT-5")
def test_a_size_for_each_part() -> None:
    answer = planned(some(9))

    assert (["l", "s"], 0.46) == (answer.types, cost_of(answer))
    assert answer.plan.lower_bound <= 0.46 + 1e-9


@pytest.mark.case("OPT-6")
def test_weight_comes_before_price() -> None:
    heavy, light = node_pool("heavy", weight=10), node_pool("light")
    pools = Setting(pools=[heavy, light], types_of={"heavy": [X]})

    assert ["heavy"] == planned(some(16), **pools).pools
    selecting = some(16, node_selector={keys.NODEPOOL: "light"})
    answer = planned(selecting, **pools)
    assert (["light", "light"], ["l", "l"]) == (answer.pools, answer.types)


@pytest.mark.case("OPT-7")
def test_under_a_limit_no_pod_loses_its_place() -> None:
    pools = Setting(pools=[node_pool(limits={"cpu": "8"})])

    ours, theirs = planned(some(16), **pools), in_karpenters_order(some(16), **pools)

    assert set(theirs.placed) <= set(ours.placed)
    assert 8 == len(theirs.placed)


@pytest.mark.case("OPT-8")
def test_a_limit_of_nodes_leaves_karpenters_plan() -> None:
    answer = planned(some(16), pools=[node_pool(limits={"nodes": "1"})])

    assert ["x"] == answer.types
    refused = {a.candidate: a.refused for a in packing_of(answer).alternatives}
    assert "leaves 8 pods behind" == refused[Candidate.GREEDY]


@pytest.mark.case("OPT-9")
def test_min_values_ask_for_more_types_than_the_setting() -> None:
    pool = node_pool(requirements=[min_values(3, keys.INSTANCE_TYPE)])

    answer = planned(some(8), pools=[pool])

    assert ["m", "m"] == answer.types
    assert all(len(claim.instance_types) >= 3 for claim in answer.claims)


@pytest.mark.case("OPT-10")
def test_a_claim_keeps_as_many_types_as_are_asked_for() -> None:
    answer = planned(some(8), replace(CHEAPEST, min_types=2))

    assert (("l", "x"), 0.36) == (answer.only.instance_types, cost_of(answer))


@pytest.mark.case("OPT-11")
def test_a_large_pod_takes_what_there_is() -> None:
    wanted = [pod("large", cpu="30", memory="1Gi"), *some(8)]

    answer = planned(wanted, replace(CHEAPEST, min_types=2))

    assert ("x",) == answer.with_pod("large").instance_types
    others = [claim for claim in answer.claims if claim is not answer.with_pod("large")]
    assert all(len(claim.instance_types) >= 2 for claim in others)


@pytest.mark.case("OPT-12")
def test_a_preference_is_never_given_up_to_save_money() -> None:
    both = also_sold(("z2", keys.ON_DEMAND, 1.5))
    dear = some(8, preferred=[(1, [expression(keys.ZONE, "In", "z2")])])
    impossible = some(8, preferred=[(1, [expression(keys.ZONE, "In", "nowhere")])])

    assert {"z2"} == set(planned(dear, types=both).zones)
    answer = planned(impossible, types=both)
    assert ({"z1"}, 0.36) == (set(answer.zones), cost_of(answer))


@pytest.mark.case("OPT-13")
def test_daemons_take_their_part_of_every_node() -> None:
    answer = planned(some(14), daemon_sets=[daemon_set(cpu="1", memory="1Gi")])

    assert (["l", "l"], 0.72) == (answer.types, cost_of(answer))


@pytest.mark.case("OPT-14")
def test_pinned_pods_do_not_drag_others_along() -> None:
    both = also_sold(("z1", keys.SPOT, 0.3))
    pinned = some(8, "pinned", node_selector={keys.CAPACITY_TYPE: keys.ON_DEMAND})
    wanted = [*pinned, *some(8)]

    answer = planned(wanted, types=both)

    assert (["l", "l"], 0.468) == (answer.types, cost_of(answer))
    assert [keys.ON_DEMAND, keys.SPOT] == answer.capacity_types
    assert 2.0 == cost_of(in_karpenters_order(wanted, types=both))


@pytest.mark.parametrize(
    "tied",
    [
        pytest.param(
            {"labels": APP_T, "anti_affinity": [pod_term()]}, id="OPT-15 apart by hostname"
        ),
        pytest.param({"labels": APP_T, "spread": [spread()]}, id="OPT-16 over zones"),
    ],
)
def test_tied_pods_are_packed_in_karpenters_order_first(tied: PodOptions) -> None:
    zoned = also_sold(("z2", keys.ON_DEMAND, 1.0), ("z3", keys.ON_DEMAND, 1.0))
    wanted = [*some(6, "tied", **tied), *some(20)]

    answer = planned(wanted, types=zoned)

    assert not answer.unplaced
    assert cost_of(answer) <= cost_of(in_karpenters_order(wanted, types=zoned))


@pytest.mark.case("OPT-18")
def test_the_same_pods_on_machines_as_in_karpenters_order() -> None:
    nodes = [managed_node("old", cpu="3", memory="8Gi")]

    ours = planned(some(5), nodes=nodes)

    assert in_karpenters_order(some(5), nodes=nodes).existing == ours.existing
    assert 3 == len(ours.existing["old"])


@pytest.mark.case("OPT-19")
def test_values_of_a_label_that_a_pool_leaves_open_are_never_mixed() -> None:
    pool = node_pool(requirements=[expression("team", "Exists")])
    wanted = [
        *some(4, "a", node_selector={"team": "a"}),
        *some(4, "b", node_selector={"team": "b"}),
    ]

    answer = planned(wanted, pools=[pool])

    assert [{"a"}, {"b"}] == sorted({name[8] for name in claim.pods} for claim in answer.claims)


def with_reservation(count: int) -> tuple[InstanceType, ...]:
    """The types, of which ``l`` has a reservation with room for so many machines."""
    ways = [offering("z1", keys.ON_DEMAND, 0.36), reserved("r", count)]
    return (S, M, priced_type("l", 8, ways=ways), X)


def test_a_reservation_that_is_used_up_keeps_no_pod_in_karpenters_order() -> None:
    ours, theirs = (
        make(some(16), types=with_reservation(0)) for make in (planned, in_karpenters_order)
    )

    assert (0.72, 2.00) == (cost_of(ours), cost_of(theirs))
    assert {2} == {len(ours.claims)}
    assert not ours.deferred


@pytest.mark.parametrize(
    ("left", "bound"),
    [
        pytest.param(0, 0.72, id="none"),
        pytest.param(1, 0.002, id="one, whose price both claims are listed at"),
        pytest.param(2, 0.002, id="enough for all"),
        pytest.param(9, 0.002, id="more than enough"),
    ],
)
def test_a_bound_is_no_higher_than_a_plan_that_books_no_machine_for_a_claim(
    left: int, bound: float
) -> None:
    options = Options(cost=CHEAPEST, strict_reservations=False)  # so that every pod is placed

    answer = solved(some(16), types=with_reservation(left), options=options)

    assert 16 == len(answer.placed)
    assert bound == pytest.approx(answer.plan.lower_bound)


@pytest.mark.case("OPT-20")
def test_pods_wait_for_a_reservation_as_in_karpenters_plan() -> None:
    types = with_reservation(1)

    ours, theirs = planned(some(16), types=types), in_karpenters_order(some(16), types=types)

    assert theirs.deferred == ours.deferred
    assert theirs.deferred


@pytest.mark.case("OPT-21")
def test_the_order_of_pods_never_matters() -> None:
    wanted = [*some(7), *some(5, "big", cpu="3"), *some(9, "wide", memory="3Gi")]
    first = planned(wanted)

    for turn in range(10):
        turned = planned([*wanted[turn:], *reversed(wanted[:turn])])
        assert first.plan == turned.plan


def _raises(*_: object) -> None:
    raise solver_library.SolverError("it broke")


def _nonsense(market: object, *_: object) -> None:
    raise solver_library.SolverError("the solver made a configuration that does not fit its size")


@pytest.mark.parametrize("broken", [_raises, _nonsense])
@pytest.mark.case("OPT-22")
def test_without_a_solver_the_built_in_candidates_are_left(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[..., None]
) -> None:
    monkeypatch.setattr(configurations, "solved", broken)

    answer = planned(some(16))

    assert ("builtin", 0.72) == (packing_of(answer).solver, cost_of(answer))
    assert 1 == len(packing_of(answer).failures)


@pytest.mark.case("OPT-22")
def test_an_absent_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    solver_library.library.cache_clear()

    outcome = packing_of(planned(some(16)))

    solver_library.library.cache_clear()
    assert "builtin" == outcome.solver
    assert ("highspy is not installed; install the extra karpenter[optimize]",) == outcome.failures


@pytest.mark.case("OPT-23")
def test_without_a_budget_or_time() -> None:
    free = packing_of(planned(some(16), replace(CHEAPEST, budget=0.0)))
    assert [Candidate.KARPENTER, Candidate.APART, Candidate.GREEDY] == [
        entry.candidate for entry in free.alternatives
    ]

    cut = solve(
        question(some(200), types=TYPES, options=Options(cost=CHEAPEST)), has_time=lambda: False
    )
    assert cut.unevaluated
    assert cut.packing is not None
    assert cut.packing.is_cut


@pytest.mark.parametrize("price", [math.nan, math.inf])
@pytest.mark.case("OPT-24")
def test_an_unknown_price_is_never_chosen_while_another_fits(price: float) -> None:
    unknown = priced_type("unknown", 16, price)

    answer = planned(some(16), types=[*TYPES, unknown])

    assert ["l", "l"] == answer.types
    assert not any("unknown" in claim.instance_types for claim in answer.claims)


@pytest.mark.case("OPT-24")
def test_a_free_type_is_chosen() -> None:
    answer = planned(some(16), types=[*TYPES, priced_type("free", 4, 0.0)])

    assert (["free"] * 4, 0.0) == (answer.types, cost_of(answer))


@pytest.mark.case("OPT-26")
def test_spot_keeps_a_few_types_with_a_ceiling() -> None:
    types = [
        priced_type(name, 4, ways=[offering("z1", keys.SPOT, price)])
        for name, price in (("a", 0.10), ("b", 0.105), ("c", 0.30))
    ]

    answer = planned(some(4), replace(CHEAPEST, min_spot_types=2), types=types)

    claim = answer.only
    assert ("a", "b") == claim.instance_types
    assert "0.105" == claim.annotations[keys.PRICE_CEILING]
    assert claim.launch is not None
    assert 0.10 == claim.launch.price
    assert math.isclose(0.1025, answer.plan.expected_cost)


@pytest.mark.case("OPT-60")
def test_a_pool_may_stay_with_karpenters_order() -> None:
    ours = node_pool("ours")
    theirs = annotated(node_pool("theirs"), {"cost.karpenter.sh/packing": "karpenter"})
    wanted = [
        *some(16, "a", node_selector={keys.NODEPOOL: "ours"}),
        *some(16, "b", node_selector={keys.NODEPOOL: "theirs"}),
    ]

    answer = planned(wanted, pools=[ours, theirs])

    plain = in_karpenters_order(wanted, pools=[ours, theirs])
    kept = [claim for claim in answer.claims if claim.node_pool == "theirs"]
    assert [claim for claim in plain.claims if claim.node_pool == "theirs"] == kept
    assert ["l", "l", "x"] == answer.types


@pytest.mark.case("OPT-29")
def test_a_plan_that_cannot_be_beaten_is_proved_so() -> None:
    plan = planned(some(16)).plan

    assert math.isclose(0.72, plan.lower_bound, rel_tol=1e-6)
    assert plan.lower_bound <= plan.hourly_cost


@pytest.mark.case("OPT-30")
def test_whole_pods_count_in_the_bound() -> None:
    answer = planned(some(3, cpu="3"), types=[M])

    assert (["m"] * 3, 0.57) == (answer.types, cost_of(answer))
    assert math.isclose(0.57, answer.plan.lower_bound, rel_tol=1e-6)


@pytest.mark.case("OPT-31")
@pytest.mark.parametrize(("free", "cost"), [("8", 0.0), ("4", 0.19)])
@pytest.mark.parametrize("packing", list(PackingMode))
def test_room_that_exists_costs_nothing(free: str, cost: float, packing: PackingMode) -> None:
    nodes = [managed_node("old", cpu=free, memory="64Gi")]

    answer = planned(some(8), replace(CHEAPEST, packing=packing), nodes=nodes)

    assert cost == cost_of(answer)
    assert 0 <= answer.plan.lower_bound <= cost + 1e-9


@pytest.mark.case("OPT-32")
def test_tied_pods_count_as_if_they_were_free() -> None:
    apart = some(4, labels=APP_T, anti_affinity=[pod_term()])

    answer = planned(apart)

    assert 0 < answer.plan.lower_bound <= answer.plan.hourly_cost
    assert 0.0 == planned(some(1, cpu="100")).plan.lower_bound


@pytest.mark.case("OPT-17")
def test_pods_that_others_keep_away_from_are_tied() -> None:
    hostile = pod("hostile", cpu="1", memory="1Gi", anti_affinity=[pod_term()])

    answer = planned([hostile, *some(8, "meant", labels=APP_T)])

    (alone,) = (claim for claim in answer.claims if "default/hostile" in claim.pods)
    assert ("default/hostile",) == alone.pods


@pytest.mark.case("OPT-25")
def test_pods_of_which_no_two_are_alike() -> None:
    wanted = [pod(f"p{n}", cpu=f"{100 + n}m", memory=f"{100 + 3 * n % 997}Mi") for n in range(900)]

    answer = planned(wanted)

    assert not answer.unplaced
    assert cost_of(answer) <= cost_of(in_karpenters_order(wanted))


@pytest.mark.case("OPT-1")
def test_karpenters_order_is_untouched_while_packing_by_price_is_off() -> None:
    plan = in_karpenters_order([*some(16), *some(3, "big", cpu="3")]).plan

    assert plan.packing is None
    assert not any(keys.PRICE_CEILING in claim.annotations for claim in plan.claims)


def test_pods_that_only_machines_of_unknown_price_hold_are_placed_all_the_same() -> None:
    wanted = [*some(16), *some(3, "large", cpu="60")]

    answer = planned(wanted, types=[*TYPES, priced_type("unknown", 64, math.inf)])

    assert not answer.unplaced
    assert 3 == answer.types.count("unknown")


@pytest.mark.parametrize("error", [RuntimeError("it broke"), ValueError("nonsense")])
def test_whatever_a_solver_raises_the_plan_goes_on(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr(configurations, "library", fails)

    outcome = packing_of(planned(some(16)))

    assert "builtin" == outcome.solver
    assert (f"the solver failed: {type(error).__name__}: {error}",) == outcome.failures


def test_a_configuration_that_does_not_fit_is_refused() -> None:
    market = Market([(3, 1)], [2], [Size((4, 4), 1.0, (0,))])
    program = configurations._Program(market, [1.0], Work(1.0, lambda: True))

    with pytest.raises(solver_library.SolverError, match="does not fit its size"):
        program._add([Configuration(0, ((0, 2),))])


def test_a_market_with_very_many_sets_of_users_is_still_solved() -> None:
    needs = [(2 + n, 7 - n % 5) for n in range(12)]
    sizes = [Size((31 + n, 29 - n), 1.0 + n / 50, (n, (n + 1) % 12)) for n in range(12)]
    market = Market(needs, [9] * 12, sizes)

    bound, _ = configurations.bound_of(market, [0.1] * 12, Work(50.0, lambda: True))

    assert bound > 0


def purchases_of(answer: Answer) -> Sequence[Purchase]:
    """Why each claim is as it is, in the order of the claims."""
    known = packing_of(answer).purchases
    return [known[claim.name] for claim in answer.claims]


@pytest.mark.case("OPT-28")
@pytest.mark.parametrize("budget", [0.0, 1.0])
def test_a_claim_records_the_prices_it_was_bought_at(budget: float) -> None:
    first, second = purchases_of(planned(some(16), replace(CHEAPEST, budget=budget)))

    assert first.leading is not None
    assert math.isclose(0.045e-3, first.leading.rates["cpu"])
    assert 0.0 == first.leading.rates["memory"]
    assert math.isclose(0.36, first.shares)
    assert math.isclose(0.36, first.price)
    assert math.isclose(0.045e-3, first.per_unit["cpu"])
    assert ("cpu", 1.0) == first.full[0]
    assert 8 == first.pods == len(first.duals) == len(second.duals)
    assert not first.duals.keys() & second.duals.keys()


def test_the_fixed_cost_of_a_node_is_part_of_its_price() -> None:
    (bought,) = purchases_of(planned(some(8), replace(CHEAPEST, node_cost=0.04)))

    assert math.isclose(0.40, bought.price)


def test_a_claim_records_why_it_keeps_each_type() -> None:
    types = [
        priced_type(name, 4, price) for name, price in zip("abcd", (1, 1.05, 1.06, 3), strict=True)
    ]
    pool = node_pool(requirements=[min_values(4, keys.INSTANCE_TYPE)])

    (bought,) = purchases_of(
        planned(some(4), replace(CHEAPEST, min_types=2), pools=[pool], types=types)
    )

    assert [
        ("a", 1.0, KeptFor.CHEAPEST),
        ("b", 1.05, KeptFor.MINIMUM),
        ("c", 1.06, KeptFor.SLACK),
        ("d", 3.0, KeptFor.MIN_VALUES),
    ] == [(each.instance_type, each.price, each.because) for each in bought.kept]


def test_pods_that_karpenters_order_placed_have_no_share() -> None:
    tied = some(2, "tied", labels=APP_T, anti_affinity=[pod_term()])

    answer = planned([*tied, *some(12)])

    recorded = {pod for bought in purchases_of(answer) for pod in bought.duals}
    assert {f"default/{each.metadata.name}" for each in some(12)} == recorded


def test_claims_of_a_pool_in_karpenters_order_record_nothing() -> None:
    theirs = annotated(node_pool("theirs"), {"cost.karpenter.sh/packing": "karpenter"})
    wanted = [
        *some(16, "a", node_selector={keys.NODEPOOL: "np"}),
        *some(16, "b", node_selector={keys.NODEPOOL: "theirs"}),
    ]

    answer = planned(wanted, pools=[node_pool("np"), theirs])

    ours = {claim.name for claim in answer.claims if claim.node_pool == "np"}
    assert ours == packing_of(answer).purchases.keys()


def test_claims_that_are_alike_are_topped_up_by_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tied = some(40, "tied", labels=APP_T, anti_affinity=[pod_term()])
    calls: list[object] = []

    def counted(*arguments: Any) -> dict[int, int]:
        calls.append(arguments)
        return fill(*arguments)

    monkeypatch.setattr(topping_up, "fill", counted)
    answer = planned([*tied, *some(60)], replace(CHEAPEST, budget=0.0))

    assert not answer.unplaced
    assert packing_of(answer).candidate is Candidate.GREEDY
    assert 0 < len(calls) < 20


def test_topping_up_ends_with_its_work_and_the_packing_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidates, "_TOP_UP_SECONDS", 0.0)
    tied = some(6, "tied", labels=APP_T, anti_affinity=[pod_term()])

    answer = planned([*tied, *some(20)], replace(CHEAPEST, budget=0.0))

    greedy = {a.candidate: a for a in packing_of(answer).alternatives}[Candidate.GREEDY]
    assert "" == greedy.refused
    assert not answer.unplaced
