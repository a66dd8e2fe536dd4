"""Pods of less priority make way, and as few of them as possible."""

from typing import Any

import pytest

from helpers.placing import labelled, required, term
from helpers.scheduler_bench import Bench, node, pod, taint
from karpenter_sandbox.scheduling.placement import Chosen, Rejected

Json = dict[str, Any]

WEB = {"app": "web"}


def started(obj: Json, second: int) -> Json:
    return {**obj, "status": {"startTime": f"2030-01-01T00:00:{second:02}Z"}}


def budget(allowed: int, selector: Json, **status: Any) -> Json:
    return {
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }


def preemption(bench: Bench, obj: Json) -> tuple[str, list[str]]:
    """The node chosen and the names of its victims."""
    decision = bench.decision(obj)
    assert isinstance(decision, Rejected)
    assert decision.candidate is not None, decision.message
    return decision.candidate.node, [victim.key[1] for victim in decision.candidate.victims]


def test_a_pod_of_less_priority_makes_way() -> None:
    bench = Bench(node("a", cpu="2"))
    bench.run(pod("low", cpu="2", priority=1), on="a")

    assert ("a", ["low"]) == preemption(bench, pod("high", cpu="1", priority=10))


def test_the_sentence_then_says_nothing_of_preemption() -> None:
    bench = Bench(node("a", cpu="2"))
    bench.run(pod("low", cpu="2", priority=1), on="a")

    expected = "0/1 nodes are available: 1 Insufficient cpu."
    assert expected == bench.decide(pod("high", cpu="1", priority=10))


@pytest.mark.parametrize("priority", [10, 11])
def test_a_pod_of_no_less_priority_stays(priority: int) -> None:
    bench = Bench(node("a", cpu="2"))
    bench.run(pod("other", cpu="2", priority=priority), on="a")

    assert "1 No preemption victims found for incoming pod." in bench.decide(
        pod("high", cpu="1", priority=10)
    )


def test_pods_that_fit_beside_it_are_spared() -> None:
    bench = Bench(node("a", cpu="4"))
    bench.run(pod("small", cpu="1", priority=1), pod("large", cpu="3", priority=1), on="a")

    assert ("a", ["large"]) == preemption(bench, pod("high", cpu="3", priority=10))


def test_the_more_important_are_spared_first() -> None:
    bench = Bench(node("a", cpu="3"))
    bench.run(pod("one", cpu="1", priority=1), pod("three", cpu="1", priority=3), on="a")
    bench.run(pod("two", cpu="1", priority=2), on="a")

    assert ("a", ["two", "one"]) == preemption(bench, pod("high", cpu="2", priority=10))


def test_of_equals_the_one_that_ran_longer_is_spared() -> None:
    bench = Bench(node("a", cpu="2"))
    bench.run(started(pod("old", cpu="1"), 1), started(pod("young", cpu="1"), 2), on="a")

    assert ("a", ["young"]) == preemption(bench, pod("high", cpu="1", priority=10))


@pytest.mark.parametrize(
    ("pods", "chosen"),
    [
        pytest.param(
            {"a": [pod("a1", cpu="2", labels=WEB)], "b": [pod("b1", cpu="2", priority=5)]},
            "b",
            id="no disruption budget is broken",
        ),
        pytest.param(
            {"a": [pod("a1", cpu="2", priority=5)], "b": [pod("b1", cpu="2", priority=4)]},
            "b",
            id="the most important victim is less important",
        ),
        pytest.param(
            {
                "a": [pod("a1", cpu="1", priority=5), pod("a2", cpu="1", priority=5)],
                "b": [pod("b1", cpu="1", priority=5), pod("b2", cpu="1", priority=1)],
            },
            "b",
            id="the victims together are less important",
        ),
        pytest.param(
            {
                "a": [pod("a1", cpu="1", priority=-5), pod("a2", cpu="1", priority=-5)],
                "b": [pod("b1", cpu="2", priority=-5)],
            },
            "b",
            id="there are fewer victims",
        ),
        pytest.param(
            {"a": [started(pod("a1", cpu="2"), 1)], "b": [started(pod("b1", cpu="2"), 9)]},
            "b",
            id="the victim has not run for long",
        ),
    ],
)
def test_the_node_is_chosen_where(pods: dict[str, list[Json]], chosen: str) -> None:
    bench = Bench(node("a", cpu="2"), node("b", cpu="2"))
    bench.budgets = [budget(0, labelled(app="web"))]
    for name, running in pods.items():
        bench.run(*running, on=name)

    assert chosen == preemption(bench, pod("high", cpu="2", priority=10))[0]


