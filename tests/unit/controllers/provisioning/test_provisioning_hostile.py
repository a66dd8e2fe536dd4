"""Pods that list thousands of wishes: others are served first, and their owners are told."""

import asyncio

import pytest

from helpers.autoscaler import JsonObject
from helpers.clusters import in_virtual_time
from helpers.provisioning import provisioning, ready_pool, waiting_pod


def hostile_pod(name: str, wishes: int = 3000, *, cpu: str = "1") -> JsonObject:
    """A pod with so many wishes to be apart from others, like no other pod's."""
    terms = [
        {
            "weight": 1,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": f"{name}-{number}"}},
            },
        }
        for number in range(wishes)
    ]
    apart = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    return waiting_pod(name, cpu=cpu, affinity={"podAntiAffinity": apart})


@in_virtual_time
async def test_a_hostile_pod_is_told_that_it_comes_last_and_so_it_does() -> None:
    async with provisioning(ready_pool(), hostile_pod("harm", cpu="2"), waiting_pod()) as run:
        claims = await run.provision()

        ((name, message),) = run.events("CostlyToPlan")
        served = [pod for claim in claims for pod in run.planned.pods_of(claim.metadata.name)]
        assert "harm" == name
        assert "it lists 3,000 alternatives and preferences" in message
        assert ["web", "harm"] == [pod.metadata.name for pod in served]
        assert [] == run.events("FailedScheduling")


@in_virtual_time
async def test_hostile_pods_whose_turn_has_not_come_hurry_nobody_and_come_first_later() -> None:
    harm = [hostile_pod(f"harm-{number}", 300, cpu="1") for number in range(12)]
    async with provisioning(ready_pool(), *harm, waiting_pod()) as run:
        await run.provision()
        late = set(run.provisioner._first)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.batcher.batch(), 60)
        for claim in run.claims:
            await run.launch(claim, cpu="64", memory="64Gi", pods="100")
        await run.at.settle()
        await run.provision()

        assert late
        assert not late & set(run.provisioner._first)
