"""Equivalence classes of pods: everything about a pod is computed once per class.

Two pods are equivalent when namespace, labels and spec agree in everything the solver reads. A
class lists its ``Stage``s, from all the pod asks for to its hard requirements; the solver tries
them in turn.
"""

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from karpenter.api.pods import Pod, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint
from karpenter.model.labels import HOSTNAME
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.compiled.effort import within_bounds
from karpenter.scheduling.compiled.fingerprints import fingerprint
from karpenter.scheduling.compiled.host_ports import HostPort, host_ports
from karpenter.scheduling.compiled.node_requirements import selector_demands, with_terms
from karpenter.scheduling.compiled.relaxation import (
    Demands,
    RelaxationOrder,
    course_of,
    demands_of,
    is_soft_spread,
    tolerating_soft_taints,
)
from karpenter.scheduling.compiled.topology_groups import (
    Group,
    GroupKind,
    NamespaceDirectory,
    affinity_group,
    inverse_groups,
    spread_group,
)
from karpenter.scheduling.packing.topology import Membership
from karpenter.scheduling.problem import PodVolumes
from karpenter.state.requests import is_resize_infeasible, pod_requests

_FEW_STAGES: Final = 8  # up to this number, stages are made eagerly: a tuple iterates faster
_ALWAYS: Final = 1 << 62  # the stage in which a demand is given up


@dataclass(slots=True, eq=False)  # not frozen: thousands are made, and that triples the cost
class Stage:
    """What a pod demands after giving up some of its preferences; compared by identity."""

    requirements: Requirements  # with the heaviest preference
    strict: Requirements  # without it
    tolerations: tuple[Toleration, ...]
    hosts: tuple[Membership, ...]  # its groups over hostnames
    domains: tuple[Membership, ...]  # its groups over other labels

    def twin(self) -> "Stage":
        """A copy with its own identity, for another class."""
        return Stage(self.requirements, self.strict, self.tolerations, self.hosts, self.domains)


class _Stages(Sequence[Stage]):
    """Stages that are made lazily: most pods are placed in one of the first."""

    __slots__ = ("_length", "_made", "_make")

    def __init__(self, length: int, make: Callable[[int], Stage]) -> None:
        self._length = length
        self._make = make
        self._made: dict[int, Stage] = {}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> Stage:  # type: ignore[override]
        number = number + self._length if number < 0 else number
        if not 0 <= number < self._length:
            raise IndexError(number)
        stage = self._made.get(number)
        if stage is None:
            stage = self._made[number] = self._make(number)
        return stage


def _all_stages(length: int, make: Callable[[int], Stage]) -> Sequence[Stage]:
    if length <= _FEW_STAGES:
        return tuple([make(number) for number in range(length)])
    return _Stages(length, make)


def _twins(stages: Sequence[Stage]) -> Sequence[Stage]:
    """Copies of stages with their own identity, for another class."""
    if isinstance(stages, tuple):
        return tuple([stage.twin() for stage in stages])
    return _Stages(len(stages), lambda number: stages[number].twin())


@dataclass(slots=True, eq=False)
class PodClass:
    """Pods that are alike; compared by identity."""

    number: int
    pod: Pod  # any one of them
    requests: Resources
    needs: tuple[tuple[str, int], ...]  # the same as pairs, without zeroes
    ports: tuple[HostPort, ...]
    volumes: PodVolumes
    stages: Sequence[Stage]  # each weaker than the one before
    counted: tuple[int, ...]  # groups that count such a pod
    repels: tuple[int, ...]  # inverse groups by which it keeps others away
    uses_devices: bool
    has_extras: bool  # ports or volumes
    is_costly: bool = False  # takes so much work that it is tried after the others


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules that classes share which differ in size alone."""

    stages: Sequence[Stage]
    counted: tuple[int, ...]
    repels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Declared:
    """What a pod demands, with the numbers of its groups."""

    demands: Demands
    course: RelaxationOrder
    groups: Sequence[tuple[int, int]]  # each with the first stage that has given it up
    tolerating: Demands  # the demands of the stage that tolerates soft taints
    groups_tolerating: Sequence[int]

    def groups_at(self, number: int) -> Iterable[int]:
        """The groups that bind the pod in the stage with that number."""
        if number == self.course.tolerating:
            return self.groups_tolerating
        return [group for group, end in self.groups if number < end]


@dataclass(frozen=True, slots=True)
class _Load:
    """The requests of a pod's containers; few sizes are in use, so loads are interned."""

    requests: Resources
    needs: tuple[tuple[str, int], ...]
    ports: tuple[HostPort, ...]
    uses_devices: bool

    @classmethod
    def of(cls, pod: Pod) -> "_Load":
        """Work out what a pod's containers ask for."""
        spec = pod.spec
        requests = pod_requests(pod)
        containers = (*spec.containers, *spec.init_containers)
        uses_devices = any(container.resources.claims for container in containers)
        return cls(requests, tuple(requests.items()), host_ports(spec), uses_devices)


