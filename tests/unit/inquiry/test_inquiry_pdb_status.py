"""What a disruption budget without a status allows, worked out from the pods of the input."""

from typing import Any

import pytest

from helpers.builders import NOW, condition, pdb, pod
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.inquiry.pdb_status import judged

WEB = {"app": "web"}


def web(name: str, **options: Any) -> Pod:
    """A pod of the workload that the budget is about, on a node unless told otherwise."""
    return pod(name, **{"labels": WEB, "node_name": "n1", **options})


def pods(healthy: int, waiting: int = 0) -> list[Pod]:
    waiters = [web(f"w{n}", node_name="") for n in range(waiting)]
    return [*(web(f"h{n}") for n in range(healthy)), *waiters]


@pytest.mark.parametrize(
    ("spec", "among", "allowed", "expected"),
    [
        pytest.param({"min_available": 2}, pods(3), 1, 3, id="three of which two must stay"),
        pytest.param({"min_available": "50%"}, pods(3), 1, 3, id="half of three is two"),
        pytest.param({"min_available": "100%"}, pods(3), 0, 3, id="all of them"),
        pytest.param({"min_available": 5}, pods(3), 0, 3, id="more than there are"),
        pytest.param({"max_unavailable": 1}, pods(3), 1, 3, id="one may go"),
        pytest.param({"max_unavailable": "34%"}, pods(3), 2, 3, id="a third rounded up is two"),
        pytest.param({"max_unavailable": 0}, pods(3), 0, 3, id="none may go"),
        pytest.param({"max_unavailable": 1}, pods(2, 1), 0, 3, id="one is missing already"),
        pytest.param({"max_unavailable": 2}, pods(2, 1), 1, 3, id="one more than is missing"),
        pytest.param({"max_unavailable": 1}, [], 0, 0, id="no pods at all"),
        pytest.param({}, pods(3), 0, 3, id="a budget that does not say how many"),
        pytest.param({"max_unavailable": "some"}, pods(3), 0, 3, id="a number that is none"),
    ],
)
def test_what_is_allowed(
    spec: dict[str, Any], among: list[Pod], allowed: int, expected: int
) -> None:
    status = judged(_budget(**spec), among).status

    assert (allowed, expected) == (status.disruptions_allowed, status.expected_pods)


@pytest.mark.parametrize(
    ("other", "healthy"),
    [
        pytest.param(web("x"), 2, id="one more that runs"),
        pytest.param(
            web("x", conditions=(condition("Ready", "False"),)), 1, id="one that is not ready"
        ),
        pytest.param(web("x", conditions=(condition("Ready"),)), 2, id="one that is ready"),
        pytest.param(web("x", phase="Pending"), 1, id="one that has not started"),
        pytest.param(web("x", deleted=NOW), 1, id="one that is being deleted"),
        pytest.param(web("x", phase="Succeeded"), 1, id="one that is done"),
        pytest.param(web("x", namespace="shop"), 1, id="one of another namespace"),
        pytest.param(web("x", labels={"app": "db"}), 1, id="one that is not selected"),
    ],
)
def test_who_counts_as_healthy(other: Pod, healthy: int) -> None:
    status = judged(_budget(min_available=0), [web("a"), other]).status

    assert healthy == status.current_healthy


def _budget(**spec: Any) -> PodDisruptionBudget:
    return pdb("web", labels=WEB, **spec)
