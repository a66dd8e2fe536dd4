"""Gauges that mirror the cluster: computed on each scrape only."""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from karpenter.controllers.context import Context


class Source(Protocol):
    """A source of metrics that are computed on each scrape."""

    def lines(self) -> Iterable[str]:
        """The present values, in the text format of Prometheus."""


class Scraped:
    """Offers the lines of a source for as long as a term lasts."""

    def __init__(self, name: str, context: Context, source: Source) -> None:
        self.name: Final = name
        self._context = context
        self._source = source

    async def run(self) -> None:
        """Offer the lines until cancelled."""
        remove = self._context.metrics.add_lines(self._source.lines)
        try:
            await asyncio.Event().wait()
        finally:
            remove()