def test_pods_under_a_budget_are_spared_before_others() -> None:
    bench = Bench(node("a", cpu="2"))
    bench.budgets = [budget(0, labelled(app="web"))]
    bench.run(pod("kept", cpu="1", labels=WEB), pod("gone", cpu="1", priority=5), on="a")

    assert ("a", ["gone"]) == preemption(bench, pod("high", cpu="1", priority=10))


def test_a_budget_is_broken_when_nothing_else_helps() -> None:
    bench = Bench(node("a", cpu="2"))
    bench.budgets = [budget(0, labelled(app="web"))]
    bench.run(pod("kept", cpu="2", labels=WEB), on="a")

    assert ("a", ["kept"]) == preemption(bench, pod("high", cpu="1", priority=10))


def test_an_empty_selector_protects_nobody() -> None:
    bench = Bench(node("a", cpu="2"), node("b", cpu="2"))
    bench.budgets = [budget(0, {})]
    bench.run(pod("a1", cpu="2", priority=1), on="a")
    bench.run(pod("b1", cpu="2", priority=2), on="b")

    assert ("a", ["a1"]) == preemption(bench, pod("high", cpu="1", priority=10))


def test_what_no_victim_can_change_is_left_alone() -> None:
    bench = Bench(node("a", cpu="2", taints=[taint("x")]), node("b", cpu="1"))
    bench.run(pod("low-a", cpu="2"), on="a")
    bench.run(pod("low-b", cpu="1"), on="b")

    expected = (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
        " no new claims to deallocate, preemption: 0/2 nodes are available:"
        " 2 Preemption is not helpful for scheduling."
    )
    assert expected == bench.decide(pod("high", cpu="2", priority=10))


def test_what_would_still_be_missing_is_told() -> None:
    bench = Bench(node("a", cpu="2"))
    bench.run(pod("low", cpu="500m"), pod("same", cpu="1", priority=10), on="a")

    expected = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate,"
        " preemption: 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert expected == bench.decide(pod("high", cpu="2", priority=10))


def test_a_pod_wanted_far_makes_way() -> None:
    bench = Bench(node("a"))
    bench.run(pod("near", labels=WEB), pod("bystander"), on="a")
    apart = required("podAntiAffinity", term(labelled(app="web")))

    assert ("a", ["near"]) == preemption(bench, pod("high", priority=10, affinity=apart))


def test_room_is_kept_for_a_pod_that_waits_for_its_victims() -> None:
    bench = Bench(node("a", cpu="2"), node("b", cpu="1"))
    waiting = bench.shapes.read(pod("high", cpu="2", priority=10))
    bench.cluster.nominate(waiting, "a")

    assert bench.decide(pod("low", cpu="1")) == "b"
    assert Chosen("a") == bench.placement.decide(waiting)


def test_room_is_not_kept_from_more_important_pods() -> None:
    bench = Bench(node("a", cpu="2"))
    bench.cluster.nominate(bench.shapes.read(pod("high", cpu="2", priority=10)), "a")

    assert bench.decide(pod("higher", cpu="2", priority=11)) == "a"


def test_no_more_victims_are_taken_while_some_are_leaving() -> None:
    bench = Bench(node("a", cpu="2"), node("b", cpu="2"))
    leaving = pod("leaving", cpu="2", metadata={"deletionTimestamp": "2030-01-01T00:00:30Z"})
    bench.run(leaving, on="a")
    bench.run(pod("low", cpu="2"), on="b")
    waiting = pod("high", cpu="2", priority=10, status={"nominatedNodeName": "a"})
    decision = bench.decision(waiting)

    assert isinstance(decision, Rejected)
    assert (None, True) == (decision.candidate, decision.keeps_nomination)
    assert decision.message.endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
