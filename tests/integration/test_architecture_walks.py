"""The walks of the architecture page are taken: every function named there runs, in that order.

Each walk happens in a cluster in virtual time, whose controllers are watched: the functions of the
page's files are noted when they are first called.
"""

import inspect
import re
import sys
from collections.abc import Awaitable, Callable
from types import CodeType, FrameType
from typing import Final

import pytest

import architecture
from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from karpenter.clock import run_virtual
from karpenter.model.labels import CAPACITY_TYPE

TEXT: Final = architecture.PAGE.read_text("utf-8")
SRC: Final = str(architecture.ROOT / "src" / "karpenter") + "/"
STEP: Final = re.compile(r"^\| (\d+)\. .* \| (.+) \|$", re.MULTILINE)
PLACE: Final = re.compile(r"`((?:\w+/)+\w+\.py)`(?: `([\w.]+)`)?")
# What one cluster does not show: another cloud, what takes too long, and a value that is no function
ELSEWHERE: Final = ("cloud/aws/", "controllers/lifecycle/liveness.py")
VALUES: Final = {"METHODS"}
# Called from many steps
ANYWHERE: Final = {"Context.decide", "DecisionLog.decide"}


def walk(title: str) -> list[tuple[int, str, str]]:
    """The places of a walk: the number of the step, the file, and what to look for there."""
    _, _, rest = TEXT.partition(f"## {title}\n")
    table, _, _ = rest.partition("\n## ")
    return [
        (int(number), file, "" if name in VALUES else name)
        for number, cell in STEP.findall(table)
        for file, name in PLACE.findall(cell)
        if not file.startswith(ELSEWHERE)
    ]


class Calls:
    """The functions of the product in the order of their first calls."""

    def __init__(self) -> None:
        self.order: dict[tuple[str, str], int] = {}
        self._known: dict[int, CodeType] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or id(code) in self._known:
            return
        self._known[id(code)] = code  # kept, so that no id is used twice
        # Bodies of modules and classes run when they are imported; they are not optimized
        is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name != "__init__"
        if is_function and code.co_filename.startswith(SRC):
            key = (code.co_filename.removeprefix(SRC), code.co_qualname)
            self.order.setdefault(key, len(self.order))

    def first(self, file: str, name: str) -> int | None:
        """When a function, a method of a class or anything of a file was called first."""
        found = [
            at
            for (where, what), at in self.order.items()
            if where == file and (not name or what == name or what.startswith(f"{name}."))
        ]
        return min(found, default=None)


def watched(scene: Callable[[Autoscaler, Calls], Awaitable[None]]) -> Calls:
    calls = Calls()

    async def run() -> None:
        # A spot node is not replaced by another one
        on_demand = {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
        pool = kwok_pool("default", on_demand, disruption={"consolidateAfter": "10s"})
        async with autoscaler(pool, starts=False) as cluster:
            await scene(cluster, calls)

    try:
        run_virtual(run())
    finally:
        sys.setprofile(None)
    return calls


async def a_pod_comes(run: Autoscaler, calls: Calls) -> None:
    sys.setprofile(calls)
    run.start()
    await run.pass_time(5)
    await run.apply(deployment("web", 2), deployment("large", 1, cpu="5000"))
    await run.pass_time(60)
    assert len(run.running) == 2


async def a_node_is_underused(run: Autoscaler, calls: Calls) -> None:
    run.start()
    await run.apply(deployment("large", 1, cpu="60"), deployment("small", 1, cpu="100m"))
    await run.pass_time(60)
    sys.setprofile(calls)
    await run.scale("large", 0)
    await run.pass_time(300)
    assert len(run.running) == 1


WALKS: Final = {
    "From a pending pod to a NodeClaim": a_pod_comes,
    "From a NodeClaim to a ready node": a_pod_comes,
    "From an underused node to its end": a_node_is_underused,
}


@pytest.mark.parametrize("title", WALKS)
def test_every_step_of_a_walk_is_taken(title: str) -> None:
    places = walk(title)
    calls = watched(WALKS[title])
    taken = [(calls.first(file, name), f"{file} {name}") for _, file, name in places]
    named = [
        (number, at)
        for (number, _, name), (at, _) in zip(places, taken, strict=True)
        if name and name not in ANYWHERE and at is not None
    ]

    assert len(places) >= 4
    assert [] == [place for at, place in taken if at is None]
    assert [number for number, _ in named] == [
        number for number, _ in sorted(named, key=lambda each: each[1])
    ]
