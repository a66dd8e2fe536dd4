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
    most_disrupted: float = 0.0  # of the nodes at one time, as a share of what the budget allows


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
            most_disrupted=figures.most_disrupted or None,
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
    theirs: tuple[Theirs, Theirs]

    def missed(self) -> list[str]:
        """What was promised and is not kept."""
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
            ("budgets", lambda: back.most_disrupted <= 1),
            ("longest stall", lambda: max(out.work, back.work) < LONGEST_STALL),
        ]
        return [name for name, is_kept in promises if not is_kept()]

    def show(self, *, is_judged: bool) -> None:
        """Print a table, and what is missed."""
        console = Console()
        console.print(self._table())
        console.print(f"load of the machine: {load()[1]:.1f} over five minutes")
        missed = self.missed() if is_judged else []
        if missed:
            console.print(f"missed: {', '.join(missed)}")

    def _table(self) -> Table:
        out, back = self.out, self.back
        their_out, their_back = self.theirs
        table = Table("what", "out", "Karpenter's", "back", "Karpenter's")
        table.add_row("pods", f"{out.pods:,}", "", f"{back.pods:,}")
        times = out.seconds, their_out.seconds, back.seconds, their_back.seconds
        _add(table, "time", "{:.0f} s", *times)
        before = out.nodes_before, their_out.nodes_before, back.nodes_before
        _add(table, "nodes before", "{}", *before, their_back.nodes_before)
        _add(table, "nodes", "{}", out.nodes, their_out.nodes, back.nodes, their_back.nodes)
        worked = out.processor, their_out.processor, back.processor, their_back.processor
        _add(table, "processor", "{:.1f} s", *worked)
        memory = out.memory, their_out.memory, back.memory, their_back.memory
        _add(table, "memory, P95", "{:.0f} MB", *(each and each / 10**6 for each in memory))
        _add(table, "closed batch to last claim", "{:.2f} s", out.own_share, None, back.own_share)
        _add(table, "longest stall", "{:.0f} ms", 1000 * out.stall, None, 1000 * back.stall)
        _add(table, "of that, at work", "{:.0f} ms", 1000 * out.work, None, 1000 * back.work)
        asked = out.reservation, their_out.reservation, back.reservation, their_back.reservation
        _add(table, "processors asked for", "{:.1%}", *asked)
        disrupted = None, None, back.most_disrupted, their_back.most_disrupted
        _add(table, "disrupted, of the budget", "{:.0%}", *disrupted)
        return table


def _add(table: Table, name: str, form: str, *figures: float | None) -> None:
    table.add_row(name, *("" if each is None else form.format(each) for each in figures))
