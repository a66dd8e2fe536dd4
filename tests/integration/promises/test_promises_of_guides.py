"""What the guides for operators promise, on a whole virtual cluster."""

import re
from typing import Any

import pytest

from helpers import pages
from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.scale_walk import FIXED, app_pods, cpu_on, manifests, node_types, pending, walk_cloud
from karpenter.manifests.reader import read
from karpenter.model.quantity import millis, units
from karpenter.simulate.invariants import made_nodes, problems
from karpenter_sandbox.status import ApiError

V1 = "karpenter.sh/v1"
CPU = "karpenter.kwok.sh/instance-cpu"
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
QUICK = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


def names(objects: list[JsonObject]) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


def objects_in(path: str) -> list[JsonObject]:
    """The objects of an example."""
    return [document.data for document in read((pages.ROOT / path).read_bytes(), path)]


def objects_on(page: str, file: str) -> list[JsonObject]:
    """The objects of a file that a page shows."""
    found = re.search(rf"^```yaml\n# {file}\n(.*?)^```$", pages.text_of(page), re.M | re.S)
    assert found, f"{page} shows no {file}"
    return [document.data for document in read(found[1].encode(), file)]


def is_ready(pod: JsonObject) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@pytest.mark.row("S1-02")
@in_virtual_time
async def test_while_the_controller_is_stopped_nodes_stay_and_pods_wait() -> None:
    assert "stay `Pending`; no NodeClaim is made" in pages.text_of("docs/stopped-controller.md")
    async with autoscaler(kwok_pool(disruption=QUICK), deployment("web", 3)) as run:
        await run.until(lambda: len(run.running) == 3, seconds=60)
        before = names(run.nodes)

        await run.kill()
        await run.apply(deployment("late", 4, cpu="30"))
        await run.pass_time(3600)
        assert before == names(run.nodes) == {c["status"]["nodeName"] for c in run.claims}
        assert 3 == len(run.running)
        assert 4 == sum(not each["spec"].get("nodeName") for each in run.pods)

        await run.scale("web", 0)  # empty nodes stay as well
        await run.pass_time(3600)
        assert before == names(run.nodes)

        run.start()
        await run.until(lambda: len(run.running) == 4, seconds=120)
        await run.until(lambda: not before & names(run.nodes), seconds=120)
        assert [] == problems(run)


@pytest.mark.row("S1-02")
@in_virtual_time
async def test_what_is_deleted_while_the_controller_is_stopped_is_drained_later() -> None:
    async with autoscaler(kwok_pool(), deployment("web", 1)) as run:
        await run.until(lambda: len(run.running) == 1, seconds=60)
        (node,) = run.nodes

        await run.kill()
        await run.client.delete(V1, "NodeClaim", None, run.claims[0]["metadata"]["name"])
        await run.pass_time(600)
        assert 1 == len(run.running)
        assert "deletionTimestamp" in run.claims[0]["metadata"]

        run.start()
        await run.until(lambda: node["metadata"]["name"] not in names(run.nodes), seconds=120)
        await run.until(lambda: len(run.running) == 1, seconds=120)
        assert [] == problems(run)


@pytest.mark.row("S0-25")
@in_virtual_time
async def test_expiry_replaces_old_nodes_whatever_holds_them_and_drains_with_care() -> None:
    """The uses that the page names: new images, an end of leaks, and a test of every workload."""
    page = pages.text_of("docs/expiry.md")
    assert ["upgrades", "leak protection", "disruption tests"] == re.findall(
        r"^\| ([a-z ]+) \| [A-Z]", page, re.M
    )
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    never = {"budgets": [{"nodes": "0"}]}
    pool = kwok_pool(template={"expireAfter": "1h"}, disruption=never)
    async with autoscaler(pool, deployment("web", 3), budget) as run:
        await run.until(lambda: len(run.running) == 3, seconds=60)
        old = names(made_nodes(run))
        # what is new from now on reaches every node within the hour
        patch: JsonObject = {"spec": {"template": {"metadata": {"labels": {"image": "new"}}}}}
        await run.client.patch("merge", V1, "NodePool", None, "default", patch)
        await run.pass_time(3000)
        assert old == names(made_nodes(run)), "the budget of zero holds drift back"

        fewest = 3
        while old & names(made_nodes(run)):
            await run.pass_time(1)
            assert run.clock.monotonic() < 5000
            fewest = min(fewest, sum(map(is_ready, run.pods)))
        assert fewest >= 2, "draining keeps to the PodDisruptionBudget"
        await run.until(lambda: len(run.running) == 3, seconds=60)
        assert {"new"} == {n["metadata"]["labels"]["image"] for n in made_nodes(run)}
        assert [] == problems(run)


