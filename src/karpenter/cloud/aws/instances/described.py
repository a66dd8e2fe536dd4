"""Converts an EC2 instance to the provider-neutral ``Instance``: labels, sizes, annotations."""

from collections.abc import Iterator, Mapping

from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.instances.record import InstanceRecord
from karpenter.cloud.aws.types.capacity import EFA
from karpenter.cloud.provider import Instance
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.model.resources import Resources

# Labels of a reservation, which an instance outside of one must not get
_OF_RESERVATIONS = frozenset(
    {
        ec2_labels.CAPACITY_RESERVATION_ID,
        ec2_labels.CAPACITY_RESERVATION_TYPE,
        ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE,
    }
)


def instance_of(
    record: InstanceRecord, kind: InstanceType | None, node_class: EC2NodeClass | None
) -> Instance:
    """Describe an instance.

    Args:
        record: the instance as EC2 describes it.
        kind: its type as the node class has it; None when it is no longer known.
        node_class: what it was launched with; None when it is gone.
    """
    held: dict[str, str] = {} if kind is None else dict(_type_labels(kind))
    held[labels.INSTANCE_TYPE] = record.instance_type
    held.update(_record_labels(record, node_class))
    if kind is not None and kind.requirements[ec2_labels.PLACEMENT_GROUP_PARTITION].values:
        # An empty value is replaced by a registration hook, before the node takes pods
        held[ec2_labels.PLACEMENT_GROUP_PARTITION] = record.partition
    return Instance(
        provider_id=record.provider_id,
        image_id=record.image_id,
        labels=held,
        annotations={} if node_class is None else dict(_annotations(node_class)),
        capacity={} if kind is None else _amounts(kind.capacity, record),
        allocatable={} if kind is None else _amounts(kind.allocatable, record),
        created_at=record.launched_at,
        is_deleting=record.is_leaving,
    )


def _type_labels(kind: InstanceType) -> Iterator[tuple[str, str]]:
    for each in kind.requirements:
        if not each.complement and len(each.values) == 1 and each.key not in _OF_RESERVATIONS:
            yield each.key, each.any()


def _record_labels(
    record: InstanceRecord, node_class: EC2NodeClass | None
) -> Iterator[tuple[str, str]]:
    yield labels.ZONE, record.zone
    zone_id = zone_id_of(record.zone, node_class)
    if zone_id:
        yield ec2_labels.ZONE_ID, zone_id
    yield labels.CAPACITY_TYPE, record.capacity_type
    yield ec2_labels.INSTANCE_TENANCY, record.tenancy
    pool = record.tags.get(labels.NODEPOOL)
    if pool:
        yield labels.NODEPOOL, pool
    if record.capacity_type == labels.RESERVED:
        yield ec2_labels.CAPACITY_RESERVATION_ID, record.reservation_id
        yield ec2_labels.CAPACITY_RESERVATION_TYPE, record.reservation_type
        interruptible = "true" if record.is_interruptible else "false"
        yield ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE, interruptible
    if record.placement_group:
        yield ec2_labels.PLACEMENT_GROUP_ID, record.placement_group


def zone_id_of(zone: str, node_class: EC2NodeClass | None) -> str:
    """The id of a zone, from the subnets of a node class."""
    subnets = () if node_class is None else node_class.status.subnets
    return next((subnet.zone_id for subnet in subnets if subnet.zone == zone), "")


def _annotations(node_class: EC2NodeClass) -> Iterator[tuple[str, str]]:
    for key in (ec2_labels.NODE_CLASS_HASH, ec2_labels.NODE_CLASS_HASH_VERSION):
        if key in node_class.metadata.annotations:
            yield key, node_class.metadata.annotations[key]
    if node_class.status.instance_profile:
        yield ec2_labels.INSTANCE_PROFILE_NAME, node_class.status.instance_profile


def _amounts(resources: Resources, record: InstanceRecord) -> Mapping[str, str]:
    """Amounts the way the API has them; EFA only where the instance has such interfaces."""
    amounts = resources.to_wire()
    return {key: value for key, value in amounts.items() if key != EFA or record.efa_count}
