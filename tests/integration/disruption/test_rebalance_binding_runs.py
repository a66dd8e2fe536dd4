"""With early binding, the pods that a rebalance moves get the places that it planned for them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.crashes import CrashPoint, first_dies_at
from helpers.priced_catalogues import PRICES, dear_when_large
from integration.storms.rebalance_storm import ON_DEMAND
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.kube.transport import Transport
from karpenter.model.labels import AWAITS_PODS
from karpenter.settings import MinTypes, Percentage, Settings
from karpenter.simulate.invariants import problems

ON: Final = Settings(
    rebalance="On",
    early_binding=True,
    rebalance_moves=Percentage(100.0),
    packing_min_types=MinTypes(1, 1),
    rebalance_cooldown=timedelta(minutes=10),
)
SMALL: Final = 4
PODS: Final = SMALL + 1
DELETION: Final = "DELETE /apis/karpenter.sh/v1/nodeclaims/"


@asynccontextmanager
async def cluster(
    settings: Settings = ON, wrap: Callable[[Transport], Transport] = lambda transport: transport
) -> AsyncIterator[Autoscaler]:
    """One dear machine with a large pod and four small ones, left over by a burst.

    Two of the small machines hold them, but only if the small pods do not spread.
    """
    disruption = {"consolidateAfter": "15s", "budgets": [{"nodes": "100%"}]}
    kinds = tuple(kind for kind in dear_when_large() if kind.name in ("m", "x"))
    is_ours = False

    def wrapped(transport: Transport) -> Transport:
        return wrap(transport) if is_ours else transport

    async with autoscaler(
        kwok_pool("default", ON_DEMAND, disruption=disruption),
        deployment("burst", 20, cpu="900m"),
        deployment("large", 1, cpu="3500m"),
        deployment("small", SMALL, cpu="800m"),
        settings=replace(settings, rebalance="Off"),
        make_cloud=lambda kube, clock, rng: KwokProvider(kube, clock, kinds),
        wrap=wrapped,
    ) as run:
        await run.until(lambda: len(run.running) == PODS + 20)
        assert ["x"] == types(run)
        await run.kill()
        await run.scale("burst", 0)
        await run.until(lambda: len(run.pods) == PODS)
        run.settings = settings
        is_ours = True
        run.start()
        yield run


def types(run: Autoscaler) -> list[str]:
    return sorted(
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in run.nodes
    )


def closed(run: Autoscaler) -> list[str]:
    """The nodes that are kept from the scheduler."""
    return [
        node["metadata"]["name"]
        for node in run.nodes
        if AWAITS_PODS in node["metadata"].get("annotations", {})
        or any(taint["key"] == AWAITS_PODS for taint in node["spec"].get("taints") or ())
    ]


def placed(run: Autoscaler) -> list[list[str]]:
    """The applications on each node that has some."""
    found: dict[str, list[str]] = {}
    for pod in run.running:
        found.setdefault(pod["spec"]["nodeName"], []).append(pod["metadata"]["labels"]["app"])
    return sorted(sorted(apps) for apps in found.values())


def begun(run: Autoscaler) -> list[str]:
    return [line["method"] for line in run.lines if line["message"] == "disrupting node(s)"]


def refusals(run: Autoscaler) -> float:
    """How often kube-scheduler was found to undo a move."""
    (family,) = run.metrics.rebalance_refusals_total.collect()
    reasons = (s for s in family.samples if s.labels.get("reason") == "PredictedRedisruption")
    return sum(sample.value for sample in reasons if sample.name.endswith("_total"))


def created(run: Autoscaler) -> int:
    return sum(line["message"] == "created nodeclaim" for line in run.lines)


@pytest.mark.case("OPT-45")
@pytest.mark.parametrize("binds", [False, True])
@in_virtual_time
async def test_pods_that_the_scheduler_would_spread_move_only_if_they_are_bound(
    binds: bool,
) -> None:
    async with cluster(replace(ON, early_binding=binds)) as run:
        before = created(run)
        await run.pass_time(900)

        assert binds is not bool(refusals(run))
        assert (["rebalance"] if binds else []) == begun(run)
        assert (["m", "m"] if binds else ["x"]) == types(run)
        assert PODS == len(run.running)
        if binds:
            assert [["large"], ["small"] * SMALL] == placed(run)
            assert 2 == created(run) - before
            assert 0.38 == pytest.approx(sum(PRICES[kind] for kind in types(run)))
        assert [] == closed(run)
        assert [] == problems(run)


@in_virtual_time
async def test_a_pod_that_is_not_wanted_any_more_keeps_no_node_closed() -> None:
    async with cluster() as run:
        await run.until(lambda: bool(closed(run)), step=0.01)
        await run.scale("small", 1)
        await run.pass_time(60)

        assert [["large"], ["small"]] == placed(run)
        assert [] == closed(run)
        assert [] == problems(run)


async def writes_of_a_move() -> list[str]:
    """The writes of a process that rebalances, from its start until it has come to rest."""
    point = CrashPoint(at=-1)
    async with cluster(wrap=first_dies_at(point)) as run:
        await run.until(lambda: bool(closed(run)), step=0.01)
        await run.until(lambda: not closed(run) and ["m", "m"] == types(run))
    return point.writes


async def dies_at(point: CrashPoint, *, is_finished: bool = True) -> None:
    """Let a process die in the middle of a move, and see the next one finish it.

    ``is_finished``: else it has moved no pod, and the next one may begin anew later.
    """
    async with cluster(wrap=first_dies_at(point)) as run:
        before = created(run)
        await run.until(point.happened.is_set)
        await run.kill()
        await run.pass_time(5)
        run.start()
        await run.pass_time(900)

        where = point.writes[-1]
        assert PODS == len(run.running), where
        assert [] == closed(run), where
        assert [] == problems(run), where
        if is_finished:
            assert [["large"], ["small"] * SMALL] == placed(run), where
            assert ["m", "m"] == types(run), where
            assert 2 >= created(run) - before, where


@in_virtual_time
async def test_a_process_that_dies_between_eviction_and_binding() -> None:
    writes = await writes_of_a_move()
    bindings = [number for number, text in enumerate(writes) if text.endswith("/binding")]

    assert PODS == len(bindings)
    await dies_at(CrashPoint(bindings[0]))
    await dies_at(CrashPoint(bindings[2], is_before=False))


@pytest.mark.slow
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@in_virtual_time
async def test_a_process_that_dies_at_any_write_of_a_move(is_before: bool) -> None:
    writes = await writes_of_a_move()
    (deletion,) = [n for n, text in enumerate(writes) if text.startswith(DELETION)]
    noted = deletion - 5  # two replacements and a pool are told, and two nodes are closed

    for number in range(noted, len(writes)):
        has_begun = number > deletion or (number == deletion and not is_before)
        await dies_at(CrashPoint(number, is_before=is_before), is_finished=has_begun)
