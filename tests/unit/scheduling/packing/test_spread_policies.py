"""Topology spread: what is looked at when pods are counted, revisions, taints and node affinity."""

import pytest

from helpers.builders import (
    APP_T,
    expression,
    managed_node,
    node_pool,
    pod,
    pods,
    selector,
    spread,
    taint,
    toleration,
)
from helpers.solver import solved
from karpenter.api.pods import Pod
from karpenter.model import labels as keys
from karpenter.scheduling.plan import Why
from karpenter.state.nodes import StateNode

TAINT = taint("dedicated=db:NoSchedule")
CHOSEN = {"chosen": "yes"}


def revision(name: str, count: int = 2, key: str = "r") -> list[Pod]:
    labels = {**APP_T, "r": name}
    return pods(count, name, labels=labels, spread=[spread(keys.HOSTNAME, match_label_keys=[key])])


@pytest.mark.case("SCH-168")
def test_each_revision_is_spread_by_itself() -> None:
    answer = solved([*revision("a"), *revision("b")])

    assert [2, 2] == answer.loads
    assert [{"a", "b"}] * 2 == [
        {name.removeprefix("default/")[0] for name in claim.pods} for claim in answer.claims
    ]


@pytest.mark.case("SCH-168")
def test_without_the_revision_all_count_together() -> None:
    answer = solved([*revision("a", key="app"), *revision("b", key="app")])

    assert [1, 1, 1, 1] == answer.loads


@pytest.mark.case("SCH-169")
def test_a_revision_label_the_pods_lack_is_ignored() -> None:
    answer = solved(revision("a", key="absent"))

    assert [1, 1] == answer.loads


def test_pods_of_an_older_revision_that_run_already_do_not_count() -> None:
    older = pods(3, "old", labels={**APP_T, "r": "old"}, node_name="n")
    waiting = pods(2, labels={**APP_T, "r": "new"}, spread=[spread(match_label_keys=["r"])])

    answer = solved(waiting, nodes=[managed_node("n", zone="z1", pods=older, slots=4)])

    assert {"n": ["pod-0"]} == answer.existing
    assert [1, 1] == sorted(answer.pods_by(keys.ZONE).values())


@pytest.mark.case("SCH-170")
@pytest.mark.parametrize(
    ("policy", "placed"),
    [
        pytest.param("Ignore", {"foo": 1}, id="a pool out of reach holds the other back"),
        pytest.param("Honor", {"foo": 2}, id="a pool out of reach does not matter"),
    ],
)
def test_domains_of_a_pool_whose_taint_is_not_tolerated(
    policy: str, placed: dict[str, int]
) -> None:
    pools = [
        node_pool("open", labels={"fk": "foo"}),
        node_pool("tainted", labels={"fk": "bar"}, taints=[TAINT]),
    ]

    answer = solved(
        pods(2, labels=APP_T, spread=[spread("fk", node_taints_policy=policy)]), pools=pools
    )

    assert placed == answer.pods_by("fk")


@pytest.mark.case("SCH-170")
def test_a_pool_whose_taint_is_tolerated_takes_its_share() -> None:
    pools = [
        node_pool("open", labels={"fk": "foo"}),
        node_pool("tainted", labels={"fk": "bar"}, taints=[TAINT]),
    ]
    waiting = pods(
        2,
        labels=APP_T,
        spread=[spread("fk", node_taints_policy="Honor")],
        tolerations=[toleration("dedicated")],
    )

    answer = solved(waiting, pools=pools)

    assert {"foo": 1, "bar": 1} == answer.pods_by("fk")


def full(fk: str, *, tainted: bool = False, chosen: bool = True, held: int = 0) -> StateNode:
    """A machine without room, in a domain of its own, that runs ``held`` pods that count."""
    return managed_node(
        f"n-{fk}",
        slots=held,
        labels={"fk": fk} | (CHOSEN if chosen else {}),
        taints=[TAINT] if tainted else [],
        pods=pods(held, f"held-{fk}", labels=APP_T, node_name=f"n-{fk}"),
    )


