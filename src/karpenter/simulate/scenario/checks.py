"""What no schema can say about a scenario: times, names, and fields that depend on each other."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.cloud.types import InstanceType
from karpenter.manifests.positions import Path
from karpenter.model.cron import ScheduleError, parse_schedule
from karpenter.model.quantity import QuantityError, canonical
from karpenter.settings import SettingError, Settings, with_assignments
from karpenter.simulate.amounts import matches
from karpenter.simulate.lengths import per_second, seconds, share
from karpenter.simulate.report.schema import problem_of
from karpenter.simulate.scenario.data_files import parts
from karpenter.simulate.scenario.models import (
    Bursts,
    Diurnal,
    DurationColumn,
    Expectation,
    Hpa,
    Images,
    Jobs,
    Lognormal,
    MetricFile,
    Normal,
    Part,
    Pick,
    Pod,
    Point,
    ReportOptions,
    Rollout,
    Scenario,
    Spread,
    Step,
    TimelineStep,
    Walk,
    Workload,
)
from karpenter.simulate.timeline import UNDONE, verb_of
from karpenter.simulate.variants import MOST, named_variants, setting_text

# Those of ``plan --now``, for the same schedules
FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 2999
TOO_LATE: Final = f"later than the year {LAST_YEAR}; let it end earlier"
_END_OF_YEARS: Final = datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)
_PERIODIC: Final = (Bursts, Diurnal, MetricFile, ReportOptions, Rollout, TimelineStep, Walk)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a field."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Names:
    """The objects that steps and workloads can name, as ``Kind/name``."""

    there: frozenset[str]  # from the start
    later: frozenset[str]  # that steps and variants bring

    def missing(self, target: str) -> str | None:
        """What is wrong with a target, if no object is called so."""
        if target in self.there or target in self.later:
            return None
        kind, _, name = target.partition("/")
        of_kind = [
            each.partition("/")[2] for each in self.there | self.later if _kind(each) == kind
        ]
        near = difflib.get_close_matches(name, sorted(of_kind), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"no {kind} is called {name}{hint}"


def checked(
    scenario: Scenario,
    *,
    objects: Sequence[JsonObject],
    added: Sequence[JsonObject],
    types: Sequence[InstanceType],
) -> Iterator[Problem]:
    """Everything that is wrong with a scenario whose structure is right."""
    names = _names(scenario, objects, added)
    yield from _times(scenario)
    yield from _amounts(scenario)
    yield from _settings(scenario)
    yield from _workloads(scenario, names)
    yield from _timeline(scenario, names)
    yield from _variants(scenario)
    yield from _offerings(scenario, types)


def names_of(workload: Workload) -> list[str]:
    """The objects that a workload makes."""
    if workload.target is not None or workload.rollout is not None:
        return [f"HorizontalPodAutoscaler/{workload.name}"] if workload.hpa else []
    if workload.cron is not None:
        return [f"CronJob/{workload.name}"]
    if workload.steps or workload.diurnal or workload.hpa:
        return [f"{workload.kind}/{workload.name}"]
    return []


def _names(scenario: Scenario, objects: Sequence[JsonObject], added: Sequence[JsonObject]) -> Names:
    there = {_title(obj) for obj in objects}
    there |= {name for workload in scenario.workloads for name in names_of(workload)}
    pools = [obj for obj in objects if obj.get("kind") == "NodePool"]
    references = (
        (((obj.get("spec") or {}).get("template") or {}).get("spec") or {}).get("nodeClassRef")
        for obj in pools
    )
    there |= {f"{each.get('kind')}/{each.get('name')}" for each in references if each}
    later = {_title(obj) for obj in added}
    for step in scenario.timeline:
        later |= {_title(each) for each in step.apply or () if isinstance(each, dict)}
    for variant in named_variants(scenario):
        later |= {_title(each) for each in variant.add if isinstance(each, dict)}
    return Names(frozenset(there), frozenset(later))


# --- Times


def start_of(scenario: Scenario) -> datetime | None:
    """The moment a scenario begins at; None if there is no such day or hour."""
    try:
        return datetime.fromisoformat(scenario.start.replace("Z", "+00:00"))
    except ValueError:
        return None


def is_within_years(start: datetime, until: float) -> bool:
    """Whether a run stays within the years that schedules of budgets can be worked out for."""
    return start.year >= FIRST_YEAR and until < (_END_OF_YEARS - start).total_seconds()


def _times(scenario: Scenario) -> Iterator[Problem]:
    until, start = seconds(scenario.until), start_of(scenario)
    if until <= 0:
        yield Problem(("until",), "the scenario ends when it starts; let it last longer")
    if start is None:
        yield Problem(("start",), f"{scenario.start!r} is not a time that there is")
    elif not is_within_years(start, 0):
        text = f"{scenario.start} is not within the years {FIRST_YEAR} and {LAST_YEAR}"
        yield Problem(("start",), text)
    elif not is_within_years(start, until):
        yield Problem(("until",), f"{scenario.until} after {scenario.start} is {TOO_LATE}")
    if scenario.warmup and seconds(scenario.warmup) >= until:
        yield Problem(("warmup",), f"{scenario.warmup} is not before the end at {scenario.until}")
    for path, text in _moments(scenario):
        if seconds(text) >= until:
            said = f"{text} is not before the end of the scenario at {scenario.until}"
            yield Problem(path, said)


def _moments(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Every time of the scenario at which something happens."""
    for path, part in parts(scenario.workloads, ("workloads",)):
        at = part.at if isinstance(part, Step | Point | Rollout) else None
        if at is not None:
            yield (*path, "at"), at
    for index, each in enumerate(scenario.timeline):
        for name, text in (("at", each.at), ("from", each.from_)):
            if text is not None:
                yield ("timeline", index, name), text


