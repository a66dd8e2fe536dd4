"""A manifest that is applied again shows no difference, however it is applied."""

import json
from typing import Any

import pytest

from helpers.server import APPLY, MERGE, Answer, Cluster, cluster, manifest
from karpenter.admission.schemas.crds import builtin_crds

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CLASS: dict[str, Any] = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
OLD_CLASS: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1beta1",
    "kind": "EC2NodeClass",
    "name": "default",
}
ARM: dict[str, Any] = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
TERMS: list[dict[str, Any]] = [{"tags": {"karpenter.sh/discovery": "mine"}}]
NODE_CLASS: dict[str, Any] = {
    "role": "nodes",
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": TERMS,
    "securityGroupSelectorTerms": TERMS,
}


def given(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return manifest(api_version, kind, "mine", namespace=None, spec=spec)


def pool(
    version: str, reference: dict[str, Any], *, disruption: Any = None, **nodes: Any
) -> dict[str, Any]:
    spec: dict[str, Any] = {"template": {"spec": {"nodeClassRef": reference, **nodes}}}
    if disruption is not None:
        spec["disruption"] = disruption
    return given(f"karpenter.sh/{version}", "NodePool", **spec)


MANIFESTS = pytest.mark.parametrize(
    "sent",
    [
        pytest.param(pool("v1", CLASS, requirements=[]), id="the smallest NodePool"),
        pytest.param(
            pool(
                "v1",
                CLASS,
                requirements=[ARM],
                expireAfter="43200m",
                terminationGracePeriod="3600s",
                disruption={
                    "consolidateAfter": "60s",
                    "budgets": [{"nodes": "10%", "schedule": "0 9 * * *", "duration": "480m"}],
                },
            ),
            id="a NodePool with durations another tool would rewrite",
        ),
        pytest.param(
            pool(
                "v1beta1",
                OLD_CLASS,
                requirements=[ARM],
                kubelet={"maxPods": 20, "evictionSoftGracePeriod": {"memory.available": "60s"}}
                | {"evictionSoft": {"memory.available": "5%"}},
                disruption={
                    "consolidationPolicy": "WhenEmpty",
                    "consolidateAfter": "120s",
                    "expireAfter": "2592000s",
                },
            ),
            id="a NodePool of v1beta1",
        ),
        pytest.param(
            given(
                "karpenter.sh/v1",
                "NodeClaim",
                nodeClassRef=CLASS,
                requirements=[ARM],
                expireAfter="720h",
                terminationGracePeriod="90m",
            ),
            id="a NodeClaim",
        ),
        pytest.param(given("karpenter.k8s.aws/v1", "EC2NodeClass", **NODE_CLASS), id="a class"),
        pytest.param(
            given(
                "karpenter.k8s.aws/v1",
                "EC2NodeClass",
                **NODE_CLASS,
                kubelet={
                    "evictionSoft": {"memory.available": "5%"},
                    "evictionSoftGracePeriod": {"memory.available": "120s"},
                },
                metadataOptions={"httpTokens": "optional"},
            ),
            id="a class with a kubelet",
        ),
        pytest.param(
            given(
                "karpenter.k8s.aws/v1beta1",
                "EC2NodeClass",
                role="nodes",
                amiFamily="AL2023",
                subnetSelectorTerms=TERMS,
                securityGroupSelectorTerms=TERMS,
            ),
            id="a class of v1beta1",
        ),
    ],
)


@pytest.fixture
def own() -> Cluster:
    made = cluster()
    for each in builtin_crds().values():
        made.create(each)
    return made


def durations(value: Any) -> dict[str, str]:
    """All durations of a manifest by field, in their own words."""
    names = {"consolidateAfter", "duration", "expireAfter", "terminationGracePeriod"}
    found: dict[str, str] = {}
    if isinstance(value, dict):
        for name, held in value.items():
            if name in names:
                found[name] = held
            elif name == "evictionSoftGracePeriod":
                found |= held
            else:
                found |= durations(held)
    elif isinstance(value, list):
        for held in value:
            found |= durations(held)
    return found


def assert_unchanged(own: Cluster, sent: dict[str, Any], first: Answer, again: Answer) -> None:
    assert (200, first.body) == (again.status, again.body)
    now = own.get(sent).body
    assert first.body["metadata"]["resourceVersion"] == now["metadata"]["resourceVersion"]
    assert 1 == now["metadata"]["generation"]
    assert durations(sent["spec"]).items() <= durations(now["spec"]).items()


@pytest.mark.row("S2-21")
@MANIFESTS
def test_server_side_apply(own: Cluster, sent: dict[str, Any]) -> None:
    def apply(**query: str) -> Answer:
        own.clock.move(60)
        return own.call(
            "PATCH",
            own.path_of(sent),
            sent,
            content_type=APPLY,
            fieldManager="kubectl",
            fieldValidation="Strict",
            **query,
        )

    first = apply()
    assert 201 == first.status, first.body
    # what `kubectl diff --server-side` compares
    assert first.body == apply(dryRun="All").body

    assert_unchanged(own, sent, first, apply())


@pytest.mark.row("S2-21")
@MANIFESTS
def test_client_side_apply(own: Cluster, sent: dict[str, Any]) -> None:
    note = {LAST_APPLIED: json.dumps(sent)}
    noted = {**sent, "metadata": {**sent["metadata"], "annotations": note}}
    own.create(noted)
    first = own.get(sent)
    own.clock.move(60)

    # kubectl sends what the manifest says otherwise than the object does: all of it at the most
    again = own.call("PATCH", own.path_of(sent), noted, content_type=MERGE)

    assert_unchanged(own, sent, first, again)
