"""Launch: the finalizer comes first, a claim has one instance, and every failure has its way."""

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from helpers.autoscaler import FakeCloud, run_in_background
from helpers.claims import (
    NAME,
    V1,
    claim,
    count,
    disrupted,
    lifecycle,
    node,
)
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim, NodeClaimStatus
from karpenter.api.meta import Condition, ObjectMeta, Resource
from karpenter.api.pods import Pod
from karpenter.clock import EPOCH
from karpenter.cloud.provider import (
    CreateError,
    Instance,
    InsufficientCapacityError,
    NodeClassNotReadyError,
)
from karpenter.controllers.lifecycle.claim_changes import is_news, summed_up
from karpenter.controllers.lifecycle.launch import Launch, failure, shortened, with_instance
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.kube.errors import ConflictError, ServerError
from karpenter.kube.transport import Request
from karpenter.model import labels


@dataclass
class AttentiveCloud(FakeCloud):
    """Notes which finalizers a claim has when its instance is asked for."""

    finalizers: list[tuple[str, ...]] = field(default_factory=list)

    async def create(self, claim: NodeClaim) -> Instance:
        self.finalizers.append(claim.metadata.finalizers)
        return await super().create(claim)


@pytest.mark.case("DIS-1")
@in_virtual_time
async def test_the_finalizer_is_stored_before_an_instance_is_asked_for() -> None:
    cloud = AttentiveCloud()
    bare = claim(metadata={"finalizers": []})
    async with lifecycle(bare, cloud=cloud) as run:
        await run.reconcile()

        assert [(labels.TERMINATION,)] == cloud.finalizers
        assert (labels.TERMINATION,) == run.claim.metadata.finalizers


@pytest.mark.case("DIS-1")
@in_virtual_time
async def test_nothing_is_launched_when_the_finalizer_cannot_be_stored() -> None:
    async with lifecycle(claim(metadata={"finalizers": []})) as run:
        run.wire.losing = lambda request: 500

        with pytest.raises(ServerError):
            await run.reconcile()

        assert [] == run.cloud.calls_of("create")


@pytest.mark.case("DIS-1")
@in_virtual_time
async def test_other_finalizers_stay() -> None:
    async with lifecycle(claim(metadata={"finalizers": ["example.com/mine"]})) as run:
        await run.reconcile()

        assert ("example.com/mine", labels.TERMINATION) == run.claim.metadata.finalizers


@pytest.mark.case("DIS-2")
@in_virtual_time
async def test_a_claim_for_another_cloud_is_left_alone() -> None:
    other = claim(metadata={"finalizers": []}, node_class=("example.com", "OtherNodeClass"))
    async with lifecycle(other) as run:
        await run.reconcile()

        assert [] == run.cloud.calls_of("create")
        assert () == run.claim.metadata.finalizers
        assert () == run.claim.status.conditions


@pytest.mark.case("DIS-3")
@in_virtual_time
async def test_a_launched_claim_says_what_it_got() -> None:
    async with lifecycle(claim()) as run:
        await run.reconcile()

        status = run.claim.status
        assert ("True", "Launched") == run.condition("Launched")
        assert f"fake://{run.claim.metadata.uid}" == status.provider_id
        assert "image-1" == status.image_id
        assert {"cpu": "4", "memory": "8Gi"} == status.capacity == status.allocatable
        assert ("Unknown", "ReconcilingDependents") == run.condition("Ready")
        told = [line for line in run.bench.lines if line["message"] == "launched nodeclaim"]
        assert [status.provider_id] == [line["provider-id"] for line in told]


@pytest.mark.case("DIS-4")
@pytest.mark.parametrize(
    ("held", "given", "expected"),
    [
        pytest.param({"zone": "z2"}, {"zone": "z1"}, {"zone": "z2"}, id="the claim's label stays"),
        pytest.param({}, {"zone": "z1"}, {"zone": "z1"}, id="a new label is taken over"),
    ],
)
def test_labels_of_an_instance(
    held: dict[str, str], given: dict[str, str], expected: dict[str, str]
) -> None:
    before = NodeClaim(metadata=ObjectMeta(labels=held))

    after = with_instance(before, Instance("i-1", labels=given))

    assert expected == after.metadata.labels


@pytest.mark.case("DIS-5")
def test_of_annotations_the_provider_has_the_last_word() -> None:
    before = NodeClaim(metadata=ObjectMeta(annotations={"a": "c", "b": "c"}))

    after = with_instance(before, Instance("i-1", annotations={"a": "p"}))

    assert {"a": "p", "b": "c"} == after.metadata.annotations


