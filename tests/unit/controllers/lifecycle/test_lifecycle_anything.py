"""Whatever happens, and wherever the process dies: nothing is launched twice, lost or taken back.

A story is a list of things that happen to one claim and its Node, with passes of the controller in
between, some of which are cut off before or after one of their writes. The promises are checked
whenever the cloud is asked for an instance, and after every chapter.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.autoscaler import FakeCloud
from helpers.claims import NAME, UNREGISTERED, V1, Lifecycle, claim, lifecycle, node
from helpers.manifests import taint
from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.clock import run_virtual
from karpenter.cloud.provider import CreateError, Instance
from karpenter.controllers.lifecycle.garbage_collection import InstanceGarbageCollector
from karpenter.kube.errors import KubeError
from karpenter.kube.transport import Request
from karpenter.model import labels
from karpenter.model.conditions import is_true

STARTUP: Final = taint("example.com/startup")
NODE: Final = "node-1"
STAGES: Final = ("Launched", "Registered", "Initialized")


class Crash(BaseException):
    """The process dies."""


@dataclass
class WitnessCloud(FakeCloud):
    """Looks at what is stored whenever it is asked for an instance."""

    stored: Callable[[], dict[str, Any] | None] = lambda: None
    launched_by_this_process: set[str] = field(default_factory=set)

    async def create(self, claim: NodeClaim) -> Instance:
        found = self.stored()
        assert found is not None, "an instance for a claim that is gone"
        metadata = found["metadata"]
        assert labels.TERMINATION in metadata["finalizers"], "launched before the finalizer"
        assert "deletionTimestamp" not in metadata, "launched although the claim is deleted"
        assert not found.get("status", {}).get("providerID"), "launched twice"
        uid = claim.metadata.uid
        assert uid not in self.launched_by_this_process, "asked again after an answer"
        instance = await super().create(claim)
        self.launched_by_this_process.add(uid)
        return instance


class Story:
    """One claim, and what happens to it."""

    def __init__(self, run: Lifecycle, cloud: WitnessCloud) -> None:
        self.run = run
        self.cloud = cloud
        self.reached: set[str] = set()  # stages that were true once
        self.freed = False  # the owner of the startup taint has taken it away

    async def passes(self) -> None:
        """The controller looks at the claim."""
        try:
            await self.run.reconcile()
        except (KubeError, CreateError):
            pass
        except Crash:
            self.run.wire.mend()
            self.cloud.launched_by_this_process.clear()
            self.run.controller = self.run.made()
            await self.run.bench.settle()

    async def crashes(self, number: int, *, after: bool) -> None:
        """The controller looks at the claim, and the process dies at a write."""
        left = number

        def count_down() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Crash

        def losing(request: Request) -> int:
            count_down()
            return 0

        if after:
            self.run.wire.answered = count_down
        else:
            self.run.wire.losing = losing
        await self.passes()
        self.run.wire.mend()

    async def refuses(self, code: int) -> None:
        """The API server refuses every write of a pass."""
        self.run.wire.losing = lambda request: code
        await self.passes()
        self.run.wire.mend()

    async def cloud_fails(self) -> None:
        """The next launch fails."""
        self.cloud.failures["create"] = [CreateError("Busy", "later")]

    async def joins(self) -> None:
        """The instance becomes a Node."""
        if self.cloud.instances and not self.run.bench.has(Node, NODE):
            provider_id = next(iter(self.cloud.instances))
            await self.run.join(node(NODE, provider_id=provider_id, taints=[UNREGISTERED]))

    async def turns(self, ready: str) -> None:
        """The Node becomes ready, or no longer is."""
        if self.run.bench.has(Node, NODE):
            condition = {"type": "Ready", "status": ready}
            body = {"status": {"conditions": [condition]}}
            await self.run.bench.change("v1", "Node", NODE, body, subresource="status")

    async def is_freed(self) -> None:
        """Whoever put the startup taint into the claim takes it off the registered Node."""
        if not self.run.bench.has(Node, NODE):
            return
        found = self.run.bench.node(NODE)
        if found.metadata.labels.get(labels.REGISTERED) == "true":
            left = [t for t in found.spec.taints if t.key != STARTUP["key"]]
            await self.run.taint(NODE, [{"key": t.key, "effect": t.effect} for t in left])
            self.freed = True

    async def waits(self, seconds: float) -> None:
        """Time passes."""
        await self.run.bench.clock.sleep(seconds)

    async def is_deleted(self) -> None:
        """A user deletes the claim."""
        if self.run.bench.has(NodeClaim, NAME):
            await self.run.bench.client.delete(V1, "NodeClaim", None, NAME)
            await self.run.bench.settle()

    async def collects(self) -> None:
        """The collector of stray instances has its turn."""
        await InstanceGarbageCollector(self.run.bench.world).step()
        await self.run.bench.settle()

    def check(self) -> None:
        """Nothing that was reached is taken back."""
        assert len(self.cloud.instances) <= 1
        if self.run.bench.has(NodeClaim, NAME):
            held = self.run.claim.status.conditions
            now = {stage for stage in STAGES if is_true(held, stage)}
            assert self.reached <= now
            self.reached = now
            if self.run.claim.metadata.deletion_timestamp is None and now:
                assert self.run.claim.status.provider_id in self.cloud.instances
        if self.run.bench.has(Node, NODE):
            self._check_node(self.run.bench.node(NODE))

    def _check_node(self, found: Node) -> None:
        keys = {each.key for each in found.spec.taints}
        if found.metadata.labels.get(labels.REGISTERED) == "true":
            assert labels.UNREGISTERED not in keys
            assert labels.TERMINATION in found.metadata.finalizers
            assert (STARTUP["key"] in keys) == (not self.freed)
        else:
            assert labels.UNREGISTERED in keys, "open for pods before it is registered"

    async def ends(self) -> None:
        """In the end the claim is deleted, and all it ever had is gone."""
        self.cloud.failures.clear()
        await self.is_deleted()
        for _ in range(3):
            await self.passes()
        await self.waits(120)
        await self.collects()

        assert not self.run.bench.has(NodeClaim, NAME)
        assert {} == self.cloud.instances


Chapter = tuple[str, Callable[[Story], Awaitable[None]]]
CHAPTERS: Final[tuple[Chapter, ...]] = (
    ("passes", Story.passes),
    ("passes again", Story.passes),
    *(
        (f"crashes {'after' if after else 'before'} write {number}", _crash)
        for number in (1, 2, 3, 4)
        for after in (False, True)
        for _crash in [lambda story, number=number, after=after: story.crashes(number, after=after)]
    ),
    ("is refused", lambda story: story.refuses(500)),
    ("conflicts", lambda story: story.refuses(409)),
    ("cloud fails", Story.cloud_fails),
    ("joins", Story.joins),
    ("is ready", lambda story: story.turns("True")),
    ("is not ready", lambda story: story.turns("False")),
    ("is freed", Story.is_freed),
    ("waits a little", lambda story: story.waits(20)),
    ("waits long", lambda story: story.waits(320)),
    ("is deleted", Story.is_deleted),
    ("collects", Story.collects),
)
BY_NAME: Final = dict(CHAPTERS)


async def tell(names: list[str]) -> Story:
    """Let a story happen, checking after every chapter."""
    cloud = WitnessCloud()
    bare = claim(metadata={"finalizers": []}, startupTaints=[STARTUP])
    async with lifecycle(bare, cloud=cloud) as run:
        store = run.bench.cluster.store
        cloud.stored = lambda: next(iter(store.list("karpenter.sh", "nodeclaims")), None)
        story = Story(run, cloud)
        for name in names:
            await BY_NAME[name](story)
            story.check()
        await story.ends()
        return story


@pytest.mark.storm
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(sorted(BY_NAME)), max_size=14))
def test_whatever_happens(names: list[str]) -> None:
    run_virtual(tell(names))


USUAL: Final = ["passes", "joins", "passes", "is ready", "is freed", "passes"]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_crash_at_every_write_of_the_usual_story(number: int, moment: str, place: int) -> None:
    names = [*USUAL[:place], f"crashes {moment} write {number}", *USUAL[place:]]

    story = run_virtual(tell(names))

    assert set(STAGES) == story.reached


def test_the_usual_story_reaches_every_stage() -> None:
    story = run_virtual(tell(USUAL))

    assert set(STAGES) == story.reached
