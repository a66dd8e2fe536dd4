"""How long machines and pods took in a recording: samples of it, however long it is."""

import random
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.model import labels
from karpenter.model.conditions import INITIALIZED, LAUNCHED, POD_SCHEDULED, READY
from karpenter.simulate.record.segments import Change

_MOST_SAMPLES: Final = 200  # of one series
_MOST_TYPES: Final = 100
_MOST_IMAGES: Final = 100
_QUANTILES: Final = 20  # that a scenario lists of a series


class Samples:
    """Some of many amounts, each as likely to be kept as any other."""

    def __init__(self) -> None:
        self._rng = random.Random(0)  # noqa: S311 nothing secret hangs on it
        self._kept: list[float] = []
        self._seen = 0

    def add(self, amount: float) -> None:
        """Take one more."""
        self._seen += 1
        if len(self._kept) < _MOST_SAMPLES:
            self._kept.append(amount)
        elif (place := self._rng.randrange(self._seen)) < _MOST_SAMPLES:
            self._kept[place] = amount

    def listed(self) -> list[str]:
        """Their quantiles, as a scenario writes lengths of time."""
        found = sorted(self._kept)
        if len(found) > _QUANTILES:
            last = len(found) - 1
            found = [found[round(last * n / (_QUANTILES - 1))] for n in range(_QUANTILES)]
        return [f"{amount:g}s" for amount in found]

    def __bool__(self) -> bool:
        return bool(self._kept)


class _Starts:
    """How long pods of one image took to start."""

    def __init__(self) -> None:
        self.first = Samples()  # where the node did not have it yet
        self.later = Samples()

    def listed(self) -> JsonObject:
        """As an entry of a scenario."""
        found: JsonObject = {"is": {"empirical": (self.later or self.first).listed()}}
        return {**found, "first": {"empirical": self.first.listed()}} if self.first else found


class Facts:
    """The facts of a recording, change by change."""

    def __init__(self) -> None:
        self.count = 0  # of samples taken
        self._launches = Samples()
        self._boots = Samples()
        self._boots_of: dict[str, Samples] = {}  # by instance type
        self._starts = Samples()
        self._starts_of: dict[str, _Starts] = {}  # by image
        self._images: dict[str, set[str]] = {}  # node that came later -> images that it has

    def take(self, change: Change) -> None:
        """Take a change; what was so before the recording began counts as well."""
        if change.key[0] == "Node":
            self._node(change)
        if change.after is None:
            return
        if change.key[0] == "NodeClaim":
            self._claim(change.before or {}, change.after)
        elif change.key[0] == "Pod":
            self._pod(change.before or {}, change.after)

    def machines(self) -> JsonObject:
        """As the field of a scenario."""
        found: JsonObject = {}
        if self._launches:
            found["launch"] = {"empirical": self._launches.listed()}
        if self._boots:
            every = {"is": {"empirical": self._boots.listed()}}
            by_type = [
                {"match": f"{name}/*/*", "is": {"empirical": samples.listed()}}
                for name, samples in sorted(self._boots_of.items())
            ]
            found["boot"] = [*by_type, every]
        if self._starts:
            by_image = [
                {"image": image, **samples.listed()}
                for image, samples in sorted(self._starts_of.items())
            ]
            start: JsonObject = {"empirical": self._starts.listed()}
            found["start"] = [*by_image, {"is": start}] if by_image else start
        return found

    def _node(self, change: Change) -> None:
        """Take note of a node that is new, so that it has no image yet."""
        if change.after is None:
            self._images.pop(change.key[2], None)
        elif change.before is None and _since(change.after, READY) is None:
            self._images[change.key[2]] = set()

    def _claim(self, before: JsonObject, after: JsonObject) -> None:
        launched, up = _since(after, LAUNCHED), _since(after, INITIALIZED)
        created = _time(after["metadata"].get("creationTimestamp"))
        if launched is not None and created is not None and _since(before, LAUNCHED) is None:
            self._launches.add(max(0.0, launched - created))
            self.count += 1
        if launched is None or up is None or _since(before, INITIALIZED) is not None:
            return
        boot = max(0.0, up - launched)
        self._boots.add(boot)
        self.count += 1
        kind = (after["metadata"].get("labels") or {}).get(labels.INSTANCE_TYPE)
        if kind and (kind in self._boots_of or len(self._boots_of) < _MOST_TYPES):
            self._boots_of.setdefault(kind, Samples()).add(boot)

    def _pod(self, before: JsonObject, after: JsonObject) -> None:
        begun, scheduled = started(after), _since(after, POD_SCHEDULED)
        if begun is not None and scheduled is not None and started(before) is None:
            took = max(0.0, begun - scheduled)
            self._starts.add(took)
            self._start_of(after, took)
            self.count += 1

    def _start_of(self, pod: JsonObject, took: float) -> None:
        """Take how long a pod of an image took: the first one of a new node has pulled it."""
        spec = pod.get("spec") or {}
        containers: Sequence[JsonObject] = spec.get("containers") or ({},)
        image = str(containers[0].get("image", ""))
        if not image or any(letter in image for letter in "*?["):
            return
        if image not in self._starts_of and len(self._starts_of) >= _MOST_IMAGES:
            return
        samples = self._starts_of.setdefault(image, _Starts())
        there = self._images.get(str(spec.get("nodeName", "")))
        is_first = there is not None and image not in there
        if there is not None:
            there.add(image)
        (samples.first if is_first else samples.later).add(took)


def started(pod: JsonObject) -> float | None:
    """When the first container of a pod ran."""
    return _of_containers(pod, "startedAt", min)


def finished(pod: JsonObject) -> float | None:
    """When a pod ended by itself, if it did."""
    status = pod.get("status") or {}
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    if any(each.get("type") == "DisruptionTarget" for each in status.get("conditions") or ()):
        return None
    return _of_containers(pod, "finishedAt", max)


def _of_containers(
    pod: JsonObject, field: str, choose: Callable[[list[float]], float]
) -> float | None:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    found = [
        at
        for container in containers
        for part in (container.get("state") or {}).values()
        if (at := _time(part.get(field))) is not None
    ]
    return choose(found) if found else None


def _since(obj: JsonObject, condition: str) -> float | None:
    conditions: Sequence[JsonObject] = (obj.get("status") or {}).get("conditions") or ()
    for each in conditions:
        if each.get("type") == condition and each.get("status") == "True":
            return _time(each.get("lastTransitionTime"))
    return None


def _time(text: Any) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
