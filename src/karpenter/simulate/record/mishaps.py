"""What the cloud refused and took back in a recording, as steps of a timeline.

An Event names a claim and not what was asked for, so the latest claims are remembered a little longer
than there are any.
"""

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from karpenter.api.meta import JsonObject
from karpenter.model import labels
from karpenter.simulate.record.kinds import INTERRUPTED
from karpenter.simulate.record.segments import Change

# For as long Karpenter does not ask for an offering again that was refused
_REFUSED_SECONDS: Final = 180.0
_NOTICE: Final = "2m"
_MOST_CLAIMS: Final = 5000
_MOST_STEPS: Final = 500  # of each kind
_MOST_OFFERINGS: Final = 200  # of one refusal: claims list the cheapest types first
_ANY: Final = "*"
_PARTS: Final = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE)

_Machine: TypeAlias = tuple[str, str, str, str]  # pool, instance type, zone, capacity type


@dataclass(slots=True)
class _Refusal:
    offerings: tuple[str, ...]
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class _Claim:
    offerings: tuple[str, ...]
    machine: _Machine


class Mishaps:
    """The refusals and interruptions of a recording, change by change."""

    def __init__(self) -> None:
        self.count = 0  # of those taken
        self._claims: OrderedDict[str, _Claim] = OrderedDict()
        self._refusals: deque[_Refusal] = deque(maxlen=_MOST_STEPS)
        self._interruptions: deque[tuple[float, _Machine]] = deque(maxlen=_MOST_STEPS)
        self._early: OrderedDict[str, tuple[float, str]] = OrderedDict()  # before their claim

    def take(self, change: Change) -> None:
        """Take a change."""
        after = change.after
        if after is None:
            return
        if change.key[0] == "NodeClaim":
            self._claim(change.key[2], after)
        elif change.key[0] == "Event" and change.before is None:
            name = str((after.get("involvedObject") or {}).get("name", ""))
            self._event(name, _moment(after, change.at), str(after.get("reason", "")))

    def timeline(self, since: float, until: float) -> list[JsonObject]:
        """Those between two times of day as steps of a scenario that lasts from one to the other."""
        found: list[tuple[float, JsonObject]] = []
        for each in self._refusals:
            if since <= each.since < until:
                sold_out = {"soldOut": list(each.offerings), "for": f"{each.until - each.since:g}s"}
                found.append((each.since, sold_out))
        taken = Counter(each for each in self._interruptions if since <= each[0] < until)
        for (at, (pool, kind, zone, capacity_type)), count in taken.items():
            pick = {"pool": pool, "type": kind, "zone": zone, "capacityType": capacity_type}
            held: JsonObject = {key: value for key, value in pick.items() if value}
            found.append((at, {"interrupt": {**held, "count": count}, "notice": _NOTICE}))
        found.sort(key=lambda each: each[0])
        return [{"at": f"{at - since:g}s", **step} for at, step in found]

    def _claim(self, name: str, claim: JsonObject) -> None:
        self._claims[name] = _Claim(_offerings(claim), _machine(claim))
        self._claims.move_to_end(name)
        if len(self._claims) > _MOST_CLAIMS:
            self._claims.popitem(last=False)
        if name in self._early:
            at, reason = self._early.pop(name)
            self._event(name, at, reason)

    def _event(self, name: str, at: float, reason: str) -> None:
        claim = self._claims.get(name)
        if claim is None:  # another list, which is followed by itself
            self._early[name] = at, reason
            if len(self._early) > _MOST_STEPS:
                self._early.popitem(last=False)
            return
        self.count += 1
        if reason == INTERRUPTED:
            self._interruptions.append((at, claim.machine))
            return
        for each in self._refusals:
            if each.offerings == claim.offerings and each.since <= at <= each.until:
                each.until = at + _REFUSED_SECONDS
                return
        self._refusals.append(_Refusal(claim.offerings, at, at + _REFUSED_SECONDS))


def _offerings(claim: JsonObject) -> tuple[str, ...]:
    """Everything that a claim may become, as patterns."""
    terms = (claim.get("spec") or {}).get("requirements") or ()
    values = {
        each["key"]: [str(value) for value in each.get("values") or ()]
        for each in terms
        if each.get("operator") == "In"
    }
    kinds, zones, capacity_types = (values.get(key) or [_ANY] for key in _PARTS)
    found = [
        f"{kind}/{zone}/{capacity_type}"
        for kind in kinds
        for zone in zones
        for capacity_type in capacity_types
    ]
    return tuple(found[:_MOST_OFFERINGS])


def _machine(claim: JsonObject) -> _Machine:
    held = claim["metadata"].get("labels") or {}
    kind, zone, capacity_type = (str(held.get(key, "")) for key in _PARTS)
    return str(held.get(labels.NODEPOOL, "")), kind, zone, capacity_type


def _moment(event: JsonObject, otherwise: float) -> float:
    """When an Event happened, which may be long before it was first read."""
    for field in ("firstTimestamp", "eventTime"):
        if isinstance(text := event.get(field), str):
            try:
                return datetime.fromisoformat(text).timestamp()
            except ValueError:
                continue
    return otherwise