@pytest.mark.row("S2-90", "S1-03", "S3-43")
@in_virtual_time
async def test_pods_of_a_drained_group_move_to_claims_within_their_budget() -> None:
    page = pages.text_of("docs/migrate-cluster-autoscaler.md")
    assert "kubectl scale deploy/cluster-autoscaler -n kube-system --replicas=0" in page
    assert "Other clouds come in as [providers](providers.md)" in page
    async with autoscaler(*objects_in("examples/migrate/cluster.yaml"), nodes=1) as run:
        await run.until(lambda: len(run.running) == 6, seconds=60)
        pool, _ = objects_in("examples/migrate/nodepool.yaml")
        assert [] == run.claims, "without a pool nothing happens"

        await run.client.patch(
            "merge",
            "apps/v1",
            "Deployment",
            "kube-system",
            "cluster-autoscaler",
            {"spec": {"replicas": 0}},
        )
        await run.apply(pool)
        group = sorted(name for name in names(run.nodes) if name.startswith("workers-"))
        for name in [*group, "node-1"]:
            await run.client.patch(
                "merge", "v1", "Node", None, name, {"spec": {"unschedulable": True}}
            )
        fewest = 5
        for name in group:  # as kubectl drain does it
            while leaving := [each for each in web(run) if each["spec"].get("nodeName") == name]:
                for pod in leaving:
                    await evict(run, pod)
                await run.pass_time(1)
                fewest = min(fewest, sum(map(is_ready, web(run))))
            assert run.clock.monotonic() < 1200
        await run.until(lambda: 5 == sum(map(is_ready, web(run))), seconds=120)

        hosts = {pod["spec"]["nodeName"] for pod in web(run)}
        assert hosts <= {claim["status"]["nodeName"] for claim in run.claims}
        assert 4 == fewest
        assert [] == problems(run)


async def evict(run: Autoscaler, pod: JsonObject) -> None:
    """Ask a pod to leave, unless its budget is used up or it has left."""
    try:
        await run.client.evict("default", pod["metadata"]["name"])
    except ApiError as refused:
        if refused.status not in (404, 429):
            raise


def web(run: Autoscaler) -> list[JsonObject]:
    return [each for each in run.pods if each["metadata"]["labels"].get("app") == "web"]


@pytest.mark.row("S2-99")
@in_virtual_time
async def test_the_workload_of_the_page_on_availability_survives_the_loss_of_every_node() -> None:
    """At no time fewer pods than the budget says, and each has its grace period."""
    shown = objects_on("docs/high-availability.md", "available.yaml")
    (shop,) = [each for each in shown if each["kind"] == "Deployment"]
    spec = shop["spec"]["template"]["spec"]
    shop["spec"]["template"]["metadata"]["annotations"] = {
        "sandbox.karpenter.sh/shutdown-delay": "70s"
    }
    async with autoscaler(kwok_pool(disruption=QUICK), *shown) as run:
        await run.until(lambda: 3 == sum(map(is_ready, run.pods)), seconds=60)
        assert {100_000} == {pod["spec"]["priority"] for pod in run.pods}
        old = names(run.nodes)
        assert 3 == len(old), "spread by host"
        for claim in run.claims:
            await run.client.delete(V1, "NodeClaim", None, claim["metadata"]["name"])

        told: dict[str, float] = {}  # pod -> when it was evicted
        lasted: list[float] = []
        while old & names(run.nodes):
            await run.pass_time(1)
            now = run.clock.monotonic()
            assert now < 2000
            assert 2 <= sum(is_ready(p) for p in run.pods if not is_going(p))
            going = {each["metadata"]["uid"] for each in run.pods if is_going(each)}
            lasted += [now - since for uid, since in told.items() if uid not in going]
            told = {uid: told.get(uid, now) for uid in going}
        lasted += [run.clock.monotonic() - since for since in told.values()]

        assert 75 == spec["terminationGracePeriodSeconds"]
        assert 3 == len(lasted)
        assert all(69 <= seconds <= 76 for seconds in lasted), lasted
        await run.until(lambda: 3 == sum(map(is_ready, run.pods)), seconds=60)
        assert [] == problems(run)


def is_going(pod: JsonObject) -> bool:
    return "deletionTimestamp" in pod["metadata"]


