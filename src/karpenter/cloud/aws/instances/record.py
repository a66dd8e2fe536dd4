"""An EC2 instance, reduced to what the provider works with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from karpenter.cloud.aws.ec2.provider_id import provider_id
from karpenter.cloud.aws.ec2.tags import tags_of
from karpenter.cloud.aws.launch.template_data import CAPACITY_BLOCK, INTERRUPTIBLE
from karpenter.model import labels

ALIVE: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
_LEAVING: Final = ("shutting-down", "terminated")
_ONLY_RESERVATIONS: Final = "capacity-reservations-only"
_EFA_KINDS: Final = ("efa", "efa-only")


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """One instance."""

    id: str
    instance_type: str
    zone: str
    image_id: str = ""
    state: str = "pending"
    launched_at: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    security_groups: frozenset[str] = frozenset()
    subnet_id: str = ""
    capacity_type: str = labels.ON_DEMAND
    reservation_id: str = ""
    reservation_type: str = ""
    is_interruptible: bool = False
    tenancy: str = "default"
    placement_group: str = ""
    partition: str = ""
    efa_count: int = 0

    @property
    def provider_id(self) -> str:
        """How the instance is named in Kubernetes."""
        return provider_id(self.zone, self.id)

    @property
    def is_leaving(self) -> bool:
        """Whether the instance is on its way out, or gone."""
        return self.state in _LEAVING


def record_of(entry: Mapping[str, Any], *, chooses_reservations: bool) -> InstanceRecord:
    """Read an entry of DescribeInstances.

    Args:
        entry: an element of ``Instances``.
        chooses_reservations: the gate ReservedCapacity; without it ``reserved`` is on demand.
    """
    placement = entry.get("Placement") or {}
    interfaces = entry.get("NetworkInterfaces") or ()
    capacity_type = _capacity_type(entry, chooses_reservations)
    is_reserved = capacity_type == labels.RESERVED
    lifecycle = entry.get("InstanceLifecycle") or ""
    return InstanceRecord(
        id=entry["InstanceId"],
        instance_type=entry.get("InstanceType") or "",
        zone=placement.get("AvailabilityZone") or "",
        image_id=entry.get("ImageId") or "",
        state=(entry.get("State") or {}).get("Name") or "",
        launched_at=entry.get("LaunchTime"),
        tags=tags_of(entry.get("Tags")),
        security_groups=frozenset(each["GroupId"] for each in entry.get("SecurityGroups") or ()),
        subnet_id=entry.get("SubnetId") or "",
        capacity_type=capacity_type,
        reservation_id=entry.get("CapacityReservationId", "") if is_reserved else "",
        reservation_type=_reservation_type(lifecycle) if is_reserved else "",
        is_interruptible=is_reserved and lifecycle == INTERRUPTIBLE,
        tenancy=placement.get("Tenancy") or "default",
        placement_group=placement.get("GroupId") or "",
        partition=str(placement.get("PartitionNumber") or ""),
        efa_count=sum(each.get("InterfaceType") in _EFA_KINDS for each in interfaces),
    )


def _capacity_type(entry: Mapping[str, Any], chooses_reservations: bool) -> str:
    if entry.get("SpotInstanceRequestId") or entry.get("InstanceLifecycle") == labels.SPOT:
        return labels.SPOT
    preference = (entry.get("CapacityReservationSpecification") or {}).get(
        "CapacityReservationPreference"
    )
    chosen = entry.get("CapacityReservationId") and preference == _ONLY_RESERVATIONS
    return labels.RESERVED if chosen and chooses_reservations else labels.ON_DEMAND


def _reservation_type(lifecycle: str) -> str:
    return CAPACITY_BLOCK if lifecycle == CAPACITY_BLOCK else "default"
