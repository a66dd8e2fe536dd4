"""Where waiting pods are expected, as the ``Nominated`` events of a cluster's own controller say."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from karpenter.api.cluster import Event
from karpenter.api.meta import Resource
from karpenter.api.times import FIRST
from karpenter.dashboard.observed.events import POD, is_of_karpenter, last_moment
from karpenter.kube.events import NOMINATED
from karpenter.state.object_keys import DEFAULT_NAMESPACE, uid_of

_PLACE: Final = re.compile(r"\b(?P<kind>nodeclaim|node)/(?P<name>[a-z0-9][a-z0-9.-]*[a-z0-9])")


class Nominations:
    """The places of pods; of several events about a pod the latest counts."""

    def __init__(self) -> None:
        """Begin without any."""
        self._events: dict[str, dict[str, tuple[datetime, str]]] = {}  # pod -> event -> place
        self._targets: Mapping[str, str] = {}
        self._is_old = False

    def changed(self, old: Resource | None, new: Resource | None) -> None:
        """Take over a change of an object; None stands for "not there"."""
        for each, is_there in ((old, False), (new, True)):
            if not isinstance(each, Event) or each.reason != NOMINATED:
                continue
            about = each.involved_object
            if about.kind != POD or not is_of_karpenter(each):
                continue
            pod = f"{about.namespace or DEFAULT_NAMESPACE}/{about.name}"
            place = _place_in(each.message)
            if is_there and place:
                known = self._events.setdefault(pod, {})
                known[uid_of(each)] = (last_moment(each, FIRST), place)
            elif pod in self._events:
                self._events[pod].pop(uid_of(each), None)
                if not self._events[pod]:
                    del self._events[pod]
            self._is_old = True

    @property
    def targets(self) -> Mapping[str, str]:
        """The name of a Node or NodeClaim by the key of a pod; the same object while none changes."""
        if self._is_old:
            found = {pod: max(known.values())[1] for pod, known in self._events.items()}
            if found != self._targets:
                self._targets = found
            self._is_old = False
        return self._targets


def _place_in(message: str) -> str:
    """The Node that a message names, else the NodeClaim."""
    named = {found["kind"]: found["name"] for found in _PLACE.finditer(message)}
    return named.get("node") or named.get("nodeclaim", "")
