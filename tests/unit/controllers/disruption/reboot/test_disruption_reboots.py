"""A machine that is to be restarted is closed, drained, restarted and watched until it is back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench, run_in_background
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.manifests import condition
from helpers.provisioning import FACTS, Triggers, waiting_pod
from karpenter.api.karpenter import NodeClaim
from karpenter.api.pods import Pod
from karpenter.clock import run_virtual
from karpenter.cloud.provider import (
    CloudError,
    InstanceNotFoundError,
    RebootFailedError,
    RebootNotImplementedError,
)
from karpenter.controllers.disruption.reboot.controller import RebootController
from karpenter.controllers.lifecycle.lifecycle import LifecycleController
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.provisioner import Provisioner
from karpenter.controllers.termination.claims import ClaimFinalizer
from karpenter.controllers.termination.eviction_queue import EvictionQueue
from karpenter.model import labels
from karpenter.model.conditions import find
from karpenter.runtime import Runnable
from unit.controllers.disruption.disruption_bench import (
    V1,
    later,
    machine,
    pdb,
    pool,
    running,
    true,
)

PROTECTED = {labels.DO_NOT_DISRUPT: "true"}
GRACE = labels.REBOOT_GRACE_PERIOD
BOOT = labels.REBOOT_PRE_BOOT_ID


class ThrottledError(CloudError):
    """Something that may work another time."""


class Health:
    """Nobody keeps a record of registrations here."""

    async def succeeded(self, claim: NodeClaim) -> None:
        return

    async def failed(self, claim: NodeClaim, reason: str, message: str) -> None:
        return


class Reboots:
    """A machine whose restart was asked for, and the controllers that see to it."""

    def __init__(self, bench_: Bench, evictions: EvictionQueue) -> None:
        self.bench = bench_
        self.clock = bench_.clock
        self.cloud = bench_.cloud
        self.evictions = evictions

    @property
    def claim(self) -> NodeClaim:
        return self.bench.claim("n1-claim")

    @property
    def is_going(self) -> bool:
        return self.claim.metadata.deletion_timestamp is not None

    @property
    def calls(self) -> list[str]:
        return self.cloud.calls_of("reboot")

    def condition(self, kind: str = "Rebooting") -> tuple[str, str]:
        found = find(self.claim.status.conditions, kind)
        return (found.status, found.reason) if found is not None else ("", "")

    def is_closed(self) -> bool:
        return any(t.key == labels.REBOOTING for t in self.bench.node("n1").spec.taints)

    def count(self, result: str) -> float:
        registry = self.bench.world.metrics.registry
        name = "karpenter_nodes_reboots_total"
        return registry.get_sample_value(name, {"result": result}) or 0.0

    async def boot(self, boot_id: str = "boot-2", *, ready: str = "True") -> None:
        """Let the machine come back."""
        status: JsonObject = {"conditions": [{"type": "Ready", "status": ready}]}
        status["nodeInfo"] = {"bootID": boot_id}
        await self.bench.change("v1", "Node", "n1", {"status": status}, subresource="status")

    def pod(self, name: str) -> Pod | None:
        return self.bench.world.mirror(Pod).get(name, "default")

    def told(self, reason: str) -> list[str]:
        return [event.message for event in self.bench.events.heard if event.reason == reason]


def requested(
    *, grace: str = "", boot: str = "", issued: bool = False, period: str | None = None
) -> tuple[JsonObject, JsonObject]:
    held = {GRACE: grace} if grace else {}
    held |= {BOOT: boot} if boot else {}
    told = [
        true("Rebooting", "RebootIssued" if issued else "RebootRequested"),
        true("DisruptionReason", "Unhealthy"),
    ]
    if issued:
        told.append(condition("Initialized", "Unknown", "Rebooting"))
    return machine("n1", conditions=told, claim_annotations=held, period=period)


@asynccontextmanager
async def rebooting(
    *objects: JsonObject | tuple[JsonObject, JsonObject],
    failures: list[Exception] | None = None,
    with_lifecycle: bool = False,
) -> AsyncIterator[Reboots]:
    cloud = FakeCloud(facts=FACTS, types=TYPES)
    cloud.failures["reboot"] = list(failures or ())
    async with bench(cloud=cloud) as at_work:
        for obj in objects:
            for each in obj if isinstance(obj, tuple) else (obj,):
                await at_work.put(each)
                if each["kind"] == "Node":
                    taints = {"spec": {"taints": each["spec"]["taints"]}}
                    await at_work.change("v1", "Node", each["metadata"]["name"], taints)
        world = at_work.world
        evictions = EvictionQueue(world)
        controllers: list[Runnable] = [RebootController(world, evictions), evictions]
        if with_lifecycle:
            controllers.append(
                LifecycleController(
                    world, ClaimFinalizer(world), Health(), PlannedPods(), Remover(world)
                )
            )
        task = run_in_background(controllers)
        try:
            yield Reboots(at_work, evictions)
            if task.done():
                await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class TestAsking:
    @pytest.mark.case("V15-D27")
    @in_virtual_time
    async def test_an_empty_machine_is_restarted_after_five_seconds(self) -> None:
        async with rebooting(requested()) as found:
            await found.clock.sleep(1)

            assert found.is_closed()

            await found.clock.sleep(3.5)
            before = len(found.calls)
            await found.clock.sleep(1)

            assert (0, 1) == (before, len(found.calls))
            assert ("True", "RebootIssued") == found.condition()
            assert ("Unknown", "Rebooting") == found.condition("Initialized")
            assert labels.INITIALIZED not in found.bench.node("n1").metadata.labels
            assert "boot-1" == found.claim.metadata.annotations[BOOT]

    @in_virtual_time
    async def test_the_restart_has_a_name_of_its_own(self) -> None:
        async with rebooting(requested(grace="0s")) as found:
            await found.clock.sleep(1)

            uid = found.claim.metadata.uid
            # 2030-01-01T00:00:00Z in nanoseconds
            assert [f"{uid}-1893456000000000000-boot-1"] == found.calls

    @pytest.mark.case("V15-D28")
    @in_virtual_time
    async def test_without_a_grace_period_nobody_is_asked_to_leave(self) -> None:
        async with rebooting(requested(grace="0s"), running("a", "n1")) as found:
            await found.clock.sleep(1)

            assert 1 == len(found.calls)
            stays = found.pod("a")
            assert stays is not None
            assert stays.metadata.deletion_timestamp is None

    @pytest.mark.case("V15-D29")
    @in_virtual_time
    async def test_who_does_not_leave_in_time_rides_the_restart(self) -> None:
        held = running("held", "n1", app="held")
        protected = running("kept", "n1", annotations=PROTECTED)
        objects = (requested(grace="1m"), pdb(app="held"), held, protected)
        async with rebooting(*objects) as found:
            await found.clock.sleep(59)
            before = len(found.calls)
            await found.clock.sleep(3)

            assert (0, 1) == (before, len(found.calls))
            for name in ("held", "kept"):
                stays = found.pod(name)
                assert stays is not None
                assert stays.metadata.deletion_timestamp is None

            await found.clock.sleep(20)
            pods = [found.pod(name) for name in ("held", "kept")]
            assert [False, False] == [pod in found.evictions for pod in pods if pod is not None]

    @in_virtual_time
    async def test_pods_that_may_leave_are_evicted_and_waited_for(self) -> None:
        async with rebooting(requested(), running("a", "n1")) as found:
            await found.clock.sleep(60)
            leaving = found.pod("a")

            assert leaving is not None
            assert leaving.metadata.deletion_timestamp is not None
            assert [] == found.calls

            client = found.bench.client
            await client.delete("v1", "Pod", "default", "a", grace_period=0)
            await found.clock.sleep(2)

            assert 1 == len(found.calls)
            drained = found.bench.world.metrics.pods_drained_total
            assert 1 == drained.labels(reason="Unhealthy")._value.get()

    @pytest.mark.case("V15-D30")
    @in_virtual_time
    async def test_a_machine_that_has_restarted_is_not_asked_to_again(self) -> None:
        claim, node = requested(boot="boot-1")
        node["status"]["nodeInfo"]["bootID"] = "boot-2"
        async with rebooting((claim, node)) as found:
            await found.clock.sleep(1)

            assert [] == found.calls
            assert ("False", "RebootSucceeded") == found.condition()

    @in_virtual_time
    async def test_a_restart_that_was_begun_goes_on_without_draining_again(self) -> None:
        async with rebooting(requested(boot="boot-1"), running("a", "n1")) as found:
            await found.clock.sleep(1)

            assert 1 == len(found.calls)
            assert ("True", "RebootIssued") == found.condition()

    @in_virtual_time
    async def test_nobody_is_restarted_who_did_not_ask(self) -> None:
        async with rebooting(machine("n1")) as found:
            await found.clock.sleep(60)

            assert [] == found.calls
            assert not found.is_closed()


class TestRefusals:
    @pytest.mark.case("V15-D31")
    @in_virtual_time
    async def test_what_may_work_another_time_is_tried_again(self) -> None:
        failures: list[Exception] = [ThrottledError("slow down")] * 3
        async with rebooting(requested(grace="0s"), failures=failures) as found:
            await found.clock.sleep(5)

            assert 4 == len(found.calls)
            assert 1 == len(set(found.calls))
            assert ("True", "RebootIssued") == found.condition()

    @pytest.mark.case("V15-D31")
    @pytest.mark.parametrize(
        ("failure", "said"),
        [
            pytest.param(
                RebootNotImplementedError(),
                "reboot not implemented by the cloud provider",
                id="not implemented",
            ),
            pytest.param(
                RebootFailedError("never"),
                "reboot rejected by the cloud provider: never",
                id="refused for good",
            ),
            pytest.param(
                InstanceNotFoundError("gone"),
                "reboot rejected by the cloud provider: gone",
                id="not found",
            ),
        ],
    )
    def test_a_restart_that_will_never_happen(self, failure: Exception, said: str) -> None:
        async def scene() -> None:
            async with rebooting(requested(grace="0s"), failures=[failure]) as found:
                await found.clock.sleep(1)

                assert found.is_going
                assert not found.is_closed()
                assert 1 == found.count("provider_error")
                assert [True] == [each.startswith(said) for each in found.told("RebootFailed")]

        run_virtual(scene())

    @pytest.mark.case("V15-D32")
    @in_virtual_time
    async def test_a_cloud_that_is_busy_for_five_minutes_is_given_up(self) -> None:
        failures: list[Exception] = [ThrottledError("slow down")] * 100
        async with rebooting(requested(grace="0s"), failures=failures) as found:
            await found.clock.sleep(290)
            before = found.is_going
            await found.clock.sleep(80)

            assert (False, True) == (before, found.is_going)
            assert 1 == found.count("provider_error")
            said = "reboot was not issued within the issuance timeout"
            assert [said] == found.told("RebootFailed")

    @pytest.mark.case("V15-D35")
    @pytest.mark.parametrize("text", ["banana", "-1m"])
    def test_a_grace_period_nobody_understands_ends_the_restart_only(self, text: str) -> None:
        async def scene() -> None:
            claim, node = requested(grace=text, boot="boot-1")
            node["spec"]["taints"] = [{"key": labels.REBOOTING, "effect": "NoSchedule"}]
            async with rebooting((claim, node)) as found:
                await found.clock.sleep(1)

                assert ("False", "RebootFailed") == found.condition()
                assert (False, False) == (found.is_going, found.is_closed())
                assert BOOT not in found.claim.metadata.annotations
                assert 1 == found.count("invalid_request")
                (said,) = found.told("RebootFailed")
                assert said.startswith("invalid reboot request: ")
                assert [] == found.calls

        run_virtual(scene())

    @pytest.mark.parametrize(("issued", "minutes"), [(False, 5), (True, 20)])
    @in_virtual_time
    async def test_a_node_that_is_not_there_is_waited_for(self, issued: bool, minutes: int) -> None:
        async with rebooting(requested(issued=issued)[0]) as found:
            await found.clock.sleep(60 * minutes - 10)
            before = found.is_going
            await found.clock.sleep(30)

            assert (False, True) == (before, found.is_going)


class TestComingBack:
    @pytest.mark.case("V15-D33")
    @in_virtual_time
    async def test_a_machine_that_is_back_takes_pods_again(self) -> None:
        async with rebooting(requested(grace="0s"), with_lifecycle=True) as found:
            await found.clock.sleep(2)
            await found.boot(ready="False")
            await found.clock.sleep(1)

            assert not found.is_closed()
            said = "New boot observed (bootID changed); awaiting node readiness"
            assert {said} == set(found.told("RebootObserved"))
            assert ("True", "RebootIssued") == found.condition()

            await found.boot(ready="True")
            await found.clock.sleep(16)

            assert ("False", "RebootSucceeded") == found.condition()
            assert ("True", "Initialized") == found.condition("Initialized")
            assert "true" == found.bench.node("n1").metadata.labels[labels.INITIALIZED]
            assert BOOT not in found.claim.metadata.annotations
            assert 1 == found.count("succeeded")
            registry = found.bench.world.metrics.registry
            name = "karpenter_nodes_reboot_recovery_duration_seconds_count"
            assert 1 == registry.get_sample_value(name)

    @in_virtual_time
    async def test_while_it_restarts_its_initialization_is_not_looked_at(self) -> None:
        async with rebooting(requested(grace="0s"), with_lifecycle=True) as found:
            await found.clock.sleep(30)

            assert ("Unknown", "Rebooting") == found.condition("Initialized")

    @pytest.mark.case("V15-D34")
    @in_virtual_time
    async def test_one_that_does_not_come_back_is_removed(self) -> None:
        async with rebooting(requested(grace="5m", issued=True, boot="boot-1")) as found:
            await found.clock.sleep(1190)
            before = found.is_going
            await found.clock.sleep(15)

            assert (False, True) == (before, found.is_going)
            assert ("True", "RebootIssued") == found.condition()
            deadline = found.claim.metadata.annotations[labels.TERMINATION_TIMESTAMP]
            assert later(1200 + 300) == deadline
            assert 1 == found.count("recovery_timeout")
            said = "node did not recover within the observation window"
            assert [said] == found.told("RebootFailed")

    @pytest.mark.case("V15-D34")
    @in_virtual_time
    async def test_one_that_was_never_initialized_has_as_long_to_come_back(self) -> None:
        claim, node = requested(grace="0s")
        never = condition("Initialized", "Unknown", "NodeNotReady", since=-7200)
        kept = [c for c in claim["status"]["conditions"] if c["type"] != "Initialized"]
        claim["status"]["conditions"] = [*kept, never]
        async with rebooting((claim, node)) as found:
            await found.clock.sleep(1190)
            before = found.is_going
            await found.clock.sleep(15)

            assert 1 == len(found.calls)
            assert (False, True) == (before, found.is_going)

    @pytest.mark.case("V15-D34")
    @in_virtual_time
    async def test_an_earlier_deadline_is_kept(self) -> None:
        claim, node = requested(grace="5m", issued=True, boot="boot-1")
        claim["metadata"]["annotations"][labels.TERMINATION_TIMESTAMP] = later(1000)
        async with rebooting((claim, node)) as found:
            await found.clock.sleep(1230)

            deadline = found.claim.metadata.annotations[labels.TERMINATION_TIMESTAMP]
            assert later(1000) == deadline

    @pytest.mark.case("V15-D36")
    @in_virtual_time
    async def test_pods_that_left_are_planned_back_onto_the_machine(self) -> None:
        objects = (pool(), requested(issued=True, boot="boot-1"), waiting_pod("w", cpu="500m"))
        async with rebooting(*objects) as found:
            await found.clock.sleep(1)
            provisioner = Provisioner(found.bench.world, _batcher(), PlannedPods())
            made = await provisioner.provision()

            assert () == made

    @in_virtual_time
    async def test_a_claim_that_is_deleted_meanwhile_is_left_to_others(self) -> None:
        async with rebooting(requested()) as found:
            await found.clock.sleep(1)
            await found.bench.client.delete(V1, "NodeClaim", None, "n1-claim")
            await found.clock.sleep(60)

            assert [] == found.calls


def _batcher() -> Any:
    return Triggers()
