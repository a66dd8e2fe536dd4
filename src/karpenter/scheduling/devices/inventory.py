"""Devices as drivers publish them: slices are joined to pools, pools split into devices.

A pool is published in one or more slices that carry a generation; only the newest generation
counts, and the pool is complete once the slice count that its slices state is reached. A pool may
have counters that its devices share, as the partitions of one card do.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from karpenter.api import devices as api
from karpenter.model.quantity import QuantityError
from karpenter.model.requirements import Requirements
from karpenter.scheduling.devices.amounts import Capacity, amount, capacity_of
from karpenter.scheduling.devices.inputs import SharedAttribute
from karpenter.scheduling.devices.reach import EVERYWHERE, Reach, reach_of
from karpenter.scheduling.packing.claims import Shape

Fact: TypeAlias = tuple[str, str | int | bool]  # (type, value) of an attribute
PROMISED: Final = "promised"  # the type of a value that is unknown, but known to be shared


class DeviceKey(NamedTuple):
    """What names a device in the whole cluster."""

    driver: str
    pool: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class SharedCounter:
    """A counter that devices of one pool consume together; compared by identity."""

    limit: int


_MISSING_COUNTER: Final = SharedCounter(-1)  # below zero, so that every device that uses it is full


@dataclass(frozen=True, slots=True, eq=False)
class PoolDevice:
    """One device; compared by identity, since templates describe many machines at once."""

    key: DeviceKey
    attributes: Mapping[str, Fact]  # by qualified name, "domain/name"
    capacity: Mapping[str, Capacity]  # by qualified name
    is_shared: bool  # several claims may have a share of it
    draws: tuple[tuple[SharedCounter, int], ...]
    taints: tuple[api.DeviceTaint, ...]
    reach: Reach
    is_template: bool  # of a machine that does not exist yet


@dataclass(frozen=True, slots=True, eq=False)
class DevicePool:
    """The devices of one pool, as far as they are known."""

    driver: str
    name: str
    devices: tuple[PoolDevice, ...]
    problem: str  # why "all devices" cannot be determined; empty when they can
    reaches: frozenset[Reach]  # from where some slice of it can be reached


def qualified(name: str, driver: str) -> str:
    """The full name of an attribute or capacity: without a domain it is the driver's own."""
    return name if "/" in name else f"{driver}/{name}"


def published_pools(slices: Iterable[api.ResourceSlice]) -> list[DevicePool]:
    """Join published slices to pools, in an order that does not depend on theirs."""
    return _pools(slices, is_template=False, promised={})


def template_pools(
    slices: Iterable[api.ResourceSlice], promises: Iterable[SharedAttribute] = ()
) -> list[DevicePool]:
    """Join the slices that drivers will publish on a machine that does not exist yet."""
    promised: dict[DeviceKey, dict[str, Fact]] = {}
    for number, promise in enumerate(promises):
        for names in promise.devices:
            facts = promised.setdefault(DeviceKey(*names), {})
            facts[promise.attribute] = (PROMISED, number)
    return _pools(slices, is_template=True, promised=promised)


def _pools(
    slices: Iterable[api.ResourceSlice],
    *,
    is_template: bool,
    promised: Mapping[DeviceKey, Mapping[str, Fact]],
) -> list[DevicePool]:
    grouped: dict[tuple[str, str], list[api.ResourceSliceSpec]] = {}
    for entry in sorted(slices, key=lambda s: s.metadata.name):
        grouped.setdefault((entry.spec.driver, entry.spec.pool.name), []).append(entry.spec)
    return [
        _PoolReader(driver, name, own, is_template, promised).pool()
        for (driver, name), own in sorted(grouped.items())
    ]


