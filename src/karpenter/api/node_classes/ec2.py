"""EC2NodeClass (v1, v1beta1): what an EC2 instance is launched with."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from karpenter.api.karpenter import NodeRequirement
from karpenter.api.meta import Model, Quantity, Resource, Time
from karpenter.api.node_classes import NodeClass, NodeClassStatus


class SubnetSelectorTerm(Model, frozen=True):
    id: str = ""
    tags: Mapping[str, str] = {}


class SecurityGroupSelectorTerm(Model, frozen=True):
    """``name`` is the name of the group, not its ``Name`` tag."""

    id: str = ""
    name: str = ""
    tags: Mapping[str, str] = {}


class AMISelectorTerm(Model, frozen=True):
    alias: str = ""
    id: str = ""
    name: str = ""
    owner: str = ""
    ssm_parameter: str = ""
    tags: Mapping[str, str] = {}


class CapacityReservationSelectorTerm(Model, frozen=True):
    id: str = ""
    owner_id: str = msgspec.field(default="", name="ownerID")
    instance_match_criteria: str = ""
    tags: Mapping[str, str] = {}


class PlacementGroupSelector(Model, frozen=True):
    id: str = ""
    name: str = ""


class BlockDevice(Model, frozen=True):
    volume_size: Quantity | None = None
    volume_type: str = ""
    iops: int | None = None
    throughput: int | None = None
    volume_initialization_rate: int | None = None
    encrypted: bool | None = None
    delete_on_termination: bool | None = None
    kms_key_id: str = msgspec.field(default="", name="kmsKeyID")
    snapshot_id: str = msgspec.field(default="", name="snapshotID")


class BlockDeviceMapping(Model, frozen=True):
    device_name: str = ""
    root_volume: bool = False
    ebs: BlockDevice | None = None


class MetadataOptions(Model, frozen=True):
    """None means not set; the default differs between the versions of the API."""

    http_endpoint: str | None = None
    http_protocol_ipv6: str | None = msgspec.field(default=None, name="httpProtocolIPv6")
    http_put_response_hop_limit: int | None = None
    http_tokens: str | None = None


class NetworkInterface(Model, frozen=True):
    network_card_index: int = 0
    device_index: int = 0
    interface_type: str = ""


class ConnectionTracking(Model, frozen=True):
    tcp_established_timeout: int | None = None
    udp_stream_timeout: int | None = None
    udp_timeout: int | None = None


class CPUOptions(Model, frozen=True):
    nested_virtualization: str | None = None


class EC2NodeClassSpec(Model, frozen=True):
    """``kubelet`` is the kubelet's own configuration, unknown fields and all."""

    role: str = ""
    instance_profile: str = ""
    subnet_selector_terms: tuple[SubnetSelectorTerm, ...] = ()
    security_group_selector_terms: tuple[SecurityGroupSelectorTerm, ...] = ()
    ami_selector_terms: tuple[AMISelectorTerm, ...] = ()
    capacity_reservation_selector_terms: tuple[CapacityReservationSelectorTerm, ...] = ()
    placement_group_selector: PlacementGroupSelector | None = None
    ami_family: str = ""
    user_data: str = ""
    context: str = ""
    tags: Mapping[str, str] = {}
    kubelet: Mapping[str, Any] = {}
    block_device_mappings: tuple[BlockDeviceMapping, ...] = ()
    metadata_options: MetadataOptions | None = None
    instance_store_policy: str = ""
    detailed_monitoring: bool | None = None
    associate_public_ip_address: bool | None = msgspec.field(
        default=None, name="associatePublicIPAddress"
    )
    ip_prefix_count: int | None = None
    network_interfaces: tuple[NetworkInterface, ...] = ()
    connection_tracking: ConnectionTracking | None = None
    cpu_options: CPUOptions | None = None


class SubnetStatus(Model, frozen=True):
    id: str
    zone: str = ""
    zone_id: str = msgspec.field(default="", name="zoneID")


class SecurityGroupStatus(Model, frozen=True):
    id: str
    name: str = ""


class AMIStatus(Model, frozen=True):
    id: str
    name: str = ""
    deprecated: bool = False
    requirements: tuple[NodeRequirement, ...] = ()


class CapacityReservationStatus(Model, frozen=True):
    id: str
    availability_zone: str = ""
    instance_type: str = ""
    instance_match_criteria: str = ""
    owner_id: str = msgspec.field(default="", name="ownerID")
    reservation_type: str = "default"
    state: str = "active"
    interruptible: bool = False
    end_time: Time | None = None


class EC2NodeClassStatus(NodeClassStatus, frozen=True):
    subnets: tuple[SubnetStatus, ...] = ()
    security_groups: tuple[SecurityGroupStatus, ...] = ()
    amis: tuple[AMIStatus, ...] = ()
    capacity_reservations: tuple[CapacityReservationStatus, ...] = ()
    instance_profile: str = ""


class EC2NodeClass(NodeClass, frozen=True):
    api_version: ClassVar[str] = "karpenter.k8s.aws/v1"

    spec: EC2NodeClassSpec = EC2NodeClassSpec()
    status: EC2NodeClassStatus = EC2NodeClassStatus()


class EC2NodeClassSpecV1Beta1(Model, frozen=True):
    role: str = ""
    instance_profile: str = ""
    subnet_selector_terms: tuple[SubnetSelectorTerm, ...] = ()
    security_group_selector_terms: tuple[SecurityGroupSelectorTerm, ...] = ()
    ami_selector_terms: tuple[AMISelectorTerm, ...] = ()
    ami_family: str = ""
    user_data: str = ""
    context: str = ""
    tags: Mapping[str, str] = {}
    block_device_mappings: tuple[BlockDeviceMapping, ...] = ()
    metadata_options: MetadataOptions | None = None
    instance_store_policy: str = ""
    detailed_monitoring: bool | None = None
    associate_public_ip_address: bool | None = msgspec.field(
        default=None, name="associatePublicIPAddress"
    )


class EC2NodeClassV1Beta1(Resource, frozen=True, tag="EC2NodeClass"):
    api_version: ClassVar[str] = "karpenter.k8s.aws/v1beta1"
    namespaced: ClassVar[bool] = False

    spec: EC2NodeClassSpecV1Beta1 = EC2NodeClassSpecV1Beta1()
    status: EC2NodeClassStatus = EC2NodeClassStatus()
