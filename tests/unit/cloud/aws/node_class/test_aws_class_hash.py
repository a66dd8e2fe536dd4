"""The drift hash of a node class is the number Karpenter computes, bit for bit."""

from typing import Any

import msgspec
import pytest

from karpenter.api.node_classes.ec2 import (
    BlockDevice,
    BlockDeviceMapping,
    ConnectionTracking,
    CPUOptions,
    EC2NodeClass,
    EC2NodeClassSpec,
    MetadataOptions,
    NetworkInterface,
    SubnetSelectorTerm,
)
from karpenter.cloud.aws.node_class.drift_hash import node_class_hash
from karpenter.model.hashstructure import fnv1_64

BASE = EC2NodeClassSpec(
    role="role-1",
    tags={"keyTag-1": "valueTag-1", "keyTag-2": "valueTag-2"},
    context="fake-context",
    detailed_monitoring=False,
    associate_public_ip_address=False,
    metadata_options=MetadataOptions(
        http_endpoint="disabled",
        http_protocol_ipv6="disabled",
        http_put_response_hop_limit=1,
        http_tokens="optional",
    ),
    block_device_mappings=(
        BlockDeviceMapping(
            device_name="map-device-1",
            ebs=BlockDevice(
                delete_on_termination=False,
                encrypted=False,
                iops=0,
                kms_key_id="fakeKMSKeyID",
                snapshot_id="fakeSnapshot",
                throughput=0,
                volume_size="2G",
                volume_type="standard",
            ),
        ),
        BlockDeviceMapping(device_name="map-device-2"),
    ),
    user_data="userdata-test-1",
    ami_family="Custom",
)
DEFAULTS = EC2NodeClassSpec(
    role="KarpenterNodeRole-demo",
    ami_family="AL2023",
    metadata_options=MetadataOptions(
        http_endpoint="enabled",
        http_protocol_ipv6="disabled",
        http_put_response_hop_limit=1,
        http_tokens="required",
    ),
)


def changed(spec: EC2NodeClassSpec, **fields: Any) -> EC2NodeClassSpec:
    return msgspec.structs.replace(spec, **fields)


def hash_of(spec: EC2NodeClassSpec, ca_bundle: str = "test-ca-bundle") -> str:
    return node_class_hash(EC2NodeClass(spec=spec), ca_bundle)


@pytest.mark.case("AWS-113")
@pytest.mark.parametrize(
    ("expected", "spec", "ca_bundle"),
    [
        pytest.param("11148166120438674859", BASE, "test-ca-bundle", id="the base class"),
        pytest.param(
            "2279761750428738028",
            changed(BASE, context="context-2"),
            "test-ca-bundle",
            id="another context",
        ),
        pytest.param(
            "16697988646989909967",
            changed(BASE, instance_store_policy="RAID0"),
            "test-ca-bundle",
            id="with instance storage",
        ),
        pytest.param(
            "17941926745862994490",
            changed(BASE, connection_tracking=ConnectionTracking(udp_timeout=45)),
            "test-ca-bundle",
            id="with connection tracking",
        ),
        pytest.param(
            "6157846767212910604",
            changed(BASE, cpu_options=CPUOptions(nested_virtualization="enabled")),
            "test-ca-bundle",
            id="with nested virtualization",
        ),
        pytest.param(
            "10323991363677716244",
            changed(BASE, role="", instance_profile="test-instance-profile"),
            "test-ca-bundle",
            id="a profile in place of a role",
        ),
        pytest.param("10182179842396127054", DEFAULTS, "Zm9v", id="a class of defaults"),
        pytest.param(
            "5824299309429507935",
            changed(DEFAULTS, kubelet={"maxPods": 110}),
            "Zm9v",
            id="with kubelet settings",
        ),
    ],
)
def test_the_hash_is_the_published_one(
    expected: str, spec: EC2NodeClassSpec, ca_bundle: str
) -> None:
    assert expected == hash_of(spec, ca_bundle)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            changed(BASE, subnet_selector_terms=(SubnetSelectorTerm(id="subnet-1"),)),
            id="AWS-114 other subnets",
        ),
        pytest.param(changed(BASE, ip_prefix_count=3), id="AWS-114 another prefix count"),
        pytest.param(
            changed(BASE, tags={"keyTag-2": "valueTag-2", "keyTag-1": "valueTag-1"}),
            id="tags in another order",
        ),
        pytest.param(
            changed(BASE, block_device_mappings=BASE.block_device_mappings[::-1]),
            id="disks in another order",
        ),
    ],
)
def test_what_does_not_make_nodes_differ_leaves_the_hash(spec: EC2NodeClassSpec) -> None:
    assert hash_of(BASE) == hash_of(spec)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(changed(BASE, user_data="userdata-test-2"), id="AWS-114 other user data"),
        pytest.param(changed(BASE, detailed_monitoring=True), id="monitoring"),
        pytest.param(changed(BASE, detailed_monitoring=None), id="monitoring that is not set"),
        pytest.param(changed(BASE, ami_family="AL2"), id="another family"),
        pytest.param(changed(BASE, kubelet={"podsPerCore": 2}), id="kubelet settings"),
        pytest.param(
            changed(BASE, network_interfaces=(NetworkInterface(interface_type="interface"),)),
            id="network interfaces",
        ),
    ],
)
def test_what_makes_nodes_differ_changes_the_hash(spec: EC2NodeClassSpec) -> None:
    assert hash_of(BASE) != hash_of(spec)


def test_equal_sizes_in_other_words_have_the_same_hash() -> None:
    sizes = [
        changed(
            DEFAULTS,
            block_device_mappings=(BlockDeviceMapping(ebs=BlockDevice(volume_size=size)),),
        )
        for size in ("1024Gi", "1Ti")
    ]

    assert hash_of(sizes[0]) == hash_of(sizes[1])


def test_kubelet_text_is_sorted_and_escaped_as_go_does() -> None:
    kubelet = {"maxPods": 110, "clusterDomain": "a<b>&c"}
    difference = int(hash_of(DEFAULTS)) ^ int(hash_of(changed(DEFAULTS, kubelet=kubelet)))

    text = rb'{"clusterDomain":"a\u003cb\u003e\u0026c","maxPods":110}'
    assert fnv1_64(b"null") ^ fnv1_64(text) == difference
