"""A cluster that is rebalanced while workloads grow and shrink; one run for a seed, replayed by it.

    PYTHONPATH=tests .venv/bin/python tests/integration/storms/rebalance_storm.py SEED

For a quarter of an hour workloads change, and in every second run requests fail, watches break,
capacity sells out and processes die. At every moment: no pod is deleted without an eviction, no
disruption budget of pods or of nodes is exceeded (where nothing fails by itself), and no more pods
are moved than may be. In the end nothing is leaked, and no further command starts.
"""

import math
import random
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, deployment, kwok_pool
from helpers.priced_catalogues import ZONES, dear_when_large
from helpers.storms import allowed_by_budget, holds, is_tainted, one_unavailable, replay
from karpenter.clock import Clock
from karpenter.cloud.kwok.faults import OfferingPattern
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import CloudProvider
from karpenter.kube.client import Client
from karpenter.kube.transport import Request, Transport
from karpenter.settings import MinTypes, Percentage, Settings
from karpenter.simulate.engine.traffic import SeenTransport
from karpenter.simulate.faults import Faults, FaultyTransport, SequentialDice
from karpenter.simulate.invariants import made_nodes, problems

STORM_SECONDS: Final = 900.0
REST_SECONDS: Final = 1500.0
STEADY: Final = 6  # replicas of the workload with a budget; they stay the same
SHARE: Final = 60.0  # percent of all pods that may be moved in an hour
COOLDOWN: Final = timedelta(minutes=5)
ON_DEMAND: Final = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


@dataclass
class Watch:
    """What happens in a run, and what should not have."""

    is_calm: bool  # nothing fails by itself
    run: Autoscaler | None = None
    broken: list[str] = field(default_factory=list)
    most_pods: int = 0  # that there were at any time
    moved: float = 0.0

    def wrap(self, transport: Transport) -> Transport:
        return SeenTransport(transport, self.wrote)

    def wrote(self, request: Request) -> None:
        """Look at a write that has just been carried out."""
        if request.method == "DELETE" and "/pods/" in request.path:
            self.broken.append(f"a pod was deleted rather than evicted: {request.path}")
        if self.is_calm and request.method == "PATCH" and "/api/v1/nodes/" in request.path:
            self._check_node_budget()

    def look(self) -> None:
        """Look at the cluster as it is now."""
        run = self.run
        assert run is not None
        self.most_pods = max(self.most_pods, len(run.pods))
        self.moved = _moved(run)
        if self.is_calm:
            healthy = sum(
                pod["metadata"].get("labels", {}).get("app") == "steady"
                and "deletionTimestamp" not in pod["metadata"]
                and holds(pod, "Ready")
                for pod in run.pods
            )
            if healthy < STEADY - 1:
                self.broken.append(f"{STEADY - healthy} pods of a workload that allows one to go")

    def _check_node_budget(self) -> None:
        run = self.run
        assert run is not None
        claims = {c.get("status", {}).get("providerID"): c for c in run.claims}
        nodes = [
            node
            for node in made_nodes(run)
            if node["metadata"]["labels"].get("karpenter.sh/initialized") == "true"
            and node["spec"]["providerID"] in claims
            and not holds(claims[node["spec"]["providerID"]], "InstanceTerminating")
        ]
        going = [
            node
            for node in nodes
            if "deletionTimestamp" in claims[node["spec"]["providerID"]]["metadata"]
            or is_tainted(node)
        ]
        (pool,) = run.objects("karpenter.sh", "nodepools")
        allowed = allowed_by_budget(pool, len(nodes))
        if len(going) > allowed:
            self.broken.append(f"{len(going)} of {len(nodes)} nodes go, and {allowed} may")


