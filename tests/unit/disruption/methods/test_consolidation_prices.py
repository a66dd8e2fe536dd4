"""Groups L and M: what may replace machines, and at which price."""

from datetime import timedelta
from typing import Final

import pytest

from helpers.builders import (
    NOW,
    condition,
    min_values,
    pod,
    pod_term,
    reserved,
    selector,
    spread,
    unmanaged_node,
)
from helpers.disruption import decided, found_by, going, only
from helpers.disruption_objects import (
    LONG_AGO,
    OD_POOL,
    ON_DEMAND_ONLY,
    SPOT_ONLY,
    SPOT_POOL,
    TYPES,
    WEB,
    Standing,
    kind,
    machine,
    on_demand,
    pod_on,
    pods_on,
    pool,
    spot,
)
from karpenter.api.karpenter import NodePool, NodeRequirement
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.cloud.types import InstanceType
from karpenter.disruption.candidates import Blocked, Why
from karpenter.disruption.context import DisruptionSettings
from karpenter.model import labels as keys
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.problem import Options

SPOT_TO_SPOT: Final = DisruptionSettings(spot_to_spot=True)


def ladder_of(count: int) -> tuple[InstanceType, ...]:
    """Types of one size that only differ in price, ``t00`` the cheapest."""
    return tuple(
        kind(f"t{n:02}", 4, ways=[spot(0.01 * (n + 1)), on_demand(0.1 * (n + 1))])
        for n in range(count)
    )


def replaced(claim: PlannedClaim) -> tuple[tuple[str, ...], set[str]]:
    """The types a replacement may become, and how it may be paid."""
    return claim.instance_types, set(claim.requirements[keys.CAPACITY_TYPE].values)


@pytest.mark.case("DIS-169")
def test_pods_that_fit_elsewhere_leave_their_machine_empty() -> None:
    nodes = [machine("n1", *pods_on(5, "a")), machine("n2", pod_on("b"))]

    command = only(found_by("single", *nodes, pools=[OD_POOL]))

    assert ("delete", ("n2",), {"n1": ("default/b",)}) == (
        command.decision,
        command.names,
        command.placements,
    )
    assert 0.4 == pytest.approx(command.savings)


@pytest.mark.case("DIS-170")
def test_the_machine_with_fewer_pods_goes() -> None:
    nodes = [machine("n1", *pods_on(2, "a")), machine("n2", pod_on("b"))]

    assert ["n2"] == going(found_by("single", *nodes, pools=[OD_POOL]))


@pytest.mark.case("DIS-171")
def test_somebody_elses_machine_takes_pods_too() -> None:
    nodes = [machine("n1", pod_on("a")), unmanaged_node("other")]

    command = only(found_by("single", *nodes))

    assert ("delete", ("n1",)) == (command.decision, command.names)


@pytest.mark.case("DIS-172")
def test_a_machine_that_is_still_starting_is_nothing_to_count_on() -> None:
    nodes = [
        machine("n1", pod_on("a", cpu="3"), instance_type="s4"),
        machine("n2", initialized=False),
    ]

    found = found_by("single", *nodes, pools=[OD_POOL])

    assert [] == going(found)
    detail = "default/a would have to wait for n2, not up yet"
    assert Blocked("n1", Why.UNCONSOLIDATABLE, detail) == found.verdicts["n1"]


@pytest.mark.case("DIS-173")
def test_a_pod_that_fits_nowhere_else_keeps_its_machine() -> None:
    nodes = [machine("n1", pod_on("a", node_selector={keys.ZONE: "z9"}))]

    found = found_by("single", *nodes)

    assert [] == going(found)
    assert ("Unconsolidatable", True) == (
        found.verdicts["n1"].why,
        found.verdicts["n1"].has_event,
    )


@pytest.mark.case("DIS-174")
def test_a_pod_that_waits_for_good_stands_in_nobodys_way() -> None:
    nodes = [machine("n1", *pods_on(5, "a")), machine("n2", pod_on("b"))]

    step = decided(*nodes, pods=[pod("huge", cpu="1000")], pools=[OD_POOL])

    assert "n2" in going(step)


