"""A launch template holds every value of its node class, and its name says what it holds."""

import base64
import importlib
from functools import cache
from typing import Any, Final

import msgspec
import pytest

from karpenter.api.meta import ObjectMeta
from karpenter.api.node_classes.ec2 import (
    BlockDevice,
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    EC2NodeClass,
    EC2NodeClassSpec,
    EC2NodeClassStatus,
    MetadataOptions,
    NetworkInterface,
    SecurityGroupStatus,
)
from karpenter.cloud.aws.launch.template_data import (
    Blueprint,
    ReservationChoice,
    template_data,
    template_name,
)

METADATA = MetadataOptions(
    http_endpoint="enabled",
    http_protocol_ipv6="disabled",
    http_put_response_hop_limit=2,
    http_tokens="required",
)


def blueprint(*, spec: dict[str, Any] | None = None, **changes: Any) -> Blueprint:
    given: dict[str, Any] = {"ami_family": "AL2023", "metadata_options": METADATA, **(spec or {})}
    node_class = EC2NodeClass(
        metadata=ObjectMeta(name="default"),
        spec=EC2NodeClassSpec(**given),
        status=EC2NodeClassStatus(
            instance_profile="demo_1",
            security_groups=(SecurityGroupStatus(id="sg-1"), SecurityGroupStatus(id="sg-2")),
        ),
    )
    usual: dict[str, Any] = {
        "region": "us-west-2",
        "node_class": node_class,
        "tags": {"team": "blue"},
        "image_id": "ami-1",
        "user_data": "hello",
        "capacity_type": "on-demand",
    }
    return Blueprint(**(usual | changes))


def data(**changes: Any) -> dict[str, Any]:
    found = template_data(blueprint(**changes))
    _validate(found)
    return found


@cache
def _ec2() -> Any:
    return importlib.import_module("botocore.session").Session().get_service_model("ec2")


def _validate(found: dict[str, Any]) -> None:
    """Let botocore's own model of EC2 check the content."""
    shape = _ec2().operation_model("CreateLaunchTemplate").input_shape
    parameters = {"LaunchTemplateName": "x", "LaunchTemplateData": found}
    report = (
        importlib.import_module("botocore.validate").ParamValidator().validate(parameters, shape)
    )
    assert not report.has_errors(), report.generate_report()


@pytest.mark.row("S2-70", "S2-26")
def test_a_plain_template() -> None:
    assert {
        "ImageId": "ami-1",
        "UserData": base64.b64encode(b"hello").decode(),
        "IamInstanceProfile": {"Name": "demo_1"},
        "Monitoring": {"Enabled": False},
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 2,
            "HttpTokens": "required",
            "InstanceMetadataTags": "disabled",
        },
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"]}],
        "Placement": {"Tenancy": "default"},
        "EnclaveOptions": {"Enabled": False},
        "TagSpecifications": [
            {"ResourceType": "network-interface", "Tags": [{"Key": "team", "Value": "blue"}]}
        ],
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {"Encrypted": True, "VolumeSize": 20, "VolumeType": "gp3"},
            }
        ],
        "CapacityReservationSpecification": {"CapacityReservationPreference": "none"},
    } == data()


@pytest.mark.row("S2-71")
def test_every_value_of_a_disk_is_there() -> None:
    disk = BlockDeviceMapping(
        device_name="/dev/xvda",
        ebs=BlockDevice(
            volume_size="100Gi",
            volume_type="gp3",
            iops=3000,
            throughput=125,
            encrypted=True,
            kms_key_id="key-1",
            snapshot_id="snap-1",
            volume_initialization_rate=100,
            delete_on_termination=True,
        ),
    )
    found = data(spec={"block_device_mappings": (disk,), "detailed_monitoring": True})

    assert [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {
                "DeleteOnTermination": True,
                "Encrypted": True,
                "Iops": 3000,
                "KmsKeyId": "key-1",
                "SnapshotId": "snap-1",
                "Throughput": 125,
                "VolumeInitializationRate": 100,
                "VolumeSize": 100,
                "VolumeType": "gp3",
            },
        }
    ] == found["BlockDeviceMappings"]
    assert {"Enabled": True} == found["Monitoring"]


