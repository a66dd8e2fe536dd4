"""What kube-scheduler's rules say about pods and machines, before any pod is placed.

Notation
    place     a machine that will be there, by number
    kind      pods that are alike to the scheduler
    tally     how many pods of those that one rule is about are in each domain of its topology key
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import msgspec

from karpenter.api.nodes import Taint
from karpenter.api.pods import Container, Pod, PodAffinityTerm, Toleration, TopologySpreadConstraint
from karpenter.api.selectors import NodeSelectorTerm
from karpenter.model.labels import HOSTNAME, normalise
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, MEMORY, NO_RESOURCES, Resources
from karpenter.model.selectors import selects
from karpenter.model.taints import PREFER_NO_SCHEDULE, first_untolerated
from karpenter.scheduling.compiled.fingerprints import fingerprint
from karpenter.scheduling.compiled.host_ports import HostPort, host_ports
from karpenter.scheduling.compiled.node_requirements import selector_demands, with_terms
from karpenter.scheduling.compiled.pod_classes import class_key
from karpenter.scheduling.compiled.topology_groups import (
    Group,
    GroupKind,
    NamespaceDirectory,
    affinity_group,
    spread_group,
)
from karpenter.state.pods import is_active, key_of
from karpenter.state.requests import pod_requests, template_requests

_REQUIRED_AFFINITY: Final = 1  # how much a pod is drawn to pods that require its company
# What a container without requests counts as, for scores alone
_ASSUMED: Final = {CPU: "100m", MEMORY: "200Mi"}


@dataclass(frozen=True, slots=True)
class Place:
    """A machine that will be there, with the pods that stay on it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Resources
    pods: tuple[Pod, ...] = ()
    requested: Resources = NO_RESOURCES  # by these pods
    reserved: Resources = NO_RESOURCES  # for daemons that are still to come
    is_unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class SpreadRules:
    """The spread constraints of a pod, its own or those that the scheduler gives it."""

    constraints: tuple[TopologySpreadConstraint, ...] = ()
    needs_labels: bool = True  # only nodes with all topology keys count


def _own_spread(pod: Pod) -> SpreadRules:
    return SpreadRules(pod.spec.topology_spread_constraints)


def _no_volumes(pod: Pod) -> Sequence[Requirements]:
    return ()


NEAR: Final = "near"
FAR: Final = "far"
WISH: Final = "wish"


@dataclass(frozen=True, slots=True)
class HeldTerm:
    """An affinity term of a pod, and how much it weighs with others."""

    role: str
    weight: int
    group: Group


@dataclass(slots=True, eq=False)
class Tally:
    """What one rule counts: pods per domain, of the domains of places that count."""

    domain_of: list[str | None]  # place -> its domain; None where it has none, or does not count
    times: Callable[[Pod], int]  # how often a pod is counted
    is_host: bool = False


@dataclass(slots=True, eq=False)
class Spread:
    tally: int
    max_skew: int
    min_domains: int
    counts_itself: bool


@dataclass(frozen=True)
class Load:
    """What a pod takes of a machine; few loads are in use."""

    amounts: tuple[tuple[str, int], ...]  # its requests
    weighed_amounts: tuple[tuple[str, int], ...]  # with one assumed where a container has none
    ports: tuple[HostPort, ...]

    @classmethod
    def of(cls, pod: Pod) -> "Load":
        """Read what a pod takes."""
        needs, counted = pod_requests(pod), weighed(pod)
        return cls(tuple(needs.items()), tuple(counted.items()), host_ports(pod.spec))

    @cached_property
    def needs(self) -> Resources:
        """Its requests."""
        return Resources.of(dict(self.amounts))

    @cached_property
    def weighed(self) -> Resources:
        """The requests that scores count."""
        return Resources.of(dict(self.weighed_amounts))


