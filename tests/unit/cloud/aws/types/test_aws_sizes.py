"""What nodes of every instance type have, what they set aside, and what is left for pods."""

from typing import Any

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from helpers.aws_fakes import full_catalogue
from karpenter.api.node_classes.ec2 import (
    BlockDevice,
    BlockDeviceMapping,
    EC2NodeClassSpec,
    NetworkInterface,
)
from karpenter.cloud.aws.types.capacity import (
    MIB,
    Sizing,
    branch_interfaces,
    capacity_of,
    default_pods,
)
from karpenter.cloud.aws.types.kubelet import KubeletError
from karpenter.cloud.aws.types.overhead import eviction_threshold, kube_reserved, overhead_of
from karpenter.cloud.types import allocatable
from karpenter.model.resources import Resources

CATALOGUE = full_catalogue()


class Size:
    """One type with one node class."""

    def __init__(self, name: str, *, reserved_enis: int = 0, **spec: Any) -> None:
        self.facts = CATALOGUE.entries[name].facts
        self.sizing = Sizing(
            EC2NodeClassSpec(**{"ami_family": "AL2023", **spec}), reserved_enis=reserved_enis
        )
        self.kubelet = self.sizing.kubelet.on(self.facts, default_pods(self.facts, self.sizing))
        self.capacity = capacity_of(self.facts, self.sizing, self.kubelet)

    @property
    def kube_reserved(self) -> Resources:
        return kube_reserved(self.facts, self.sizing, self.kubelet, self.capacity)

    @property
    def overhead(self) -> Resources:
        return overhead_of(self.facts, self.sizing, self.kubelet, self.capacity)

    @property
    def allocatable(self) -> Resources:
        return allocatable(self.capacity, self.overhead)


def disk(size: str, *, is_root: bool = False, device: str = "/dev/xvdf") -> BlockDeviceMapping:
    ebs = BlockDevice(volume_size=size)
    return BlockDeviceMapping(device_name=device, root_volume=is_root, ebs=ebs)


