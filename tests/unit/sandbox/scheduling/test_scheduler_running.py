"""The scheduler at work on an API: pods are bound, told why not, and tried again in time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from helpers.clusters import ClusterHandle, in_virtual_time, running
from helpers.placing import labelled, pinned_to, required, spread, term
from helpers.scheduler_bench import ZONE, node, pod, taint
from karpenter.clock import run_virtual, running_clock
from karpenter_sandbox.backend import Backend, Identity
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.runtime.informer import Informer
from karpenter_sandbox.runtime.runtime import Runtime
from karpenter_sandbox.scheduling.scheduler import Scheduler
from karpenter_sandbox.scheduling.volumes import SELECTED_NODE
from karpenter_sandbox.store.store import Store

Json = dict[str, Any]

WEB = {"app": "web"}


class Place(ClusterHandle):
    """A cluster with a scheduler and nothing else."""

    async def add_node(self, obj: Json) -> None:
        """Create a node that has been found ready."""
        await self.client.create(obj)
        taints = obj["spec"].get("taints")
        await self.client.patch(
            "merge", "v1", "nodes", None, obj["metadata"]["name"], {"spec": {"taints": taints}}
        )

    async def add_pod(self, obj: Json) -> None:
        """Create a pod, whose priority is what a priority class would have given it."""
        priority = obj["spec"].pop("priority", 0)
        obj["metadata"].pop("uid")
        if priority:
            name = f"p{priority}"
            obj["spec"]["priorityClassName"] = name
            known = {
                c["metadata"]["name"]
                for c in await self.objects("scheduling.k8s.io/v1", "PriorityClass")
            }
            if name not in known:
                await self.client.create(
                    {
                        "apiVersion": "scheduling.k8s.io/v1",
                        "kind": "PriorityClass",
                        "metadata": {"name": name},
                        "value": priority,
                    }
                )
        await self.client.create(obj)

    async def place_of(self, name: str) -> str:
        """The node a pod is bound to."""
        found: str = (await self.get("v1", "Pod", name))["spec"].get("nodeName", "")
        return found

    async def told(self, name: str) -> tuple[str, str]:
        """Reason and message of a pod's PodScheduled condition."""
        condition = find_condition(await self.get("v1", "Pod", name), "PodScheduled") or {}
        return condition.get("reason", ""), condition.get("message", "")


@asynccontextmanager
async def place(*nodes: Json, seed: int = 0) -> AsyncIterator[Place]:
    clock = running_clock()
    client = Client(Backend(Store(), Registry(), clock, Identity(seed)))
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    runtime = Runtime(client, clock, is_strict=True)
    runtime.add(Scheduler(runtime, client, seed=seed))
    made = Place(client, clock)
    for obj in nodes:
        await made.add_node(obj)
    async with running(runtime.run()):
        await runtime.started.wait()
        yield made


