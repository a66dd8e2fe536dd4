"""What claims that keep their devices hold of them when a pass begins."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from karpenter.api.devices import DeviceRequestAllocationResult, ResourceClaim
from karpenter.model.quantity import QuantityError
from karpenter.scheduling.devices.amounts import amount
from karpenter.scheduling.devices.inventory import DeviceKey, PoolDevice, qualified
from karpenter.scheduling.devices.published import Published
from karpenter.scheduling.devices.usage import Shares, Usage


@dataclass(frozen=True, slots=True)
class Holding:
    """One device, or share of one, that a claim holds."""

    device: PoolDevice
    shares: Shares


@dataclass(slots=True)
class Ledger:
    """The holdings of all claims."""

    taken: Usage = field(default_factory=Usage)
    by_node: dict[str, list[Holding]] = field(default_factory=dict)  # of devices in nodes


def ledger_of(claims: Iterable[ResourceClaim], published: Published) -> Ledger:
    """Enter what claims hold of the devices that are published."""
    ledger = Ledger()
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation else ():
            device = published.by_key.get(DeviceKey(result.driver, result.pool, result.device))
            if device is None or result.admin_access:
                continue
            holding = Holding(device, _shares(result, device))
            ledger.taken.take(device, holding.shares)
            if device.reach.node_name is not None:
                ledger.by_node.setdefault(device.reach.node_name, []).append(holding)
    return ledger


def _shares(result: DeviceRequestAllocationResult, device: PoolDevice) -> Shares:
    if not device.is_shared:
        return ()
    try:
        consumed = {
            qualified(name, device.key.driver): amount(quantity)
            for name, quantity in result.consumed_capacity.items()
        }
    except QuantityError:  # better too much than too little
        consumed = {name: capacity.value for name, capacity in device.capacity.items()}
    return tuple((name, n) for name, n in sorted(consumed.items()) if name in device.capacity)