class LoadAndFaults:
    """What goes wrong by itself: nothing in even runs, anything in odd ones."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.is_calm = seed % 2 == 0
        self.clouds: list[KwokProvider] = []
        worst = 0.0 if self.is_calm else self.rng.choice((0.01, 0.05))
        self._faults = Faults(
            **{name: self.rng.uniform(0, worst) for name in Faults.__dataclass_fields__}
        )

    def wrap(self, transport: Transport) -> Transport:
        dice = SequentialDice(random.Random(self.rng.random()))
        return FaultyTransport(transport, self._faults, dice, is_calm=lambda: self.is_calm)

    def cloud(self, kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
        cloud = KwokProvider(kube, clock, dear_when_large())
        self.clouds.append(cloud)
        return cloud

    async def strike(self, run: Autoscaler) -> None:
        """Change the load, or let something go wrong."""
        rng, cloud = self.rng, self.clouds[-1].faults
        match rng.randrange(4 if self.is_calm else 8):
            case 0 | 1 | 2 | 3:
                await run.scale(rng.choice(("web", "api")), rng.randrange(2, 30))
            case 4:
                await run.kill()
                run.start()
            case 5:
                lasts = timedelta(seconds=rng.uniform(10, 300))
                cloud.sell_out(OfferingPattern(zone=rng.choice(ZONES)), lasts=lasts)
            case 6:
                cloud.launch_seconds = rng.choice((0.0, 1.0, 20.0))
            case 7:
                claims = sorted(claim["metadata"]["name"] for claim in run.claims)
                if claims:
                    name = rng.choice(claims)
                    await run.client.delete("karpenter.sh/v1", "nodeclaims", None, name)

    def end(self) -> None:
        """Let nothing go wrong from now on."""
        self.is_calm = True
        for cloud in self.clouds:
            cloud.faults.restock()
            cloud.faults.launch_seconds = 0.0


def settings(seed: int) -> Settings:
    """Every second calm run, and every second one with faults, binds the pods that move."""
    return Settings(
        rebalance="On",
        early_binding=seed % 4 in (0, 3),
        rebalance_moves=Percentage(SHARE),
        rebalance_cooldown=COOLDOWN,
        packing_min_types=MinTypes(1, 1),
    )


def objects(rng: random.Random) -> list[JsonObject]:
    disruption = {
        "consolidateAfter": rng.choice(("0s", "15s")),
        "budgets": [{"nodes": rng.choice(("2", "50%", "100%"))}],
    }
    return [
        kwok_pool("default", *rng.choice(([], [ON_DEMAND])), disruption=disruption),
        one_unavailable("steady"),
        deployment("steady", STEADY, cpu=rng.choice(("300m", "1"))),
        deployment("web", rng.randrange(5, 30), cpu=rng.choice(("500m", "900m", "1700m"))),
        deployment("api", rng.randrange(5, 25), cpu=rng.choice(("250m", "1")), memory="1Gi"),
    ]


async def ridden_out(seed: int) -> list[str]:
    """Run with the changes and faults of a seed, and return what is wrong."""
    found, _ = await lived(seed)
    return found


async def lived(seed: int) -> tuple[list[str], float]:
    """What is wrong after the run of a seed, and how many pods rebalancing moved in it."""
    changes = LoadAndFaults(seed)
    watch = Watch(changes.is_calm)
    options: dict[str, Any] = {
        "wrap": lambda transport: changes.wrap(watch.wrap(transport)),
        "make_cloud": changes.cloud,
        "settings": settings(seed),
        "seed": seed,
        "starts": False,
    }
    async with autoscaler(*objects(changes.rng), **options) as run:
        watch.run = run
        run.start()
        await run.pass_time(60)
        ends = run.clock.monotonic() + STORM_SECONDS
        while run.clock.monotonic() < ends:
            await changes.strike(run)
            for _ in range(changes.rng.randrange(5, 40)):
                await run.pass_time(2)
                watch.look()
        changes.end()
        await run.pass_time(REST_SECONDS)
        begun = len(_commands(run))
        watch.look()
        most = max(1, math.floor(watch.most_pods * SHARE / 100))
        if watch.moved > most:  # the whole run takes less than an hour
            watch.broken.append(f"{watch.moved:g} pods were moved, and {most} may be in an hour")
        await run.pass_time(REST_SECONDS)
        late = _commands(run)[begun:]
        # A plan that the scheduler does not follow is retried with back-off
        if len(late) > 1:
            watch.broken.append(f"it never comes to rest: {late}")
        closed = [n["metadata"]["name"] for n in made_nodes(run) if is_tainted(n)]
        watch.broken += [f"{name} is closed" for name in closed]
        return [*watch.broken, *problems(run)], watch.moved


def _commands(run: Autoscaler) -> list[tuple[str, int, int]]:
    return [
        (line["decision"], line["disrupted-node-count"], line["replacement-node-count"])
        for line in run.lines
        if line["message"] == "disrupting node(s)"
    ]


def _moved(run: Autoscaler) -> float:
    (family,) = run.metrics.rebalance_pods_moved_total.collect()
    return sum(sample.value for sample in family.samples if sample.name.endswith("_total"))


if __name__ == "__main__":
    sys.exit(replay(ridden_out))
