"""``minValues`` of a claim's requirements, compared with the distinct values that are left."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from karpenter.model.requirements import Requirements


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A key whose requirement asks for more distinct values than are left."""

    key: str
    wanted: int
    found: int

    def __str__(self) -> str:
        """The shortfall in one phrase."""
        return f"minValues of {self.key} asks for {self.wanted} distinct values, {self.found} left"


def shortfalls(claim: Requirements, instance_types: Iterable[Requirements]) -> list[Shortfall]:
    """Return the keys of ``claim`` whose ``minValues`` the instance types cannot reach, sorted.

    A value counts when some instance type advertises it and the claim's requirement, as narrowed
    by now, allows it.
    """
    wanted = {r.key: r.min_values for r in claim if r.min_values is not None}
    if not wanted:
        return []
    found: dict[str, set[str]] = {key: set() for key in wanted}
    for offered in instance_types:
        for key, values in found.items():
            advertised = offered[key]
            if not advertised.complement:
                values.update(advertised.values)
    counts = {key: sum(map(claim[key].has, values)) for key, values in found.items()}
    return [
        Shortfall(key, least, counts[key])
        for key, least in sorted(wanted.items())
        if counts[key] < least
    ]


def lowered(claim: Requirements, short: Iterable[Shortfall]) -> Requirements:
    """Return requirements with each ``minValues`` in ``short`` lowered to what was found.

    A ``minValues`` of zero is invalid, so where nothing was found it is removed.
    """
    found = {shortfall.key: shortfall.found or None for shortfall in short}
    return Requirements(replace(r, min_values=found[r.key]) if r.key in found else r for r in claim)
