"""Whether log lines of decisions and decision records say the same, one for one and in order.

The lines of decisions are listed here by their messages, apart from the code that writes them: a
line that bypasses the decision log is found.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from karpenter.decision_log.record import DecisionRecord, Kind, Outcome, Source

LINES: Mapping[str, frozenset[Kind]] = {
    "computed new nodeclaim(s) to fit pod(s)": frozenset({Kind.PROVISION}),
    "created nodeclaim": frozenset({Kind.PROVISION}),
    "creating nodeclaim": frozenset({Kind.PROVISION, Kind.LIMIT}),
    "could not schedule pod": frozenset({Kind.REFUSE, Kind.LIMIT}),
    "pod has to wait for another pass": frozenset({Kind.REFUSE}),
    "ignoring nodepool, not ready": frozenset({Kind.CONFIG}),
    "no dynamic nodepools found": frozenset({Kind.CONFIG}),
    "nodepool is used in part": frozenset({Kind.CONFIG}),
    "invalid budget": frozenset({Kind.CONFIG}),
    "launched nodeclaim": frozenset({Kind.LAUNCH}),
    "failed launching nodeclaim": frozenset({Kind.LAUNCH}),
    "gave up nodeclaim": frozenset({Kind.LAUNCH, Kind.REGISTER}),
    "registered nodeclaim": frozenset({Kind.REGISTER}),
    "initialized nodeclaim": frozenset({Kind.INITIALIZE}),
    "disrupting node(s)": frozenset({Kind.DISRUPT, Kind.REPAIR}),
    "command succeeded": frozenset({Kind.DISRUPT, Kind.REPAIR}),
    "command failed": frozenset({Kind.DISRUPT, Kind.REPAIR}),
    "abandoned command": frozenset({Kind.DISRUPT, Kind.REPAIR}),
    "tainted node": frozenset({Kind.DRAIN}),
    "deleted node": frozenset({Kind.TERMINATE}),
    "deleted nodeclaim": frozenset({Kind.TERMINATE}),
    "deleting expired nodeclaim": frozenset({Kind.DISRUPT}),
    "deleting surplus nodeclaim": frozenset({Kind.DISRUPT}),
    "garbage collected cloudprovider instance": frozenset({Kind.TERMINATE}),
    "garbage collecting nodeclaim with no cloudprovider representation": frozenset(
        {Kind.TERMINATE}
    ),
    "deleting unhealthy node": frozenset({Kind.REPAIR}),
    "rebooting node": frozenset({Kind.REPAIR}),
    "rebooted node": frozenset({Kind.REPAIR}),
    "reboot failed": frozenset({Kind.REPAIR}),
    "interrupted": frozenset({Kind.INTERRUPT}),
}
_NAMED = ("NodeClaim", "Node", "NodePool", "Pod")
_ENDS = frozenset({Outcome.DONE, Outcome.ABANDONED, Outcome.FAILED})


def decision_problems(
    lines: Iterable[Mapping[str, Any]], records: Sequence[DecisionRecord]
) -> list[str]:
    """What is wrong with records, oldest first, that were written together with lines."""
    said = [line for line in lines if line["message"] in LINES and _counts(line)]
    kept = [
        record
        for record in records
        # At its end a process abandons its commands, which writes a record and no line
        if record.source is Source.CONTROLLER and record.outcome is not Outcome.ABANDONED
    ]
    wrong = [
        f"line {line} has the record {record}"
        for line, record in zip(said, kept, strict=False)
        if not _is_of(line, record)
    ]
    if len(said) != len(kept):
        wrong.append(f"{len(said)} lines of decisions, {len(kept)} records")
    return [*wrong[:3], *_endless(records), *_repeated(records)]


def _counts(line: Mapping[str, Any]) -> bool:
    return line["message"] not in ("abandoned command", "creating nodeclaim")


def _is_of(line: Mapping[str, Any], record: DecisionRecord) -> bool:
    if record.kind not in LINES[line["message"]]:
        return False
    for kind in _NAMED:
        about = line.get(kind) or {}
        name = "/".join(filter(None, (about.get("namespace", ""), about.get("name", ""))))
        known = (*record.objects, *(f"NodePool/{pool}" for pool in record.node_pools))
        if name and f"{kind}/{name}" not in known:
            return False
    return record.command == line["command-id"] if "command-id" in line else True


def _endless(records: Sequence[DecisionRecord]) -> list[str]:
    """Commands with a record of their begin and none of their end."""
    begun: set[str] = set()
    ended: set[str] = set()
    for record in records:
        if record.kind in (Kind.DISRUPT, Kind.REPAIR) and record.command:
            (ended if record.outcome in _ENDS else begun).add(record.command)
    return [f"command {number} has no end" for number in sorted(begun - ended)]


def _repeated(records: Sequence[DecisionRecord]) -> list[str]:
    ids = [record.id for record in records]
    return ["two records have one id"] if len(ids) != len(set(ids)) else []