@pytest.mark.case("DIS-4", "DIS-5")
@in_virtual_time
async def test_labels_and_annotations_are_written() -> None:
    cloud = FakeCloud(labels={"zone": "z1", "new": "1"}, annotations={"a": "p"})
    given = claim(metadata={"labels": {"zone": "z2"}, "annotations": {"a": "c"}})
    async with lifecycle(given, cloud=cloud) as run:
        await run.reconcile()

        held = run.claim.metadata
        assert ("z2", "1") == (held.labels["zone"], held.labels["new"])
        assert {"a": "p"} == held.annotations


def _status_write(request: Request) -> bool:
    return request.path.endswith(f"{NAME}/status")


@pytest.mark.case("DIS-6")
@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param(500, ServerError, id="the server fails"),
        pytest.param(409, ConflictError, id="somebody else was faster"),
    ],
)
def test_an_instance_is_asked_for_once(code: int, error: type[Exception]) -> None:
    @in_virtual_time
    async def check() -> None:
        async with lifecycle(claim()) as run:
            run.wire.losing = lambda request: code if _status_write(request) else 0
            with pytest.raises(error):
                await run.reconcile()
            run.wire.mend()

            await run.reconcile()

            assert [NAME] == run.cloud.calls_of("create")
            assert ("True", "Launched") == run.condition("Launched")

    check()


@pytest.mark.case("DIS-6")
@in_virtual_time
async def test_what_could_not_be_written_is_remembered_for_an_hour() -> None:
    async with lifecycle(claim()) as run:
        launch = Launch(run.bench.world, Remover(run.bench.world), run.planned)
        unwritten = summed_up(run.claim, now=run.bench.clock.now())

        calls = []
        for seconds in (0, 3590, 20):
            await run.bench.clock.sleep(seconds)
            await launch.take(unwritten)
            calls.append(len(run.cloud.calls_of("create")))

        assert [1, 1, 2] == calls


@in_virtual_time
async def test_an_instance_is_known_to_the_finalizer_of_a_claim_deleted_meanwhile() -> None:
    async with lifecycle(claim()) as run:
        run.wire.losing = lambda request: 500 if _status_write(request) else 0
        with pytest.raises(ServerError):
            await run.reconcile()
        run.wire.mend()
        provider_id = f"fake://{run.claim.metadata.uid}"
        await run.bench.client.delete(V1, "NodeClaim", None, NAME)
        await run.bench.settle()

        await run.reconcile()

        assert [provider_id] == run.undertaker.seen
        assert {} == run.cloud.instances


@in_virtual_time
async def test_what_is_written_of_a_claim_deleted_meanwhile_says_whether_it_is_ready() -> None:
    body = claim(metadata={"finalizers": [labels.TERMINATION, "example.com/held"]})
    async with lifecycle(body) as run:
        run.wire.losing = lambda request: 500 if _status_write(request) else 0
        with pytest.raises(ServerError):
            await run.reconcile()
        run.wire.mend()
        await run.bench.client.delete(V1, "NodeClaim", None, NAME)
        await run.bench.settle()

        await run.reconcile()

        assert ("True", "Launched") == run.condition("Launched")
        assert ("Unknown", "ReconcilingDependents") == run.condition("Ready")


class SlowCloud(FakeCloud):
    """A cloud that takes its time to launch."""

    async def create(self, claim: NodeClaim) -> Instance:
        await self.clock.sleep(10)
        return await super().create(claim)


@in_virtual_time
async def test_a_claim_that_cannot_be_written_meanwhile_is_launched_all_the_same() -> None:
    async with lifecycle(claim(), cloud=SlowCloud()) as run:
        run.wire.losing = lambda request: 500 if _status_write(request) else 0
        looking = asyncio.create_task(run.reconcile())
        await run.bench.clock.sleep(5)
        run.wire.mend()
        await looking

        assert [NAME] == run.cloud.calls_of("create")
        assert ("True", "Launched") == run.condition("Launched")


@in_virtual_time
async def test_a_process_that_ends_ends_the_launch_it_waits_for() -> None:
    async with lifecycle(claim(), cloud=SlowCloud()) as run:
        looking = asyncio.create_task(run.reconcile())
        await run.bench.clock.sleep(5)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await run.bench.clock.sleep(60)

        assert [] == run.cloud.calls_of("create")


@pytest.mark.case("DIS-7")
@in_virtual_time
async def test_without_capacity_the_claim_is_given_up() -> None:
    cloud = FakeCloud(failures={"create": [InsufficientCapacityError("sold out")]})
    async with lifecycle(claim(), cloud=cloud) as run:
        again = await run.reconcile()

        assert again is None
        assert run.is_gone
        assert {"insufficient_capacity": 1} == disrupted(run.bench)
        assert [("NodeClaim", "Warning", "InsufficientCapacityError")] == [
            (event.target.kind, event.type, event.reason) for event in run.bench.events.heard
        ]
        assert f"NodeClaim {NAME} event: sold out" == run.bench.events.heard[0].message


