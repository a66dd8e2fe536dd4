"""The labels a node of an instance type gets, as requirements.

What depends on the type alone is worked out once per type and shared between node classes; zones,
operating system, capacity types and reservations are added per node class.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from karpenter.cloud.aws.bandwidth import network_mbps
from karpenter.cloud.aws.facts import Accelerator, TypeFacts
from karpenter.cloud.aws.families import Family
from karpenter.cloud.aws.names import category_and_generation, family_and_size
from karpenter.cloud.types import ProviderFacts
from karpenter.model import labels
from karpenter.model.requirement import Requirement

FACTS: Final = ProviderFacts(
    name="aws",
    node_classes=((labels.AWS_DOMAIN, "EC2NodeClass"),),
    well_known_labels=labels.well_known("aws"),
    reservation_id_label=labels.CAPACITY_RESERVATION_ID,
)
LINUX: Final = "linux"
WINDOWS: Final = "windows"
_TEXTS: Final = {True: "true", False: "false"}
# Labels a type either has a value for or must not have at all
_OPTIONAL: Final = (
    labels.INSTANCE_EBS_BANDWIDTH,
    labels.INSTANCE_NETWORK_BANDWIDTH,
    labels.INSTANCE_CATEGORY,
    labels.INSTANCE_GENERATION,
    labels.INSTANCE_LOCAL_NVME,
    labels.INSTANCE_GPU_NAME,
    labels.INSTANCE_GPU_MANUFACTURER,
    labels.INSTANCE_GPU_COUNT,
    labels.INSTANCE_GPU_MEMORY,
    labels.INSTANCE_ACCELERATOR_NAME,
    labels.INSTANCE_ACCELERATOR_MANUFACTURER,
    labels.INSTANCE_ACCELERATOR_COUNT,
)


def only(key: str, *values: str) -> Requirement:
    """Require a label to have one of ``values``, or to be absent when there are none."""
    return Requirement(key, complement=False, values=frozenset(values))


def type_requirements(facts: TypeFacts, region: str) -> tuple[Requirement, ...]:
    """What follows from a type alone."""
    family, size = family_and_size(facts.name)
    held = {
        labels.INSTANCE_TYPE: facts.name,
        labels.ARCH: facts.architecture,
        labels.REGION: region,
        labels.INSTANCE_CPU: str(facts.vcpus),
        labels.INSTANCE_CPU_MANUFACTURER: slug(facts.cpu_manufacturer),
        labels.INSTANCE_CPU_CLOCK: str(facts.clock_mhz),
        labels.INSTANCE_MEMORY: str(facts.memory_mib),
        labels.INSTANCE_FAMILY: family,
        labels.INSTANCE_SIZE: size,
        labels.INSTANCE_CAPABILITY_FLEX: _TEXTS["-flex" in family],
        labels.INSTANCE_HYPERVISOR: facts.hypervisor,
        labels.INSTANCE_ENCRYPTION_IN_TRANSIT: _TEXTS[facts.encrypts_in_transit],
        labels.NITRO_SANDBOX: _TEXTS[facts.has_enclaves],
        **dict(_optional_labels(facts)),
    }
    present = tuple(only(key, value) for key, value in held.items())
    absent = tuple(only(key) for key in _OPTIONAL if key not in held)
    tenancy = only(labels.INSTANCE_TENANCY, *sorted(labels.TENANCIES))
    return (*present, *absent, tenancy)


def system_requirements(facts: TypeFacts, family: Family) -> tuple[Requirement, ...]:
    """The operating system, and the build of Windows where it is one."""
    if not family.is_windows:
        return (only(labels.OS, LINUX), only(labels.WINDOWS_BUILD))
    # No image of Windows runs on arm64, so such a type has no operating system at all
    system = (WINDOWS,) if facts.architecture == "amd64" else ()
    return (only(labels.OS, *system), only(labels.WINDOWS_BUILD, family.windows_build))


def zone_requirements(zones: Iterable[tuple[str, str]]) -> tuple[Requirement, ...]:
    """The zones, each with its id; ids nobody knows are left away."""
    names, ids = [], []
    for name, zone_id in zones:
        names.append(name)
        if zone_id:
            ids.append(zone_id)
    return (only(labels.ZONE, *names), *((only(labels.ZONE_ID, *ids),) if ids else ()))


def slug(text: str) -> str:
    """Text as a label may hold it."""
    return text.lower().replace(" ", "-")


def _optional_labels(facts: TypeFacts) -> Iterator[tuple[str, str]]:
    if facts.ebs_mbps is not None:
        yield labels.INSTANCE_EBS_BANDWIDTH, str(facts.ebs_mbps)
    mbps = network_mbps(facts)
    if mbps is not None:
        yield labels.INSTANCE_NETWORK_BANDWIDTH, str(mbps)
    named = category_and_generation(facts.name)
    if named is not None:
        yield labels.INSTANCE_CATEGORY, named[0]
        yield labels.INSTANCE_GENERATION, named[1]
    if facts.has_storage and facts.has_nvme:
        yield labels.INSTANCE_LOCAL_NVME, str(facts.storage_gb)
    if len(facts.gpus) == 1:
        gpu = facts.gpus[0]
        yield labels.INSTANCE_GPU_NAME, slug(gpu.name)
        yield labels.INSTANCE_GPU_MANUFACTURER, slug(gpu.manufacturer)
        yield labels.INSTANCE_GPU_COUNT, str(gpu.count)
        yield labels.INSTANCE_GPU_MEMORY, str(gpu.memory_mib)
    accelerator = _accelerator(facts)
    if accelerator is not None:
        yield labels.INSTANCE_ACCELERATOR_NAME, slug(accelerator.name)
        yield labels.INSTANCE_ACCELERATOR_MANUFACTURER, slug(accelerator.manufacturer)
        yield labels.INSTANCE_ACCELERATOR_COUNT, str(accelerator.count)


def _accelerator(facts: TypeFacts) -> Accelerator | None:
    """The one kind of accelerator a type has; with two kinds no label could name them."""
    kinds = facts.neurons or facts.inference
    return kinds[0] if len(kinds) == 1 else None
