"""Pods as the scheduler sees them.

A cluster has thousands of pods and a few dozen kinds of them. Everything a pod says about its
placement is read once into a ``Shape``, which all pods that say the same share; a ``PodInfo`` is
one pod with its shape and the few facts that are its own.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter_sandbox.matching import (
    NodeTerm,
    Requirement,
    Selector,
    Toleration,
    read_node_term,
    read_node_terms,
    read_selector,
    read_tolerations,
)
from karpenter_sandbox.scheduling.requests import Requests, pod_requests

Labels = Mapping[str, str]
Port = tuple[str, str, int]  # address, protocol, number

DEFAULT_SCHEDULER: Final = "default-scheduler"
TERMINAL_PHASES: Final = ("Succeeded", "Failed")
_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 what a port without an address means, nothing listens
_SHAPING_FIELDS: Final = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
)
_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A pod (anti-)affinity term: a selector, its namespaces, and a topology key."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector

    def covers(self, namespace: str, labels: Labels, namespace_labels: Labels) -> bool:
        """Whether the term means a pod with ``labels`` in a namespace with those labels."""
        return self.selector.matches(labels) and (
            namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        )


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One topology spread constraint."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honours_affinity: bool = True
    honours_taints: bool = False


@dataclass(frozen=True, slots=True)
class Weighted:
    """A preference: a term and how much it counts, negative when it pushes away."""

    weight: int
    term: AffinityTerm


@dataclass(eq=False, slots=True)
class Shape:
    """What a pod asks of its node, shared by all pods that ask the same."""

    signature: tuple[object, ...]
    placement: Hashable  # equal for shapes that ask the same of a node, whatever their namespace
    namespace: str
    requests: Requests
    ports: tuple[Port, ...]
    tolerations: tuple[Toleration, ...]
    node_selector: tuple[Requirement, ...]
    node_terms: tuple[NodeTerm, ...] | None
    pinned: frozenset[str] | None  # the only nodes it may go to, taken out of the terms
    preferred_nodes: tuple[tuple[int, NodeTerm], ...]
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    preferences: tuple[Weighted, ...]
    hard_spread: tuple[SpreadConstraint, ...]
    soft_spread: tuple[SpreadConstraint, ...]
    has_spread: bool
    priority: int
    may_preempt: bool


@dataclass(eq=False, slots=True)
class PodInfo:
    """One pod: its shape and what is its own."""

    key: tuple[str, str]
    uid: str
    shape: Shape
    labels: Labels
    node_name: str
    nominated: str
    created: str
    started: str
    is_terminating: bool
    claims: tuple[str, ...]
    owner: str  # uid of the controller, or ""
    obj: JsonObject

    @property
    def name(self) -> str:
        """Namespace and name in one text."""
        return "/".join(self.key)


def is_terminal(pod: JsonObject) -> bool:
    """Whether a pod has ended and takes nothing from its node any more."""
    return (pod.get("status") or {}).get("phase") in TERMINAL_PHASES


class Shapes:
    """Reads pods, each shape once."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[object, ...], Shape] = {}

    def read(self, pod: JsonObject) -> PodInfo:
        """Read what the scheduler needs to know of a pod."""
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        labels = metadata.get("labels") or {}
        namespace = metadata.get("namespace", "")
        return PodInfo(
            key=(namespace, metadata["name"]),
            uid=metadata.get("uid", ""),
            shape=self._shape(namespace, labels, spec),
            labels=labels,
            node_name=spec.get("nodeName") or "",
            nominated=status.get("nominatedNodeName") or "",
            created=metadata.get("creationTimestamp") or "",
            started=status.get("startTime") or "",
            is_terminating="deletionTimestamp" in metadata,
            claims=_claims(metadata["name"], spec),
            owner=_controller_uid(metadata),
            obj=pod,
        )

    def prune(self, used: Iterable[Shape]) -> None:
        """Forget the shapes that no pod has any more."""
        self._shapes = {shape.signature: shape for shape in used}

    def __len__(self) -> int:
        """How many shapes are known."""
        return len(self._shapes)

    def _shape(self, namespace: str, labels: Labels, spec: JsonObject) -> Shape:
        signature = (namespace, _encoder.encode(_shaping(spec)), *_referenced(spec, labels))
        shape = self._shapes.get(signature)
        if shape is None:
            shape = self._shapes[signature] = _read_shape(signature, namespace, labels, spec)
        return shape


def _shaping(spec: JsonObject) -> list[object]:
    return [
        *(spec.get(name) for name in _SHAPING_FIELDS),
        _shaping_containers(spec.get("containers")),
        _shaping_containers(spec.get("initContainers")),
    ]


def _shaping_containers(containers: list[JsonObject] | None) -> list[tuple[object, ...]]:
    return [
        (container.get("resources"), container.get("ports"), container.get("restartPolicy"))
        for container in containers or ()
    ]


def _referenced(spec: JsonObject, labels: Labels) -> list[str | None]:
    """The pod's own labels that its constraints refer to by key alone."""
    values: list[str | None] = []
    for constraint in spec.get("topologySpreadConstraints") or ():
        values.extend(labels.get(key) for key in constraint.get("matchLabelKeys") or ())
    if not spec.get("affinity"):
        return values
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = spec["affinity"].get(kind) or {}
        for _, term in _weighted_terms(rules):
            for field in ("matchLabelKeys", "mismatchLabelKeys"):
                values.extend(labels.get(key) for key in term.get(field) or ())
    return values


