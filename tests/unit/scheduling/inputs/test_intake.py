"""Only pods that wait for a node, and that some pool could serve, enter a pass."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from helpers.builders import (
    FACTS_F,
    Expressions,
    condition,
    container,
    owner,
    pod,
    storage_class,
)
from helpers.solver import solved
from helpers.storage import stored, unbound_claims
from karpenter.api import codec
from karpenter.api.pods import (
    ContainerResourceClaim,
    Pod,
    PodResourceClaim,
    ResourceRequirements,
)
from karpenter.model import labels as keys
from karpenter.scheduling.inputs.ignored_pods import WhyIgnored
from karpenter.scheduling.inputs.pending_pods import (
    take_in,
    uses_device_claims,
    why_not_waiting,
)
from karpenter.scheduling.inputs.storage import NO_STORAGE, Storage


def reasons(*wanted: Pod, storage: Storage = NO_STORAGE) -> list[WhyIgnored]:
    return [ignored.why for ignored in take_in(wanted, storage, FACTS_F).ignored]


def with_reason(reason: str, status: str = "False") -> Pod:
    return pod(conditions=[condition("PodScheduled", status, reason)])


def requiring(*terms: Expressions) -> Pod:
    return pod(required=terms)


def from_manifest(spec: Mapping[str, Any]) -> Pod:
    status = {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    }
    decoded = codec.convert(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": spec,
            "status": status,
        }
    )
    assert isinstance(decoded, Pod)
    return decoded


# Who waits for a node


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param(with_reason("Unschedulable"), id="SCH-1 unschedulable and unbound"),
        pytest.param(with_reason("Unschedulable", "Unknown"), id="SCH-1 whatever the status says"),
        pytest.param(
            from_manifest({"schedulerName": "other", "containers": []}),
            id="SCH-5 a scheduler of its own that reports Unschedulable",
        ),
        pytest.param(
            pod(owners=[owner("DaemonSet", "d", "acme.com/v1")]),
            id="SCH-8 a DaemonSet of another API",
        ),
        pytest.param(
            pod(
                conditions=[
                    condition("PodScheduled", "False", "SchedulingGated"),
                    condition("PodScheduled", "False", "Unschedulable"),
                ]
            ),
            id="some condition is enough",
        ),
    ],
)
def test_a_pod_enters_the_pass(waiting: Pod) -> None:
    intake = take_in([waiting], NO_STORAGE, FACTS_F)

    assert (waiting,) == intake.pods
    assert () == intake.ignored


@pytest.mark.parametrize(
    ("left_alone", "why"),
    [
        pytest.param(
            with_reason("SchedulingGated"),
            WhyIgnored.NOT_UNSCHEDULABLE,
            id="SCH-2 scheduling gates",
        ),
        pytest.param(
            pod(conditions=()), WhyIgnored.NOT_UNSCHEDULABLE, id="SCH-3 no condition PodScheduled"
        ),
        pytest.param(
            pod(conditions=[condition("Ready", "False", "Unschedulable")]),
            WhyIgnored.NOT_UNSCHEDULABLE,
            id="SCH-3 the reason stands in another condition",
        ),
        pytest.param(
            with_reason("MATCH_NODE_SELECTOR_FAILED"),
            WhyIgnored.NOT_UNSCHEDULABLE,
            id="SCH-4 another scheduler's reason",
        ),
        pytest.param(pod(nominated="n1"), WhyIgnored.NOMINATED, id="SCH-6 nominated for a node"),
        pytest.param(
            pod(node_name="n1", conditions=with_reason("Unschedulable").status.conditions),
            WhyIgnored.ALREADY_BOUND,
            id="SCH-7 bound with its old condition",
        ),
        pytest.param(
            pod(owners=[owner("DaemonSet", "d")]), WhyIgnored.DAEMON_SET_POD, id="SCH-8 a daemon"
        ),
        pytest.param(
            pod(
                owners=[
                    owner("ReplicaSet", "r"),
                    msgspec.structs.replace(owner("DaemonSet", "d"), controller=False),
                ]
            ),
            WhyIgnored.DAEMON_SET_POD,
            id="SCH-8 a daemon by an owner that does not control it",
        ),
        pytest.param(
            pod(owners=[owner("Node", "n1", "v1")]), WhyIgnored.MIRROR_POD, id="SCH-8 a mirror pod"
        ),
    ],
)
def test_a_pod_that_does_not_wait_is_left_alone(left_alone: Pod, why: WhyIgnored) -> None:
    ignored = why_not_waiting(left_alone)

    assert ignored is not None
    assert (why, "default/pod") == (ignored.why, ignored.pod)
    assert not ignored.is_refused
    assert not ignored.has_event


def test_what_a_pod_waits_for_is_named() -> None:
    gated = pod(
        gates=["acme.com/quota"], conditions=[condition("PodScheduled", "False", "SchedulingGated")]
    )

    (ignored,) = take_in([gated], NO_STORAGE, FACTS_F).ignored

    assert "it waits for its scheduling gates acme.com/quota to be removed" == ignored.detail


def test_a_pod_that_runs_on_no_node_is_said_to_run() -> None:
    alone = with_reason("", "True")
    status = msgspec.structs.replace(alone.status, phase="Running")

    (ignored,) = take_in(
        [msgspec.structs.replace(alone, status=status)], NO_STORAGE, FACTS_F
    ).ignored

    assert "it runs already, and needs no node" == ignored.detail


# Who else comes along


@pytest.mark.case("SCH-22")
def test_a_pod_whose_volume_is_not_ready_leaves_the_others_alone() -> None:
    storage = stored(unbound_claims(["slow"]), classes=[storage_class(immediate=True)])

    intake = take_in([pod("waiting", claims=["slow"]), pod("ready")], storage, FACTS_F)

    assert [WhyIgnored.IMMEDIATE_BINDING] == [ignored.why for ignored in intake.ignored]
    assert ["ready"] == solved(intake.pods).placed


def test_like_pods_get_the_same_verdict_each_under_its_own_name() -> None:
    alike = [pod(name, node_selector={keys.HOSTNAME: "red"}) for name in ("a", "b")]

    intake = take_in([*alike, pod("c")], NO_STORAGE, FACTS_F)

    assert ["default/a", "default/b"] == [ignored.pod for ignored in intake.ignored]
    assert ["c"] == [entering.metadata.name for entering in intake.pods]


# Who asks for devices

CLAIMING = msgspec.structs.replace(
    container(), resources=ResourceRequirements(claims=(ContainerResourceClaim(name="gpu"),))
)


@pytest.mark.parametrize(
    ("asking", "uses"),
    [
        pytest.param(pod(resource_claims=[PodResourceClaim(name="gpu")]), True, id="the pod"),
        pytest.param(pod(containers=[CLAIMING]), True, id="a container"),
        pytest.param(pod(init_containers=[CLAIMING]), True, id="an init container"),
        pytest.param(pod(requests={"acme/gpu-a": "1"}), False, id="nobody by a claim"),
    ],
)
def test_requests_for_devices_are_no_matter_of_intake(asking: Pod, uses: bool) -> None:
    assert uses == uses_device_claims(asking.spec)
    assert [] == reasons(asking)
