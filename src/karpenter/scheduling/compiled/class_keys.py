"""The keys of pods' classes, kept between solves.

Most pods of a large cluster are the same objects from one solve to the next, and working out a key
means to write down the whole specification of a pod. Pods are compared by identity.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.scheduling.compiled.pod_classes import class_key

Spread: TypeAlias = tuple[TopologySpreadConstraint, ...]
Claims: TypeAlias = tuple[tuple[str, bytes], ...]
_Known: TypeAlias = tuple[Pod, Spread, Claims, bytes]

# How many entries beyond those of a solve are kept until those that are not used are dropped
_SPARE: Final = 0.25
_FEW: Final = 200


class ClassKeys:
    """Works out each key once.

    Solves of many pods and of few take turns, so what one does not use is kept until the next round:
    when there is too much, all is old, and what is used again becomes young.
    """

    __slots__ = ("_old", "_same", "_young")

    def __init__(self) -> None:
        """Begin with no key known."""
        self._young: dict[int, _Known] = {}  # by identity of the pod
        self._old: dict[int, _Known] = {}
        self._same: dict[bytes, bytes] = {}  # one object for equal keys

    def __len__(self) -> int:
        """How many keys are kept."""
        return len(self._young) + len(self._old)

    def of(self, asked: Sequence[tuple[Pod, Spread, Claims]]) -> list[bytes]:
        """The keys of pods, each with the spread constraints that hold for it, and its claims."""
        if len(self._young) > len(asked) * (1 + _SPARE) + _FEW:
            self._old, self._young = self._young, {}
            self._same = {known[3]: known[3] for known in self._old.values()}
        return [self._key(*each) for each in asked]

    def _key(self, pod: Pod, spread: Spread, claims: Claims) -> bytes:
        number = id(pod)
        known = self._young.get(number)
        if known is None:
            known = self._old.pop(number, None)
            if known is not None and known[0] is pod:
                self._young[number] = known
        if known is not None and known[0] is pod and known[1] == spread and known[2] == claims:
            return known[3]
        key = class_key(pod, spread, claims)
        key = self._same.setdefault(key, key)
        self._young[number] = pod, spread, claims, key
        return key