@pytest.mark.case("AWS-55")
@pytest.mark.row("S2-17")
@pytest.mark.parametrize(
    ("name", "row"),
    [
        # vCPU, MiB, interfaces, addresses, pods, capacity, kube cpu, kube memory, cpu, memory left
        ("t3.micro", (2, 1024, 2, 2, 4, 947, 70, 299, 1930, 548)),
        ("m5.large", (2, 8192, 3, 10, 29, 7577, 70, 574, 1930, 6903)),
        ("m5.xlarge", (4, 16384, 4, 15, 58, 15155, 80, 893, 3920, 14162)),
        ("c6g.large", (2, 4096, 3, 10, 29, 3729, 70, 574, 1930, 3055)),
        ("c7i-flex.large", (2, 4096, 3, 10, 29, 3788, 70, 574, 1930, 3114)),
        ("r6i.4xlarge", (16, 131072, 8, 30, 234, 121241, 110, 2829, 15890, 118312)),
        ("g4dn.xlarge", (4, 16384, 3, 10, 29, 15155, 80, 574, 3920, 14481)),
        ("inf2.xlarge", (4, 16384, 4, 15, 58, 15155, 80, 893, 3920, 14162)),
        ("m5.metal", (96, 393216, 15, 50, 737, 363724, 310, 8362, 95690, 355262)),
        ("p4d.24xlarge", (96, 1179648, 15, 50, 737, 1091174, 310, 8362, 95690, 1082712)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_worked_examples_hold_to_the_last_digit(name: str, row: tuple[int, ...]) -> None:
    size = Size(name)

    facts, kube, left = size.facts, size.kube_reserved, size.allocatable
    assert row == (
        facts.vcpus,
        facts.memory_mib,
        facts.interfaces,
        facts.ips_per_interface,
        size.capacity.pods,
        size.capacity.memory // MIB,
        kube.cpu,
        kube.memory // MIB,
        left.cpu,
        left.memory // MIB,
    )
    assert size.capacity.memory % MIB == 0


@pytest.mark.parametrize(
    ("size", "pods", "memory"),
    [
        pytest.param(Size("m5.large", reserved_enis=1), 20, 6903, id="AWS-55 a reserved interface"),
        pytest.param(
            Size("m5.large", reserved_enis=1, ami_family="Bottlerocket"),
            20,
            7002,
            id="AWS-55 a reserved interface with Bottlerocket",
        ),
        pytest.param(Size("m5.large", kubelet={"maxPods": 110}), 110, 6903, id="AWS-55 maxPods"),
        pytest.param(
            Size("m5.large", kubelet={"maxPods": 110}, ami_family="Bottlerocket"),
            110,
            6012,
            id="AWS-55, AWS-62 maxPods with Bottlerocket",
        ),
        pytest.param(Size("m5.large", ami_family="Windows2022"), 110, 6012, id="AWS-55 Windows"),
        pytest.param(Size("m5.large", reserved_enis=9), 0, 6903, id="AWS-60 no interface is left"),
    ],
)
def test_variants_of_a_type(size: Size, pods: int, memory: int) -> None:
    assert (pods, memory) == (size.capacity.pods, size.allocatable.memory // MIB)


@pytest.mark.case("AWS-61")
def test_pods_per_core_limits_pods_but_not_reserved_memory() -> None:
    size = Size("m5.xlarge", kubelet={"maxPods": 110, "podsPerCore": 4})

    assert 16 == size.capacity.pods
    assert 893 == size.kube_reserved.memory // MIB


@pytest.mark.row("S1-30")
@pytest.mark.parametrize(
    ("name", "pods"), [("m5.large", 4), ("m5.2xlarge", 16), ("m5.4xlarge", 20), ("m5.metal", 20)]
)
def test_pods_are_the_smaller_of_a_number_per_core_and_a_number(name: str, pods: int) -> None:
    assert pods == Size(name, kubelet={"maxPods": 20, "podsPerCore": 2}).capacity.pods


@pytest.mark.case("AWS-62")
def test_bottlerocket_reserves_memory_for_the_pods_it_may_have() -> None:
    size = Size("m5.xlarge", ami_family="Bottlerocket", kubelet={"maxPods": 110})

    assert 1465 == size.kube_reserved.memory // MIB


@pytest.mark.case("AWS-65")
def test_local_disks_are_as_large_as_they_are_sold() -> None:
    with_disks = Size("g4dn.xlarge", instance_store_policy="RAID0")
    without = Size("m5.large", instance_store_policy="RAID0")

    assert 125 * 10**9 == with_disks.capacity.ephemeral_storage
    assert 20 * 2**30 == without.capacity.ephemeral_storage


def test_pods_per_core_is_nothing_to_bottlerocket() -> None:
    size = Size("m5.xlarge", ami_family="Bottlerocket", kubelet={"maxPods": 110, "podsPerCore": 4})

    assert 110 == size.capacity.pods


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param(Size("m5.large"), 18253611008, id="20Gi"),
        pytest.param(Size("m5.large", ami_family="Windows2022"), 44 * 2**30, id="Windows: 50Gi"),
        pytest.param(
            Size("g4dn.xlarge", instance_store_policy="RAID0"),
            111426258176,
            id="AWS-65 local disks",
        ),
        pytest.param(
            Size("m5.large", instance_store_policy="RAID0"), 18253611008, id="AWS-65 no local disk"
        ),
    ],
)
def test_storage_left_for_pods(size: Size, expected: int) -> None:
    assert expected == size.allocatable.ephemeral_storage


@pytest.mark.parametrize(
    ("spec", "gibibytes"),
    [
        pytest.param(
            {"ami_family": "Custom", "block_device_mappings": (disk("50Gi"), disk("80Gi"))},
            80,
            id="AWS-66 Custom: the last disk",
        ),
        pytest.param(
            {
                "ami_family": "Custom",
                "block_device_mappings": (disk("50Gi", is_root=True), disk("80Gi")),
            },
            50,
            id="AWS-66 Custom: the root disk if one is named",
        ),
        pytest.param({"ami_family": "Custom"}, 20, id="Custom without disks"),
        pytest.param(
            {"block_device_mappings": (disk("30Gi"), disk("40Gi", device="/dev/xvda"))},
            40,
            id="the data disk of the family",
        ),
        pytest.param(
            {"block_device_mappings": (disk("30Gi"),)}, 20, id="a disk containers do not live on"
        ),
        pytest.param({"ami_family": "Bottlerocket"}, 20, id="Bottlerocket: its second disk"),
    ],
)
def test_which_disk_containers_live_on(spec: dict[str, Any], gibibytes: int) -> None:
    assert gibibytes * 2**30 == Size("m5.large", **spec).capacity.ephemeral_storage


@pytest.mark.row("S1-24", "S2-24")
def test_reserved_amounts_replace_ours_one_by_one() -> None:
    reserved = {"cpu": "200m", "memory": "100Mi"}
    system = {"cpu": "100m", "memory": "50Mi", "ephemeral-storage": "2Gi", "pid": "1000"}
    size = Size("m5.large", kubelet={"kubeReserved": reserved, "systemReserved": system})

    plain = Size("m5.large")
    assert 2000 - 300 == size.allocatable.cpu
    assert (7577 - 150 - 100) * MIB == size.allocatable.memory
    assert plain.allocatable.ephemeral_storage - 2 * 2**30 == size.allocatable.ephemeral_storage
    assert set(plain.allocatable.others) == set(size.allocatable.others)


@pytest.mark.row("S1-25")
@pytest.mark.parametrize(
    ("kubelet", "memory"),
    [
        pytest.param({}, 100 * MIB, id="100Mi by default"),
        pytest.param({"evictionHard": {"memory.available": "5%"}}, 397253018, id="5 percent"),
        pytest.param({"evictionHard": {"memory.available": "200Mi"}}, 200 * MIB, id="an amount"),
        pytest.param({"evictionHard": {"memory.available": "100%"}}, 0, id="AWS-64 never"),
        pytest.param(
            {"evictionSoft": {"memory.available": "1Gi"}}, 100 * MIB, id="AWS-63 only soft"
        ),
    ],
)
def test_the_eviction_threshold_of_memory(kubelet: dict[str, Any], memory: int) -> None:
    size = Size("m5.large", kubelet=kubelet)

    threshold = eviction_threshold(size.capacity, size.sizing.kubelet.eviction_hard)
    assert memory == threshold.memory


def test_the_eviction_threshold_of_storage_is_a_tenth_or_what_is_said() -> None:
    usual = eviction_threshold(Resources(ephemeral_storage=101), {})
    said = eviction_threshold(Resources(ephemeral_storage=101), {"nodefs.available": "50%"})

    assert (11, 51) == (usual.ephemeral_storage, said.ephemeral_storage)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("g6f.large", {}, id="AWS-57 a part of a GPU is none"),
        pytest.param("dl1.24xlarge", {"habana.ai/gaudi": 8}, id="AWS-58 Gaudi"),
        pytest.param(
            "trn1.32xlarge",
            {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32},
            id="AWS-58 Trainium",
        ),
        pytest.param("g4ad.xlarge", {"amd.com/gpu": 1}, id="AWS-58 AMD"),
        pytest.param("p4d.24xlarge", {"nvidia.com/gpu": 8}, id="NVIDIA"),
        pytest.param("m5.large", {}, id="nothing"),
    ],
)
def test_devices(name: str, expected: dict[str, int]) -> None:
    held = Size(name).capacity.others

    assert expected == {k: v for k, v in held.items() if not k.startswith("vpc.")}


