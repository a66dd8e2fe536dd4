"""What the cluster and the provider say about devices, as input of the solver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from karpenter.api.devices import DeviceClass, ResourceClaim, ResourceSlice


@dataclass(frozen=True, slots=True)
class SharedAttribute:
    """A provider's promise that devices of a new machine will agree on an attribute.

    Some facts, such as which PCIe root a device hangs on, have no value before the machine runs;
    that two devices will have the same one is known all the same.
    """

    attribute: str  # "domain/name"
    devices: frozenset[tuple[str, str, str]]  # (driver, pool, device), as in the type's templates


@dataclass(frozen=True, slots=True)
class DeviceInputs:
    """The objects of ``resource.k8s.io``; instance types say what new machines publish."""

    claims: Sequence[ResourceClaim] = ()
    slices: Sequence[ResourceSlice] = ()
    classes: Sequence[DeviceClass] = ()
    shared_attributes: Mapping[str, tuple[SharedAttribute, ...]] = field(
        default_factory=dict
    )  # instance type -> promises about its devices
