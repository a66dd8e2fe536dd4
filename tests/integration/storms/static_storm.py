"""A static pool under injected faults: one run for a seed, replayed by the same seed.

    PYTHONPATH=tests .venv/bin/python tests/integration/storms/static_storm.py SEED

For ten minutes the replicas, the limit and the template of the pool change, alone and together,
while requests fail, answers come late or never, machines are sold out or slow, claims are deleted
by hand and the controllers are killed. A witness in the API server checks every claim at its
creation. Then the faults stop, and the pool must converge to its last spec.
"""

import random
import sys
from bisect import bisect_right
from datetime import timedelta
from typing import Any, Final

from helpers.autoscaler import Autoscaler, JsonObject, autoscaler, gates, kwok_pool
from helpers.storms import replay
from karpenter.api.karpenter import NodePool
from karpenter.clock import Clock, running_clock
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.cloud.kwok.faults import OfferingPattern
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import CloudProvider, CreateError
from karpenter.kube.client import Client
from karpenter.kube.transport import Request, Response, Transport
from karpenter.scheduling.static_pools import StaticOutcome, plan_static
from karpenter.settings import Settings
from karpenter.simulate.engine.traffic import PassingTransport
from karpenter.simulate.faults import Faults, FaultyTransport, SequentialDice
from karpenter.simulate.invariants import problems
from karpenter.state.cluster import snapshot_of
from karpenter_sandbox.store.store import Event

STORM_SECONDS: Final = 600.0
REST_SECONDS: Final = 3000.0  # longer than two launches may take before they are given up
NEWS_SECONDS: Final = 40.0  # how long a changed spec may take to reach a controller
YOUNG_SECONDS: Final = 60.0
POOL: Final = "fixed"
MOST: Final = 6
REPLACES: Final = "karpenter.sh/nodeclaim-replaces"
HASH: Final = "karpenter.sh/nodepool-hash"
SURPLUS: Final = "deleting surplus nodeclaim"
TYPE: Final = {
    "key": "node.kubernetes.io/instance-type",
    "operator": "In",
    "values": ["c-4x-amd64-linux"],
}
UNLIMITED: Final = 10**9


class LateAnswers(PassingTransport):
    """A transport whose answers to writes arrive after the watch events of the writes."""

    def __init__(self, inner: Transport, fault_plan: "FaultPlan", clock: Clock) -> None:
        super().__init__(inner)
        self._fault_plan = fault_plan
        self._clock = clock

    async def send(self, request: Request) -> Response:
        answer = await super().send(request)
        if request.is_write and self._fault_plan.late_seconds:
            await self._clock.sleep(self._fault_plan.late_seconds)
        return answer


class DesiredNumber:
    """A number of the pool's spec with the history of its changes."""

    def __init__(self, value: int) -> None:
        self.value = value
        self._times = [float("-inf")]
        self._values = [value]

    def change(self, value: int, at: float) -> None:
        self.value = value
        self._times.append(at)
        self._values.append(value)

    def largest(self, since: float) -> int:
        """The largest number since then."""
        return max(self._values[bisect_right(self._times, since) - 1 :])

    def was_lowered(self, since: float) -> bool:
        """Whether the number was lowered since then."""
        first = max(1, bisect_right(self._times, since))
        return any(self._values[i] < self._values[i - 1] for i in range(first, len(self._values)))


