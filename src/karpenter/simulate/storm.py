"""Storms: which faults a seed meets and how strong, as requests that go wrong and steps of the timeline.

Some seeds meet one fault alone, some all, the others each with probability one half. Every draw has a
key of its own, so that leaving one fault out moves no other. Faults end a while before the end of the
scenario, so that the cluster can come to rest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter.clock import running_clock
from karpenter.kube.transport import Transport
from karpenter.simulate.chance import Chance
from karpenter.simulate.faults import Faults, FaultyTransport, KeyedDice, Mishap
from karpenter.simulate.lengths import seconds, share
from karpenter.simulate.observing import make_observers
from karpenter.simulate.report.document import variant_document
from karpenter.simulate.scenario.models import (
    ClockFault,
    FaultMix,
    InterruptFault,
    KillFault,
    NodeFault,
    SoldOutFault,
    TimelineStep,
)
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import PRELUDE, Hooks, Setup

# The shipped mix, ``faults: storm``: the most that a seed may meet
STORM: Final = FaultMix(
    conflict="25%",
    throttled="25%",
    broken="25%",
    lost="25%",
    unreachable="25%",
    slow="25%",
    dropped="10%",
    expired="10%",
    sold_out=SoldOutFault(every="2m", lasts="5m"),
    interrupt=InterruptFault(every="5m", percent=20.0),
    not_ready=NodeFault(every="5m", lasts="3m"),
    silent=NodeFault(every="5m", lasts="3m"),
    disappears=NodeFault(every="5m"),
    kill=KillFault(every="3m", lasts="20s"),
    clock=ClockFault(every="4m", off="30s"),
)
_ALONE, _ALL = 0.1, 0.2  # below: one fault alone; all faults
_HALF: Final = 0.5
_REQUESTS: Final = tuple(each.name for each in fields(Faults))
_STEPS: Final = ("sold_out", "interrupt", "not_ready", "silent", "disappears", "kill", "clock")
_NODES: Final = {"not_ready": "not-ready", "silent": "unreachable", "disappears": "disappears"}


@dataclass(frozen=True, slots=True)
class Storm:
    """What goes wrong for one seed."""

    faults: Faults
    steps: tuple[TimelineStep, ...]
    rests_from: float  # virtual seconds
    exactly: frozenset[Mishap] | None = None  # instead of what the faults would draw

    def has_rest(self, until: float) -> bool:
        """Whether a run goes on after its faults, until everything has to be settled."""
        return self.rests_from < until


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run under a storm broke, and what had gone wrong with its requests."""

    broken: tuple[str, ...]  # sentences, each of which begins with its promise
    mishaps: tuple[Mishap, ...]

    @property
    def promises(self) -> frozenset[str]:
        """The promises that were broken."""
        return frozenset(map(promise_of, self.broken))


def promise_of(sentence: str) -> str:
    """The promise that a sentence of an outcome is about."""
    return sentence.split(" ", 1)[0]


def storm_of(setup: Setup) -> Storm | None:
    """What goes wrong in a run; None where its scenario has no faults."""
    wanted = setup.variant.faults
    if wanted is None:
        return None
    mix = STORM if isinstance(wanted, str) else wanted
    ends = max(0.0, setup.until - seconds(mix.rest))
    if mix.exactly is not None:
        listed = (Mishap(each.fault, each.method, each.path, each.number) for each in mix.exactly)
        return Storm(Faults(), (), ends, frozenset(listed))
    chance = Chance(setup.seed)
    allowed = [name for name in (*_REQUESTS, *_STEPS) if getattr(mix, name) is not None]
    met = _met(allowed, chance)
    strengths = {
        name: share(getattr(mix, name)) * chance.uniform("storm", f"{name}/strength")
        for name in _REQUESTS
        if name in met
    }
    zones = sorted({offer.zone for kind in setup.types for offer in kind.offerings if offer.zone})
    steps = [
        (at, step)
        for name in _STEPS
        if name in met
        for at, step in _steps(name, getattr(mix, name), ends, zones, chance)
    ]
    steps.sort(key=lambda each: each[0])
    found = tuple(msgspec.convert(step, TimelineStep) for _, step in steps)
    return Storm(Faults(**strengths), found, ends)


def stormy(setup: Setup, storm: Storm) -> tuple[Setup, KeyedDice, Callable[[Transport], Transport]]:
    """A run under a storm: its setup, the dice that decide, and what requests go through."""
    timeline = [*setup.scenario.timeline, *storm.steps]
    scenario = msgspec.structs.replace(setup.scenario, timeline=timeline)
    dice = KeyedDice(setup.seed, storm.exactly)

    def wrap(transport: Transport) -> Transport:
        clock = running_clock()
        is_calm = lambda: clock.monotonic() - PRELUDE >= storm.rests_from  # noqa: E731
        return FaultyTransport(transport, storm.faults, dice, is_calm=is_calm, clock=clock)

    return replace(setup, scenario=scenario), dice, wrap


def judged(setup: Setup, storm: Storm | None = None) -> Judged:
    """Run a scenario under the storm of its seed, or another one, and judge it."""
    storm = storm or storm_of(setup)
    minimum = seconds(setup.scenario.billing.minimum)
    rests = storm is not None and storm.has_rest(setup.until)
    observers = make_observers(billing_minimum=minimum, rests=rests)
    hooks = Hooks(observers=observers)
    dice = None
    if storm is not None:
        setup, dice, hooks.wrap = stormy(setup, storm)
    try:
        run = run_world(setup, hooks)
    except Exception as error:  # noqa: BLE001 whatever ends a run breaks the promise that nothing does
        text = f"A9 {type(error).__name__}: {error}"
        return Judged((text,), tuple(dice.happened if dice is not None else ()))
    return Judged(
        tuple(_sentences(variant_document(run))),
        tuple(dice.happened if dice is not None else ()),
    )


def _sentences(variant: JsonObject) -> Iterator[str]:
    for promise in variant["invariants"]:
        for broken in promise["broken"]:
            yield f"{promise['id']} at {broken['at']:.3f} s: {broken['text']}"


def _met(allowed: Sequence[str], chance: Chance) -> frozenset[str]:
    """The faults that a seed meets."""
    drawn = chance.uniform("storm", "all or one")
    if drawn < _ALONE and allowed:
        number = int(chance.uniform("storm", "which one") * len(allowed))
        return frozenset([allowed[number]])
    if drawn < _ALL:
        return frozenset(allowed)
    return frozenset(name for name in allowed if chance.uniform("storm", name) < _HALF)


def _steps(
    name: str, fault: Any, ends: float, zones: Sequence[str], chance: Chance
) -> Iterator[tuple[float, JsonObject]]:
    """The steps of a fault, at moments with drawn pauses between them."""
    mean, at, number = seconds(fault.every), 0.0, 0
    while True:
        at += mean * chance.exponential("storm", f"{name}/pause", number)
        if at >= ends:
            return
        drawn = chance.uniform("storm", f"{name}/what", number)
        lasts = chance.uniform("storm", f"{name}/lasts", number)
        yield at, {"at": _text(at), **_step(name, fault, drawn, min(lasts, ends - at), zones)}
        number += 1


def _step(name: str, fault: Any, drawn: float, lasts: float, zones: Sequence[str]) -> JsonObject:
    match name:
        case "sold_out":
            zone = zones[int(drawn * len(zones))] if zones else "*"
            return {"soldOut": [f"*/{zone}/*"], "for": _text(lasts * seconds(fault.lasts))}
        case "interrupt":
            return {"interrupt": {"capacityType": "spot", "percent": fault.percent}}
        case "kill":
            return {"kill": "controllers", "for": _text(lasts * seconds(fault.lasts))}
        case "clock":
            off = (2 * drawn - 1) * seconds(fault.off)
            sign = "-" if off < 0 else ""
            return {"clock": f"{sign}{_text(abs(off))}", "for": _text(60 * lasts)}
        case "disappears":
            return {"fail": {"fault": _NODES[name], "count": 1}}
    return {
        "fail": {"fault": _NODES[name], "count": 1},
        "for": _text(lasts * seconds(fault.lasts)),
    }


def _text(amount: float) -> str:
    return f"{max(amount, 0.001):.3f}s"