@pytest.mark.parametrize("method", ["single", "multi", "drift"])
def test_a_pod_of_a_machine_on_its_way_out_that_fits_nowhere_holds_up_everybody(
    method: str,
) -> None:
    drifted = condition("Drifted", at=LONG_AGO)
    nodes = [
        machine("n1", *pods_on(4, "a")),
        machine("n2", pod_on("b"), claim_conditions=[drifted]),
        machine("n3", pod_on("c")),
    ]
    going_away = machine("x", pod_on("stuck", node_selector={keys.ZONE: "z9"}), deleted=NOW)

    alone = found_by(method, *nodes, pools=[OD_POOL])
    beside = found_by(method, *nodes, going_away, pools=[OD_POOL])

    assert alone.commands
    assert [] == going(beside)
    if method != "multi":
        assert "no place for default/stuck" == beside.verdicts["n2"].detail


@pytest.mark.case("DIS-175")
def test_a_pod_that_waits_for_the_free_space_counts() -> None:
    nodes = machine("n1", pod_on("a"), instance_type="s8")

    alone = found_by("single", nodes, pools=[OD_POOL])
    beside = found_by("single", nodes, pools=[OD_POOL], pods=[pod("waits", cpu="7")])

    assert ("s1", "s2", "s4") == only(alone).replacements[0].instance_types
    assert [] == going(beside)


@pytest.mark.case("DIS-176")
def test_two_machines_for_one_are_no_bargain() -> None:
    apart = pod_term(WEB)
    crowd = [pod_on(f"p{n}", anti_affinity=[apart]) for n in range(2)]

    found = found_by("single", machine("n1", *crowd, instance_type="s32"), pools=[OD_POOL])

    assert [] == going(found)
    assert "2 nodes" in found.verdicts["n1"].detail


@pytest.mark.case("DIS-177")
def test_a_cheaper_type_that_fits_takes_over() -> None:
    nodes = machine("n1", pod_on("a", cpu="1500m"), instance_type="s8")

    command = only(found_by("single", nodes, pools=[OD_POOL]))

    assert "replace" == command.decision
    assert (("s2", "s4"), {"on-demand"}) == replaced(command.replacements[0])
    assert 0.6 == pytest.approx(command.savings)
    assert "Underutilized" == command.reason


@pytest.mark.case("DIS-178")
def test_an_equal_price_is_no_reason() -> None:
    nodes = machine("n1", pod_on("a", cpu="1500m"), instance_type="s2")

    found = found_by("single", nodes, pools=[OD_POOL])

    assert [] == going(found)
    assert "s2 (on-demand, z1) at $0.2/h, not below $0.2/h" in found.verdicts["n1"].detail


@pytest.mark.case("DIS-179")
def test_where_both_can_be_had_it_is_spot() -> None:
    nodes = machine("n1", pod_on("a", cpu="1500m"), instance_type="s2")

    command = only(found_by("single", nodes))

    assert (("s2", "s4"), {"spot"}) == replaced(command.replacements[0])
    assert "spot" == command.replacements[0].launch.capacity_type  # type: ignore[union-attr]


@pytest.mark.case("DIS-180")
def test_a_type_that_is_dear_in_one_zone_is_left_out() -> None:
    types = [
        kind("old", 4, ways=[on_demand(1.0)]),
        kind("risky", 4, ways=[spot(0.1, "z1"), spot(2.0, "z2")]),
        kind("safe", 4, ways=[spot(0.5, "z1"), spot(0.6, "z2")]),
    ]
    free = machine("n1", pod_on("a"), instance_type="old", types=types)
    bound = machine(
        "n1", pod_on("a", node_selector={keys.ZONE: "z1"}), instance_type="old", types=types
    )

    assert ("safe",) == only(found_by("single", free, types=types)).replacements[0].instance_types
    assert ("risky", "safe") == (
        only(found_by("single", bound, types=types)).replacements[0].instance_types
    )


@pytest.mark.case("DIS-181")
def test_a_pool_without_spot_has_no_use_for_its_price() -> None:
    types = [
        kind("old", 4, ways=[on_demand(1.0)]),
        kind("new", 4, ways=[on_demand(1.5), spot(0.1)]),
    ]
    nodes = machine("n1", pod_on("a"), instance_type="old", types=types)

    assert [] == going(found_by("single", nodes, types=types, pools=[OD_POOL]))


@pytest.mark.case("DIS-182")
def test_what_is_sold_out_still_has_its_price() -> None:
    types = [
        kind("old", 4, ways=[on_demand(1.0, available=False)]),
        kind("new", 4, ways=[on_demand(0.9)]),
    ]
    nodes = machine("n1", pod_on("a"), instance_type="old", types=types)

    assert ["n1"] == going(found_by("single", nodes, types=types, pools=[OD_POOL]))