@pytest.mark.parametrize(
    ("taints", "affinity", "nodes", "placed"),
    [
        pytest.param(
            "Ignore",
            "Honor",
            [full("foo", tainted=True), full("bar", tainted=True)],
            1,
            id="SCH-171 tainted machines hold the pool back",
        ),
        pytest.param(
            "Honor",
            "Honor",
            [full("foo", tainted=True), full("bar", tainted=True)],
            5,
            id="SCH-171 tainted machines do not matter",
        ),
        pytest.param(
            "Ignore",
            "Ignore",
            [full("foo", chosen=False), full("bar", chosen=False)],
            1,
            id="SCH-172 machines the pod does not select hold the pool back",
        ),
        pytest.param(
            "Ignore",
            "Honor",
            [full("foo", chosen=False), full("bar", chosen=False)],
            5,
            id="SCH-172 machines the pod does not select do not matter",
        ),
        pytest.param(
            "Honor",
            "Ignore",
            [full("foo", chosen=False)],
            1,
            id="only taints are honoured: the machine not selected counts",
        ),
        pytest.param(
            "Honor",
            "Ignore",
            [full("foo", tainted=True, chosen=False)],
            5,
            id="only taints are honoured: the tainted machine does not count",
        ),
        pytest.param(
            "Honor",
            "Honor",
            [full("foo", tainted=True), full("bar", chosen=False)],
            5,
            id="both are honoured: neither machine counts",
        ),
        pytest.param(
            "Honor",
            "Honor",
            [full("foo", held=2)],
            3,
            id="both are honoured: a machine in reach counts with its pods",
        ),
        pytest.param(
            "Ignore",
            "Ignore",
            [full("foo", tainted=True, chosen=False, held=2)],
            3,
            id="nothing is honoured: any machine counts with its pods",
        ),
        pytest.param(
            "Honor",
            "Ignore",
            [full("baz", tainted=True, held=3)],
            5,
            id="pods on a machine that does not count do not count in the pool's domain",
        ),
    ],
)
def test_which_machines_a_spread_looks_at(
    taints: str, affinity: str, nodes: list[StateNode], placed: int
) -> None:
    rule = spread("fk", node_taints_policy=taints, node_affinity_policy=affinity)

    answer = solved(
        pods(5, labels=APP_T, spread=[rule], node_selector=CHOSEN),
        nodes=nodes,
        pools=[node_pool(labels={"fk": "baz", **CHOSEN})],
    )

    assert {"baz": placed} == answer.pods_by("fk")
    assert 5 - placed == len(answer.unplaced)
    assert all({Why.TOPOLOGY} == why for why in answer.unplaced.values())


@pytest.mark.parametrize(
    ("labels", "placed"),
    [
        pytest.param({"second": "yes"}, 1, id="a machine that meets the second alternative counts"),
        pytest.param({"third": "yes"}, 3, id="a machine that meets no alternative does not"),
    ],
)
def test_any_alternative_of_the_required_affinity_makes_a_machine_count(
    labels: dict[str, str], placed: int
) -> None:
    waiting = pods(
        3,
        labels=APP_T,
        spread=[spread("fk")],
        required=[[expression("chosen", "In", "yes")], [expression("second", "In", "yes")]],
    )

    answer = solved(
        waiting,
        nodes=[managed_node("n", slots=0, labels={"fk": "foo", **labels})],
        pools=[node_pool(labels={"fk": "baz", **CHOSEN})],
    )

    assert {"baz": placed} == answer.pods_by("fk")


def test_pods_the_selector_does_not_mean_are_spread_around_those_it_does() -> None:
    rule = spread(selector=selector({"app": "db"}))
    databases = pods(2, "db", labels={"app": "db"}, node_name="n")

    answer = solved(
        pods(4, labels=APP_T, spread=[rule]),
        nodes=[managed_node("n", zone="z1", slots=2, pods=databases)],
    )

    assert "z1" not in answer.pods_by(keys.ZONE)
    assert 4 == len(answer.placed)


def test_a_pod_counts_for_a_rule_it_does_not_have_itself() -> None:
    pinned = pod("pinned", cpu="2", labels=APP_T, node_selector={keys.ZONE: "z1"})

    answer = solved([pinned, *pods(2, labels=APP_T, spread=[spread()])])

    assert {"z1": 1, "z2": 1, "z3": 1} == answer.pods_by(keys.ZONE)
