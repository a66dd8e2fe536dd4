"""Facts about instance types, as tables that ship with the program.

``on_demand_prices`` and ``branch_interfaces`` hold what EC2's API does not return: a line is a
family followed by its sizes, each with a figure; lines that begin with ``#`` say what the figures
are and of which date. ``instance_types`` holds EC2's own answer, for plans without access to it; it
is written by ``tools/instance_type_facts.py``.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

import msgspec

from karpenter.cloud.aws.types.facts import TypeFacts

_FOLDER: Final = "karpenter.cloud.aws"
# A digit stands for a set of up to six zones: the bits of its place in this row
ZONE_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"


class SoldTypes(msgspec.Struct, frozen=True):
    """What EC2 sells, and where."""

    about: str  # what the table is and where it comes from
    zones: dict[str, dict[str, str]]  # region -> zone -> its id
    sold: dict[str, str]  # region -> for every type the zones that sell it, as a digit
    types: tuple[TypeFacts, ...]  # by name

    def sold_in(self, region: str) -> dict[str, tuple[str, ...]]:
        """The zones that sell a type, by type; a type that none of the region sells is not there."""
        zones = tuple(self.zones[region])
        places = [
            tuple(zone for bit, zone in enumerate(zones) if mask >> bit & 1)
            for mask in range(1 << len(zones))
        ]
        by_digit = dict(zip(ZONE_DIGITS, places, strict=False))
        listed = zip(self.types, self.sold[region], strict=True)
        return {facts.name: by_digit[digit] for facts, digit in listed if by_digit[digit]}


@cache
def on_demand_prices() -> Mapping[str, float]:
    """Dollars for an hour of Linux on demand in us-east-1, by type, on the date of the table."""
    return MappingProxyType({name: float(text) for name, text in _figures("on_demand_prices")})


@cache
def branch_interfaces_by_type() -> Mapping[str, int]:
    """How many branch network interfaces a type has; a type that is not there has none."""
    return MappingProxyType({name: int(text) for name, text in _figures("branch_interfaces")})


@cache
def sold_types() -> SoldTypes:
    """What EC2 sells, and where, on the date of the table."""
    file = resources.files(_FOLDER) / "tables" / "instance_types.json"
    return msgspec.json.decode(file.read_bytes(), type=SoldTypes)


def _figures(table: str) -> list[tuple[str, str]]:
    file = resources.files(_FOLDER) / "tables" / f"{table}.txt"
    found = []
    for line in file.read_text(encoding="ascii").splitlines():
        if line.startswith("#"):
            continue
        family, *sizes = line.split()
        for entry in sizes:
            size, _, figure = entry.partition("=")
            found.append((f"{family}.{size}", figure))
    return found
