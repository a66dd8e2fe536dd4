"""Older ways to say when nodes go, in the words of today: DIS-288 to DIS-290."""

from typing import Any

import pytest

from helpers.crd_cases import errors_of, replaced, wrong_fields
from helpers.small_objects import POOL
from karpenter.conversion.provisioner import ClassSource, node_pool_of

POLICY = "spec.disruption.consolidationPolicy"


def converted(**spec: Any) -> dict[str, Any]:
    """The spec of the NodePool that a Provisioner becomes."""
    written = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "default"},
        "spec": spec,
    }
    draft = node_pool_of(written, "default", ClassSource(name="default"))
    assert draft.object is not None
    assert [] == errors_of(draft.object)
    found: dict[str, Any] = draft.object["spec"]
    return found


@pytest.mark.case("DIS-288")
@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        pytest.param("WhenUnderutilized", {POLICY}, id="the word of v1beta1 is refused"),
        pytest.param("WhenEmptyOrUnderutilized", set(), id="the word of v1 is accepted"),
    ],
)
def test_policies_of_a_pool(policy: str, wrong: set[str]) -> None:
    assert wrong == wrong_fields(replaced(POOL, POLICY, policy))


@pytest.mark.case("DIS-289")
def test_a_time_for_empty_nodes_becomes_a_policy() -> None:
    spec = converted(ttlSecondsAfterEmpty=30)

    expected = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}
    assert expected == spec["disruption"]


@pytest.mark.case("DIS-290")
def test_consolidation_and_expiry_keep_their_meaning() -> None:
    spec = converted(consolidation={"enabled": True}, ttlSecondsUntilExpired=3600)

    expected = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    assert expected == spec["disruption"]
    assert "3600s" == spec["template"]["spec"]["expireAfter"]
