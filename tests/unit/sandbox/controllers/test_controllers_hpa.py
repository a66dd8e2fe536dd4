"""Autoscalers follow a metric that people set, with Kubernetes' tolerance, windows and policies."""

from typing import Any

import pytest

from helpers.clusters import ClusterHandle, in_virtual_time, running_controllers, workload
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.workloads.autoscaling import Memory, decide, read_metric
from karpenter_sandbox.controllers.workloads.hpa import AutoscalerController

JsonObject = dict[str, Any]
VALUE = "sandbox.karpenter.sh/metric-value"
TOTAL = "sandbox.karpenter.sh/metric-total"


def cpu(target: int) -> JsonObject:
    goal = {"type": "Utilization", "averageUtilization": target}
    return {"type": "Resource", "resource": {"name": "cpu", "target": goal}}


def autoscaler(**spec: Any) -> JsonObject:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [cpu(50)],
            **spec,
        },
    }


async def set_metric(cluster: ClusterHandle, kind: str, annotation: str, value: str) -> None:
    api = "apps/v1" if kind == "Deployment" else "autoscaling/v2"
    await cluster.change(api, kind, "web", {"metadata": {"annotations": {annotation: value}}})


async def replicas(cluster: ClusterHandle) -> int:
    count: int = (await cluster.get("apps/v1", "Deployment", "web"))["spec"]["replicas"]
    return count


async def status(cluster: ClusterHandle) -> Any:
    return await cluster.get("autoscaling/v2", "HorizontalPodAutoscaler", "web")


@in_virtual_time
async def test_a_metric_above_its_target_brings_more_replicas() -> None:
    async with running_controllers(AutoscalerController) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=2), autoscaler())
        await set_metric(cluster, "HorizontalPodAutoscaler", VALUE, "90")
        await cluster.pass_time(1)

        count = await replicas(cluster)
        hpa = await status(cluster)
        events = await cluster.events("web")

    assert 4 == count
    assert (2, 4) == (hpa["status"]["currentReplicas"], hpa["status"]["desiredReplicas"])
    reading = hpa["status"]["currentMetrics"][0]["resource"]["current"]
    assert 90 == reading["averageUtilization"]
    reason = "New size: 4; reason: cpu resource utilization (percentage of request) above target"
    assert ("SuccessfulRescale", reason) in events


@in_virtual_time
async def test_a_value_near_the_target_changes_nothing() -> None:
    async with running_controllers(AutoscalerController) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=4), autoscaler())
        await set_metric(cluster, "Deployment", VALUE, "54")
        await cluster.pass_time(120)

        count = await replicas(cluster)

    assert 4 == count


@in_virtual_time
async def test_fewer_replicas_come_only_after_five_quiet_minutes() -> None:
    async with running_controllers(AutoscalerController) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=8), autoscaler())
        await set_metric(cluster, "Deployment", VALUE, "10")
        await cluster.pass_time(290)
        early = await replicas(cluster)
        held = find_condition(await status(cluster), "AbleToScale")
        await cluster.pass_time(30)

        late = await replicas(cluster)

    assert (8, 2) == (early, late)
    assert held is not None
    assert "ScaleDownStabilized" == held["reason"]


@in_virtual_time
async def test_a_load_that_pods_share_settles_where_it_belongs() -> None:
    async with running_controllers(AutoscalerController) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=1), autoscaler())
        await set_metric(cluster, "Deployment", TOTAL, "330")
        await cluster.pass_time(300)

        count = await replicas(cluster)

    assert 7 == count


@in_virtual_time
async def test_without_a_metric_it_says_how_to_set_one() -> None:
    async with running_controllers(AutoscalerController) as cluster:
        await cluster.create(workload("Deployment", "web", replicas=2), autoscaler())
        await cluster.pass_time(20)

        condition = find_condition(await status(cluster), "ScalingActive")
        count = await replicas(cluster)

    assert condition is not None
    assert ("False", "FailedGetResourceMetric") == (condition["status"], condition["reason"])
    assert VALUE in condition["message"]
    assert 2 == count


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        pytest.param(20, 10, id="above the maximum"),
        pytest.param(1, 3, id="below the minimum"),
        pytest.param(0, 0, id="none at all is left alone"),
    ],
)
@in_virtual_time
async def test_sizes_out_of_bounds_are_put_right_without_a_metric(
    start: int, expected: int
) -> None:
    async with running_controllers(AutoscalerController) as cluster:
        hpa = autoscaler(minReplicas=3)
        await cluster.create(workload("Deployment", "web", replicas=start), hpa)
        await cluster.pass_time(1)

        count = await replicas(cluster)

    assert expected == count


