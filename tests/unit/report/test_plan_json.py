"""``karpenter plan -o json`` keeps its contract: every field, every reason, every pod."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from helpers.builders import (
    FACTS_F,
    NOW,
    condition,
    daemon_set,
    expression,
    instance_type,
    managed_node,
    min_values,
    node_claim,
    node_pool,
    offering,
    pod,
    pods,
    reserved,
    taint,
    toleration,
)
from helpers.builders.workloads import pod_template
from helpers.solver import FIXTURE_F
from karpenter.api.karpenter import (
    CapacityBuffer,
    CapacityBufferSpec,
    NodeClaimStatus,
    NodeClassReference,
    PodTemplateReference,
)
from karpenter.api.meta import ObjectMeta, Resource
from karpenter.api.pods import PodTemplate
from karpenter.cloud.types import InstanceType
from karpenter.model import labels as keys
from karpenter.report.provisioning import WhyDeferred, plan_schema, provisioning_document
from karpenter.scheduling.inputs.ignored_pods import WhyIgnored
from karpenter.scheduling.plan import Why
from karpenter.scheduling.provisioning import PassSettings, plan_provisioning
from karpenter.state.cluster import snapshot_of
from karpenter.state.nodes import StateNode

SCHEMA = json.loads(plan_schema())
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)
EVERYTHING_ON = PassSettings(overlays=True, buffers=True, static=True)


def planned(
    *resources: Resource | StateNode,
    types: Sequence[InstanceType] = FIXTURE_F,
    has_time: Callable[[], bool] = lambda: True,
) -> dict[str, Any]:
    """Plan for a cluster of these objects, and hold the outcome against the schema."""
    listed: list[Resource] = []
    for each in resources:
        parts = (each.node, each.node_claim, *each.pods) if isinstance(each, StateNode) else (each,)
        listed += [part for part in parts if part is not None]
    catalogue = tuple(types)
    outcome = plan_provisioning(
        snapshot_of(listed), lambda _: catalogue, FACTS_F, EVERYTHING_ON, now=NOW, has_time=has_time
    )
    document = provisioning_document(outcome)
    VALIDATOR.validate(json.loads(json.dumps({"provisioning": document})))
    return document


def unlaunched(name: str) -> Resource:
    return msgspec.structs.replace(node_claim(name), status=NodeClaimStatus())


def buffer(name: str, template: str, replicas: int) -> CapacityBuffer:
    reference = PodTemplateReference(name=template)
    return CapacityBuffer(
        metadata=ObjectMeta(name=name, namespace="default", uid=name),
        spec=CapacityBufferSpec(pod_template_ref=reference, replicas=replicas),
    )


def test_the_schema_is_one() -> None:
    jsonschema_rs.meta.validate(SCHEMA)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(("poolReason", "reason"), list(Why), id="why a pool refuses"),
        pytest.param(("ignored", "reason"), list(WhyIgnored), id="why a pod is left alone"),
        pytest.param(("deferred", "reason"), list(WhyDeferred), id="why a pod waits"),
    ],
)
def test_the_schema_lists_exactly_the_reasons_there_are(
    path: tuple[str, str], expected: list[str]
) -> None:
    kind, field = path

    listed = SCHEMA["$defs"][kind]["properties"][field]["enum"]

    assert sorted(expected) == sorted(listed)
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("why", list(Why))
def test_every_reason_of_a_pool_is_valid(why: Why) -> None:
    document = planned(node_pool(), pod("huge", cpu="512"))
    (entry,) = document["unplaced"]
    entry["reasons"][0]["reason"] = why.value

    VALIDATOR.validate({"provisioning": document})


def test_a_reason_nobody_knows_is_not_valid() -> None:
    document = planned(node_pool(), pod("huge", cpu="512"))
    document["unplaced"][0]["reasons"][0]["reason"] = "BadWeather"

    assert not VALIDATOR.is_valid({"provisioning": document})


def test_the_fields_of_a_node_to_create() -> None:
    pool = node_pool(
        "general",
        labels={"team": "shop"},
        annotations={"note": "n"},
        taints=[taint("dedicated=shop:NoSchedule"), taint("quiet:NoSchedule")],
        startup_taints=[taint("starting:NoExecute")],
        requirements=[
            expression(keys.ZONE, "In", "z1", "z2"),
            expression("cores", "Gt", "1"),
            expression("rack", "Exists"),
        ],
    )
    types = [instance_type("big", cpu="8"), instance_type("mid", cpu="4")]
    daemon = daemon_set("agent", cpu="500m", tolerations=[toleration()])
    waiting = [pod(name, cpu="1", memory="1Gi", tolerations=[toleration()]) for name in ("a", "b")]

    (claim,) = planned(pool, daemon, *waiting, types=types)["nodeClaims"]

    named = {key: claim[key] for key in ("nodePool", "pods", "instanceTypes", "requests")}
    assert {
        "nodePool": "general",
        "pods": ["default/a", "default/b"],
        "instanceTypes": ["mid", "big"],
        "requests": {"cpu": "2500m", "memory": "2Gi", "pods": "3"},
    } == named
    assert claim["name"].startswith("general-")
    assert {"key": keys.ZONE, "operator": "In", "values": ["z1", "z2"]} in claim["requirements"]
    assert {"key": "cores", "operator": "Gte", "values": ["2"]} in claim["requirements"]
    assert {"key": "rack", "operator": "Exists"} in claim["requirements"]
    assert ("shop", "general") == (claim["labels"]["team"], claim["labels"][keys.NODEPOOL])
    assert claim["annotations"]["note"] == "n"
    assert [
        {"key": "dedicated", "value": "shop", "effect": "NoSchedule"},
        {"key": "quiet", "effect": "NoSchedule"},
    ] == claim["taints"]
    assert [{"key": "starting", "effect": "NoExecute"}] == claim["startupTaints"]
    assert ("mid", "z1") == (claim["launch"]["instanceType"], claim["launch"]["zone"])
    assert ["instanceType", "zone", "capacityType", "price"] == list(claim["launch"])


def test_a_minimum_of_choice_is_written_with_its_requirement() -> None:
    pool = node_pool(requirements=[min_values(2, keys.INSTANCE_TYPE)])

    (claim,) = planned(pool, pod("a", cpu="1"))["nodeClaims"]

    (wanted,) = [r for r in claim["requirements"] if r["key"] == keys.INSTANCE_TYPE]
    assert wanted["minValues"] == 2


def test_cost_is_the_price_of_all_launches_and_never_below_the_bound() -> None:
    document = planned(node_pool(), *pods(5, cpu="3", memory="1Gi"))

    prices = [claim["launch"]["price"] for claim in document["nodeClaims"]]
    assert sum(prices) == pytest.approx(document["cost"]["hourly"])
    assert 0 < document["cost"]["lowerBoundHourly"] <= document["cost"]["hourly"]


def test_a_node_of_a_used_up_reservation_alone_has_no_launch() -> None:
    only_used_up = instance_type("r", cpu="4", offerings=[], reservations=[reserved("r-1", 0)])
    loose = PassSettings()

    outcome = plan_provisioning(
        snapshot_of([node_pool(), pod("a", cpu="1")]),
        lambda _: (only_used_up,),
        FACTS_F,
        loose,
        now=NOW,
    )

    document = provisioning_document(outcome)
    VALIDATOR.validate({"provisioning": document})
    assert [] == document["nodeClaims"]
    assert ["ReservedCapacityTaken"] == [entry["reason"] for entry in document["deferred"]]


def test_pods_on_machines_that_exist_are_listed_by_machine() -> None:
    machines = [managed_node(name, cpu="2") for name in ("n2", "n1")]

    document = planned(node_pool(), *machines, *pods(3, cpu="1"))

    assert {"n1": ["default/pod-0", "default/pod-1"], "n2": ["default/pod-2"]} == (
        document["existing"]
    )
    assert [] == document["nodeClaims"]


def test_a_pod_left_over_has_a_reason_for_each_pool_even_those_that_cannot_be_used() -> None:
    pools = [
        node_pool("small"),
        node_pool("tainted", taints=[taint("dedicated=gpu:NoSchedule")]),
        node_pool("asleep", conditions=[condition("Ready", "False", "Maintenance")]),
    ]

    document = planned(*pools, pod("huge", cpu="512"))

    (entry,) = document["unplaced"]
    assert entry["pod"] == "default/huge"
    assert {
        "small": "InsufficientResources",
        "tainted": "UntoleratedTaint",
        "asleep": "NodePoolNotReady",
    } == {reason["nodePool"]: reason["reason"] for reason in entry["reasons"]}
    assert all(reason["detail"] for reason in entry["reasons"])


def test_without_any_pool_nothing_is_launched_and_each_pod_says_so() -> None:
    document = planned(*pods(2))

    assert [] == document["nodeClaims"]
    assert [{"NoDynamicNodePools"}] * 2 == [
        {reason["reason"] for reason in entry["reasons"]} for entry in document["unplaced"]
    ]
    assert {""} == {r["nodePool"] for entry in document["unplaced"] for r in entry["reasons"]}


def test_a_pool_of_a_class_that_nobody_serves_is_a_reason() -> None:
    foreign = NodeClassReference(group="example.com", kind="OtherNodeClass", name="default")

    document = planned(node_pool(node_class=foreign), pod("a"))

    (entry,) = document["unplaced"]
    assert ["NodeClassUnsupported"] == [reason["reason"] for reason in entry["reasons"]]


def test_pods_that_are_left_alone_say_why() -> None:
    document = planned(
        node_pool(), pod("new", conditions=[]), pod("host", node_selector={keys.HOSTNAME: "n"})
    )

    assert {"default/new": "NotUnschedulable", "default/host": "RestrictedLabel"} == {
        entry["pod"]: entry["reason"] for entry in document["ignored"]
    }
    assert all(entry["detail"] for entry in document["ignored"])


def test_pods_whose_turn_did_not_come_are_deferred() -> None:
    document = planned(node_pool(), *pods(500, cpu="1"), has_time=lambda: False)

    late = [entry["pod"] for entry in document["deferred"] if entry["reason"] == "NotEvaluated"]
    placed = [pod for claim in document["nodeClaims"] for pod in claim["pods"]]
    assert late
    assert 500 == len(late) + len(placed) == len({*late, *placed})


def test_claims_that_have_not_launched_hold_everything_up_and_are_named() -> None:
    document = planned(
        node_pool(), *(unlaunched(name) for name in ("c1", "c2", "c3", "c4")), pod("a")
    )

    (entry,) = document["deferred"]
    assert ("default/a", "ClusterStateNotSynced") == (entry["pod"], entry["reason"])
    assert "c1, c2, c3 and 1 others" in entry["detail"]


def test_pods_that_wait_for_a_reservation_are_deferred() -> None:
    types = [instance_type("r", cpu="4", reservations=[reserved("r-1", 1)])]

    document = planned(node_pool(), *pods(2, cpu="3"), types=types)

    assert 1 == len(document["nodeClaims"])
    detail = (
        "every reservation it could use is taken, and it waits for one;"
        " pools that come later are not tried"
    )
    assert [("ReservedCapacityTaken", detail)] == [
        (entry["reason"], entry["detail"]) for entry in document["deferred"]
    ]


def test_the_pods_of_buffers_appear_nowhere_else() -> None:
    template = PodTemplate(
        metadata=ObjectMeta(name="t", namespace="default"), template=pod_template(cpu="1")
    )

    document = planned(node_pool(), template, buffer("room", "t", 2), pod("web", cpu="1"))

    assert ["default/web"] == [pod for claim in document["nodeClaims"] for pod in claim["pods"]]
    (entry,) = document["buffers"]
    assert ("default/room", 2, False) == (entry["name"], entry["replicas"], entry["ready"])
    assert set(entry["nodes"]) <= {claim["name"] for claim in document["nodeClaims"]}
    assert [] == document["unplaced"]


def test_a_buffer_on_machines_that_exist_is_ready() -> None:
    template = PodTemplate(
        metadata=ObjectMeta(name="t", namespace="default"), template=pod_template(cpu="1")
    )

    document = planned(node_pool(), managed_node("n1"), template, buffer("room", "t", 2))

    assert [{"name": "default/room", "replicas": 2, "ready": True, "nodes": ["n1"]}] == (
        document["buffers"]
    )


def test_static_pools_say_what_they_have_and_need() -> None:
    document = planned(
        node_pool("fixed", replicas=3), managed_node("n1", pool="fixed"), node_pool("np")
    )

    assert [{"nodePool": "fixed", "replicas": 3, "have": 1, "create": 2, "delete": []}] == (
        document["static"]
    )


def test_events_are_what_users_would_read() -> None:
    document = planned(node_pool(), pod("huge", cpu="512"))

    (event,) = document["events"]
    assert ("Pod/default/huge", "Warning", "FailedScheduling") == (
        event["object"],
        event["type"],
        event["reason"],
    )
    assert "needs 512 cpu" in event["message"]


def test_an_empty_cluster_has_an_empty_plan() -> None:
    document = planned()

    assert {
        "nodeClaims": [],
        "existing": {},
        "unplaced": [],
        "ignored": [],
        "deferred": [],
        "buffers": [],
        "static": [],
        "events": [],
        "cost": {
            "hourly": 0.0,
            "expectedHourly": 0.0,
            "lowerBoundHourly": 0.0,
            "boundMethod": "shares",
            "gapPercent": None,
            "isProvedOptimal": False,
        },
    } == document


def test_a_catalogue_without_any_offering_leaves_a_reason() -> None:
    types = [instance_type("none", cpu="4", offerings=[])]

    document = planned(node_pool(), pod("a", cpu="1"), types=types)

    (entry,) = document["unplaced"]
    assert ["NoCompatibleInstanceTypes"] == [reason["reason"] for reason in entry["reasons"]]
    assert ["NoCompatibleInstanceTypes"] == [
        event["reason"] for event in document["events"] if event["object"] == "NodePool/np"
    ]


@pytest.mark.parametrize("price", [float("nan"), -1.0, 0.0, float("inf")])
def test_absurd_prices_do_not_break_a_plan(price: float) -> None:
    odd = instance_type("odd", cpu="4", offerings=[offering(zone="z1", price=price)])
    good = instance_type("good", cpu="4")
    catalogue = (odd, good)

    outcome = plan_provisioning(
        snapshot_of([node_pool(), pod("a", cpu="1")]),
        lambda _: catalogue,
        FACTS_F,
        PassSettings(),
        now=NOW,
    )

    document = provisioning_document(outcome)
    assert [["default/a"]] == [claim["pods"] for claim in document["nodeClaims"]]
