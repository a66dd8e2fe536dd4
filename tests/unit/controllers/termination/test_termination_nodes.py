"""A node that was deleted is closed, emptied, freed of its volumes and its machine, then let go."""

from datetime import timedelta

import pytest

from helpers.autoscaler import JsonObject
from helpers.clusters import in_virtual_time
from karpenter.cloud.provider import Instance
from karpenter.kube.transport import Response
from karpenter.model.conditions import timestamp
from unit.controllers.termination.termination_bench import leaving, refusal
from unit.controllers.termination.termination_objects import (
    CLASS_LABEL,
    DISRUPTED,
    TERMINATION_TIMESTAMP,
    bound_volume,
    budget,
    claim,
    node,
    pod,
    provider_id,
    taints_of,
)

STAYS = [{"key": DISRUPTED, "operator": "Exists"}]


def expiring(at: str) -> dict[str, str]:
    return {TERMINATION_TIMESTAMP: at}


@pytest.mark.case("DIS-70")
@in_virtual_time
async def test_an_empty_node_is_believed_so_after_five_seconds() -> None:
    async with leaving(claim(), node()) as run:
        await run.delete("NodeClaim")
        await run.pass_time(4.9)
        assert ("Unknown", "Draining") == run.condition("Drained")
        assert [] == run.cloud.calls_of("delete")

        await run.pass_time(0.3)

        assert ("True", "Drained") == run.condition("Drained")
        assert ("True", "VolumesDetached") == run.condition("VolumesDetached")
        assert ["n"] == run.cloud.calls_of("delete")
        assert 1 == run.counted("nodes_drained_total", nodepool="np")


@pytest.mark.case("DIS-70")
@in_virtual_time
async def test_a_pod_that_appears_late_is_still_asked_to_go() -> None:
    async with leaving(claim(), node()) as run:
        await run.delete("NodeClaim")
        await run.pass_time(3)
        await run.put(pod("late"))
        await run.pass_time(5)

        assert ["late"] == run.evictions
        assert [] == run.cloud.calls_of("delete")


@pytest.mark.parametrize(
    ("stays", "goes"),
    [
        pytest.param(pod("s", tolerations=STAYS), [], id="DIS-71 a pod that tolerates the drain"),
        pytest.param(pod("s", owners=["Node"]), [], id="DIS-73 a mirrored pod"),
        pytest.param(pod("s", phase="Succeeded"), [], id="DIS-75 a finished pod"),
        pytest.param(pod("s", owners=()), ["s"], id="DIS-74 a pod of nobody"),
        pytest.param(pod("s", owners=["DaemonSet"]), ["s"], id="DIS-76 a daemon"),
        pytest.param(
            pod(
                "s", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
            ),
            ["s"],
            id="DIS-72 a pod that tolerates only a cordon",
        ),
    ],
)
def test_who_is_evicted(stays: JsonObject, goes: list[str]) -> None:
    @in_virtual_time
    async def run_it() -> None:
        async with leaving(claim(), node(), stays) as run:
            await run.delete("NodeClaim")
            await run.pass_time(2)
            await run.reap()
            await run.until(lambda: not run.has_claim())

            assert goes == run.evictions
            assert (goes == []) == run.has_pod("s")

    run_it()


@pytest.mark.case("DIS-77")
@in_virtual_time
async def test_tiers_go_strictly_one_after_the_other() -> None:
    pods = [
        pod("critical-daemon", critical=True, owners=["DaemonSet"]),
        pod("critical", critical=True),
        pod("daemon", owners=["DaemonSet"]),
        pod("app"),
    ]
    async with leaving(claim(), node(), *pods) as run:
        await run.delete("NodeClaim")
        seen = []
        for _ in pods:
            await run.pass_time(5)
            seen.append(run.evictions)
            await run.reap()

        order = ["app", "daemon", "critical", "critical-daemon"]
        assert [order[:1], order[:2], order[:3], order] == seen


@pytest.mark.case("DIS-82")
@in_virtual_time
async def test_a_protected_pod_keeps_its_node() -> None:
    async with leaving(claim(), node(), pod(held="true")) as run:
        await run.delete("NodeClaim")
        await run.pass_time(600)

        assert run.has_node()
        assert [] == run.evictions
        assert [] == run.deletions
        assert ("Node", "FailedDraining") in run.reasons


@pytest.mark.case("DIS-82")
@in_virtual_time
async def test_a_pod_goes_as_soon_as_its_protection_is_taken_away() -> None:
    async with leaving(claim(), node(), pod(held="true")) as run:
        await run.delete("NodeClaim")
        await run.pass_time(605)
        key = "karpenter.sh/do-not-disrupt"
        annotations = {"metadata": {"annotations": {key: None}}}
        await run.change("v1", "Pod", "a", annotations, namespace="default")
        await run.pass_time(0.1)

        assert ["a"] == run.evictions


