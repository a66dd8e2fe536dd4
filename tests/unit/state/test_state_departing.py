"""Pods of machines that go are planned for, unless something holds them where they are."""

from datetime import UTC, datetime, timedelta
from typing import Unpack

import pytest

from helpers.builders import (
    APP_T,
    NOW,
    PodOptions,
    condition,
    daemon_pod,
    daemon_set,
    launching_node,
    managed_node,
    owner,
    pdb,
    pod,
    toleration,
    unmanaged_node,
)
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.model.conditions import timestamp
from karpenter.model.labels import DO_NOT_DISRUPT
from karpenter.state.departing_pods import (
    Budgets,
    annotation_problem,
    is_evictable,
    is_protected,
    pods_to_move,
    protection_in_words,
)
from karpenter.state.nodes import StateNode


def running(name: str = "a", **options: Unpack[PodOptions]) -> Pod:
    """A pod with label ``app=t`` on node ``n``."""
    options.setdefault("labels", APP_T)
    options["node_name"] = "n"
    return pod(name, **options)


def moved(*pods: Pod, budgets: tuple[PodDisruptionBudget, ...] = ()) -> list[str]:
    machine = managed_node("n", marked=True, pods=pods)
    return [each.metadata.name for each in pods_to_move([machine], budgets, now=NOW)]


def protected(wish: str, started: int | None = 0) -> Pod:
    """A pod with a do-not-disrupt annotation that started so many seconds ago."""
    options: PodOptions = {"annotations": {DO_NOT_DISRUPT: wish}}
    if started is not None:
        options["started"] = NOW - timedelta(seconds=started)
    return running(**options)


@pytest.mark.parametrize(
    ("candidate", "moves"),
    [
        pytest.param(running(), True, id="SCH-220 a running pod"),
        pytest.param(running(phase="Succeeded"), False, id="a finished pod"),
        pytest.param(running(phase="Failed"), False, id="a failed pod"),
        pytest.param(
            running(deleted=NOW, owners=[owner("ReplicaSet", "web")]),
            False,
            id="SCH-221 a terminating pod of a ReplicaSet has been replaced",
        ),
        pytest.param(
            running(deleted=NOW, owners=[owner("StatefulSet", "db")]),
            True,
            id="SCH-221 a terminating pod of a StatefulSet has not",
        ),
        pytest.param(
            running(deleted=NOW, owners=[owner("App", "x", "a.io/v1"), owner("StatefulSet", "db")]),
            True,
            id="SCH-221 whoever else owns it",
        ),
        pytest.param(
            running(deleted=NOW, owners=[owner("StatefulSet", "db", "example.com/v1")]),
            False,
            id="somebody else's StatefulSet is none",
        ),
        pytest.param(daemon_pod(daemon_set(), "n"), False, id="a daemon"),
        pytest.param(running(owners=[owner("Node", "n", "v1")]), False, id="a mirrored pod"),
        pytest.param(protected("true"), False, id="SCH-223 do-not-disrupt"),
        pytest.param(protected("5m", 360), True, id="SCH-223 do-not-disrupt for 5m, 6m ago"),
        pytest.param(protected("5m", 240), False, id="do-not-disrupt for 5m, 4m ago"),
        pytest.param(
            running(
                deleted=NOW,
                owners=[owner("StatefulSet", "db")],
                annotations={DO_NOT_DISRUPT: "true"},
            ),
            True,
            id="a pod that is terminating already is beyond protection",
        ),
        pytest.param(
            running(tolerations=[toleration()]), True, id="a pod that tolerates being drained"
        ),
    ],
)
def test_pods_of_a_departing_machine(candidate: Pod, moves: bool) -> None:
    assert moves is bool(moved(candidate))


@pytest.mark.parametrize(
    ("machine", "moves"),
    [
        pytest.param(managed_node("n", pods=[running()]), False, id="a machine that stays"),
        pytest.param(
            unmanaged_node("n", deleted=NOW, pods=[running()]),
            True,
            id="an unmanaged one that goes",
        ),
        pytest.param(launching_node("n", deleted=NOW), False, id="one that never became a node"),
    ],
)
def test_only_machines_that_go_are_looked_at(machine: StateNode, moves: bool) -> None:
    assert moves is bool(pods_to_move([machine], (), now=NOW))


