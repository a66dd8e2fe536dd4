"""The instance types a node class can have, as planners see them.

Labels and sizes depend on the catalogue and the class and change rarely; offerings change with
prices and availability. They are cached separately, and each is recomputed only when one of its
inputs has changed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final, TypeAlias

from karpenter.api.node_classes.ec2 import CapacityReservationStatus, EC2NodeClass
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import Sharing, TtlCache
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.images.families import family_of_spec
from karpenter.cloud.aws.network.placement_groups import PlacementGroup, PlacementGroups
from karpenter.cloud.aws.node_class.conditions import SUBNETS
from karpenter.cloud.aws.prices.pricing import NONE_SUPPLIED, Pricing
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.aws.types.capacity import DiscoveredMemory, Sizing, default_pods
from karpenter.cloud.aws.types.catalogue import Catalogue, read_catalogue
from karpenter.cloud.aws.types.kubelet import TypeKubelet
from karpenter.cloud.aws.types.offerings import (
    Market,
    offerings_of,
)
from karpenter.cloud.aws.types.reservations import CapacityReservations
from karpenter.cloud.aws.types.sized_types import (
    SizedType,
    incompatibility,
    kubelet_problem,
    sized_types,
)
from karpenter.cloud.aws.types.unavailable import UnavailableOfferings
from karpenter.cloud.provider import CloudError
from karpenter.cloud.types import InstanceType
from karpenter.model.conditions import FALSE, status_of

_LIFETIME: Final = timedelta(minutes=5)
_MARKED_LIFETIME: Final = 30.0  # seconds; what is sold out changes all the time
_ClassKey: TypeAlias = tuple[object, ...]
PriceSource: TypeAlias = Callable[[], Awaitable[Mapping[str, float]]]
CatalogueSource: TypeAlias = Callable[[Calls], Awaitable[Catalogue]]


async def none_supplied() -> Mapping[str, float]:
    """No supplied prices."""
    return NONE_SUPPLIED


class NoTypesError(CloudError):
    """A node class no types can be listed for; the text is one sentence."""


# All types without and with offerings, in the same order
_Unmarked: TypeAlias = tuple[Sequence[SizedType], tuple[InstanceType, ...]]


class InstanceTypes:
    """The instance types of a region."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        settings: AwsSettings,
        *,
        pricing: Pricing,
        unavailable: UnavailableOfferings,
        reservations: CapacityReservations,
        groups: PlacementGroups,
        uses_reservations: bool = True,
        shifted_zone_ids: Callable[[], frozenset[str]] = frozenset,
        supplied_prices: PriceSource = none_supplied,
        read: CatalogueSource = read_catalogue,
    ) -> None:
        """Start without a catalogue.

        Args:
            calls: AWS.
            clock: the clock of caches.
            settings: the settings of the provider.
            pricing: what types cost.
            unavailable: what is sold out.
            reservations: how much is left of reservations.
            groups: placement groups.
            uses_reservations: the feature gate ReservedCapacity.
            shifted_zone_ids: the zones that traffic is being shifted away from.
            supplied_prices: users' prices of types that AWS has no price of.
            read: how to find out what is sold.
        """
        self.memory: Final = DiscoveredMemory(clock)
        self._calls = calls
        self._settings = settings
        self._pricing = pricing
        self._unavailable = unavailable
        self._reservations = reservations
        self._groups = groups
        self._uses_reservations = uses_reservations
        self._shifted_zone_ids = shifted_zone_ids
        self._supplied_prices = supplied_prices
        self._read = read
        self._catalogue = Catalogue()
        self._reads = 0  # how often the catalogue was read
        self._sized: TtlCache[_ClassKey, Sequence[SizedType]] = TtlCache(
            clock, _LIFETIME.total_seconds()
        )
        self._unmarked: TtlCache[_ClassKey, _Unmarked] = TtlCache(clock, _LIFETIME.total_seconds())
        self._building: Sharing[_Unmarked] = Sharing()
        self._listed: TtlCache[_ClassKey, tuple[InstanceType, ...]] = TtlCache(
            clock, _MARKED_LIFETIME
        )

    @property
    def catalogue(self) -> Catalogue:
        """What EC2 sells; empty until ``refresh``."""
        return self._catalogue

    async def refresh(self) -> None:
        """Ask EC2 what it sells.

        Raises:
            CatalogueError, AwsError: what is known stays as it is.
        """
        self._catalogue = await self._read(self._calls)
        self._pricing.estimate(self._catalogue.facts)
        self._reads += 1

    async def list(self, node_class: EC2NodeClass) -> tuple[InstanceType, ...]:
        """Every type of the region, as nodes of a class would be, with all its offerings.

        Raises:
            NoTypesError: nothing is known of the region or of the class's subnets.
            AwsError: its placement group is not known, and the call for it failed.
        """
        if not self._catalogue.entries:
            raise NoTypesError("no instance types found; EC2 has not listed them yet")
        if not node_class.status.subnets:
            raise NoTypesError(_without_subnets(node_class))
        group = self._groups.known(node_class) or await self._groups.resolve(node_class)
        reservations = node_class.status.capacity_reservations if self._uses_reservations else ()
        self._unavailable.sweep()
        size_key = self._size_key(node_class, group, reservations)
        market = replace(
            self._market(node_class, group, reservations), supplied=await self._supplied_prices()
        )
        open_key = (
            *size_key,
            market.closed_zones,
            market.closed_purchases,
            self._pricing.sequence,
            frozenset(market.supplied.items()),
        )
        unmarked = self._unmarked.get(open_key)
        if unmarked is None:
            unmarked = await self._building.get(
                open_key, lambda: self._build(node_class, size_key, market)
            )
            self._unmarked.put(open_key, unmarked)
        return self._marked(unmarked, open_key, market)

    def kubelet_on(self, node_class: EC2NodeClass, instance_type: str) -> TypeKubelet:
        """The kubelet settings of a class as they are on a type.

        Raises:
            NoTypesError: EC2 does not sell such a type.
            KubeletError: an expression of the class fails on it.
        """
        entry = self._catalogue.entries.get(instance_type)
        if entry is None:
            raise NoTypesError(f"EC2 lists no instance type {instance_type} in this region")
        sizing = self._sizing(node_class)
        return sizing.kubelet.on(entry.facts, default_pods(entry.facts, sizing))

    def can_use(self, node_class: EC2NodeClass, instance_type: str) -> bool:
        """Whether a node class can launch a type, sold out or not."""
        entry = self._catalogue.entries.get(instance_type)
        if entry is None:
            return False
        group = self._groups.known(node_class)
        spec = node_class.spec
        return incompatibility(entry.facts, spec, family_of_spec(spec), group) is None

    async def kubelet_problem(self, node_class: EC2NodeClass) -> str | None:
        """Why an expression of a class has no usable result on some type; None if all have."""
        return await asyncio.to_thread(kubelet_problem, self._catalogue, self._sizing(node_class))

    async def _build(
        self, node_class: EC2NodeClass, size_key: _ClassKey, market: Market
    ) -> _Unmarked:
        """All types without the marks of single sold-out offerings, computed in a thread."""
        sized = self._sized.get(size_key)
        if sized is None:
            memory = self.memory.known(node_class.status.amis)
            work = partial(
                sized_types, self._catalogue, node_class, self._sizing(node_class), market, memory
            )
            sized = self._sized.put(size_key, await asyncio.to_thread(work))
        unmarked = replace(market, marked_types=frozenset())
        return sized, await asyncio.to_thread(_all_with_offerings, sized, unmarked)

    def _marked(
        self, unmarked: _Unmarked, open_key: _ClassKey, market: Market
    ) -> tuple[InstanceType, ...]:
        """Rebuild the offerings of the few types with sold-out marks or reservations."""
        sized, kinds = unmarked
        volatile = market.marked_types | market.reserved.keys()
        if not volatile:
            return kinds
        counts = frozenset(market.free_in.items())
        key = (*open_key, market.marked_types, self._unavailable.sequence, counts)
        known = self._listed.get(key)
        if known is not None:
            return known
        found = tuple(
            _with_offerings(size, market) if size.facts.name in volatile else kind
            for size, kind in zip(sized, kinds, strict=True)
        )
        return self._listed.put(key, found)

    def _market(
        self,
        node_class: EC2NodeClass,
        group: PlacementGroup | None,
        reservations: tuple[CapacityReservationStatus, ...],
    ) -> Market:
        zone_ids = {each.zone: each.zone_id for each in node_class.status.subnets}
        return Market(
            zones={zone: zone_ids.get(zone, "") for zone in self._catalogue.zones},
            prices=self._pricing,
            sold_out=self._unavailable,
            closed_zones=self._closed_zones(node_class),
            closed_purchases=self._unavailable.marked_capacity_types,
            marked_types=self._unavailable.marked_types,
            group=group,
            reservations=reservations,
            free_in={each.id: self._reservations.available(each.id) for each in reservations},
        )

    def _closed_zones(self, node_class: EC2NodeClass) -> frozenset[str]:
        shifted = self._shifted_zone_ids()
        subnets: dict[str, list[str]] = {}
        closed = set()
        for each in node_class.status.subnets:
            subnets.setdefault(each.zone, []).append(each.id)
            if each.zone_id in shifted:
                closed.add(each.zone)
        full = (zone for zone, ids in subnets.items() if self._unavailable.are_full(ids))
        return frozenset(closed).union(full)

    def _sizing(self, node_class: EC2NodeClass) -> Sizing:
        return Sizing(
            node_class.spec,
            self._settings.vm_memory_overhead_percent,
            self._settings.reserved_enis,
        )

    def _size_key(
        self,
        node_class: EC2NodeClass,
        group: PlacementGroup | None,
        reservations: tuple[CapacityReservationStatus, ...],
    ) -> _ClassKey:
        metadata, status = node_class.metadata, node_class.status
        return (
            metadata.name,
            metadata.uid,
            metadata.generation,
            frozenset((each.zone, each.zone_id) for each in status.subnets),
            tuple(each.id for each in status.amis),
            reservations,
            group,
            self._reads,
            self.memory.sequence,
        )


def _without_subnets(node_class: EC2NodeClass) -> str:
    message = f"no subnets found for node class {node_class.metadata.name}"
    if status_of(node_class.status.conditions, SUBNETS) == FALSE:
        return message
    return f"{message} so far; discovery has not run yet"


def _all_with_offerings(sized: Sequence[SizedType], market: Market) -> tuple[InstanceType, ...]:
    return tuple(_with_offerings(each, market) for each in sized)


def _with_offerings(sized: SizedType, market: Market) -> InstanceType:
    return sized.kind.with_offerings(
        offerings_of(sized.facts, sized.zones, market, is_compatible=sized.is_compatible)
    )