@pytest.mark.case("DIS-83")
@in_virtual_time
async def test_a_protection_in_time_ends_by_itself() -> None:
    async with leaving(claim(), node()) as run:
        await run.pass_time(540)
        await run.put(pod(held="10m", started="2030-01-01T00:00:00Z"))
        await run.delete("NodeClaim")
        await run.pass_time(59)
        assert [] == run.evictions
        assert ("Pod", "DoNotDisruptUntil") in run.reasons

        await run.pass_time(11.5)

        assert ["a"] == run.evictions
        assert ("Pod", "DoNotDisruptGracePeriodElapsed") in run.reasons


@pytest.mark.case("DIS-84")
@in_virtual_time
async def test_a_pod_whose_grace_is_the_whole_period_goes_at_once() -> None:
    async with leaving(claim(period="300s"), node(), pod(grace=300, held="true"), budget()) as run:
        await run.delete("NodeClaim")
        await run.pass_time(1.5)

        assert [("a", 299)] == run.deletions or [("a", 298)] == run.deletions
        assert [] == run.evictions
        assert ("Pod", "Disrupted") in run.reasons
        assert 1 == run.counted("pods_drained_total", reason="Forceful Termination")


@pytest.mark.case("DIS-85")
@in_virtual_time
async def test_a_protected_pod_is_left_alone_until_its_grace_no_longer_fits() -> None:
    async with leaving(claim(period="300s"), node(), pod(grace=60, held="true")) as run:
        await run.delete("NodeClaim")
        await run.pass_time(239.9)
        assert [] == run.deletions

        await run.pass_time(0.3)

        assert [("a", 59)] == run.deletions


@pytest.mark.case("DIS-86")
@in_virtual_time
async def test_a_pod_past_the_deadline_is_given_one_second() -> None:
    async with leaving(node(), pod()) as run:
        await run.pass_time(3600)
        run.cloud.instances[provider_id("n")] = Instance(provider_id("n"))
        await run.put(claim(annotations=expiring("2030-01-01T00:00:00Z")))
        await run.delete("NodeClaim")
        await run.pass_time(30)

        assert [("a", 1)] == run.deletions


@pytest.mark.case("DIS-87")
@in_virtual_time
async def test_a_pod_that_goes_too_late_is_told_again() -> None:
    async with leaving(claim(period="300s"), node(), pod(grace=600)) as run:
        await run.delete("Pod", "a")
        await run.delete("NodeClaim")
        await run.pass_time(10)

        assert [("a", 299)] == run.deletions or [("a", 300)] == run.deletions
        stored = await run.bench.client.get("v1", "Pod", "default", "a")
        assert stored["metadata"]["deletionTimestamp"] <= "2030-01-01T00:05:00Z"


@pytest.mark.case("DIS-88")
@in_virtual_time
async def test_a_tier_that_is_held_does_not_hold_who_has_no_time_left() -> None:
    pods = [pod("app"), pod("critical", critical=True, grace=600, app="other")]
    async with leaving(claim(period="300s"), node(), budget(), *pods) as run:
        await run.delete("NodeClaim")
        await run.pass_time(2)

        assert ["critical"] == [name for name, _ in run.deletions]
        assert {"app"} == set(run.evictions)
        assert run.has_pod("app")


@pytest.mark.case("DIS-91")
@in_virtual_time
async def test_a_pod_that_does_not_go_is_waited_for_a_minute_past_its_time() -> None:
    async with leaving(claim(), node(), pod(grace=30)) as run:
        await run.delete("NodeClaim")
        await run.pass_time(89)
        assert ("Unknown", "Draining") == run.condition("Drained")

        await run.until(lambda: not run.has_node(), seconds=10)

        assert run.has_pod("a")


@pytest.mark.case("DIS-92")
@in_virtual_time
async def test_a_machine_waits_until_its_volumes_are_detached() -> None:
    async with leaving(claim(), node(), *bound_volume("data")) as run:
        await run.delete("NodeClaim")
        await run.pass_time(60)
        assert ("True", "Drained") == run.condition("Drained")
        assert ("Unknown", "AwaitingVolumeDetachment") == run.condition("VolumesDetached")
        assert ("Node", "AwaitingVolumeDetachment") in run.reasons
        assert [] == run.cloud.calls_of("delete")

        await run.bench.client.delete(
            "storage.k8s.io/v1", "VolumeAttachment", None, "attached-data"
        )
        await run.pass_time(0.1)

        assert ("True", "VolumesDetached") == run.condition("VolumesDetached")
        assert ["n"] == run.cloud.calls_of("delete")