@dataclass(slots=True, eq=False)
class Kind:
    """Pods that are alike, and what holds for them whichever pods are where."""

    pod: Pod
    load: "Load"
    open: list[int]  # places that suit it but for room and other pods
    discouraging: list[int]  # place -> PreferNoSchedule taints it does not tolerate
    wishes: list[int]  # place -> weight of the preferred node affinity it fulfils
    hard: tuple[Spread, ...] = ()
    soft: tuple[Spread, ...] = ()
    soft_needs_labels: bool = True
    near: tuple[int, ...] = ()  # tallies of what it must be near to
    is_near_itself: bool = False
    far: tuple[int, ...] = ()  # tallies of what it must be away from
    drawn: tuple[tuple[int, int], ...] = ()  # tallies with their weights
    counted: tuple[tuple[int, int], ...] = ()  # tallies, with how often they count such a pod


class SchedulerRules:
    """Machines, the pods that stay on them and the pods to place, with the rules of all of them."""

    def __init__(
        self,
        places: Iterable[Place],
        pods: Sequence[Pod],
        *,
        spread_of: Callable[[Pod], SpreadRules] = _own_spread,
        volumes_of: Callable[[Pod], Sequence[Requirements]] = _no_volumes,
        namespaces: NamespaceDirectory | None = None,
    ) -> None:
        """Read the rules.

        Args:
            pods: those to place; their order does not matter here.
            spread_of: the spread constraints that hold for a pod.
            volumes_of: where a pod's volumes are, as alternatives; none means anywhere.
            namespaces: the namespaces of the cluster, for terms that select them.
        """
        self.places: Final = sorted(places, key=lambda place: place.name)
        self.tallies: Final[list[Tally]] = []
        self._spread_of = spread_of
        self._volumes_of = volumes_of
        self._namespaces = namespaces or NamespaceDirectory({})
        self._labels = [
            Requirements.from_labels({HOSTNAME: place.name, **place.labels})
            for place in self.places
        ]
        self._kinds: dict[bytes, Kind] = {}
        # Kinds ask the same of labels and taints over and over
        self._matching: dict[tuple[Requirements, ...], list[bool]] = {}
        self._tolerated: dict[tuple[Toleration, ...], tuple[list[bool], list[int]]] = {}
        self._domains: dict[str, list[str | None]] = {}  # topology key -> domain of each place
        self._known_tallies: dict[Hashable, int] = {}
        self._staying: dict[bytes, tuple[Pod, dict[int, int]]] = {}  # -> place -> pods
        for number, place in enumerate(self.places):
            for pod in place.pods:
                if is_active(pod):
                    _, where = self._staying.setdefault(_counting_key(pod), (pod, {}))
                    where[number] = where.get(number, 0) + 1
        held = self._terms_held(pods)
        self.kind_of: Final = {key_of(pod): self._kind(pod, held) for pod in pods}
        for kind in self._kinds.values():
            times = [(number, tally.times(kind.pod)) for number, tally in enumerate(self.tallies)]
            kind.counted = tuple((number, count) for number, count in times if count)

    def counts_of_staying(self) -> list[dict[str, int]]:
        """For each tally, how many of the pods that stay are in each domain."""
        found = []
        for tally in self.tallies:
            counts = {domain: 0 for domain in tally.domain_of if domain is not None}
            for pod, where in self._staying.values():
                times = tally.times(pod)
                for number, pods in where.items() if times else ():
                    domain = tally.domain_of[number]
                    if domain is not None:
                        counts[domain] += times * pods
            found.append(counts)
        return found

    def _kind(self, pod: Pod, held: Sequence[HeldTerm]) -> Kind:
        rules = self._spread_of(pod)
        key = class_key(pod, rules.constraints)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self._compiled(pod, rules, held)
        return kind

    def _compiled(self, pod: Pod, rules: SpreadRules, held: Sequence[HeldTerm]) -> Kind:
        matching = self._where(_node_terms(pod))
        tolerated, discouraging = self._taints(pod)
        volumes = self._volumes_of(pod)
        attachable = self._where(volumes) if volumes else matching
        kind = Kind(
            pod=pod,
            load=Load.of(pod),
            open=[
                number
                for number, place in enumerate(self.places)
                if matching[number]
                and tolerated[number]
                and attachable[number]
                and not place.is_unschedulable
            ],
            discouraging=discouraging,
            wishes=self._wishes(pod),
            soft_needs_labels=rules.needs_labels,
        )
        for is_hard in (True, False):
            stated = [
                c for c in rules.constraints if (c.when_unsatisfiable == "DoNotSchedule") is is_hard
            ]
            needed = [normalise(c.topology_key) for c in stated]
            if not is_hard and not rules.needs_labels:
                needed = []
            spreads = tuple(
                self._spread(pod, constraint, needed, matching, tolerated) for constraint in stated
            )
            if is_hard:
                kind.hard = spreads
            else:
                kind.soft = spreads
        self._add_affinity(kind, held)
        return kind

    def _where(self, alternatives: Sequence[Requirements]) -> list[bool]:
        """The places that meet one of these alternatives."""
        key = tuple(alternatives)
        found = self._matching.get(key)
        if found is None:
            found = [_matches(alternatives, labels) for labels in self._labels]
            self._matching[key] = found
        return found

    def _taints(self, pod: Pod) -> tuple[list[bool], list[int]]:
        """The places whose taints a pod tolerates, and how many of them only discourage it."""
        tolerations = pod.spec.tolerations
        found = self._tolerated.get(tolerations)
        if found is None:
            tolerated = [
                first_untolerated(place.taints, tolerations, ignore_preferences=True) is None
                for place in self.places
            ]
            found = tolerated, [_discouraging(pod, place.taints) for place in self.places]
            self._tolerated[tolerations] = found
        return found

    def _spread(
        self,
        pod: Pod,
        constraint: TopologySpreadConstraint,
        needed: Sequence[str],
        matching: Sequence[bool],
        tolerated: Sequence[bool],
    ) -> Spread:
        group = spread_group(pod, constraint, (), ())
        honours_affinity = constraint.node_affinity_policy != "Ignore"
        honours_taints = constraint.node_taints_policy == "Honor"
        counts = [
            all(labels.get(key) is not None for key in needed)
            and (is_match or not honours_affinity)
            and (is_tolerated or not honours_taints)
            for labels, is_match, is_tolerated in zip(
                self._labels, matching, tolerated, strict=True
            )
        ]
        tally = self._tally(
            ("spread", group, tuple(counts)),
            group.key,
            lambda other: int(group.counts(other.metadata.namespace, other.metadata.labels)),
            counts,
        )
        return Spread(
            tally,
            constraint.max_skew,
            constraint.min_domains or 1,
            selects(group.selector, pod.metadata.labels),
        )

    def _add_affinity(self, kind: Kind, held: Sequence[HeldTerm]) -> None:
        pod = kind.pod
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        own = _terms_of(pod, self._namespaces)
        near = [term.group for term in own if term.role == NEAR]

        def is_meant(other: Pod) -> int:
            meta = other.metadata
            return int(all(group.counts(meta.namespace, meta.labels) for group in near))

        kind.near = tuple(
            self._tally(("near", tuple(near), group.key), group.key, is_meant) for group in near
        )
        kind.is_near_itself = bool(near) and bool(is_meant(pod))
        kind.far = tuple(self._meant(term) for term in own if term.role == FAR)
        kind.drawn = tuple((self._meant(term), term.weight) for term in own if term.role == WISH)
        for term in held:
            if not term.group.counts(namespace, labels):
                continue
            tally = self._tally(("held", term), term.group.key, partial(self._states, term))
            if term.role == FAR:
                kind.far += (tally,)
            else:
                kind.drawn += ((tally, term.weight),)

    def _meant(self, term: HeldTerm) -> int:
        group = term.group
        return self._tally(
            ("meant", group),
            group.key,
            lambda other: int(group.counts(other.metadata.namespace, other.metadata.labels)),
        )

    def _states(self, term: HeldTerm, pod: Pod) -> int:
        """How often a pod states a term."""
        if pod.spec.affinity is None:
            return 0
        return _terms_of(pod, self._namespaces).count(term)

    def _tally(
        self,
        identity: Hashable,
        key: str,
        times: Callable[[Pod], int],
        counts: Sequence[bool] | None = None,
    ) -> int:
        known = self._known_tallies.get(identity)
        if known is None:
            known = self._known_tallies[identity] = len(self.tallies)
            if key not in self._domains:
                values = [labels.get(key) for labels in self._labels]
                self._domains[key] = [v.any() if v is not None else None for v in values]
            domains = self._domains[key]
            if counts is not None:
                domains = [d if c else None for d, c in zip(domains, counts, strict=True)]
            self.tallies.append(Tally(domains, times, is_host=key == HOSTNAME))
        return known

    def _terms_held(self, pods: Iterable[Pod]) -> list[HeldTerm]:
        """The affinity terms of all pods, staying or not, in a fixed order."""
        found: dict[HeldTerm, None] = {}
        seen: set[bytes] = set()
        for pod in (*(pod for pod, _ in self._staying.values()), *pods):
            if pod.spec.affinity is None or (key := _counting_key(pod)) in seen:
                continue
            seen.add(key)
            found.update(dict.fromkeys(_terms_of(pod, self._namespaces)))
        return list(found)

    def _wishes(self, pod: Pod) -> list[int]:
        affinity = pod.spec.affinity
        wanted = affinity.node_affinity.preferred if affinity and affinity.node_affinity else ()
        if not wanted:
            return [0] * len(self.places)
        terms = [(each.weight, _term(each.preference)) for each in wanted]
        return [
            sum(weight for weight, term in terms if term is not None and _matches((term,), labels))
            for labels in self._labels
        ]


