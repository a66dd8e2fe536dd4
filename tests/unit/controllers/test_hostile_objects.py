"""Objects made to do harm, as a real API server takes them, end nothing and hold nobody up.

The sandbox takes fewer of them than a real server, so what it holds is harmless, and a transport
writes the harm into its answers.
"""

from collections.abc import Callable
from typing import Any

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, gates, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.rewritten_answers import Rewriting
from karpenter.api.nodes import Node
from karpenter.api.workloads import Deployment
from karpenter.clock import run_virtual
from karpenter.kube.transport import Transport
from karpenter.settings import Settings

JsonObject = dict[str, Any]

GRACE = 7_777_777  # stands for a length that the sandbox would not take
WHEN = "1971-02-03T04:05:06Z"  # stands for a time that it would not
MANY = 77_777


def rewriting(**texts: str) -> Callable[[Transport], Transport]:
    """A wrap for transports: what stands for what."""
    known = {"grace": f":{GRACE}", "when": f'"{WHEN}"', "many": f":{MANY}"}
    told = {known[name]: text for name, text in texts.items()}
    return lambda inner: Rewriting(inner, told)


def hostile_pod(name: str = "hostile", **spec: Any) -> JsonObject:
    container = {"name": "app", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


async def serves_ordinary_pods(it: Autoscaler, name: str = "web") -> None:
    """Make sure that pods that come now get machines and run."""
    await it.apply(deployment(name, 3))
    await it.until(lambda: 3 == sum(pod["metadata"]["name"].startswith(name) for pod in it.running))


@pytest.mark.parametrize("grace", [100_000_000_000, 2**63 - 1])
def test_a_grace_period_of_ages_does_not_keep_the_controller_from_starting(grace: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        pod = hostile_pod(nodeName="nowhere", terminationGracePeriodSeconds=GRACE)
        wrap = rewriting(grace=f":{grace}")
        async with autoscaler(kwok_pool(), pod, wrap=wrap, starts=False) as it:
            await it.client.delete("v1", "Pod", "default", "hostile")
            it.start()
            await serves_ordinary_pods(it)
            await it.kill()
            it.start()
            await serves_ordinary_pods(it, "again")

            assert "hostile" in {pod["metadata"]["name"] for pod in it.pods}

    scenario()


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
@pytest.mark.parametrize("is_legacy", [False, True])
def test_a_condition_dated_at_the_end_of_time_ends_nothing(moment: str, is_legacy: bool) -> None:
    async def scenario() -> None:
        settings = Settings(feature_gates=gates(NodeRepair=True), legacy_node_repair=is_legacy)
        wrap = rewriting(when=f'"{moment}"')
        async with autoscaler(kwok_pool(), wrap=wrap, settings=settings) as it:
            await serves_ordinary_pods(it)
            name = it.nodes[0]["metadata"]["name"]
            known = it.nodes[0]["status"]["conditions"]
            ill = {"type": "KWOKUnhealthy", "status": "True", "lastTransitionTime": WHEN}
            await it.client.patch_status("v1", "Node", "", name, {"conditions": [*known, ill]})
            await it.pass_time(60)
            await serves_ordinary_pods(it, "again")

    run_virtual(scenario())


def with_template_of(when: str) -> JsonObject:
    """A Deployment of nothing whose template was created at a time."""
    made = deployment("hostile", 0)
    made["spec"]["template"]["metadata"]["creationTimestamp"] = when
    return made


@pytest.mark.parametrize("moment", ["0000-01-01T00:00:00Z", "10000-01-01T00:59:59Z"])
def test_a_time_that_python_does_not_know_stops_no_kind(moment: str) -> None:
    async def scenario() -> None:
        wrap = rewriting(when=f'"{moment}"')
        async with autoscaler(kwok_pool(), with_template_of(WHEN), wrap=wrap) as it:
            await serves_ordinary_pods(it)
            name = it.nodes[0]["metadata"]["name"]
            beats = [
                {**each, "lastHeartbeatTime": WHEN, "lastTransitionTime": WHEN}
                for each in it.nodes[0]["status"]["conditions"]
            ]
            await it.client.patch_status("v1", "Node", "", name, {"conditions": beats})
            await it.pass_time(30)
            await it.kill()
            it.start()
            await serves_ordinary_pods(it, "again")

            assert name in {node.metadata.name for node in it.world.mirror(Node).list()}

    run_virtual(scenario())


@in_virtual_time
async def test_an_object_that_cannot_be_read_is_set_aside_and_named() -> None:
    hostile = deployment("hostile", 0)
    hostile["spec"]["revisionHistoryLimit"] = MANY
    # A number of replicas that is none
    wrap = rewriting(many=':3,"replicas":"many"')
    async with autoscaler(kwok_pool(), hostile, wrap=wrap) as it:
        it.expects_failures = True
        await serves_ordinary_pods(it)
        named = ["karpenter_objects_set_aside"]
        aside = {"kind": "Deployment", "namespace": "default", "name": "hostile"}

        assert [f"{named[0]} {aside}"] == it.guarded
        assert it.world.mirrors.is_synced
        await it.client.delete("apps/v1", "Deployment", "default", "hostile")
        await it.pass_time(1)
        assert [] == it.guarded


@in_virtual_time
async def test_depths_that_nobody_reads_stop_no_kind() -> None:
    nested = deployment("hostile", 0)
    nested["spec"]["revisionHistoryLimit"] = MANY
    depths = "[" * 5000 + "]" * 5000
    wrap = rewriting(many=f':3,"unknown":{depths}')
    async with autoscaler(kwok_pool(), nested, wrap=wrap) as it:
        await serves_ordinary_pods(it)

        assert it.world.mirror(Deployment).get("hostile", "default") is not None
