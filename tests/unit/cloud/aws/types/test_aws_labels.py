"""The labels of instance types follow from what EC2 says about them."""

import pytest

from helpers.aws_fakes import full_catalogue
from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.images.families import FAMILIES
from karpenter.cloud.aws.types.labels import system_requirements
from karpenter.model import labels
from karpenter.model.requirements import Requirements

CATALOGUE = full_catalogue()
AWS = "karpenter.k8s.aws/"


def labels_of(name: str) -> Requirements:
    return Requirements(CATALOGUE.entries[name].requirements)


def label(name: str, key: str) -> set[str]:
    held = labels_of(name).get(key)
    assert held is not None
    assert not held.complement
    return set(held.values)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        pytest.param(
            "u-6tb1.56xlarge", "instance-category", "u", id="AWS-56 high memory: category"
        ),
        pytest.param("u-6tb1.56xlarge", "instance-generation", "1", id="AWS-56 high memory: 1st"),
        pytest.param("u7i-12tb.224xlarge", "instance-generation", "7", id="high memory: 7th"),
        pytest.param("p6-b200.48xlarge", "instance-category", "p", id="a family with a dash"),
        pytest.param("im4gn.large", "instance-category", "im", id="two letters"),
        pytest.param("hpc6a.48xlarge", "instance-category", "hpc", id="three letters"),
        pytest.param("c7i-flex.large", "instance-capability-flex", "true", id="AWS-56 flex"),
        pytest.param("c7i.large", "instance-capability-flex", "false", id="AWS-56 not flex"),
        pytest.param("m5.metal", "instance-hypervisor", "", id="AWS-56 metal has no hypervisor"),
        pytest.param("m5.large", "instance-hypervisor", "nitro", id="nitro"),
        pytest.param("m4.large", "instance-hypervisor", "xen", id="xen"),
        pytest.param("g6f.large", "instance-gpu-count", "0", id="AWS-57 a part of a GPU"),
        pytest.param("g4dn.xlarge", "instance-gpu-name", "t4", id="name of the GPU"),
        pytest.param("g4dn.xlarge", "instance-gpu-manufacturer", "nvidia", id="who made it"),
        pytest.param("g4dn.xlarge", "instance-gpu-memory", "16384", id="memory of the GPU"),
        pytest.param("g4ad.xlarge", "instance-gpu-name", "radeon-pro-v520", id="a name in words"),
        pytest.param("inf2.xlarge", "instance-accelerator-name", "inferentia2", id="neuron"),
        pytest.param("inf2.xlarge", "instance-accelerator-manufacturer", "aws", id="by aws"),
        pytest.param("trn1.32xlarge", "instance-accelerator-count", "16", id="accelerators"),
        pytest.param("m5.large", "instance-cpu", "2", id="vcpus"),
        pytest.param("m5.large", "instance-memory", "8192", id="memory"),
        pytest.param("m5.large", "instance-cpu-manufacturer", "intel", id="intel"),
        pytest.param("c6g.large", "instance-cpu-manufacturer", "aws", id="graviton"),
        pytest.param("m5.large", "instance-cpu-sustained-clock-speed-mhz", "3100", id="clock"),
        pytest.param("m5.large", "instance-ebs-bandwidth", "4750", id="ebs bandwidth"),
        pytest.param("m5d.large", "instance-local-nvme", "75", id="local disk"),
        pytest.param("m5.large", "instance-family", "m5", id="family"),
        pytest.param("u7i-12tb.224xlarge", "instance-size", "224xlarge", id="size"),
        pytest.param("m5.large", "instance-network-bandwidth", "750", id="network"),
        pytest.param("h1.8xlarge", "instance-network-bandwidth", "10000", id="network as rated"),
        pytest.param("c6in.32xlarge", "instance-network-bandwidth", "200000", id="two cards"),
        pytest.param("c8gb.4xlarge", "instance-network-bandwidth", "33330", id="cut to tens"),
        pytest.param("c8gb.large", "instance-network-bandwidth", "4166", id="not cut"),
        pytest.param("m5.large", "nitro-sandbox", "false", id="no enclaves"),
        pytest.param("m5.xlarge", "nitro-sandbox", "true", id="enclaves"),
    ],
)
def test_labels(name: str, key: str, value: str) -> None:
    assert {value} == label(name, AWS + key)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param("m5.large", "instance-gpu-count", id="no GPU"),
        pytest.param("m5.large", "instance-local-nvme", id="no local disk"),
        pytest.param("c3.large", "instance-local-nvme", id="a local disk that is not NVMe"),
        pytest.param("m5.large", "instance-accelerator-count", id="no accelerator"),
        pytest.param("t2.large", "instance-network-bandwidth", id="a vague rating"),
        pytest.param("m4.4xlarge", "instance-network-bandwidth", id="vague in small sizes"),
    ],
)
def test_labels_a_type_must_not_have(name: str, key: str) -> None:
    assert set() == label(name, AWS + key)


def test_both_tenancies_are_open() -> None:
    assert {"default", "dedicated"} == label("m5.large", ec2_labels.INSTANCE_TENANCY)


def test_types_of_two_architectures_count_as_the_one_nodes_run_on() -> None:
    assert {"amd64"} == label("t2.micro", labels.ARCH)


@pytest.mark.parametrize(
    ("name", "family", "systems", "builds"),
    [
        pytest.param("m5.large", "AL2023", {"linux"}, set(), id="linux"),
        pytest.param("m5.large", "Windows2022", {"windows"}, {"10.0.20348"}, id="windows"),
        pytest.param("c6g.large", "Windows2022", set(), {"10.0.20348"}, id="AWS-59 never on arm64"),
    ],
)
def test_operating_systems(name: str, family: str, systems: set[str], builds: set[str]) -> None:
    held = Requirements(system_requirements(CATALOGUE.entries[name].facts, FAMILIES[family]))

    assert systems == set(held[labels.OS].values)
    assert builds == set(held[labels.WINDOWS_BUILD].values)


def test_every_label_of_every_type_is_well_known() -> None:
    known = labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN

    unknown = {
        held.key
        for entry in CATALOGUE.entries.values()
        for held in entry.requirements
        if held.key not in known
    }
    assert set() == unknown