@pytest.mark.case("AWS-71")
def test_interfaces_for_efa_alone_take_the_place_of_pods_and_of_efa() -> None:
    interfaces = (
        NetworkInterface(interface_type="interface"),
        NetworkInterface(device_index=1, interface_type="efa-only"),
    )
    size = Size("p4d.24xlarge", network_interfaces=interfaces)

    assert 688 == size.capacity.pods
    assert 1 == size.capacity["vpc.amazonaws.com/efa"]
    assert 4 == Size("p4d.24xlarge").capacity["vpc.amazonaws.com/efa"]


def test_interfaces_for_efa_alone_leave_fewer_pods_to_reserve_memory_for() -> None:
    interfaces = (
        NetworkInterface(interface_type="interface"),
        NetworkInterface(device_index=1, interface_type="efa-only"),
        NetworkInterface(network_card_index=1, device_index=1, interface_type="efa-only"),
    )
    size = Size("p4d.24xlarge", network_interfaces=interfaces)

    # 14 of 15 interfaces of the first card serve pods; the other cards serve none anyway
    assert (255 + 11 * (14 * 49 + 2)) * MIB == size.kube_reserved.memory
    assert (255 + 11 * (15 * 49 + 2)) * MIB == Size("p4d.24xlarge").kube_reserved.memory