class Witness:
    """Follows every claim's creation and deletion, and reports violations."""

    def __init__(self, run: Autoscaler, replicas: DesiredNumber, limit: DesiredNumber) -> None:
        self._run = run
        self._replicas = replicas
        self._limit = limit
        self._born: dict[str, float] = {}
        self._left: dict[str, float] = {}
        self._replaced: set[str] = set()
        self.wrong: list[str] = []
        run.cluster.store.on_change(self._see)

    @property
    def made(self) -> int:
        """How many claims there have been."""
        return len(self._born)

    def judge(self) -> list[str]:
        """Everything that should not have happened."""
        surplus = [
            line["NodeClaim"]["name"] for line in self._run.lines if line["message"] == SURPLUS
        ]
        for name in surplus:
            age = self._left[name] - self._born[name]
            known = self._replicas.was_lowered(self._born[name] - NEWS_SECONDS)
            if age < YOUNG_SECONDS and not known and name not in self._replaced:
                self.wrong.append(f"claim {name} was too many {age:.1f} s after it was made")
        return self.wrong

    def _see(self, event: Event) -> None:
        key = event.stored.key
        if key.resource != "nodeclaims":
            return
        now = self._run.clock.monotonic()
        if event.previous is None:
            self._born[key.name] = now
            self._replaced.add(_replaces(event.obj))
            self._judge_birth(key.name, now)
        elif event.type == "DELETED" or "deletionTimestamp" in event.obj["metadata"]:
            self._left.setdefault(key.name, now)

    def _judge_birth(self, name: str, now: float) -> None:
        claims = self._run.claims
        since = now - NEWS_SECONDS
        if len(claims) > self._limit.largest(since):
            self.wrong.append(f"claim {name} is number {len(claims)} at {now:.1f} s")
        standing = {c["metadata"]["name"]: c for c in claims if not is_leaving(c)}
        couples = {_replaces(claim) for claim in standing.values()} & standing.keys()
        if len(standing) - len(couples) > self._replicas.largest(since):
            self.wrong.append(f"claim {name} is needed by nobody at {now:.1f} s")