@pytest.mark.case("DIS-183")
def test_what_nobody_can_price_is_never_replaced() -> None:
    priceless = machine("n1", pod_on("a"), zone="z9", instance_type="s32")

    found = found_by("single", priceless)

    assert [] == going(found)
    assert (
        "at $0.03/h, and the price of what it would replace is unknown"
        in found.verdicts["n1"].detail
    )


@pytest.mark.case("DIS-183")
def test_what_nobody_can_price_is_deleted_all_the_same() -> None:
    priceless = machine("n1", pod_on("a"), zone="z9", instance_type="s32")

    command = only(found_by("single", priceless, unmanaged_node("big")))

    assert ("delete", ("n1",), 0.0) == (command.decision, command.names, command.savings)


@pytest.mark.case("DIS-184")
@pytest.mark.parametrize("best_effort", [False, True])
def test_prices_must_leave_the_choice_a_pool_asks_for(best_effort: bool) -> None:
    wishes: list[NodeSelectorRequirement | NodeRequirement] = [
        *ON_DEMAND_ONLY,
        min_values(3, keys.INSTANCE_TYPE),
    ]
    nodes = machine("n1", pod_on("a", cpu="1500m"), instance_type="s8")

    found = found_by(
        "single",
        nodes,
        pools=[pool(requirements=wishes)],
        options=Options(best_effort_min_values=best_effort),
    )

    assert [] == going(found)
    assert "minValues" in found.verdicts["n1"].detail
    assert found.verdicts["n1"].has_event


@pytest.mark.parametrize(
    ("options", "settings", "detail"),
    [
        pytest.param({"capacity_type": ""}, pool(), "capacity-type", id="DIS-185 no capacity type"),
        pytest.param({"zone": ""}, pool(), "zone", id="DIS-185 no zone"),
        pytest.param({"instance_type": "odd"}, pool(), "'odd' is not known", id="unknown type"),
        pytest.param(
            {}, pool(policy="WhenEmpty"), "only empty nodes", id="DIS-186 only empty nodes"
        ),
        pytest.param({}, pool(after="Never"), "turned off", id="never"),
    ],
)
def test_what_consolidation_does_not_look_at(
    options: Standing, settings: NodePool, detail: str
) -> None:
    found = found_by("single", machine("n1", pod_on("a"), **options), pools=[settings])

    assert (0, "Unconsolidatable", True) == (
        found.eligible,
        found.verdicts["n1"].why,
        found.verdicts["n1"].has_event,
    )
    assert detail in found.verdicts["n1"].detail


def test_reasons_come_in_order() -> None:
    nodes = machine("n1", pod_on("a"), zone="", capacity_type="", instance_type="odd")

    found = found_by("single", nodes, pools=[pool(after="Never", policy="WhenEmpty")])

    assert "instance type 'odd' is not known" == found.verdicts["n1"].detail


@pytest.mark.case("DIS-187")
def test_a_machine_that_changed_just_now_takes_no_running_pods() -> None:
    nodes = [
        machine("n1", pod_on("a"), pool="slow", last_pod_event=NOW, without=["Consolidatable"]),
        machine("n2", pod_on("b", cpu="3"), instance_type="s4"),
    ]
    pools = [
        pool(requirements=ON_DEMAND_ONLY),
        pool("slow", after="5m", requirements=ON_DEMAND_ONLY),
    ]
    later = NOW + timedelta(minutes=5)

    assert [] == going(found_by("single", *nodes, pools=pools))
    assert ["n2"] == going(found_by("single", *nodes, pools=pools, now=later))


@pytest.mark.case("DIS-187")
def test_but_a_pod_that_does_not_run_yet_may_go_there() -> None:
    fresh = machine("n1", pod_on("a"), pool="slow", last_pod_event=NOW)
    nodes = [fresh, machine("n2", pod_on("b", cpu="3", phase="Pending"), instance_type="s4")]
    pools = [
        pool(requirements=ON_DEMAND_ONLY),
        pool("slow", after="5m", requirements=ON_DEMAND_ONLY),
    ]

    assert ["n2"] == going(found_by("single", *nodes, pools=pools))


@pytest.mark.case("DIS-188")
def test_a_pool_that_never_consolidates_may_take_pods() -> None:
    quiet = machine("n1", pod_on("a"), pool="quiet", last_pod_event=NOW)
    nodes = [quiet, machine("n2", pod_on("b", cpu="3"), instance_type="s4")]
    pools = [pool(requirements=ON_DEMAND_ONLY), pool("quiet", after="Never")]

    assert ["n2"] == going(found_by("single", *nodes, pools=pools))


