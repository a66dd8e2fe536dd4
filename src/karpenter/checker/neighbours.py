"""Required pod affinity and anti-affinity, checked on the final placement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from karpenter.api.pods import Pod, PodAffinityTerm
from karpenter.checker.inputs import Rule, Violation, pod_name
from karpenter.checker.labels import about, node_alternatives, selected, stable
from karpenter.checker.places import Place

Namespaces = Mapping[str, Mapping[str, str]]  # name -> labels


@dataclass(frozen=True, eq=False)
class Standing:
    """A pod and where it is."""

    pod: Pod
    place: Place
    is_bound: bool  # it was there before the plan

    @property
    def is_leaving(self) -> bool:
        """Whether it is terminating."""
        return self.is_bound and self.pod.metadata.deletion_timestamp is not None


def standings(places: Sequence[Place]) -> list[Standing]:
    """Every pod with its place, bound or planned."""
    return [
        Standing(pod, place, is_bound)
        for place in places
        for pods, is_bound in ((place.bound, True), (place.placed, False))
        for pod in pods
        if not (is_bound and pod.status.phase in ("Succeeded", "Failed"))
    ]


def required_terms(pod: Pod, *, apart: bool) -> Sequence[PodAffinityTerm]:
    """A pod's required anti-affinity or affinity terms."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    stated = affinity.pod_anti_affinity if apart else affinity.pod_affinity
    return stated.required if stated is not None else ()


def means(term: PodAffinityTerm, owner: Pod, other: Pod, namespaces: Namespaces) -> bool:
    """Whether a term of one pod selects another pod."""
    own = owner.metadata.namespace or "default"
    where = other.metadata.namespace or "default"
    chooser = term.namespace_selector
    if chooser is None:
        in_scope = where in (term.namespaces or (own,))
    else:
        in_scope = where in term.namespaces or (
            selected(chooser, namespaces.get(where, {}))
            and (where in namespaces or not (chooser.match_labels or chooser.match_expressions))
        )
    return (
        in_scope
        and selected(term.label_selector, other.metadata.labels)
        and _own_values_agree(term, owner.metadata.labels, other.metadata.labels)
    )


def _own_values_agree(
    term: PodAffinityTerm, own: Mapping[str, str], theirs: Mapping[str, str]
) -> bool:
    return all(own[key] == theirs.get(key) for key in term.match_label_keys if key in own) and all(
        own[key] != theirs.get(key) for key in term.mismatch_label_keys if key in own
    )


def anti_affinity_violations(
    everyone: Sequence[Standing], namespaces: Namespaces
) -> Iterator[Violation]:
    """Yield the pods that are, or may be, in a domain that an anti-affinity term excludes."""
    for owner in everyone:
        for term in required_terms(owner.pod, apart=True):
            key = stable(term.topology_key)
            for other in everyone:
                if owner is other or (owner.is_bound and other.is_bound) or other.is_leaving:
                    continue
                if means(term, owner.pod, other.pod, namespaces) and _may_meet(
                    owner.place, other.place, key
                ):
                    detail = f"may share {key} with {pod_name(other.pod)}"
                    yield Violation(Rule.ANTI_AFFINITY, pod_name(owner.pod), detail)


def affinity_violations(
    everyone: Sequence[Standing], namespaces: Namespaces
) -> Iterator[Violation]:
    """Yield the placed pods that are not in one domain with a pod their affinity requires."""
    for owner in everyone:
        if owner.is_bound:
            continue
        for term in required_terms(owner.pod, apart=False):
            problem = _affinity_problem(owner, term, everyone, namespaces)
            if problem:
                yield Violation(Rule.AFFINITY, pod_name(owner.pod), problem)


def _affinity_problem(
    owner: Standing, term: PodAffinityTerm, everyone: Sequence[Standing], namespaces: Namespaces
) -> str:
    key = stable(term.topology_key)
    domains = owner.place.values(key)
    if not domains:
        return f"its node has no {key}"
    meant = [
        other
        for other in everyone
        if other is not owner
        and not other.is_leaving
        and means(term, owner.pod, other.pod, namespaces)
    ]
    alone_in = [
        domain
        for domain in domains
        if not any(
            other.place is owner.place or other.place.values(key) == {domain} for other in meant
        )
    ]
    if not alone_in:
        return ""
    if not means(term, owner.pod, owner.pod, namespaces):
        return f"no pod it must be with is in {key} {', '.join(sorted(alone_in))}"
    return _bootstrap_problem(owner, key, meant)


def _bootstrap_problem(owner: Standing, key: str, meant: Sequence[Standing]) -> str:
    """A pod that selects itself may be the first in a domain, but only if it can join no other."""
    alternatives = node_alternatives(owner.pod.spec)
    for other in meant:
        if other.place is owner.place:
            continue
        reachable = [
            domain
            for domain in other.place.values(key)
            if all(one.allows(domain) for asked in alternatives for one in about(key, asked))
        ]
        if other.is_bound and reachable:
            return f"it starts anew although {pod_name(other.pod)} is in {key} {reachable[0]}"
        is_twin = len(alternatives) == 1 and alike(owner.pod, other.pod)
        may_have_joined = any(
            not alike(owner.pod, third.pod) and _may_meet(third.place, other.place, key)
            for third in meant
        )
        apart = not (owner.place.values(key) & other.place.values(key))
        if is_twin and apart and not may_have_joined:
            return f"it and its like {pod_name(other.pod)} both start anew in {key}"
    return ""


def alike(left: Pod, right: Pod) -> bool:
    """Whether two pods are equivalent for placement and for topology counts."""
    return (
        (left.metadata.namespace or "default") == (right.metadata.namespace or "default")
        and left.metadata.labels == right.metadata.labels
        and left.spec.node_selector == right.spec.node_selector
        and left.spec.affinity == right.spec.affinity
        and left.spec.tolerations == right.spec.tolerations
        and left.spec.topology_spread_constraints == right.spec.topology_spread_constraints
    )


def _may_meet(left: Place, right: Place, key: str) -> bool:
    if left is right:
        return bool(left.values(key))
    return bool(left.values(key) & right.values(key))
