"""Terminal layout: width, colour, tables, and the format of amounts and names.

Text is laid out for the width of the terminal and for a fixed one where there is none. Colour only
repeats what the words say. Text from manifests is never interpreted as markup, and its control
characters are escaped.
"""

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from karpenter.visible import visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from karpenter.scheduling.plan import Launch

View: TypeAlias = Literal["table", "json", "yaml"]
Parts: TypeAlias = "Iterator[RenderableType]"  # of a page, from top to bottom

HOURS_PER_MONTH: Final = 730
MOST_ROWS: Final = 60  # of a table; the JSON output has all

TIMES: Final = "\N{MULTIPLICATION SIGN}"
ABOUT: Final = "~"
LEFT_OUT: Final = "…"
ESTIMATES: Final = f"{ABOUT}: an estimate, not a price from the cloud"
GOOD, WAITING, BAD, QUIET, TITLE = "green", "yellow", "red", "dim", "bold"

_WITHOUT_TERMINAL: Final = (120, 50)
_NARROWEST: Final = 40
_PADDING: Final = re.compile(r"(?: |\x1b\[[0-9;]*m)+$")
_DIGITS: Final = re.compile(r"(?<=[^0-9])(?=[0-9])|(?<=[0-9])(?=[^0-9])")


def width() -> int:
    """How many characters a line may have."""
    return max(_NARROWEST, shutil.get_terminal_size(_WITHOUT_TERMINAL).columns)