@pytest.mark.parametrize(
    ("budgets", "options", "moves"),
    [
        pytest.param([pdb(max_unavailable=0)], {}, False, id="SCH-222 maxUnavailable 0"),
        pytest.param([pdb(max_unavailable="0%")], {}, False, id="SCH-222 maxUnavailable 0%"),
        pytest.param([pdb(min_available="100%")], {}, False, id="SCH-222 minAvailable 100%"),
        pytest.param(
            [pdb("one", max_unavailable=1), pdb("two", max_unavailable=1)],
            {},
            False,
            id="SCH-222 two budgets",
        ),
        pytest.param([pdb(max_unavailable=1)], {}, True, id="maxUnavailable 1"),
        pytest.param([pdb(max_unavailable="1%")], {}, True, id="maxUnavailable 1%"),
        pytest.param([pdb(min_available=100)], {}, True, id="a number that must stay"),
        pytest.param([pdb(min_available="99%")], {}, True, id="minAvailable 99%"),
        pytest.param([pdb()], {}, True, id="a budget without any figure"),
        pytest.param(
            [pdb(max_unavailable=0, labels={"app": "x"})], {}, True, id="a budget of other pods"
        ),
        pytest.param(
            [pdb(max_unavailable=0, labels={})], {}, False, id="a budget of every pod there is"
        ),
        pytest.param(
            [pdb(max_unavailable=0, namespace="kube-system")],
            {},
            True,
            id="a budget of another namespace",
        ),
        pytest.param(
            [pdb(max_unavailable=0, namespace="shop")],
            {"namespace": "shop"},
            False,
            id="a budget of the pod's own namespace, whichever that is",
        ),
        pytest.param(
            [pdb(max_unavailable=0)],
            {"namespace": "shop"},
            True,
            id="a budget of the default namespace holds nobody elsewhere",
        ),
        pytest.param([pdb(min_available="1000")], {}, True, id="a number in quotes is no share"),
        pytest.param([pdb(max_unavailable="some%")], {}, True, id="a share that is no number"),
        pytest.param(
            [pdb(max_unavailable=0, unhealthy_policy="AlwaysAllow")],
            {"conditions": [condition("PodScheduled"), condition("Ready", "False")]},
            True,
            id="an unready pod is unready whatever else is said of it",
        ),
        pytest.param(
            [pdb(max_unavailable=0, unhealthy_policy="AlwaysAllow")],
            {"conditions": [condition("example.com/gate", "False"), condition("Ready")]},
            False,
            id="a ready pod is ready whatever else is said of it",
        ),
        pytest.param(
            [pdb(max_unavailable=0, unhealthy_policy="AlwaysAllow")],
            {"conditions": [condition("Ready", "False")]},
            True,
            id="an unready pod may always go where the budget says so",
        ),
        pytest.param(
            [pdb(max_unavailable=0, unhealthy_policy="IfHealthyBudget")],
            {"conditions": [condition("Ready", "False")]},
            False,
            id="an unready pod may not go where the budget is silent",
        ),
        pytest.param(
            [pdb(max_unavailable=0, unhealthy_policy="AlwaysAllow")],
            {"conditions": [condition("Ready", "True")]},
            False,
            id="a ready pod may not go",
        ),
        pytest.param(
            [
                pdb("one", max_unavailable=1),
                pdb("two", max_unavailable=1, unhealthy_policy="AlwaysAllow"),
            ],
            {"conditions": [condition("Ready", "False")]},
            False,
            id="SCH-222 two budgets hold even an unready pod that one of them would let go",
        ),
        pytest.param(
            [pdb(max_unavailable=0)],
            {"tolerations": [toleration("karpenter.sh/disrupted")]},
            True,
            id="a pod that is not evicted is not blocked",
        ),
        pytest.param(
            [pdb(max_unavailable=0)],
            {"deleted": NOW, "owners": [owner("StatefulSet", "db")]},
            True,
            id="a pod that is terminating is not blocked",
        ),
    ],
)
def test_budgets_that_never_give_way_hold_a_pod(
    budgets: list[PodDisruptionBudget], options: PodOptions, moves: bool
) -> None:
    assert moves is bool(moved(running(**options), budgets=tuple(budgets)))


