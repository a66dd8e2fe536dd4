"""What the simulated provider sells: its built-in machines, or those of an instance-types file.

Names, sizes and prices of the built-in catalogue are those of Karpenter's KWOK provider, so plans
for one hold for the other. Prices grow with cpu and memory only: architecture and operating system
never change them, and all zones cost the same.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from karpenter.api.node_classes import kwok_labels
from karpenter.cloud.kwok.entries import Entry, OfferingEntry, read_entries
from karpenter.cloud.types import InstanceType, Offering, ProviderFacts
from karpenter.model import labels
from karpenter.model.quantity import canonical
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

CPUS: Final = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256)
FAMILIES: Final = {2: "c", 4: "s", 8: "m"}  # GiB per cpu -> family
SYSTEMS: Final = ("linux", "windows")
ARCHITECTURES: Final = ("amd64", "arm64")
ZONES: Final = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")
OVERHEAD: Final = Resources.from_wire({CPU: "100m", MEMORY: "10Mi"})

_GIB: Final = 2**30
_PRICE_PER_CPU: Final = 0.025
_PRICE_PER_GB: Final = 0.001
_SPOT_SHARE: Final = 0.7
_PODS_PER_CPU: Final = 16
_MOST_PODS: Final = 1024
_PODS_BY_DEFAULT: Final = 110

_AWS_NAME: Final = re.compile(
    r"[\w-]+\.(nano|micro|small|medium|large|[0-9]*xlarge|metal)", re.ASCII
)
_FAMILY: Final = re.compile(r"[^.-]*(?=[.-])")

# Labels that say what a type is; the region is not among them, a node takes it from its claim
_OF_TYPES: Final = frozenset(
    {
        labels.INSTANCE_TYPE,
        labels.ARCH,
        labels.OS,
        labels.WINDOWS_BUILD,
        kwok_labels.INSTANCE_SIZE,
        kwok_labels.INSTANCE_FAMILY,
        kwok_labels.INSTANCE_CPU,
        kwok_labels.INSTANCE_MEMORY,
    }
)


@cache
def built_in() -> tuple[InstanceType, ...]:
    """Return the built-in catalogue: 144 types with 8 offerings each."""
    return _types(tuple(_built_in_entries()))


def load(data: bytes, name: str) -> tuple[InstanceType, ...]:
    """Return the catalogue of an instance-types file called ``name``.

    Raises:
        CatalogueError: with one sentence about the first thing that is wrong.
    """
    return _types(read_entries(data, name))


def facts_about(types: Iterable[InstanceType]) -> ProviderFacts:
    """Return what planners must know about the provider when it sells ``types``."""
    offered: set[str] = set()
    for kind in types:
        offered |= kind.requirements.keys()
        for way in kind.offerings:
            offered |= way.requirements.keys()
    return _facts(frozenset(offered))


def size_of(name: str, cpu: str) -> str:
    """Return the size label of a type: the part after the dot of an AWS name, else its cpus."""
    aws = _AWS_NAME.fullmatch(name)
    return aws[1] if aws else cpu


def family_of(name: str) -> str:
    """Return the family label of a type: what stands before the first dot or hyphen."""
    found = _FAMILY.match(name)
    return found[0] if found else name[:1]


def _built_in_entries() -> Iterator[Entry]:
    for cpus in CPUS:
        for factor, family in FAMILIES.items():
            for system in SYSTEMS:
                for arch in ARCHITECTURES:
                    gib = cpus * factor
                    on_demand = _PRICE_PER_CPU * cpus + _PRICE_PER_GB * (gib * _GIB / 1e9)
                    prices = {labels.SPOT: _SPOT_SHARE * on_demand, labels.ON_DEMAND: on_demand}
                    yield Entry(
                        name=f"{family}-{cpus}x-{arch}-{system}",
                        architecture=arch,
                        operating_systems=(system,),
                        resources={
                            CPU: str(cpus),
                            MEMORY: f"{gib}Gi",
                            PODS: str(min(_PODS_PER_CPU * cpus, _MOST_PODS)),
                            EPHEMERAL_STORAGE: "20Gi",
                        },
                        offerings=tuple(
                            OfferingEntry(_place(zone, capacity_type), price, available=True)
                            for zone in ZONES
                            for capacity_type, price in prices.items()
                        ),
                    )


@cache
def _place(zone: str, capacity_type: str) -> Requirements:
    return Requirements.from_labels({labels.ZONE: zone, labels.CAPACITY_TYPE: capacity_type})


def _types(entries: tuple[Entry, ...]) -> tuple[InstanceType, ...]:
    offered = {kwok_labels.RESERVATION_ID}
    for entry in entries:
        for way in entry.offerings:
            offered.update(way.requirements.keys())
    answers = _Answers(tuple(sorted(offered - _OF_TYPES)))
    own = {each.key for entry in entries for each in entry.requirements}
    labels_of_types = _Answers(tuple(sorted(own - offered - _OF_TYPES)))
    return tuple(_type(entry, answers, labels_of_types) for entry in entries)


class _Answers:
    """Adds ``DoesNotExist`` for every label that some other offering, or type, of the catalogue has.

    A requirement that is missing allows any value, so such an offering would match them all. There
    are few distinct results, so they are interned.
    """

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self._completed: dict[Requirements, Requirements] = {}

    def complete(self, requirements: Requirements) -> Requirements:
        found = self._completed.get(requirements)
        if found is None:
            missing = (key for key in self.keys if requirements.get(key) is None)
            found = requirements & (Requirement(key, complement=False) for key in missing)
            self._completed[requirements] = found
        return found


def _type(entry: Entry, answers: _Answers, labels_of_types: _Answers) -> InstanceType:
    cpu = canonical(entry.resources[CPU])
    build = entry.requirements.get(labels.WINDOWS_BUILD)
    held: dict[str, tuple[str, ...]] = {
        labels.INSTANCE_TYPE: (entry.name,),
        labels.ARCH: (entry.architecture,),
        labels.OS: entry.operating_systems,
        labels.WINDOWS_BUILD: tuple(build.values) if build is not None else (),
        kwok_labels.INSTANCE_SIZE: (size_of(entry.name, cpu),),
        kwok_labels.INSTANCE_FAMILY: (family_of(entry.name),),
        kwok_labels.INSTANCE_CPU: (cpu,),
        kwok_labels.INSTANCE_MEMORY: (canonical(entry.resources[MEMORY]),),
    }
    offerings = tuple(
        Offering(
            requirements=answers.complete(way.requirements),
            price=way.price,
            available=way.available,
            reservation_id=way.reservation_id,
            reservation_capacity=way.reservation_capacity,
            is_estimate=way.is_estimate,
        )
        for way in entry.offerings
    )
    own = (Requirement(key, False, frozenset(values)) for key, values in held.items())
    offered = (_union(key, offerings) for key in answers.keys)
    told = labels_of_types.complete(entry.requirements)
    more = (each for each in told if each.key in labels_of_types.keys)
    kept = entry.overhead
    return InstanceType(
        name=entry.name,
        requirements=Requirements((*own, *offered, *more)),
        offerings=offerings,
        capacity=Resources.from_wire({PODS: _PODS_BY_DEFAULT} | dict(entry.resources)),
        overhead=OVERHEAD if kept is None else Resources.from_wire(kept),
        volume_attachment_limits=entry.volume_attachment_limits or {},
    )


def _union(key: str, offerings: Iterable[Offering]) -> Requirement:
    """What a type may have: the values of its offerings, or any when one of them allows more."""
    held = [offering.requirements[key] for offering in offerings]
    if any(requirement.complement for requirement in held):
        return Requirement(key)
    return Requirement(key, False, frozenset().union(*(requirement.values for requirement in held)))


def _facts(offered: frozenset[str]) -> ProviderFacts:
    return ProviderFacts(
        name="kwok",
        node_classes=((kwok_labels.DOMAIN, "KWOKNodeClass"),),
        well_known_labels=labels.CORE_WELL_KNOWN | kwok_labels.WELL_KNOWN | offered,
        reservation_id_label=kwok_labels.RESERVATION_ID,
    )


FACTS: Final = _facts(frozenset())  # the built-in offerings have no labels beyond the core's
