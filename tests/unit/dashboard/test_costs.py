"""Costs by pool, capacity type, namespace and owner: shares to the cent, and sums to the cluster."""

from dataclasses import replace
from math import fsum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import NOW, instance_type, node, node_claim, node_pool, offering, owner, pod
from karpenter.api.meta import Resource
from karpenter.dashboard.answers.costs import NAMESPACE, OWNER, TABLES, cost_tables
from karpenter.dashboard.contract import CostRow, CostTable, View
from karpenter.dashboard.shown import Shown
from karpenter.dashboard.view import Picture, ViewBuilder
from karpenter.state.cluster import ClusterState

GIB = 2**30
PRICES = {"small": 0.4, "big": 1.0}


def types(*, is_estimate: bool = False) -> dict[str, Any]:
    """Two instance types with a price each, for the pool of the builders."""
    made = {}
    for name, price in PRICES.items():
        ways = [
            replace(offering("z1", way, price), is_estimate=is_estimate)
            for way in ("spot", "on-demand")
        ]
        made[name] = instance_type(name, offerings=ways)
    return {"np": made}


def machine(name: str, kind: str = "big", **more: Any) -> tuple[Resource, Resource]:
    """A claim and its node with 4 cpu and 16 GiB for pods."""
    size: dict[str, Any] = {"cpu": "4", "memory": "16Gi", **more}
    return node_claim(name, instance_type=kind, **size), node(name, instance_type=kind, **size)


def view_of(*objects: Resource, shown: Shown | None = None, **picture: Any) -> View:
    """The view of a cluster of these objects."""
    state = ClusterState()
    for each in (node_pool("np"), *objects):
        state.apply(each)
    built = ViewBuilder(
        epoch="e",
        source="sandbox",
        provider="kwok",
        cluster="",
        is_live=True,
        shown=shown or Shown(),
    )
    return built.build(Picture(state.snapshot(), NOW, **{"types": types(), **picture}))


def table(view: View, by: str) -> CostTable:
    """One table of a view."""
    (found,) = cost_tables(view, [by])
    return found


def by_name(found: CostTable) -> dict[str, CostRow]:
    """The rows of a table."""
    return {row.name: row for row in found.rows}


def web(name: str, cpu: str, memory: str, namespace: str = "shop", **more: Any) -> Resource:
    """A pod of a Deployment on node a."""
    above = owner("ReplicaSet", f"{namespace}-5d8f")
    return pod(
        name,
        cpu=cpu,
        memory=memory,
        namespace=namespace,
        node_name=more.pop("on", "a"),
        owners=[above],
        **more,
    )


@pytest.mark.case("DASH-19")
@pytest.mark.parametrize(
    ("pods", "shop", "other", "daemons", "idle"),
    [
        pytest.param([], None, None, 0.0, 1.0, id="an-empty-node-is-idle"),
        pytest.param([web("a", "1", "1Gi")], 0.25, None, 0.0, 0.75, id="by-cpu"),
        pytest.param([web("a", "1", "8Gi")], 0.5, None, 0.0, 0.5, id="by-memory-if-it-is-more"),
        pytest.param(
            [web("a", "1", "1Gi"), web("b", "2", "1Gi", "other")],
            0.25,
            0.5,
            0.0,
            0.25,
            id="of-two-namespaces",
        ),
        pytest.param(
            [web("a", "4", "1Gi"), web("b", "1", "16Gi", "other")],
            0.5,
            0.5,
            0.0,
            0.0,
            id="divided-where-shares-exceed-the-node",
        ),
        pytest.param(
            [
                web("a", "1", "1Gi"),
                pod("agent", cpu="1", node_name="a", owners=[owner("DaemonSet", "agent")]),
            ],
            0.25,
            None,
            0.25,
            0.5,
            id="a-daemon-apart",
        ),
    ],
)
def test_a_pod_pays_its_share_of_the_node(
    pods: list[Resource], shop: float | None, other: float | None, daemons: float, idle: float
) -> None:
    found = table(view_of(*machine("a"), *pods), NAMESPACE)

    rows = by_name(found)
    assert [shop, other] == [rows[n].hourly if n in rows else None for n in ("shop", "other")]
    assert daemons == pytest.approx(found.daemons)
    assert idle == pytest.approx(found.idle)


