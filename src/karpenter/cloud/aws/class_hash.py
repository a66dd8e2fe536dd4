"""The drift hash of a node class, bit for bit the one Karpenter computes.

A node carries the hash of the class it was launched with; a class with another hash makes it drift.
That both sides agree matters most during a move from Karpenter to this program, where a different
number would replace every node. Notation, for 64-bit FNV-1:

    ord(a, b)   the hash of two numbers, 8 bytes each, lowest byte first
    fin(a)      the hash of one such number

A struct is hashed field by field in the order its Go declaration has, each with its Go name; fields
that are not set are left out altogether. A list is the xor of its items, so order does not matter.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import xor
from typing import Any, Final, NamedTuple

import msgspec

from karpenter.api.ec2 import (
    BlockDevice,
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    EC2NodeClass,
    MetadataOptions,
    NetworkInterface,
    PlacementGroupSelector,
)
from karpenter.cloud.aws.families import family_of
from karpenter.cloud.aws.fnv import fnv1_64
from karpenter.model.quantity import canonical

VERSION: Final = "v6"
_Hasher = Callable[[Any], int]


class _Field(NamedTuple):
    """One field of a struct: how Go calls it, what it holds here, how that is hashed."""

    go_name: str
    value: Any
    hashed: _Hasher
    is_pointer: bool = True  # a pointer to nothing much is hashed, nothing much itself is not


def node_class_hash(node_class: EC2NodeClass, ca_bundle: str = "") -> str:
    """The hash of a node class in a cluster with this certificate."""
    parts = (
        _spec(node_class),
        _text(family_of(node_class).name),
        _text(ca_bundle),
        _text(_kubelet_text(node_class.spec.kubelet)),
    )
    return str(reduce(xor, parts))


def _spec(node_class: EC2NodeClass) -> int:
    spec = node_class.spec
    return _struct(
        "EC2NodeClassSpec",
        (
            _Field("PlacementGroupSelector", spec.placement_group_selector, _placement_group),
            _Field("AssociatePublicIPAddress", spec.associate_public_ip_address, _boolean),
            _Field("UserData", spec.user_data or None, _text),
            _Field("Role", spec.role, _text, is_pointer=False),
            _Field("InstanceProfile", spec.instance_profile or None, _text),
            _Field("Tags", spec.tags or None, _mapping),
            _Field("BlockDeviceMappings", spec.block_device_mappings or None, _list_of(_mapped)),
            _Field("InstanceStorePolicy", spec.instance_store_policy or None, _text),
            _Field("NetworkInterfaces", spec.network_interfaces or None, _list_of(_interface)),
            _Field("DetailedMonitoring", spec.detailed_monitoring, _boolean),
            _Field("MetadataOptions", spec.metadata_options, _metadata),
            _Field("ConnectionTracking", spec.connection_tracking, _tracking),
            _Field("Context", spec.context or None, _text),
            _Field("CPUOptions", spec.cpu_options, _cpu_options),
        ),
    )


def _placement_group(selector: PlacementGroupSelector) -> int:
    return _struct(
        "PlacementGroupSelector",
        (
            _Field("Name", selector.name, _text, is_pointer=False),
            _Field("ID", selector.id, _text, is_pointer=False),
        ),
    )


def _mapped(mapping: BlockDeviceMapping) -> int:
    return _struct(
        "BlockDeviceMapping",
        (
            _Field("DeviceName", mapping.device_name or None, _text),
            _Field("EBS", mapping.ebs, _block_device),
            _Field("RootVolume", mapping.root_volume, _boolean, is_pointer=False),
        ),
    )


def _block_device(device: BlockDevice) -> int:
    size = None if device.volume_size is None else canonical(device.volume_size)
    return _struct(
        "BlockDevice",
        (
            _Field("DeleteOnTermination", device.delete_on_termination, _boolean),
            _Field("Encrypted", device.encrypted, _boolean),
            _Field("IOPS", device.iops, _long),
            _Field("KMSKeyID", device.kms_key_id or None, _text),
            _Field("SnapshotID", device.snapshot_id or None, _text),
            _Field("Throughput", device.throughput, _long),
            _Field("VolumeInitializationRate", device.volume_initialization_rate, _short),
            _Field("VolumeSize", size, _text),
            _Field("VolumeType", device.volume_type or None, _text),
        ),
    )


def _interface(interface: NetworkInterface) -> int:
    return _struct(
        "NetworkInterface",
        (
            _Field("NetworkCardIndex", interface.network_card_index, _short, is_pointer=False),
            _Field("DeviceIndex", interface.device_index, _short, is_pointer=False),
            _Field("InterfaceType", interface.interface_type, _text, is_pointer=False),
        ),
    )


def _metadata(options: MetadataOptions) -> int:
    return _struct(
        "MetadataOptions",
        (
            _Field("HTTPEndpoint", options.http_endpoint, _text),
            _Field("HTTPProtocolIPv6", options.http_protocol_ipv6, _text),
            _Field("HTTPPutResponseHopLimit", options.http_put_response_hop_limit, _long),
            _Field("HTTPTokens", options.http_tokens, _text),
        ),
    )


def _tracking(tracking: ConnectionTracking) -> int:
    return _struct(
        "ConnectionTracking",
        (
            _Field("TCPEstablishedTimeout", tracking.tcp_established_timeout, _short),
            _Field("UDPStreamTimeout", tracking.udp_stream_timeout, _short),
            _Field("UDPTimeout", tracking.udp_timeout, _short),
        ),
    )


def _cpu_options(options: CPUOptions) -> int:
    return _struct(
        "CPUOptions", (_Field("NestedVirtualization", options.nested_virtualization, _text),)
    )


def _struct(go_name: str, fields: Iterable[_Field]) -> int:
    value = _text(go_name)
    for field in fields:
        if field.value is None or (not field.is_pointer and not field.value):
            continue
        value = _fin(value ^ _ord(_text(field.go_name), field.hashed(field.value)))
    return value


def _mapping(entries: Mapping[str, str]) -> int:
    return _fin(reduce(xor, (_ord(_text(k), _text(v)) for k, v in entries.items()), 0))


def _list_of(hashed: _Hasher) -> _Hasher:
    def all_of(items: Sequence[Any]) -> int:
        return reduce(xor, map(hashed, items), 0)

    return all_of


def _text(text: str) -> int:
    return fnv1_64(text.encode())


def _boolean(value: bool) -> int:
    return fnv1_64(bytes([value]))


def _short(number: int) -> int:
    return fnv1_64(struct.pack("<i", number))


def _long(number: int) -> int:
    return fnv1_64(struct.pack("<q", number))


def _ord(first: int, second: int) -> int:
    return fnv1_64(struct.pack("<QQ", first, second))


def _fin(value: int) -> int:
    return fnv1_64(struct.pack("<Q", value))


def _kubelet_text(kubelet: Mapping[str, Any]) -> str:
    if not kubelet:
        return "null"
    text = msgspec.json.encode(kubelet, order="sorted").decode()
    # As Go writes JSON that may end up in a web page
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
