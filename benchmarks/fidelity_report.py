"""Whether a simulation agrees with real runs of the same scenario, and the table that says so."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.fidelity_figures import Figures, Phase
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far off a simulation may be: a share of the real figure, but at least so much."""

    share: float
    least: float = 0.0


NODES: Final = Tolerance(0.05, 1)
COST: Final = Tolerance(0.05)
ALL_RUN: Final = Tolerance(0.15, 5)
REST: Final = Tolerance(0.25, 5)  # half the time between two passes of consolidation
EVICTIONS: Final = Tolerance(0.10, 3)
ALIKE: Final = Tolerance(0.05)  # of the nodes may be of another type, or in another zone
_NEVER: Final = "never"
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of both sides."""

    name: str
    unit: str
    simulated: float | None
    real: Sequence[float]  # of each run; empty where a run has no such figure
    middle: float | None  # what the simulation should come to
    spread: float  # of the real runs among themselves
    allowed: float  # difference from the middle, the spread included

    @property
    def agrees(self) -> bool:
        """Whether the simulation is as near as it has to be; two figures that are missing are."""
        if self.simulated is None or self.middle is None:
            return self.simulated is None and self.middle is None
        return abs(self.simulated - self.middle) <= self.allowed + _ROUNDING

    @property
    def off(self) -> float | None:
        """By what share of the middle the simulation is off."""
        if self.simulated is None or not self.middle:
            return None
        return self.simulated / self.middle - 1


def rows(simulated: Figures, real: Sequence[Figures]) -> list[Row]:
    """Every figure of a simulation beside those of real runs, of which there is at least one."""
    found = []
    for number, phase in enumerate(simulated.phases):
        same = [each.phases[number] for each in real]
        found += _of_phase(phase, same)
    found.append(
        _row("cost", "$h", simulated.dollar_hours, [each.dollar_hours for each in real], COST)
    )
    evictions = [float(each.evictions) for each in real]
    found.append(_row("evictions", "", simulated.evictions, evictions, EVICTIONS))
    found.append(_alike("types bought", simulated, real, lambda each: each.types))
    found.append(_alike("zones bought", simulated, real, lambda each: each.zones))
    return found


def _of_phase(phase: Phase, real: Sequence[Phase]) -> list[Row]:
    since = f"from {phase.at:.0f} s: "
    runs = [each.all_run for each in real if each.all_run is not None]
    found = [
        _row(f"{since}nodes in the end", "", phase.nodes, [each.nodes for each in real], NODES),
        _row(f"{since}at rest", "s", phase.rest, [each.rest for each in real], REST),
    ]
    if phase.all_run is None and not runs:
        return found
    times = runs if len(runs) == len(real) else []
    return [_row(f"{since}all pods run", "s", phase.all_run, times, ALL_RUN), *found]


def _row(
    name: str, unit: str, simulated: float | None, real: Sequence[float], tolerance: Tolerance
) -> Row:
    if not real:
        return Row(name, unit, simulated, (), None, 0.0, 0.0)
    middle, spread = statistics.median(real), max(real) - min(real)
    allowed = max(tolerance.share * middle, tolerance.least) + spread
    return Row(name, unit, simulated, tuple(real), middle, spread, allowed)


def _alike(
    name: str,
    simulated: Figures,
    real: Sequence[Figures],
    of: Callable[[Figures], Mapping[str, int]],
) -> Row:
    """How many of 100 nodes have a counterpart in each real run; real runs have theirs in the first."""
    bought = [of(each) for each in real]
    among = [100 * shared(bought[0], each) for each in bought]
    met = 100 * statistics.median(shared(of(simulated), each) for each in bought)
    spread = 100 - min(among)
    return Row(name, "%", met, among, 100.0, spread, 100 * ALIKE.share + spread)


def shared(one: Mapping[str, int], other: Mapping[str, int]) -> float:
    """The share of nodes that have a counterpart of their kind on the other side."""
    most = max(sum(one.values()), sum(other.values()))
    both = sum(min(count, other.get(kind, 0)) for kind, count in one.items())
    return both / most if most else 1.0


def table(found: Sequence[Row]) -> Table:
    """All figures, with what is allowed and whether it is met."""
    shown = Table("what", "simulated", "real", "off by", "spread", "allowed", "")
    for each in found:
        shown.add_row(
            each.name,
            _text(each.simulated, each.unit),
            ", ".join(_number(value) for value in each.real) + _unit(each.unit)
            if each.real
            else _NEVER,
            "" if each.off is None else f"{each.off:+.1%}",
            _text(each.spread, each.unit),
            f"± {_text(each.allowed, each.unit)}",
            "✓" if each.agrees else "✗",
        )
    return shown


def _text(value: float | None, unit: str) -> str:
    return _NEVER if value is None else f"{_number(value)}{_unit(unit)}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.2f}"


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""
