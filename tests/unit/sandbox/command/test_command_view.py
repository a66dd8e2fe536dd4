"""The screen of a sandbox shows its nodes, its pods and its latest events, and always fits."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from karpenter_sandbox.command.cloud import CloudOptions, first_nodes
from karpenter_sandbox.command.live_view import (
    EventFeed,
    age_text,
    event_line,
    laid_out,
    node_status,
    overview,
)
from karpenter_sandbox.command.prices import price_list
from karpenter_sandbox.store.store import Key, Store

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
    claims: Sequence[JsonObject] = (),
    width: int = 100,
    has_estimates: bool = False,
) -> list[str]:
    view = overview(nodes, [], NOW, price_of, claims=claims, has_estimates=has_estimates)
    console = Console(width=width, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(
            laid_out(view, lines, headline="12:00:00", columns=width, lines=height), end=""
        )
    first, *shown, last = [line.rstrip() for line in capture.get().splitlines()]
    assert ("", "") == (first, last)
    return shown


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
    given = {"type": first_nodes(CloudOptions("kwok")).instance_type, **labels}

    price = price_list().of({names[name]: value for name, value in given.items()})

    assert price == (None if expected is None else pytest.approx(expected * on_demand))


def test_an_empty_cluster_says_how_to_get_nodes() -> None:
    lines = printed([], [])

    assert "0 nodes, 0 ready · 0 pods" == lines[1]
    assert any("--nodes 3" in line for line in lines)


def test_more_nodes_than_fit_are_counted() -> None:
    lines = printed([node(f"node-{n}") for n in range(50)], ["12:00:00   x"], height=20)

    assert len(lines) == 20 - 20 // 3 - 2  # one line in three is left to what was said before
    assert any(line.strip() == "and 45 more" for line in lines)


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
        (node("n", unschedulable=True), "Cordoned"),
        (node("n", "False", unschedulable=True), "NotReady,Cordoned"),
        (node("n", taints=[{"key": "karpenter.sh/disrupted"}]), "Draining"),
        ({"metadata": {"name": "n", "deletionTimestamp": "2030-01-01T12:00:00Z"}}, "Deleting"),
    ],
)
def test_the_state_of_a_node(obj: JsonObject, expected: str) -> None:
    status = node_status(obj)

    assert expected == status


def claim(name: str, *conditions: str, **status: str) -> JsonObject:
    held = [{"type": condition, "status": "True"} for condition in conditions]
    return {
        "metadata": {"name": name, "creationTimestamp": "2030-01-01T11:59:50Z"},
        "status": {"conditions": held, **status},
    }


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param([], "Launching", id="nothing is bought yet"),
        pytest.param(["Launched"], "Registering", id="a machine without a node"),
        pytest.param(["Launched", "Registered"], "Initializing", id="a node without its parts"),
    ],
)
def test_a_claim_on_its_way_is_a_row_with_its_state(conditions: list[str], expected: str) -> None:
    lines = printed([node("node-1")], [], claims=[claim("b-1", *conditions), claim("a-1")])

    assert "1 node, 1 ready, 2 on their way · 0 pods" == lines[1]
    rows = [line.split() for line in lines[4:7]]
    assert [
        ["a-1", "Launching", "-", "-", "-", "10s"],
        ["b-1", expected, "-", "-", "-", "10s"],
    ] == (rows[:2])
    assert "node-1" == rows[2][0]


@pytest.mark.parametrize(
    ("ready", "conditions", "expected"),
    [
        pytest.param("Unknown", ["Launched"], "Registering", id="not registered"),
        pytest.param("False", ["Launched", "Registered"], "NotReady", id="why it is not ready"),
        pytest.param("True", ["Launched", "Registered"], "Initializing", id="not initialized"),
        pytest.param("True", ["Launched", "Registered", "Initialized"], "Ready", id="ready"),
    ],
)
def test_a_claim_and_its_node_are_one_row(ready: str, conditions: list[str], expected: str) -> None:
    nodes = [node("node-1", ready, providerID="kwok://1")]

    view = overview(nodes, [], NOW, claims=[claim("a-1", *conditions, providerID="kwok://1")])

    assert [("node-1", expected)] == [(row.name, row.status) for row in view.nodes]


def test_a_machine_that_is_bought_costs_before_it_is_a_node() -> None:
    bought, wanted = claim("a-1", "Launched"), claim("a-2")
    bought["metadata"]["labels"] = {"size": "small"}
    prices = {"small": 0.1}

    view = overview(
        [], [], NOW, lambda labels: prices.get(labels.get("size", "")), claims=[bought, wanted]
    )

    assert "0 nodes, 0 ready, 2 on their way · $0.1000/h, $73.00/month · 0 pods" == view.summary


@pytest.mark.parametrize("width", [80, 120])
def test_every_column_is_there_however_long_the_names_are(width: int) -> None:
    long = node("kwok-default-x8s2k-calm-ember-1-jne51v1xui-1771592215")
    long["metadata"]["labels"] = {
        "topology.kubernetes.io/zone": "test-zone-a",
        "node.kubernetes.io/instance-type": "s-256x-amd64-linux",
    }
    lines = printed([long], [], width=width, price_of=lambda labels: 12.5, claims=[claim("a-1")])

    assert all(len(line) <= width for line in lines)
    head, _, row = (line.split() for line in lines[3:6])
    assert ["NODE", "STATUS", "TYPE", "ZONE", "PODS", "CPU", "MEM", "$/HOUR", "AGE"] == head
    assert len(head) == len(row)
    assert re.fullmatch("kwok-def.*….*2215", row[0])
    assert row[2].startswith("s-256x")
    assert (row[3], row[7]) == ("test-zone-a", "12.5000")


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


def test_decisions_and_events_have_lines_of_their_own() -> None:
    store, feed = Store(), EventFeed()
    store.on_change(feed.follow)
    feed.add("12:00:00 asking for a-1")
    for n in range(20):
        event = happened("Normal", f"Scheduled{n}", kind="Pod", name="web")
        store.create(Key("", "events", "default", f"e{n}"), event)

    said, again = feed.said(), feed.said()

    assert (["12:00:00 asking for a-1"], []) == (said, again)
    assert 8 == len(feed.recent)
    assert 21 == len(feed.taken())


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


@pytest.mark.parametrize("height", range(1, 30))
@pytest.mark.parametrize("width", [20, 40, 80])
def test_no_screen_is_too_small(width: int, height: int) -> None:
    view = overview([node(f"general-{n}") for n in range(9)], [], NOW, lambda _: 0.5)
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(
            laid_out(view, ["12:00:00   x"] * 8, headline="12", columns=width, lines=height)
        )
    lines = [line.rstrip() for line in capture.get().splitlines()]

    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert "12" in lines  # the headline
    if height >= 12:
        assert any("general-0" in line and "Ready" in line for line in lines)