def class_key(
    pod: Pod,
    spread: tuple[TopologySpreadConstraint, ...],
    claims: tuple[tuple[str, bytes], ...] = (),
) -> bytes:
    """A key that is equal for pods of one class.

    Args:
        spread: the constraints that hold for the pod.
        claims: what distinguishes its ResourceClaims from those of other pods.
    """
    status = pod.status
    resized = None
    if status.container_statuses or status.init_container_statuses:
        sizes = (status.container_statuses, status.init_container_statuses)
        resized = (sizes, is_resize_infeasible(pod))
    spec = pod.spec
    if spec.node_name:
        # a pod that has to move is of the same class wherever it is now
        spec = msgspec.structs.replace(spec, node_name="")
    own = ""
    if spec.volumes:
        # a generic ephemeral volume is a claim named after its pod, so no two such pods are alike
        own = pod.metadata.name if any(v.ephemeral for v in spec.volumes) else ""
        spec = _without_plain_volumes(spec)
    added = spread if spread is not pod.spec.topology_spread_constraints else ()
    labels = pod.metadata.labels
    return fingerprint((pod.metadata.namespace, labels, spec, resized, own, added, claims))


def _without_plain_volumes(spec: PodSpec) -> PodSpec:
    """Omit volumes without a claim: each pod's token volume has a name of its own."""
    claimed = tuple(v for v in spec.volumes if v.persistent_volume_claim or v.ephemeral)
    if len(claimed) == len(spec.volumes):
        return spec
    return msgspec.structs.replace(spec, volumes=claimed)


def constraint_key(pod: Pod, spread: tuple[TopologySpreadConstraint, ...]) -> bytes:
    """A key that is equal for pods with the same rules, whatever their size.

    Labels are part of it only where the rules refer to them.
    """
    spec = pod.spec
    return fingerprint(
        (
            pod.metadata.namespace,
            pod.metadata.labels if _speaks_of_its_labels(spec, spread) else None,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spread,
        )
    )


def _speaks_of_its_labels(spec: PodSpec, spread: tuple[TopologySpreadConstraint, ...]) -> bool:
    """Whether the pod's rules depend on the values of its own labels."""
    if any(constraint.match_label_keys for constraint in spread):
        return True
    affinity = spec.affinity
    if affinity is None:
        return False
    return any(
        term.match_label_keys or term.mismatch_label_keys
        for side in (affinity.pod_affinity, affinity.pod_anti_affinity)
        if side is not None
        for term in (*side.required, *(weighted.pod_affinity_term for weighted in side.preferred))
    )


class Groups:
    """Every topology group of a problem, numbered in the order they are first met."""

    __slots__ = ("_by_label", "_meant", "_numbers", "_without_label", "known")

    def __init__(self) -> None:
        """Begin without any."""
        self.known: list[Group] = []
        self._numbers: dict[Group, int] = {}
        # groups are indexed by the first label they select by, so few are checked
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._without_label: list[int] = []
        # labels -> (groups checked, those that count such a pod, those that bind it)
        self._meant: dict[bytes, tuple[int, tuple[int, ...], tuple[int, ...]]] = {}

    def number(self, group: Group) -> int:
        """The number of a group, which may be new."""
        found = self._numbers.get(group)
        if found is None:
            found = self._numbers[group] = len(self.known)
            self.known.append(group)
            labels = group.selector.match_labels if group.selector is not None else {}
            first = next(iter(labels.items()), None)
            listed = self._by_label.setdefault(first, []) if first else self._without_label
            listed.append(found)
        return found

    def meaning(self, pod: Pod) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The groups that count the pod, and the inverse groups that bind it."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        key = fingerprint((namespace, labels))
        met, counted, binding = self._meant.get(key, (0, (), ()))
        if met < len(self.known):
            found = [
                n for n in self._candidates(labels, met) if self.known[n].counts(namespace, labels)
            ]
            inverse = {n for n in found if self.known[n].kind is GroupKind.INVERSE}
            counted += tuple(n for n in found if n not in inverse)
            binding += tuple(n for n in found if n in inverse)
            self._meant[key] = (len(self.known), counted, binding)
        return counted, binding

    def _candidates(self, labels: Mapping[str, str], met: int) -> list[int]:
        """The groups from number ``met`` on that may select a pod with these labels."""
        lists = [self._without_label]
        lists += [self._by_label[item] for item in labels.items() if item in self._by_label]
        return sorted(n for numbers in lists for n in numbers[bisect_left(numbers, met) :])


