"""The devices that new machines will publish, by instance type."""

from collections.abc import Iterable, Mapping, Sequence

from karpenter.cloud.types import InstanceType
from karpenter.scheduling.compiled.fingerprints import fingerprint
from karpenter.scheduling.compiled.offerings import OfferingIndex
from karpenter.scheduling.devices.inputs import SharedAttribute
from karpenter.scheduling.devices.inventory import DevicePool, template_pools
from karpenter.scheduling.devices.places import TypeGroup
from karpenter.scheduling.problem import PoolCatalogue


class DeviceCatalogue:
    """What types will publish, with types that publish the same taken together."""

    def __init__(
        self,
        pools: Iterable[PoolCatalogue],
        promises: Mapping[str, tuple[SharedAttribute, ...]],
    ) -> None:
        """Index the types of ``pools``; their devices are read lazily."""
        self._pools = {pool.node_pool.metadata.name: pool.instance_types for pool in pools}
        self._promises = promises
        self._groups: dict[OfferingIndex, tuple[TypeGroup, ...]] = {}

    def groups(self, universe: OfferingIndex) -> tuple[TypeGroup, ...]:
        """The types of a universe, grouped by the devices they will publish."""
        known = self._groups.get(universe)
        if known is None:
            known = self._groups[universe] = self._grouped(universe)
        return known

    def on_type(self, node_pool: str, name: str) -> Sequence[DevicePool]:
        """What one type of a pool will publish; nothing when the type is not known."""
        for instance_type in self._pools.get(node_pool, ()):
            if instance_type.name == name:
                return self._pools_of(instance_type)
        return ()

    def _grouped(self, universe: OfferingIndex) -> tuple[TypeGroup, ...]:
        bits: dict[bytes, int] = {}
        first: dict[bytes, InstanceType] = {}
        for index, instance_type in enumerate(universe.types):
            templates = instance_type.device_templates
            key = fingerprint((templates, self._promised(instance_type))) if templates else b""
            bits[key] = bits.get(key, 0) | universe.type_bits[index]
            first.setdefault(key, instance_type)
        return tuple(_group(bits[key], self._pools_of(first[key])) for key in bits)

    def _pools_of(self, instance_type: InstanceType) -> list[DevicePool]:
        return template_pools(instance_type.device_templates, self._promised(instance_type))

    def _promised(self, instance_type: InstanceType) -> tuple[SharedAttribute, ...]:
        return self._promises.get(instance_type.name, ())


def _group(bits: int, pools: Sequence[DevicePool]) -> TypeGroup:
    return TypeGroup(
        bits,
        tuple(device for pool in pools for device in pool.devices),
        next((pool.problem for pool in pools if pool.problem), ""),
    )