@pytest.mark.case("DIS-7")
@in_virtual_time
async def test_a_claim_that_was_given_up_is_not_launched_before_its_deletion_is_seen() -> None:
    cloud = FakeCloud(failures={"create": [InsufficientCapacityError("sold out")]})
    async with lifecycle(claim(), cloud=cloud) as run:
        stale = run.claim
        await run.reconcile()

        # what a watch that lags behind still shows
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(run.bench.world.mirror(NodeClaim), "get", lambda name: stale)
            await run.controller.reconcile(("", NAME))

        assert [NAME] == run.cloud.calls_of("create")
        assert {"insufficient_capacity": 1} == disrupted(run.bench)


@pytest.mark.case("DIS-8")
@in_virtual_time
async def test_without_a_ready_node_class_the_claim_is_given_up_without_an_event() -> None:
    cloud = FakeCloud(failures={"create": [NodeClassNotReadyError("not ready")]})
    async with lifecycle(claim(), cloud=cloud) as run:
        await run.reconcile()

        assert run.is_gone
        assert {"nodeclass_not_ready": 1} == disrupted(run.bench)
        assert [] == run.bench.events.reasons


@pytest.mark.case("DIS-9")
@in_virtual_time
async def test_a_typed_error_is_shown_and_tried_again() -> None:
    cloud = FakeCloud(failures={"create": [CreateError("X", "Y")]})
    async with lifecycle(claim(), cloud=cloud) as run:
        with pytest.raises(CreateError):
            await run.reconcile()

        assert ("Unknown", "X", "Y") == (*run.condition("Launched"), run.message("Launched"))
        assert not run.is_gone

        await run.reconcile()

        assert ("True", "Launched") == run.condition("Launched")


@pytest.mark.case("DIS-9")
@in_virtual_time
async def test_a_cloud_that_fails_is_asked_ever_more_slowly_whatever_it_says() -> None:
    @dataclass
    class Wordy(FakeCloud):
        """Never says the same twice, as refusals that carry the id of their request do."""

        asked: list[float] = field(default_factory=list)

        async def create(self, claim: NodeClaim) -> Instance:
            self.asked.append(self.clock.monotonic())
            raise CreateError("Refused", f"request {len(self.asked)} was refused")

    cloud = Wordy()
    async with lifecycle(claim(), cloud=cloud) as run:
        task = run_in_background([run.controller])
        await run.bench.clock.sleep(130)
        task.cancel()

        waits = [round(later - at, 3) for at, later in pairwise(cloud.asked)]
        assert [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0] == waits
        assert "request 8 was refused" == run.message("Launched")


def _told(*conditions: Condition, version: str = "1", **metadata: Any) -> NodeClaim:
    held = ObjectMeta(name=NAME, resource_version=version, **metadata)
    return NodeClaim(metadata=held, status=NodeClaimStatus(conditions=conditions))


UNLAUNCHED = Condition(type="Launched", status="Unknown", reason="LaunchFailed", message="a")
LAUNCHED = Condition(type="Launched", status="True", reason="Launched")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(_told(), _told(version="2"), False, id="another version of the same"),
        pytest.param(_told(), _told(UNLAUNCHED), False, id="nothing is known so far"),
        pytest.param(
            _told(UNLAUNCHED),
            _told(replace(UNLAUNCHED, reason="Refused", message="b")),
            False,
            id="other words",
        ),
        pytest.param(_told(UNLAUNCHED), _told(LAUNCHED), True, id="something is known"),
        pytest.param(_told(LAUNCHED), _told(), True, id="something is known no more"),
        pytest.param(_told(), _told(deletion_timestamp=EPOCH), True, id="it was deleted"),
        pytest.param(_told(), _told(finalizers=("a",)), True, id="its finalizers"),
    ],
)
def test_what_is_only_said_of_a_claim_calls_for_no_work(
    old: NodeClaim, new: NodeClaim, expected: bool
) -> None:
    assert expected is is_news(old, new)


@pytest.mark.case("DIS-10")
@in_virtual_time
async def test_any_other_error_is_shown_and_tried_again() -> None:
    cloud = FakeCloud(failures={"create": [RuntimeError("boom")]})
    async with lifecycle(claim(), cloud=cloud) as run:
        with pytest.raises(RuntimeError, match="boom"):
            await run.reconcile()

        assert ("Unknown", "LaunchFailed") == run.condition("Launched")
        assert "boom" == run.message("Launched")


