"""A cluster that grows: what operators grep for, alert on and read afterwards is all there."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.scale_walk import LIFE_OF_A_CLAIM


def scraped(run: Autoscaler) -> dict[str, list[tuple[dict[str, str], float]]]:
    """All samples by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    text = run.metrics.exposition().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def _component(event: JsonObject) -> str:
    """Who says so, in the old way or the new."""
    return event.get("source", {}).get("component") or str(event["reportingComponent"])


def _version(event: JsonObject) -> int:
    return int(event["metadata"]["resourceVersion"])


@pytest.mark.row("S2-16")
@in_virtual_time
async def test_pools_and_nodes_can_be_alerted_on() -> None:
    pool = kwok_pool("default", limits={"cpu": "100"})
    async with autoscaler(pool, deployment("inflate", 3)) as run:
        await run.until(lambda: len(run.running) == 3)
        await run.pass_time(10)
        found = scraped(run)

    created = found["karpenter_nodeclaims_created_total"]
    claims = {"nodepool": "default", "reason": "provisioned", "min_values_relaxed": "false"}
    assert [(claims, 1)] == created
    limit = {"nodepool": "default", "resource_type": "cpu"}
    assert [(limit, 100)] == found["karpenter_nodepools_limit"]
    usage = {held["resource_type"]: value for held, value in found["karpenter_nodepools_usage"]}
    assert 3 <= usage["cpu"] <= 100
    assert 1 == usage["nodes"]
    allocatable = found["karpenter_nodes_allocatable"]
    assert {"default"} == {held["nodepool"] for held, _ in allocatable}
    assert {"cpu", "memory", "pods", "ephemeral_storage"} <= {
        held["resource_type"] for held, _ in allocatable
    }
    assert 3 == len(found["karpenter_pods_state"])
    ((_, price),) = found["karpenter_nodepools_cost_total"]
    assert 0 < price
    assert 3 == found["karpenter_pods_startup_duration_seconds_count"][0][1]
    assert [({}, 1)] == found["karpenter_cluster_state_synced"]


@pytest.mark.row("S2-76")
@in_virtual_time
async def test_the_lines_of_a_scale_out_come_in_order() -> None:
    async with autoscaler(kwok_pool("default"), deployment("inflate", 1)) as run:
        await run.until(lambda: len(run.running) == 1)
        await run.pass_time(10)

    story = LIFE_OF_A_CLAIM
    told = [line["message"] for line in run.lines if line["message"] in story]
    assert story == list(dict.fromkeys(told))
    assert {"info"} == {line["level"] for line in run.lines if line["message"] in story}
    before = "computing scheduling decision for provisionable pod(s)"
    (thinking, *_) = [line["level"] for line in run.lines if line["message"] == before]
    assert "debug" == thinking


@pytest.mark.row("S2-18")
@in_virtual_time
async def test_why_a_pod_finds_no_place_names_the_key() -> None:
    odd = deployment("odd", 1, nodeSelector={"example.com/no-such-label": "x"})
    async with autoscaler(kwok_pool("default"), odd) as run:
        await run.pass_time(30)
        refused = [line for line in run.lines if line["message"] == "could not schedule pod"]
        events = [
            message
            for kind, reason, message in run.events
            if (kind, reason) == ("Pod", "FailedScheduling")
        ]

    assert refused
    assert "error" == refused[0]["level"]
    assert "example.com/no-such-label" in str(refused[0]["error"])
    assert events
    assert "example.com/no-such-label" in events[0]


@pytest.mark.row("S3-20")
@in_virtual_time
async def test_the_scheduler_refuses_first_and_then_the_pod_is_nominated() -> None:
    async with autoscaler(kwok_pool("default"), nodes=1) as run:
        await run.pass_time(1)
        await run.apply(deployment("big", 1, cpu="100"))
        await run.until(lambda: any(reason == "Nominated" for _, reason, _ in run.events))
        events = [
            (_component(event), event["reason"], event["message"])
            for event in sorted(run.objects("", "events"), key=_version)
            if event["involvedObject"]["kind"] == "Pod"
        ]

    by_scheduler = [
        message
        for component, reason, message in events
        if (component, reason) == ("default-scheduler", "FailedScheduling")
    ]
    assert by_scheduler[0].startswith("0/1 nodes are available: 1 Insufficient cpu")
    nominated = [position for position, event in enumerate(events) if event[1] == "Nominated"]
    refused = [position for position, event in enumerate(events) if event[2] == by_scheduler[0]]
    assert refused[0] < nominated[0]
    assert events[nominated[0]][0] == "karpenter"


@in_virtual_time
async def test_transitions_of_a_claim_are_told_on_it() -> None:
    async with autoscaler(kwok_pool("default"), deployment("inflate", 1)) as run:
        await run.until(lambda: len(run.running) == 1)
        await run.pass_time(10)
        told = {reason: message for kind, reason, message in run.events if kind == "NodeClaim"}

    words = "Status condition transitioned, Type: {0}, Status: Unknown -> True, Reason: {0}"
    for kind in ("Launched", "Registered", "Initialized", "Ready"):
        assert told[kind].startswith(words.format(kind)), kind
