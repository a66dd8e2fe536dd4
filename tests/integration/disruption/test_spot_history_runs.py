"""Interruptions of the simulated AWS are counted, kept, and used by the next process."""

from typing import Any

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.aws_sandbox import aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from karpenter.scheduling.spot.history import SpotHistory
from karpenter.scheduling.spot.risk import Seen
from karpenter.settings import Settings

PRICED = Settings(spot_interruption_cost=1.0, leader_election_namespace="kube-system")


def kept(run: Autoscaler) -> SpotHistory | None:
    found: list[dict[str, Any]] = [
        each
        for each in run.objects("", "configmaps")
        if each["metadata"]["name"] == "karpenter-spot-history"
    ]
    return SpotHistory.of_text(found[0]["data"]["history"]) if found else None


def total(run: Autoscaler) -> Seen:
    history = kept(run)
    seen = list(history.seen().values()) if history is not None else []
    return Seen(sum(each.interruptions for each in seen), sum(each.hours for each in seen))


@in_virtual_time
async def test_an_interruption_is_counted_once_and_kept() -> None:
    async with aws_sandbox(ec2_pool(), settings=PRICED) as box:
        run = box.run
        await run.apply(deployment("app", 2, cpu="1"))
        await run.until(lambda: len(run.running) == 2)
        name = min(node["metadata"]["name"] for node in run.nodes)

        await box.world.interrupt(name)
        await run.pass_time(650)

        assert 1 == total(run).interruptions
        assert 0.1 < total(run).hours < 1.0
        assert total(run).interruptions == sum(
            each.interruptions for each in run.world.spot_seen.values()
        )

        before = total(run)
        await run.kill()
        run.start()
        await run.pass_time(650)
        assert 1 == total(run).interruptions
        assert total(run).hours > before.hours


@in_virtual_time
async def test_nothing_is_kept_without_a_price() -> None:
    async with autoscaler(kwok_pool(), deployment("app", 1)) as run:
        await run.pass_time(650)

        assert kept(run) is None