@pytest.mark.row("S2-83")
@in_virtual_time
async def test_pods_and_nodes_of_fargate_are_left_alone() -> None:
    assert "### On Fargate alone?" in pages.text_of("docs/high-availability.md")
    async with autoscaler(kwok_pool(disruption=QUICK), nodes=1) as run:
        (machine,) = run.nodes
        name = machine["metadata"]["name"]
        labels = {"metadata": {"labels": {"eks.amazonaws.com/compute-type": "fargate"}}}
        await run.client.patch("merge", "v1", "Node", None, name, labels)
        await run.apply(deployment("serverless", 2, cpu="30", schedulerName="fargate-scheduler"))
        await run.pass_time(600)

        assert [] == run.claims
        assert {name} == names(run.nodes), "an empty node that is not ours stays"

        await run.apply(deployment("ordinary", 1, cpu="30"))
        await run.until(lambda: len(run.running) == 1, seconds=60)
        assert 1 == len(run.claims)


@pytest.mark.row("S2-104")
@in_virtual_time
async def test_a_limit_range_gives_requests_to_pods_and_these_decide_the_nodes() -> None:
    shown = objects_on("docs/requests.md", "requests.yaml")
    (limits,) = [each for each in shown if each["kind"] == "LimitRange"]
    (forgotten,) = [each for each in shown if each["kind"] == "Deployment"]
    sizes = {"key": CPU, "operator": "In", "values": ["1", "4"]}
    pool = kwok_pool("default", ON_DEMAND, sizes, disruption=QUICK)
    async with autoscaler(pool, limits) as run:
        await run.apply(forgotten)
        await run.until(lambda: len(run.running) == 6, seconds=60)
        asked = [pod["spec"]["containers"][0]["resources"]["requests"] for pod in run.pods]
        assert [{"cpu": "500m", "memory": "512Mi"}] * 6 == asked
        assert ["4"] == [node["metadata"]["labels"][CPU] for node in made_nodes(run)]

        await run.scale("forgotten", 1)
        await run.until(lambda: ["1"] == cpus(run), seconds=300)
        assert [] == problems(run)


def cpus(run: Autoscaler) -> list[str]:
    return sorted(node["metadata"]["labels"][CPU] for node in made_nodes(run))


@pytest.mark.row("S2-104")
@in_virtual_time
async def test_a_pod_without_requests_still_counts_as_a_pod() -> None:
    """It keeps its node from being empty, and only so many of them fit on one."""
    idle = deployment("idle", 20)
    idle["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    sizes = {"key": CPU, "operator": "In", "values": ["1"]}
    pool = kwok_pool("default", sizes, disruption={**QUICK, "consolidationPolicy": "WhenEmpty"})
    async with autoscaler(pool, idle) as run:
        await run.until(lambda: len(run.running) == 20, seconds=60)
        room = {int(node["status"]["allocatable"]["pods"]) for node in made_nodes(run)}
        assert {-(-20 // most) for most in room} == {len(made_nodes(run))}
        before = names(run.nodes)

        await run.scale("idle", 1)
        await run.pass_time(600)
        assert 1 == len(run.nodes)
        assert names(run.nodes) < before or len(before) == 1
        assert [] == problems(run)


def walk_hpa() -> JsonObject:
    target = {"type": "Utilization", "averageUtilization": 50}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"},
            "minReplicas": 1,
            "maxReplicas": 20,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


@pytest.mark.row("S3-42", "S3-07")
@in_virtual_time
async def test_the_walk_with_an_hpa_makes_nodes_for_a_load_and_removes_them_after_it() -> None:
    assert "1425m of 1930m requested, which is 73 %" in pages.text_of("docs/scale-walk.md")
    pool, _ = manifests("nodepool.yaml")
    async with autoscaler(*manifests("cluster.yaml"), pool, make_cloud=walk_cloud) as run:
        await run.until(lambda: 1425 == cpu_on(run, FIXED), seconds=30)
        (fixed,) = run.nodes
        assert 73 == 100 * 1425 // millis(fixed["status"]["allocatable"]["cpu"])
        memory = sum(
            units(container["resources"]["requests"].get("memory", 0))
            for pod in run.pods
            for container in pod["spec"]["containers"]
        )
        assert 17 == 100 * memory // units(fixed["status"]["allocatable"]["memory"])

        await run.apply(*manifests("app.yaml"), walk_hpa())

        async def load(percent: int) -> None:
            key = "sandbox.karpenter.sh/metric-total"
            body: dict[str, Any] = {"metadata": {"annotations": {key: str(percent)}}}
            kind = "HorizontalPodAutoscaler"
            await run.client.patch("merge", "autoscaling/v2", kind, "default", "app", body)

        await load(400)
        await run.until(lambda: 8 == len(app_pods(run)) and not pending(run), seconds=180)
        await run.pass_time(120)
        assert (8, 2) == (len(app_pods(run)), len(node_types(run)))

        await load(50)
        await run.until(lambda: ["m5.large"] == node_types(run), seconds=1200)
        await run.until(lambda: not run.claims, seconds=60)
        assert (1, []) == (len(app_pods(run)), problems(run))
