"""Spot is sold out, claims fall back to on-demand, and return once it has been on sale again."""

import json
from datetime import timedelta
from typing import Any

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.cloud.kwok.faults import SOLD_OUT, OfferingPattern
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.model import labels

KWOK_CLASS = ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", "", "default")
ON_SPOT = OfferingPattern(capacity_type="spot")


def pool() -> dict[str, Any]:
    made = kwok_pool()
    made["metadata"]["annotations"] = {"cost.karpenter.sh/return-to-spot": "30m"}
    return made


def faults(run: Autoscaler) -> Any:
    assert isinstance(run.cloud, KwokProvider)
    return run.cloud.faults


def bought(run: Autoscaler) -> list[str]:
    return sorted(each["metadata"]["labels"][labels.CAPACITY_TYPE] for each in run.claims)


@in_virtual_time
async def test_a_fallback_returns_once_spot_has_been_on_sale_for_the_wait() -> None:
    async with autoscaler(pool(), deployment("web", 1), starts=False) as run:
        run.start()
        faults(run).sell_out(ON_SPOT, lasts=timedelta(minutes=10))
        await run.until(lambda: len(run.running) == 1)

        assert ["on-demand"] == bought(run)
        (claim,) = run.claims
        assert labels.FELL_BACK in claim["metadata"]["annotations"]
        await run.pass_time(10 * 60 + 28 * 60)
        assert ["on-demand"] == bought(run)
        assert labels.SPOT_ON_SALE in run.claims[0]["metadata"]["annotations"]
        await run.until(lambda: bought(run) == ["spot"], seconds=10 * 60)
        assert [] == [text for text in map(json.dumps, run.claims) if labels.FELL_BACK in text]


@in_virtual_time
async def test_the_wait_goes_on_in_a_new_process() -> None:
    async with autoscaler(pool(), deployment("web", 1), starts=False) as run:
        run.start()
        faults(run).sell_out(ON_SPOT, lasts=timedelta(minutes=5))
        await run.until(lambda: len(run.running) == 1)
        await run.pass_time(20 * 60)
        before = run.claims[0]["metadata"]["annotations"][labels.SPOT_ON_SALE]

        await run.kill()
        run.start()
        await run.pass_time(5 * 60)

        assert before == run.claims[0]["metadata"]["annotations"][labels.SPOT_ON_SALE]
        await run.until(lambda: bought(run) == ["spot"], seconds=20 * 60)


@in_virtual_time
async def test_a_return_that_fails_doubles_the_wait() -> None:
    async with autoscaler(pool(), deployment("web", 1), starts=False) as run:
        await annotate(run, {SOLD_OUT: "*/*/spot"})  # found out by launches alone
        run.start()
        await run.until(lambda: len(run.running) == 1)
        assert ["on-demand"] == bought(run)

        await run.until(lambda: failures(run) == ["1"], seconds=45 * 60)
        await annotate(run, {SOLD_OUT: None})
        await run.pass_time(58 * 60)
        assert ["on-demand"] == bought(run)
        await run.until(lambda: bought(run) == ["spot"], seconds=15 * 60)


async def annotate(run: Autoscaler, annotations: dict[str, str | None]) -> None:
    body = {"metadata": {"annotations": annotations}}
    await run.client.patch("merge", *KWOK_CLASS, body)


def failures(run: Autoscaler) -> list[str]:
    """How often the return of each claim has failed."""
    held = (each["metadata"].get("annotations", {}) for each in run.claims)
    return [each[labels.RETURN_FAILED] for each in held if labels.RETURN_FAILED in each]
