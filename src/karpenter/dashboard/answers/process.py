"""A planning process as the dashboard sees it: begun, fed in small slices, asked, and ended."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from karpenter.dashboard.answers.messages import (
    HEAD,
    Ask,
    Begin,
    Change,
    Changes,
    Message,
    Reply,
    SomeTypes,
    Supplied,
    decode_reply,
    framed,
    length_of,
)
from karpenter.dashboard.answers.supply import Supply
from karpenter.dashboard.answers.world import Terms

SLICE_SECONDS: Final = 0.004  # of work before others have a turn on the event loop
_AT_LEAST: Final = 8  # objects between two looks at the clock
_TYPES_AT_ONCE: Final = 16
NICE: Final = 10
# At a low priority from the first import on
_PROGRAM: Final = (
    f"import os, sys; os.nice({NICE});"
    " from karpenter.dashboard.answers.worker import main; sys.exit(main())"
)
_END_SECONDS: Final = 2.0


class PlannerGoneError(Exception):
    """The process has ended, or does not say what it should."""


class PlanningProcess:
    """One process; when it is gone, another one takes its place."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Take over a process that was just begun."""
        self._process = process
        self._supply: Supply | None = None

    @classmethod
    async def begin(cls, terms: Terms) -> "PlanningProcess":
        """Begin a process that knows no objects so far.

        Raises:
            PlannerGoneError: it cannot be begun.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # modules are not looked for in the current folder
                "-c",
                _PROGRAM,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=_environment(os.environ, sys.path),
                start_new_session=True,  # Ctrl-C is for the program that people have started
            )
        except OSError as error:
            raise PlannerGoneError(str(error)) from error
        begun = cls(process)
        await begun._send(Begin(terms))
        return begun

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs, as far as is known."""
        return self._process.returncode is None

    async def feed(self, changes: Iterable[Callable[[], Change]]) -> None:
        """Tell it of objects; they are encoded one by one, and never for long.

        Raises:
            PlannerGoneError: it has ended.
        """
        part: list[Change] = []
        begun = time.monotonic()
        for number, change in enumerate(changes, start=1):
            part.append(change())
            if number % _AT_LEAST == 0 and time.monotonic() - begun >= SLICE_SECONDS:
                await self._send(Changes(tuple(part)))
                part.clear()
                begun = time.monotonic()
        if part:
            await self._send(Changes(tuple(part)))

    async def supply(self, supply: Supply) -> None:
        """Tell it what there is to buy, unless it knows.

        Raises:
            PlannerGoneError: it has ended.
        """
        if supply is self._supply:
            return
        numbers: dict[int, int] = {}  # identity of a catalogue -> its number
        for number, types in enumerate(supply.catalogues()):
            numbers[id(types)] = number
            for start in range(0, len(types), _TYPES_AT_ONCE):
                await self._send(SomeTypes(number, types[start : start + _TYPES_AT_ONCE]))
        told = Supplied(
            supply.facts,
            {pool: numbers[id(types)] for pool, types in supply.pools.items()},
            dict(supply.references),
            numbers[id(supply.others)],
            supply.repair_policies,
        )
        await self._send(told)
        self._supply = supply

    async def ask(self, question: Ask) -> Reply:
        """Ask, and wait for the answer.

        Raises:
            PlannerGoneError: it has ended.
        """
        await self._send(question)
        stdout = self._process.stdout
        assert stdout is not None
        try:
            content = await stdout.readexactly(length_of(await stdout.readexactly(HEAD)))
        except (asyncio.IncompleteReadError, OSError) as error:
            raise PlannerGoneError(str(error)) from error
        # A large document takes a while to read, and the loop has other things to do
        return await asyncio.get_running_loop().run_in_executor(None, decode_reply, content)

    async def end(self) -> None:
        """End it at once, whatever it does."""
        if self.is_alive:
            with suppress(ProcessLookupError):
                self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _END_SECONDS)

    async def _send(self, message: Message) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(framed(message))
            await stdin.drain()
        except (OSError, RuntimeError) as error:
            raise PlannerGoneError(str(error)) from error
        await asyncio.sleep(0)  # drain returns at once while the pipe has room


def _environment(environment: Mapping[str, str], path: Iterable[str]) -> dict[str, str]:
    """The environment of this process, with the places where it finds its modules."""
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}
