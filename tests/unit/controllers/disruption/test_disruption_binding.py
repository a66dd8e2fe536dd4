"""Pods that come back after a rebalance are bound to the nodes that wait for them, and no others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import pytest

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench
from helpers.clusters import in_virtual_time
from helpers.provisioning import FACTS
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.api.times import later
from karpenter.controllers.disruption.move_binding import CLOSED_FOR, MoveBinder, close
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.disruption.rebalance.planned_places import Awaited, is_closed, kind_of
from karpenter.kube.errors import ForbiddenError
from karpenter.settings import Settings
from unit.controllers.disruption.disruption_bench import machine, running

EARLY: Final = Settings(early_binding=True)
OLD: Final = ("n0-claim",)
GRACE: Final = 21.0


def waiting(name: str, **options: Any) -> JsonObject:
    """A pod that came back."""
    found = running(name, "", **options)
    del found["spec"]["nodeName"]
    return {**found, "status": {"phase": "Pending"}}


class Binding:
    """A controller beside nodes that wait for pods."""

    def __init__(self, at: Bench) -> None:
        self.at = at
        self.planned = PlannedPods()
        self.binder = MoveBinder(at.world, self.planned)

    async def step(self) -> float | None:
        await self.at.settle()
        again = await self.binder.reconcile(("", ""))
        await self.at.settle()
        return again

    async def put(self, *objects: JsonObject | tuple[JsonObject, JsonObject]) -> None:
        for obj in objects:
            for each in obj if isinstance(obj, tuple) else (obj,):
                await self.at.put(each)
                if each["kind"] == "Node":
                    taints = {"spec": {"taints": each["spec"]["taints"]}}
                    await self.at.change("v1", "Node", each["metadata"]["name"], taints)

    async def wait_for(self, *pods: Pod, on: str = "n1", count: int = 1) -> None:
        """Close a node for so many pods like each of these."""
        until = later(self.at.clock.now(), CLOSED_FOR)
        awaited = Awaited(until, OLD, {kind_of(pod): count for pod in pods})
        await close(self.at.world, self.at.node(on), awaited)
        await self.at.settle()

    def pod(self, name: str) -> Pod:
        found = self.at.world.mirror(Pod).get(name, "default")
        assert found is not None
        return found

    def places(self) -> dict[str, str]:
        """The node of each pod that has come back."""
        found = self.at.world.mirror(Pod).list()
        return {p.metadata.name: p.spec.node_name for p in found if p.metadata.name != "old"}

    def closed(self) -> list[str]:
        nodes = self.at.world.mirror(Node).list()
        return sorted(node.metadata.name for node in nodes if is_closed(node))


@asynccontextmanager
async def binding(
    *objects: JsonObject | tuple[JsonObject, JsonObject], settings: Settings = EARLY
) -> AsyncIterator[Binding]:
    """The machine ``n0`` goes with the pod ``old``, and ``n1`` is there to take it."""
    async with bench(settings=settings, cloud=FakeCloud(facts=FACTS)) as at:
        found = Binding(at)
        await found.put(machine("n0"), machine("n1"), running("old", "n0"), *objects)
        await at.client.delete("karpenter.sh/v1", "NodeClaim", None, "n0-claim")
        await at.settle()
        yield found


@in_virtual_time
async def test_a_pod_that_comes_back_gets_the_place_that_was_planned() -> None:
    async with binding() as run:
        await run.wait_for(run.pod("old"))
        await run.put(waiting("new"))

        assert ["n1"] == run.closed()
        await run.step()

        assert {"new": "n1"} == run.places()
        assert [] == run.closed()


@in_virtual_time
async def test_of_two_alike_each_gets_a_place() -> None:
    async with binding(machine("n2")) as run:
        await run.wait_for(run.pod("old"))
        await run.wait_for(run.pod("old"), on="n2")
        await run.put(waiting("a"), waiting("b"), waiting("c"))

        await run.step()

        # The third is not part of the move
        assert {"a": "n1", "b": "n2", "c": ""} == run.places()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(waiting("new", owner="Job"), id="is one, by its owner's name only"),
        pytest.param(waiting("new", cpu="501m"), id="is larger"),
        pytest.param(waiting("new", nodeSelector={"disk": "ssd"}), id="selects other nodes"),
        pytest.param(waiting("new", app="api"), id="has other labels"),
    ],
)
@in_virtual_time
async def test_a_pod_that_differs_is_left_to_the_scheduler(other: JsonObject) -> None:
    async with binding() as run:
        await run.wait_for(run.pod("old"))
        other["metadata"]["ownerReferences"][0]["uid"] = "o"
        if other["metadata"]["ownerReferences"][0]["kind"] == "Job":
            other["metadata"]["ownerReferences"][0]["uid"] = "o2"
        await run.put(other)

        await run.step()

        assert {"new": ""} == run.places()
        assert ["n1"] == run.closed()


@in_virtual_time
async def test_a_pod_that_finds_no_room_is_left_to_the_scheduler() -> None:
    async with binding(running("full", "n1", cpu="3800m", app="other")) as run:
        await run.wait_for(run.pod("old"))
        await run.put(waiting("new"))

        await run.step()

        assert "" == run.places()["new"]


@in_virtual_time
async def test_no_pod_is_bound_to_a_node_that_was_cordoned() -> None:
    async with binding() as run:
        await run.wait_for(run.pod("old"))
        await run.at.change("v1", "Node", "n1", {"spec": {"unschedulable": True}})
        await run.put(waiting("new"))

        await run.step()

        assert {"new": ""} == run.places()


@in_virtual_time
async def test_pods_that_are_there_count_so_nothing_is_counted_down() -> None:
    async with binding(running("there", "n1")) as run:
        await run.wait_for(run.pod("old"), count=2)
        await run.put(waiting("a"), waiting("b"))

        await run.step()
        again = MoveBinder(run.at.world, run.planned)  # a new process
        await again.reconcile(("", ""))
        await run.at.settle()

        assert ["", "n1"] == sorted({**run.places(), "there": "x"}[name] for name in ("a", "b"))


@in_virtual_time
async def test_a_binding_that_no_watch_has_confirmed_counts() -> None:
    async with binding() as run:
        await run.wait_for(run.pod("old"))
        await run.put(waiting("a"), waiting("b"))
        await run.at.settle()

        # no time passes in between, so that the mirror still shows both pods without a node
        await run.binder.reconcile(("", ""))
        await run.binder.reconcile(("", ""))
        await run.at.settle()

        assert {"a": "n1", "b": ""} == run.places()


@in_virtual_time
async def test_a_node_is_opened_when_its_time_is_over() -> None:
    async with binding() as run:
        await run.wait_for(run.pod("old"))
        await run.at.clock.sleep(CLOSED_FOR.total_seconds() - 1)
        await run.step()
        before = run.closed()
        await run.at.clock.sleep(1)
        await run.step()

        assert (["n1"], []) == (before, run.closed())


@in_virtual_time
async def test_a_node_is_opened_when_no_more_pods_come() -> None:
    async with binding() as run:
        await run.wait_for(run.pod("old"))
        await run.step()
        await run.at.change(
            "karpenter.sh/v1", "NodeClaim", "n0-claim", {"metadata": {"finalizers": []}}
        )
        await run.step()
        before = run.closed()
        await run.at.clock.sleep(GRACE)
        await run.step()

        assert (["n1"], []) == (before, run.closed())


@in_virtual_time
async def test_a_closed_node_is_kept_for_its_pods() -> None:
    async with binding() as run:
        await run.wait_for(run.pod("old"))
        await run.step()

        kept = run.at.world.state.snapshot().node("n1")
        assert kept is not None
        assert kept.is_nominated(later(run.at.clock.now(), timedelta(seconds=5)))


@in_virtual_time
async def test_other_pods_that_are_expected_on_a_closed_node_are_bound_there() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    other = {
        **waiting("other", app="other"),
        "status": {"phase": "Pending", "conditions": [unschedulable]},
    }
    async with binding() as run:
        await run.wait_for(run.pod("old"))
        await run.put(other, waiting("stranger", app="other"))
        await run.at.settle()
        run.planned.expect("n1-claim", [run.pod("other")])

        await run.step()

        assert {"other": "n1", "stranger": ""} == run.places()


@pytest.mark.parametrize("settings", [Settings(), EARLY], ids=["switched off", "not readable"])
@in_virtual_time
async def test_a_node_that_waits_in_vain_is_opened(settings: Settings) -> None:
    async with binding(settings=settings) as run:
        await run.wait_for(run.pod("old"))
        if settings.early_binding:
            note = {"cost.karpenter.sh/awaits-pods": "?"}
            await run.at.change("v1", "Node", "n1", {"metadata": {"annotations": note}})
        await run.put(waiting("new"))

        await run.step()

        assert [] == run.closed()
        assert {"new": ""} == run.places()


@in_virtual_time
async def test_without_the_right_to_bind_nodes_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise ForbiddenError(403, 'pods "a" is forbidden: cannot create pods/binding')

    async with binding() as run:
        monkeypatch.setattr(type(run.at.world.kube), "bind", refused)
        await run.wait_for(run.pod("old"), count=2)
        await run.put(waiting("a"), waiting("b"))

        await run.step()

        assert [] == run.closed()
        assert 1 == len([line for line in run.at.lines if "not bound early" in line["message"]])


@in_virtual_time
async def test_taints_of_others_stay() -> None:
    other = {"key": "example.com/mine", "effect": "NoSchedule"}
    async with binding(machine("n2", taints=[other])) as run:
        await run.wait_for(run.pod("old"), on="n2")
        while_closed = [taint.key for taint in run.at.node("n2").spec.taints]
        await run.at.clock.sleep(CLOSED_FOR.total_seconds())
        await run.step()

        assert ["example.com/mine", "cost.karpenter.sh/awaits-pods"] == while_closed
        assert ["example.com/mine"] == [taint.key for taint in run.at.node("n2").spec.taints]
