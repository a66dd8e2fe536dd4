"""The timeline: which step happens when, what it does to the world, and how it is undone."""

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from karpenter.api.meta import JsonObject
from karpenter.simulate.chance import Chance
from karpenter.simulate.lengths import seconds
from karpenter.simulate.scenario.models import (
    VERBS,
    Pick,
    RequestFaults,
    Scenario,
    TimelineStep,
)
from karpenter.simulate.variants import setting_text

Undo = Callable[[], Awaitable[None]]
_DEFAULT_NOTICE: Final = "2m"
_WIRE: Final = {"soldOut": "sold_out", "zoneDown": "zone_down"}
# Verbs whose effect can be taken back after a while
UNDONE: Final = frozenset(
    {
        *("apply", "patch", "scale", "fail", "soldOut", "zoneDown", "price", "set", "kill"),
        *("clock", "faults"),
    }
)


class World(Protocol):
    """What steps do to a world; most return what undoes them."""

    async def apply(self, objects: Sequence[JsonObject]) -> Undo: ...
    async def delete(self, targets: Sequence[str]) -> None: ...
    async def patch(self, target: str, patch: JsonObject) -> Undo: ...
    async def scale(self, target: str, replicas: int) -> Undo: ...
    async def rollout(self, target: str, version: str) -> None: ...
    def pick(self, wanted: Pick, draw: Callable[[str], float]) -> list[str]: ...
    async def interrupt(self, nodes: Sequence[str], notice: float) -> None: ...
    async def fail(self, nodes: Sequence[str], fault: str) -> Undo: ...
    async def sold_out(self, offerings: Sequence[str], lasts: float | None) -> None: ...
    async def restock(self, offerings: Sequence[str]) -> None: ...
    async def zone_down(self, zone: str) -> tuple[list[str], Undo]: ...
    async def set_price(self, match: str, factor: float | None, price: float | None) -> Undo: ...
    async def set_settings(self, settings: Mapping[str, str]) -> Undo: ...
    async def kill(self) -> Undo: ...
    async def set_clock(self, seconds: float) -> Undo: ...
    async def set_faults(self, faults: RequestFaults) -> Undo: ...
    def mark(self, kind: str, text: str, nodes: Sequence[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class Moment:
    """One occurrence of a step."""

    at: float
    index: int  # of the step in the file
    number: int  # of the occurrence
    step: TimelineStep


def moments(scenario: Scenario, variant: str, until: float) -> list[Moment]:
    """All occurrences of steps in a variant, in the order in which they happen."""
    found = [
        Moment(at, index, number, step)
        for index, step in enumerate(scenario.timeline)
        if step.in_ is None or variant in step.in_
        for number, at in enumerate(_times(step, until))
    ]
    return sorted(found, key=lambda moment: (moment.at, moment.index))


def verb_of(step: TimelineStep) -> str:
    """What a step does."""
    return next(verb for verb in VERBS if getattr(step, _WIRE.get(verb, verb)) is not None)


async def happen(
    moment: Moment,
    world: World,
    chance: Chance,
    files: Mapping[str, Sequence[JsonObject]],
) -> Undo | None:
    """Let a step happen, and return what undoes it where it is undone after a while."""
    step, verb = moment.step, verb_of(moment.step)
    nodes, text, undo = await _done(moment, world, chance, files)
    world.mark(verb, text, nodes)
    if step.for_ is not None:
        return undo
    # Controllers that were killed come again at once where nothing else is said
    return undo if verb == "kill" else None


async def _done(
    moment: Moment, world: World, chance: Chance, files: Mapping[str, Sequence[JsonObject]]
) -> tuple[Sequence[str], str, Undo | None]:
    """The nodes that a step concerns, its text, and what undoes it."""
    step = moment.step
    if step.apply is not None:
        objects = [
            obj for each in step.apply for obj in (files[each] if isinstance(each, str) else [each])
        ]
        return (), _titles(objects), await world.apply(objects)
    if step.delete is not None:
        await world.delete(step.delete)
        return (), ", ".join(step.delete), None
    if step.patch is not None:
        undos = [await world.patch(each.target, each.merge) for each in step.patch]
        return (), ", ".join(each.target for each in step.patch), _all(undos)
    if step.scale is not None:
        target, replicas = step.scale.target, step.scale.replicas
        return (), f"{target} to {replicas}", await world.scale(target, replicas)
    if step.rollout is not None:
        await world.rollout(step.rollout, f"step-{moment.index}-{moment.number}")
        return (), step.rollout, None
    if step.interrupt is not None or step.fail is not None:
        return await _to_nodes(moment, world, chance)
    return await _to_the_rest(step, world)


async def _to_nodes(
    moment: Moment, world: World, chance: Chance
) -> tuple[Sequence[str], str, Undo | None]:
    step = moment.step
    key = f"{moment.index}/{moment.number}"
    wanted = step.interrupt or step.fail
    assert wanted is not None
    nodes = world.pick(wanted, lambda name: chance.uniform("pick", f"{key}/{name}"))
    count = f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"
    if step.fail is not None:
        return nodes, f"{count} {step.fail.fault}", await world.fail(nodes, step.fail.fault)
    await world.interrupt(nodes, seconds(step.notice or _DEFAULT_NOTICE))
    return nodes, count, None


async def _to_the_rest(step: TimelineStep, world: World) -> tuple[Sequence[str], str, Undo | None]:
    if step.sold_out is not None:
        lasts = seconds(step.for_) if step.for_ is not None else None
        await world.sold_out(step.sold_out, lasts)
        return (), ", ".join(step.sold_out), None
    if step.restock is not None:
        await world.restock(step.restock)
        return (), ", ".join(step.restock), None
    if step.zone_down is not None:
        nodes, undo = await world.zone_down(step.zone_down)
        return nodes, step.zone_down, undo
    if step.price is not None:
        of = step.price
        change = f"{of.match} by {of.factor:g}" if of.factor is not None else f"{of.match}"
        return (), change, await world.set_price(of.match, of.factor, of.price)
    if step.set is not None:
        texts = {name: setting_text(value) for name, value in step.set.items()}
        shown = ", ".join(f"{name}={value}" for name, value in texts.items())
        return (), shown, await world.set_settings(texts)
    if step.kill is not None:
        return (), step.kill, await world.kill()
    if step.clock is not None:
        return (), step.clock, await world.set_clock(seconds(step.clock))
    if step.faults is not None:
        told = msgspec.to_builtins(step.faults).items()
        shown = ", ".join(f"{name} {often}" for name, often in told if often is not None)
        return (), shown or "none", await world.set_faults(step.faults)
    if step.expect is not None:  # judged by the caller, which runs the variant
        return (), ", ".join(each.path for each in step.expect), None
    return (), step.mark or "", None


def _times(step: TimelineStep, until: float) -> Iterator[float]:
    if step.at is not None:
        if seconds(step.at) < until:
            yield seconds(step.at)
        return
    period = seconds(step.every or "0")
    first = seconds(step.from_) if step.from_ is not None else period
    last = min(seconds(step.to) if step.to is not None else math.inf, until)
    number = 0
    while period > 0 and first + number * period < last:
        yield first + number * period
        number += 1


def _all(undos: Sequence[Undo]) -> Undo:
    async def undo() -> None:
        for each in reversed(undos):
            await each()

    return undo


def _titles(objects: Sequence[JsonObject]) -> str:
    return ", ".join(f"{obj['kind']}/{obj['metadata'].get('name', '')}" for obj in objects)