@pytest.mark.parametrize(
    ("size", "gib"), [("100G", 94), ("20Gi", 20), ("1Ti", 1024), ("1G", 1), ("64T", 59605)]
)
def test_sizes_are_rounded_up_to_gib(size: str, gib: int) -> None:
    disk = BlockDeviceMapping(device_name="x", ebs=BlockDevice(volume_size=size, iops=0))
    found = data(spec={"block_device_mappings": (disk,)})

    assert {"VolumeSize": gib} == found["BlockDeviceMappings"][0]["Ebs"]


def test_custom_images_keep_their_own_disks() -> None:
    assert "BlockDeviceMappings" not in data(spec={"ami_family": "Custom"})


@pytest.mark.parametrize(
    ("changes", "interfaces"),
    [
        pytest.param(
            {"spec": {"associate_public_ip_address": False, "ip_prefix_count": 2}},
            [
                {
                    "DeviceIndex": 0,
                    "Groups": ["sg-1", "sg-2"],
                    "AssociatePublicIpAddress": False,
                    "Ipv4PrefixCount": 2,
                }
            ],
            id="public address and prefixes",
        ),
        pytest.param(
            {"spec": {"ip_prefix_count": 1}, "is_ipv6": True},
            [
                {
                    "DeviceIndex": 0,
                    "Groups": ["sg-1", "sg-2"],
                    "Ipv6PrefixCount": 1,
                    "PrimaryIpv6": True,
                    "Ipv6AddressCount": 1,
                }
            ],
            id="IPv6",
        ),
        pytest.param(
            {"spec": {"connection_tracking": ConnectionTracking(udp_timeout=45)}},
            [
                {
                    "DeviceIndex": 0,
                    "Groups": ["sg-1", "sg-2"],
                    "ConnectionTrackingSpecification": {"UdpTimeout": 45},
                }
            ],
            id="connection tracking",
        ),
        pytest.param(
            {"efa_count": 4},
            [
                {
                    "NetworkCardIndex": card,
                    "DeviceIndex": device,
                    "InterfaceType": "efa",
                    "Groups": ["sg-1", "sg-2"],
                }
                for card, device in ((0, 0), (1, 1), (2, 1), (3, 1))
            ],
            id="AWS-99 four EFA interfaces",
        ),
        pytest.param(
            {
                "spec": {
                    "network_interfaces": (
                        NetworkInterface(interface_type="interface"),
                        NetworkInterface(network_card_index=1, interface_type="efa-only"),
                    ),
                    "associate_public_ip_address": True,
                }
            },
            [
                {
                    "NetworkCardIndex": 0,
                    "DeviceIndex": 0,
                    "InterfaceType": "interface",
                    "Groups": ["sg-1", "sg-2"],
                    "AssociatePublicIpAddress": True,
                },
                {
                    "NetworkCardIndex": 1,
                    "DeviceIndex": 0,
                    "InterfaceType": "efa-only",
                    "Groups": ["sg-1", "sg-2"],
                },
            ],
            id="interfaces the class lists",
        ),
    ],
)
def test_network_interfaces(changes: dict[str, Any], interfaces: list[dict[str, Any]]) -> None:
    found = data(**changes)

    assert interfaces == found["NetworkInterfaces"]
    assert "SecurityGroupIds" not in found


ONLY_CR_1: Final = {
    "CapacityReservationPreference": "capacity-reservations-only",
    "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
}