class FaultPlan:
    """The faults and the changes of the spec, drawn from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.is_over = False
        self.late_seconds = 0.0
        self.clouds: list[KwokProvider] = []
        self.replicas = DesiredNumber(self.rng.randrange(MOST))
        self.limit = DesiredNumber(self.rng.choice((UNLIMITED, MOST, MOST + 1)))
        self._templates = 0
        worst = self.rng.choice((0.0, 0.02, 0.1, 0.2))
        self._faults = Faults(
            **{name: self.rng.uniform(0, worst) for name in Faults.__dataclass_fields__}
        )

    def wrap(self, transport: Transport) -> Transport:
        dice = SequentialDice(random.Random(self.rng.random()))
        faulty = FaultyTransport(transport, self._faults, dice, is_calm=lambda: self.is_over)
        return LateAnswers(faulty, self, running_clock())

    def cloud(self, kube: Client, clock: Clock, rng: random.Random) -> CloudProvider:
        cloud = KwokProvider(kube, clock, built_in())
        self.clouds.append(cloud)
        return cloud

    def pool(self) -> JsonObject:
        limits = {} if self.limit.value == UNLIMITED else {"limits": {"nodes": self._limit_text()}}
        budgets = [{"nodes": self.rng.choice(("1", "50%", "100%"))}]
        return kwok_pool(
            POOL, TYPE, replicas=self.replicas.value, disruption={"budgets": budgets}, **limits
        )

    async def strike(self, run: Autoscaler) -> None:
        """Do one more thing to the pool, its cloud or its controllers."""
        match self.rng.randrange(12):
            case 0 | 1:
                await self._patch(run, self._other_replicas(run))
            case 2:
                await self._patch(run, self._other_limit(run))
            case 3 | 4:
                await self._patch(run, self._other_template())
            case 5 | 6:
                await self._patch(run, {**self._other_template(), **self._other_replicas(run)})
            case 7:
                await run.kill()
                run.start()
            case 8 | 9 | 10 as number:
                self._trouble_the_cloud(number)
            case _:
                if run.claims:
                    name = self.rng.choice(run.claims)["metadata"]["name"]
                    await run.client.delete("karpenter.sh/v1", "nodeclaims", None, name)

    def _trouble_the_cloud(self, number: int) -> None:
        cloud, rng = self.clouds[-1].faults, self.rng
        match number:
            case 8:
                cloud.sell_out(OfferingPattern(), lasts=timedelta(seconds=rng.uniform(5, 120)))
            case 9:
                cloud.fail_launches(lambda: CreateError("CloudIsIll", "try again"), 3)
            case _:
                cloud.launch_seconds = rng.choice((0.0, 1.0, 20.0))
                self.late_seconds = rng.choice((0.0, 0.05, 3.0))

    def end(self) -> None:
        """Stop all faults."""
        self.is_over, self.late_seconds = True, 0.0
        for cloud in self.clouds:
            cloud.faults.restock()
            cloud.faults.launch_seconds = 0.0

    def _other_replicas(self, run: Autoscaler) -> JsonObject:
        self.replicas.change(self.rng.randrange(MOST), run.clock.monotonic())
        return {"replicas": self.replicas.value}

    def _other_limit(self, run: Autoscaler) -> JsonObject:
        value = self.rng.choice((UNLIMITED, *range(1, MOST + 3)))
        self.limit.change(value, run.clock.monotonic())
        return {"limits": None if value == UNLIMITED else {"nodes": self._limit_text()}}

    def _other_template(self) -> JsonObject:
        self._templates += 1
        annotations = {"example.com/version": str(self._templates)}
        return {"template": {"metadata": {"annotations": annotations}}}

    def _limit_text(self) -> str:
        return str(self.limit.value)

    async def _patch(self, run: Autoscaler, spec: JsonObject) -> None:
        await run.client.patch("merge", "karpenter.sh/v1", "NodePool", None, POOL, {"spec": spec})


async def ridden_out(seed: int) -> list[str]:
    """Run with the faults of a seed, and return what went wrong."""
    fault_plan = FaultPlan(seed)
    settings = Settings(feature_gates=gates(StaticCapacity=True))
    options: dict[str, Any] = {
        "wrap": fault_plan.wrap,
        "make_cloud": fault_plan.cloud,
        "seed": seed,
    }
    async with autoscaler(fault_plan.pool(), settings=settings, **options) as run:
        witness = Witness(run, fault_plan.replicas, fault_plan.limit)
        ends = run.clock.monotonic() + STORM_SECONDS
        while run.clock.monotonic() < ends:
            await run.pass_time(fault_plan.rng.choice((0.0, 0.1, 2.0, 20.0, 60.0)))
            await fault_plan.strike(run)
        fault_plan.end()
        await run.pass_time(REST_SECONDS)
        return [*witness.judge(), *problems(run), *unlike_what_was_asked_for(run, fault_plan)]


def unlike_what_was_asked_for(run: Autoscaler, fault_plan: FaultPlan) -> list[str]:
    """How a pool at rest differs from its spec."""
    wanted, limit, have = fault_plan.replicas.value, fault_plan.limit.value, len(run.claims)
    (planned,) = planned_for(run)
    if planned.create or planned.delete or planned.have != have:
        return [f"the plan for {have} claims of a pool at rest is {planned}"]
    # A lowered limit removes no nodes, but it allows no more either
    if have != wanted and not (limit <= have < wanted):
        return [f"there are {have} claims instead of {wanted}, with a limit of {limit}"]
    (pool,) = run.objects("karpenter.sh", "nodepools")
    current = pool["metadata"]["annotations"][HASH]
    old = [c for c in run.claims if c["metadata"]["annotations"][HASH] != current]
    return [f"{len(old)} of {have} claims have drifted"] if old and have < limit else []


def planned_for(run: Autoscaler) -> tuple[StaticOutcome, ...]:
    """What ``karpenter plan`` would say of the pool, from what the API server has."""
    known = [obj for mirror in run.world.mirrors.all() for obj in mirror.list()]
    pools = [obj for obj in known if isinstance(obj, NodePool)]
    return plan_static(pools, snapshot_of(known), now=run.clock.now())


def is_leaving(claim: JsonObject) -> bool:
    """Whether a claim is on its way out."""
    return "deletionTimestamp" in claim["metadata"]


def _replaces(claim: JsonObject) -> str:
    return str(claim["metadata"].get("annotations", {}).get(REPLACES, ""))


if __name__ == "__main__":
    sys.exit(replay(ridden_out))
