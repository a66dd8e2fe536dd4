"""Upkeep of claims: labels, consistency with what was promised, and when pods last moved."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from helpers import manifests
from helpers.autoscaler import Bench, bench, run_in_background
from helpers.claims import NAME, V1, claim, node
from helpers.clusters import in_virtual_time
from helpers.manifests import at
from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import ObjectMeta
from karpenter.api.node_classes import kwok_labels
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod, PodSpec, PodStatus
from karpenter.clock import EPOCH
from karpenter.controllers.lifecycle.consistency import ConsistencyController, shortfalls
from karpenter.controllers.lifecycle.hydration import ClaimHydration, NodeHydration
from karpenter.controllers.lifecycle.pod_events import PodEvents, is_event
from karpenter.model.conditions import find

JsonObject = dict[str, Any]


def pod(name: str, *, daemon: bool = False, **spec: Any) -> JsonObject:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d-1"}
    return manifests.pod(
        name,
        containers=[{"name": "app", "image": "pause"}],
        metadata={"ownerReferences": [owner] if daemon else []},
        **spec,
    )


def last_event(at_work: Bench) -> str:
    """When the claim says a pod last came or went."""
    found = at_work.claim(NAME).status.last_pod_event_time
    return found.strftime("%Y-%m-%dT%H:%M:%SZ") if found is not None else ""


async def until(at_work: Bench, seconds: float) -> None:
    """Let it be so many seconds after the beginning."""
    await at_work.clock.sleep(seconds - at_work.clock.monotonic())


async def handled(at_work: Bench) -> None:
    """Let the controllers in the background see and write."""
    await at_work.clock.sleep(0.05)


@pytest.mark.parametrize(
    ("memory", "status"),
    [
        pytest.param("6963Mi", "False", id="DIS-46 85 % of what was promised"),
        pytest.param("7537Mi", "True", id="DIS-47 92 % of what was promised"),
        pytest.param("8Gi", "True", id="DIS-47 all that was promised"),
    ],
)
def test_consistency(memory: str, status: str) -> None:
    @in_virtual_time
    async def check() -> None:
        given = claim(stage="Initialized", requests={"memory": "1Gi", "example.com/gpu": "1"})
        async with bench(given, node(amounts={"memory": memory})) as at_work:
            again = await at_work.reconcile(ConsistencyController(at_work.world), NAME)

            found = find(at_work.claim(NAME).status.conditions, "ConsistentStateFound")
            assert found is not None
            assert status == found.status
            assert 600.0 == again
            expected = ["FailedConsistencyCheck"] if status == "False" else []
            assert expected == at_work.events.reasons
            said = "expected 8Gi of resource memory, but found 6963Mi (85.0% of expected)"
            assert [("NodeClaim", "Warning", said)] * len(expected) == [
                (event.target.kind, event.type, event.message) for event in at_work.events.heard
            ]
            assert at_work.claim(NAME).metadata.deletion_timestamp is None

    check()


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(claim(stage="Registered", requests={"memory": "1Gi"}), id="not-initialized"),
        pytest.param(claim(stage="Initialized", requests={"cpu": "1"}), id="memory-not-requested"),
    ],
)
def test_a_node_is_judged_by_what_was_asked_of_it_once_it_is_complete(given: JsonObject) -> None:
    @in_virtual_time
    async def check() -> None:
        async with bench(given, node(amounts={"memory": "1Gi"})) as at_work:
            await at_work.reconcile(ConsistencyController(at_work.world), NAME)

            found = find(at_work.claim(NAME).status.conditions, "ConsistentStateFound")
            assert found is None or found.status == "True"
            assert [] == at_work.events.reasons

    check()


@pytest.mark.parametrize(
    ("promised", "found", "is_short"),
    [
        pytest.param("4", "3599m", True, id="DIS-46 a little less than nine tenths"),
        pytest.param("4", "3600m", False, id="DIS-47 exactly nine tenths"),
        pytest.param("0", "0", False, id="DIS-47 nothing was promised"),
        pytest.param("4", "0", True, id="DIS-46 nothing is there"),
    ],
)
def test_nine_tenths_of_a_promise_will_do(promised: str, found: str, is_short: bool) -> None:
    given = msgspec.convert(
        claim(requests={"cpu": "1"}, status={"capacity": {"cpu": promised}}), NodeClaim
    )
    seen = msgspec.convert(node(amounts={"cpu": found}), Node)

    assert is_short == bool(shortfalls(given, seen))


FULL = claim(stage="Initialized", requests={"memory": "1Gi"})
SMALL = node(amounts={"memory": "1Gi"})


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([], id="a claim that is gone"),
        pytest.param([FULL], id="a claim without its Node"),
        pytest.param([FULL, SMALL, node("twin")], id="a claim with two Nodes"),
        pytest.param(
            [
                claim(stage="Initialized", requests={"memory": "1Gi"}, node_class=("a.io", "B")),
                SMALL,
            ],
            id="a claim of another cloud",
        ),
    ],
)
def test_who_is_not_judged(given: list[JsonObject]) -> None:
    @in_virtual_time
    async def check() -> None:
        async with bench(*given) as at_work:
            assert await at_work.reconcile(ConsistencyController(at_work.world), NAME) is None
            assert [] == at_work.events.reasons

    check()


@in_virtual_time
async def test_a_claim_that_goes_is_not_judged_any_more() -> None:
    async with bench(FULL, SMALL) as at_work:
        await at_work.client.delete(V1, "NodeClaim", None, NAME)
        await at_work.settle()

        assert await at_work.reconcile(ConsistencyController(at_work.world), NAME) is None
        assert [] == at_work.events.reasons


@pytest.mark.case("DIS-46")
@in_virtual_time
async def test_a_claim_is_judged_every_ten_minutes_and_not_more_often() -> None:
    given = claim(stage="Initialized", requests={"memory": "1Gi"})
    async with bench(given, node()) as at_work:
        controller = ConsistencyController(at_work.world)
        await at_work.reconcile(controller, NAME)
        shrunk = {"status": {"capacity": {"memory": "1Gi"}}}
        await at_work.change("v1", "Node", "node-1", shrunk, subresource="status")
        again = await at_work.reconcile(controller, NAME)
        assert 590 < again < 600
        assert [] == at_work.events.reasons

        await at_work.clock.sleep(again)
        await at_work.reconcile(controller, NAME)

        assert ["FailedConsistencyCheck"] == at_work.events.reasons


@pytest.mark.case("DIS-48")
@in_virtual_time
async def test_events_shortly_after_each_other_are_one() -> None:
    async with bench(claim(stage="Initialized"), node(), pod("a"), pod("b"), pod("c")) as at_work:
        task = run_in_background([PodEvents(at_work.world)])
        heard = []
        for seconds, name in ((100, "a"), (104, "b"), (111, "c")):
            await until(at_work, seconds)
            await at_work.client.bind("default", name, "node-1")
            await handled(at_work)
            heard.append(last_event(at_work))
        task.cancel()

        assert [at(100), at(100), at(111)] == heard


@pytest.mark.case("DIS-48")
@in_virtual_time
async def test_an_event_dated_by_a_wrong_clock_gives_way_to_the_next() -> None:
    async with bench(claim(stage="Initialized"), node(), pod("a"), pod("b")) as at_work:
        task = run_in_background([PodEvents(at_work.world)])
        heard = []
        for ahead, name in ((30, "a"), (3600, "b")):
            written = {"status": {"lastPodEventTime": at(ahead)}}
            await at_work.change(
                "karpenter.sh/v1", "NodeClaim", NAME, written, subresource="status"
            )
            await at_work.client.bind("default", name, "node-1")
            await handled(at_work)
            heard.append(last_event(at_work))
        task.cancel()

        assert [at(30), at(0)] == heard


@pytest.mark.case("DIS-49")
@in_virtual_time
async def test_daemons_do_not_count() -> None:
    async with bench(claim(stage="Initialized"), node(), pod("a", daemon=True)) as at_work:
        task = run_in_background([PodEvents(at_work.world)])
        await at_work.client.bind("default", "a", "node-1")
        await handled(at_work)
        task.cancel()

        assert "" == last_event(at_work)


@pytest.mark.case("DIS-50")
@in_virtual_time
async def test_the_end_of_a_pod_counts_and_so_does_its_deletion() -> None:
    async with bench(claim(stage="Initialized"), node(), pod("a"), pod("b")) as at_work:
        await at_work.client.bind("default", "a", "node-1")
        await at_work.client.bind("default", "b", "node-1")
        await at_work.settle()
        task = run_in_background([PodEvents(at_work.world)])
        await handled(at_work)
        heard = [last_event(at_work)]

        await until(at_work, 30)
        await at_work.client.patch_status("v1", "Pod", "default", "a", {"phase": "Succeeded"})
        await handled(at_work)
        heard.append(last_event(at_work))
        await until(at_work, 60)
        await at_work.client.delete("v1", "Pod", "default", "b", grace_period=30)
        await handled(at_work)
        heard.append(last_event(at_work))
        await until(at_work, 90)
        await at_work.client.delete("v1", "Pod", "default", "b", grace_period=0)
        await handled(at_work)
        heard.append(last_event(at_work))
        task.cancel()

        assert [at(0), at(30), at(60), at(60)] == heard


WAITING = Pod(metadata=ObjectMeta(name="a"))
BOUND = replace(WAITING, spec=PodSpec(node_name="node-1"))
ENDED = replace(BOUND, status=PodStatus(phase="Succeeded"))
LEAVING = replace(BOUND, metadata=ObjectMeta(name="a", deletion_timestamp=EPOCH))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(WAITING, BOUND, True, id="DIS-48 bound"),
        pytest.param(None, BOUND, True, id="DIS-48 first seen when bound"),
        pytest.param(BOUND, BOUND, False, id="DIS-48 nothing happened"),
        pytest.param(BOUND, ENDED, True, id="DIS-50 ended"),
        pytest.param(BOUND, LEAVING, True, id="DIS-50 told to go"),
        pytest.param(BOUND, None, True, id="DIS-50 removed without notice"),
        pytest.param(LEAVING, None, False, id="DIS-50 gone as announced"),
        pytest.param(ENDED, None, False, id="DIS-50 cleaned up"),
    ],
)
def test_what_counts_as_an_event(old: Pod | None, new: Pod | None, expected: bool) -> None:
    assert expected == is_event(old, new)


@in_virtual_time
async def test_a_restart_does_not_make_machines_look_busy() -> None:
    known = claim(stage="Initialized", status={"lastPodEventTime": at(0)})
    async with bench(known, node(), pod("a")) as at_work:
        await at_work.client.bind("default", "a", "node-1")
        await until(at_work, 1000)

        task = run_in_background([PodEvents(at_work.world)])
        await handled(at_work)
        task.cancel()

        assert at(0) == last_event(at_work)


@in_virtual_time
async def test_a_restart_finds_the_latest_of_all_that_happened() -> None:
    async with bench(claim(stage="Initialized"), node(), pod("a"), pod("b"), pod("c")) as at_work:
        for seconds, name in ((10, "c"), (50, "a"), (70, "b")):
            await until(at_work, seconds)
            await at_work.client.bind("default", name, "node-1")
        await until(at_work, 100)
        task = run_in_background([PodEvents(at_work.world)])
        await handled(at_work)
        task.cancel()

        assert at(70) == last_event(at_work)


@in_virtual_time
async def test_a_restart_does_not_lose_what_happened_in_between() -> None:
    known = claim(stage="Initialized", status={"lastPodEventTime": at(0)})
    async with bench(known, node(), pod("a")) as at_work:
        await until(at_work, 500)
        await at_work.client.bind("default", "a", "node-1")
        await until(at_work, 1000)

        task = run_in_background([PodEvents(at_work.world)])
        await handled(at_work)
        task.cancel()

        assert at(500) == last_event(at_work)


@pytest.mark.case("DIS-51")
@in_virtual_time
async def test_claim_and_node_get_the_label_of_their_class() -> None:
    bare = claim(stage="Launched")
    del bare["metadata"]["labels"][kwok_labels.NODE_CLASS]
    async with bench(bare, node()) as at_work:
        await at_work.reconcile(ClaimHydration(at_work.world), NAME)
        await at_work.reconcile(NodeHydration(at_work.world), "node-1")

        assert "default" == at_work.claim(NAME).metadata.labels[kwok_labels.NODE_CLASS]
        assert "default" == at_work.node("node-1").metadata.labels[kwok_labels.NODE_CLASS]


@pytest.mark.case("DIS-51")
@in_virtual_time
async def test_nodes_of_others_are_left_alone() -> None:
    other = claim(stage="Launched", node_class=("example.com", "Other"))
    async with bench(other, node(), node("alone", provider_id="x://1")) as at_work:
        before = [at_work.node(name) for name in ("node-1", "alone")]
        await at_work.reconcile(ClaimHydration(at_work.world), NAME)
        for name in ("node-1", "alone"):
            await at_work.reconcile(NodeHydration(at_work.world), name)

        assert before == [at_work.node(name) for name in ("node-1", "alone")]
        assert "example.com/other" not in at_work.claim(NAME).metadata.labels


@pytest.mark.case("DIS-52")
@in_virtual_time
async def test_a_claim_that_vanishes_unlaunched_does_not_hold_up_the_state() -> None:
    async with bench() as at_work:
        world = at_work.world
        body = {key: claim(metadata={"finalizers": []})[key] for key in ("metadata", "spec")}
        await world.create(NodeClaim, body)
        assert not world.state.is_synced

        await at_work.client.delete(V1, "NodeClaim", None, NAME)
        await at_work.clock.sleep(15)

        assert world.state.is_synced
        assert () == world.state.snapshot().unlaunched


@pytest.mark.case("DIS-52")
@in_virtual_time
async def test_nor_when_its_removal_is_seen_before_the_answer_to_its_creation() -> None:
    async with bench() as at_work:
        world = at_work.world
        created = await world.kube.create(
            NodeClaim,
            {key: claim(metadata={"finalizers": []})[key] for key in ("metadata", "spec")},
        )
        await at_work.settle()
        await at_work.client.delete(V1, "NodeClaim", None, NAME)
        await at_work.settle()

        world.mirrors.absorb(created)

        assert world.state.is_synced
        assert () == world.state.snapshot().nodes
