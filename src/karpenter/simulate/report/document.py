"""The report of a run as data: what ``karpenter simulate -o json`` prints.

``report.schema.json``, which is shipped, states the shape; other tools depend on it. Equal runs give
equal documents but for ``host``.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, cast

from karpenter import __version__
from karpenter.api.meta import JsonObject
from karpenter.decision_log.record import DecisionRecord, Kind, Outcome, moment_text
from karpenter.simulate.bound import dollar_hours
from karpenter.simulate.lengths import shown
from karpenter.simulate.observe.levels import HOUR, spread
from karpenter.simulate.observe.machines import COST, Life, cost_of
from karpenter.simulate.observe.observations import Observations
from karpenter.simulate.promises import AT_REST
from karpenter.simulate.report.causes import Causes, nodes_of, seconds_since
from karpenter.simulate.report.comparison import comparison
from karpenter.simulate.report.expectations import Expected, judged, outcomes
from karpenter.simulate.seam import Run, VariantRun

SHORT_LIVED: Final = 900.0
_RESOURCES: Final = ("cpu", "memory", "pods")
_SAVING_SEEN_AFTER: Final = HOUR
_QUIET: Final = 600.0
_CENT: Final = 1e-9  # of rounding
_CONSOLIDATION: Final = frozenset({"empty", "multi", "single"})
_OF_RECORDS: Final = {
    "A5": "what consolidation announces never costs",
    "A9": "no unexpected error of the controllers",
    "R5": "no decision in the last ten minutes: nothing goes to and fro",
}
_NO_PLACE: Final = "no place for "
# Records that say what was decided; the others say how it went on
_TOLD: Final = frozenset(
    {
        (Kind.PROVISION, Outcome.BEGUN),
        (Kind.PROVISION, Outcome.ABANDONED),
        (Kind.LAUNCH, Outcome.FAILED),
        (Kind.REGISTER, Outcome.FAILED),
    }
)
_TOLD_KINDS: Final = frozenset(
    {Kind.DISRUPT, Kind.REPAIR, Kind.INTERRUPT, Kind.LIMIT, Kind.REFUSE, Kind.CONFIG}
)


def document(run: Run) -> JsonObject:
    """The report of a run."""
    variants = [variant_document(each) for each in run.variants]
    seen = _seen(run.variants[0])
    decisions = sum(len(each.decisions) for each in run.variants)
    found: JsonObject = {
        "scenario": {
            "name": run.scenario.metadata.name,
            "description": run.scenario.metadata.description or "",
            "sha256": run.sha256,
            "demandSha256": run.demand_sha256,
            "seed": run.seed,
            "start": moment_text(seen.start),
            "until": seen.until,
            "warmup": seen.first,
            "complete": all(each.is_complete for each in run.variants),
        },
        "version": __version__,
        "variants": variants,
        "comparison": comparison(variants),
        "warnings": list(run.warnings),
        "notModelled": list(run.not_modelled),
        "host": {
            "wallSeconds": run.wall_seconds,
            "processorSeconds": run.processor_seconds,
            "peakBytes": run.peak_bytes,
            "processorSecondsPerDecision": run.processor_seconds / decisions if decisions else None,
        },
    }
    judged(found, run.scenario.expect)
    return found


def document_held(report: JsonObject) -> bool:
    """Whether every promise and every expectation of a report held."""
    return all(
        all(each["held"] for each in variant["expectations"])
        and not any(each["broken"] for each in variant["invariants"])
        for variant in report["variants"]
    )


def variant_document(run: VariantRun) -> JsonObject:
    """One variant of a report."""
    seen = _seen(run)
    bound = cast(list[float], run.observed[1])
    causes = Causes(run.decisions, seen.start, seen.lives, seen.pool_ends)
    return {
        "name": run.name,
        "settings": dict(sorted(run.settings.items())),
        "ended": seen.ended,
        "complete": run.is_complete,
        "cost": _cost(seen, bound),
        "utilisation": {name: _utilisation(seen, name) for name in _RESOURCES},
        "pods": _pods(seen, run.decisions),
        "disruption": _disruption(seen, causes),
        "nodes": _nodes(seen, causes),
        "atEnd": _at_end(seen),
        "decisions": _decisions(seen, run.decisions),
        "invariants": _invariants(run),
        "expectations": list(run.expectations),
        "problems": list(run.problems),
        "series": _series(seen, bound),
        "lifelines": [_lifeline(life, causes) for life in seen.lives],
        "marks": [{"at": mark.at, "kind": mark.kind, "text": mark.text} for mark in seen.marks],
        "timeline": [_entry(seen, record) for record in run.decisions if _is_told(record)],
    }


def outcomes_so_far(run: VariantRun, expected: Sequence[Expected]) -> list[JsonObject]:
    """What becomes of expectations about a run if it ends here."""
    return outcomes(variant_document(run), expected, shown(run.ended))


def _seen(run: VariantRun) -> Observations:
    return cast(Observations, run.observed[0])


def _cost(seen: Observations, bound: list[float]) -> JsonObject:
    cost: JsonObject = dict(cost_of(seen.lives))
    least: JsonObject | None = None
    if bound:
        dollars = dollar_hours(bound, seen)
        gap = cost["dollarHours"] / dollars - 1 if dollars > 0 else None
        least = {"dollarHours": dollars, "gap": gap}
    return {**cost, "fixed": {"nodeHours": seen.fixed_node_hours}, "lowerBound": least}


def _utilisation(seen: Observations, name: str) -> JsonObject:
    requested = seen.integrals.get(f"requested/{name}", 0.0)
    daemons = seen.integrals.get(f"daemons/{name}", 0.0)
    room = seen.integrals.get(f"allocatable/{name}", 0.0)
    return {
        "share": requested / room if room else None,
        "shareWithoutDaemons": (requested - daemons) / room if room else None,
        "requestedHours": requested / HOUR,
        "allocatableHours": room / HOUR,
    }


def _pods(seen: Observations, records: Sequence[DecisionRecord]) -> JsonObject:
    refusals: dict[str, DecisionRecord] = {}
    for record in records:
        if record.kind in (Kind.REFUSE, Kind.LIMIT):
            for name in record.objects:
                kind, _, pod = name.partition("/")
                if kind == "Pod":
                    refusals[pod] = record
    waiting = [
        {
            "pod": each.pod,
            "since": each.since,
            "seconds": seen.ended - each.since,
            "reason": _why(each.pod, refusals.get(each.pod)),
        }
        for each in seen.unscheduled
    ]
    never = [
        each.pod
        for each in seen.unscheduled
        if each.pod in refusals and refusals[each.pod].kind is Kind.REFUSE
        if refusals[each.pod].outcome is Outcome.FAILED
    ]
    return {
        "created": sum(at >= seen.first for at in seen.created.values()),
        "pendingSeconds": spread(seen.pending),
        "bindingSeconds": spread(seen.binding),
        "unscheduled": waiting,
        "neverFit": len(never),
    }


def _why(pod: str, record: DecisionRecord | None) -> str:
    """The reason of a refusal, without what it is about."""
    if record is None:
        return ""
    text = record.text
    if text.startswith(f"{_NO_PLACE}{pod}"):
        text = text.removeprefix(f"{_NO_PLACE}{pod}").removeprefix(" for over 5 minutes")
    return text.removeprefix(": ")


def _disruption(seen: Observations, causes: Causes) -> JsonObject:
    by_cause: Counter[str] = Counter()
    by_workload: dict[str, list[float]] = {}
    for eviction in seen.evictions:
        by_cause[causes.of_eviction(eviction)] += 1
        by_workload.setdefault(eviction.workload, []).append(eviction.lost)
    lowest = {each.name: each.lowest_ready for each in seen.workloads}
    return {
        "evictions": len(seen.evictions),
        "byCause": dict(sorted(by_cause.items())),
        "reEvictions": sum(each.is_again for each in seen.evictions),
        "byWorkload": [
            {
                "workload": name,
                "evictions": len(by_workload.get(name, ())),
                "lostSeconds": sum(by_workload.get(name, ())),
                "lowestReadyShare": lowest.get(name),
            }
            for name in sorted({*by_workload, *lowest})
        ],
    }


def _nodes(seen: Observations, causes: Causes) -> JsonObject:
    gone = [life for life in seen.lives if life.ended is not None]
    spans = [life.ended - life.began for life in gone if life.ended is not None]
    lifetime = spread(spans)
    lifetime.pop("sum")
    return {
        "created": sum(life.began >= seen.first for life in seen.lives),
        "removed": len(gone),
        "most": int(max(seen.peaks.get("nodes", [0.0]), default=0.0)),
        "byReason": dict(sorted(Counter(causes.of_end(life) for life in gone).items())),
        "lifetime": lifetime,
        "shortLived": sum(span < SHORT_LIVED for span in spans),
        "imageBytes": seen.image_bytes,
    }


def _at_end(seen: Observations) -> JsonObject:
    """The cluster as it is in the end, or when a step judges it."""
    zones = "nodes/zone/"

    def share(name: str) -> float | None:
        room = seen.values.get(f"allocatable/{name}", 0.0)
        return seen.values.get(f"requested/{name}", 0.0) / room if room else None

    moves = [life.began for life in seen.lives]
    moves += [life.ended for life in seen.lives if life.ended is not None]
    return {
        "nodes": round(seen.values.get("nodes", 0.0)),
        "nodesByZone": {
            name.removeprefix(zones): round(count)
            for name, count in sorted(seen.values.items())
            if name.startswith(zones)
        },
        "dollarsHourly": seen.values.get(COST, 0.0),
        "pending": round(seen.values.get("pending", 0.0)),
        "running": round(seen.values.get("running", 0.0)),
        "requested": {name: share(name) for name in _RESOURCES},
        "lastNodeChange": max(moves, default=None),
    }


def _decisions(seen: Observations, records: Sequence[DecisionRecord]) -> JsonObject:
    begun = [r for r in records if r.kind is Kind.DISRUPT and r.outcome is Outcome.BEGUN]
    return {
        "byKind": dict(sorted(Counter(record.kind.value for record in records).items())),
        "byMethod": dict(
            sorted(Counter(m for r in begun if (m := r.detail.get("method"))).items())
        ),
        "byReason": dict(sorted(Counter(record.reason for record in begun).items())),
        "latencySeconds": spread(_latencies(seen, records)),
        "givenUp": sum(
            record.command is not None and record.outcome in (Outcome.FAILED, Outcome.ABANDONED)
            for record in records
        ),
        "savings": _savings(seen, begun),
    }


def _latencies(seen: Observations, records: Sequence[DecisionRecord]) -> list[float]:
    """Seconds from a pod's creation to the first claim that was meant for it."""
    found: dict[str, float] = {}
    for record in records:
        if record.kind is Kind.PROVISION and record.outcome is Outcome.DONE:
            at = seconds_since(seen.start, record.at)
            for pod in record.detail.get("pods", ()):
                if pod in seen.created:
                    found.setdefault(pod, max(0.0, at - seen.created[pod]))
    return list(found.values())


