"""CapacityBuffers: how many pods one stands for, and what planning makes of them."""

from typing import Unpack

import pytest

from helpers.builders import (
    FACTS_F,
    NOW,
    Amounts,
    PodOptions,
    fixture_types,
    managed_node,
    node_pool,
    pod,
    pod_template,
)
from helpers.solver import solved
from karpenter.api.karpenter import (
    CapacityBuffer,
    CapacityBufferSpec,
    PodTemplateReference,
    ScalableReference,
)
from karpenter.api.meta import ObjectMeta
from karpenter.api.pods import PodTemplate
from karpenter.model import labels as keys
from karpenter.scheduling.inputs.buffers import (
    Resolution,
    Scalable,
    buffer_of,
    buffer_replicas,
    is_virtual,
    resolve_buffer,
)
from karpenter.scheduling.provisioning import PassSettings, ProvisioningPlan, plan_provisioning
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot

TEMPLATE = pod_template(cpu="1", labels={"app": "t"}, node_name="left-over")
WEB = ScalableReference(api_group="apps", kind="Deployment", name="web")


def buffer(
    name: str = "buf",
    *,
    replicas: int | None = None,
    percentage: int | None = None,
    limits: Amounts | None = None,
    scalable: ScalableReference | None = None,
    template: str = "",
    strategy: str = "buffer.x-k8s.io/active-capacity",
) -> CapacityBuffer:
    return CapacityBuffer(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=CapacityBufferSpec(
            provisioning_strategy=strategy,
            replicas=replicas,
            percentage=percentage,
            limits=limits or {},
            scalable_ref=scalable,
            pod_template_ref=PodTemplateReference(name=template) if template else None,
        ),
    )


@pytest.mark.parametrize(
    ("wishes", "workload", "count"),
    [
        pytest.param(
            buffer(replicas=5, percentage=80, limits={"cpu": "4"}),
            10,
            4,
            id="SCH-231 the larger wish, cut by the limit",
        ),
        pytest.param(buffer(replicas=5, percentage=80), 10, 8, id="SCH-231 the larger wish"),
        pytest.param(buffer(replicas=9, percentage=80), 10, 9, id="SCH-231 the other larger wish"),
        pytest.param(buffer(percentage=10), 1, 1, id="SCH-232 a share is at least one"),
        pytest.param(buffer(percentage=10), 0, 0, id="SCH-232 a share of nothing is nothing"),
        pytest.param(buffer(percentage=0), 10, 0, id="no share is nothing"),
        pytest.param(buffer(percentage=25), 10, 3, id="a share is rounded up"),
        pytest.param(buffer(percentage=150), 4, 6, id="a share may be more than all"),
        pytest.param(buffer(limits={"cpu": "4500m"}), None, 4, id="only a limit: as many as fit"),
        pytest.param(
            buffer(replicas=3, limits={"memory": "1Gi"}),
            None,
            3,
            id="a limit on something nobody asks for does not matter",
        ),
        pytest.param(
            buffer(replicas=3, limits={"cpu": "10", "pods": "2"}),
            None,
            2,
            id="the tightest of several limits decides",
        ),
        pytest.param(buffer(replicas=3, limits={"cpu": "0"}), None, 0, id="a limit of nothing"),
        pytest.param(buffer(), None, 0, id="no wish at all"),
    ],
)
def test_how_many_pods_a_buffer_stands_for(
    wishes: CapacityBuffer, workload: int | None, count: int
) -> None:
    assert count == buffer_replicas(wishes, TEMPLATE, workload)


@pytest.mark.parametrize(
    ("wanted", "resolution", "count"),
    [
        pytest.param(
            buffer(replicas=2, template="small"), Resolution.RESOLVED, 2, id="a pod template"
        ),
        pytest.param(
            buffer(replicas=2, template="absent"),
            Resolution.POD_TEMPLATE_NOT_FOUND,
            0,
            id="a pod template that is not there",
        ),
        pytest.param(
            buffer(percentage=50, scalable=WEB), Resolution.RESOLVED, 5, id="a share of a workload"
        ),
        pytest.param(
            buffer(percentage=50, scalable=ScalableReference(kind="Deployment", name="web")),
            Resolution.RESOLVED,
            5,
            id="a workload without its group",
        ),
        pytest.param(
            buffer(
                replicas=1,
                scalable=ScalableReference(api_group="apps", kind="StatefulSet", name="web"),
            ),
            Resolution.SCALABLE_NOT_FOUND,
            0,
            id="a workload that is not there",
        ),
        pytest.param(
            buffer(
                replicas=1, scalable=ScalableReference(api_group="batch", kind="Job", name="web")
            ),
            Resolution.FAILED,
            0,
            id="a workload of another kind",
        ),
        pytest.param(buffer(replicas=1), Resolution.FAILED, 0, id="no reference at all"),
    ],
)
def test_what_a_buffer_refers_to(
    wanted: CapacityBuffer, resolution: Resolution, count: int
) -> None:
    resolved = resolve_buffer(
        wanted,
        {"default/small": TEMPLATE},
        {("Deployment", "default/web"): Scalable(TEMPLATE, replicas=10)},
    )

    assert resolved is not None
    assert (resolution, count) == (resolved.resolution, len(resolved.pods))
    assert (resolution is Resolution.RESOLVED) == (resolved.detail == "")


