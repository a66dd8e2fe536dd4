"""Pods on machines that are being removed: which of them will need room elsewhere.

Three things hold a pod on its node: its do-not-disrupt annotation, a PDB that never allows an
eviction, and its kind, since daemons and mirror pods end with their node. A pod that is held is not
planned for, because the time of its move is unknown.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from karpenter.api.meta import IntOrString
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.api.times import later
from karpenter.model import durations
from karpenter.model.conditions import FALSE, READY, status_of, timestamp
from karpenter.model.labels import DO_NOT_DISRUPT
from karpenter.model.selectors import selects
from karpenter.state.nodes import StateNode
from karpenter.state.pods import (
    is_active,
    is_daemon,
    is_mirror,
    is_stateful,
    is_terminating,
    key_of,
    tolerates_disruption,
)

_FOREVER = "true"


class Budgets:
    """An index of PDBs, to find those that match a pod."""

    def __init__(self, pdbs: Iterable[PodDisruptionBudget]) -> None:
        """Index the budgets by namespace."""
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for pdb in sorted(pdbs, key=lambda pdb: pdb.metadata.name):
            namespace = pdb.metadata.namespace or "default"
            self._by_namespace.setdefault(namespace, []).append(pdb)

    def matching(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The PDBs that an eviction of the pod has to respect, by name.

        A PDB with ``unhealthyPodEvictionPolicy: AlwaysAllow`` is omitted for a pod that is not
        ready, unless several match: the eviction API refuses a pod with several PDBs before it
        evaluates any of them.
        """
        held = self._by_namespace.get(pod.metadata.namespace or "default", ())
        selecting = [pdb for pdb in held if selects(pdb.spec.selector, pod.metadata.labels)]
        if len(selecting) == 1 and _always_lets_go(selecting[0], pod):
            return []
        return selecting

    def fully_blocking(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The PDBs that never allow an eviction of the pod.

        The eviction API refuses a pod that several PDBs match, whatever they allow.
        """
        matching = self.matching(pod)
        if len(matching) > 1 or (matching and _never_gives_way(matching[0])):
            return matching
        return []


def pods_to_move(
    nodes: Iterable[StateNode], pdbs: Iterable[PodDisruptionBudget], *, now: datetime
) -> list[Pod]:
    """Return the pods that need room because their machines are being removed."""
    budgets = Budgets(pdbs)
    return [
        pod
        for node in nodes
        if node.is_deleting and node.node is not None
        for pod in node.pods
        if must_move(pod, budgets, now=now)
    ]


def must_move(pod: Pod, budgets: Budgets, *, now: datetime) -> bool:
    """Whether a pod of a machine that is being removed needs room elsewhere now."""
    if not is_reschedulable(pod):
        return False
    if is_active(pod) and is_protected(pod, now=now):
        return False
    return not (is_evictable(pod, now=now) and budgets.fully_blocking(pod))


def is_reschedulable(pod: Pod) -> bool:
    """Whether the pod, or one that takes its place, would run elsewhere without its machine.

    A StatefulSet creates its next pod only once the old one is gone, so its terminating pods count.
    """
    lives_on = is_active(pod) or (is_stateful(pod) and is_terminating(pod))
    return lives_on and not is_daemon(pod) and not is_mirror(pod)


def is_evictable(pod: Pod, *, now: datetime) -> bool:
    """Whether a drain would request the eviction of the pod."""
    return (
        is_active(pod)
        and not tolerates_disruption(pod)
        and not is_mirror(pod)
        and not is_protected(pod, now=now)
    )


def is_protected(pod: Pod, *, now: datetime) -> bool:
    """Whether a do-not-disrupt annotation holds the pod at this time."""
    if pod.metadata.annotations.get(DO_NOT_DISRUPT) == _FOREVER:
        return True
    until = protected_until(pod)
    return now < until if until is not None else _protection_period(pod) is not None


def protected_until(pod: Pod) -> datetime | None:
    """When the protection of a pod ends, if its annotation names a time and the pod has begun."""
    started, period = pod.status.start_time, _protection_period(pod)
    if started is None or period is None:
        return None
    return later(started, period)


def protection_in_words(pod: Pod) -> str:
    """The protection of a pod as a phrase, with its end if that is known."""
    until = protected_until(pod)
    end = f" until {timestamp(until)}" if until is not None else ""
    return f"pod {key_of(pod)} has the annotation {DO_NOT_DISRUPT}{end}"


def _protection_period(pod: Pod) -> timedelta | None:
    """How long after its start a pod is not disrupted, when its annotation is a duration."""
    protection = pod.metadata.annotations.get(DO_NOT_DISRUPT)
    return durations.period(protection) if durations.is_positive(protection) else None


def annotation_problem(annotations: Mapping[str, str]) -> str | None:
    """Why a pod's do-not-disrupt annotation is invalid, or None when it is not."""
    protection = annotations.get(DO_NOT_DISRUPT)
    if protection is None or protection == _FOREVER:
        return None
    if durations.is_positive(protection):
        return None
    quoted = json.dumps(protection, ensure_ascii=False)
    if not durations.is_duration(protection):
        wrong = f"failed to parse {quoted} as a duration"
    else:
        wrong = f"duration {quoted} must be positive"
    advice = 'use "true" or a duration such as 30m'
    return f"Invalid {DO_NOT_DISRUPT} annotation: {wrong}, ignoring annotation; {advice}"


def _always_lets_go(pdb: PodDisruptionBudget, pod: Pod) -> bool:
    is_unready = status_of(pod.status.conditions, READY) == FALSE
    return is_unready and pdb.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"


def _never_gives_way(pdb: PodDisruptionBudget) -> bool:
    """Whether the PDB allows no disruption at all, however many pods there are.

    An absolute ``minAvailable`` does not count: the workload may be scaled up beyond it.
    """
    most_unavailable = pdb.spec.max_unavailable
    return (
        most_unavailable == 0
        or _percent(most_unavailable) == 0
        or _percent(pdb.spec.min_available) == 100
    )


def _percent(amount: IntOrString | None) -> int | None:
    if isinstance(amount, str) and amount.endswith("%") and amount[:-1].isdecimal():
        return int(amount[:-1])
    return None