# --- Amounts


def _amounts(scenario: Scenario) -> Iterator[Problem]:
    for path, part in parts(scenario):
        yield from _quantities(path, part)
        yield from _periods(path, part)
        if isinstance(part, Lognormal | Spread | Normal):
            yield from _drawn(path, part)
        elif isinstance(part, Diurnal):
            yield from _diurnal(path, part)
        elif isinstance(part, Walk):
            yield from _walk(path, part)
        elif isinstance(part, Hpa) and part.min > part.max:
            yield Problem((*path, "min"), f"{part.min} is above the most, {part.max}")
        elif isinstance(part, Jobs):
            yield from _jobs(path, part)
        elif isinstance(part, DurationColumn):
            is_column, is_pair = part.column is not None, bool(part.from_ and part.to)
            if is_column == is_pair or (is_column and (part.from_ or part.to)):
                yield Problem(path, "needs either column, or from and to")


def _quantities(path: Path, part: Part) -> Iterator[Problem]:
    """Amounts that are written as quantities and that no resource can have."""
    named: list[tuple[Path, str | float | None]] = []
    if isinstance(part, Pod):
        named = [((*path, "cpu"), part.cpu), ((*path, "memory"), part.memory)]
    elif isinstance(part, Images):
        named = [((*path, "bandwidth"), part.bandwidth)]
        named += [((*path, "sizes", image), size) for image, size in part.sizes.items()]
    for field, amount in named:
        try:
            if amount is not None:
                canonical(amount)
        except QuantityError as error:
            yield Problem(field, str(error))


def _periods(path: Path, part: Part) -> Iterator[Problem]:
    """What happens again and again takes a second at least, since a run would never get on."""
    if isinstance(part, _PERIODIC) and part.every is not None and seconds(part.every) < 1:
        yield Problem((*path, "every"), f"{part.every} is less than a second")


def _drawn(path: Path, part: Lognormal | Spread | Normal) -> Iterator[Problem]:
    if isinstance(part, Lognormal):
        if seconds(part.p95) < seconds(part.p50):
            text = f"the 95th percentile {part.p95} is below the median {part.p50}"
            yield Problem((*path, "p95"), text)
    elif isinstance(part, Normal):
        if part.max is not None and seconds(part.max) < seconds(part.min):
            yield Problem((*path, "max"), f"{part.max} is below the least, {part.min}")
    elif part.uniform is not None:
        low, high = part.uniform
        if seconds(low) > seconds(high):
            yield Problem((*path, "uniform"), f"{low} is above {high}; write the lower one first")


def _diurnal(path: Path, part: Diurnal) -> Iterator[Problem]:
    if part.low > part.high:
        yield Problem((*path, "low"), f"{part.low:g} is above the highest, {part.high:g}")
    if share(part.noise) > 1:
        yield Problem((*path, "noise"), f"{part.noise} is more than 100%")


def _walk(path: Path, part: Walk) -> Iterator[Problem]:
    if share(part.floor) > share(part.cap):
        yield Problem((*path, "floor"), f"{part.floor} is above the highest, {part.cap}")


