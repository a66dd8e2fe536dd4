"""The cloud of a run: the kwok provider, with launches that take time and machines that are seen."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import JsonObject
from karpenter.clock import Clock
from karpenter.cloud.kwok.faults import Faults
from karpenter.cloud.kwok.machine import PROVIDER_PREFIX
from karpenter.cloud.kwok.prices import OfferingName, Prices
from karpenter.cloud.kwok.provider import KwokProvider
from karpenter.cloud.provider import Instance, InstanceNotFoundError, RegistrationHook, RepairPolicy
from karpenter.cloud.types import InstanceType, ProviderFacts
from karpenter.decision_log.log import DecisionLog
from karpenter.kube.client import Client
from karpenter.model import labels
from karpenter.simulate.amounts import Drawer
from karpenter.simulate.scenario.models import Time
from karpenter.simulate.seam import MachineEvent

DELETED: Final = "deleted"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that is paid for."""

    name: str
    claim: str
    pool: str
    offering: OfferingName
    number: int  # among the machines of its offering

    @property
    def path(self) -> str:
        """Its offering as patterns name it."""
        return "/".join(self.offering)


class Machines:
    """All machines that exist, whichever process launched them."""

    def __init__(
        self,
        now: Callable[[], float],
        price: Callable[[OfferingName], float],
        tell: Callable[[MachineEvent], None],
    ) -> None:
        self.there: dict[str, Machine] = {}
        self.on_launch: list[Callable[[Machine], None]] = []
        self._now = now
        self._price = price
        self._tell = tell
        self._counts: Counter[OfferingName] = Counter()

    def launched(self, instance: Instance, claim: NodeClaim) -> None:
        """Take note of a launch that the cloud has answered."""
        name = instance.provider_id.removeprefix(PROVIDER_PREFIX)
        if name in self.there:
            return
        held = instance.labels
        keys = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)
        kind, zone, capacity_type = (held.get(key, "") for key in keys)
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        self.add(name, claim.metadata.name, pool, (kind, zone, capacity_type), self._now())

    def add(self, name: str, claim: str, pool: str, offering: OfferingName, since: float) -> None:
        """Add a machine that there is since a moment, which may be before the scenario."""
        number = self._counts[offering]
        self._counts[offering] += 1
        machine = Machine(name, claim, pool, offering, number)
        self.there[name] = machine
        self._tell(replace(self._event("launched", machine), at=since))
        for listener in self.on_launch:
            listener(machine)

    def noticed(self, name: str) -> None:
        """Take note of a notice that a machine will be taken back."""
        machine = self.there.get(name)
        if machine is not None:
            self._tell(self._event("noticed", machine))

    def gone(self, name: str, cause: str) -> None:
        """Take note of the end of a machine; only its first end counts."""
        machine = self.there.pop(name, None)
        if machine is not None:
            self._tell(replace(self._event("gone", machine), cause=cause))

    def claim_gone(self, claim: str, has_node: Callable[[str], bool]) -> None:
        """Take note of the end of a claim, whose machine may never have had a Node."""
        for machine in list(self.there.values()):
            if machine.claim == claim and not has_node(machine.name):
                self.gone(machine.name, DELETED)

    def _event(self, kind: str, machine: Machine) -> MachineEvent:
        kind_name, zone, capacity_type = machine.offering
        return MachineEvent(
            kind=kind,
            at=self._now(),
            name=machine.name,
            claim=machine.claim,
            pool=machine.pool,
            instance_type=kind_name,
            zone=zone,
            capacity_type=capacity_type,
            price=self._price(machine.offering),
        )


@dataclass(frozen=True, slots=True)
class Market:
    """What the cloud sells, and what is the matter with it; outlives the controllers."""

    types: tuple[InstanceType, ...]
    faults: Faults
    prices: Prices
    list_prices: dict[OfferingName, float]

    def price(self, offering: OfferingName) -> float:
        """Dollars per hour at this moment."""
        moved = self.prices.of(offering)
        return self.list_prices.get(offering, 0.0) if moved is None else moved


def market_of(types: tuple[InstanceType, ...], clock: Clock) -> Market:
    """A market at list prices where nothing is sold out."""
    listed = {
        (kind.name, each.zone, each.capacity_type): each.price
        for kind in types
        for each in kind.offerings
    }
    return Market(types, Faults(clock), Prices(), listed)


class SimulatedCloud:
    """The provider of one process of controllers."""

    def __init__(
        self,
        kube: Client,
        clock: Clock,
        market: Market,
        machines: Machines,
        decisions: DecisionLog,
        launch: tuple[Drawer, Time],
        launches: Counter[str],
    ) -> None:
        self.kwok: Final = KwokProvider(
            kube, clock, market.types, market.faults, prices=market.prices, decisions=decisions
        )
        self._clock = clock
        self._machines = machines
        self._launch = launch
        self._launches = launches

    @property
    def facts(self) -> ProviderFacts:
        return self.kwok.facts

    @property
    def repair_policies(self) -> Sequence[RepairPolicy]:
        return self.kwok.repair_policies

    @property
    def registration_hooks(self) -> Sequence[RegistrationHook]:
        return self.kwok.registration_hooks

    async def create(self, claim: NodeClaim) -> Instance:
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        drawer, time = self._launch
        number = self._launches[pool]
        self._launches[pool] += 1
        if seconds := drawer.drawn(time, pool, number):
            await self._clock.sleep(seconds)
        instance = await self.kwok.create(claim)
        self._machines.launched(instance, claim)
        return instance

    async def delete(self, claim: NodeClaim) -> None:
        await self.kwok.delete(claim)

    async def get(self, provider_id: str) -> Instance:
        name = provider_id.removeprefix(PROVIDER_PREFIX)
        if name not in self._machines.there:
            raise InstanceNotFoundError(f"there is no instance {provider_id}")
        return await self.kwok.get(provider_id)

    async def list(self) -> Sequence[Instance]:
        there = self._machines.there
        found = await self.kwok.list()
        return [each for each in found if each.provider_id.removeprefix(PROVIDER_PREFIX) in there]

    async def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return await self.kwok.instance_types(pool)

    async def drift_reason(self, claim: NodeClaim) -> str:
        return await self.kwok.drift_reason(claim)

    async def reboot(self, claim: NodeClaim, operation: str) -> None:
        await self.kwok.reboot(claim, operation)

    async def run(self) -> None:
        await self.kwok.run()


def is_machine(node: JsonObject) -> bool:
    """Whether the cloud made a node."""
    return str(node.get("spec", {}).get("providerID", "")).startswith(PROVIDER_PREFIX)
