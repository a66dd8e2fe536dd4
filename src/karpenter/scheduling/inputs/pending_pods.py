"""Which pods enter a pass, and why the others do not.

Two questions, in this order. Does the pod wait for a node: the scheduler has marked it
unschedulable, and no other component will place it? And could any pool ever serve it: can its
requirements on the node, and its volumes, be evaluated? Pods of departing nodes, and virtual pods
of buffers, are not checked.

Requests for devices are not checked here: such a pod enters the pass and may fail there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api.pods import Pod, PodSpec
from karpenter.api.storage import PersistentVolumeClaim
from karpenter.cloud.types import ProviderFacts
from karpenter.model.conditions import POD_SCHEDULED
from karpenter.scheduling.compiled.fingerprints import fingerprint
from karpenter.scheduling.inputs.ignored_pods import Ignored, Objection, WhyIgnored
from karpenter.scheduling.inputs.node_constraints import node_constraint_objection, opts_out
from karpenter.scheduling.inputs.storage import Storage
from karpenter.scheduling.inputs.volume_checks import volume_objection
from karpenter.state.object_keys import DEFAULT_NAMESPACE
from karpenter.state.pods import is_bound, is_daemon, is_mirror, key_of

_UNSCHEDULABLE: Final = "Unschedulable"
_GATED: Final = "SchedulingGated"
_RUNNING: Final = "Running"


@dataclass(frozen=True, slots=True)
class Intake:
    """The pods of a cluster, split; both lists keep the order of the input."""

    pods: tuple[Pod, ...]  # those that enter the pass
    ignored: tuple[Ignored, ...]  # those that do not


def take_in(pods: Iterable[Pod], storage: Storage, facts: ProviderFacts) -> Intake:
    """Determine which pods enter a pass."""
    checker = _Checker(storage, facts)
    entering, ignored = [], []
    for pod in pods:
        objection = _waiting_objection(pod) or checker.objection(pod)
        if objection is None:
            entering.append(pod)
        else:
            ignored.append(Ignored(key_of(pod), *objection))
    return Intake(tuple(entering), tuple(ignored))


def why_not_waiting(pod: Pod) -> Ignored | None:
    """Why a pod does not wait for a node, or None when it does."""
    objection = _waiting_objection(pod)
    return Ignored(key_of(pod), *objection) if objection is not None else None


def why_refused(pod: Pod, storage: Storage, facts: ProviderFacts) -> Ignored | None:
    """Why no pool could serve a pod that waits for a node, or None when one might."""
    objection = _Checker(storage, facts).objection(pod)
    return Ignored(key_of(pod), *objection) if objection is not None else None


def uses_device_claims(spec: PodSpec) -> bool:
    """Whether a pod asks for devices through resource claims."""
    return bool(spec.resource_claims) or any(
        container.resources.claims for container in (*spec.containers, *spec.init_containers)
    )


def needs_scheduler(pod: Pod, claims: Mapping[str, PersistentVolumeClaim]) -> bool:
    """Whether only the scheduler can bind a pod: it has to prepare volumes or devices.

    ``claims``: those of the cluster, by ``namespace/name``. A volume without a claim needs nothing.
    """
    if uses_device_claims(pod.spec):
        return True
    namespace = pod.metadata.namespace or DEFAULT_NAMESPACE
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None:
            return True
        if volume.persistent_volume_claim is not None:
            claim = claims.get(f"{namespace}/{volume.persistent_volume_claim.claim_name}")
            if claim is None or not claim.spec.volume_name:
                return True
    return False


class _Checker:
    """Checks pods; those with the same demands share one cached verdict."""

    def __init__(self, storage: Storage, facts: ProviderFacts) -> None:
        self._storage = storage
        self._facts = facts
        self._verdicts: dict[bytes, Objection | None] = {}  # demands on the node -> objection

    def objection(self, pod: Pod) -> Objection | None:
        """What keeps a pod out, or None."""
        spec = pod.spec
        objection = None
        if spec.node_selector or (spec.affinity is not None and spec.affinity.node_affinity):
            objection = self._on_its_node(spec)
        if objection is None and spec.volumes:
            objection = volume_objection(pod, self._storage, self._facts)
        return objection

    def _on_its_node(self, spec: PodSpec) -> Objection | None:
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        key = fingerprint((spec.node_selector, affinity))
        if key not in self._verdicts:
            self._verdicts[key] = (
                (
                    WhyIgnored.OPTED_OUT,
                    "its node selector or affinity leaves out every node that belongs to a pool",
                )
                if opts_out(spec)
                else node_constraint_objection(spec, self._facts)
            )
        return self._verdicts[key]


def _waiting_objection(pod: Pod) -> Objection | None:
    if is_bound(pod):
        return WhyIgnored.ALREADY_BOUND, f"it is bound to node {pod.spec.node_name}"
    if pod.metadata.owner_references:
        if is_daemon(pod):
            return WhyIgnored.DAEMON_SET_POD, "its DaemonSet decides which nodes run it"
        if is_mirror(pod):
            return WhyIgnored.MIRROR_POD, "it mirrors a static pod of its node"
    if pod.status.nominated_node_name:
        nominated = pod.status.nominated_node_name
        return WhyIgnored.NOMINATED, f"it waits for other pods to leave node {nominated}"
    reasons = [c.reason for c in pod.status.conditions if c.type == POD_SCHEDULED]
    if _UNSCHEDULABLE in reasons:
        return None
    return WhyIgnored.NOT_UNSCHEDULABLE, _without_verdict(pod, reasons)


def _without_verdict(pod: Pod, reasons: list[str]) -> str:
    if pod.status.phase == _RUNNING:
        return "it runs already, and needs no node"
    if not reasons:
        return "no scheduler has reported that it is unschedulable"
    if _GATED in reasons:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return f"it waits for its scheduling gates{f' {gates}' if gates else ''} to be removed"
    return f"its condition {POD_SCHEDULED} has reason {reasons[0]!r}, not {_UNSCHEDULABLE}"