@pytest.mark.parametrize(
    ("name", "branches"),
    [
        ("t3.large", 0),
        ("m4.large", 0),
        ("m8g.medium", 4),
        ("m5.large", 9),
        ("m7i.xlarge", 18),
        ("m7g.2xlarge", 38),
        ("m7gd.8xlarge", 54),
        ("m7i.8xlarge", 84),
        ("m7i.12xlarge", 114),
        ("m7gd.12xlarge", 54),
        ("m7i-flex.large", 3),
        ("m7i-flex.12xlarge", 114),
        ("m7g.metal", 107),
        ("g4dn.xlarge", 39),
        ("g5.16xlarge", 114),
        ("g6.8xlarge", 84),
        ("g6e.48xlarge", 82),
    ],
)
def test_branch_interfaces(name: str, branches: int) -> None:
    assert branches == branch_interfaces(CATALOGUE.entries[name].facts)


def test_windows_pods_share_the_addresses_of_one_interface() -> None:
    held = Size("m5.large", ami_family="Windows2022").capacity

    assert 9 == held["vpc.amazonaws.com/PrivateIPv4Address"]
    assert 0 == Size("m5.large").capacity["vpc.amazonaws.com/PrivateIPv4Address"]


@pytest.mark.parametrize(
    ("expression", "name", "reserved"),
    [
        pytest.param("max(60, vcpus * 30)", "m5.xlarge", "120m", id="AWS-28 the larger of two"),
        pytest.param("max(60, vcpus * 30)", "m5.large", "60m", id="AWS-28 the floor"),
        pytest.param("vcpus * 7", "m5.large", "20m", id="rounded up to ten millicores"),
        pytest.param("double(vcpus) * 10.9", "m5.large", "30m", id="cut, then rounded up"),
        pytest.param("3", "m5.large", "3", id="a quantity is no expression"),
        pytest.param("max_pods", "m5.large", "30m", id="pods of the type"),
    ],
)
def test_expressions_for_reserved_cpu(expression: str, name: str, reserved: str) -> None:
    size = Size(name, kubelet={"kubeReserved": {"cpu": expression}})

    assert {"cpu": reserved} == dict(size.kubelet.kube_reserved)


def test_reserved_amounts_see_the_pods_an_expression_comes_to() -> None:
    size = Size(
        "m5.large",
        kubelet={"maxPods": "max_pods + 1", "systemReserved": {"memory": "max_pods * 2"}},
    )

    assert 30 == size.capacity.pods
    assert {"memory": "64Mi"} == dict(size.kubelet.system_reserved)


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("vcpus - 4", id="AWS-27 below nothing"),
        pytest.param("vcpus / 0", id="divided by nothing"),
        pytest.param("instance_type", id="text"),
        pytest.param("vcpus * 2000000000", id="more than a kubelet counts to"),
        pytest.param("vcpus > 1", id="true or false"),
    ],
)
def test_expressions_without_a_usable_result(expression: str) -> None:
    with pytest.raises(KubeletError, match=r"maxPods.* on m5\.large"):
        Size("m5.large", kubelet={"maxPods": expression})


def test_every_type_is_sized_as_its_raw_description_says() -> None:
    """An independent reading of EC2's words, for all types and not only the worked examples."""
    wrong = []
    for name, raw in INSTANCE_TYPES.items():
        if name not in CATALOGUE.entries:
            continue
        network = raw["NetworkInfo"]
        card = network["NetworkCards"][network.get("DefaultNetworkCardIndex", 0)]
        cores = raw["VCpuInfo"]["DefaultVCpus"]
        mebibytes = raw["MemoryInfo"]["SizeInMiB"]
        if raw["ProcessorInfo"]["SupportedArchitectures"][0] == "arm64":
            mebibytes -= 64
        addresses = network["Ipv4AddressesPerInterface"]
        pods = card["MaximumNetworkInterfaces"] * (addresses - 1) + 2
        memory = mebibytes - -(-mebibytes * 75 // 1000)
        shares = [60, 10, 5, 5] + [2.5] * max(0, cores - 4)
        cpu = cores * 1000 - int(sum(shares[:cores]))
        left = memory - (11 * pods + 255) - 100
        size = Size(name)
        found = (size.capacity.pods, size.allocatable.cpu, size.allocatable.memory / MIB)
        if (pods, cpu, left) != found:
            wrong.append((name, (pods, cpu, left), found))

    assert [] == wrong


def test_every_type_has_room_for_pods() -> None:
    sizes = [Size(name) for name in CATALOGUE.entries]

    assert 1255 == len(sizes)
    assert [] == [
        size.facts.name
        for size in sizes
        if min(size.allocatable.cpu, size.allocatable.memory, size.allocatable.pods) <= 0
    ]
