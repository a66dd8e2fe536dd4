"""Daemons: the pods that DaemonSets run on every matching node, and the room they take.

A DaemonSet is represented by the newest pod it controls, since that one has the changes of
admission webhooks; without any, by its template with limits in place of missing requests.
Preferences and pod affinity do not keep a daemon from a node, so they are ignored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from karpenter.api.nodes import Taint
from karpenter.api.pods import Pod, PodSpec, Toleration
from karpenter.api.workloads import DaemonSet
from karpenter.model.quantity import QuantityError
from karpenter.model.requirements import Requirements
from karpenter.model.resources import NO_RESOURCES, Resources
from karpenter.model.taints import first_untolerated
from karpenter.scheduling.compiled.host_ports import HostPort, host_ports
from karpenter.scheduling.compiled.node_requirements import selector_demands, with_terms
from karpenter.state.nodes import StateNode
from karpenter.state.requests import pod_requests, with_limits_as_requests


@dataclass(frozen=True, slots=True)
class Daemon:
    """One DaemonSet, as far as a node is concerned."""

    name: str
    requests: Resources
    tolerations: tuple[Toleration, ...]
    terms: tuple[Requirements, ...]  # alternatives; one without demands when there are none
    ports: tuple[HostPort, ...]

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """Whether the daemon would run despite these taints."""
        return first_untolerated(taints, self.tolerations, ignore_preferences=True) is None


def daemons_of(
    sets: Iterable[DaemonSet], pods: Iterable[Pod], *, ignore_device_claims: bool
) -> list[Daemon]:
    """Represent each DaemonSet, sorted by name."""
    newest: dict[str, Pod] = {}  # uid of the DaemonSet -> its newest pod
    for pod in pods:
        owner = next((o for o in pod.metadata.owner_references if o.controller), None)
        if owner is None or owner.kind != "DaemonSet":
            continue
        known = newest.get(owner.uid)
        if known is None or _age_key(pod) > _age_key(known):
            newest[owner.uid] = pod
    found = []
    for daemon_set in sorted(sets, key=lambda s: (s.metadata.namespace, s.metadata.name)):
        template = daemon_set.spec.template.spec
        if ignore_device_claims and template.resource_claims:
            continue
        try:
            found.append(_represented(daemon_set, template, newest.get(daemon_set.metadata.uid)))
        except QuantityError:
            continue  # the API server refuses pods with invalid amounts, so no room is reserved
    return found


def daemon_terms_met(
    daemon: Daemon, node: Requirements, allow_undefined: frozenset[str] = frozenset()
) -> bool:
    """Whether a node with these requirements satisfies one of the daemon's alternatives."""
    return any(node.is_compatible(term, allow_undefined) for term in daemon.terms)


def node_terms(spec: PodSpec) -> tuple[Requirements, ...]:
    """A pod's alternative demands on its node: its selector with each required term."""
    selector = selector_demands(spec.node_selector)
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or affinity.required is None:
        return (selector,)
    return tuple(
        with_terms(selector, (term,)) for term in affinity.required.node_selector_terms
    ) or (selector,)


def reserve_on(node: StateNode, labels: Requirements, daemons: Sequence[Daemon]) -> Resources:
    """The room on a node that daemons will still take, beyond those that run there already."""
    expected = NO_RESOURCES
    for daemon in daemons:
        if daemon.tolerates(node.taints) and daemon_terms_met(daemon, labels):
            expected += daemon.requests
    if not expected:
        return expected
    return (expected - node.requested_by_daemons).highest(NO_RESOURCES)


def _represented(daemon_set: DaemonSet, template: PodSpec, newest: Pod | None) -> Daemon:
    affinity = template.affinity.node_affinity if template.affinity else None
    # the DaemonSet controller adds its node's affinity to each pod, so the template's is used
    chosen = template if newest is None or (affinity and affinity.required) else newest.spec
    spec = newest.spec if newest is not None else template
    terms = node_terms(chosen) if chosen is template else (selector_demands(spec.node_selector),)
    return Daemon(
        name=f"{daemon_set.metadata.namespace}/{daemon_set.metadata.name}",
        requests=pod_requests(newest) if newest else with_limits_as_requests(template),
        tolerations=spec.tolerations,
        terms=terms,
        ports=host_ports(spec),
    )


def _age_key(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, pod.metadata.name)