@pytest.mark.parametrize(
    ("length", "kept", "ending"),
    [
        pytest.param(500, 500, "x", id="DIS-10 500 characters fit"),
        pytest.param(1024, 1024, "x", id="V15-D44 the longest that fits"),
        pytest.param(1025, 1024, "x...", id="V15-D44 one too many"),
        pytest.param(2000, 1024, "x...", id="V15-D44 far too long"),
    ],
)
def test_long_messages_are_cut(length: int, kept: int, ending: str) -> None:
    reason, message = failure(RuntimeError("x" * length))

    assert "LaunchFailed" == reason
    assert kept == len(message)
    assert message.endswith(ending)
    assert message == shortened(message)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        pytest.param(KeyError(), "KeyError", id="an error without words is named"),
        pytest.param(
            TimeoutError(), "the cloud provider did not answer in time", id="no answer is told"
        ),
    ],
)
def test_an_error_that_says_nothing(error: Exception, message: str) -> None:
    assert ("LaunchFailed", message) == failure(error)


@in_virtual_time
async def test_a_cloud_that_never_answers_does_not_hold_its_worker_for_ever() -> None:
    class Silent(FakeCloud):
        async def create(self, claim: NodeClaim) -> Instance:
            await self.clock.sleep(10_000)
            return await super().create(claim)

    async with lifecycle(claim(), cloud=Silent()) as run:
        await run.reconcile()

        assert run.is_gone
        assert {"launch_timeout": 1} == disrupted(run.bench)


@pytest.mark.case("V15-D43")
@in_virtual_time
async def test_pods_that_wait_for_the_claim_are_told() -> None:
    cloud = FakeCloud(failures={"create": [InsufficientCapacityError("sold out")]})
    async with lifecycle(claim(), node("elsewhere", provider_id="x://1"), cloud=cloud) as run:
        await run.bench.put(*(_pod(name) for name in ("waits", "bound", "replaced", "leaves")))
        planned = tuple(run.bench.world.mirror(Pod).list("default"))
        run.planned.pods[NAME] = (*planned, Pod(metadata=ObjectMeta(name="virtual", uid="v")))
        await run.bench.client.bind("default", "bound", "elsewhere")
        await run.bench.client.delete("v1", "Pod", "default", "replaced", grace_period=0)
        await run.bench.put(_pod("replaced"))
        body = {"metadata": {"finalizers": ["example.com/wait"]}}
        await run.bench.change("v1", "Pod", "leaves", body, namespace="default")
        await run.bench.client.delete("v1", "Pod", "default", "leaves", grace_period=0)
        await run.bench.settle()

        await run.reconcile()

        assert [("NodeClaim", NAME), ("Pod", "waits")] == [
            (event.target.kind, event.target.metadata.name)
            for event in run.bench.events.heard
            if isinstance(event.target, Resource)
        ]
        assert {"InsufficientCapacityError"} == set(run.bench.events.reasons)
        said = f"NodeClaim {NAME} nominated for this pod failed to launch: "
        assert run.bench.events.heard[1].message.startswith(said)


@pytest.mark.case("V15-D43")
@in_virtual_time
async def test_events_on_pods_are_few() -> None:
    cloud = FakeCloud(failures={"create": [InsufficientCapacityError("sold out")]})
    async with lifecycle(claim(), cloud=cloud) as run:
        await run.bench.put(*(_pod(f"pod-{number}") for number in range(15)))
        run.planned.pods[NAME] = tuple(run.bench.world.mirror(Pod).list("default"))

        await run.reconcile()

        assert 1 + 10 == len(run.bench.events.heard)


@in_virtual_time
async def test_one_slow_launch_does_not_delay_the_others() -> None:
    class OneSlow(FakeCloud):
        async def create(self, claim: NodeClaim) -> Instance:
            if claim.metadata.name == NAME:
                await self.clock.sleep(100)
            return await super().create(claim)

    async with lifecycle(claim(), claim("claim-2"), cloud=OneSlow()) as run:
        task = run_in_background([run.controller])
        await run.bench.clock.sleep(5)
        launched = {c.metadata.name: bool(c.status.provider_id) for c in run.claims}
        task.cancel()

        assert {NAME: False, "claim-2": True} == launched


@in_virtual_time
async def test_a_claim_that_has_come_to_rest_is_not_written_again() -> None:
    done = claim(stage="Initialized", status={"nodeName": "node-1"})
    async with lifecycle(done, node()) as run:
        await run.reconcile()
        before = len(run.wire.writes)

        await run.reconcile()

        assert before == len(run.wire.writes)
        assert 0 == count(run.bench, "nodes_created_total")


def _pod(name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "app", "image": "pause"}]},
    }
