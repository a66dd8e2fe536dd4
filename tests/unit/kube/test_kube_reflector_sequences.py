"""However a reflector is treated, the mirror ends exact and its followers heard a true story."""

import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.clusters import running
from helpers.server import config_map
from karpenter.api.cluster import ConfigMap
from karpenter.api.codec import WatchEvent, convert_as
from karpenter.api.meta import ObjectList, Resource
from karpenter.clock import run_virtual
from karpenter.kube.client import Client
from karpenter.kube.mirror import Mirror
from karpenter.kube.reflector import Reflector
from unit.kube.flaky import Break, FlakyCluster, Refusal

R = TypeVar("R", bound=Resource)

# Few names, so that objects are removed and made again under the same one
NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
CHANGES = st.tuples(st.sampled_from(["create", "change", "delete", "own write"]), NAMES)
BREAKS = st.tuples(st.just("break"), st.sampled_from(list(Break)))
REFUSALS = st.tuples(st.just("refuse"), st.sampled_from([0, 410, 429, 500, 504]))
TIME = st.tuples(st.just("wait"), st.sampled_from([0.0, 0.1, 1.0, 5.0, 70.0, 400.0]))
BURSTS = st.tuples(st.just("burst"), NAMES)
DELAYS = st.tuples(st.just("slow answers"), st.sampled_from([0.0, 0.5, 3.0]))
STEPS = st.lists(CHANGES | BREAKS | REFUSALS | TIME | DELAYS | BURSTS, max_size=50)


class Shuffled:
    """Gives the items of a page in any order, which the API does not promise one of."""

    def __init__(self, kube: Client, rng: random.Random) -> None:
        self._kube = kube
        self._rng = rng

    async def page(
        self, kind: type[R], *, limit: int = 0, continue_token: str = ""
    ) -> ObjectList[R]:
        page = await self._kube.page(kind, limit=limit, continue_token=continue_token)
        items = list(page.items)
        self._rng.shuffle(items)
        return msgspec.structs.replace(page, items=tuple(items))

    def watch(
        self, kind: type[R], *, resource_version: str, seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[R]]]:
        return self._kube.watch(kind, resource_version=resource_version, seconds=seconds)


class Story:
    """What a follower hears; it objects to what cannot be true."""

    def __init__(self) -> None:
        self.known: dict[str, ConfigMap] = {}
        self.gone: set[str] = set()  # uids

    def hear(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        some = new or old
        assert some is not None
        name = some.metadata.name
        assert self.known.get(name) is old, "a change starts from what was told before"
        if old is not None and new is not None and old.metadata.uid == new.metadata.uid:
            versions = (int(old.metadata.resource_version), int(new.metadata.resource_version))
            assert versions[0] < versions[1], "an object never goes back"
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self.gone.add(old.metadata.uid)
        if new is None:
            del self.known[name]
        else:
            assert new.metadata.uid not in self.gone, "what is gone does not come back"
            self.known[name] = new


class Run:
    """One cluster, one reflector, and the steps that are taken."""

    def __init__(self, seed: int) -> None:
        self.cluster = FlakyCluster(history=4)  # so short that it is lost now and then for real
        self.mirror = Mirror(ConfigMap)
        self.story = Story()
        self.mirror.on_change(self.story.hear)
        rng = random.Random(seed)
        source = Shuffled(self.cluster.kube, rng)
        self.reflector = Reflector(
            source, ConfigMap, self.mirror, self.cluster.clock, rng=rng, page_size=2
        )
        self._count = 0

    async def take(self, step: tuple[str, Any]) -> None:
        match step:
            case ("break", how):
                self.cluster.transport.break_watches(how)
            case ("refuse", status):
                self.cluster.transport.refuse(Refusal(status))
            case ("slow answers", seconds):
                self.cluster.transport.answer_delay = seconds
            case ("burst", name):
                await self._burst(name)
            case ("wait", seconds):
                await self.cluster.clock.sleep(seconds)
            case (verb, name):
                await self._change(verb, name)

    async def _burst(self, name: str) -> None:
        """Change so much at once that the history is lost, and what was there before is gone."""
        await self._change("delete", name)
        for _ in range(5):
            await self._change("create", "burst")
            await self._change("delete", "burst")

    async def _change(self, verb: str, name: str) -> None:
        direct = self.cluster.direct
        self._count += 1
        exists = name in self.stored()
        if verb == "create" and not exists:
            await direct.create(config_map(name, count=str(self._count)))
        elif verb == "delete" and exists:
            await direct.delete("v1", "ConfigMap", "default", name)
        elif exists:
            patch = {"data": {"count": str(self._count)}}
            answer = await direct.patch("merge", "v1", "ConfigMap", "default", name, patch)
            if verb == "own write":
                self.mirror.put(convert_as(answer, ConfigMap))

    def stored(self) -> dict[str, tuple[str, str]]:
        """Name -> uid and version of what the server holds."""
        return {
            obj["metadata"]["name"]: (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])
            for obj in self.cluster.store.list("", "configmaps")
        }

    def mirrored(self) -> dict[str, tuple[str, str]]:
        return {
            obj.metadata.name: (obj.metadata.uid, obj.metadata.resource_version)
            for obj in self.mirror.list()
        }

    async def play(self, steps: list[tuple[str, Any]]) -> None:
        await self.cluster.begin()
        async with running(self.reflector.run()):
            for step in steps:
                await self.take(step)
            self.cluster.transport.refusals.clear()
            self.cluster.transport.answer_delay = 0.0
            # Longer than a silent watch is borne, and a few pauses
            await self.cluster.clock.sleep(500)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(0, 1000))
def test_the_mirror_is_exact_in_the_end_and_the_story_was_true(
    steps: list[tuple[str, Any]], seed: int
) -> None:
    async def scenario() -> Run:
        run = Run(seed)
        await run.play(steps)
        return run

    run = run_virtual(scenario())

    assert run.stored() == run.mirrored()
    assert run.mirrored().keys() == run.story.known.keys()
    assert run.mirror.is_synced
