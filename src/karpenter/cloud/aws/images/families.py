"""AMI families: the defaults of their images and the settings they support."""

from dataclasses import dataclass
from typing import Final

from karpenter.api.node_classes.ec2 import (
    AMISelectorTerm,
    BlockDevice,
    BlockDeviceMapping,
    EC2NodeClass,
    EC2NodeClassSpec,
)

CUSTOM: Final = "Custom"
_ALIAS_SEPARATOR: Final = "@"


@dataclass(frozen=True, slots=True)
class Family:
    """One family of images."""

    name: str
    alias: str = ""  # how an alias term spells it
    data_device: str = ""  # the disk that images and containers are kept on
    default_disks: tuple[BlockDeviceMapping, ...] = ()  # what a node gets when the class names none
    limits_pods_by_interfaces: bool = True
    honours_pods_per_core: bool = True
    reserves_by_interfaces: bool = True  # kube-reserved memory follows the number of interfaces
    takes_any_kubelet_field: bool = False
    windows_build: str = ""

    @property
    def is_windows(self) -> bool:
        """Whether nodes of the family run Windows."""
        return bool(self.windows_build)


def _disk(device: str, size: str) -> BlockDeviceMapping:
    ebs = BlockDevice(volume_size=size, volume_type="gp3", encrypted=True)
    return BlockDeviceMapping(device_name=device, ebs=ebs)


def _windows(year: str, build: str) -> Family:
    return Family(
        name=f"Windows{year}",
        alias=f"windows{year}",
        data_device="/dev/sda1",
        default_disks=(_disk("/dev/sda1", "50Gi"),),
        limits_pods_by_interfaces=False,
        reserves_by_interfaces=False,
        windows_build=build,
    )


FAMILIES: Final = {
    family.name: family
    for family in (
        Family("AL2", "al2", "/dev/xvda", (_disk("/dev/xvda", "20Gi"),)),
        Family(
            "AL2023",
            "al2023",
            "/dev/xvda",
            (_disk("/dev/xvda", "20Gi"),),
            takes_any_kubelet_field=True,
        ),
        Family(
            "Bottlerocket",
            "bottlerocket",
            "/dev/xvdb",
            (_disk("/dev/xvda", "4Gi"), _disk("/dev/xvdb", "20Gi")),
            honours_pods_per_core=False,
            reserves_by_interfaces=False,
        ),
        _windows("2019", "10.0.17763"),
        _windows("2022", "10.0.20348"),
        _windows("2025", "10.0.26100"),
        Family(CUSTOM, takes_any_kubelet_field=True),
    )
}
_BY_ALIAS: Final = {family.alias: family for family in FAMILIES.values() if family.alias}


def alias_of(spec: EC2NodeClassSpec) -> tuple[Family, str] | None:
    """The family and version that an alias term names, or None without such a term."""
    term = next((each for each in spec.ami_selector_terms if each.alias), None)
    return None if term is None else _split(term)


def family_of(node_class: EC2NodeClass) -> Family:
    """The family of a node class."""
    return family_of_spec(node_class.spec)


def family_of_spec(spec: EC2NodeClassSpec) -> Family:
    """The family of a spec: ``amiFamily`` if set, else that of its alias."""
    if spec.ami_family in FAMILIES:
        return FAMILIES[spec.ami_family]
    alias = alias_of(spec)
    return FAMILIES[CUSTOM] if alias is None else alias[0]


def _split(term: AMISelectorTerm) -> tuple[Family, str] | None:
    name, _, version = term.alias.partition(_ALIAS_SEPARATOR)
    family = _BY_ALIAS.get(name)
    return None if family is None else (family, version)