@pytest.mark.case("DIS-93")
@in_virtual_time
async def test_the_volume_of_a_pod_that_stays_is_not_waited_for() -> None:
    stays = pod(tolerations=STAYS, claims=["data"])
    async with leaving(claim(), node(), stays, *bound_volume("data")) as run:
        await run.delete("NodeClaim")
        await run.until(lambda: not run.has_node())

        assert run.has_pod("a")


@pytest.mark.case("DIS-94")
@in_virtual_time
async def test_after_the_deadline_volumes_are_not_waited_for() -> None:
    async with leaving(claim(period="60s"), node(), *bound_volume("data"), gone_after=3) as run:
        await run.delete("NodeClaim")
        await run.pass_time(59)
        assert ("Unknown", "AwaitingVolumeDetachment") == run.condition("VolumesDetached")

        await run.pass_time(3)

        expected = ("False", "TerminationGracePeriodElapsed")
        assert expected == run.condition("VolumesDetached")
        assert ["n"] == run.cloud.calls_of("delete")
        await run.until(lambda: not run.has_claim())


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        pytest.param("Drifted", "Drifted", id="DIS-95 during a drift command"),
        pytest.param("", "Forceful Termination", id="DIS-96 after a manual deletion"),
    ],
)
def test_evictions_are_counted_by_their_cause(told: str, reason: str) -> None:
    @in_virtual_time
    async def run_it() -> None:
        async with leaving(claim(reason=told), node(), pod()) as run:
            await run.delete("Node")
            await run.pass_time(2)

            assert 1 == run.counted("pods_drained_total", reason=reason)
            heard = [e.message for e in run.bench.events.heard if e.reason == "Evicted"]
            assert [f"Evicted pod: {reason}"] == heard

    run_it()


@in_virtual_time
async def test_a_deadline_that_cannot_be_read_stops_the_node_until_it_is_mended() -> None:
    async with leaving(claim(annotations=expiring("soon")), node(), pod()) as run:
        await run.delete("Node")
        await run.pass_time(60)
        assert [] == run.evictions
        assert [] == taints_of(await run.bench.client.get("v1", "Node", None, "n"))

        mended = timestamp(run.clock.now() + timedelta(hours=1))
        annotations = {"metadata": {"annotations": {TERMINATION_TIMESTAMP: mended}}}
        await run.change("karpenter.sh/v1", "NodeClaim", "n", annotations)
        await run.pass_time(2)

        assert ["a"] == run.evictions


@in_virtual_time
async def test_how_far_a_node_has_come_is_seen_even_if_the_cloud_fails() -> None:
    async with leaving(claim(), node()) as run:
        run.cloud.failures["delete"] = [RuntimeError("throttled") for _ in range(5)]
        await run.delete("NodeClaim")
        await run.pass_time(6)

        assert ("True", "Drained") == run.condition("Drained")
        assert ("True", "VolumesDetached") == run.condition("VolumesDetached")
        assert run.condition("InstanceTerminating") is None
        assert 1 == run.counted("nodes_drained_total", nodepool="np")

        await run.until(lambda: not run.has_claim())

        assert 1 == run.counted("nodes_drained_total", nodepool="np")


@in_virtual_time
async def test_nothing_is_written_while_nothing_changes() -> None:
    async with leaving(claim(), node(), pod(held="true")) as run:
        await run.delete("NodeClaim")
        await run.pass_time(10)
        before = len(run.transport.writes)
        await run.pass_time(600)

        assert before == len(run.transport.writes)


@in_virtual_time
async def test_a_node_whose_class_label_comes_late_is_seen_off_then() -> None:
    async with leaving(claim(), node(labels={})) as run:
        await run.delete("Node")
        await run.pass_time(60)
        assert run.has_node()

        await run.change("v1", "Node", "n", {"metadata": {"labels": {CLASS_LABEL: "default"}}})
        await run.until(lambda: not run.has_node())

        assert {} == run.cloud.instances


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({"/nodes/n": [refusal(409), refusal(409)]}, id="closing conflicts"),
        pytest.param({"/nodeclaims/n/status": [refusal(409)] * 3}, id="conditions conflict"),
        pytest.param({"/nodes/n": [refusal(500)]}, id="the server fails"),
        pytest.param({"/nodeclaims/n": [refusal(503)]}, id="the claim cannot be deleted at first"),
        pytest.param({"/eviction": [refusal(502)] * 4}, id="the pod cannot be evicted at first"),
    ],
)
def test_a_refused_write_delays_but_changes_nothing(answers: dict[str, list[Response]]) -> None:
    @in_virtual_time
    async def run_it() -> None:
        async with leaving(claim(), node(), pod(), answers=answers) as run:
            await run.delete("Node")
            for _ in range(20):
                await run.pass_time(1)
                await run.reap()
            await run.until(lambda: not run.has_claim() and not run.has_node())

            assert {} == run.cloud.instances
            assert not run.has_pod("a")

    run_it()
