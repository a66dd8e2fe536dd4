"""The Deployment that stands for the controllers of a sandbox."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from helpers.clusters import in_virtual_time
from helpers.scale_walk import LIFE_OF_A_CLAIM
from karpenter_sandbox.cluster import Cluster, virtual_cluster
from karpenter_sandbox.command.autoscaler import autoscaling
from karpenter_sandbox.command.cloud import CloudOptions
from karpenter_sandbox.command.controller_deployment import deployed, is_about_it, objects, undeploy
from karpenter_sandbox.command.decision_lines import decision_logger
from karpenter_sandbox.command.demo import example
from karpenter_sandbox.command.live_view import EventFeed, overview
from karpenter_sandbox.log_ring import LogRing
from karpenter_sandbox.server.api import Request, Response
from karpenter_sandbox.status import ApiError

JsonObject = dict[str, Any]


def pods(cluster: Cluster) -> list[JsonObject]:
    return cluster.store.list("", "pods", "karpenter")


async def deployment(cluster: Cluster) -> JsonObject:
    return await cluster.client.get("apps/v1", "Deployment", "karpenter", "karpenter")


def read_log(cluster: Cluster) -> list[JsonObject]:
    (pod,) = pods(cluster)
    path = f"/api/v1/namespaces/karpenter/pods/{pod['metadata']['name']}/log"
    answer = cluster.api.handle(Request("GET", path, {"container": ["controller"]}))
    assert isinstance(answer, Response)
    assert 200 == answer.status
    return [json.loads(line) for line in answer.body.splitlines()]


@in_virtual_time
async def test_it_runs_on_no_node_and_brings_none() -> None:
    said: list[str] = []
    async with virtual_cluster() as cluster:
        for document in example():
            await cluster.client.create(document.data, namespace="default")
        async with autoscaling(cluster, CloudOptions("kwok"), said.append):
            await cluster.clock.sleep(300)

            (pod,) = pods(cluster)
            assert ("Running", [True]) == (
                pod["status"]["phase"],
                [each["ready"] for each in pod["status"]["containerStatuses"]],
            )
            assert "nodeName" not in pod["spec"]
            assert 1 == (await deployment(cluster))["status"]["availableReplicas"]
            assert [] == cluster.store.list("karpenter.sh", "nodeclaims")
            assert [] == cluster.store.list("", "nodes")
            everything = cluster.store.list("", "pods")
            assert "0 pods" in overview([], everything, cluster.clock.now()).summary
    assert [] == said


@pytest.mark.row("S2-76")
@in_virtual_time
async def test_its_log_tells_the_life_of_a_claim() -> None:
    async with virtual_cluster() as cluster:
        for document in example():
            await cluster.client.create(document.data, namespace="default")
        async with autoscaling(cluster, CloudOptions("kwok"), lambda line: None):
            await cluster.clock.sleep(10)
            patch = {"spec": {"replicas": 3}}
            await cluster.client.patch(
                "merge", "apps/v1", "Deployment", "default", "inflate", patch
            )
            await cluster.clock.sleep(60)
            lines = read_log(cluster)

    assert "starting" == lines[0]["message"]
    told = [line["message"] for line in lines if line["message"] in LIFE_OF_A_CLAIM]
    assert LIFE_OF_A_CLAIM == list(dict.fromkeys(told))
    for line in lines:
        assert ["level", "time", "logger", "message", "commit"] == list(line)[:5]


@in_virtual_time
async def test_a_deleted_pod_is_made_anew() -> None:
    async with virtual_cluster() as cluster, deployed(cluster, LogRing()):
        await cluster.clock.sleep(5)
        (old,) = pods(cluster)
        await cluster.client.delete("v1", "pods", "karpenter", old["metadata"]["name"])
        await cluster.clock.sleep(5)

        (new,) = pods(cluster)
        assert old["metadata"]["uid"] != new["metadata"]["uid"]
        assert "Running" == new["status"]["phase"]


@in_virtual_time
async def test_the_next_run_takes_it_over_as_restarted() -> None:
    async with virtual_cluster() as cluster:
        async with deployed(cluster, LogRing()):
            await cluster.clock.sleep(5)
            (old,) = pods(cluster)
        async with deployed(cluster, LogRing()):
            await cluster.clock.sleep(5)
            (new,) = pods(cluster)

    assert old["metadata"]["uid"] == new["metadata"]["uid"]
    assert [0, 1] == [pod["status"]["containerStatuses"][0]["restartCount"] for pod in (old, new)]


@in_virtual_time
async def test_a_run_without_controllers_has_none_left() -> None:
    async with virtual_cluster() as cluster:
        await undeploy(cluster)  # where there never was one
        async with deployed(cluster, LogRing()):
            await cluster.clock.sleep(5)
        await undeploy(cluster)
        await cluster.clock.sleep(60)

        assert [] == pods(cluster)
        with pytest.raises(ApiError, match="not found"):
            await deployment(cluster)


@in_virtual_time
async def test_somebody_elses_installation_stays_as_it_is() -> None:
    namespace, account, own = objects()
    del own["metadata"]["labels"]
    own["spec"]["template"]["spec"] |= {"schedulerName": "default-scheduler", "hostNetwork": False}
    async with virtual_cluster() as cluster:
        for obj in (namespace, account, own):
            await cluster.client.create(obj)
        async with deployed(cluster, LogRing()):
            await cluster.clock.sleep(5)
            (pod,) = pods(cluster)
            assert "Pending" == pod["status"]["phase"]
        await undeploy(cluster)

        kept = (await deployment(cluster))["spec"]["template"]["spec"]
        assert "default-scheduler" == kept["schedulerName"]


@in_virtual_time
async def test_it_is_no_news() -> None:
    feed, open_feed = EventFeed(is_about_it), EventFeed()
    async with virtual_cluster() as cluster:
        cluster.store.on_change(feed.follow)
        cluster.store.on_change(open_feed.follow)
        async with deployed(cluster, LogRing()):
            await cluster.clock.sleep(5)

    assert any("karpenter" in line for line in open_feed.taken())
    assert [] == feed.taken()


def test_what_repeats_itself_is_thinned_out_in_the_log_alone() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    said: list[str] = []
    ring = LogRing()
    log = decision_logger(said.append, lambda: moment, ring.write, "abc1234")
    for _ in range(150):
        log.bind(controller="x").info("registered nodeclaim", NodeClaim={"name": "a"})

    lines = [json.loads(line.data) for line in ring.since(0)[0]]

    assert (150, 100) == (len(said), len(lines))
    expected = {
        "level": "INFO",
        "time": "2030-01-01T00:00:00.000Z",
        "logger": "controller",
        "message": "registered nodeclaim",
        "commit": "abc1234",
        "controller": "x",
        "NodeClaim": {"name": "a"},
    }
    assert expected == lines[0]
