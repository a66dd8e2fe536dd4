"""What moving pods would save, by the cases of docs/spec/optimize.md."""

from itertools import pairwise
from typing import Unpack

import pytest

from helpers.builders import priced_type
from helpers.disruption import planned
from helpers.disruption_objects import ON_DEMAND_ONLY, on_demand, pool
from helpers.priced_catalogues import L, S, X
from helpers.rebalancing import (
    World,
    completed,
    look,
    pods_of,
    rebalance,
    running,
)
from karpenter.disruption.context import DisruptionSettings
from karpenter.disruption.rebalance.preview import FRACTIONS, RebalancePreview, preview_of
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode


def previewed(*nodes: StateNode, **world: Unpack[World]) -> RebalancePreview:
    return preview_of(look(*nodes, **world))


@pytest.mark.case("OPT-36")
def test_a_row_beyond_a_budget_is_shown_and_named() -> None:
    strict = pool(requirements=ON_DEMAND_ONLY, budgets=["1"])
    nodes = [running(f"n{n}", X, pods_of(10, f"p{n}-")) for n in range(3)]

    *_, last = previewed(*nodes, pools=[strict]).frontier

    assert ("n0", "n1", "n2") == tuple(sorted(last.candidates))
    assert last.refusal is not None
    assert ("Budget", "the budgets of NodePool np allow 1 more disruptions, not 3") == (
        last.refusal.test,
        last.refusal.detail,
    )


@pytest.mark.case("OPT-37")
def test_pods_on_machines_that_may_not_go_are_held() -> None:
    protected = pods_of(3, "held", annotations={keys.DO_NOT_DISRUPT: "true"})

    found = previewed(running("best", X, protected), running("big", X, pods_of(10, "p")))

    assert (13, 3) == (found.reschedulable_pods, found.held_pods)
    assert all("best" not in row.candidates for row in found.frontier)
    verdicts = {row.node: row.blocked.why if row.blocked else "" for row in found.excess}
    assert {"best": "PodDoNotDisrupt", "big": ""} == verdicts
    assert "best" == found.excess[0].node  # its excess is the highest all the same


@pytest.mark.case("OPT-46")
def test_of_a_well_bought_cluster_the_frontier_is_flat() -> None:
    found = previewed(*(running(f"n{n}", L, pods_of(8, f"p{n}-")) for n in range(3)))

    assert {1.08} == {round(row.hourly, 6) for row in found.frontier}
    assert {()} == {row.candidates for row in found.frontier}
    assert 1.08 == pytest.approx(found.lower_bound_hourly)
    assert 1.08 == pytest.approx(found.cheapest_hourly)


@pytest.mark.case("OPT-47")
def test_the_frontier_is_shown_while_rebalancing_is_off() -> None:
    node = running("big", X, pods_of(10, "p"))
    off = DisruptionSettings()

    found = previewed(node, settings=off)

    assert [0.0] * 5 + [1.54] == [round(row.savings, 6) for row in found.frontier]
    assert list(FRACTIONS) == [row.percent for row in found.frontier]
    assert () == planned(node, **completed({"settings": off})).commands


def test_rows_never_cost_more_than_those_before_them_nor_less_than_the_bound() -> None:
    nodes = [running(f"n{n}", X, pods_of(6 + n, f"p{n}-")) for n in range(5)]

    found = previewed(*nodes, running("spare", S, []))

    assert 10.1 == pytest.approx(found.now_hourly)
    assert all(one.hourly >= other.hourly for one, other in pairwise(found.frontier))
    assert all(row.hourly >= found.lower_bound_hourly for row in found.frontier)
    for row in found.frontier:
        assert row.moved_pods <= found.reschedulable_pods * row.percent / 100
        assert found.now_hourly == pytest.approx(row.hourly + row.savings)


def test_the_first_row_is_what_goes_without_moving_anything() -> None:
    found = previewed(running("empty", S, []), running("full", L, pods_of(8, "p")))

    assert (("empty",), 0, ()) == (
        found.frontier[0].candidates,
        found.frontier[0].moved_pods,
        found.frontier[0].replacements,
    )


def test_moves_beyond_the_limit_are_told() -> None:
    node = running("big", X, pods_of(10, "p"))

    *_, last = previewed(node, settings=rebalance(moves=0.5)).frontier

    assert last.refusal is not None
    assert "MoveBudget: it would move 10 pods, and 5 of 5 may be moved in this hour" == str(
        last.refusal
    )


def test_a_pool_that_is_excluded_stays_in_every_row() -> None:
    own = pool(requirements=ON_DEMAND_ONLY, annotations={"cost.karpenter.sh/rebalance": "off"})

    found = previewed(running("big", X, pods_of(10, "p")), pools=[own])

    assert {()} == {row.candidates for row in found.frontier}
    assert found.excess[0].blocked is not None
    assert 10 == found.held_pods


def test_a_bargain_is_no_reason_to_say_that_others_cost_too_much() -> None:
    """A machine that is cheaper than anything on sale may be kept, so the bound counts it."""
    types = (priced_type("old", 8, 0.1), priced_type("new", 8, 0.4))
    gone = types[0].with_offerings((on_demand(0.1, available=False),))
    nodes = [running(f"n{n}", types[0], pods_of(8, f"p{n}-"), types) for n in range(2)]

    found = previewed(*nodes, types=(gone, types[1]))

    assert 0.2 == pytest.approx(found.now_hourly)
    assert 0.2 == pytest.approx(found.lower_bound_hourly)
    assert all(row.excess <= 1e-6 for row in found.excess)


def test_there_is_no_time_for_rows() -> None:
    view = look(running("big", X, pods_of(10, "p")))

    found = preview_of(view, FRACTIONS, lambda: False)

    assert (True, None) == (found.is_cut, found.cheapest_hourly)
    assert {2.0} == {row.hourly for row in found.frontier}
