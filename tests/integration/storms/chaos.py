"""A cluster under injected faults: one run for a seed, replayed by the same seed.

    PYTHONPATH=tests .venv/bin/python tests/integration/storms/chaos.py SEED

For ten minutes requests fail, answers get lost, watches break, the cloud is slow or sold out, the
wall clock jumps and processes die, while workloads come and go. Then the faults stop, and after
a settling time the cluster must have converged.
"""

import random
import sys
from datetime import datetime, timedelta
from typing import Any

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.decision_lines import decision_problems
from helpers.storms import replay
from karpenter.clock import Clock, VirtualClock, running_clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.faults import OfferingPattern
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import CloudProvider, CreateError
from karpenter.kube.client import Client
from karpenter.kube.transport import Transport
from karpenter.simulate.faults import Faults, FaultyTransport, SequentialDice
from karpenter.simulate.invariants import made_nodes, problems

STORM_SECONDS = 600.0
REST_SECONDS = 1500.0  # longer than a launch may take before it is given up
ZONES = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
SMALL = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2", "4", "8"]}


class JumpingClock(VirtualClock):
    """The time of the cluster, with an offset of the process's wall clock."""

    def __init__(self, inner: Clock) -> None:
        assert isinstance(inner, VirtualClock)
        super().__init__(inner._loop)
        self.offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset


class Storm:
    """What goes wrong, drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.is_over = False
        self.clock = JumpingClock(running_clock())
        self.clouds: list[KwokProvider] = []
        worst = self.rng.choice((0.02, 0.1, 0.25))
        self.faults = Faults(
            **{name: self.rng.uniform(0, worst) for name in Faults.__dataclass_fields__}
        )

    def wrap(self, transport: Transport) -> Transport:
        dice = SequentialDice(random.Random(self.rng.random()))
        return FaultyTransport(transport, self.faults, dice, is_calm=lambda: self.is_over)

    def cloud(self, kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
        cloud = KwokProvider(kube, clock, built_in())
        self.clouds.append(cloud)
        return cloud

    async def strike(self, run: Autoscaler) -> None:
        """Do one more thing to the cluster, its cloud or its controllers."""
        cloud = self.clouds[-1].faults
        rng = self.rng
        match rng.randrange(9):
            case 0 | 1:
                await run.scale(rng.choice(("web", "api")), rng.randrange(0, 12))
            case 2:
                await run.kill()
                run.start()
            case 3:
                lasts = timedelta(seconds=rng.uniform(10, 300))
                for zone in rng.sample(ZONES, rng.randrange(1, 4)):
                    cloud.sell_out(OfferingPattern(zone=zone), lasts=lasts)
            case 4:
                cloud.launch_seconds = rng.choice((0.0, 1.0, 20.0))
            case 5:
                cloud.fail_launches(
                    lambda: CreateError("CloudIsIll", "try again"), rng.randrange(3)
                )
            case 6:
                self.clock.offset = timedelta(seconds=rng.choice((-30, -2, 0, 2, 30)))
            case 7:
                await self._delete(run, "v1", "nodes", made_nodes(run))
            case 8:
                await self._delete(run, "karpenter.sh/v1", "nodeclaims", run.claims)

    async def _delete(
        self, run: Autoscaler, api_version: str, plural: str, found: list[JsonObject]
    ) -> None:
        if found:
            name = self.rng.choice(found)["metadata"]["name"]
            await run.client.delete(api_version, plural, None, name)

    def end(self) -> None:
        """Stop all faults."""
        self.is_over = True
        self.clock.offset = timedelta()
        for cloud in self.clouds:
            cloud.faults.restock()
            cloud.faults.launch_seconds = 0.0


async def ridden_out(seed: int) -> list[str]:
    """Run with the faults of a seed, and return what is wrong afterwards."""
    storm = Storm(seed)
    objects = (kwok_pool("default", SMALL), deployment("web", 5), deployment("api", 3, cpu="1500m"))
    options: dict[str, Any] = {"wrap": storm.wrap, "make_cloud": storm.cloud, "seed": seed}
    async with autoscaler(*objects, clock=storm.clock, **options) as run:
        ends = run.clock.monotonic() + STORM_SECONDS
        while run.clock.monotonic() < ends:
            await run.pass_time(storm.rng.uniform(1, 60))
            await storm.strike(run)
        storm.end()
        await run.pass_time(REST_SECONDS)
        records = tuple(run.decisions.newest())[::-1]
        told = decision_problems(run.lines, records)
        return [*problems(run), *told]


if __name__ == "__main__":
    sys.exit(replay(ridden_out))