class _Weakening:
    """Makes the stages of a pod lazily; it outlives its builder, so it holds only what it needs."""

    __slots__ = (
        "_binding",
        "_declared",
        "_interned",
        "_known",
        "_meant",
        "_members",
        "_selector",
        "_strict",
    )

    def __init__(
        self,
        pod: Pod,
        declared: _Declared,
        binding: Sequence[int],
        meant: Container[int],
        known: Sequence[Group],
        interned: dict[Requirements, Requirements],
    ) -> None:
        """Prepare to make stages.

        Args:
            binding: groups of others that bind the pod in every stage.
            meant: groups that count it.
            known: every group, by its number.
            interned: one object for equal requirements, since shapes cache them by identity.
        """
        self._selector = selector_demands(pod.spec.node_selector)
        self._declared = declared
        self._binding = binding
        self._meant = meant
        self._known = known
        self._interned = interned
        self._strict: Requirements | None = None  # of the stage made last
        self._members: dict[int, Membership] = {}  # its groups; most stages share them

    def stage(self, number: int) -> Stage:
        """Make the stage with that number."""
        demands, course = self._declared.demands, self._declared.course
        way = min(number, max(0, len(demands.alternatives) - 1))
        strict = self._same(with_terms(self._selector, demands.alternatives[way : way + 1]))
        heaviest = max(0, number + 1 - course.nodes)
        preferred = [term.preference for term in demands.preferred_nodes[heaviest : heaviest + 1]]
        if strict is not self._strict:
            self._strict, self._members = strict, {}
        known, held, meant = self._known, self._members, self._meant
        members = []
        for group in (*self._declared.groups_at(number), *self._binding):
            member = held.get(group)
            if member is None:
                member = Membership(group, strict[known[group].key], group in meant)
                held[group] = member
            members.append(member)
        is_last = number == course.tolerating
        return Stage(
            requirements=self._same(with_terms(strict, preferred)) if preferred else strict,
            strict=strict,
            tolerations=(self._declared.tolerating if is_last else demands).tolerations,
            hosts=tuple([m for m in members if known[m.number].key == HOSTNAME]),
            domains=tuple([m for m in members if known[m.number].key != HOSTNAME]),
        )

    def _same(self, requirements: Requirements) -> Requirements:
        return self._interned.setdefault(requirements, requirements)