def _jobs(path: Path, part: Jobs) -> Iterator[Problem]:
    if part.rate is None and part.bursts is None:
        yield Problem(path, "has neither rate nor bursts, so no Job ever comes")
    if isinstance(part.rate, str) and per_second(part.rate) > 1000:
        yield Problem((*path, "rate"), f"{part.rate} is more than 1000 Jobs a second")


def _settings(scenario: Scenario) -> Iterator[Problem]:
    yield from _judged_settings(scenario.settings, ("settings",))
    for index, variant in enumerate(scenario.compare):
        yield from _judged_settings(variant.settings, ("compare", index, "settings"))
    for axis, variants in scenario.matrix.items():
        for index, variant in enumerate(variants):
            yield from _judged_settings(variant.settings, ("matrix", axis, index, "settings"))
    for index, step in enumerate(scenario.timeline):
        yield from _judged_settings(step.set or {}, ("timeline", index, "set"))


def _judged_settings(settings: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    for name, value in settings.items():
        try:
            with_assignments(Settings(), {name: setting_text(value)})
        except SettingError as error:
            yield Problem((*path, name), str(error))


# --- Workloads and steps


def _workloads(scenario: Scenario, names: Names) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, workload in enumerate(scenario.workloads):
        here: Path = ("workloads", index)
        if workload.name in seen:
            yield Problem((*here, "name"), f"there are two workloads called {workload.name}")
        seen.add(workload.name)
        yield from _sources(workload, here)
        targets = [("target", workload.target)]
        if workload.rollout is not None:
            targets.append(("rollout", workload.rollout.target))
        for field, target in targets:
            problem = names.missing(target) if target is not None else None
            if problem is not None:
                path = (*here, field) if field == "target" else (*here, field, "target")
                yield Problem(path, problem)
        if workload.cron is not None:
            try:
                parse_schedule(workload.cron.schedule)
            except ScheduleError as error:
                yield Problem((*here, "cron", "schedule"), f"{workload.cron.schedule!r}: {error}")


def _sources(workload: Workload, here: Path) -> Iterator[Problem]:
    """Where the pods of a workload come from: of one source, which its generator can use."""
    given = [name for name in ("pod", "template", "target") if getattr(workload, name) is not None]
    if len(given) > 1:
        yield Problem(here, f"has {given[0]} and {given[1]}; pods have one source")
    scales = workload.steps or workload.diurnal or workload.hpa
    makes = scales or workload.jobs or workload.cron
    if makes and not given:
        yield Problem(here, "has neither pod nor template; say what its pods ask for")
    if workload.target is not None and not scales:
        yield Problem((*here, "target"), "only steps, diurnal and hpa scale a target")
    if workload.template is not None and not _is_template(workload.template):
        yield Problem((*here, "template"), "has no spec with containers")
    traced = workload.sktrace or workload.recording
    brings_own = workload.rollout or traced or workload.csv or workload.target
    for name in ("start", "shutdown"):
        if getattr(workload, name) is not None and (workload.target or traced):
            yield Problem((*here, name), "counts only for pods that the workload makes itself")
    if workload.pdb is not None and brings_own and not workload.csv:
        yield Problem((*here, "pdb"), "is only made for pods that the workload makes itself")


def _is_template(template: JsonObject) -> bool:
    spec = template.get("spec")
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)


def _timeline(scenario: Scenario, names: Names) -> Iterator[Problem]:
    variants = [variant.name for variant in named_variants(scenario)]
    for index, step in enumerate(scenario.timeline):
        here: Path = ("timeline", index)
        yield from _when(step, here)
        for number, each in enumerate(step.expect or ()):
            yield from _step_expectation(each, (*here, "expect", number))
        for target in _targets(step):
            if (problem := names.missing(target)) is not None:
                yield Problem((*here, verb_of(step)), problem)
        for name in step.in_ or ():
            yield from _known(name, variants, (*here, "in"), "variant")
        yield from _picked(step.interrupt or step.fail, names, (*here, verb_of(step)))


def _when(step: TimelineStep, here: Path) -> Iterator[Problem]:
    verb = verb_of(step)
    if (step.at is None) == (step.every is None):
        yield Problem(here, "needs either at or every, which say when")
    if step.to is not None and seconds(step.to) <= seconds(step.from_ or "0"):
        yield Problem((*here, "to"), f"{step.to} is not after {step.from_ or 'the start'}")
    for name, text in (("from", step.from_), ("to", step.to)):
        if text is not None and step.every is None:
            yield Problem((*here, name), "goes with every only")
    if step.for_ is not None and verb not in UNDONE:
        yield Problem((*here, "for"), f"{verb} cannot be undone")
    if step.notice is not None and verb != "interrupt":
        yield Problem((*here, "notice"), "goes with interrupt only")