def test_the_budgets_in_the_way_are_named() -> None:
    budgets = Budgets([pdb("b", max_unavailable=1), pdb("a", max_unavailable=1)])

    assert ["a", "b"] == [each.metadata.name for each in budgets.fully_blocking(running())]


@pytest.mark.parametrize(
    ("candidate", "held"),
    [
        pytest.param(protected("true"), True, id="true"),
        pytest.param(protected("5m", 299), True, id="one second before its end"),
        pytest.param(protected("5m", 300), False, id="at its end"),
        pytest.param(protected("1.5h", 5399), True, id="a fraction of hours"),
        pytest.param(protected("5m", None), True, id="a pod that has not started"),
        pytest.param(protected("0s", None), False, id="nothing is no time"),
        pytest.param(protected("-5m", None), False, id="less than nothing is no time"),
        pytest.param(protected("false", None), False, id="false"),
        pytest.param(protected("True", None), False, id="True is not true"),
        pytest.param(protected("5 minutes", None), False, id="not a duration"),
        pytest.param(running(), False, id="no annotation"),
    ],
)
def test_do_not_disrupt(candidate: Pod, held: bool) -> None:
    assert held is is_protected(candidate, now=NOW)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        pytest.param(protected("true"), "", id="for good"),
        pytest.param(protected("30m", started=None), "", id="it has not begun yet"),
        pytest.param(
            protected("30m"), f" until {timestamp(NOW + timedelta(minutes=30))}", id="for a while"
        ),
        pytest.param(
            running(
                annotations={DO_NOT_DISRUPT: "1000h"}, started=datetime.max.replace(tzinfo=UTC)
            ),
            " until 9999-12-31T23:59:59Z",
            id="longer than there are dates",
        ),
    ],
)
def test_until_when_a_pod_is_protected(candidate: Pod, expected: str) -> None:
    said = f"pod default/{candidate.metadata.name} has the annotation {DO_NOT_DISRUPT}{expected}"

    assert said == protection_in_words(candidate)
    assert is_protected(candidate, now=NOW)


@pytest.mark.parametrize(
    ("wish", "is_wrong"),
    [("true", False), ("30m", False), ("0s", True), ("-1h", True), ("yes", True), ("", True)],
)
def test_an_annotation_without_effect_is_complained_about(wish: str, is_wrong: bool) -> None:
    problem = annotation_problem({DO_NOT_DISRUPT: wish})

    assert is_wrong is (problem is not None)
    assert not is_wrong or f'"{wish}"' in str(problem)


def test_an_annotation_of_several_lines_is_complained_about_in_one() -> None:
    problem = annotation_problem({DO_NOT_DISRUPT: 'a\n"b"'})

    assert 'failed to parse "a\\n\\"b\\"" as a duration' in str(problem)


def test_a_pod_without_the_annotation_is_not_complained_about() -> None:
    assert annotation_problem({}) is None


@pytest.mark.parametrize(
    ("candidate", "evictable"),
    [
        pytest.param(running(), True, id="a running pod"),
        pytest.param(running(deleted=NOW), False, id="a terminating pod"),
        pytest.param(running(phase="Succeeded"), False, id="a finished pod"),
        pytest.param(running(owners=[owner("Node", "n", "v1")]), False, id="a mirrored pod"),
        pytest.param(running(tolerations=[toleration()]), False, id="it tolerates everything"),
        pytest.param(protected("true"), False, id="it is protected"),
        pytest.param(daemon_pod(daemon_set(), "n"), True, id="a daemon"),
    ],
)
def test_evictable(candidate: Pod, evictable: bool) -> None:
    assert evictable is is_evictable(candidate, now=NOW)
