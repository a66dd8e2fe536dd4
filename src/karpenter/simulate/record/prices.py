"""The prices of a recording: what is sold, as it was first told, and every price that moved since."""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from karpenter.api.meta import JsonObject
from karpenter.clock import Clock
from karpenter.cloud.kwok.catalogue import load
from karpenter.cloud.kwok.entries import CatalogueError
from karpenter.cloud.kwok.written import as_file, is_told
from karpenter.cloud.types import InstanceType
from karpenter.os_errors import os_reason
from karpenter.simulate.demand.tables import DataError, rows
from karpenter.simulate.record.segments import moment

TYPES: Final = "types.json"
MOVES: Final = "prices.csv"
EVERY: Final = 300.0  # seconds between two questions
_TIME, _OFFERING, _PRICE = "time", "offering", "price"
_RESERVED: Final = "reserved"  # has no price of its own

# Gives what is sold at the moment
Asked: TypeAlias = Callable[[], Awaitable[Sequence[InstanceType]]]


class PricesError(Exception):
    """Prices cannot be read or written; one sentence."""


class NotAskedError(Exception):
    """The cloud does not answer at the moment; one sentence."""


class PriceBook:
    """The prices in the folder of a recording."""

    def __init__(self, folder: Path) -> None:
        """Read what the folder has.

        Raises:
            PricesError: that is not what a recorder wrote.
        """
        self._types = folder / TYPES
        self._moves = folder / MOVES
        self._known: dict[str, float] = {}
        try:
            if self._types.exists():
                self._known = dict(_prices(load(self._types.read_bytes(), TYPES)))
            if self._moves.exists():
                self._known |= self._moved()
        except (CatalogueError, DataError) as error:
            raise PricesError(f"cannot be continued: {error}") from None
        except OSError as error:
            raise PricesError(os_reason(error)) from None

    def take(self, types: Iterable[InstanceType], at: float) -> None:
        """Write what is sold, or, where that is known, the prices that have moved.

        Raises:
            PricesError: it cannot be written.
        """
        told = [each for each in types if is_told(each)]
        try:
            if not self._types.exists():
                if told:
                    self._write_types(told)
                return
            lines = [
                f"{moment(at)},{offering},{price:.10g}\n"
                for offering, price in _prices(told)
                if self._known.get(offering, price) != price
            ]
            if lines:
                self._append(lines)
            self._known |= {key: price for key, price in _prices(told) if key in self._known}
        except OSError as error:
            raise PricesError(f"{self._moves.name}: {os_reason(error)}") from None

    def fields(self) -> JsonObject:
        """As the fields of a scenario."""
        found: JsonObject = {}
        if self._types.exists():
            found["provider"] = {"instanceTypes": TYPES}
        if self._moves.exists():
            series = {"csv": MOVES, "time": _TIME, "offering": _OFFERING, "price": _PRICE}
            found["prices"] = [{"series": series}]
        return found

    def _write_types(self, told: Sequence[InstanceType]) -> None:
        text = as_file(told)
        new = self._types.with_name(f"{TYPES}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(self._types)
        self._known = dict(_prices(load(text.encode(), TYPES)))

    def _append(self, lines: Sequence[str]) -> None:
        is_new = not self._moves.exists()
        with self._moves.open("ab") as file:
            if is_new:
                file.write(f"{_TIME},{_OFFERING},{_PRICE}\n".encode())
            file.write("".join(lines).encode())
            file.flush()
            os.fsync(file.fileno())

    def _moved(self) -> dict[str, float]:
        """The latest price of each offering; a line that a crash has torn is cut off."""
        data = self._moves.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            os.truncate(self._moves, len(whole))
        if not whole:
            self._moves.unlink()
            return {}
        found = rows(MOVES, whole, [_TIME, _OFFERING, _PRICE])
        return {row.text(_OFFERING): row.number(_PRICE) for row in found}


async def follow_prices(
    asked: Asked, book: PriceBook, clock: Clock, said: Callable[[str], object]
) -> None:
    """Ask for prices again and again, until cancelled.

    Raises:
        PricesError: they cannot be written.
    """
    was_told = True
    while True:
        try:
            types = await asked()
        except NotAskedError as error:
            if was_told:
                said(f"no prices are recorded at the moment: {error}")
            was_told = False
        else:
            book.take(types, clock.now().timestamp())
            was_told = True
        await clock.sleep(EVERY)


async def beside(work: Awaitable[None], prices: Awaitable[None] | None) -> None:
    """Do some work, with prices followed beside it; an error of either ends both."""
    if prices is None:
        await work
        return
    tasks = [asyncio.ensure_future(each) for each in (work, prices)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                await task
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


def _prices(types: Iterable[InstanceType]) -> Iterator[tuple[str, float]]:
    """The price of each offering, named ``type/zone/capacity-type``."""
    for kind in types:
        for way in kind.offerings:
            if way.capacity_type != _RESERVED and way.price > 0 and math.isfinite(way.price):
                # As it is written, so that what is read again is the same
                yield f"{kind.name}/{way.zone}/{way.capacity_type}", float(f"{way.price:.10g}")
