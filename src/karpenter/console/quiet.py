"""Runs what commands have to wait for, and keeps its logs out of what they print."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import structlog

T = TypeVar("T")

_CRITICAL: Final = 50


def run_quietly(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; nothing below a catastrophe is logged meanwhile."""
    results: list[T] = []

    async def keep() -> None:
        # a task that returned it would have it written out in full: asyncio compares signal
        # handlers in a way that does so, which takes seconds for a large result
        results.append(await work)

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_CRITICAL))
    try:
        asyncio.run(keep())
    finally:
        structlog.configure(**before)
    return results[0]