def _savings(seen: Observations, begun: Sequence[DecisionRecord]) -> JsonObject:
    """What commands announced, and what their machines cost less an hour later.

    Really saved is the price of candidates that are gone by then, less that of the machines that
    the command had made and that are there.
    """
    by_claim = {life.claim: life for life in seen.lives}
    announced = real = 0.0
    counted = 0
    for record in begun:
        at = seconds_since(seen.start, record.at)
        if record.savings_hourly is None or at < seen.first:
            continue
        counted += 1
        announced += record.savings_hourly
        later = at + _SAVING_SEEN_AFTER
        going = set(nodes_of(record))
        for name in record.objects:
            kind, _, claim = name.partition("/")
            life = by_claim.get(claim) if kind == "NodeClaim" else None
            if life is None:
                continue
            is_there = life.ended is None or life.ended > later
            if life.name in going and not is_there:
                real += life.price_at(at)
            elif life.name not in going and is_there:
                real -= life.price_at(later)
    return {"commands": counted, "announcedHourly": announced, "realHourly": real}


def _invariants(run: VariantRun) -> list[JsonObject]:
    """What judges found, who come after the observers that count, and what the records break."""
    found: list[JsonObject] = []
    for each in run.observed[2:]:
        found += cast(list[JsonObject], each)
    seen = _seen(run)
    saving = [r for r in run.decisions if r.kind is Kind.DISRUPT and r.savings_hourly is not None]
    costly = [
        {"at": seconds_since(seen.start, record.at), "text": record.text}
        for record in saving
        if record.detail.get("method") in _CONSOLIDATION and (record.savings_hourly or 0) < -_CENT
    ]
    errors = [{"at": seen.ended, "text": text} for text in run.problems]
    found += [_promise("A5", len(saving), costly), _promise("A9", 1, errors)]
    if any(each["id"] in AT_REST for each in found):
        found.append(_promise("R5", 1, _late(seen, run.decisions)))
    return found


def _late(seen: Observations, records: Sequence[DecisionRecord]) -> list[JsonObject]:
    """Decisions that were made when everything should have come to rest."""
    begun = [
        record
        for record in records
        if (record.kind, record.outcome)
        in ((Kind.DISRUPT, Outcome.BEGUN), (Kind.PROVISION, Outcome.DONE))
    ]
    moments = [(seconds_since(seen.start, record.at), record.text) for record in begun]
    return [{"at": at, "text": text} for at, text in moments if at > seen.ended - _QUIET]


def _promise(name: str, judged: int, broken: list[JsonObject]) -> JsonObject:
    return {"id": name, "promise": _OF_RECORDS[name], "judged": judged, "broken": broken}


def _series(seen: Observations, bound: list[float]) -> JsonObject:
    nothing = [0.0] * len(seen.times)

    def means(name: str) -> list[float]:
        return seen.means.get(name, nothing)

    def peaks(name: str) -> list[float]:
        return seen.peaks.get(name, nothing)

    def parts(prefix: str) -> dict[str, list[float]]:
        return {
            name.removeprefix(prefix): means(name)
            for name in sorted(seen.means)
            if name.startswith(prefix)
        }

    evictions = [0] * len(seen.times)
    for eviction in seen.evictions:
        number = min(int((eviction.at - seen.first) / seen.step), len(evictions) - 1)
        evictions[number] += 1
    return {
        "step": seen.step,
        "times": seen.times,
        "dollarsHourly": means(COST),
        "boundHourly": bound or None,
        "nodes": means("nodes"),
        "nodesByPool": parts("nodes/pool/"),
        "nodesByCapacityType": parts("nodes/capacityType/"),
        "requested": {name: means(f"requested/{name}") for name in _RESOURCES},
        "allocatable": {name: means(f"allocatable/{name}") for name in _RESOURCES},
        "pending": peaks("pending"),
        "running": means("running"),
        "evictions": evictions,
    }


def _lifeline(life: Life, causes: Causes) -> JsonObject:
    return {
        "name": life.name,
        "pool": life.pool,
        "type": life.instance_type,
        "zone": life.zone,
        "capacityType": life.capacity_type,
        "began": life.began,
        "ended": life.ended,
        "reason": causes.of_end(life),
        "dollarHours": life.dollars,
    }


def _is_told(record: DecisionRecord) -> bool:
    return record.kind in _TOLD_KINDS or (record.kind, record.outcome) in _TOLD


def _entry(seen: Observations, record: DecisionRecord) -> JsonObject:
    method: Any = record.detail.get("method", "")
    return {
        "at": seconds_since(seen.start, record.at),
        "kind": record.kind.value,
        "outcome": record.outcome.value,
        "reason": record.reason,
        "method": str(method),
        "nodes": nodes_of(record),
        "pods": record.pods,
        "savingsHourly": record.savings_hourly,
        "sentence": record.text,
    }