def _targets(step: TimelineStep) -> list[str]:
    found = [*(step.delete or ()), *(each.target for each in step.patch or ())]
    found += [step.scale.target] if step.scale is not None else []
    return found + ([step.rollout] if step.rollout is not None else [])


def _picked(pick: Pick | None, names: Names, here: Path) -> Iterator[Problem]:
    if pick is None:
        return
    if pick.count is not None and pick.percent is not None:
        yield Problem(here, "has count and percent; nodes are counted in one way")
    if pick.pool is not None and (problem := names.missing(f"NodePool/{pick.pool}")) is not None:
        yield Problem((*here, "pool"), problem)


# --- Variants and offerings


def _variants(scenario: Scenario) -> Iterator[Problem]:
    if scenario.compare and scenario.matrix:
        yield Problem(("matrix",), "goes without compare; both say which variants there are")
    names = [variant.name for variant in named_variants(scenario)]
    if len(names) > MOST:
        yield Problem(("matrix",), f"makes {len(names)} variants, and {MOST} are the most")
    for index, name in enumerate(names):
        if name in names[:index]:
            path: Path = ("compare", index, "name") if scenario.compare else ("matrix",)
            yield Problem(path, f"there are two variants called {name}")
    for index, expectation in enumerate(scenario.expect):
        yield from _expectation(expectation, names, ("expect", index))


def _step_expectation(each: Expectation, here: Path) -> Iterator[Problem]:
    yield from _figure(each, here)
    if each.than is not None or each.at_most is not None or each.at_least is not None:
        text = "compares variants, which a step cannot; give min, max or equals"
        yield Problem(here, text)
    elif each.in_ is not None:
        yield Problem((*here, "in"), "belongs to the step, beside expect")
    elif each.min is None and each.max is None and each.equals is None:
        yield Problem(here, "says no bound; give min, max or equals")


def _figure(each: Expectation, here: Path) -> Iterator[Problem]:
    if problem := problem_of(each.path):
        yield Problem((*here, "path"), problem)


def _expectation(each: Expectation, names: Collection[str], here: Path) -> Iterator[Problem]:
    yield from _figure(each, here)
    for field, name in (("in", each.in_), ("than", each.than)):
        if name is not None:
            yield from _known(name, names, (*here, field), "variant")
    absolute = [each.min, each.max, each.equals]
    ratio = [each.at_most, each.at_least]
    if all(bound is None for bound in (*absolute, *ratio)):
        yield Problem(here, "says no bound; give min, max, equals, atMost or atLeast")
    if any(bound is not None for bound in ratio) != (each.than is not None):
        yield Problem(here, "atMost and atLeast are ratios and go with than, which names a variant")


def _known(name: str, names: Iterable[str], path: Path, what: str) -> Iterator[Problem]:
    if name not in names:
        near = difflib.get_close_matches(name, list(names), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield Problem(path, f"no {what} is called {name}{hint}")


def _offerings(scenario: Scenario, types: Sequence[InstanceType]) -> Iterator[Problem]:
    """Patterns that mean nothing the cloud sells are misspelt."""
    named: list[tuple[Path, str]] = []
    for index, price in enumerate(scenario.prices):
        named.append((("prices", index, "match"), price.match))
    for index, hazard in enumerate(scenario.interruptions):
        named.append((("interruptions", index, "match"), hazard.match))
    for index, step in enumerate(scenario.timeline):
        here: Path = ("timeline", index)
        named += [((*here, "soldOut", n), text) for n, text in enumerate(step.sold_out or ())]
        named += [((*here, "restock", n), text) for n, text in enumerate(step.restock or ())]
        if step.price is not None:
            named.append(((*here, "price", "match"), step.price.match))
        if step.zone_down is not None:
            named.append(((*here, "zoneDown"), f"*/{step.zone_down}/*"))
    sold = {
        f"{kind.name}/{each.zone}/{each.capacity_type}" for kind in types for each in kind.offerings
    }
    verdicts: dict[str, bool] = {}
    for path, pattern in named:
        if pattern not in verdicts:
            verdicts[pattern] = any(matches(pattern, offering) for offering in sold)
        if not verdicts[pattern]:
            yield Problem(path, f"the cloud sells nothing that {pattern} means")


def _title(obj: JsonObject) -> str:
    return f"{obj.get('kind')}/{(obj.get('metadata') or {}).get('name')}"


def _kind(target: str) -> str:
    return target.partition("/")[0]
