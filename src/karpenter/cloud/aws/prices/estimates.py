"""Estimated prices for when AWS cannot be reached, as in GovCloud or an isolated network.

The table holds what Linux cost on demand in us-east-1 on its date. It is an **estimate** for every
other region and every later day, good for comparing types with one another, and marked as one
wherever it is shown. Types that the table does not know are guessed from their family, or from what
they have. Prices from AWS replace these one by one.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from karpenter.cloud.aws.types.facts import TypeFacts, family_and_size
from karpenter.cloud.aws.types.tables import on_demand_prices

# Dollars per vCPU of families that are sold elsewhere, but no longer or not in us-east-1
_PER_VCPU: Final = {"p3": 0.3825, "dl1": 0.1366}
# For families that are not listed: dollars per vCPU and per device, and per GiB of memory. On the
# high side of what is listed: no machine should be chosen because its price was underestimated
_PER_UNLISTED_VCPU: Final = 0.1
_PER_UNLISTED_DEVICE: Final = 10.0
_PER_UNLISTED_GIB: Final = 0.0125
_MIB_PER_GIB: Final = 1024
# How many xlarge a size is worth
_SMALL_SIZES: Final = {
    "nano": 1 / 32,
    "micro": 1 / 16,
    "small": 1 / 8,
    "medium": 1 / 4,
    "large": 1 / 2,
}
_LARGE_SIZE: Final = re.compile(r"(?:metal-)?([0-9]*)xl(?:arge)?", re.ASCII)


def estimated_price(facts: TypeFacts) -> float:
    """What an hour of a type costs, roughly."""
    listed = on_demand_prices().get(facts.name)
    if listed is not None:
        return listed
    family, size = family_and_size(facts.name)
    per_xlarge, worth = _prices_per_xlarge().get(family), _worth(size)
    if per_xlarge is not None and worth:
        return round(per_xlarge * worth, 6)
    if family in _PER_VCPU:
        return round(_PER_VCPU[family] * facts.vcpus, 6)
    devices = sum(gpu.count for gpu in facts.gpus) + sum(each.count for each in facts.neurons)
    return round(
        _PER_UNLISTED_VCPU * facts.vcpus
        + _PER_UNLISTED_DEVICE * devices
        + _PER_UNLISTED_GIB * facts.memory_mib / _MIB_PER_GIB,
        6,
    )


@cache
def _prices_per_xlarge() -> Mapping[str, float]:
    """What one xlarge of each family costs, by its largest size that has a number in its name.

    Prices grow with the size in nearly all families; where they do not, the largest is the one that
    a size too new for the table is most likely to resemble.
    """
    found: dict[str, tuple[float, float]] = {}
    for name, price in on_demand_prices().items():
        family, size = family_and_size(name)
        worth = _worth(size)
        if worth and worth >= found.get(family, (0.0, 0.0))[0]:
            found[family] = (worth, price / worth)
    return {family: per_xlarge for family, (_, per_xlarge) in found.items()}


def _worth(size: str) -> float:
    """How many xlarge a size is worth; 0 where its name has no number, as in ``metal``."""
    if size in _SMALL_SIZES:
        return _SMALL_SIZES[size]
    found = _LARGE_SIZE.fullmatch(size)
    return 0.0 if found is None else float(found[1] or 1)
