"""Simulated kubelets: nodes become ready and stay so, pods run and end, and things go wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from helpers.clusters import ClusterHandle, in_virtual_time, running
from helpers.scheduler_bench import node as plain_node
from karpenter.clock import EPOCH, running_clock
from karpenter_sandbox.backend import Backend, Identity, timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.kubelet.faults import (
    BOOT_DELAY,
    EXIT_CODE,
    FAULT,
    FAULT_AFTER,
    RUN_DURATION,
    SHUTDOWN_DELAY,
    SIMULATED,
    START_DELAY,
    Fault,
    Timing,
    declared_fault,
    seconds,
)
from karpenter_sandbox.kubelet.kubelet import LEASE_NAMESPACE, add_kubelets
from karpenter_sandbox.kubelet.machines import Machines
from karpenter_sandbox.runtime.runtime import Runtime
from karpenter_sandbox.status import ApiError
from karpenter_sandbox.store.store import Store

Json = dict[str, Any]

LOST = {"type": "Ready", "status": "False"}  # as the node lifecycle controller writes it


def node(name: str = "a", **annotations: str) -> Json:
    obj = plain_node(name)
    obj["metadata"]["annotations"] = {SIMULATED: "fake", **annotations}
    return obj


def pod(name: str = "p", *, on: str = "a", metadata: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "nodeName": on, **spec},
    }


def annotated(**annotations: str) -> Json:
    return {"annotations": annotations}


class Machinery(ClusterHandle):
    """A cluster with simulated kubelets and nothing else."""

    machines: Machines

    async def condition(self, name: str, kind: str = "Ready", *, of: str = "Node") -> str:
        """Status and reason of a condition."""
        found = find_condition(await self.get("v1", of, name), kind)
        return f"{found['status']} {found.get('reason', '')}".strip() if found else ""

    async def phase(self, name: str = "p") -> str:
        found: str = (await self.get("v1", "Pod", name))["status"]["phase"]
        return found

    async def renewed(self, name: str = "a") -> str:
        """When the lease of a node was renewed."""
        lease = await self.get("coordination.k8s.io/v1", "Lease", name, LEASE_NAMESPACE)
        found: str = lease["spec"]["renewTime"]
        return found

    async def is_there(self, kind: str, name: str) -> bool:
        try:
            await self.get("v1", kind, name)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    async def annotate(self, kind: str, name: str, **annotations: str | None) -> None:
        await self.change("v1", kind, name, {"metadata": {"annotations": annotations}})


@asynccontextmanager
async def machinery(*objects: Json, timing: Timing | None = None) -> AsyncIterator[Machinery]:
    clock = running_clock()
    client = Client(Backend(Store(), Registry(), clock, Identity(1)))
    for name in ("default", LEASE_NAMESPACE):
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    runtime = Runtime(client, clock, is_strict=True)
    world = Machinery(client, clock)
    world.machines = add_kubelets(runtime, client, Machines(timing))
    async with running(runtime.run()):
        await runtime.started.wait()
        for obj in objects:
            await client.create(obj)
        await world.settle()
        yield world


class TestNodes:
    @in_virtual_time
    async def test_a_simulated_node_becomes_ready(self) -> None:
        async with machinery(node()) as world:
            conditions = {
                kind: await world.condition("a", kind)
                for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
            }

            assert {
                "Ready": "True KubeletReady",
                "MemoryPressure": "False KubeletHasSufficientMemory",
                "DiskPressure": "False KubeletHasNoDiskPressure",
                "PIDPressure": "False KubeletHasSufficientPID",
            } == conditions

    @in_virtual_time
    async def test_a_node_that_is_not_simulated_is_left_alone(self) -> None:
        async with machinery(plain_node("a")) as world:
            await world.pass_time(60)

            assert await world.condition("a") == ""

    @in_virtual_time
    async def test_a_node_says_what_machine_it_is(self) -> None:
        obj = node()
        obj["metadata"]["labels"] |= {"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux"}
        async with machinery(obj) as world:
            status = (await world.get("v1", "Node", "a"))["status"]

            assert ("arm64", "linux") == (
                status["nodeInfo"]["architecture"],
                status["nodeInfo"]["operatingSystem"],
            )
            assert status["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
            assert status["nodeInfo"]["kubeletVersion"].startswith("v1.")
            assert ["172.18.0.1", "a"] == [a["address"] for a in status["addresses"]]
            assert 10250 == status["daemonEndpoints"]["kubeletEndpoint"]["Port"]

    @in_virtual_time
    async def test_the_size_of_a_node_is_kept(self) -> None:
        obj = node()
        before = dict(obj["status"]["allocatable"])
        async with machinery(obj) as world:
            assert before == (await world.get("v1", "Node", "a"))["status"]["allocatable"]

    @in_virtual_time
    async def test_a_node_without_a_size_gets_the_one_of_kwok(self) -> None:
        obj = node()
        del obj["status"]
        async with machinery(obj) as world:
            status = (await world.get("v1", "Node", "a"))["status"]

            assert {"cpu": "1k", "memory": "1Ti", "pods": "1M"} == status["capacity"]

    @in_virtual_time
    async def test_every_node_has_its_own_address(self) -> None:
        async with machinery(node("a"), node("b"), node("c")) as world:
            nodes = await world.objects("v1", "Node")
            addresses = {obj["status"]["addresses"][0]["address"] for obj in nodes}

            assert 3 == len(addresses)

    @in_virtual_time
    async def test_booting_takes_as_long_as_declared(self) -> None:
        async with machinery(node(**{BOOT_DELAY: "90s"})) as world:
            await world.pass_time(59)
            nothing = await world.condition("a")
            await world.pass_time(1)
            joined = await world.condition("a")
            await world.pass_time(29)
            before = await world.condition("a")
            await world.pass_time(1)

            assert ("", "False KubeletNotReady") == (nothing, joined)
            assert (joined, "True KubeletReady") == (before, await world.condition("a"))

    @in_virtual_time
    async def test_a_machine_that_never_boots_says_nothing(self) -> None:
        silent = node(**{BOOT_DELAY: "90s", FAULT: "never-boots"})
        async with machinery(silent) as world:
            await world.pass_time(200)

            assert "" == await world.condition("a")

    @in_virtual_time
    async def test_nodes_get_their_region_and_the_labels_of_old(self) -> None:
        here = node()
        here["metadata"]["labels"] = {
            "kubernetes.io/arch": "arm64",
            "topology.kubernetes.io/zone": "zone-1",
            "beta.kubernetes.io/os": "windows",
        }
        async with machinery(here) as world:
            labels = (await world.get("v1", "Node", "a"))["metadata"]["labels"]

            assert {
                "beta.kubernetes.io/arch": "arm64",
                "beta.kubernetes.io/os": "windows",
                "failure-domain.beta.kubernetes.io/region": "sandbox",
                "failure-domain.beta.kubernetes.io/zone": "zone-1",
                "kubernetes.io/arch": "arm64",
                "topology.kubernetes.io/region": "sandbox",
                "topology.kubernetes.io/zone": "zone-1",
            } == labels

    @in_virtual_time
    async def test_booting_takes_as_long_as_all_machines_take(self) -> None:
        async with machinery(node(), timing=Timing(boot=30)) as world:
            await world.pass_time(29)
            before = await world.condition("a")
            await world.pass_time(1)

            assert "False KubeletNotReady" == before
            assert "True KubeletReady" == await world.condition("a")

    @in_virtual_time
    async def test_the_lease_is_renewed_every_ten_seconds(self) -> None:
        async with machinery(node()) as world:
            first = await world.renewed()
            await world.pass_time(25)
            lease = await world.get("coordination.k8s.io/v1", "Lease", "a", LEASE_NAMESPACE)

            assert ("2030-01-01T00:00:00.000000Z", "2030-01-01T00:00:20.000000Z") == (
                first,
                lease["spec"]["renewTime"],
            )
            assert ("a", 40) == (
                lease["spec"]["holderIdentity"],
                lease["spec"]["leaseDurationSeconds"],
            )
            assert "Node" == lease["metadata"]["ownerReferences"][0]["kind"]

    @in_virtual_time
    async def test_a_status_that_is_right_is_repeated_every_five_minutes(self) -> None:
        async with machinery(node()) as world:

            async def beat() -> str:
                ready = find_condition(await world.get("v1", "Node", "a"), "Ready")
                assert ready is not None
                found: str = ready["lastHeartbeatTime"]
                return found

            await world.pass_time(290)
            before = await beat()
            await world.pass_time(15)

            assert (timestamp(EPOCH), timestamp(EPOCH + timedelta(minutes=5))) == (
                before,
                await beat(),
            )

    @in_virtual_time
    async def test_what_others_write_is_corrected_within_ten_seconds(self) -> None:
        async with machinery(node()) as world:
            wrong = {"type": "Ready", "status": "False", "reason": "Somebody"}
            await world.client.patch_status("v1", "nodes", None, "a", {"conditions": [wrong]})
            await world.settle()
            before = await world.condition("a")
            await world.pass_time(10)

            assert ("False Somebody", "True KubeletReady") == (before, await world.condition("a"))


class TestFaults:
    @pytest.mark.parametrize(
        ("fault", "kind", "expected"),
        [
            (Fault.NOT_READY, "Ready", "False KubeletNotReady"),
            (Fault.DISK_PRESSURE, "DiskPressure", "True KubeletHasDiskPressure"),
            (Fault.MEMORY_PRESSURE, "MemoryPressure", "True KubeletHasInsufficientMemory"),
            (Fault.PID_PRESSURE, "PIDPressure", "True KubeletHasInsufficientPID"),
        ],
    )
    def test_a_declared_fault_shows_and_goes(self, fault: Fault, kind: str, expected: str) -> None:
        @in_virtual_time
        async def check() -> None:
            async with machinery(node()) as world:
                healthy = await world.condition("a", kind)
                await world.annotate("Node", "a", **{FAULT: fault.value})
                await world.settle()
                ill = await world.condition("a", kind)
                await world.annotate("Node", "a", **{FAULT: None})
                await world.settle()

                assert (expected, healthy) == (ill, await world.condition("a", kind))

        check()

    @in_virtual_time
    async def test_a_node_that_is_not_ready_goes_on_renewing_its_lease(self) -> None:
        async with machinery(node(**{FAULT: "not-ready"})) as world:
            await world.pass_time(60)

            assert "2030-01-01T00:01:00.000000Z" == await world.renewed()

    @in_virtual_time
    async def test_an_unreachable_node_falls_silent_and_comes_back(self) -> None:
        async with machinery(node()) as world:
            await world.annotate("Node", "a", **{FAULT: "unreachable"})
            await world.pass_time(60)
            silent = await world.renewed()
            await world.annotate("Node", "a", **{FAULT: None})
            await world.settle()

            assert "2030-01-01T00:00:00.000000Z" == silent
            assert (await world.renewed()) > "2030-01-01T00:01:00"

    @in_virtual_time
    async def test_a_node_that_never_boots_says_nothing(self) -> None:
        async with machinery(node(**{FAULT: "never-boots"})) as world:
            await world.pass_time(3600)

            assert await world.condition("a") == ""

    @in_virtual_time
    async def test_a_machine_that_disappears_takes_its_node_along(self) -> None:
        async with machinery(node(**{FAULT: "disappears", FAULT_AFTER: "60s"})) as world:
            await world.pass_time(50)
            before = await world.is_there("Node", "a")
            await world.pass_time(20)

            assert (True, False) == (before, await world.is_there("Node", "a"))

    @in_virtual_time
    async def test_faults_can_be_injected_and_cleared(self) -> None:
        async with machinery(node()) as world:
            world.machines.inject("a", Fault.NOT_READY)
            await world.pass_time(10)
            ill = await world.condition("a")
            world.machines.clear("a")
            await world.pass_time(10)

            assert ("False KubeletNotReady", "True KubeletReady") == (
                ill,
                await world.condition("a"),
            )

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("not-ready", Fault.NOT_READY),
            (" disk-pressure ", Fault.DISK_PRESSURE),
            ("nonsense", None),
            ("nonsense,unreachable", Fault.UNREACHABLE),
            ("", None),
        ],
    )
    def test_faults_are_read_kindly(self, text: str, fault: Fault | None) -> None:
        assert fault == declared_fault(node(**{FAULT: text}))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("90s", 90.0),
            ("1m30s", 90.0),
            ("500ms", 0.5),
            ("7", 7.0),
            ("-3s", None),
            ("soon", None),
            ("", None),
        ],
    )
    def test_durations_are_read_kindly(self, text: str, expected: float | None) -> None:
        assert expected == seconds(node(**{BOOT_DELAY: text}), BOOT_DELAY)

    def test_the_first_duration_that_can_be_read_counts(self) -> None:
        obj = node(one="soon", two="5s", three="9s")

        assert 5.0 == seconds(obj, "one", "two", "three")


class TestPods:
    @in_virtual_time
    async def test_a_bound_pod_runs(self) -> None:
        async with machinery(node(), pod()) as world:
            status = (await world.get("v1", "Pod", "p"))["status"]
            (container,) = status["containerStatuses"]

            assert ("Running", "172.18.0.1", "10.244.0.1", timestamp(EPOCH)) == (
                status["phase"],
                status["hostIP"],
                status["podIP"],
                status["startTime"],
            )
            assert (True, True, 0) == (
                container["ready"],
                container["started"],
                container["restartCount"],
            )
            assert container["containerID"].startswith("containerd://")
            for kind in ("Ready", "ContainersReady", "Initialized", "PodScheduled"):
                assert await world.condition("p", kind, of="Pod") == "True"

    @in_virtual_time
    async def test_a_pod_waits_until_its_node_is_ready(self) -> None:
        async with machinery(node(**{BOOT_DELAY: "60s"}), pod()) as world:
            await world.pass_time(59)
            before = await world.phase()
            await world.pass_time(1.5)

            assert ("Pending", "Running") == (before, await world.phase())

    @in_virtual_time
    async def test_pods_of_other_nodes_are_left_alone(self) -> None:
        async with machinery(plain_node("real"), pod(on="real")) as world:
            await world.pass_time(60)

            assert await world.phase() == "Pending"

    @in_virtual_time
    async def test_every_pod_has_its_own_address(self) -> None:
        async with machinery(node(), *(pod(f"p{n}") for n in range(300))) as world:
            addresses = {obj["status"]["podIP"] for obj in await world.pods()}

            assert 300 == len(addresses)

    @in_virtual_time
    async def test_a_pod_on_the_host_network_has_the_address_of_its_node(self) -> None:
        async with machinery(node(), pod(hostNetwork=True)) as world:
            status = (await world.get("v1", "Pod", "p"))["status"]

            assert status["hostIP"] == status["podIP"]

    @in_virtual_time
    async def test_starting_takes_as_long_as_declared(self) -> None:
        async with machinery(node(), pod(metadata=annotated(**{START_DELAY: "20s"}))) as world:
            await world.pass_time(19)
            before = await world.phase()
            await world.pass_time(1)

            assert ("Pending", "Running") == (before, await world.phase())

    @in_virtual_time
    async def test_init_containers_are_over_and_sidecars_run(self) -> None:
        starting = [
            {"name": "setup", "image": "i"},
            {"name": "proxy", "image": "i", "restartPolicy": "Always"},
        ]
        async with machinery(node(), pod(initContainers=starting)) as world:
            status = (await world.get("v1", "Pod", "p"))["status"]
            states = [list(found["state"]) for found in status["initContainerStatuses"]]

            assert [["terminated"], ["running"]] == states

    @in_virtual_time
    async def test_a_pod_of_kwoks_unhealthy_stage_never_becomes_ready(self) -> None:
        labels = {"labels": {"kwok.x-k8s.io/stage": "unhealthy"}}
        async with machinery(node(), pod(metadata=labels)) as world:
            assert "Unknown" == await world.phase()
            assert (await world.condition("p", of="Pod")).startswith("False")

    @in_virtual_time
    async def test_a_pod_that_others_call_not_ready_is_ready_again_ten_seconds_later(self) -> None:
        async with machinery(node(), pod()) as world:
            await world.client.patch_status("v1", "pods", "default", "p", {"conditions": [LOST]})
            seen = []
            for seconds_later in (9, 2):
                await world.pass_time(seconds_later)
                seen.append(await world.condition("p", of="Pod"))

            assert ["False", "True"] == seen

    @in_virtual_time
    async def test_a_pod_is_ready_again_only_after_its_node_is(self) -> None:
        async with machinery(node(), pod()) as world:
            await world.annotate("Node", "a", **{FAULT: "not-ready"})
            await world.settle()
            await world.client.patch_status("v1", "pods", "default", "p", {"conditions": [LOST]})
            await world.pass_time(60)
            meanwhile = await world.condition("p", of="Pod")
            await world.annotate("Node", "a", **{FAULT: None})
            await world.pass_time(21)

            assert ("False", "True") == (meanwhile, await world.condition("p", of="Pod"))

    @in_virtual_time
    async def test_a_readiness_gate_is_waited_for(self) -> None:
        async with machinery(node(), pod(readinessGates=[{"conditionType": "lb"}])) as world:
            before = await world.condition("p", of="Pod")
            known = (await world.get("v1", "Pod", "p"))["status"]["conditions"]
            opened = [*known, {"type": "lb", "status": "True"}]
            await world.client.patch_status("v1", "pods", "default", "p", {"conditions": opened})
            await world.settle()

            assert ("False ReadinessGatesNotReady", "True") == (
                before,
                await world.condition("p", of="Pod"),
            )


class TestExit:
    JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}

    @in_virtual_time
    async def test_a_pod_of_a_job_succeeds_quickly(self) -> None:
        metadata = {"ownerReferences": [self.JOB]}
        async with machinery(node(), pod(metadata=metadata, restartPolicy="Never")) as world:
            await world.pass_time(2)
            obj = await world.get("v1", "Pod", "p")

            ended = obj["status"]["containerStatuses"][0]["state"]["terminated"]
            assert ("Succeeded", 0, "Completed") == (
                obj["status"]["phase"],
                ended["exitCode"],
                ended["reason"],
            )
            assert "False PodCompleted" == await world.condition("p", of="Pod")

    @in_virtual_time
    async def test_a_pod_runs_as_long_as_declared(self) -> None:
        metadata = {"ownerReferences": [self.JOB], **annotated(**{RUN_DURATION: "5m"})}
        async with machinery(node(), pod(metadata=metadata, restartPolicy="Never")) as world:
            await world.pass_time(299)
            before = await world.phase()
            await world.pass_time(1)

            assert ("Running", "Succeeded") == (before, await world.phase())

    @in_virtual_time
    async def test_an_exit_code_makes_it_a_failure(self) -> None:
        metadata = annotated(**{RUN_DURATION: "10s", EXIT_CODE: "3"})
        async with machinery(node(), pod(metadata=metadata, restartPolicy="Never")) as world:
            await world.pass_time(11)
            obj = await world.get("v1", "Pod", "p")

            ended = obj["status"]["containerStatuses"][0]["state"]["terminated"]
            assert ("Failed", 3, "Error") == (
                obj["status"]["phase"],
                ended["exitCode"],
                ended["reason"],
            )

    @pytest.mark.parametrize(
        ("policy", "code", "phase"),
        [
            ("OnFailure", "0", "Succeeded"),
            ("OnFailure", "1", "Running"),
            ("Always", "0", "Running"),
            ("Never", "1", "Failed"),
        ],
    )
    def test_the_restart_policy_decides(self, policy: str, code: str, phase: str) -> None:
        @in_virtual_time
        async def check() -> None:
            metadata = annotated(**{RUN_DURATION: "10s", EXIT_CODE: code})
            async with machinery(node(), pod(metadata=metadata, restartPolicy=policy)) as world:
                await world.pass_time(12)

                assert phase == await world.phase()

        check()

    @in_virtual_time
    async def test_restarts_wait_longer_each_time(self) -> None:
        metadata = annotated(**{RUN_DURATION: "10s", EXIT_CODE: "1"})
        async with machinery(node(), pod(metadata=metadata)) as world:

            async def look() -> tuple[int, str, bool]:
                obj = await world.get("v1", "Pod", "p")
                (container,) = obj["status"]["containerStatuses"]
                return container["restartCount"], next(iter(container["state"])), container["ready"]

            seen = []
            for moment in (5, 15, 22, 35, 45, 55):  # starts at 0, 10, 30 (20 + 10), 60 (40 + 20)
                await world.pass_time(EPOCH.timestamp() + moment - world.clock.now().timestamp())
                seen.append(await look())

            assert [
                (0, "running", True),
                (1, "running", True),
                (1, "waiting", False),
                (2, "running", True),
                (2, "waiting", False),
                (2, "waiting", False),
            ] == seen

    @in_virtual_time
    async def test_a_crashing_container_says_why_it_waits(self) -> None:
        metadata = annotated(**{RUN_DURATION: "10s", EXIT_CODE: "1"})
        async with machinery(node(), pod(metadata=metadata)) as world:
            await world.pass_time(22)
            (container,) = (await world.get("v1", "Pod", "p"))["status"]["containerStatuses"]

            assert {
                "reason": "CrashLoopBackOff",
                "message": "back-off 10s restarting failed container=main",
            } == container["state"]["waiting"]
            assert 1 == container["lastState"]["terminated"]["exitCode"]


class TestShutdown:
    async def delete(self, world: Machinery, grace: int | None = None) -> None:
        await world.client.delete("v1", "pods", "default", "p", grace_period=grace)

    @in_virtual_time
    async def test_a_pod_that_declares_nothing_goes_at_once(self) -> None:
        async with machinery(node(), pod()) as world:
            await self.delete(world)
            await world.settle()

            assert not await world.is_there("Pod", "p")

    @pytest.mark.parametrize(
        ("shutdown", "grace", "lasts"),
        [
            pytest.param("10s", 30, 10, id="as long as it needs"),
            pytest.param("60s", 30, 30, id="but no longer than its grace period"),
        ],
    )
    @pytest.mark.parametrize("annotation", [SHUTDOWN_DELAY, "pod-delete.stage.kwok.x-k8s.io/delay"])
    def test_a_pod_stays(self, annotation: str, shutdown: str, grace: int, lasts: int) -> None:
        @in_virtual_time
        async def check() -> None:
            metadata = annotated(**{annotation: shutdown})
            obj = pod(metadata=metadata, terminationGracePeriodSeconds=grace)
            async with machinery(node(), obj) as world:
                await self.delete(world)
                await world.pass_time(lasts - 1)
                before = await world.is_there("Pod", "p")
                await world.pass_time(1)

                assert (True, False) == (before, await world.is_there("Pod", "p"))

        check()

    @in_virtual_time
    async def test_a_finalizer_keeps_the_pod_but_it_has_ended(self) -> None:
        metadata = {"finalizers": ["example.com/keep"]}
        async with machinery(node(), pod(metadata=metadata)) as world:
            await self.delete(world)
            await world.pass_time(60)
            obj = await world.get("v1", "Pod", "p")
            version = obj["metadata"]["resourceVersion"]
            await world.pass_time(600)

            assert ("Succeeded", 0) == (
                obj["status"]["phase"],
                obj["metadata"]["deletionGracePeriodSeconds"],
            )
            later = await world.get("v1", "Pod", "p")
            assert version == later["metadata"]["resourceVersion"]

    @in_virtual_time
    async def test_a_pod_that_had_to_be_killed_has_failed(self) -> None:
        metadata = {"finalizers": ["example.com/keep"], **annotated(**{SHUTDOWN_DELAY: "1h"})}
        async with machinery(node(), pod(metadata=metadata)) as world:
            await self.delete(world)
            await world.pass_time(31)
            obj = await world.get("v1", "Pod", "p")

            ended = obj["status"]["containerStatuses"][0]["state"]["terminated"]
            assert ("Failed", 137) == (obj["status"]["phase"], ended["exitCode"])

    @in_virtual_time
    async def test_work_that_is_ended_early_has_failed(self) -> None:
        metadata = {"finalizers": ["example.com/keep"], **annotated(**{RUN_DURATION: "1h"})}
        async with machinery(node(), pod(metadata=metadata)) as world:
            await world.pass_time(60)
            await self.delete(world)
            await world.pass_time(60)
            obj = await world.get("v1", "Pod", "p")

            ended = obj["status"]["containerStatuses"][0]["state"]["terminated"]
            assert ("Failed", 143) == (obj["status"]["phase"], ended["exitCode"])

    @in_virtual_time
    async def test_an_unreachable_node_lets_nothing_end(self) -> None:
        async with machinery(node(), pod()) as world:
            world.machines.inject("a", Fault.UNREACHABLE)
            await self.delete(world)
            await world.pass_time(600)
            stuck = await world.is_there("Pod", "p")
            world.machines.clear("a")
            await world.pass_time(11)

            assert (True, False) == (stuck, await world.is_there("Pod", "p"))
