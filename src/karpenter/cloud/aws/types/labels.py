"""The labels a node of an instance type gets, as requirements.

What depends on the type alone is worked out once per type and shared between node classes; zones,
operating system, capacity types and reservations are added per node class. EC2 returns the baseline
network bandwidth, in Mbit/s, per network card. It is omitted for families whose rating was only
ever a word, such as "moderate"; a few types are rated differently from what their cards add up to.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.images.families import Family
from karpenter.cloud.aws.types.facts import (
    Accelerator,
    TypeFacts,
    category_and_generation,
    family_and_size,
)
from karpenter.cloud.types import ProviderFacts
from karpenter.model import labels
from karpenter.model.requirement import Requirement

_VAGUE_FAMILIES: Final = frozenset({"c1", "m1", "m2", "m3", "t1", "t2"})
# Family -> vCPUs from which on its sizes have a rating
_RATED_FROM: Final = {"c3": 32, "c4": 36, "d2": 36, "i2": 32, "m4": 40, "r3": 32}
_TEN_GIGABIT: Final = frozenset({"c3", "h1", "i3", "r3", "r4"})
_TWO_HUNDRED_GIGABIT: Final = frozenset({"c6in", "m6in", "m6idn", "r6in", "r6idn", "hpc6id"})
_RATINGS: Final = {
    "g6e.24xlarge": 200_000,
    "g6e.48xlarge": 400_000,
    "i4i.12xlarge": 28_120,
    "i7i.12xlarge": 28_120,
    "i8g.12xlarge": 28_120,
    "i8g.metal-48xl": 90_000,
    "i8ge.48xlarge": 180_000,
    "i8ge.metal-48xl": 180_000,
    "trn2.3xlarge": 200_000,
    "vt1.3xlarge": 3_120,
}
_FAMILY_RATINGS: Final = {"hpc8a": 300_000, "p6-b200": 3_200_000, "p6-b300": 6_400_000}
_THIRDS: Final = frozenset({33_333, 66_666, 133_333})  # sums that are rated in tens
FACTS: Final = ProviderFacts(
    name="aws",
    node_classes=((ec2_labels.DOMAIN, "EC2NodeClass"),),
    well_known_labels=labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN,
    reservation_id_label=ec2_labels.CAPACITY_RESERVATION_ID,
)
LINUX: Final = "linux"
WINDOWS: Final = "windows"
_TEXTS: Final = {True: "true", False: "false"}
# Labels a type either has a value for or must not have at all
_OPTIONAL: Final = (
    ec2_labels.INSTANCE_EBS_BANDWIDTH,
    ec2_labels.INSTANCE_NETWORK_BANDWIDTH,
    ec2_labels.INSTANCE_CATEGORY,
    ec2_labels.INSTANCE_GENERATION,
    ec2_labels.INSTANCE_LOCAL_NVME,
    ec2_labels.INSTANCE_GPU_NAME,
    ec2_labels.INSTANCE_GPU_MANUFACTURER,
    ec2_labels.INSTANCE_GPU_COUNT,
    ec2_labels.INSTANCE_GPU_MEMORY,
    ec2_labels.INSTANCE_ACCELERATOR_NAME,
    ec2_labels.INSTANCE_ACCELERATOR_MANUFACTURER,
    ec2_labels.INSTANCE_ACCELERATOR_COUNT,
)


def network_mbps(facts: TypeFacts) -> int | None:
    """The baseline bandwidth of a type, or None when it is not known."""
    family, size = family_and_size(facts.name)
    rated = _rating(facts.name, family, size)
    if rated is not None:
        return rated
    if family in _VAGUE_FAMILIES or facts.vcpus < _RATED_FROM.get(family, 0):
        return None
    gbps = [card.baseline_gbps for card in facts.cards if card.baseline_gbps is not None]
    if not gbps:
        return None
    total = round(sum(gbps) * 1000)
    return total // 10 * 10 if total in _THIRDS else total


def _rating(name: str, family: str, size: str) -> int | None:
    if name in _RATINGS:
        return _RATINGS[name]
    if family in _FAMILY_RATINGS:
        return _FAMILY_RATINGS[family]
    if family in _TEN_GIGABIT and size == "8xlarge":
        return 10_000
    if family in _TWO_HUNDRED_GIGABIT and size in ("32xlarge", "metal"):
        return 200_000
    return None


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
        ec2_labels.INSTANCE_CPU: str(facts.vcpus),
        ec2_labels.INSTANCE_CPU_MANUFACTURER: slug(facts.cpu_manufacturer),
        ec2_labels.INSTANCE_CPU_CLOCK: str(facts.clock_mhz),
        ec2_labels.INSTANCE_MEMORY: str(facts.memory_mib),
        ec2_labels.INSTANCE_FAMILY: family,
        ec2_labels.INSTANCE_SIZE: size,
        ec2_labels.INSTANCE_CAPABILITY_FLEX: _TEXTS["-flex" in family],
        ec2_labels.INSTANCE_HYPERVISOR: facts.hypervisor,
        ec2_labels.INSTANCE_ENCRYPTION_IN_TRANSIT: _TEXTS[facts.encrypts_in_transit],
        ec2_labels.NITRO_SANDBOX: _TEXTS[facts.has_enclaves],
        **dict(_optional_labels(facts)),
    }
    present = tuple(only(key, value) for key, value in held.items())
    absent = tuple(only(key) for key in _OPTIONAL if key not in held)
    tenancy = only(ec2_labels.INSTANCE_TENANCY, *sorted(ec2_labels.TENANCIES))
    return (*present, *absent, tenancy)


def system_requirements(facts: TypeFacts, family: Family) -> tuple[Requirement, ...]:
    """The operating system, and the build of Windows where it is one."""
    if not family.is_windows:
        return (only(labels.OS, LINUX), only(labels.WINDOWS_BUILD))
    # No image of Windows runs on arm64, so such a type has no operating system at all
    system = (WINDOWS,) if facts.architecture == "amd64" else ()
    return (only(labels.OS, *system), only(labels.WINDOWS_BUILD, family.windows_build))


def zone_requirements(zones: Iterable[tuple[str, str]]) -> tuple[Requirement, ...]:
    """The zones, each with its id; unknown ids are omitted."""
    names, ids = [], []
    for name, zone_id in zones:
        names.append(name)
        if zone_id:
            ids.append(zone_id)
    return (only(labels.ZONE, *names), *((only(ec2_labels.ZONE_ID, *ids),) if ids else ()))


def slug(text: str) -> str:
    """Text as a label may hold it."""
    return text.lower().replace(" ", "-")


def _optional_labels(facts: TypeFacts) -> Iterator[tuple[str, str]]:
    if facts.ebs_mbps is not None:
        yield ec2_labels.INSTANCE_EBS_BANDWIDTH, str(facts.ebs_mbps)
    mbps = network_mbps(facts)
    if mbps is not None:
        yield ec2_labels.INSTANCE_NETWORK_BANDWIDTH, str(mbps)
    named = category_and_generation(facts.name)
    if named is not None:
        yield ec2_labels.INSTANCE_CATEGORY, named[0]
        yield ec2_labels.INSTANCE_GENERATION, named[1]
    if facts.has_storage and facts.has_nvme:
        yield ec2_labels.INSTANCE_LOCAL_NVME, str(facts.storage_gb)
    if len(facts.gpus) == 1:
        gpu = facts.gpus[0]
        yield ec2_labels.INSTANCE_GPU_NAME, slug(gpu.name)
        yield ec2_labels.INSTANCE_GPU_MANUFACTURER, slug(gpu.manufacturer)
        yield ec2_labels.INSTANCE_GPU_COUNT, str(gpu.count)
        yield ec2_labels.INSTANCE_GPU_MEMORY, str(gpu.memory_mib)
    accelerator = _accelerator(facts)
    if accelerator is not None:
        yield ec2_labels.INSTANCE_ACCELERATOR_NAME, slug(accelerator.name)
        yield ec2_labels.INSTANCE_ACCELERATOR_MANUFACTURER, slug(accelerator.manufacturer)
        yield ec2_labels.INSTANCE_ACCELERATOR_COUNT, str(accelerator.count)


def _accelerator(facts: TypeFacts) -> Accelerator | None:
    """The one kind of accelerator a type has; with two kinds no label could name them."""
    kinds = facts.neurons or facts.inference
    return kinds[0] if len(kinds) == 1 else None