def test_an_owner_is_named_with_its_namespace() -> None:
    view = view_of(*machine("a"), web("a", "1", "1Gi"), web("b", "1", "1Gi", "other"))

    assert {"Deployment/shop/shop", "Deployment/other/other"} == set(by_name(table(view, OWNER)))


@pytest.mark.case("DASH-20")
def test_nodes_of_unknown_price_are_counted_and_not_summed() -> None:
    view = view_of(
        *machine("a"),
        *machine("b", "odd"),
        *machine("c", "odd"),
        web("on-a", "1", "1Gi"),
        web("on-b", "1", "1Gi", on="b"),
    )

    (pool,) = table(view, "pool").rows
    assert (1.0, 3, 2) == (pool.hourly, pool.nodes, pool.unpriced)
    shop = by_name(table(view, NAMESPACE))["shop"]
    assert (0.25, 2, 1) == (shop.hourly, shop.pods, shop.unpriced)
    assert 2 == view.totals.unpriced


def test_a_row_that_rests_on_an_estimate_says_so() -> None:
    view = view_of(*machine("a"), web("a", "1", "1Gi"), types=types(is_estimate=True))

    assert all(row.is_estimate for found in cost_tables(view) for row in found.rows)


def test_rows_are_sorted_by_cost_and_waiting_pods_cost_nothing() -> None:
    view = view_of(
        *machine("a"),
        web("a", "1", "1Gi", "cheap"),
        web("b", "2", "1Gi", "dear"),
        web("c", "2", "1Gi", "waiting", on=""),
    )

    assert ["dear", "cheap"] == [row.name for row in table(view, NAMESPACE).rows]


def test_pods_of_namespaces_that_are_not_shown_are_one_row_without_a_name() -> None:
    view = view_of(
        *machine("a"),
        web("a", "1", "1Gi", "payroll"),
        web("b", "1", "1Gi"),
        shown=Shown(namespaces=frozenset({"shop"})),
    )

    for by in (NAMESPACE, OWNER):
        assert 0.25 == by_name(table(view, by))[""].hourly


amounts = st.tuples(st.integers(0, 6000), st.integers(0, 20))
members = st.tuples(
    st.sampled_from(["a", "b", "c", ""]),
    st.sampled_from(["shop", "other"]),
    amounts,
    st.booleans(),
)


@pytest.mark.case("DASH-19")
@settings(max_examples=40)
@given(
    kinds=st.lists(st.sampled_from(["small", "big", "odd"]), min_size=3, max_size=3),
    pods=st.lists(members, max_size=12),
)
def test_rows_daemons_and_idle_add_up_to_all_priced_nodes(
    kinds: list[str], pods: list[tuple[str, str, tuple[int, int], bool]]
) -> None:
    view = view_of(
        *(each for name, kind in zip("abc", kinds, strict=True) for each in machine(name, kind)),
        *(
            pod(
                f"p{number}",
                cpu=f"{cpu}m",
                memory=f"{memory}Gi",
                namespace=namespace,
                node_name=on,
                owners=[owner("DaemonSet" if is_daemon else "ReplicaSet", "x-1")],
            )
            for number, (on, namespace, (cpu, memory), is_daemon) in enumerate(pods)
        ),
    )
    expected = sum(PRICES.get(kind, 0.0) for kind in kinds)

    found = {
        table.by: fsum([*(row.hourly for row in table.rows), table.daemons, table.idle])
        for table in cost_tables(view)
    }

    assert list(TABLES) == list(found)
    assert all(abs(total - expected) < 1e-9 for total in found.values())
