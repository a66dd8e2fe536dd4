"""Where AWS publishes the images that an alias stands for, and what each of them is for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from karpenter.api.karpenter import NodeRequirement
from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.images.families import Family
from karpenter.cloud.aws.network.versions import as_numbers
from karpenter.model import labels

LATEST: Final = "latest"
_EXISTS: Final = "Exists"
_ABSENT: Final = "DoesNotExist"
_LAST_AL2_VERSION: Final = (1, 32)
_FIRST_WINDOWS_2025_VERSION: Final = (1, 35)

STANDARD: Final = "standard"
NVIDIA: Final = "nvidia"
NEURON: Final = "neuron"
# Variant -> what it takes of GPUs and accelerators
_VARIANTS: Final = {
    STANDARD: (
        (ec2_labels.INSTANCE_GPU_COUNT, _ABSENT),
        (ec2_labels.INSTANCE_ACCELERATOR_COUNT, _ABSENT),
    ),
    NVIDIA: ((ec2_labels.INSTANCE_GPU_COUNT, _EXISTS),),
    NEURON: ((ec2_labels.INSTANCE_ACCELERATOR_COUNT, _EXISTS),),
}
ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Published:
    """A parameter that names an image, and the sets of requirements the image is for."""

    parameter: str
    uses: tuple[tuple[NodeRequirement, ...], ...]


def sort_requirements(found: list[NodeRequirement]) -> tuple[NodeRequirement, ...]:
    """In the order a status lists them: short keys first."""
    return tuple(sorted(found, key=lambda each: (len(each.key), each.key)))


def architecture_requirement(architecture: str) -> NodeRequirement:
    """Require what EC2 calls ``architecture``."""
    return NodeRequirement(key=labels.ARCH, operator="In", values=(ARCHITECTURES[architecture],))


def unsupported_alias(family: Family, version: str) -> str | None:
    """Why there are no images of a family for a Kubernetes version; None if there are."""
    numbers = as_numbers(version)
    if family.name == "AL2" and numbers > _LAST_AL2_VERSION:
        return f"AL2 images are not published for Kubernetes {version}; use al2023"
    if family.name == "Windows2025" and numbers < _FIRST_WINDOWS_2025_VERSION:
        return f"Windows2025 images are not published for Kubernetes {version}; use windows2022"
    return None


def published_images(family: Family, kubernetes: str, version: str) -> tuple[Published, ...]:
    """The parameters of a family's alias.

    Args:
        family: the family the alias names.
        kubernetes: the minor version of the cluster.
        version: the part of the alias after the @.
    """
    if family.is_windows:
        return (_windows(family, kubernetes),)
    found = {"AL2": _al2, "AL2023": _al2023, "Bottlerocket": _bottlerocket}[family.name]
    return tuple(found(kubernetes, version))


def _al2(kubernetes: str, version: str) -> Iterator[Published]:
    for suffix, infix, architecture, variants in (
        ("", "", "x86_64", (STANDARD,)),
        ("-arm64", "arm64-", "arm64", (STANDARD,)),
        ("-gpu", "gpu-", "x86_64", (NEURON, NVIDIA)),
    ):
        name = (
            "recommended" if version == LATEST else f"amazon-eks-{infix}node-{kubernetes}-{version}"
        )
        yield Published(
            f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2{suffix}/{name}/image_id",
            tuple(_use(architecture, variant) for variant in variants),
        )


def _al2023(kubernetes: str, version: str) -> Iterator[Published]:
    for architecture, variant in (
        ("x86_64", STANDARD),
        ("x86_64", NVIDIA),
        ("x86_64", NEURON),
        ("arm64", STANDARD),
        ("arm64", NVIDIA),
    ):
        name = (
            "recommended"
            if version == LATEST
            else f"amazon-eks-node-al2023-{architecture}-{variant}-{kubernetes}-{version}"
        )
        yield Published(
            f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{architecture}"
            f"/{variant}/{name}/image_id",
            (_use(architecture, variant),),
        )


def _bottlerocket(kubernetes: str, version: str) -> Iterator[Published]:
    name = version.removeprefix("v")
    for suffix, architecture, variants in (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    ):
        yield Published(
            f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{architecture}/{name}/image_id",
            tuple(_use(architecture, variant) for variant in variants),
        )


def _windows(family: Family, kubernetes: str) -> Published:
    year = family.alias.removeprefix("windows")
    use = sort_requirements(
        [
            architecture_requirement("x86_64"),
            NodeRequirement(key=labels.OS, operator="In", values=("windows",)),
            NodeRequirement(
                key=labels.WINDOWS_BUILD, operator="In", values=(family.windows_build,)
            ),
        ]
    )
    return Published(
        f"/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized"
        f"-{kubernetes}/image_id",
        (use,),
    )


def _use(architecture: str, variant: str) -> tuple[NodeRequirement, ...]:
    takes = [NodeRequirement(key=key, operator=operator) for key, operator in _VARIANTS[variant]]
    return sort_requirements([architecture_requirement(architecture), *takes])