@pytest.mark.parametrize(
    ("reservation", "expected"),
    [
        pytest.param(
            ReservationChoice("cr-1"),
            {"CapacityReservationSpecification": ONLY_CR_1},
            id="AWS-101 an ordinary reservation",
        ),
        pytest.param(
            ReservationChoice("cr-1", "capacity-block"),
            {
                "CapacityReservationSpecification": ONLY_CR_1,
                "InstanceMarketOptions": {"MarketType": "capacity-block"},
            },
            id="a capacity block",
        ),
        pytest.param(
            ReservationChoice("cr-1", is_interruptible=True),
            {
                "CapacityReservationSpecification": ONLY_CR_1,
                "InstanceMarketOptions": {"MarketType": "interruptible-capacity-reservation"},
            },
            id="an interruptible reservation",
        ),
        pytest.param(
            None,
            {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}},
            id="AWS-101 none, so that open reservations are left alone",
        ),
    ],
)
def test_reservations(reservation: ReservationChoice | None, expected: dict[str, Any]) -> None:
    found = data(reservation=reservation)

    keys = ("CapacityReservationSpecification", "InstanceMarketOptions")
    assert expected == {key: found[key] for key in keys if key in found}


@pytest.mark.case("AWS-102")
def test_without_the_gate_reservations_are_not_mentioned() -> None:
    assert "CapacityReservationSpecification" not in data(chooses_reservations=False)


def test_placement_enclaves_and_processor_options() -> None:
    found = data(
        tenancy="dedicated",
        placement_group="pg-1",
        partition="1",
        has_enclave=True,
        spec={"cpu_options": CPUOptions(nested_virtualization="enabled")},
    )

    assert {"Tenancy": "dedicated", "GroupId": "pg-1", "PartitionNumber": 1} == found["Placement"]
    assert {"Enabled": True} == found["EnclaveOptions"]
    assert {"NestedVirtualization": "enabled"} == found["CpuOptions"]


@pytest.mark.case("AWS-97")
def test_spot_requests_are_tagged_as_well() -> None:
    found = data(capacity_type="spot")

    assert ["network-interface", "spot-instances-request"] == [
        each["ResourceType"] for each in found["TagSpecifications"]
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"region": "us-isob-east-1"},
            {
                "HttpEndpoint": "enabled",
                "HttpPutResponseHopLimit": 2,
                "HttpTokens": "required",
                "InstanceMetadataTags": "disabled",
            },
            id="isolated regions do not know IPv6 there",
        ),
        pytest.param(
            {"spec": {"metadata_options": None}, "is_ipv6": True},
            {
                "HttpEndpoint": "disabled",
                "HttpProtocolIpv6": "enabled",
                "HttpPutResponseHopLimit": 2,
                "HttpTokens": "required",
                "InstanceMetadataTags": "disabled",
            },
            id="a class that went around admission",
        ),
    ],
)
def test_metadata_options(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    assert expected == data(**changes)["MetadataOptions"]


@pytest.mark.case("AWS-96")
def test_the_name_follows_from_the_content() -> None:
    one = blueprint()
    reordered = msgspec.structs.replace(
        one.node_class.status, security_groups=one.node_class.status.security_groups[::-1]
    )
    same = blueprint(node_class=msgspec.structs.replace(one.node_class, status=reordered))

    name = template_name(one)
    assert name == template_name(same) == template_name(blueprint())
    prefix, _, digits = name.rpartition("/")
    assert "karpenter.k8s.aws" == prefix
    assert 0 <= int(digits) < 2**64


@pytest.mark.parametrize(
    "changes",
    [
        {"user_data": "other"},
        {"image_id": "ami-2"},
        {"tags": {"team": "red"}},
        {"capacity_type": "spot"},
        {"tenancy": "dedicated"},
        {"efa_count": 1},
        {"spec": {"detailed_monitoring": True}},
        {"reservation": ReservationChoice("cr-1")},
        {"placement_group": "pg-1"},
        {"is_ipv6": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_content_has_another_name(changes: dict[str, Any]) -> None:
    assert template_name(blueprint()) != template_name(blueprint(**changes))
