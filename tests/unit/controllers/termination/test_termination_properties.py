"""However nodes are removed, and wherever the process dies, nothing is lost and nobody is hurt."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.autoscaler import JsonObject, deployment
from helpers.builders import NOW
from helpers.clusters import in_virtual_time
from karpenter.api.codec import convert_as
from karpenter.api.pods import Pod
from karpenter.clock import run_virtual
from karpenter.controllers.termination.drain import plan_drain, tier
from karpenter.kube.transport import Transport
from unit.controllers.termination.termination_bench import Halting, Living, living
from unit.controllers.termination.termination_objects import FINALIZER, pod

pytestmark = pytest.mark.storm


def guarded(name: str, replicas: int, available: int) -> tuple[JsonObject, JsonObject]:
    """An application that must not have fewer pods than that."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": name}}},
    }
    return deployment(name, replicas), budget


async def remove(run: Living, kind: str, name: str) -> None:
    if name in run.names("karpenter.sh", "nodeclaims") and name in run.names("", "nodes"):
        api_version = "v1" if kind == "Node" else "karpenter.sh/v1"
        await run.cluster.client.delete(api_version, kind, None, name)


async def watch_over(run: Living, app: str, available: int) -> None:
    """See that an application always has the pods its budget asks for."""
    while True:
        assert run.healthy(app) >= available, "the budget was broken"
        await run.clock.sleep(0.05)


REMOVALS = st.tuples(st.sampled_from(["Node", "NodeClaim"]), st.sampled_from([1, 2, 3]))
STEPS = st.lists(
    st.one_of(
        REMOVALS.map(lambda removal: ("remove", *removal)),
        st.sampled_from([0.0, 0.3, 1.0, 7.0]).map(lambda seconds: ("crash", "", seconds)),
        st.sampled_from([0.1, 1.0, 6.0]).map(lambda seconds: ("wait", "", seconds)),
    ),
    min_size=1,
    max_size=8,
)


async def play(steps: list[tuple[str, str, float]], replicas: int, available: int) -> None:
    async with living(*guarded("web", replicas, available), ours=3, others=2) as run:
        await run.until(lambda: run.healthy("web") == replicas)
        await run.clock.sleep(5)
        run.start()
        guard = asyncio.create_task(watch_over(run, "web", available))
        removed = set()
        for step, kind, amount in steps:
            if step == "remove":
                removed.add(f"node-{amount}")
                await remove(run, kind, f"node-{amount}")
            elif step == "crash":
                await run.kill()
                await run.clock.sleep(amount)
                run.start()
            else:
                await run.clock.sleep(amount)
        await run.until(lambda: not removed & set(run.names("karpenter.sh", "nodeclaims")))
        await run.until(lambda: not removed & set(run.names("", "nodes")))
        await run.until(lambda: run.healthy("web") == replicas)
        assert len(run.cloud.instances) == 3 - len(removed)
        if guard.done():
            await guard
        guard.cancel()


@settings(max_examples=15, deadline=None)
@given(steps=STEPS, replicas=st.integers(1, 6), spare=st.integers(1, 3))
@pytest.mark.row("S2-101")
def test_no_budget_is_ever_broken_and_every_removal_comes_to_its_end(
    steps: list[tuple[str, str, float]], replicas: int, spare: int
) -> None:
    run_virtual(play(steps, replicas, max(0, replicas - spare)))


@in_virtual_time
async def test_a_budget_that_allows_nothing_keeps_its_node_until_it_does() -> None:
    async with living(*guarded("web", 2, 2), ours=1) as run:
        await run.until(lambda: run.healthy("web") == 2)
        await run.clock.sleep(5)
        run.start()
        await remove(run, "Node", "node-1")
        await run.clock.sleep(600)
        assert 2 == run.healthy("web")
        assert ["node-1"] == run.names("", "nodes")

        patch = {"spec": {"minAvailable": 0}}
        await run.cluster.client.patch(
            "merge", "policy/v1", "PodDisruptionBudget", "default", "web", patch
        )
        await run.until(lambda: not run.names("", "nodes"))

        assert {} == run.cloud.instances


KINDS = st.tuples(st.booleans(), st.booleans(), st.sampled_from(["Running", "Succeeded"]))


@given(kinds=st.lists(KINDS, max_size=12), choices=st.data())
def test_nobody_is_asked_before_everybody_of_a_lower_tier_is_gone(
    kinds: list[tuple[bool, bool, str]], choices: st.DataObject
) -> None:
    present: dict[str, Pod] = {}
    for number, (critical, daemon, phase) in enumerate(kinds):
        owners = ["DaemonSet"] if daemon else ["ReplicaSet"]
        manifest = pod(f"p-{number}", critical=critical, owners=owners, phase=phase)
        present[f"p-{number}"] = convert_as(manifest, Pod)
    looks = 0
    while (drain := plan_drain(present.values(), deadline=None, now=NOW)) and not drain.is_over:
        assert drain.next, "somebody is waited for and nobody is asked"
        lowest = min(tier(each) for each in drain.waiting)
        assert {lowest} == {tier(each) for each in drain.next}
        gone = choices.draw(st.lists(st.sampled_from(drain.next), min_size=1))
        for each in gone:
            present.pop(each.metadata.name, None)
        looks += 1
        assert looks <= len(kinds)

    assert all(each.status.phase == "Succeeded" for each in present.values())


async def crash_at(number: int, *, after: bool) -> bool:
    """Die at one write, start anew, and see that it ends well; say whether it came to that."""
    async with living(*guarded("web", 2, 1), ours=1, others=1) as run:
        await run.until(lambda: run.healthy("web") == 2)
        await run.clock.sleep(5)
        halting: list[Halting] = []

        def wrap(transport: Transport) -> Transport:
            halting.append(Halting(transport, number, after=after))
            return halting[0]

        run.start(wrap)
        await remove(run, "NodeClaim", "node-1")
        has_died = False
        for _ in range(120):
            await run.clock.sleep(0.5)
            if halting[0].halted.is_set():
                has_died = True
                await run.kill()
                run.start()
                break
        await run.until(lambda: not run.names("karpenter.sh", "nodeclaims"))
        await run.until(lambda: run.healthy("web") == 2)
        assert ["node-2"] == run.names("", "nodes")
        assert {} == run.cloud.instances
        assert not any(FINALIZER in str(obj) for obj in run.cluster.store.list("", "nodes"))
        return has_died


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_process_that_dies_at_any_write_is_followed_by_one_that_ends_the_work(
    after: bool,
) -> None:
    died = 0
    while run_virtual(crash_at(died, after=after)):
        died += 1

    # Node deleted, node closed, draining, evictions, drained and ending, both finalizers
    assert died >= 6
