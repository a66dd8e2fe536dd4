"""Runs a command's coroutine with logging suppressed, so that logs do not mix with its output."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import structlog

T = TypeVar("T")

_CRITICAL: Final = 50


def run_quietly(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; meanwhile only critical errors are logged."""
    results: list[T] = []

    async def keep() -> None:
        # not the task's result: asyncio compares signal handlers by their repr, which includes it
        # and takes seconds for a large one
        results.append(await work)

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_CRITICAL))
    try:
        asyncio.run(keep())
    finally:
        structlog.configure(**before)
    return results[0]
