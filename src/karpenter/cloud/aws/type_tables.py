"""Facts about instance types that EC2 does not tell, as tables that ship with the program.

A line of a table is a family followed by its sizes, each with a figure; lines that begin with ``#``
say what the figures are and of which date.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

_FOLDER: Final = "karpenter.cloud.aws"


@cache
def on_demand_prices() -> Mapping[str, float]:
    """Dollars for an hour of Linux on demand in us-east-1, by type, on the date of the table."""
    return MappingProxyType({name: float(text) for name, text in _figures("on_demand_prices")})


@cache
def branch_interfaces_by_type() -> Mapping[str, int]:
    """How many branch network interfaces a type has; a type that is not there has none."""
    return MappingProxyType({name: int(text) for name, text in _figures("branch_interfaces")})


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
