"""The times and the planned claims of pods, from pending to running.

The record is kept in memory only: after a restart, metrics start over and early binding is left to
the scheduler.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from karpenter.api.pods import Pod

_MOST_REMEMBERED: Final = 100_000


@dataclass(slots=True)
class PodTimes:
    """When a pod was first seen waiting, first decided on, and first found a place for."""

    seen: datetime
    decided: datetime | None = None
    placed: datetime | None = None


@dataclass(slots=True)
class PlannedPods:
    """The times of pods by uid, and which pods are expected on which claim."""

    _times: dict[str, PodTimes] = field(default_factory=dict)
    _claim_of: dict[str, str] = field(default_factory=dict)  # pod uid -> claim
    _pods_of: dict[str, dict[str, Pod]] = field(default_factory=dict)  # claim -> uid -> pod

    def see(self, uid: str, at: datetime) -> None:
        """Note that a pod waits; only the first time counts."""
        if uid not in self._times:
            self._times[uid] = PodTimes(at)
            if len(self._times) > _MOST_REMEMBERED:
                del self._times[next(iter(self._times))]

    def decide(self, uid: str, at: datetime, *, is_placed: bool) -> float | None:
        """Note a decision; return how many seconds the first one took, and None later on."""
        times = self._times.setdefault(uid, PodTimes(at))
        if is_placed and times.placed is None:
            times.placed = at
        if times.decided is not None:
            return None
        times.decided = at
        return (at - times.seen).total_seconds()

    def times_of(self, uid: str) -> PodTimes | None:
        """The times of a pod, if it was ever seen waiting."""
        return self._times.get(uid)

    def expect(self, claim_name: str, pods: Iterable[Pod]) -> None:
        """Note that pods are expected on the machine of a claim, and nowhere else."""
        for pod in pods:
            uid = pod.metadata.uid
            self._leave(uid)
            self._claim_of[uid] = claim_name
            self._pods_of.setdefault(claim_name, {})[uid] = pod

    def claim_of(self, uid: str) -> str:
        """The claim a pod is expected on, or nothing."""
        return self._claim_of.get(uid, "")

    def pods_of(self, claim_name: str) -> tuple[Pod, ...]:
        """The pods that are expected on a claim, as they were when that was decided."""
        return tuple(self._pods_of.get(claim_name, {}).values())

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._times.pop(uid, None)
        self._leave(uid)

    def forget_claim(self, claim_name: str) -> None:
        """Forget what is expected on a claim that is gone."""
        for uid in self._pods_of.pop(claim_name, {}):
            self._claim_of.pop(uid, None)

    def _leave(self, uid: str) -> None:
        claim = self._claim_of.pop(uid, None)
        if claim is None:
            return
        pods = self._pods_of[claim]
        del pods[uid]
        if not pods:
            del self._pods_of[claim]
