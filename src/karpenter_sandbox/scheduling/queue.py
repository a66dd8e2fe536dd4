"""The pods that wait for a node.

Pods ready for a try stand in order of priority, then of arrival. A pod that could not be placed
waits for a change that may help it, and never shorter than its back-off, which doubles with each
try; whatever happens, it is tried again after five minutes. Pods behind scheduling gates do not
count as waiting.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from karpenter_sandbox.scheduling.placement import ANY_CHANGE, Change
from karpenter_sandbox.scheduling.shapes import PodInfo

FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 10.0
LONGEST_WAIT: Final = 300.0
# The least seconds until the next ``flush``
_FLUSH_PERIOD: Final = 30.0

PodKey = tuple[str, str]


@dataclass(eq=False, slots=True)
class Waiting:
    """A pod in the queue."""

    pod: PodInfo
    arrived: float
    serial: int
    attempts: int = 0
    awaits: Change = ANY_CHANGE
    since: float = 0.0  # of the last try
    ready_at: float | None = None  # when its back-off ends, while it waits for nothing else
    is_active: bool = False

    @property
    def backoff_ends(self) -> float:
        """When the pod may be tried again at the earliest."""
        seconds = FIRST_BACKOFF * 2.0 ** min(max(self.attempts - 1, 0), 10)
        return self.since + min(seconds, LONGEST_BACKOFF)

    @property
    def rank(self) -> tuple[int, float, int]:
        """Orders pods: higher priority first, then by arrival."""
        return -self.pod.shape.priority, self.arrived, self.serial


@dataclass(slots=True)
class PodQueue:
    """All pods without a node, by what they wait for."""

    _pods: dict[PodKey, Waiting] = field(default_factory=dict)
    _active: list[tuple[tuple[int, float, int], Waiting]] = field(default_factory=list)
    _backing_off: list[tuple[float, int, Waiting]] = field(default_factory=list)
    _stuck: dict[PodKey, Waiting] = field(default_factory=dict)
    _awaiting: dict[Change, dict[PodKey, Waiting]] = field(
        default_factory=lambda: {change: {} for change in Change}
    )  # the stuck pods by what they await
    _serial: int = 0

    def __len__(self) -> int:
        return len(self._pods)

    def pods(self) -> Iterator[PodInfo]:
        """All pods in the queue."""
        for waiting in self._pods.values():
            yield waiting.pod

    def add(self, pod: PodInfo, now: float) -> None:
        """Add a pod, or update it; every change of a pod makes it ready for a try."""
        waiting = self._pods.get(pod.key)
        if waiting is None or waiting.pod.uid != pod.uid:
            self.remove(pod.key)
            self._serial += 1
            waiting = self._pods[pod.key] = Waiting(pod, now, self._serial)
            self._activate(waiting)
            return
        is_new = waiting.pod.shape is not pod.shape or waiting.pod.labels != pod.labels
        waiting.pod = pod
        if is_new and pod.key in self._stuck:
            self._release(waiting, now)

    def remove(self, key: PodKey) -> None:
        """Drop a pod."""
        waiting = self._pods.pop(key, None)
        if waiting is not None:
            waiting.is_active = False
            waiting.ready_at = None
            self._unstick(waiting)

    def pop(self, now: float) -> PodInfo | None:
        """Return the pod to try next; it stays in the queue until ``remove``."""
        self._end_backoffs(now)
        while self._active:
            _, waiting = heapq.heappop(self._active)
            if waiting.is_active:
                waiting.is_active = False
                waiting.attempts += 1
                return waiting.pod
        return None

    def put_back(self, pod: PodInfo, awaits: Change, now: float) -> None:
        """Let a pod that could not be placed wait for one of the changes it awaits."""
        waiting = self._pods.get(pod.key)
        if waiting is not None and waiting.pod.uid == pod.uid:
            waiting.awaits = awaits
            waiting.since = now
            self._stuck[pod.key] = waiting
            for change in awaits:
                self._awaiting[change][pod.key] = waiting

    def retry(self, pod: PodInfo, now: float) -> None:
        """Try a pod again after its back-off, whatever happens."""
        waiting = self._pods.get(pod.key)
        if waiting is not None:
            waiting.since = now
            waiting.is_active = False
            self._back_off(waiting)

    def changed(self, change: Change, now: float) -> None:
        """Let the pods that awaited such a change be tried again."""
        for waiting in list(self._awaiting[change].values()):
            self._release(waiting, now)

    def activate(self, key: PodKey) -> None:
        """Try a pod again at once."""
        waiting = self._pods.get(key)
        if waiting is not None and not waiting.is_active:
            self._unstick(waiting)
            self._activate(waiting)

    def flush(self, now: float) -> None:
        """Let the pods that have waited for too long be tried again."""
        for waiting in [w for w in self._stuck.values() if now - w.since >= LONGEST_WAIT]:
            self._release(waiting, now)

    def next_due(self, now: float) -> float | None:
        """Seconds until time alone makes a pod ready for a try."""
        due = []
        while self._backing_off and self._backing_off[0][2].ready_at != self._backing_off[0][0]:
            heapq.heappop(self._backing_off)
        if self._backing_off:
            due.append(self._backing_off[0][0])
        if self._stuck:
            longest = min(waiting.since for waiting in self._stuck.values())
            due.append(max(longest + LONGEST_WAIT, now + _FLUSH_PERIOD))
        return max(min(due) - now, 0.0) if due else None

    def _unstick(self, waiting: Waiting) -> None:
        if self._stuck.pop(waiting.pod.key, None) is not None:
            for change in waiting.awaits:
                self._awaiting[change].pop(waiting.pod.key, None)

    def _release(self, waiting: Waiting, now: float) -> None:
        self._unstick(waiting)
        if waiting.backoff_ends > now:
            self._back_off(waiting)
        else:
            self._activate(waiting)

    def _activate(self, waiting: Waiting) -> None:
        waiting.ready_at = None
        waiting.is_active = True
        heapq.heappush(self._active, (waiting.rank, waiting))

    def _back_off(self, waiting: Waiting) -> None:
        waiting.ready_at = waiting.backoff_ends
        heapq.heappush(self._backing_off, (waiting.ready_at, waiting.serial, waiting))

    def _end_backoffs(self, now: float) -> None:
        while self._backing_off and self._backing_off[0][0] <= now:
            ready_at, _, waiting = heapq.heappop(self._backing_off)
            if waiting.ready_at == ready_at:
                self._activate(waiting)
