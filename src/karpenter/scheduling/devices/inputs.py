"""Devices as input of the solver: objects of the cluster, and promises of the provider."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from karpenter.api.devices import DeviceClass, ResourceClaim, ResourceSlice


@dataclass(frozen=True, slots=True)
class SharedAttribute:
    """A provider's promise that devices of a new machine will agree on an attribute.

    Some attributes, such as the PCIe root of a device, have no value before the machine runs; that
    two devices will have the same value is known beforehand.
    """

    attribute: str  # "domain/name"
    devices: frozenset[tuple[str, str, str]]  # (driver, pool, device), as in the type's templates


@dataclass(frozen=True, slots=True)
class DeviceInputs:
    """The objects of ``resource.k8s.io``; instance types hold what new machines will publish."""

    claims: Sequence[ResourceClaim] = ()
    slices: Sequence[ResourceSlice] = ()
    classes: Sequence[DeviceClass] = ()
    shared_attributes: Mapping[str, tuple[SharedAttribute, ...]] = field(
        default_factory=dict
    )  # instance type -> promises about its devices
