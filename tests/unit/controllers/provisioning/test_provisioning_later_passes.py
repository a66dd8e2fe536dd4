"""Pods that only wait for another pass are told so, and not that they fit nowhere."""

from typing import Any, Final

import pytest

from helpers.autoscaler import autoscaler, deployment, kwok_pool
from helpers.builders import instance_type
from helpers.clusters import in_virtual_time
from helpers.provisioning import Provisioning, provisioning, ready_pool, waiting_pod
from karpenter.kube.errors import ConnectionLostError

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
TWO_SIZES: Final = (
    instance_type("small", cpu="4", memory="8Gi"),
    instance_type("large", cpu="8", memory="8Gi"),
)
WAITS: Final = (
    "Failed to schedule pod, waits for the next pass: it fits once the nodes of this plan"
)


def apart(key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"kind": "apart"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def lonely_pods(count: int, key: str, cpu: str = "1") -> list[dict[str, Any]]:
    pods = [waiting_pod(f"p{number}", cpu=cpu, affinity=apart(key)) for number in range(count)]
    for pod in pods:
        pod["metadata"]["labels"] = {"kind": "apart"}
    return pods


def told(run: Provisioning) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pod, message in run.events("FailedScheduling"):
        found.setdefault(pod, []).append(message)
    return found


@in_virtual_time
async def test_a_pod_waits_while_a_planned_node_counts_as_the_largest_it_may_become() -> None:
    pool = ready_pool(limits={"cpu": "10"})
    async with provisioning(pool, *lonely_pods(3, HOST, "3"), types=TWO_SIZES) as run:
        (claim,) = await run.provision()
        first = told(run)
        (waits,) = run.lines("pod has to wait for another pass")
        refused = run.lines("could not schedule pod")
        await run.launch(claim, cpu="4")
        (second,) = await run.provision()
        await run.launch(second, cpu="4")
        nobody = await run.provision()

        (waiting,) = (pod for pod, messages in first.items() if messages[0].startswith(WAITS))
        (nowhere,) = first.keys() - {waiting}
        (message,) = first[waiting]
        assert "exceeds the pool's limits" in message
        assert (waiting, "info", message.partition(", ")[2]) == (
            waits["Pod"]["name"],
            waits["level"],
            waits["reason"],
        )
        assert [nowhere] == [line["Pod"]["name"] for line in refused]
        assert not any("waits" in message for message in told(run)[nowhere])
        assert (first[waiting], ()) == (told(run)[waiting], nobody)


@in_virtual_time
async def test_a_pod_that_was_told_to_wait_in_vain_is_told_so_at_once() -> None:
    pool = ready_pool(limits={"cpu": "10"})
    async with provisioning(pool, *lonely_pods(2, HOST, "3"), types=TWO_SIZES) as run:
        (claim,) = await run.provision()
        await run.launch(claim, cpu="8")  # which is all that could be had

        await run.provision()

        heard = [each for each in run.at.events.heard if each.reason == "FailedScheduling"]
        assert [True, False] == [each.message.startswith(WAITS) for each in heard]
        # so that the first, which is not said again for a while, does not silence the second
        assert 2 == len({each.dedupe for each in heard})


@in_virtual_time
async def test_what_could_not_be_created_lets_nobody_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = ready_pool(limits={"cpu": "10"})
    async with provisioning(pool, *lonely_pods(2, HOST, "3"), types=TWO_SIZES) as run:

        async def refuse(*args: Any, **kwargs: Any) -> None:
            raise ConnectionLostError("out of order")

        monkeypatch.setattr(run.provisioner._creator, "create", refuse)
        with pytest.raises(ConnectionLostError):
            await run.provision()

        ((message,),) = told(run).values()
        assert "waits" not in message


@in_virtual_time
async def test_of_pods_that_each_want_a_zone_only_the_last_is_told_that_there_is_none() -> None:
    pods = deployment("web", 5, affinity=apart(ZONE))  # one more than there are zones
    pods["spec"]["template"]["metadata"]["labels"]["kind"] = "apart"
    async with autoscaler(kwok_pool(), pods) as run:
        await run.until(lambda: len(run.running) == 4)
        await run.pass_time(30)

        names = {pod["metadata"]["name"] for pod in run.pods}
        (left,) = names - {pod["metadata"]["name"] for pod in run.running}
        refused = {
            event["involvedObject"]["name"]
            for event in run.objects("", "events")
            if event["reason"] == "FailedScheduling"
            and event["source"].get("component") == "karpenter"
            and "waits for" not in event["message"]
        }
        lines = [line for line in run.lines if line["message"] == "could not schedule pod"]
        assert {left} == refused == {line["Pod"]["name"] for line in lines}