def _terms_of(pod: Pod, namespaces: NamespaceDirectory) -> list[HeldTerm]:
    affinity = pod.spec.affinity
    if affinity is None:
        return []

    def group(term: PodAffinityTerm) -> Group:
        return affinity_group(pod, term, GroupKind.AFFINITY, namespaces, None)

    found: list[HeldTerm] = []
    for side, role, sign in (
        (affinity.pod_affinity, NEAR, 1),
        (affinity.pod_anti_affinity, FAR, -1),
    ):
        if side is None:
            continue
        weight = _REQUIRED_AFFINITY if role == NEAR else 0
        found += [HeldTerm(role, weight, group(term)) for term in side.required]
        found += [
            HeldTerm(WISH, sign * each.weight, group(each.pod_affinity_term))
            for each in side.preferred
        ]
    return found


def _counting_key(pod: Pod) -> bytes:
    """A key that is equal for pods that count alike in every tally."""
    affinity = pod.spec.affinity
    company = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else None
    return fingerprint((pod.metadata.namespace, pod.metadata.labels, company))


def _node_terms(pod: Pod) -> list[Requirements]:
    """The alternatives of what a pod requires of its node's labels; none is always one."""
    base = selector_demands(pod.spec.node_selector)
    affinity = pod.spec.affinity
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    if required is None:
        return [base]
    terms = [term for term in required.node_selector_terms if term.match_expressions]
    return [with_terms(base, (term,)) for term in terms]


