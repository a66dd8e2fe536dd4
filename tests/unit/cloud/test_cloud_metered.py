"""Every call to a cloud is timed, and counted when it fails, under Karpenter's names."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from helpers.builders import node_claim, node_pool
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.clock import running_clock
from karpenter.cloud.kwok.catalogue import FACTS
from karpenter.cloud.metered import Call, MeteredProvider, current_controller
from karpenter.cloud.provider import (
    CreateError,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    RegistrationHook,
    RepairPolicy,
)
from karpenter.cloud.types import InstanceType, ProviderFacts

SECONDS = 1.5


class SlowCloud:
    """Takes a while for every answer, and answers with an error if it was given one."""

    facts: ProviderFacts = FACTS
    repair_policies: Sequence[RepairPolicy] = ()
    registration_hooks: Sequence[RegistrationHook] = ()

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.runs = 0

    async def answer(self) -> None:
        await running_clock().sleep(SECONDS)
        if self.error is not None:
            raise self.error

    async def create(self, claim: NodeClaim) -> Instance:
        await self.answer()
        return Instance("test://1")

    async def delete(self, claim: NodeClaim) -> None:
        await self.answer()

    async def get(self, provider_id: str) -> Instance:
        await self.answer()
        return Instance(provider_id)

    async def list(self) -> Sequence[Instance]:
        await self.answer()
        return [Instance("test://1")]

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        await self.answer()
        return ()

    async def drift_reason(self, claim: NodeClaim) -> str:
        await self.answer()
        return "why"

    async def reboot(self, claim: NodeClaim, operation: str) -> None:
        await self.answer()

    async def run(self) -> None:
        self.runs += 1


class Ledger:
    def __init__(self) -> None:
        self.durations: list[tuple[Call, float]] = []
        self.errors: list[tuple[Call, str, str]] = []

    def duration(self, call: Call, seconds: float) -> None:
        self.durations.append((call, seconds))

    def error(self, call: Call, error: str, nodepool: str) -> None:
        self.errors.append((call, error, nodepool))


CLAIM = node_claim("a", pool="blue")
CALLS: list[tuple[str, str, Callable[[MeteredProvider], Awaitable[object]], object]] = [
    ("Create", "blue", lambda cloud: cloud.create(CLAIM), Instance("test://1")),
    ("Delete", "blue", lambda cloud: cloud.delete(CLAIM), None),
    ("Get", "", lambda cloud: cloud.get("test://7"), Instance("test://7")),
    ("List", "", lambda cloud: cloud.list(), [Instance("test://1")]),
    ("GetInstanceTypes", "red", lambda cloud: cloud.instance_types(node_pool("red")), ()),
    ("IsDrifted", "blue", lambda cloud: cloud.drift_reason(CLAIM), "why"),
    ("Reboot", "blue", lambda cloud: cloud.reboot(CLAIM, "x"), None),
]


@pytest.mark.row("S0-47")
@pytest.mark.parametrize(
    ("method", "pool", "call", "answer"), [pytest.param(*row, id=row[0]) for row in CALLS]
)
def test_a_call_is_timed_and_its_failure_counted(
    method: str,
    pool: str,
    call: Callable[[MeteredProvider], Awaitable[object]],
    answer: object,
) -> None:
    labels = Call("nodeclaim.lifecycle", method, "kwok")

    @in_virtual_time
    async def run() -> None:
        current_controller.set("nodeclaim.lifecycle")
        good, bad = Ledger(), Ledger()
        monotonic = running_clock().monotonic
        answered = await call(MeteredProvider(SlowCloud(), good, monotonic))
        with pytest.raises(InsufficientCapacityError):
            await call(MeteredProvider(SlowCloud(InsufficientCapacityError()), bad, monotonic))

        assert answer == answered
        assert ([(labels, SECONDS)], []) == (good.durations, good.errors)
        assert [(labels, SECONDS)] == bad.durations
        assert [(labels, "InsufficientCapacityError", pool)] == bad.errors

    run()


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (InsufficientCapacityError("sold out"), "InsufficientCapacityError"),
        (InstanceNotFoundError("gone"), "NodeClaimNotFoundError"),
        (NodeClassNotReadyError("no"), "NodeClassNotReadyError"),
        (CreateError("Quota", "no quota"), "unknown"),
        (RuntimeError("broken"), "unknown"),
    ],
)
def test_errors_have_the_names_dashboards_know(error: Exception, name: str) -> None:
    @in_virtual_time
    async def run() -> None:
        ledger = Ledger()
        cloud = MeteredProvider(SlowCloud(error), ledger, running_clock().monotonic)
        with pytest.raises(type(error)):
            await cloud.delete(CLAIM)

        assert [name] == [found for _, found, _ in ledger.errors]

    run()


@in_virtual_time
async def test_a_call_that_is_cancelled_is_timed_but_no_error() -> None:
    clock = running_clock()
    ledger = Ledger()
    with pytest.raises(TimeoutError):
        await clock.wait_for(
            MeteredProvider(SlowCloud(), ledger, clock.monotonic).create(CLAIM), seconds=1
        )

    assert ([1.0], []) == ([seconds for _, seconds in ledger.durations], ledger.errors)


@in_virtual_time
async def test_what_is_no_call_is_passed_on() -> None:
    cloud = SlowCloud()
    metered = MeteredProvider(cloud, Ledger(), running_clock().monotonic)
    await metered.run()

    assert 1 == cloud.runs
    assert (cloud.facts, cloud.repair_policies, cloud.registration_hooks) == (
        metered.facts,
        metered.repair_policies,
        metered.registration_hooks,
    )
