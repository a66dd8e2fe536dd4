"""Topology groups: the rules of spread constraints, pod affinity and anti-affinity.

A group is one spread constraint or one (anti-)affinity term, without the pod that states it: the
label whose values are the domains, and which pods are counted. Pods with the same rule share one
group and its counts. A required anti-affinity term makes a second, inverse group that binds the
pods the term selects.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from karpenter.api.nodes import Taint
from karpenter.api.pods import Pod, PodAffinityTerm, Toleration, TopologySpreadConstraint
from karpenter.api.selectors import LabelSelector
from karpenter.model.labels import NAMESPACE_NAME, normalise
from karpenter.model.requirements import Requirements
from karpenter.model.selectors import selects, with_values
from karpenter.model.taints import first_untolerated

Namespaces: TypeAlias = frozenset[str] | None  # None means all of them

# Required spread and (anti-)affinity of one pod. Each is counted for every pod of the cluster and
# cannot be given up; the bound is far above ordinary manifests
MOST_RULES: Final = 256

_canonical: Final = msgspec.json.Encoder(order="deterministic")


class GroupKind(Enum):
    """Which kind of rule a group is."""

    SPREAD = "topology spread"
    AFFINITY = "pod affinity"
    ANTI_AFFINITY = "pod anti-affinity"
    INVERSE = "anti-affinity of other pods"


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """Which nodes a spread constraint counts."""

    terms: tuple[Requirements, ...] = ()  # alternatives; none means every node
    tolerations: tuple[Toleration, ...] | None = None  # None means taints do not matter

    def admits(self, node: Requirements, taints: Iterable[Taint]) -> bool:
        """Whether a node (or claim) with these requirements and taints counts."""
        if self.tolerations is not None and first_untolerated(taints, self.tolerations):
            return False
        return not self.terms or any(node.is_compatible(term) for term in self.terms)


EVERY_NODE: Final = NodeFilter()


@dataclass(frozen=True, slots=True)
class Group:
    """One rule; equal rules are one group."""

    kind: GroupKind
    key: str  # the label whose values are the domains
    namespaces: Namespaces
    selector_text: bytes  # the selector in canonical form, for comparison
    selector: LabelSelector | None = field(compare=False)
    max_skew: int = 0
    min_domains: int = 0
    node_filter: NodeFilter = EVERY_NODE
    tolerations: tuple[Toleration, ...] | None = None  # of the pods whose pools' domains count

    @property
    def rank(self) -> tuple[str, bytes, list[str]]:
        """The sort key of inverse groups, independent of the order of the input."""
        return self.key, self.selector_text, sorted(self.namespaces or ("*",))

    def counts(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is one of those the group counts."""
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return selects(self.selector, labels)


@dataclass(frozen=True)
class NamespaceDirectory:
    """The namespaces of a cluster, with their labels, for terms that select namespaces.

    Every namespace has its name as a label. Manifests often omit namespaces, so those of pods count
    as well.
    """

    labels: Mapping[str, Mapping[str, str]]
    pods: Collection[str] = ()  # "namespace/name" of every pod

    def meant_by(self, term: PodAffinityTerm, own: str) -> Namespaces:
        """The namespaces that an affinity term of a pod in namespace ``own`` selects."""
        if term.namespace_selector is None:
            return frozenset(term.namespaces) or frozenset({own})
        if not (term.namespace_selector.match_labels or term.namespace_selector.match_expressions):
            return None
        selected = {
            name for name, labels in self._known.items() if selects(term.namespace_selector, labels)
        }
        return frozenset(selected | set(term.namespaces))

    @cached_property
    def _known(self) -> Mapping[str, Mapping[str, str]]:
        inhabited = {pod.partition("/")[0] for pod in self.pods}
        return {
            name: {NAMESPACE_NAME: name, **self.labels.get(name, {})}
            for name in inhabited | self.labels.keys()
        }


def spread_group(
    pod: Pod,
    constraint: TopologySpreadConstraint,
    terms: tuple[Requirements, ...],
    tolerations: tuple[Toleration, ...],
) -> Group:
    """The group of a pod's spread constraint; ``terms`` are its ways to choose nodes."""
    labels = pod.metadata.labels
    revisions = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    selector = constraint.label_selector
    if revisions and selector is not None:
        selector = with_values(selector, revisions)
    honoured = tolerations if constraint.node_taints_policy == "Honor" else None
    looked_at = terms if constraint.node_affinity_policy != "Ignore" else ()
    return Group(
        GroupKind.SPREAD,
        normalise(constraint.topology_key),
        frozenset({pod.metadata.namespace}),
        _text(selector),
        selector,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains or 0,
        node_filter=NodeFilter(looked_at, honoured)
        if looked_at or honoured is not None
        else EVERY_NODE,
        tolerations=honoured,
    )


def affinity_group(
    pod: Pod,
    term: PodAffinityTerm,
    kind: GroupKind,
    directory: NamespaceDirectory,
    tolerations: tuple[Toleration, ...] | None,
) -> Group:
    """The group of a pod's affinity or anti-affinity term."""
    selector = _with_own_values(term, pod.metadata.labels)
    return Group(
        kind,
        normalise(term.topology_key),
        directory.meant_by(term, pod.metadata.namespace),
        _text(selector),
        selector,
        tolerations=tolerations,
    )


def inverse_groups(pod: Pod, directory: NamespaceDirectory) -> Sequence[Group]:
    """The groups by which a pod's required anti-affinity binds other pods.

    Terms of a running pod beyond ``MOST_RULES`` are ignored: each costs work for every pod of the
    cluster.
    """
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return ()
    return [
        affinity_group(pod, term, GroupKind.INVERSE, directory, None)
        for term in affinity.pod_anti_affinity.required[:MOST_RULES]
    ]


def _with_own_values(term: PodAffinityTerm, labels: Mapping[str, str]) -> LabelSelector | None:
    """The selector of a term, narrowed by the pod's own values of the labels that it names.

    The API server does the same when it stores a pod; the operation is idempotent.
    """
    selector = term.label_selector
    if selector is None or not (term.match_label_keys or term.mismatch_label_keys):
        return selector
    same = {key: labels[key] for key in term.match_label_keys if key in labels}
    other = {key: labels[key] for key in term.mismatch_label_keys if key in labels}
    return with_values(selector, same, without=other)


def _text(selector: LabelSelector | None) -> bytes:
    if selector is not None and len(selector.match_expressions) > 1:
        ordered = sorted(selector.match_expressions, key=_canonical.encode)
        selector = msgspec.structs.replace(selector, match_expressions=tuple(ordered))
    return _canonical.encode(selector)
