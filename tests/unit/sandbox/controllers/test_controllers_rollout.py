"""Each step of a rollout keeps within what the Deployment allows, in one direction at a time."""

from typing import Any

import pytest

from helpers.clusters import pod_template, workload
from karpenter_sandbox.controllers.workloads.revisions import template_hash
from karpenter_sandbox.controllers.workloads.rollout import (
    first_size,
    max_surge,
    max_unavailable,
    rolling_step,
    scaling_step,
)

JsonObject = dict[str, Any]


def rolling(replicas: int, surge: int | str, unavailable: int | str) -> JsonObject:
    rules = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rules}
    return {"metadata": {"name": "web"}, "spec": {"replicas": replicas, "strategy": strategy}}


def replica_set(name: str, replicas: int, available: int, told: int | None = None) -> JsonObject:
    annotations = {}
    if told is not None:
        annotations = {
            "deployment.kubernetes.io/desired-replicas": str(told),
            "deployment.kubernetes.io/max-replicas": str(told),
        }
    metadata = {"name": name, "creationTimestamp": name, "annotations": annotations}
    status = {"availableReplicas": available}
    return {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}


@pytest.mark.parametrize(
    ("deployment_", "expected"),
    [
        pytest.param(rolling(10, "25%", "25%"), (3, 2), id="surge is rounded up, the rest down"),
        pytest.param(rolling(10, 2, 0), (2, 0), id="numbers count as they are"),
        pytest.param(rolling(1, 0, "25%"), (0, 1), id="one may be missing when nothing else may"),
        pytest.param(rolling(2, 0, 5), (0, 2), id="no more are missing than there are"),
        pytest.param(
            {"spec": {"replicas": 4, "strategy": {"type": "Recreate"}}},
            (0, 0),
            id="recreate knows no bounds",
        ),
    ],
)
def test_the_bounds_of_a_rollout(deployment_: JsonObject, expected: tuple[int, int]) -> None:
    bounds = max_surge(deployment_), max_unavailable(deployment_)

    assert expected == bounds


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        pytest.param([], 10, id="a first set gets everything"),
        pytest.param([replica_set("a", 10, 10)], 3, id="a second one gets the surge"),
        pytest.param([replica_set("a", 13, 10)], 0, id="nothing where there is no room"),
    ],
)
def test_the_first_size_of_a_new_set(old: list[JsonObject], expected: int) -> None:
    size = first_size(rolling(10, 3, 2), old)

    assert expected == size


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(
            replica_set("b", 3, 0), [replica_set("a", 8, 8)], [("b", 5)], id="grows first"
        ),
        pytest.param(
            replica_set("b", 5, 2), [replica_set("a", 8, 8)], [("a", 6)], id="then the old shrink"
        ),
        pytest.param(
            replica_set("b", 5, 0), [replica_set("a", 8, 8)], [], id="waits while nothing is ready"
        ),
        pytest.param(
            replica_set("b", 5, 0),
            [replica_set("a", 8, 5)],
            [],
            id="an old pod that fails does not let more go than may be missing",
        ),
        pytest.param(
            replica_set("b", 3, 3),
            [replica_set("a", 2, 0), replica_set("aa", 8, 8)],
            [("a", 0), ("aa", 5)],
            id="pods that are no use go first, then the oldest set",
        ),
        pytest.param(
            replica_set("b", 12, 12), [replica_set("a", 1, 1)], [("b", 10)], id="too large shrinks"
        ),
    ],
)
def test_one_step_of_a_rollout(
    new: JsonObject, old: list[JsonObject], expected: list[tuple[str, int]]
) -> None:
    step = rolling_step(rolling(10, 3, 2), new, old)

    sizes = {rs["metadata"]["name"]: rs["spec"]["replicas"] for rs in [new, *old]}
    changed = [(rs["metadata"]["name"], size) for rs, size in step]
    assert expected == [(name, size) for name, size in changed if size != sizes[name]]


@pytest.mark.parametrize(
    ("replicas", "sets", "expected"),
    [
        pytest.param(6, [replica_set("a", 4, 4, 4)], {"a": 6}, id="the only set follows"),
        pytest.param(
            20,
            [replica_set("a", 6, 6, 10), replica_set("b", 4, 4, 10)],
            {"a": 12, "b": 8},
            id="several sets grow in proportion",
        ),
        pytest.param(
            3,
            [replica_set("a", 6, 6, 10), replica_set("b", 4, 4, 10)],
            {"a": 2, "b": 1},
            id="several sets shrink in proportion",
        ),
        pytest.param(
            0,
            [replica_set("a", 6, 6, 10), replica_set("b", 4, 4, 10)],
            {"a": 0, "b": 0},
            id="to nothing means nothing of any",
        ),
    ],
)
def test_a_change_of_size_is_shared(
    replicas: int, sets: list[JsonObject], expected: dict[str, int]
) -> None:
    *old, new = sets

    step = scaling_step(rolling(replicas, 0, 1), new, old)

    assert expected == {rs["metadata"]["name"]: size for rs, size in step}


def test_names_of_sets_never_collide_for_different_templates() -> None:
    first = workload("Deployment", "web")
    second = workload("Deployment", "web", template=pod_template({"app": "web", "x": "y"}))
    again = {**first, "status": {"collisionCount": 1}}

    codes = [template_hash(obj) for obj in (first, second, again)]

    assert 3 == len(set(codes))
    assert all(name.isalnum() for name in codes)