def laid_out(parts: "Iterable[RenderableType]") -> str:
    """Lay parts out below one another, with colour on a terminal only."""
    from rich.console import Console

    buffer = io.StringIO()
    coloured = _is_for_people()
    console = Console(
        file=buffer,
        width=width(),
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for part in parts:
        console.print(part)
    lines = buffer.getvalue().splitlines()
    return "".join(f"{_PADDING.sub(_without_spaces, line)}\n" for line in lines)


def _without_spaces(found: re.Match[str]) -> str:
    """The end of a line without its spaces; the codes that end colours stay."""
    return found[0].replace(" ", "")


def words(text: str, style: str = "") -> "Text":
    """Text as it is, without any markup; invisible characters are escaped."""
    from rich.text import Text

    return Text(visible(text), style=style)


def table(columns: "Sequence[tuple[str, Literal['left', 'right']]]", *, gap: int = 2) -> "Table":
    """An indented table without lines; a column without a name shows no header."""
    from rich.table import Table

    made = Table(box=None, pad_edge=True, padding=(0, gap, 0, 0), header_style=QUIET)
    made.add_column("", width=0)
    for name, side in columns:
        made.add_column(name, justify=side, overflow="fold", no_wrap=side == "right")
    return made


def sentences(said: "Iterable[tuple[str, str]]") -> "Table":
    """Sentences with their styles below one another, indented as a whole."""
    rows = table([("", "left")])
    rows.show_header = False
    for text, style in said:
        rows.add_row("", words(text, style))
    return rows


def indented(part: "RenderableType", columns: int) -> "RenderableType":
    """A part that begins further to the right, in every one of its lines."""
    from rich.padding import Padding

    return Padding(part, (0, 0, 0, columns))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that is to fit the screen."""

    name: str
    cells: list[str]
    is_number: bool = False
    may_go: int = 0  # where there is no room: 1 is the first to go, 0 always stays
    least: int = 0  # how short its cells may become before that; 0: they stay whole
    at_worst: int = 0  # the same where all that may go has gone

    @property
    def width(self) -> int:
        """How many characters the column takes."""
        return max((len(visible(text)) for text in (self.name, *self.cells)), default=0)

    @property
    def narrowest(self) -> int:
        """How many characters it takes at least."""
        return min(self.width, max(self.least, len(self.name))) if self.least else self.width

    def at_its_worst(self) -> "Column":
        """The same column with its last limit, for when no other column can be omitted."""
        return replace(self, least=self.at_worst or self.least)


def fitted(columns: Sequence[Column], room: int = 0) -> "Table":
    """A table with as many of its columns as there is room for, and cells as long as may be."""
    room = room or width()
    shown, gap = _most_that_fit(columns, room)
    if sum(column.narrowest for column in shown) + gap * (len(shown) + 1) > room:
        shown = [column.at_its_worst() for column in shown]
    made = table([(c.name, "right" if c.is_number else "left") for c in shown], gap=gap)
    limits = _shared(shown, room - gap * (len(shown) + 1))
    for row in zip(*(column.cells for column in shown), strict=True):
        made.add_row("", *(words(shortened(*cell)) for cell in zip(row, limits, strict=True)))
    return made


def _most_that_fit(columns: Sequence[Column], room: int) -> tuple[list[Column], int]:
    shown = list(columns)
    for gone in range(max(column.may_go for column in columns) + 1):
        shown = [column for column in columns if not 0 < column.may_go <= gone]
        whole, narrow = sum(c.width for c in shown), sum(c.narrowest for c in shown)
        for needed, gap in ((whole, 2), (whole, 1), (narrow, 1)):
            if needed + gap * (len(shown) + 1) <= room:
                return shown, gap
    return shown, 1


def _shared(columns: Sequence[Column], room: int) -> list[int]:
    """How wide each column may be: those that can be shortened give way, the widest first."""
    widths = [column.width for column in columns]
    while sum(widths) > room:
        spare = [(w, at) for at, w in enumerate(widths) if w > columns[at].narrowest]
        if not spare:
            break
        widths[max(spare)[1]] -= 1
    return widths


def shortened(text: str, most: int) -> str:
    """Text with its middle omitted where it is too long: names differ at their ends.

    More of the beginning is kept, where a pool or an address stands.
    """
    text = visible(text)
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}{LEFT_OUT}{text[len(text) - end :]}"


def per_hour(price: float, *, is_estimate: bool = False) -> str:
    """A price per hour, marked where it is an estimate."""
    return f"{_about(is_estimate)}${price:,.4f}"


def per_month(price: float, *, is_estimate: bool = False) -> str:
    """The same price per month."""
    return f"{_about(is_estimate)}${price * HOURS_PER_MONTH:,.2f}"


def hour_and_month(price: float, *, is_estimate: bool = False) -> str:
    """A price per hour and month within a sentence."""
    hour = per_hour(price, is_estimate=is_estimate)
    month = per_month(price, is_estimate=is_estimate)
    return f"{hour}/h ({month}/month{', estimate' if is_estimate else ''})"


def total_cost(price: float, *, is_estimate: bool = False) -> str:
    """A price per hour and month at the end of a title."""
    hour = per_hour(price, is_estimate=is_estimate)
    month = per_month(price, is_estimate=is_estimate)
    return f"{hour} per hour, {month} per month{' (estimate)' if is_estimate else ''}"


def offer(launch: "Launch") -> str:
    """A way to have a machine, with its price."""
    price = per_hour(launch.price, is_estimate=launch.is_estimate)
    return f"{way(launch)} at {price}/h{' (estimate)' if launch.is_estimate else ''}"


def way(launch: "Launch") -> str:
    """A way to have a machine."""
    how = " ".join(filter(None, (launch.instance_type, launch.capacity_type)))
    return f"{how} in {launch.zone}" if launch.zone else how


def in_column(price: str) -> str:
    """A price as it stands in a column whose name says the currency."""
    return price.replace("$", "", 1)


def _about(is_estimate: bool) -> str:
    return ABOUT if is_estimate else ""


def lasting(length: timedelta) -> str:
    """A length of time in its largest fitting unit, rounded down: ``40 s``, ``3 h``."""
    from karpenter.model.durations import in_largest_unit

    number, unit = in_largest_unit(length)
    return f"{number:,} {'min' if unit == 'm' else unit}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 node``, ``1,200 nodes``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def in_order(names: Iterable[str]) -> list[str]:
    """Sort names in natural order: ``web-2`` before ``web-10``."""

    def key(name: str) -> list[tuple[int, str]]:
        parts = _DIGITS.split(name)
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    return sorted(names, key=key)


def sample(names: Sequence[str], most: int = 2) -> str:
    """The first few names, and how many more there are."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} +{len(names) - most:,}"


def without_default(pod: str) -> str:
    """A pod's name; the namespace is left out where it is the usual one."""
    return pod.removeprefix("default/")


def _is_for_people() -> bool:
    stream = sys.stdout
    return (
        stream is not None
        and stream.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )
