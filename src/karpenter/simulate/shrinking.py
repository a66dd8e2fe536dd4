"""A broken seed made small: the fewest requests, steps and workloads that break the same promise.

The result is a scenario of its own, with an explicit list of what goes wrong and no probabilities.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter.manifests.writer import dump
from karpenter.simulate.faults import Faults, Mishap
from karpenter.simulate.scenario.models import Scenario, TimelineStep, Workload
from karpenter.simulate.shrink import Budget, smallest
from karpenter.simulate.storm import Judged, Storm, judged, promise_of, storm_of
from karpenter.simulate.world import Setup

MOST_RUNS: Final = 200
_AT: Final = re.compile(r"^A\d+ at ([0-9.]+) s")
_AFTER: Final = 1.0  # seconds that a run goes on after the break

Item = Mishap | TimelineStep | Workload


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest run that was found."""

    setup: Setup
    storm: Storm
    outcome: Judged
    promises: frozenset[str]  # those that every part had to break

    @property
    def faults(self) -> int:
        """How many requests and steps go wrong."""
        return len(self.storm.exactly or ()) + len(self.setup.scenario.timeline)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What it breaks of the promises that it was made small for."""
        return tuple(each for each in self.outcome.broken if promise_of(each) in self.promises)

    def text(self) -> str:
        """The scenario, as a file."""
        return dump(_document(self))


def shrunk(
    setup: Setup, outcome: Judged, judge: Callable[[Setup, Storm], Judged] = judged
) -> Shrunk:
    """Make a broken run small; the same promise breaks in every part that is kept.

    Args:
        setup: the run, before its storm.
        outcome: what it broke.
        judge: runs a part and judges it.
    """
    storm = storm_of(setup)
    assert storm is not None, "a run without faults has nothing to take out"
    wanted, lasting = outcome.promises, _judged_at_every_change(outcome.promises)
    budget = Budget(MOST_RUNS)
    items: list[Item] = [
        *outcome.mishaps,
        *storm.steps,
        *setup.scenario.timeline,
        *setup.scenario.workloads,
    ]
    best = _part(setup, storm, items)
    last = outcome
    cut = _cut(best[0], best[1], outcome)
    if cut is not None and budget.spend() and lasting & (found := judge(*cut)).promises:
        setup, storm, last = replace(setup, until=cut[0].until), cut[1], found
        # A run without its rest leaves things over that say nothing about what went wrong
        best, wanted = cut, lasting

    def breaks(part: Sequence[Item]) -> bool:
        nonlocal best, last
        tried = _part(setup, storm, part)
        found = judge(*tried)
        if not wanted & found.promises:
            return False
        best, last = tried, found
        return True

    smallest(items, breaks, budget)
    return Shrunk(best[0], best[1], last, wanted)


def _judged_at_every_change(promises: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in promises if name.startswith("A"))


def _part(setup: Setup, storm: Storm, items: Sequence[Item]) -> tuple[Setup, Storm]:
    """The run in which only these things are there."""
    scenario = msgspec.structs.replace(
        setup.scenario,
        timeline=[each for each in items if isinstance(each, TimelineStep)],
        workloads=[each for each in items if isinstance(each, Workload)],
    )
    exactly = frozenset(each for each in items if isinstance(each, Mishap))
    return replace(setup, scenario=scenario), Storm(Faults(), (), storm.rests_from, exactly)


def _cut(setup: Setup, storm: Storm, outcome: Judged) -> tuple[Setup, Storm] | None:
    """The run up to its first break; None where it broke at rest."""
    times = [float(found[1]) for each in outcome.broken if (found := _AT.match(each))]
    if not times:
        return None
    until = min(times) + _AFTER
    return replace(setup, until=until), replace(storm, rests_from=min(storm.rests_from, until))


def _document(small: Shrunk) -> JsonObject:
    setup, storm = small.setup, small.storm
    scenario: Scenario = msgspec.structs.replace(
        setup.scenario, include=[], objects=list(setup.variant.objects), compare=[], matrix={}
    )
    found: JsonObject = _without_nothing(msgspec.to_builtins(scenario))
    found["metadata"] = {
        "name": f"seed-{setup.seed}",
        "description": "; ".join(small.sentences[:3]),
    }
    found["seed"] = setup.seed
    found["until"] = f"{setup.until:.3f}s"
    found["settings"] = dict(setup.variant.settings)
    found["faults"] = {
        "rest": f"{max(0.0, setup.until - storm.rests_from):.3f}s",
        "exactly": [
            {"fault": m.fault, "method": m.method, "path": m.path, "number": m.number}
            for m in sorted(storm.exactly or ())
        ],
    }
    return found


def _without_nothing(value: Any) -> Any:
    """A value without the fields that say nothing."""
    if isinstance(value, dict):
        parts = {name: _without_nothing(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part is not None and part != {}}
    if isinstance(value, list):
        return [_without_nothing(part) for part in value]
    return value