@pytest.mark.case("DIS-189")
def test_a_cheaper_new_machine_needs_no_patience() -> None:
    fresh = machine("n1", *pods_on(5, "a"), pool="slow", last_pod_event=NOW)
    nodes = [fresh, machine("n2", pod_on("b"), instance_type="s8")]
    pools = [
        pool(requirements=ON_DEMAND_ONLY),
        pool("slow", after="5m", requirements=ON_DEMAND_ONLY),
    ]

    command = only(found_by("single", *nodes, pools=pools))

    assert ("replace", ("n2",)) == (command.decision, command.names)


@pytest.mark.case("DIS-190")
def test_spread_pods_keep_their_zones() -> None:
    rule = spread(selector=selector(WEB))
    nodes = [
        machine("n1", pod_on("a", spread=[rule]), instance_type="s2", zone="z1"),
        machine("n2", pod_on("b", spread=[rule]), instance_type="s8", zone="z2"),
    ]

    command = only(found_by("single", *nodes, pools=[OD_POOL]))

    assert ("n2",) == command.names
    assert {"z2"} == set(command.replacements[0].requirements[keys.ZONE].values)


@pytest.mark.case("DIS-191")
def test_pods_that_keep_apart_are_not_merged() -> None:
    apart = pod_term(WEB)
    nodes = [
        machine(f"n{n}", pod_on(f"p{n}", anti_affinity=[apart]), instance_type="s1")
        for n in range(2)
    ]

    assert [] == going(decided(*nodes, pools=[OD_POOL]))


@pytest.mark.case("DIS-192")
@pytest.mark.parametrize(
    ("respect", "count"),
    [
        pytest.param(True, 0, id="wishes are respected"),
        pytest.param(False, 1, id="unless they are ignored"),
    ],
)
def test_wishes(respect: bool, count: int) -> None:
    wish = [(1, pod_term(WEB))]
    nodes = [
        machine(
            f"n{n}", pod_on(f"p{n}", cpu="400m", preferred_anti_affinity=wish), instance_type="s1"
        )
        for n in range(2)
    ]

    step = decided(
        *nodes, pools=[OD_POOL], options=Options(respect_preferences=respect), types=TYPES[:1]
    )

    assert count == len(going(step))


@pytest.mark.case("DIS-193")
def test_a_pool_whose_types_cannot_be_listed_harms_no_other() -> None:
    nodes = [machine("n1", pod_on("a"), instance_type="s8"), machine("n2", pool="bad")]

    found = found_by("single", *nodes, pools=[OD_POOL, pool("bad")], types_of={"bad": ()})

    assert ["n1"] == going(found)


@pytest.mark.case("DIS-194")
@pytest.mark.parametrize("way", [keys.ON_DEMAND, keys.SPOT])
def test_a_reservation_costs_next_to_nothing(way: str) -> None:
    types = [kind("s4", 4, reservations=[reserved("r-1", 1)])]
    nodes = machine("n1", pod_on("a"), capacity_type=way)

    command = only(found_by("single", nodes, types=types))

    assert (("s4",), {"reserved"}) == replaced(command.replacements[0])


@pytest.mark.case("DIS-194")
def test_a_reservation_that_is_used_up_does_not() -> None:
    types = [kind("s4", 4, reservations=[reserved("r-1", 0)])]
    nodes = machine("n1", pod_on("a"))

    assert [] == going(found_by("single", nodes, types=types, pools=[OD_POOL]))


@pytest.mark.case("DIS-195")
def test_spot_does_not_replace_spot_unless_told_to() -> None:
    nodes = machine("n1", pod_on("a"), instance_type="s8", capacity_type=keys.SPOT)

    found = found_by("single", nodes)

    assert [] == going(found)
    assert "SpotToSpotConsolidation" in found.verdicts["n1"].detail
    assert found.verdicts["n1"].has_event


@pytest.mark.case("DIS-196")
def test_but_a_spot_machine_nobody_needs_goes() -> None:
    nodes = [
        machine("n1", pod_on("a"), capacity_type=keys.SPOT),
        machine("n2", *pods_on(4, "b"), capacity_type=keys.SPOT),
    ]

    command = only(found_by("single", *nodes))

    assert ("delete", ("n1",)) == (command.decision, command.names)


