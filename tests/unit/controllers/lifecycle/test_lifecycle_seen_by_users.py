"""What users of a NodePool see on its nodes, with every controller at work."""

from typing import Any

import pytest

from helpers.autoscaler import KWOK_CLASS, Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.model import labels

JsonObject = dict[str, Any]
SPECIAL: JsonObject = {"key": "example.com/special-taint", "effect": "NoSchedule"}
TOLERATES_SPECIAL = [{"key": "example.com/special-taint", "operator": "Exists"}]


def conditions(claim: JsonObject) -> dict[str, str]:
    """The conditions of a claim that are dated, by type."""
    return {each["type"]: each["status"] for each in claim["status"]["conditions"]}


def scheduler_events(run: Autoscaler) -> list[tuple[str, str]]:
    """Pod and reason of every warning about a pod."""
    return [
        (event["involvedObject"]["name"].rpartition("-")[0].rpartition("-")[0], event["reason"])
        for event in run.objects("", "events")
        if event["involvedObject"]["kind"] == "Pod" and event["type"] == "Warning"
    ]


@pytest.mark.row("S0-09")
@in_virtual_time
async def test_a_claim_passes_through_its_stages_and_the_pod_runs() -> None:
    async with autoscaler(kwok_pool(), deployment("app", 1)) as run:
        await run.until(lambda: len(run.running) == 1, seconds=60)

        held = conditions(run.claims[0])
        stages = ("Launched", "Registered", "Initialized", "Ready")
        assert ["True"] * 4 == [held[stage] for stage in stages]
        told = [line["message"] for line in run.lines if line["message"].endswith("ed nodeclaim")]
        expected = ["created", "launched", "registered", "initialized"]
        assert [f"{word} nodeclaim" for word in expected] == told


@pytest.mark.row("S0-29", "S1-11", "S2-62")
@in_virtual_time
async def test_a_taint_of_the_pool_is_on_the_node_and_keeps_other_pods_away() -> None:
    welcome = deployment("welcome", 1, tolerations=TOLERATES_SPECIAL)
    stranger = deployment("stranger", 1)
    async with autoscaler(kwok_pool(template={"taints": [SPECIAL]}), welcome, stranger) as run:
        await run.pass_time(30)

        assert [[SPECIAL]] == [node["spec"]["taints"] for node in run.nodes]
        assert ["welcome"] == [pod["metadata"]["labels"]["app"] for pod in run.running]
        assert ("stranger", "FailedScheduling") in scheduler_events(run)


@pytest.mark.row("S0-30", "S1-13", "S1-14", "S2-56")
@in_virtual_time
async def test_labels_and_annotations_of_the_pool_are_on_every_node() -> None:
    wanted = {"billing-team": "my-team", "example.com/a": "1", "example.com/b": "2"}
    noted = {"example.com/owner": "my-team"}
    small = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2"]}
    pool = kwok_pool("default", small, metadata={"labels": wanted, "annotations": noted})
    async with autoscaler(pool, deployment("app", 2)) as run:
        await run.until(lambda: len(run.running) == 2, seconds=60)

        assert 2 == len(run.nodes)
        for node in run.nodes:
            assert wanted.items() <= node["metadata"]["labels"].items()
            assert noted.items() <= node["metadata"]["annotations"].items()


@pytest.mark.row("S1-12")
@in_virtual_time
async def test_a_node_with_a_startup_taint_is_initialized_when_the_taint_is_gone() -> None:
    startup = {"key": "example.com/startup", "effect": "NoSchedule"}
    pool = kwok_pool(template={"startupTaints": [startup]})
    async with autoscaler(pool, deployment("app", 1)) as run:
        await run.pass_time(60)
        assert [[startup]] == [node["spec"]["taints"] for node in run.nodes]
        assert "Unknown" == conditions(run.claims[0])["Initialized"]
        assert [] == run.running

        name = run.nodes[0]["metadata"]["name"]
        await run.client.patch("merge", "v1", "Node", None, name, {"spec": {"taints": []}})
        await run.until(lambda: len(run.running) == 1, seconds=60)

        assert "True" == conditions(run.claims[0])["Initialized"]
        assert 1 == len(run.claims)


@pytest.mark.row("S0-44")
@in_virtual_time
async def test_an_instance_that_never_registers_loses_its_claim_and_pods_go_elsewhere() -> None:
    async with autoscaler(kwok_pool(), deployment("app", 1), starts=False) as run:
        await _delay_registration(run, "24h")
        run.start()
        await run.pass_time(30)
        broken = run.claims[0]["metadata"]["name"]
        await _delay_registration(run, "0s")

        await run.pass_time(14 * 60)
        assert [broken] == [claim["metadata"]["name"] for claim in run.claims]
        assert [] == run.running

        await run.until(lambda: len(run.running) == 1, seconds=120)
        assert broken not in [claim["metadata"]["name"] for claim in run.claims]
        pools = {node["metadata"]["labels"][labels.NODEPOOL] for node in run.nodes}
        assert {"default"} == pools


async def _delay_registration(run: Autoscaler, duration: str) -> None:
    body = {"spec": {"nodeRegistrationDelay": duration}}
    await run.client.patch("merge", KWOK_CLASS, "KWOKNodeClass", None, "default", body)