class _PoolReader:
    """Reads one pool from the slices that carry its name."""

    def __init__(
        self,
        driver: str,
        name: str,
        slices: Iterable[api.ResourceSliceSpec],
        is_template: bool,
        promised: Mapping[DeviceKey, Mapping[str, Fact]],
    ) -> None:
        every = list(slices)
        newest = max(spec.pool.generation for spec in every)
        self._slices = [spec for spec in every if spec.pool.generation == newest]
        self._driver = driver
        self._name = name
        self._is_template = is_template
        self._promised = promised
        self._counters: dict[tuple[str, str], SharedCounter] = {}

    def pool(self) -> DevicePool:
        reaches = frozenset(
            self._reach(spec, device)
            for spec in self._slices
            for device in (spec.devices if spec.per_device_node_selection else (None,))
        )
        named = f"pool {self._name} of {self._driver}"
        times = Counter(device.name for spec in self._slices for device in spec.devices)
        twice = sorted(name for name, count in times.items() if count > 1)
        if twice:
            problem = f"{named} has more than one device named {twice[0]}"
            return DevicePool(self._driver, self._name, (), problem, reaches)
        try:
            self._read_counters()
            devices = tuple(
                self._device(spec, device) for spec in self._slices for device in spec.devices
            )
        except QuantityError as error:
            problem = f"{named} has an amount that cannot be read: {error}"
            return DevicePool(self._driver, self._name, (), problem, reaches)
        problem = "" if self._is_complete() else f"{named} is being updated"
        return DevicePool(self._driver, self._name, devices, problem, reaches)

    def _is_complete(self) -> bool:
        if self._is_template:
            return True
        count = len(self._slices)
        return all(spec.pool.resource_slice_count == count for spec in self._slices)

    def _reach(self, spec: api.ResourceSliceSpec, device: api.Device | None) -> Reach:
        if self._is_template:
            return EVERYWHERE
        said_by = device if spec.per_device_node_selection and device is not None else spec
        return reach_of(said_by.node_name, said_by.node_selector, said_by.all_nodes)

    def _read_counters(self) -> None:
        for spec in self._slices:
            for counter_set in spec.shared_counters:
                for name, counter in counter_set.counters.items():
                    key = (counter_set.name, name)
                    self._counters[key] = SharedCounter(amount(counter.value))

    def _device(self, spec: api.ResourceSliceSpec, device: api.Device) -> PoolDevice:
        driver = self._driver
        key = DeviceKey(driver, self._name, device.name)
        attributes = {
            qualified(name, driver): fact
            for name, attribute in device.attributes.items()
            if (fact := _fact(attribute)) is not None
        }
        return PoolDevice(
            key=key,
            attributes={**self._promised.get(key, {}), **attributes},
            capacity={
                qualified(name, driver): capacity_of(stated)
                for name, stated in device.capacity.items()
            },
            is_shared=device.allow_multiple_allocations,
            draws=tuple(
                (
                    self._counters.get((drawn.counter_set, name), _MISSING_COUNTER),
                    amount(counter.value),
                )
                for drawn in device.consumes_counters
                for name, counter in drawn.counters.items()
            ),
            taints=device.taints,
            reach=self._reach(spec, device),
            is_template=self._is_template,
        )


def _fact(attribute: api.DeviceAttribute) -> Fact | None:
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.version_value is not None:
        return "version", attribute.version_value
    return None if attribute.string_value is None else ("string", attribute.string_value)


class Published:
    """Every published device, in the order devices are preferred."""

    __slots__ = ("_local", "_troubled", "by_key", "cluster")

    def __init__(self, pools: Iterable[DevicePool]) -> None:
        """Index pools."""
        self.by_key: dict[DeviceKey, PoolDevice] = {}
        self.cluster: list[PoolDevice] = []  # those that belong to no node
        self._local: dict[str, list[PoolDevice]] = {}  # node -> devices that belong to it
        self._troubled: list[DevicePool] = []
        for pool in pools:
            if pool.problem:
                self._troubled.append(pool)
            for device in pool.devices:
                self.by_key[device.key] = device
                if device.reach.node_name is None:
                    self.cluster.append(device)
                else:
                    self._local.setdefault(device.reach.node_name, []).append(device)

    def of_node(self, name: str) -> Sequence[PoolDevice]:
        """The devices that belong to a node."""
        return self._local.get(name, ())

    def problem_at(self, labels: Requirements, name: str) -> str:
        """Why the devices a node can reach are not known; empty when they are."""
        for pool in self._troubled:
            if any(reach.includes(labels, name) for reach in pool.reaches):
                return pool.problem
        return ""

    def problem_for_new(self, shape: Shape, well_known: frozenset[str]) -> str:
        """Why the devices a planned node can reach are not known; empty when they are."""
        for pool in self._troubled:
            for reach in pool.reaches:
                if reach.is_everywhere or any(
                    term.admits_new_nodes
                    and shape.requirements.is_compatible(term.requirements, well_known)
                    for term in reach.terms or ()
                ):
                    return pool.problem
        return ""
