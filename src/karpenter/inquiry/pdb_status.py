"""What pod disruption budgets allow, where their status does not say so yet.

A budget in a manifest has no status: a controller of Kubernetes writes that. Here it is computed as
that controller would, from the pods of the input. A running pod counts as healthy unless it says
otherwise, because manifests seldom say that a pod is ready.
"""

from collections.abc import Iterable, Sequence

import msgspec

from karpenter.api.meta import IntOrString
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.model.conditions import READY, TRUE, find
from karpenter.model.selectors import selects
from karpenter.state.object_keys import namespace_of
from karpenter.state.pods import is_bound, is_finished, is_terminating


def judged(pdb: PodDisruptionBudget, pods: Iterable[Pod]) -> PodDisruptionBudget:
    """The same budget with the status it would have among these pods."""
    namespace = namespace_of(pdb)
    covered = [
        pod
        for pod in pods
        if namespace_of(pod) == namespace
        and not is_finished(pod)
        and selects(pdb.spec.selector, pod.metadata.labels)
    ]
    healthy = sum(map(_is_healthy, covered))
    wanted = _wanted(pdb, covered)
    status = msgspec.structs.replace(
        pdb.status,
        disruptions_allowed=max(0, healthy - wanted) if covered else 0,
        current_healthy=healthy,
        desired_healthy=wanted,
        expected_pods=len(covered),
    )
    return msgspec.structs.replace(pdb, status=status)


def _wanted(pdb: PodDisruptionBudget, covered: Sequence[Pod]) -> int:
    """How many pods must stay healthy; all of them when the PDB is not clear about it."""
    expected = len(covered)
    if pdb.spec.max_unavailable is not None:
        spared = _amount(pdb.spec.max_unavailable, expected)
        return expected if spared is None else max(0, expected - spared)
    needed = _amount(pdb.spec.min_available, expected)
    return expected if needed is None else needed


def _amount(value: IntOrString | None, total: int) -> int | None:
    """A number of pods, or a percentage of them rounded up; None for what is neither."""
    if value is None or isinstance(value, int):
        return value
    number = value.removesuffix("%")
    if number == value or not number.isdecimal():
        return None
    return -(-int(number) * total // 100)


def _is_healthy(pod: Pod) -> bool:
    if is_terminating(pod) or not is_bound(pod):
        return False
    ready = find(pod.status.conditions, READY)
    return ready.status == TRUE if ready is not None else pod.status.phase in ("", "Running")
