"""Profiling endpoints under ``/debug/pprof``.

The paths are those of Go programs, the answers are plain text: CPU profile, memory by
allocation site, and the stack of every task and thread.
"""

import asyncio
import cProfile
import io
import pstats
import sys
import threading
import traceback
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable
from types import FrameType
from typing import Final, TypeAlias

from aiohttp import web

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_ROOT: Final = "/debug/pprof"
_DEFAULT_SECONDS: Final = 30.0
_LONGEST_SECONDS: Final = 300.0
_MOST_ROWS: Final = 50
_BUSY: Final = 409
_BAD: Final = 400
_NOT_HERE: Final = 501
_MEANINGS: Final = {
    "cmdline": "how the process was started",
    "profile": "where the time goes; ?seconds=30",
    "heap": "which lines hold memory; the first request starts the count",
    "allocs": "the same as heap",
    "goroutine": "where every task stands",
    "threadcreate": "where every thread stands",
    "block": "not known in Python",
    "trace": "not known in Python",
    "symbol": "not known in Python",
}


def routes() -> Iterable[web.RouteDef]:
    """The routes of profiling."""
    answers: dict[str, Handler] = {
        "cmdline": _command_line,
        "profile": _profile(),
        "heap": _heap,
        "allocs": _heap,
        "goroutine": _tasks,
        "threadcreate": _threads,
        "block": _not_known,
        "trace": _not_known,
        "symbol": _not_known,
    }
    listed = [web.get(f"{_ROOT}/{name}", handler) for name, handler in answers.items()]
    return [web.get(_ROOT, _index), web.get(f"{_ROOT}/", _index), *listed]


async def _index(_: web.Request) -> web.Response:
    width = max(map(len, _MEANINGS))
    lines = [f"{_ROOT}/{name:{width}}  {meaning}" for name, meaning in _MEANINGS.items()]
    return web.Response(text="\n".join(lines) + "\n")


async def _command_line(_: web.Request) -> web.Response:
    return web.Response(text="\x00".join(sys.argv))


def _profile() -> Handler:
    running = asyncio.Lock()

    async def profile(request: web.Request) -> web.Response:
        try:
            seconds = float(request.query.get("seconds", _DEFAULT_SECONDS))
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= _LONGEST_SECONDS:
            text = f"seconds is a number from 0 to {_LONGEST_SECONDS:g}\n"
            return web.Response(status=_BAD, text=text)
        if running.locked():
            return web.Response(status=_BUSY, text="a profile is being taken; ask again later\n")
        async with running:
            return web.Response(text=await _profiled(seconds))

    return profile


async def _profiled(seconds: float) -> str:
    """Sample the stack of the event loop's thread for a while."""
    profiler = cProfile.Profile()
    try:
        profiler.enable()
    except ValueError:
        return "another profiler is active in this process\n"
    try:
        await asyncio.sleep(seconds)
    finally:
        profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(_MOST_ROWS)
    return text.getvalue()


async def _heap(_: web.Request) -> web.Response:
    if not tracemalloc.is_tracing():
        tracemalloc.start()
        return web.Response(text="memory is counted from now on; ask again for what was taken\n")
    snapshot = await asyncio.to_thread(tracemalloc.take_snapshot)
    rows = snapshot.statistics("lineno")
    held = sum(row.size for row in rows)
    lines = [f"{held / 2**20:.1f} MiB in {sum(row.count for row in rows)} blocks"]
    lines += [str(row) for row in rows[:_MOST_ROWS]]
    return web.Response(text="\n".join(lines) + "\n")


async def _tasks(_: web.Request) -> web.Response:
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    text = "".join(f"{task.get_name()}:\n{_stack(task.get_stack(limit=12))}" for task in tasks)
    return web.Response(text=f"{len(tasks)} tasks\n{text}")


async def _threads(_: web.Request) -> web.Response:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001 there is no public function
    text = "".join(
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in frames.items()
    )
    return web.Response(text=f"{len(frames)} threads\n{text}")


def _stack(frames: list[FrameType]) -> str:
    return "".join(
        line
        for frame in frames
        for line in traceback.format_list(traceback.extract_stack(frame, limit=1))
    )


async def _not_known(_: web.Request) -> web.Response:
    text = f"Python keeps no such record; see {_ROOT}/profile and {_ROOT}/goroutine\n"
    return web.Response(status=_NOT_HERE, text=text)
