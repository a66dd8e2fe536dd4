"""A pool's hash changes with what makes nodes drift, and with nothing else."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec
import pytest

from helpers.builders import expression, node_pool, taint
from karpenter.api.codec import convert
from karpenter.api.karpenter import NodePool
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash

Template: TypeAlias = Mapping[str, Any]

A, B = taint("a=1:NoSchedule"), taint("b=1:NoSchedule")


def lasting(pool: NodePool, expire_after: str) -> NodePool:
    template = pool.spec.template
    spec = msgspec.structs.replace(template.spec, expire_after=expire_after)
    template = msgspec.structs.replace(template, spec=spec)
    return msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, template=template))


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(node_pool(labels={"a": "b"}), id="labels"),
        pytest.param(node_pool(annotations={"a": "b"}), id="annotations"),
        pytest.param(node_pool(taints=[A]), id="taints"),
        pytest.param(node_pool(startup_taints=[A]), id="startup-taints"),
        pytest.param(node_pool(termination_grace_period="1h"), id="termination-grace-period"),
        pytest.param(lasting(node_pool(), "1h"), id="expiry"),
    ],
)
def test_what_drifts_changes_the_hash(changed: NodePool) -> None:
    assert node_pool_hash(node_pool()) != node_pool_hash(changed)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            node_pool(), node_pool(requirements=[expression("k", "Exists")]), id="requirements"
        ),
        pytest.param(node_pool(), node_pool(limits={"cpu": "1"}), id="limits"),
        pytest.param(node_pool(), node_pool(weight=7), id="weight"),
        pytest.param(node_pool(taints=[A, B]), node_pool(taints=[B, A]), id="order-of-taints"),
        pytest.param(
            lasting(node_pool(), "60m"), lasting(node_pool(), "1h"), id="the-same-duration"
        ),
        pytest.param(node_pool("np"), node_pool("other"), id="name"),
    ],
)
def test_what_does_not_drift_leaves_the_hash(one: NodePool, other: NodePool) -> None:
    assert node_pool_hash(one) == node_pool_hash(other)


def pool_with(spec: Template | None = None, **metadata: Mapping[str, str]) -> NodePool:
    """A pool as the API server hands it out; what is not said here is not in it."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    usual = {"nodeClassRef": reference, "requirements": [], "expireAfter": "720h"}
    template = {"metadata": metadata} if metadata else {}
    made = convert(
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "np"},
            "spec": {"template": {**template, "spec": {**usual, **(spec or {})}}},
        }
    )
    assert isinstance(made, NodePool)
    return made


GPU: Final = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
BARE: Final = {"key": "bare", "effect": "NoExecute"}
START: Final = [{"key": "start", "effect": "NoSchedule"}]
AMD: Final = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}


# Computed by Karpenter v1.15.0
@pytest.mark.parametrize(
    ("pool", "known"),
    [
        pytest.param(pool_with(), "6821555240594823858", id="nothing but what must be"),
        pytest.param(
            pool_with(labels={"team": "a", "tier": ""}, annotations={"note": "ü"}),
            "14325759909179343214",
            id="labels and annotations",
        ),
        pytest.param(
            pool_with(labels={}, annotations={}),
            "13917081368405759920",
            id="empty metadata that is written down",
        ),
        pytest.param(
            pool_with({"taints": [GPU, BARE], "startupTaints": START}),
            "9627719070904256938",
            id="taints",
        ),
        pytest.param(
            pool_with({"taints": [BARE, GPU], "startupTaints": START}),
            "9627719070904256938",
            id="taints the other way round",
        ),
        pytest.param(
            pool_with({"taints": [], "startupTaints": []}),
            "8175970325862462513",
            id="no taints, written down",
        ),
        pytest.param(
            pool_with({"taints": [{**GPU, "timeAdded": "2026-08-01T12:00:00Z"}]}),
            "15349310979291625860",
            id="a taint with a time",
        ),
        pytest.param(pool_with({"expireAfter": "Never"}), "17369979337536258260", id="never"),
        pytest.param(pool_with({"expireAfter": "90m"}), "16514918240584495488", id="90m"),
        pytest.param(pool_with({"expireAfter": "1h30m"}), "16514918240584495488", id="1h30m"),
        pytest.param(pool_with({"expireAfter": "0s"}), "15640125381500602090", id="at once"),
        pytest.param(
            pool_with({"terminationGracePeriod": "48h"}),
            "15015733878877233177",
            id="a grace period",
        ),
        pytest.param(
            pool_with({"terminationGracePeriod": "0s"}),
            "10356118934572431967",
            id="no grace at all",
        ),
        pytest.param(
            pool_with({"requirements": [AMD]}),
            "6821555240594823858",
            id="requirements do not count",
        ),
    ],
)
def test_the_hash_is_karpenters_own(pool: NodePool, known: str) -> None:
    """Else a move from one controller to the other replaces every node."""
    assert ("v3", known) == (NODEPOOL_HASH_VERSION, node_pool_hash(pool))
