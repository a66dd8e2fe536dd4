"""One pass over a cluster accounts for every pod and says what users would be told."""

import msgspec
import pytest

from helpers.builders import (
    APP_T,
    FACTS_F,
    NOW,
    condition,
    fixture_types,
    managed_node,
    node_claim,
    node_pool,
    pod,
    pod_term,
    pods,
    selector,
)
from helpers.builders.workloads import pod_template
from karpenter.api.karpenter import (
    CapacityBuffer,
    CapacityBufferSpec,
    NodeClaimStatus,
    PodTemplateReference,
)
from karpenter.api.meta import ObjectMeta, Resource
from karpenter.api.pods import PodTemplate
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.scheduling.plan import Why
from karpenter.scheduling.provisioning import (
    PassSettings,
    ProvisioningPlan,
    plan_provisioning,
)
from karpenter.state.cluster import ClusterState
from karpenter.state.snapshot import Snapshot

TYPES = tuple(fixture_types())


def catalogue(_: object) -> tuple[InstanceType, ...]:
    return TYPES


def cluster(*objects: Resource) -> Snapshot:
    state = ClusterState()
    for resource in objects:
        state.apply(resource)
    return state.snapshot()


def planned(snapshot: Snapshot, settings: PassSettings | None = None) -> ProvisioningPlan:
    return plan_provisioning(snapshot, catalogue, FACTS_F, settings or PassSettings(), now=NOW)


def everyone(outcome: ProvisioningPlan) -> list[str]:
    plan = outcome.plan
    return sorted(
        [
            *(name for claim in plan.claims for name in claim.pods),
            *(name for names in plan.existing.values() for name in names),
            *(entry.pod for entry in plan.unplaced),
            *(entry.pod for entry in outcome.ignored),
            *plan.deferred,
            *plan.unevaluated,
        ]
    )


def test_the_smallest_pool_provisions() -> None:
    outcome = planned(cluster(node_pool(), pod("web", cpu="1")))

    assert ["default/web"] == [name for claim in outcome.plan.claims for name in claim.pods]
    assert () == outcome.events


def test_without_any_pool_nothing_is_launched_and_the_reason_says_so() -> None:
    outcome = planned(cluster(pod("web")))

    assert () == outcome.plan.claims
    (left,) = outcome.plan.unplaced
    assert [Why.NO_POOLS] == [reason.why for reason in left.reasons]
    assert "no NodePool" in left.reasons[0].detail


def test_no_event_is_emitted_when_there_are_no_pools_a_21() -> None:
    assert () == planned(cluster(pod("web"))).events


def test_pods_are_told_of_pools_none_of_which_is_ready() -> None:
    judged = [condition("NodeClassReady", "False", "SubnetsNotFound"), condition("Ready", "False")]
    outcome = planned(cluster(node_pool(conditions=judged), pod("web")))

    assert [Why.POOL_NOT_READY] == [r.why for entry in outcome.plan.unplaced for r in entry.reasons]
    (event,) = outcome.events
    assert ("Pod/default/web", "FailedScheduling") == (event.target, event.reason)
    assert event.message == (
        "Failed to schedule pod, nodepool np: the pool is not ready: NodeClassReady is False"
        " (SubnetsNotFound)"
    )


def test_a_claim_that_has_not_launched_holds_up_the_pass_a_20() -> None:
    claim = node_claim("waiting")
    claim = msgspec.structs.replace(claim, status=NodeClaimStatus())

    outcome = planned(cluster(node_pool(), claim, pod("web")))

    assert ("waiting",) == outcome.waiting_for
    assert ("default/web",) == outcome.plan.deferred


def test_every_pod_is_accounted_for() -> None:
    waiting = [*pods(3, cpu="1"), pod("huge", cpu="512"), pod("gated", conditions=[])]

    outcome = planned(cluster(node_pool(), *waiting))

    assert sorted(f"default/{p.metadata.name}" for p in waiting) == everyone(outcome)


def test_pods_of_departing_nodes_are_planned_for() -> None:
    machine = managed_node("old", pods=[])
    assert machine.node is not None
    assert machine.node_claim is not None
    state = ClusterState()
    for resource in (node_pool(), machine.node, machine.node_claim, pod("web", node_name="old")):
        state.apply(resource)
    state.mark("old")

    outcome = planned(state.snapshot())

    assert ["default/web"] == [name for claim in outcome.plan.claims for name in claim.pods]


def buffer(replicas: int) -> CapacityBuffer:
    return CapacityBuffer(
        metadata=ObjectMeta(name="headroom", namespace="default"),
        spec=CapacityBufferSpec(
            pod_template_ref=PodTemplateReference(name="web"), replicas=replicas
        ),
    )


def template() -> PodTemplate:
    return PodTemplate(
        metadata=ObjectMeta(name="web", namespace="default"), template=pod_template(cpu="1")
    )


def test_virtual_pods_of_buffers_make_nodes_but_are_never_listed() -> None:
    outcome = planned(cluster(node_pool(), template(), buffer(2)), PassSettings(buffers=True))

    assert [] == everyone(outcome)
    (made,) = outcome.buffers
    assert ("default/headroom", 2, False) == (made.name, made.replicas, made.ready)
    assert set(made.nodes) == {claim.name for claim in outcome.plan.claims}


def test_buffers_that_fit_on_machines_that_exist_are_ready_o_233() -> None:
    machine = managed_node("roomy", cpu="8")
    assert machine.node is not None
    assert machine.node_claim is not None
    snapshot = cluster(node_pool(), template(), buffer(2), machine.node, machine.node_claim)

    outcome = planned(snapshot, PassSettings(buffers=True))

    (fits,) = outcome.buffers
    assert (True, ("roomy",)) == (fits.ready, fits.nodes)
    assert () == outcome.plan.claims


def test_buffers_are_left_alone_while_their_gate_is_off() -> None:
    outcome = planned(cluster(node_pool(), template(), buffer(2)))

    assert () == outcome.buffers
    assert () == outcome.plan.claims


@pytest.mark.case("SCH-189")
def test_a_namespace_nobody_has_written_down_is_selected_by_its_name() -> None:
    named = selector({keys.NAMESPACE_NAME: "other"})
    near = pod_term(namespace_selector=named)
    target = pod("target", namespace="other", labels=APP_T, cpu="2")

    outcome = planned(cluster(node_pool(), target, pod("p", cpu="1", affinity=[near])))

    assert [("other/target", "default/p")] == [claim.pods for claim in outcome.plan.claims]
