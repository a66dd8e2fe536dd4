"""A simulated slow machine for a paced loop; no real time passes."""

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import datetime
from typing import Any, TypeVar, TypeVarTuple

from karpenter.clock import EPOCH, PacedLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Machine(selectors.SelectSelector):
    """Real time as a paced loop sees it: it passes when the loop waits, and when it works.

    Args:
        work: how many seconds each turn of the loop takes, and each piece of work of a thread.
        late: how many seconds too late the loop is woken.
    """

    def __init__(
        self,
        *,
        work: Callable[[], float] = lambda: 0.0,
        late: Callable[[], float] = lambda: 0.0,
    ) -> None:
        super().__init__()
        self.seconds = 1000.0
        self._work = work
        self._late = late

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            self.toil()  # every turn of the loop polls once with a timeout of zero
            return super().select(0)
        assert timeout is not None, "nobody will ever wake the loop"
        self.seconds += timeout + self._late()
        return super().select(0)

    def toil(self) -> None:
        """Let the time pass that a piece of work takes."""
        self.seconds += self._work()


class _MachineLoop(PacedLoop):
    def __init__(self, machine: Machine, speed: float, start: datetime) -> None:
        self._machine = machine
        super().__init__(speed, start=start, selector=machine)

    def time(self) -> float:
        return self._machine.seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        # Runs in the loop: a real thread would end at a random time, and runs would differ
        future: asyncio.Future[T] = self.create_future()
        self._machine.toil()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 it belongs to whoever awaits the work
            future.set_exception(error)
        return future


def run_paced(
    main: Coroutine[Any, Any, T],
    machine: Machine | None = None,
    *,
    speed: float = 60,
    start: datetime = EPOCH,
) -> T:
    """Run a program from beginning to end on a machine."""
    before = random.getstate()
    random.seed(0)
    try:
        with asyncio.Runner(
            loop_factory=lambda: _MachineLoop(machine or Machine(), speed, start)
        ) as runner:
            return runner.run(main)
    finally:
        random.setstate(before)