@pytest.mark.parametrize(
    ("cheaper", "listed"),
    [
        pytest.param(14, None, id="DIS-197 fourteen cheaper types are too few"),
        pytest.param(15, 15, id="fifteen are enough"),
        pytest.param(40, 15, id="DIS-198 of forty the fifteen cheapest are asked for"),
    ],
)
def test_spot_for_spot_needs_a_choice(cheaper: int, listed: int | None) -> None:
    types = ladder_of(cheaper + 1)
    nodes = machine(
        "n1",
        pod_on("a"),
        instance_type=f"t{cheaper:02}",
        capacity_type=keys.SPOT,
        types=types,
    )

    found = found_by("single", nodes, types=types, settings=SPOT_TO_SPOT, pools=[SPOT_POOL])

    if listed is None:
        assert [] == going(found)
        assert "15 cheaper instance types to choose from, and there are 14" in (
            found.verdicts["n1"].detail
        )
        assert found.verdicts["n1"].has_event
    else:
        names = tuple(f"t{n:02}" for n in range(listed))
        assert (names, {"spot"}) == replaced(only(found).replacements[0])


@pytest.mark.case("DIS-199")
def test_min_values_may_ask_for_more() -> None:
    types = ladder_of(41)
    nodes = machine("n1", pod_on("a"), instance_type="t40", capacity_type=keys.SPOT, types=types)
    picky = pool(requirements=[*SPOT_ONLY, min_values(20, keys.INSTANCE_TYPE)])

    found = found_by("single", nodes, types=types, settings=SPOT_TO_SPOT, pools=[picky])

    assert 20 == len(only(found).replacements[0].instance_types)


@pytest.mark.case("DIS-200")
def test_a_machine_among_the_cheapest_stays() -> None:
    types = ladder_of(40)
    nodes = machine("n1", pod_on("a"), instance_type="t10", capacity_type=keys.SPOT, types=types)

    found = found_by("single", nodes, types=types, settings=SPOT_TO_SPOT, pools=[SPOT_POOL])

    assert [] == going(found)


@pytest.mark.case("DIS-201")
def test_several_spot_machines_merge_without_that_choice() -> None:
    types = [
        kind("old", 4, ways=[spot(1.0)]),
        kind("big", 8, ways=[spot(1.8)]),
        kind("bigger", 16, ways=[spot(1.9)]),
    ]
    nodes = [
        machine(
            f"n{n}",
            pod_on(f"p{n}", cpu="2"),
            instance_type="old",
            capacity_type=keys.SPOT,
            types=types,
        )
        for n in range(3)
    ]

    command = only(found_by("multi", *nodes, types=types, settings=SPOT_TO_SPOT, pools=[SPOT_POOL]))

    assert 3 == len(command.candidates)
    assert (("big", "bigger"), {"spot"}) == replaced(command.replacements[0])


@pytest.mark.case("DIS-202")
def test_spot_and_on_demand_together_are_not_spot_for_spot() -> None:
    types = [
        kind("old", 4, ways=[on_demand(1.0), spot(1.0)]),
        kind("big", 8, ways=[on_demand(2.9), spot(1.2)]),
    ]
    ways = [keys.SPOT, keys.ON_DEMAND, keys.ON_DEMAND]
    nodes = [
        machine(
            f"n{n}", pod_on(f"p{n}", cpu="2"), instance_type="old", capacity_type=way, types=types
        )
        for n, way in enumerate(ways)
    ]

    command = only(found_by("multi", *nodes, types=types))

    assert 3 == len(command.candidates)
    assert (("big",), {"spot"}) == replaced(command.replacements[0])


def test_a_pool_that_is_sold_out_on_spot_gets_on_demand() -> None:
    types = [
        kind("old", 4, ways=[on_demand(1.0)]),
        kind("new", 4, ways=[on_demand(0.5), spot(0.1, available=False)]),
    ]
    nodes = machine("n1", pod_on("a"), instance_type="old", types=types)

    command = only(found_by("single", nodes, types=types))

    assert (("new",), {"on-demand"}) == replaced(command.replacements[0])


def test_prices_of_overlapping_offerings_are_judged_by_what_is_launched() -> None:
    types = [
        kind("old", 4, ways=[on_demand(1.0)]),
        kind("mixed", 4, ways=[spot(0.2), on_demand(5.0)]),
    ]
    nodes = machine("n1", pod_on("a"), instance_type="old", types=types)

    assert (("mixed",), {"spot"}) == replaced(
        only(found_by("single", nodes, types=types)).replacements[0]
    )