class TestBinding:
    @in_virtual_time
    async def test_a_pod_is_bound_and_its_event_tells_where(self) -> None:
        async with place(node("a")) as world:
            await world.add_pod(pod("p"))
            await world.settle()

            assert await world.place_of("p") == "a"
            assert [("Scheduled", "Successfully assigned default/p to a")] == await world.events(
                "p"
            )

    @in_virtual_time
    async def test_the_event_is_of_the_newer_form(self) -> None:
        async with place(node("a")) as world:
            await world.add_pod(pod("p"))
            await world.settle()
            (event,) = await world.objects("v1", "Event")

            assert ("Normal", "Binding", "default-scheduler", None) == (
                event["type"],
                event["action"],
                event["reportingComponent"],
                event["firstTimestamp"],
            )

    @in_virtual_time
    async def test_pods_of_another_scheduler_are_left_alone(self) -> None:
        async with place(node("a")) as world:
            await world.add_pod(pod("p", schedulerName="mine"))
            await world.pass_time(600)

            assert ("", ("", "")) == (await world.place_of("p"), await world.told("p"))

    @in_virtual_time
    async def test_pods_there_before_the_scheduler_are_bound(self) -> None:
        clock = running_clock()
        client = Client(Backend(Store(), Registry(), clock, Identity(0)))
        world = Place(client, clock)
        await client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        )
        await world.add_node(node("a"))
        await world.add_pod(pod("p"))
        runtime = Runtime(client, clock, is_strict=True)
        runtime.add(Scheduler(runtime, client))
        async with running(runtime.run()):
            await world.settle()

            assert await world.place_of("p") == "a"

    @in_virtual_time
    async def test_pods_of_a_daemonset_reach_their_nodes(self) -> None:
        async with place(node("a"), node("b")) as world:
            for name in ("a", "b"):
                await world.add_pod(pod(f"d-{name}", affinity=pinned_to(name)))
            await world.settle()

            assert ["a", "b"] == [await world.place_of(f"d-{name}") for name in ("a", "b")]

    @in_virtual_time
    async def test_pods_of_a_replica_set_are_spread_over_nodes(self) -> None:
        async with place(*(node(f"n{i}", zone=f"z{i % 2}") for i in range(4))) as world:
            owner = await world.create(
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "metadata": {"name": "web", "namespace": "default"},
                    "spec": {
                        "replicas": 4,
                        "selector": labelled(app="web"),
                        "template": {
                            "metadata": {"labels": WEB},
                            "spec": {"containers": [{"name": "c", "image": "i"}]},
                        },
                    },
                }
            )
            reference = {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web",
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
            for number in range(4):
                metadata = {"ownerReferences": [reference]}
                await world.add_pod(pod(f"p{number}", labels=WEB, metadata=metadata))
            await world.settle()

            places = [await world.place_of(f"p{number}") for number in range(4)]
            assert ["n0", "n1", "n2", "n3"] == sorted(places)


class TestRefusal:
    @in_virtual_time
    async def test_condition_and_event_tell_why_a_pod_waits(self) -> None:
        async with place(node("a", cpu="1"), node("b", taints=[taint("x", "y")])) as world:
            await world.add_pod(pod("p", cpu="2"))
            await world.settle()

            message = (
                "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
                " no new claims to deallocate, preemption: 0/2 nodes are available:"
                " 2 Preemption is not helpful for scheduling."
            )
            assert ("Unschedulable", message) == await world.told("p")
            assert [("FailedScheduling", message)] == await world.events("p")

    @in_virtual_time
    async def test_nothing_is_written_again_while_nothing_changes(self) -> None:
        async with place(node("a", cpu="1")) as world:
            await world.add_pod(pod("p", cpu="2"))
            await world.settle()
            before = (await world.get("v1", "Pod", "p"))["metadata"]["resourceVersion"]
            await world.pass_time(3600)

            after = (await world.get("v1", "Pod", "p"))["metadata"]["resourceVersion"]
            assert before == after

    @in_virtual_time
    async def test_a_cluster_without_nodes_is_told_of(self) -> None:
        async with place() as world:
            await world.add_pod(pod("p"))
            await world.settle()

            assert ("Unschedulable", "no nodes available to schedule pods") == await world.told("p")

    @in_virtual_time
    async def test_gates_are_what_a_pod_waits_for(self) -> None:
        async with place(node("a")) as world:
            await world.add_pod(pod("p", schedulingGates=[{"name": "wait"}]))
            await world.pass_time(60)
            gated = await world.told("p")
            await world.change("v1", "Pod", "p", {"spec": {"schedulingGates": None}})
            await world.settle()

            reason = "Scheduling is blocked due to non-empty scheduling gates"
            assert ("SchedulingGated", reason) == gated
            assert await world.place_of("p") == "a"


class TestRetry:
    @in_virtual_time
    async def test_a_new_node_takes_the_pod_at_once(self) -> None:
        async with place(node("a", cpu="1")) as world:
            await world.add_pod(pod("p", cpu="2"))
            await world.pass_time(60)
            await world.add_node(node("b", cpu="4"))
            await world.settle()

            assert await world.place_of("p") == "b"

    @in_virtual_time
    async def test_a_taint_taken_away_lets_the_pod_in(self) -> None:
        async with place(node("a", taints=[taint("x")])) as world:
            await world.add_pod(pod("p"))
            await world.pass_time(60)
            await world.client.patch("merge", "v1", "nodes", None, "a", {"spec": {"taints": None}})
            await world.settle()

            assert await world.place_of("p") == "a"

    @in_virtual_time
    async def test_room_left_by_a_pod_is_taken(self) -> None:
        async with place(node("a", cpu="1")) as world:
            await world.add_pod(pod("first", cpu="1"))
            await world.settle()
            await world.add_pod(pod("second", cpu="1"))
            await world.pass_time(60)
            waiting = await world.place_of("second")
            await world.client.delete("v1", "pods", "default", "first", grace_period=0)
            await world.settle()

            assert ("", "a") == (waiting, await world.place_of("second"))

    @in_virtual_time
    async def test_a_finished_pod_takes_no_room(self) -> None:
        async with place(node("a", cpu="1")) as world:
            await world.add_pod(pod("first", cpu="1"))
            await world.settle()
            await world.add_pod(pod("second", cpu="1"))
            await world.pass_time(60)
            await world.finish(await world.get("v1", "Pod", "first"))
            await world.settle()

            assert await world.place_of("second") == "a"

    @in_virtual_time
    async def test_a_pod_wanted_near_arrives(self) -> None:
        async with place(node("a"), node("b")) as world:
            near = required("podAffinity", term(labelled(app="web")))
            await world.add_pod(pod("follower", affinity=near))
            await world.pass_time(60)
            await world.add_pod(pod("leader", labels=WEB))
            await world.settle()

            assert await world.place_of("leader") == await world.place_of("follower")

    @in_virtual_time
    async def test_a_pod_bound_by_somebody_else_is_no_longer_tried(self) -> None:
        async with place(node("a", cpu="1")) as world:
            await world.add_pod(pod("p", cpu="2"))
            await world.settle()
            await world.client.bind("default", "p", "a")
            await world.pass_time(600)

            assert [("FailedScheduling",)] == [(reason,) for reason, _ in await world.events("p")]


class TestPreemption:
    @in_virtual_time
    async def test_victims_leave_and_the_pod_takes_their_place(self) -> None:
        async with place(node("a", cpu="2")) as world:
            await world.add_pod(pod("low", cpu="2", terminationGracePeriodSeconds=30))
            await world.settle()
            await world.add_pod(pod("high", cpu="2", priority=100))
            await world.settle()
            victim = await world.get("v1", "Pod", "low")
            waiting = await world.get("v1", "Pod", "high")
            await world.client.delete("v1", "pods", "default", "low", grace_period=0)
            await world.pass_time(15)

            target = find_condition(victim, "DisruptionTarget") or {}
            assert "deletionTimestamp" in victim["metadata"]
            assert ("True", "PreemptionByScheduler") == (target["status"], target["reason"])
            assert "a" == waiting["status"]["nominatedNodeName"]
            assert await world.place_of("high") == "a"

    @in_virtual_time
    async def test_the_victims_event_names_who_came_instead(self) -> None:
        async with place(node("a", cpu="2")) as world:
            await world.add_pod(pod("low", cpu="2"))
            await world.settle()
            await world.add_pod(pod("high", cpu="2", priority=100))
            await world.settle()
            uid = (await world.get("v1", "Pod", "high"))["metadata"]["uid"]

            expected = ("Preempted", f"Preempted by pod {uid} on node a")
            assert expected in await world.events("low")

    @in_virtual_time
    async def test_the_place_of_a_victim_is_not_taken_by_others(self) -> None:
        async with place(node("a", cpu="2")) as world:
            await world.add_pod(pod("low", cpu="2"))
            await world.settle()
            await world.add_pod(pod("high", cpu="2", priority=100))
            await world.settle()
            await world.add_pod(pod("also-low", cpu="1"))
            await world.client.delete("v1", "pods", "default", "low", grace_period=0)
            await world.pass_time(30)

            assert ("a", "") == (await world.place_of("high"), await world.place_of("also-low"))

    @in_virtual_time
    async def test_a_node_that_goes_meanwhile_costs_no_pod_its_place(self) -> None:
        """The node is gone before its victims are: between two writes of the scheduler."""
        clock = running_clock()
        client = LosesNode(Backend(Store(), Registry(), clock, Identity(0)))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        await client.create(namespace)
        runtime = Runtime(client, clock, is_strict=True)
        runtime.add(Scheduler(runtime, client))
        world = Place(client, clock)
        await world.add_node(node("a", cpu="2"))
        async with running(runtime.run()):
            await runtime.started.wait()
            await world.add_pod(pod("low", cpu="2"))
            await world.settle()
            client.nodes = runtime.informer("v1", "nodes")
            await world.add_pod(pod("high", cpu="2", priority=100))
            await world.settle()
            await world.add_node(node("b", cpu="2"))
            await world.pass_time(15)

            assert "deletionTimestamp" not in (await world.get("v1", "Pod", "low"))["metadata"]
            assert await world.place_of("high") == "b"


class LosesNode(Client):
    """Deletes the node "a" right after the first status of a pod that is written."""

    nodes: Informer | None = None

    async def patch_status(
        self, api_version: str, resource: str, namespace: str | None, name: str, status: Json
    ) -> Json:
        written = await super().patch_status(api_version, resource, namespace, name, status)
        if self.nodes is not None and self.nodes.get("", "a") is not None:
            await self.delete("v1", "nodes", None, "a")
            self.nodes.refresh()
        return written


class TestVolumes:
    def objects(self, mode: str = "WaitForFirstConsumer") -> list[Json]:
        return [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "fast"},
                "provisioner": "ebs.csi.aws.com",
                "volumeBindingMode": mode,
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "data", "namespace": "default"},
                "spec": {
                    "storageClassName": "fast",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        ]

    def using(self) -> Json:
        claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        return pod("p", volumes=[claim])

    @in_virtual_time
    async def test_a_node_is_chosen_then_the_volume_is_waited_for(self) -> None:
        async with place(node("a", zone="za")) as world:
            await world.create(*self.objects())
            await world.add_pod(self.using())
            await world.add_pod(pod("other"))
            await world.settle()
            claim = await world.get("v1", "PersistentVolumeClaim", "data")
            waiting = await world.place_of("p")
            await world.change(
                "v1", "PersistentVolumeClaim", "data", {"spec": {"volumeName": "vol"}}
            )
            await world.client.patch_status(
                "v1", "persistentvolumeclaims", "default", "data", {"phase": "Bound"}
            )
            await world.settle()

            assert "a" == claim["metadata"]["annotations"][SELECTED_NODE]
            assert ("", "a") == (waiting, await world.place_of("p"))
            assert await world.place_of("other") == "a"

    @in_virtual_time
    async def test_a_volume_that_never_comes_is_given_up_after_ten_minutes(self) -> None:
        async with place(node("a", zone="za")) as world:
            await world.create(*self.objects())
            await world.add_pod(self.using())
            await world.pass_time(601)

            reason, message = await world.told("p")
            assert "SchedulerError" == reason
            assert message.startswith('running PreBind plugin "VolumeBinding": binding volumes:')

    @in_virtual_time
    async def test_a_claim_that_appears_lets_the_pod_in(self) -> None:
        async with place(node("a", zone="za")) as world:
            await world.add_pod(self.using())
            await world.pass_time(60)
            before = await world.told("p")
            await world.create(*self.objects())
            await world.settle()
            claim = await world.get("v1", "PersistentVolumeClaim", "data")

            assert 'persistentvolumeclaim "data" not found' in before[1]
            assert "a" == claim["metadata"]["annotations"][SELECTED_NODE]


def test_the_same_seed_places_every_pod_the_same_way() -> None:
    async def run(seed: int) -> list[tuple[str, str]]:
        async with place(*(node(f"n{i}", zone=f"z{i % 3}") for i in range(9)), seed=seed) as world:
            constraint = spread(ZONE, selector=labelled(app="web"))
            for number in range(30):
                kind: Json = (
                    {"labels": WEB, "topologySpreadConstraints": [constraint]} if number % 2 else {}
                )
                await world.add_pod(pod(f"p{number}", cpu="100m", **kind))
            await world.settle()
            pods = await world.pods()
            return [(p["metadata"]["name"], p["spec"]["nodeName"]) for p in pods]

    first, again, other = (run_virtual(run(seed), seed=seed) for seed in (3, 3, 4))

    assert first == again
    assert first != other
