"""The screen of a sandbox shows its nodes, its pods and its latest events, and always fits."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from karpenter.cli.sandbox_cloud import CloudWishes, first_nodes
from karpenter.cli.sandbox_prices import price_list
from karpenter.cli.sandbox_view import (
    EventFeed,
    age_text,
    event_line,
    laid_out,
    node_status,
    overview,
)
from karpenter.sandbox.store import Key, Store

JsonObject = dict[str, Any]
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def node(name: str, ready: str | None = "True", **spec: Any) -> JsonObject:
    conditions = [{"type": "Ready", "status": ready}] if ready is not None else []
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": "2030-01-01T09:00:00Z",
            "labels": {"topology.kubernetes.io/zone": "a"},
        },
        "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}, "conditions": conditions},
    }


def pod(node_name: str | None, phase: str = "Running", **metadata: Any) -> JsonObject:
    requests = {"cpu": "500m", "memory": "1Gi"}
    spec: JsonObject = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    if node_name:
        spec["nodeName"] = node_name
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def printed(
    nodes: Sequence[JsonObject],
    lines: Sequence[str],
    height: int = 40,
    price_of: Callable[[Mapping[str, str]], float | None] = lambda labels: None,
    *,
    has_estimates: bool = False,
) -> list[str]:
    view = overview(nodes, [], NOW, price_of, has_estimates=has_estimates)
    console = Console(width=100, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(laid_out(view, lines, headline="12:00:00", height=height))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_nodes_show_how_much_of_them_is_asked_for() -> None:
    pods = [
        pod("node-1"),
        pod("node-1"),
        pod("node-1", "Succeeded"),
        pod(None, "Pending"),
        pod("node-2", deletionTimestamp="2030-01-01T12:00:00Z"),
    ]

    view = overview([node("node-10"), node("node-2"), node("node-1")], pods, NOW)

    shown = [(row.name, row.pods, row.cpu, row.memory, row.age) for row in view.nodes]
    assert [
        ("node-1", 2, "25%", "25%", "3h"),
        ("node-2", 1, "12%", "12%", "3h"),
        ("node-10", 0, "0%", "0%", "3h"),
    ] == shown
    assert (
        "3 nodes, 3 ready · 5 pods: 2 running, 1 succeeded, 1 pending, 1 terminating"
        == view.summary
    )


def priced(name: str, **labels: str) -> JsonObject:
    obj = node(name)
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def test_nodes_show_what_they_cost_where_that_is_known() -> None:
    prices = {"small": 0.1, "large": 1.25}
    nodes = [priced("node-1", size="small"), priced("node-2", size="large"), priced("node-3")]

    lines = printed(nodes, [], price_of=lambda labels: prices.get(labels.get("size", "")))

    assert (
        "3 nodes, 3 ready · $1.3500/h, $985.50/month and 1 node of unknown price · 0 pods"
        == lines[1]
    )
    (head, *rows) = [line.split() for line in lines[3:7]]
    place = head.index("$/HOUR") - len(head)
    assert ["0.1000", "1.2500", "-"] == [row[place] for row in rows]


def test_estimated_prices_are_marked_in_the_sum_and_in_the_column() -> None:
    lines = printed([node("node-1")], [], price_of=lambda labels: 0.1, has_estimates=True)

    assert "1 node, 1 ready · ~$0.1000/h, ~$73.00/month (estimate) · 0 pods" == lines[1]
    head, row = (line.split() for line in lines[3:5])
    assert "~0.1000" == row[head.index("$/HOUR") - len(head)]


def test_nodes_of_unknown_price_have_no_column_for_it() -> None:
    lines = printed([node("node-1")], [])

    assert "1 node, 1 ready · 0 pods" == lines[1]
    assert not any("$" in line for line in lines)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"zone": "test-zone-a", "capacity": "spot"}, 0.7, id="spot costs less"),
        pytest.param({"zone": "test-zone-a"}, 1.0, id="without a capacity type it is on demand"),
        pytest.param({"zone": "elsewhere"}, 1.0, id="an unknown zone is the dearest"),
        pytest.param({"type": "unheard-of"}, None, id="an unknown type has no price"),
    ],
)
def test_prices_are_those_of_the_simulated_provider(
    labels: dict[str, str], expected: float | None
) -> None:
    on_demand = 0.025 * 4 + 0.001 * (16 * 2**30 / 1e9)
    names = {
        "type": "node.kubernetes.io/instance-type",
        "zone": "topology.kubernetes.io/zone",
        "capacity": "karpenter.sh/capacity-type",
    }
    given = {"type": first_nodes(CloudWishes("kwok")).instance_type, **labels}

    price = price_list().of({names[name]: value for name, value in given.items()})

    assert price == (None if expected is None else pytest.approx(expected * on_demand))


def test_an_empty_cluster_says_how_to_get_nodes() -> None:
    lines = printed([], [])

    assert "0 nodes, 0 ready · 0 pods" == lines[1]
    assert any("--nodes 3" in line for line in lines)


def test_more_nodes_than_fit_are_counted() -> None:
    lines = printed([node(f"node-{n}") for n in range(50)], ["12:00:00   x"], height=20)

    assert len(lines) <= 20
    assert any(line.strip() == "and 41 more" for line in lines)


def test_a_long_event_stays_on_one_line() -> None:
    lines = printed([], ["12:00:00 ! pod/x Failed: " + "long " * 100])

    assert lines[-1].endswith("…")
    assert 100 >= len(lines[-1])


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (node("n"), "Ready"),
        (node("n", "False"), "NotReady"),
        (node("n", "Unknown"), "Unreachable"),
        (node("n", None), "Booting"),
        (node("n", unschedulable=True), "Ready,SchedulingDisabled"),
    ],
)
def test_the_state_of_a_node(obj: JsonObject, expected: str) -> None:
    status = node_status(obj)

    assert expected == status


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(-3, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (1e6, "11d")],
)
def test_ages_are_short(seconds: float, expected: str) -> None:
    text = age_text(seconds)

    assert expected == text


def happened(severity: str, reason: str, **about: str) -> JsonObject:
    return {
        "metadata": {"name": "e", "namespace": "default"},
        "type": severity,
        "reason": reason,
        "message": "it happened",
        "lastTimestamp": "2030-01-01T12:34:56Z",
        "involvedObject": about,
    }


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            happened("Normal", "Scheduled", kind="Pod", namespace="default", name="web"),
            "12:34:56   pod/web Scheduled: it happened",
        ),
        (
            happened("Warning", "Failed", kind="Pod", namespace="team", name="web"),
            "12:34:56 ! pod/team/web Failed: it happened",
        ),
        (
            happened("Normal", "Registered", kind="Node", name="node-1"),
            "12:34:56   node/node-1 Registered: it happened",
        ),
    ],
)
def test_an_event_is_one_line(event: JsonObject, expected: str) -> None:
    line = event_line(event)

    assert expected == line


def test_the_feed_takes_events_and_nothing_else() -> None:
    store, feed = Store(), EventFeed()
    store.on_change(feed.follow)
    event = happened("Normal", "Scheduled", kind="Pod", name="web")
    store.create(Key("", "events", "default", "e"), event)
    store.create(Key("", "pods", "default", "p"), {"metadata": {"name": "p"}})
    store.remove(Key("", "events", "default", "e"))

    first, second = feed.taken(), feed.taken()

    assert ["12:34:56   pod/web Scheduled: it happened"] == first == list(feed.recent)
    assert [] == second