def _term(term: NodeSelectorTerm) -> Requirements | None:
    """A preference as requirements; an empty one is never fulfilled."""
    return with_terms(Requirements(), (term,)) if term.match_expressions else None


def _matches(alternatives: Iterable[Requirements], labels: Requirements) -> bool:
    return any(labels.is_compatible(each) for each in alternatives)


def _discouraging(pod: Pod, taints: Iterable[Taint]) -> int:
    return sum(
        taint.effect == PREFER_NO_SCHEDULE
        and first_untolerated((taint,), pod.spec.tolerations) is not None
        for taint in taints
    )


def assumed(pod: Pod) -> Resources:
    """What scores count beyond the requests of a pod."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    if all(_ASSUMED.keys() <= each.resources.requests.keys() for each in containers):
        return NO_RESOURCES
    return weighed(pod) - pod_requests(pod)


def weighed(pod: Pod) -> Resources:
    """The requests of a pod as scores count them."""
    spec = pod.spec

    def with_assumptions(container: Container) -> Container:
        requests = {**_ASSUMED, **container.resources.requests}
        resources = msgspec.structs.replace(container.resources, requests=requests)
        return msgspec.structs.replace(container, resources=resources)

    return template_requests(
        msgspec.structs.replace(
            spec,
            containers=tuple(map(with_assumptions, spec.containers)),
            init_containers=tuple(map(with_assumptions, spec.init_containers)),
        )
    )
