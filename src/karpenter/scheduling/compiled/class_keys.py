"""The keys of pods' classes, kept between solves.

Most pods of a large cluster are the same objects from one solve to the next, and working out a key
means to write down the whole specification of a pod. Pods are compared by identity.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.scheduling.compiled.pod_classes import class_key

Spread: TypeAlias = tuple[TopologySpreadConstraint, ...]
Claims: TypeAlias = tuple[tuple[str, bytes], ...]
_Known: TypeAlias = tuple[Pod, Spread, Claims, bytes]


class ClassKeys:
    """Works out each key once, and keeps those of no more pods than there are."""

    __slots__ = ("_known", "_same")

    def __init__(self) -> None:
        """Begin with no key known."""
        self._known: dict[int, _Known] = {}  # by identity of the pod, which is kept alive
        self._same: dict[bytes, bytes] = {}  # one object for equal keys

    def __len__(self) -> int:
        """How many keys are kept."""
        return len(self._known)

    def of(self, asked: Sequence[tuple[Pod, Spread, Claims]]) -> list[bytes]:
        """The keys of pods, each with the spread constraints that hold for it, and its claims."""
        return [self._key(*each) for each in asked]

    def keep(self, pods: Iterable[Pod]) -> None:
        """Forget all pods but these."""
        known = self._known
        there = ((id(pod), known.get(id(pod))) for pod in pods)
        self._known = {number: found for number, found in there if found is not None}
        self._same = {found[3]: found[3] for found in self._known.values()}

    def _key(self, pod: Pod, spread: Spread, claims: Claims) -> bytes:
        number = id(pod)
        known = self._known.get(number)
        if known is not None and known[1] == spread and known[2] == claims:
            return known[3]
        key = class_key(pod, spread, claims)
        key = self._same.setdefault(key, key)
        self._known[number] = pod, spread, claims, key
        return key
