"""All instance types of a region and the zones they are sold in, as EC2 lists them."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.tags import equals
from karpenter.cloud.aws.types.facts import TypeFacts, facts_of, is_usable
from karpenter.cloud.aws.types.labels import type_requirements
from karpenter.cloud.provider import CloudError
from karpenter.model.requirement import Requirement

REFRESH: Final = timedelta(hours=12)
_TYPES_PAGE: Final = 100
_OFFERINGS_PAGE: Final = 1000


class CatalogueError(CloudError):
    """EC2 lists nothing one could launch; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One type, and what follows from it for every node class."""

    facts: TypeFacts
    zones: frozenset[str]  # where it is sold
    requirements: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The types of a region by name."""

    entries: Mapping[str, CatalogueEntry] = field(default_factory=dict)
    zones: frozenset[str] = frozenset()

    @property
    def facts(self) -> Iterable[TypeFacts]:
        """The facts of all types."""
        return (entry.facts for entry in self.entries.values())


async def read_catalogue(calls: Calls) -> Catalogue:
    """Ask EC2 for everything it sells in this region.

    Raises:
        CatalogueError: it sells nothing that nodes could run on.
        AwsError: the call failed.
    """
    types, offerings = await asyncio.gather(
        calls.pages(
            "ec2",
            "DescribeInstanceTypes",
            "InstanceTypes",
            # Architectures are filtered here: EC2's filter would omit types that have an additional
            # one
            Filters=[equals("supported-virtualization-type", ["hvm"])],
            MaxResults=_TYPES_PAGE,
        ),
        calls.pages(
            "ec2",
            "DescribeInstanceTypeOfferings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            MaxResults=_OFFERINGS_PAGE,
        ),
    )
    return await asyncio.to_thread(catalogue_of, types, offerings, calls.region)


def catalogue_of(
    types: Iterable[Mapping[str, Any]], offerings: Iterable[Mapping[str, Any]], region: str
) -> Catalogue:
    """Read what EC2 answered.

    Raises:
        CatalogueError: there is no type, or none is sold anywhere.
    """
    zones: dict[str, set[str]] = {}
    for offering in offerings:
        zones.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    facts = [facts_of(entry) for entry in types if is_usable(entry)]
    return catalogue_from(facts, zones, region)


def catalogue_from(
    facts: Collection[TypeFacts], zones: Mapping[str, Collection[str]], region: str
) -> Catalogue:
    """The catalogue of a region, of the facts of types and the zones each is sold in.

    Raises:
        CatalogueError: there is no type, or none is sold anywhere.
    """
    if not facts:
        raise CatalogueError(f"EC2 lists no instance types in {region}")
    if not zones:
        raise CatalogueError(f"EC2 lists no instance type offerings in {region}")
    entries = {
        each.name: CatalogueEntry(
            each, frozenset(zones.get(each.name, ())), type_requirements(each, region)
        )
        for each in sorted(facts, key=lambda each: each.name)
    }
    return Catalogue(entries, frozenset(zone for found in zones.values() for zone in found))