class ClassBuilder:
    """Builds classes in two passes, because the groups of any class may count any other class."""

    def __init__(
        self,
        groups: Groups,
        directory: NamespaceDirectory,
        *,
        respect_preferences: bool,
        soft_taints_exist: bool,
        spread_of: Callable[[Pod], tuple[TopologySpreadConstraint, ...]],
        volumes_of: Callable[[Pod], PodVolumes],
    ) -> None:
        """Prepare to build classes whose topology groups are numbered by ``groups``."""
        self._groups = groups
        self._directory = directory
        self._respect = respect_preferences
        self._soft_taints = soft_taints_exist
        self._spread_of = spread_of
        self._volumes_of = volumes_of
        self._requirements: dict[Requirements, Requirements] = {}
        self._loads: dict[bytes, _Load] = {}
        self._declared: dict[bytes, _Declared] = {}
        self._rules: dict[tuple[bytes, tuple[int, ...], tuple[int, ...]], _Rules] = {}

    def declare(self, pod: Pod) -> bytes:
        """Register the groups of a pod's rules; return the key of the rules."""
        key = constraint_key(pod, self._spread_of(pod))
        if key not in self._declared:
            self._declared[key] = self._declaration(pod)
            for group in inverse_groups(pod, self._directory):
                self._groups.number(group)
        return key

    def build(self, number: int, pod: Pod, key: bytes, *, is_costly: bool = False) -> PodClass:
        """Build the class of a pod; all pods of the problem must have been declared."""
        counted, binding = self._groups.meaning(pod)
        rules = self._rules.get((key, counted, binding))
        if rules is None:
            rules = self._work_out(pod, self._declared[key])
            self._rules[key, counted, binding] = rules
        load, volumes = self._load_of(pod), self._volumes_of(pod)
        return PodClass(
            number=number,
            pod=pod,
            requests=load.requests,
            needs=load.needs,
            ports=load.ports,
            volumes=volumes,
            has_extras=bool(load.ports or volumes.alternatives or volumes.attached),
            stages=_twins(rules.stages),
            counted=rules.counted,
            repels=rules.repels,
            uses_devices=load.uses_devices or bool(pod.spec.resource_claims),
            is_costly=is_costly,
        )

    def _load_of(self, pod: Pod) -> "_Load":
        spec, status = pod.spec, pod.status
        if status.container_statuses or status.init_container_statuses:
            return _Load.of(pod)  # a resize may be under way
        key = fingerprint(
            (
                spec.containers,
                spec.init_containers,
                spec.overhead,
                spec.resources,
                spec.host_network,
            )
        )
        load = self._loads.get(key)
        if load is None:
            load = self._loads[key] = _Load.of(pod)
        return load

    def _declaration(self, pod: Pod) -> _Declared:
        spread = self._spread_of(pod)
        stated = demands_of(pod.spec, spread, respect_preferences=self._respect)
        demands = within_bounds(stated)
        course = course_of(demands, soft_taints_exist=self._soft_taints)
        filters = self._node_filters(pod, demands)
        tolerating = demands if course.tolerating is None else tolerating_soft_taints(demands)
        return _Declared(
            demands,
            course,
            [
                (self._groups.number(group), end)
                for group, end in self._groups_of(pod, demands, course, filters)
            ],
            tolerating,
            [
                self._groups.number(group)
                for group, end in self._groups_of(pod, tolerating, course, filters)
                if end == _ALWAYS
            ]
            if course.tolerating is not None
            else (),
        )

    def _work_out(self, pod: Pod, declared: _Declared) -> "_Rules":
        known = self._groups.known
        counted, keeping_away = self._groups.meaning(pod)
        meant = frozenset((*counted, *keeping_away))
        binding = sorted(keeping_away, key=lambda number: known[number].rank)
        making = _Weakening(pod, declared, binding, meant, known, self._requirements)
        return _Rules(
            stages=_all_stages(declared.course.length, making.stage),
            counted=counted,
            repels=tuple(self._groups.number(g) for g in inverse_groups(pod, self._directory)),
        )

    def _node_filters(self, pod: Pod, demands: Demands) -> tuple[Requirements, ...]:
        """The nodes a pod's spread counts: all that any of its stages could use."""
        selector = selector_demands(pod.spec.node_selector)
        terms = tuple(with_terms(selector, (term,)) for term in demands.alternatives)
        return terms or ((selector,) if pod.spec.node_selector else ())

    def _groups_of(
        self, pod: Pod, demands: Demands, course: RelaxationOrder, filters: tuple[Requirements, ...]
    ) -> Iterator[tuple[Group, int]]:
        """The groups of a pod's rules, each with the first stage that has given it up."""
        soft_spread = course.spread
        for constraint in demands.spread:
            is_soft = is_soft_spread(constraint)
            group = spread_group(pod, constraint, filters, demands.tolerations)
            yield group, soft_spread if is_soft else _ALWAYS
            soft_spread += is_soft
        for kind, required, preferred, first in (
            (GroupKind.AFFINITY, demands.affinity, demands.preferred_affinity, course.affinity),
            (
                GroupKind.ANTI_AFFINITY,
                demands.anti_affinity,
                demands.preferred_anti_affinity,
                course.anti_affinity,
            ),
        ):
            for term in required:
                yield self._affinity(pod, term, kind, demands), _ALWAYS
            for end, weighted in enumerate(preferred, start=first):
                yield self._affinity(pod, weighted.pod_affinity_term, kind, demands), end

    def _affinity(
        self, pod: Pod, term: PodAffinityTerm, kind: GroupKind, demands: Demands
    ) -> Group:
        return affinity_group(pod, term, kind, self._directory, demands.tolerations)
