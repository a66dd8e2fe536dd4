"""The drift hash of a node class, bit for bit the one Karpenter computes.

A node carries the hash of the class it was launched with; a class with another hash makes it drift.
That both sides agree matters most during a move from Karpenter to this program, where a different
number would replace every node.
"""

from collections.abc import Mapping
from functools import reduce
from operator import xor
from typing import Any, Final

import msgspec

from karpenter.api.node_classes.ec2 import (
    BlockDevice,
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    EC2NodeClass,
    MetadataOptions,
    NetworkInterface,
    PlacementGroupSelector,
)
from karpenter.cloud.aws.images.families import family_of
from karpenter.model.hashstructure import (
    Field,
    boolean_hash,
    list_of,
    long_hash,
    mapping_hash,
    short_hash,
    struct_hash,
    text_hash,
)
from karpenter.model.quantity import canonical

VERSION: Final = "v6"


def node_class_hash(node_class: EC2NodeClass, ca_bundle: str = "") -> str:
    """The hash of a node class in a cluster with this certificate."""
    parts = (
        _spec(node_class),
        text_hash(family_of(node_class).name),
        text_hash(ca_bundle),
        text_hash(_kubelet_text(node_class.spec.kubelet)),
    )
    return str(reduce(xor, parts))


def _spec(node_class: EC2NodeClass) -> int:
    spec = node_class.spec
    return struct_hash(
        "EC2NodeClassSpec",
        (
            Field("PlacementGroupSelector", spec.placement_group_selector, _placement_group),
            Field("AssociatePublicIPAddress", spec.associate_public_ip_address, boolean_hash),
            Field("UserData", spec.user_data or None, text_hash),
            Field("Role", spec.role, text_hash, is_pointer=False),
            Field("InstanceProfile", spec.instance_profile or None, text_hash),
            Field("Tags", spec.tags or None, mapping_hash),
            Field("BlockDeviceMappings", spec.block_device_mappings or None, list_of(_mapped)),
            Field("InstanceStorePolicy", spec.instance_store_policy or None, text_hash),
            Field("NetworkInterfaces", spec.network_interfaces or None, list_of(_interface)),
            Field("DetailedMonitoring", spec.detailed_monitoring, boolean_hash),
            Field("MetadataOptions", spec.metadata_options, _metadata),
            Field("ConnectionTracking", spec.connection_tracking, _tracking),
            Field("Context", spec.context or None, text_hash),
            Field("CPUOptions", spec.cpu_options, _cpu_options),
        ),
    )


def _placement_group(selector: PlacementGroupSelector) -> int:
    return struct_hash(
        "PlacementGroupSelector",
        (
            Field("Name", selector.name, text_hash, is_pointer=False),
            Field("ID", selector.id, text_hash, is_pointer=False),
        ),
    )


def _mapped(mapping: BlockDeviceMapping) -> int:
    return struct_hash(
        "BlockDeviceMapping",
        (
            Field("DeviceName", mapping.device_name or None, text_hash),
            Field("EBS", mapping.ebs, _block_device),
            Field("RootVolume", mapping.root_volume, boolean_hash, is_pointer=False),
        ),
    )


def _block_device(device: BlockDevice) -> int:
    size = None if device.volume_size is None else canonical(device.volume_size)
    return struct_hash(
        "BlockDevice",
        (
            Field("DeleteOnTermination", device.delete_on_termination, boolean_hash),
            Field("Encrypted", device.encrypted, boolean_hash),
            Field("IOPS", device.iops, long_hash),
            Field("KMSKeyID", device.kms_key_id or None, text_hash),
            Field("SnapshotID", device.snapshot_id or None, text_hash),
            Field("Throughput", device.throughput, long_hash),
            Field("VolumeInitializationRate", device.volume_initialization_rate, short_hash),
            Field("VolumeSize", size, text_hash),
            Field("VolumeType", device.volume_type or None, text_hash),
        ),
    )


def _interface(interface: NetworkInterface) -> int:
    return struct_hash(
        "NetworkInterface",
        (
            Field("NetworkCardIndex", interface.network_card_index, short_hash, is_pointer=False),
            Field("DeviceIndex", interface.device_index, short_hash, is_pointer=False),
            Field("InterfaceType", interface.interface_type, text_hash, is_pointer=False),
        ),
    )


def _metadata(options: MetadataOptions) -> int:
    return struct_hash(
        "MetadataOptions",
        (
            Field("HTTPEndpoint", options.http_endpoint, text_hash),
            Field("HTTPProtocolIPv6", options.http_protocol_ipv6, text_hash),
            Field("HTTPPutResponseHopLimit", options.http_put_response_hop_limit, long_hash),
            Field("HTTPTokens", options.http_tokens, text_hash),
        ),
    )


def _tracking(tracking: ConnectionTracking) -> int:
    return struct_hash(
        "ConnectionTracking",
        (
            Field("TCPEstablishedTimeout", tracking.tcp_established_timeout, short_hash),
            Field("UDPStreamTimeout", tracking.udp_stream_timeout, short_hash),
            Field("UDPTimeout", tracking.udp_timeout, short_hash),
        ),
    )


def _cpu_options(options: CPUOptions) -> int:
    return struct_hash(
        "CPUOptions", (Field("NestedVirtualization", options.nested_virtualization, text_hash),)
    )


def _kubelet_text(kubelet: Mapping[str, Any]) -> str:
    if not kubelet:
        return "null"
    text = msgspec.json.encode(kubelet, order="sorted").decode()
    # Go's encoding/json escapes these characters for HTML
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