def _weighted_terms(rules: JsonObject) -> list[tuple[int, JsonObject]]:
    """All terms of a rule, those that are required with weight 0."""
    required = rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return [(0, term) for term in required] + [
        (preference.get("weight") or 0, preference.get("podAffinityTerm") or {})
        for preference in preferred
    ]


def _read_shape(
    signature: tuple[object, ...], namespace: str, labels: Labels, spec: JsonObject
) -> Shape:
    affinity = spec.get("affinity") or {}
    nodes = affinity.get("nodeAffinity") or {}
    near = _read_terms(affinity.get("podAffinity") or {}, namespace, labels)
    far = _read_terms(affinity.get("podAntiAffinity") or {}, namespace, labels)
    preferences = [preference for preference in near if preference.weight]
    preferences += [
        Weighted(-preference.weight, preference.term) for preference in far if preference.weight
    ]
    terms, pinned = _unpin(
        read_node_terms(nodes.get("requiredDuringSchedulingIgnoredDuringExecution"))
    )
    constraints = spec.get("topologySpreadConstraints") or ()
    shape = Shape(
        signature=signature,
        placement=None,
        namespace=namespace,
        requests=pod_requests(spec),
        ports=_ports(spec),
        tolerations=read_tolerations(spec.get("tolerations")),
        node_selector=tuple(
            Requirement(key, "In", (value,))
            for key, value in (spec.get("nodeSelector") or {}).items()
        ),
        node_terms=terms,
        pinned=pinned,
        preferred_nodes=tuple(
            (preference["weight"], read_node_term(preference.get("preference") or {}))
            for preference in nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ),
        affinity=tuple(preference.term for preference in near if not preference.weight),
        anti_affinity=tuple(preference.term for preference in far if not preference.weight),
        preferences=tuple(preferences),
        hard_spread=_read_spread(constraints, labels, "DoNotSchedule"),
        soft_spread=_read_spread(constraints, labels, "ScheduleAnyway"),
        has_spread=bool(constraints),
        priority=spec.get("priority") or 0,
        may_preempt=spec.get("preemptionPolicy") != "Never",
    )
    shape.placement = (
        *(shape.requests, shape.ports, shape.tolerations, shape.node_selector, shape.node_terms),
        *(shape.preferred_nodes, shape.affinity, shape.anti_affinity, shape.preferences),
        *(shape.hard_spread, shape.soft_spread, shape.has_spread, shape.priority),
        namespace if shape.has_spread else "",
    )
    return shape


def _unpin(
    terms: tuple[NodeTerm, ...] | None,
) -> tuple[tuple[NodeTerm, ...] | None, frozenset[str] | None]:
    """Split off the node names: without them the pods of a DaemonSet are alike."""
    if not terms or len({term.expressions for term in terms}) > 1:
        return terms, None
    names: frozenset[str] = frozenset()
    for term in terms:
        pinned = term.pinned_names
        if pinned is None:
            return terms, None
        names |= pinned
    expressions = terms[0].expressions
    return ((NodeTerm(expressions, ()),) if expressions else None), names


def _read_terms(rules: JsonObject, namespace: str, labels: Labels) -> list[Weighted]:
    return [
        Weighted(weight, _read_term(term, namespace, labels))
        for weight, term in _weighted_terms(rules)
    ]


def _read_term(term: JsonObject, namespace: str, labels: Labels) -> AffinityTerm:
    selector = read_selector(term.get("labelSelector"))
    selector = selector.narrowed(
        [
            *_own_values(term.get("matchLabelKeys"), labels, "In"),
            *_own_values(term.get("mismatchLabelKeys"), labels, "NotIn"),
        ]
    )
    namespaces = frozenset(term.get("namespaces") or ())
    if not namespaces and term.get("namespaceSelector") is None:
        namespaces = frozenset({namespace})
    return AffinityTerm(
        topology_key=term.get("topologyKey") or "",
        selector=selector,
        namespaces=namespaces,
        namespace_selector=read_selector(term.get("namespaceSelector")),
    )


def _read_spread(
    constraints: Iterable[JsonObject], labels: Labels, action: str
) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(
            topology_key=constraint["topologyKey"],
            max_skew=constraint["maxSkew"],
            min_domains=constraint.get("minDomains") or 1,
            selector=read_selector(constraint.get("labelSelector")).narrowed(
                _own_values(constraint.get("matchLabelKeys"), labels, "In")
            ),
            honours_affinity=constraint.get("nodeAffinityPolicy") != "Ignore",
            honours_taints=constraint.get("nodeTaintsPolicy") == "Honor",
        )
        for constraint in constraints
        if constraint.get("whenUnsatisfiable") == action
    )


def _own_values(keys: list[str] | None, labels: Labels, operator: str) -> list[Requirement]:
    return [Requirement(key, operator, (labels[key],)) for key in keys or () if key in labels]


def _ports(spec: JsonObject) -> tuple[Port, ...]:
    containers = [*(spec.get("containers") or ())]
    containers += [c for c in spec.get("initContainers") or () if c.get("restartPolicy")]
    return tuple(
        (port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _claims(pod_name: str, spec: JsonObject) -> tuple[str, ...]:
    names = []
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            names.append(claim["claimName"])
        elif volume.get("ephemeral"):
            names.append(f"{pod_name}-{volume['name']}")
    return tuple(names)


def _controller_uid(metadata: JsonObject) -> str:
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            uid: str = reference["uid"]
            return uid
    return ""