@in_virtual_time
async def test_a_missing_target_is_reported_and_found_later() -> None:
    async with running_controllers(AutoscalerController) as cluster:
        await cluster.create(autoscaler(minReplicas=2))
        await cluster.pass_time(1)
        missing = find_condition(await status(cluster), "AbleToScale")
        await cluster.create(workload("Deployment", "web", replicas=1))
        await cluster.pass_time(20)

        count = await replicas(cluster)

    assert missing is not None
    assert ("False", "FailedGetScale") == (missing["status"], missing["reason"])
    assert 2 == count


def hpa_with(up: JsonObject | None = None, down: JsonObject | None = None) -> JsonObject:
    behaviour = {name: rules for name, rules in (("scaleUp", up), ("scaleDown", down)) if rules}
    return {"spec": {"minReplicas": 1, "maxReplicas": 100, "behavior": behaviour}}


def policy(kind: str, value: int, seconds: int = 60) -> JsonObject:
    return {"type": kind, "value": value, "periodSeconds": seconds}


@pytest.mark.parametrize(
    ("hpa", "current", "recommended", "expected"),
    [
        pytest.param(hpa_with(), 3, 50, 7, id="by default four more"),
        pytest.param(hpa_with(), 10, 50, 20, id="or twice as many when that is more"),
        pytest.param(hpa_with(), 60, 200, 100, id="never above the maximum"),
        pytest.param(
            hpa_with(up={"policies": [policy("Pods", 2)]}), 10, 50, 12, id="a policy in pods"
        ),
        pytest.param(
            hpa_with(up={"policies": [policy("Pods", 2), policy("Percent", 50)]}),
            10,
            50,
            15,
            id="the policy that changes most",
        ),
        pytest.param(
            hpa_with(
                up={"policies": [policy("Pods", 2), policy("Percent", 50)], "selectPolicy": "Min"}
            ),
            10,
            50,
            12,
            id="or least",
        ),
        pytest.param(hpa_with(up={"selectPolicy": "Disabled"}), 10, 50, 10, id="or none"),
        pytest.param(hpa_with(), 50, 5, 5, id="down to what is asked for at once"),
        pytest.param(
            hpa_with(down={"policies": [policy("Percent", 10)]}),
            50,
            5,
            45,
            id="or in steps",
        ),
        pytest.param(hpa_with(), 5, 0, 1, id="never below the minimum"),
    ],
)
def test_how_fast_sizes_change(
    hpa: JsonObject, current: int, recommended: int, expected: int
) -> None:
    decision = decide(hpa, current, recommended, Memory(), now=1000.0)

    assert expected == decision.replicas


def test_what_was_added_a_moment_ago_counts_against_the_policy() -> None:
    memory = Memory(changes=[(990.0, 2)])
    hpa = hpa_with(up={"policies": [policy("Pods", 3)]})

    decision = decide(hpa, 12, 50, memory, now=1000.0)

    assert (13, "ScaleUpLimit") == (decision.replicas, decision.limit)


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        pytest.param(cpu(50), "100", 8, id="utilisation"),
        pytest.param(
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "requests"},
                    "target": {"type": "AverageValue", "averageValue": "500m"},
                },
            },
            "250m",
            2,
            id="a quantity per pod",
        ),
        pytest.param(
            {
                "type": "External",
                "external": {
                    "metric": {"name": "queue"},
                    "target": {"type": "AverageValue", "averageValue": "10"},
                },
            },
            "95",
            10,
            id="a total shared by the pods",
        ),
        pytest.param(
            {
                "type": "Object",
                "object": {
                    "describedObject": {"kind": "Service", "name": "x"},
                    "metric": {"name": "hits"},
                    "target": {"type": "Value", "value": "1k"},
                },
            },
            "2k",
            8,
            id="a value of another object",
        ),
    ],
)
def test_what_a_metric_asks_for(metric: JsonObject, value: str, expected: int) -> None:
    reading = read_metric(metric, [{VALUE: value}], current=4)

    assert reading is not None
    assert expected == reading.replicas


def test_the_value_of_one_metric_goes_before_that_of_all() -> None:
    reading = read_metric(cpu(50), [{VALUE: "50", f"{VALUE}.cpu": "100"}], current=4)

    assert reading is not None
    assert 8 == reading.replicas


def test_a_share_of_what_pods_ask_for_is_shown_as_an_amount_too() -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "200m"}}}

    reading = read_metric(cpu(50), [{VALUE: "75"}], 4, {"spec": {"containers": [container]}})

    assert reading is not None
    current = reading.status["resource"]["current"]
    assert {"averageUtilization": 75, "averageValue": "150m"} == current


@pytest.mark.parametrize("text", ["", "much", "1x"])
def test_a_value_nobody_can_read_counts_as_absent(text: str) -> None:
    reading = read_metric(cpu(50), [{VALUE: text}], current=4)

    assert reading is None
