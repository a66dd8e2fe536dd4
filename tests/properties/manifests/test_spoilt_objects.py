"""Whatever comes from a server is read or set aside, and nobody who follows it raises.

The objects come from a seeded generator; the real control plane gets the same ones in the slower
tier (``tests/e2e/sandbox/test_hostile_tier.py``).
"""

import json
import random
from typing import Any

import pytest

from helpers.autoscaler import MORE_GATES, Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.hostile_objects import hostile
from helpers.wire_samples import samples
from karpenter.api.codec import Unreadable, decode_event, decode_list, model_for, unreadable_in
from karpenter.api.meta import Resource
from karpenter.settings import Settings

EVERYTHING = Settings(feature_gates=MORE_GATES, ignore_dra_requests=False)
# So that the mirrors take them for newer than any list
VERSION = 10**12


def objects(seed: int, count: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    made = []
    for number in range(count):
        sample = rng.choice(samples())
        obj = hostile(rng, sample, name=f"hostile-{number}")
        obj["metadata"] |= {"resourceVersion": str(VERSION + number), "uid": f"uid-{number}"}
        made.append(obj)
    return made


def read(obj: dict[str, Any]) -> Resource | None:
    """An object as it comes out of a list and of a watch; None if it is set aside."""
    model = model_for(obj["apiVersion"], obj["kind"])
    page = decode_list(json.dumps({"items": [obj]}).encode(), model)
    event = decode_event(json.dumps({"type": "ADDED", "object": obj}).encode(), model)
    assert 1 == len(page.items) + len(unreadable_in(page))
    if not page.items:
        assert unreadable_in(page) == (event.object,)
        return None
    assert not isinstance(event.object, Unreadable)
    return page.items[0]


@pytest.mark.parametrize("seed", range(10))
def test_every_object_is_read_or_set_aside(seed: int) -> None:
    found = [read(obj) for obj in objects(seed, 300)]

    assert sum(each is not None for each in found) > 200


async def serves(it: Autoscaler, name: str) -> None:
    await it.apply(deployment(name, 3))
    await it.until(lambda: 3 == sum(pod["metadata"]["name"].startswith(name) for pod in it.running))


def panics(it: Autoscaler) -> set[str]:
    """Which controllers met something nobody foresaw."""
    return {
        sample.labels["controller"]
        for metric in it.metrics.controller_runtime_reconcile_panics_total.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and sample.value
    }


def follow_hostile(seed: int, count: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        async with autoscaler(kwok_pool(), settings=EVERYTHING) as it:
            await serves(it, "before")
            found = [each for obj in objects(seed, count) if (each := read(obj)) is not None]
            for each in found:
                it.world.mirror(type(each)).put(each)
            await it.pass_time(30)
            # Nodes that only the mirrors know would be waited for in vain
            for each in found:
                it.world.mirror(type(each)).drop(each)
            await serves(it, "after")

            assert set() == panics(it)

    scenario()


@pytest.mark.parametrize("seed", range(2))
def test_nobody_who_follows_the_mirrors_raises(seed: int) -> None:
    follow_hostile(seed, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 110))
def test_nobody_who_follows_the_mirrors_raises_however_often_it_is_tried(seed: int) -> None:
    follow_hostile(seed, 100)
