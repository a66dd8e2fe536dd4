"""Machines as the planner sees them: a Node and its NodeClaim fused into one.

While a machine starts, its NodeClaim is authoritative; once it is registered, its Node is for
labels and taints, and once it is initialized, for its size as well. A Node without a NodeClaim is
not managed: it takes pods, and is never disrupted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node, Taint
from karpenter.api.pods import Pod
from karpenter.model import durations
from karpenter.model import labels as keys
from karpenter.model.conditions import INSTANCE_TERMINATING, READY, REBOOTING, TRUE, is_true
from karpenter.model.resources import Resources, total
from karpenter.model.taints import AWAITS_PODS, is_known_ephemeral, matches
from karpenter.model.taints import REBOOTING as REBOOTING_TAINT
from karpenter.state.pods import is_daemon, mounts_claims
from karpenter.state.requests import pod_requests

_TRUE = "true"
_SHORTEST_NOMINATION = timedelta(seconds=10)
_DEFAULT_BATCH = timedelta(seconds=10)  # of the setting batch_max_duration, unless it is set


@dataclass(frozen=True)
class StateNode:
    """One machine; at least one of ``node`` and ``node_claim`` is set.

    Derived values are computed once and cached, so share the object while nothing changes.
    """

    node: Node | None
    node_claim: NodeClaim | None
    pods: tuple[Pod, ...] = ()  # bound here and not finished, those being deleted included
    is_marked: bool = False  # a command in progress will delete it
    nominated_until: datetime | None = None

    @cached_property
    def name(self) -> str:
        """The Node's name, or the NodeClaim's while there is no Node."""
        if self.node is not None and (self.is_registered or self.node_claim is None):
            return self.node.metadata.name
        assert self.node_claim is not None
        return self.node_claim.metadata.name

    @property
    def hostname(self) -> str:
        """The value of the hostname label, or the one it will get."""
        return self.labels.get(keys.HOSTNAME) or self.name

    @property
    def is_managed(self) -> bool:
        """Whether the machine has a NodeClaim."""
        return self.node_claim is not None

    @cached_property
    def is_registered(self) -> bool:
        """Whether the registration has copied the NodeClaim's labels and taints to the Node."""
        return not self.is_managed or self._node_has(keys.REGISTERED)

    @cached_property
    def is_initialized(self) -> bool:
        """Whether the Node is initialized: ready, with all resources and no startup taints."""
        return not self.is_managed or self._node_has(keys.INITIALIZED)

    @cached_property
    def is_rebooting(self) -> bool:
        """Whether a reboot in place is under way."""
        return self._claim_condition(REBOOTING) == TRUE

    @cached_property
    def is_ready(self) -> bool:
        """Whether the Node reports that it is ready."""
        if self.node is None:
            return False
        return is_true(self.node.status.conditions, READY)

    def has_condition(self, kind: str) -> bool:
        """Whether a condition of the NodeClaim holds."""
        return self._claim_condition(kind) == TRUE

    @cached_property
    def is_deleting(self) -> bool:
        """Whether the machine is being deleted, or marked for it."""
        if self.is_marked:
            return True
        if self.node_claim is not None:
            terminating = self._claim_condition(INSTANCE_TERMINATING) == TRUE
            return terminating or self.node_claim.metadata.deletion_timestamp is not None
        return self.node is not None and self.node.metadata.deletion_timestamp is not None

    def is_nominated(self, now: datetime) -> bool:
        """Whether pods are expected to arrive, so that the machine must stay."""
        return self.nominated_until is not None and now < self.nominated_until

    def lifetime_left(self, now: datetime) -> float:
        """The fraction of ``expireAfter`` that is left: one when new, zero when it expires."""
        claim = self.node_claim
        length = durations.period(claim.spec.expire_after) if claim is not None else None
        created = claim.metadata.creation_timestamp if claim is not None else None
        if not length or created is None:
            return 1.0
        return max(0.0, min(1.0, 1 - (now - created) / length))

    @property
    def node_pool(self) -> str:
        """The pool the machine belongs to, or nothing."""
        return self.labels.get(keys.NODEPOOL, "")

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The labels of the Node once it is registered, before that of the NodeClaim."""
        return self._speaker.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the same object as the labels."""
        return self._speaker.metadata.annotations

    @cached_property
    def awaits_pods(self) -> bool:
        """Whether the Node is kept from the scheduler until planned pods have been bound to it."""
        return (
            self.is_managed
            and self.node is not None
            and any(matches(taint, AWAITS_PODS) for taint in self.node.spec.taints)
        )

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """The taints that stay, without those of a machine that starts or awaits pods."""
        claim = self.node_claim
        if claim is None:
            return self.node.spec.taints if self.node else ()
        if not self.is_registered:
            held = claim.spec.taints
        else:
            held = self.node.spec.taints if self.node else ()
        if self.awaits_pods:
            held = tuple(taint for taint in held if not matches(taint, AWAITS_PODS))
        if self.is_initialized and not self.is_rebooting:
            return held
        return tuple(taint for taint in held if not self._passes_by(taint, claim))

    @cached_property
    def capacity(self) -> Resources:
        """The capacity that the Node reports, or the NodeClaim before it does."""
        return self._size(
            self.node.status.capacity if self.node else {},
            self.node_claim.status.capacity if self.node_claim else {},
        )

    @cached_property
    def allocatable(self) -> Resources:
        """The allocatable that the Node reports, or the NodeClaim before it does."""
        return self._size(
            self.node.status.allocatable if self.node else {},
            self.node_claim.status.allocatable if self.node_claim else {},
        )

    @cached_property
    def requested(self) -> Resources:
        """The requests of the pods on the machine."""
        return total(pod_requests(pod) for pod in self.pods)

    @cached_property
    def requested_by_daemons(self) -> Resources:
        """The requests of the daemons on the machine."""
        return total(pod_requests(pod) for pod in self.pods if is_daemon(pod))

    @cached_property
    def annotated_pods(self) -> tuple[Pod, ...]:
        """The pods with an annotation that keeps them where they are, for a while or for good."""
        return tuple(pod for pod in self.pods if keys.DO_NOT_DISRUPT in pod.metadata.annotations)

    @cached_property
    def mounting_pods(self) -> tuple[Pod, ...]:
        """The pods that mount claims of volumes."""
        return tuple(pod for pod in self.pods if mounts_claims(pod))

    @property
    def _speaker(self) -> Node | NodeClaim:
        if self.node is not None and self.is_registered:
            return self.node
        assert self.node_claim is not None
        return self.node_claim

    def _size(
        self, real: Mapping[str, str | int | float], promised: Mapping[str, str | int | float]
    ) -> Resources:
        has = Resources.from_wire(real)
        if self.is_initialized:
            return has
        return Resources.of(dict(Resources.from_wire(promised).items()) | dict(has.items()))

    def _passes_by(self, taint: Taint, claim: NodeClaim) -> bool:
        if is_known_ephemeral(taint) or any(matches(taint, t) for t in claim.spec.startup_taints):
            return True
        return self.is_rebooting and matches(taint, REBOOTING_TAINT)

    def _node_has(self, label: str) -> bool:
        return self.node is not None and self.node.metadata.labels.get(label) == _TRUE

    def _claim_condition(self, kind: str) -> str:
        if self.node_claim is None:
            return ""
        for condition in self.node_claim.status.conditions:
            if condition.type == kind:
                return condition.status
        return ""


def nomination_window(batch_max: timedelta = _DEFAULT_BATCH) -> timedelta:
    """How long a nomination holds."""
    return max(2 * batch_max, _SHORTEST_NOMINATION)
