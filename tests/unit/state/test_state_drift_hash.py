"""A pool's hash changes with what makes nodes drift, and with nothing else."""

import msgspec
import pytest

from builders import expression, node_pool, taint
from karpenter.api.karpenter import NodePool
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash

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


@pytest.mark.parametrize(
    ("pool", "known"),
    [
        pytest.param(node_pool(), "3371127110542821680", id="a plain pool"),
        pytest.param(
            node_pool(labels={"a": "b"}, taints=[A]), "9880290028342240591", id="a pool of its own"
        ),
    ],
)
def test_a_hash_is_what_it_was_when_its_version_began(pool: NodePool, known: str) -> None:
    """Else a new release replaces every node; a hash that must change needs a new version."""
    assert ("v3-py1", known) == (NODEPOOL_HASH_VERSION, node_pool_hash(pool))
