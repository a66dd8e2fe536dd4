"""What the end-to-end benchmark measured, beside what Karpenter's own controller takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from benchmarks.sampling import load
from rich.console import Console
from rich.table import Table

LONGEST_STALL: Final = 0.05
OWN_SHARE: Final = 2.0
MOST_MEMORY: Final = 160 * 10**6


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured, in seconds, bytes and shares."""

    pods: int
    seconds: float
    nodes_before: int
    nodes: int
    processor: float
    memory: int  # resident, 95 of 100 samples are below
    own_share: float  # the longest time from a closed batch to its last claim
    stall: float  # the longest turn of the event loop
    work: float  # the most processor time of a turn
    reservation: float  # of the nodes' processors
    most_disrupted: float | None = (
        None  # of the nodes at one time, as a share of what the budget allows
    )


@dataclass(frozen=True, slots=True)
class Theirs:
    """What Karpenter's controller took, out or back."""

    seconds: float
    nodes_before: int
    nodes: int
    processor: float
    memory: int | None = None
    reservation: float | None = None
    most_disrupted: float | None = None

    @classmethod
    def measured(cls, figures: Figures) -> "Theirs":
        """What it took just now."""
        return cls(
            seconds=figures.seconds,
            nodes_before=figures.nodes_before,
            nodes=figures.nodes,
            processor=figures.processor,
            memory=figures.memory,
            reservation=figures.reservation,
            most_disrupted=figures.most_disrupted,
        )


# What it took once, on a machine such as that of the README, with nothing else running
KNOWN: Final = (
    Theirs(97.0, 0, 148, 29.0, 221 * 10**6),
    Theirs(341.0, 148, 104, 47.0, reservation=0.98),
)


@dataclass(frozen=True, slots=True)
class Run:
    """Both halves of a run, and what they are held against."""

    out: Figures
    back: Figures
    theirs: tuple[Theirs, Theirs] | None

    def missed(self) -> list[str]:
        """What was promised and is not kept; nothing is promised without anything beside it."""
        if self.theirs is None:
            return []
        out, back = self.out, self.back
        their_out, their_back = self.theirs
        promises: list[tuple[str, Callable[[], bool]]] = [
            ("time out", lambda: out.seconds <= their_out.seconds),
            ("nodes out", lambda: out.nodes <= their_out.nodes),
            ("processor out", lambda: out.processor <= their_out.processor),
            ("memory", lambda: max(out.memory, back.memory) < MOST_MEMORY),
            ("own share", lambda: out.own_share < OWN_SHARE),
            ("time back", lambda: back.seconds <= their_back.seconds),
            ("nodes back", lambda: back.nodes <= their_back.nodes),
            ("processor back", lambda: back.processor < their_back.processor),
            ("budgets", lambda: (back.most_disrupted or 0.0) <= 1),
            ("longest stall", lambda: max(out.work, back.work) < LONGEST_STALL),
        ]
        return [name for name, is_kept in promises if not is_kept()]

    def show(self) -> None:
        """Print a table, and what is missed."""
        console = Console()
        console.print(self._table())
        console.print(f"load of the machine: {load()[1]:.1f} over five minutes")
        if self.missed():
            console.print(f"missed: {', '.join(self.missed())}")

    def _table(self) -> Table:
        table = Table("what", "out", "Karpenter's", "back", "Karpenter's")
        for name, form, attribute, scale in _ROWS:
            cells = (_cell(form, attribute, scale, each) for each in self._columns())
            table.add_row(name, *cells)
        return table

    def _columns(self) -> tuple[Figures | Theirs | None, ...]:
        their_out, their_back = self.theirs or (None, None)
        return self.out, their_out, self.back, their_back


_ROWS: Final = (
    ("pods", "{:,}", "pods", 1),
    ("time", "{:.0f} s", "seconds", 1),
    ("nodes before", "{}", "nodes_before", 1),
    ("nodes", "{}", "nodes", 1),
    ("processor", "{:.1f} s", "processor", 1),
    ("memory, P95", "{:.0f} MB", "memory", 1e-6),
    ("closed batch to last claim", "{:.2f} s", "own_share", 1),
    ("longest stall", "{:.0f} ms", "stall", 1000),
    ("of that, at work", "{:.0f} ms", "work", 1000),
    ("processors asked for", "{:.1%}", "reservation", 1),
    ("disrupted, of the budget", "{:.0%}", "most_disrupted", 1),
)


def _cell(form: str, attribute: str, scale: float, figures: Figures | Theirs | None) -> str:
    found = getattr(figures, attribute, None)
    return "" if found is None else form.format(found * scale)
