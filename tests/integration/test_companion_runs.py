"""A companion beside a cluster in virtual time: every launch and every removal is seen, and told once."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.rights import Recording, Right
from karpenter.dashboard.observed.watching import WatchedDecisions
from karpenter.dashboard.sources import FollowedCluster
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import DecisionRecord, Source
from karpenter.kube.read_only import ReadOnlyClient
from karpenter_sandbox.server.transport import MemoryTransport

SMALL = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4"]}
KEPT = {"consolidateAfter": "Never"}
QUICK = {"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]}


@dataclass
class Companion:
    """What stands beside a cluster."""

    watched: WatchedDecisions
    log: DecisionLog
    used: set[Right] = field(default_factory=set)

    @property
    def records(self) -> Sequence[DecisionRecord]:
        """What was seen, the oldest first."""
        return [*self.log.newest()][::-1]

    def about(self, kind: str, outcome: str) -> list[str]:
        """The first objects of records of a kind."""
        return [
            record.subject
            for record in self.records
            if (record.kind, record.outcome) == (kind, outcome)
        ]


@asynccontextmanager
async def companion(run: Autoscaler) -> AsyncIterator[Companion]:
    """A companion for as long as a block runs."""
    used: set[Right] = set()
    kube = ReadOnlyClient(Recording(MemoryTransport(run.cluster.api), used), run.clock)
    followed = FollowedCluster(kube, run.clock, rng=random.Random(1))
    log = DecisionLog()
    watched = WatchedDecisions(followed, log, run.clock)
    tasks = [asyncio.ensure_future(each) for each in (followed.run(), watched.run())]
    try:
        yield Companion(watched, log, used)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@in_virtual_time
async def test_launches_and_removals_of_another_controller_are_seen_and_told_once() -> None:
    async with autoscaler() as run:
        await run.apply(kwok_pool("general", SMALL, disruption=QUICK), deployment("web", 0))
        async with companion(run) as beside:
            await run.scale("web", 9)
            await run.pass_time(120)
            claims = {each["metadata"]["name"] for each in run.claims}
            await run.scale("web", 0)
            await run.pass_time(300)

            assert claims
            assert not run.claims
            made = beside.about("Provision", "done")
            assert {f"NodeClaim/{name}" for name in claims} <= set(made)
            for kind in ("Launch", "Register", "Initialize"):
                assert sorted(beside.about(kind, "done")) == sorted(made)
            gone = Counter(beside.about("Terminate", "done"))
            assert {name for name in gone if name.startswith("NodeClaim/")} == set(made)
            assert set(gone.values()) == {1}
            asked = Counter(beside.about("Disrupt", "done"))
            assert sum(asked.values()) == len(made)
            assert all(each.source is Source.OBSERVED for each in beside.records)
            assert len({each.id for each in beside.records}) == len(beside.records)
            assert {verb for _group, _resource, verb in beside.used} == {"list", "watch"}


@in_virtual_time
async def test_waiting_pods_have_the_node_that_is_on_its_way() -> None:
    async with autoscaler() as run:
        await run.apply(kwok_pool("general", SMALL), deployment("web", 3))
        async with companion(run) as beside:
            await run.pass_time(60)
            expected = beside.watched.nominations.targets
            places = {
                f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod["spec"]["nodeName"]
                for pod in run.pods
            }
            nodes = {each["status"]["nodeName"]: each["metadata"]["name"] for each in run.claims}

            assert expected.keys() == places.keys()
            for pod, place in expected.items():
                assert place in (places[pod], nodes[places[pod]])
            assert beside.watched.nominations.targets is expected


@pytest.mark.slow
@in_virtual_time
async def test_a_companion_that_comes_later_tells_the_last_hour_and_nothing_before() -> None:
    async with autoscaler() as run:
        await run.apply(kwok_pool("general", SMALL, disruption=KEPT), deployment("web", 1))
        await run.pass_time(3700)
        await run.apply(deployment("more", 1, cpu="3"))
        await run.pass_time(60)
        async with companion(run) as beside:
            await run.pass_time(30)
            names = {each["metadata"]["name"]: each for each in run.claims}
            told = {subject.partition("/")[2] for subject in beside.about("Launch", "done")}

            assert len(names) == 2
            youngest = max(names, key=lambda name: names[name]["metadata"]["creationTimestamp"])
            assert told == {youngest}
