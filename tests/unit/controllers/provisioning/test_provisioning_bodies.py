"""What a claim says beyond its plan: where its pool comes from, and how slowly it may end."""

from dataclasses import replace

import msgspec
import pytest

from helpers.builders import node_pool
from helpers.provisioning import FACTS
from karpenter.api.karpenter import NodeRequirement
from karpenter.api.meta import OwnerReference
from karpenter.controllers.provisioning.claim_bodies import static_claim_body
from karpenter.model import labels

OLD = labels.PROVISIONER_NAME


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        pytest.param("karpenter.sh/v1alpha5", "Provisioner", {OLD: "p"}, id="a Provisioner"),
        pytest.param("karpenter.sh/v1alpha5", "Machine", {}, id="something else of ours"),
        pytest.param("example.com/v1", "Provisioner", {}, id="what others call so"),
    ],
)
def test_nodes_carry_the_old_label_if_their_pool_belongs_to(
    api_version: str, kind: str, expected: dict[str, str]
) -> None:
    pool = node_pool("np")
    owner = OwnerReference(api_version=api_version, kind=kind, name="p", uid="u")
    metadata = msgspec.structs.replace(pool.metadata, owner_references=(owner,))
    owned = msgspec.structs.replace(pool, metadata=metadata)

    body = static_claim_body(owned, FACTS, "np-1")

    held = body["metadata"]["labels"]
    assert expected == {key: held[key] for key in held.keys() & {OLD}}


@pytest.mark.parametrize(
    ("period", "default", "expected"),
    [
        pytest.param(None, None, None, id="nobody says"),
        pytest.param(None, "5m", "5m", id="the provider says"),
        pytest.param("1h", "5m", "1h", id="the pool says"),
    ],
)
def test_a_static_claim_ends_as_slowly_as(
    period: str | None, default: str | None, expected: str | None
) -> None:
    pool = node_pool("np", termination_grace_period=period)
    facts = replace(FACTS, default_termination_grace_period=default)

    body = static_claim_body(pool, facts, "np-1")

    assert expected == body["spec"].get("terminationGracePeriod")


def test_a_claim_says_how_many_values_must_remain() -> None:
    wanted = NodeRequirement(key="tier", operator="In", values=("a", "b"), min_values=2)

    body = static_claim_body(node_pool("np", requirements=[wanted]), FACTS, "np-1")

    (told,) = [each for each in body["spec"]["requirements"] if each["key"] == "tier"]
    assert {"key": "tier", "operator": "In", "values": ["a", "b"], "minValues": 2} == told
