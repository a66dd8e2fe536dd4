"""The content of a launch template.

A template is made from a ``Blueprint`` alone: equal blueprints give equal content, and so the same
name. It does not name instance types.
"""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from karpenter.api.node_classes.ec2 import (
    BlockDevice,
    EC2NodeClass,
    MetadataOptions,
    NetworkInterface,
)
from karpenter.cloud.aws.ec2.tags import tag_list
from karpenter.cloud.aws.images.families import family_of
from karpenter.model.labels import SPOT
from karpenter.model.quantity import units

NAME_PREFIX: Final = "karpenter.k8s.aws/"
CAPACITY_BLOCK: Final = "capacity-block"
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"

_GIB: Final = 2**30
_EFA: Final = "efa"
_INTERFACE: Final = "interface"
_WITHOUT_IPV6_METADATA: Final = "us-iso"  # regions with this prefix do not support the option


@dataclass(frozen=True, slots=True)
class ReservationChoice:
    """The capacity reservation a template draws on."""

    id: str
    type: str = "default"
    is_interruptible: bool = False


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Everything that goes into a launch template."""

    region: str
    node_class: EC2NodeClass
    tags: Mapping[str, str]
    image_id: str
    user_data: str
    capacity_type: str
    tenancy: str = "default"
    efa_count: int = 0
    reservation: ReservationChoice | None = None
    chooses_reservations: bool = True  # the gate ReservedCapacity
    placement_group: str = ""
    partition: str = ""
    has_enclave: bool = False
    is_ipv6: bool = False
    ignored_settings: tuple[str, ...] = ()  # of the user data; no part of the template


def template_name(blueprint: Blueprint) -> str:
    """The name of the template, a hash of its content."""
    content = {
        "class": blueprint.node_class.metadata.name,
        "capacity-type": blueprint.capacity_type,
        "data": template_data(blueprint),
        "tags": dict(blueprint.tags),
    }
    digest = hashlib.sha256(msgspec.json.encode(_unordered(content), order="sorted")).digest()
    return f"{NAME_PREFIX}{int.from_bytes(digest[:8], 'big')}"


def template_data(blueprint: Blueprint) -> dict[str, Any]:
    """The ``LaunchTemplateData`` of a blueprint."""
    spec, status = blueprint.node_class.spec, blueprint.node_class.status
    data: dict[str, Any] = {
        "ImageId": blueprint.image_id,
        "UserData": base64.b64encode(blueprint.user_data.encode()).decode(),
        "IamInstanceProfile": {"Name": status.instance_profile},
        "Monitoring": {"Enabled": bool(spec.detailed_monitoring)},
        "MetadataOptions": _metadata_options(blueprint),
        "NetworkInterfaces": list(network_interfaces(blueprint)),
        "Placement": _placement(blueprint),
        "EnclaveOptions": {"Enabled": blueprint.has_enclave},
        "TagSpecifications": tag_specifications(blueprint),
    }
    disks = list(_disks(blueprint.node_class))
    if disks:
        data["BlockDeviceMappings"] = disks
    if spec.cpu_options is not None and spec.cpu_options.nested_virtualization:
        data["CpuOptions"] = {"NestedVirtualization": spec.cpu_options.nested_virtualization}
    if blueprint.chooses_reservations:
        data |= _reservation(blueprint.reservation)
    return data


def tag_specifications(blueprint: Blueprint) -> list[dict[str, Any]]:
    """The tags of what EC2 makes beside the instance."""
    kinds = ["network-interface"]
    if blueprint.capacity_type == SPOT:
        kinds.append("spot-instances-request")
    return [{"ResourceType": kind, "Tags": tag_list(blueprint.tags)} for kind in kinds]


def _metadata_options(blueprint: Blueprint) -> dict[str, Any]:
    given = blueprint.node_class.spec.metadata_options
    if given is None:  # admission sets the default; if bypassed, disable the endpoint
        ipv6 = "enabled" if blueprint.is_ipv6 else "disabled"
        given = MetadataOptions(
            http_endpoint="disabled",
            http_protocol_ipv6=ipv6,
            http_put_response_hop_limit=2,
            http_tokens="required",
        )
    options = {
        "HttpEndpoint": given.http_endpoint,
        "HttpProtocolIpv6": given.http_protocol_ipv6,
        "HttpPutResponseHopLimit": given.http_put_response_hop_limit,
        "HttpTokens": given.http_tokens,
        "InstanceMetadataTags": "disabled",
    }
    if blueprint.region.startswith(_WITHOUT_IPV6_METADATA):
        del options["HttpProtocolIpv6"]
    return {key: value for key, value in options.items() if value is not None}


def _disks(node_class: EC2NodeClass) -> Iterator[dict[str, Any]]:
    for disk in node_class.spec.block_device_mappings or family_of(node_class).default_disks:
        entry: dict[str, Any] = {"DeviceName": disk.device_name}
        if disk.ebs is not None:
            entry["Ebs"] = _volume(disk.ebs)
        yield entry


def _volume(ebs: BlockDevice) -> dict[str, Any]:
    size = None if ebs.volume_size is None else -(-units(ebs.volume_size) // _GIB)
    volume = {
        "DeleteOnTermination": ebs.delete_on_termination,
        "Encrypted": ebs.encrypted,
        "Iops": ebs.iops or None,
        "KmsKeyId": ebs.kms_key_id or None,
        "SnapshotId": ebs.snapshot_id or None,
        "Throughput": ebs.throughput or None,
        "VolumeInitializationRate": ebs.volume_initialization_rate or None,
        "VolumeSize": size,
        "VolumeType": ebs.volume_type or None,
    }
    return {key: value for key, value in volume.items() if value is not None}


def network_interfaces(blueprint: Blueprint) -> Iterator[dict[str, Any]]:
    """The network interfaces of an instance, without the subnet that a launch adds."""
    groups = [group.id for group in blueprint.node_class.status.security_groups]
    listed = blueprint.node_class.spec.network_interfaces
    if listed:
        for entry in listed:
            yield _listed_interface(entry, groups, blueprint)
    elif blueprint.efa_count:
        for card in range(blueprint.efa_count):
            place = {"NetworkCardIndex": card, "DeviceIndex": int(card > 0), "InterfaceType": _EFA}
            yield {**place, "Groups": groups, **_interface_options(blueprint)}
    else:
        yield {"DeviceIndex": 0, "Groups": groups, **_interface_options(blueprint)}


def _listed_interface(
    entry: NetworkInterface, groups: list[str], blueprint: Blueprint
) -> dict[str, Any]:
    interface = {
        "NetworkCardIndex": entry.network_card_index,
        "DeviceIndex": entry.device_index,
        "InterfaceType": entry.interface_type,
        "Groups": groups,
    }
    if entry.interface_type == _INTERFACE:
        interface |= _interface_options(blueprint)
    return interface


def _interface_options(blueprint: Blueprint) -> dict[str, Any]:
    spec, options = blueprint.node_class.spec, dict[str, Any]()
    if spec.associate_public_ip_address is not None:
        options["AssociatePublicIpAddress"] = spec.associate_public_ip_address
    if spec.ip_prefix_count is not None:
        options["Ipv6PrefixCount" if blueprint.is_ipv6 else "Ipv4PrefixCount"] = (
            spec.ip_prefix_count
        )
    if blueprint.is_ipv6:
        options |= {"PrimaryIpv6": True, "Ipv6AddressCount": 1}
    tracking = spec.connection_tracking
    if tracking is not None:
        timeouts = {
            "TcpEstablishedTimeout": tracking.tcp_established_timeout,
            "UdpStreamTimeout": tracking.udp_stream_timeout,
            "UdpTimeout": tracking.udp_timeout,
        }
        options["ConnectionTrackingSpecification"] = {
            key: value for key, value in timeouts.items() if value is not None
        }
    return options


def _placement(blueprint: Blueprint) -> dict[str, Any]:
    placement: dict[str, Any] = {"Tenancy": blueprint.tenancy}
    if blueprint.placement_group:
        placement["GroupId"] = blueprint.placement_group
        if blueprint.partition:
            placement["PartitionNumber"] = int(blueprint.partition)
    return placement


def _reservation(choice: ReservationChoice | None) -> dict[str, Any]:
    if choice is None:
        # without this, an instance might use an open reservation that the class does not select
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    data: dict[str, Any] = {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": choice.id},
        }
    }
    if choice.type == CAPACITY_BLOCK:
        data["InstanceMarketOptions"] = {"MarketType": CAPACITY_BLOCK}
    elif choice.is_interruptible:
        data["InstanceMarketOptions"] = {"MarketType": INTERRUPTIBLE}
    return data


def _unordered(value: Any) -> Any:
    """The value with every list sorted, because EC2 ignores the order."""
    if isinstance(value, dict):
        return {key: _unordered(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_unordered(each) for each in value), key=msgspec.json.encode)
    return value