def test_an_absurd_buffer_is_refused_instead_of_filling_the_memory() -> None:
    resolved = resolve_buffer(
        buffer(template="web", replicas=2**31 - 1), {"default/web": TEMPLATE}, {}
    )

    assert resolved is not None
    assert (Resolution.FAILED, ()) == (resolved.resolution, resolved.pods)
    assert "2147483647 pods" in resolved.detail


def test_a_buffer_of_another_strategy_is_not_ours() -> None:
    theirs = buffer(replicas=1, template="small", strategy="other.example.com/idle")

    assert resolve_buffer(theirs, {"default/small": TEMPLATE}, {}) is None


def test_virtual_pods_say_what_they_are_and_keep_nothing_that_binds_them() -> None:
    template = pod_template(cpu="1", claims=["data"], ephemeral=["standard"], node_name="n")

    resolved = resolve_buffer(buffer(replicas=2, template="small"), {"default/small": template}, {})

    assert resolved is not None
    assert ["capacity-buffer-buf-0", "capacity-buffer-buf-1"] == [
        p.metadata.name for p in resolved.pods
    ]
    assert 2 == len({p.metadata.uid for p in resolved.pods})
    assert all(is_virtual(p) and "default/buf" == buffer_of(p) for p in resolved.pods)
    assert all(not p.spec.volumes and not p.spec.node_name for p in resolved.pods)


def test_real_and_virtual_pods_compete_by_size_alone() -> None:
    resolved = resolve_buffer(buffer(replicas=1, template="small"), {"default/small": TEMPLATE}, {})
    assert resolved is not None

    answer = solved([pod("tiny", cpu="500m"), *resolved.pods], nodes=[managed_node("n", cpu="1")])

    assert {"n": ["capacity-buffer-buf-0"]} == answer.existing


def test_a_pod_that_is_as_large_goes_before_the_spare_room_for_pods_to_come() -> None:
    resolved = resolve_buffer(buffer(replicas=2, template="small"), {"default/small": TEMPLATE}, {})
    assert resolved is not None
    waiting = pod("waiting", cpu="1", created=NOW)

    answer = solved([*resolved.pods, waiting], nodes=[managed_node("n", cpu="1")])

    assert {"n": ["waiting"]} == answer.existing


def pass_over(
    nodes: tuple[StateNode, ...] = (), replicas: int = 2, **options: Unpack[PodOptions]
) -> ProvisioningPlan:
    """One pass over a cluster with a buffer for such pods."""
    options.setdefault("cpu", "1")
    wanted = PodTemplate(
        metadata=ObjectMeta(name="small", namespace="default"), template=pod_template(**options)
    )
    snapshot = Snapshot(
        nodes=nodes,
        node_pools={"np": node_pool()},
        capacity_buffers={"default/buf": buffer(replicas=replicas, template="small")},
        pod_templates={"default/small": wanted},
    )
    types = fixture_types()
    return plan_provisioning(
        snapshot, lambda pool: types, FACTS_F, PassSettings(buffers=True), now=NOW
    )


@pytest.mark.case("SCH-233")
def test_a_buffer_that_fits_on_machines_needs_nothing_new() -> None:
    outcome = pass_over((managed_node("n"),))

    (buffered,) = outcome.buffers
    assert (True, ("n",), 2) == (buffered.ready, buffered.nodes, buffered.replicas)
    assert () == outcome.plan.claims


@pytest.mark.case("SCH-233")
def test_virtual_pods_neither_nominate_nor_show() -> None:
    outcome = pass_over((managed_node("n"),))

    assert {} == outcome.plan.existing
    assert () == outcome.events


def test_a_buffer_without_room_makes_machines_and_is_not_ready() -> None:
    outcome = pass_over((managed_node("n", cpu="1"),))

    (buffered,) = outcome.buffers
    (claim,) = outcome.plan.claims
    assert (False, ("n", claim.name)) == (buffered.ready, buffered.nodes)
    assert () == claim.pods


def test_a_buffer_that_fits_nowhere_tells_nobody() -> None:
    outcome = pass_over(cpu="1000")

    (buffered,) = outcome.buffers
    assert (False, ()) == (buffered.ready, buffered.nodes)
    assert () == outcome.plan.unplaced
    assert () == outcome.events


def test_an_empty_buffer_is_not_ready() -> None:
    outcome = pass_over(replicas=0)

    assert [False] == [buffered.ready for buffered in outcome.buffers]


def test_virtual_pods_come_last_when_pods_are_evicted() -> None:
    resolved = resolve_buffer(buffer(replicas=1, template="small"), {"default/small": TEMPLATE}, {})

    assert resolved is not None
    assert [-(2**31)] == [p.spec.priority for p in resolved.pods]
    assert ["true"] == [p.metadata.annotations[keys.BUFFER_FAKE_POD] for p in resolved.pods]
