"""Pods that are alike, as one class: everything about a pod is worked out once per class.

Two pods are alike when nothing the solver looks at tells them apart: namespace, labels and spec.
A class lists its ``Stage``s, from all the pod asks for to what it cannot do without; the solver
tries them in turn.
"""

from bisect import bisect_left
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from karpenter.api.pods import Pod, PodAffinityTerm, PodSpec, Toleration, TopologySpreadConstraint
from karpenter.model.labels import HOSTNAME
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.fingerprints import fingerprint
from karpenter.scheduling.groups import (
    Group,
    GroupKind,
    NamespaceDirectory,
    affinity_group,
    inverse_groups,
    spread_group,
)
from karpenter.scheduling.node_demands import selector_demands, with_terms
from karpenter.scheduling.ports import HostPort, host_ports
from karpenter.scheduling.relaxation import Demands, demands_of, stages
from karpenter.scheduling.topology import Membership
from karpenter.scheduling.volumes import PodVolumes
from karpenter.state.requests import is_resize_infeasible, pod_requests


@dataclass(slots=True, eq=False)  # not frozen: thousands are made, and freezing triples the cost
class Stage:
    """What a pod demands after giving up some of its wishes; compared by identity."""

    requirements: Requirements  # with the heaviest preference
    strict: Requirements  # without it
    tolerations: tuple[Toleration, ...]
    hosts: tuple[Membership, ...]  # its groups over hostnames
    domains: tuple[Membership, ...]  # its groups over other labels

    def twin(self) -> "Stage":
        """The same demands of another class."""
        return Stage(self.requirements, self.strict, self.tolerations, self.hosts, self.domains)


@dataclass(slots=True, eq=False)
class PodClass:
    """Pods that are alike; compared by identity."""

    number: int
    pod: Pod  # any one of them
    requests: Resources
    needs: tuple[tuple[str, int], ...]  # the same as pairs, without zeroes
    ports: tuple[HostPort, ...]
    volumes: PodVolumes
    stages: tuple[Stage, ...]
    counted: tuple[int, ...]  # groups that count such a pod
    repels: tuple[int, ...]  # inverse groups by which it keeps others away
    uses_devices: bool
    has_extras: bool  # ports or volumes


@dataclass(frozen=True, slots=True)
class _Rules:
    """What classes that differ in size alone have in common."""

    stages: tuple[Stage, ...]
    counted: tuple[int, ...]
    repels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Load:
    """What the containers of a pod ask of a node; few sizes are in use, so they are shared."""

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
    """Equal for pods that are alike.

    Args:
        spread: the constraints that hold for the pod.
        claims: what tells its ResourceClaims from those of other pods.
    """
    status = pod.status
    resized = None
    if status.container_statuses or status.init_container_statuses:
        sizes = (status.container_statuses, status.init_container_statuses)
        resized = (sizes, is_resize_infeasible(pod))
    spec = pod.spec
    if spec.node_name:
        # a pod that has to move asks for what it asks for, wherever it is now
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
    """Leave out volumes that ask nothing of a node: the token every pod mounts has its own name."""
    claimed = tuple(v for v in spec.volumes if v.persistent_volume_claim or v.ephemeral)
    if len(claimed) == len(spec.volumes):
        return spec
    return msgspec.structs.replace(spec, volumes=claimed)


def constraint_key(pod: Pod, spread: tuple[TopologySpreadConstraint, ...]) -> bytes:
    """Equal for pods that ask for the same places, whatever their size and, mostly, their labels."""
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
    """Whether what a pod asks for depends on the values of its own labels."""
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
        # a group that selects by labels is found by the first of them, so few need looking at
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._without_label: list[int] = []
        # labels -> (groups looked at, those that count such a pod, those that bind it)
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
        """The groups that count the pod wherever it is, and those that keep it away from others."""
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
        """The groups from number ``met`` on that may mean a pod with these labels."""
        lists = [self._without_label]
        lists += [self._by_label[item] for item in labels.items() if item in self._by_label]
        return sorted(n for numbers in lists for n in numbers[bisect_left(numbers, met) :])


class ClassBuilder:
    """Works out classes; two passes, because every class may be counted by any other's groups."""

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
        self._declared: dict[bytes, list[tuple[Demands, list[int]]]] = {}
        self._rules: dict[tuple[bytes, tuple[int, ...], tuple[int, ...]], _Rules] = {}

    def declare(self, pod: Pod) -> bytes:
        """Make known the groups that a pod's class brings along; return the key of its rules."""
        key = constraint_key(pod, self._spread_of(pod))
        if key not in self._declared:
            stages = self._stages(pod)
            filters = self._node_filters(pod, stages[0])
            self._declared[key] = [
                (demands, [self._groups.number(g) for g in self._groups_of(pod, demands, filters)])
                for demands in stages
            ]
            for group in inverse_groups(pod, self._directory):
                self._groups.number(group)
        return key

    def build(self, number: int, pod: Pod, key: bytes) -> PodClass:
        """Work out the class of a pod; all pods of the problem must have been declared."""
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
            stages=tuple([stage.twin() for stage in rules.stages]),
            counted=rules.counted,
            repels=rules.repels,
            uses_devices=load.uses_devices or bool(pod.spec.resource_claims),
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

    def _work_out(self, pod: Pod, declared: Sequence[tuple[Demands, list[int]]]) -> "_Rules":
        known = self._groups.known
        counted, keeping_away = self._groups.meaning(pod)
        meant = {*counted, *keeping_away}
        binding = sorted(keeping_away, key=lambda number: known[number].rank)
        return _Rules(
            stages=tuple(
                self._stage(pod, demands, [*numbers, *binding], meant)
                for demands, numbers in declared
            ),
            counted=counted,
            repels=tuple(self._groups.number(g) for g in inverse_groups(pod, self._directory)),
        )

    def _stages(self, pod: Pod) -> Sequence[Demands]:
        demands = demands_of(pod.spec, self._spread_of(pod), respect_preferences=self._respect)
        return list(stages(demands, soft_taints_exist=self._soft_taints))

    def _stage(
        self, pod: Pod, demands: Demands, groups: Sequence[int], meant: Container[int]
    ) -> Stage:
        selector = selector_demands(pod.spec.node_selector)
        strict = self._same(with_terms(selector, demands.alternatives[:1]))
        preferred = tuple(term.preference for term in demands.preferred_nodes[:1])
        known = self._groups.known
        memberships = [Membership(n, strict[known[n].key], n in meant) for n in groups]
        return Stage(
            requirements=self._same(with_terms(strict, preferred)) if preferred else strict,
            strict=strict,
            tolerations=demands.tolerations,
            hosts=tuple(m for m in memberships if self._key(m) == HOSTNAME),
            domains=tuple(m for m in memberships if self._key(m) != HOSTNAME),
        )

    def _same(self, requirements: Requirements) -> Requirements:
        """One object for equal requirements, since shapes know them by identity."""
        return self._requirements.setdefault(requirements, requirements)

    def _key(self, membership: Membership) -> str:
        return self._groups.known[membership.number].key

    def _node_filters(self, pod: Pod, demands: Demands) -> tuple[Requirements, ...]:
        """The nodes a pod's spread looks at: any it could ever use, whatever it gives up later."""
        selector = selector_demands(pod.spec.node_selector)
        terms = tuple(with_terms(selector, (term,)) for term in demands.alternatives)
        return terms or ((selector,) if pod.spec.node_selector else ())

    def _groups_of(
        self, pod: Pod, demands: Demands, filters: tuple[Requirements, ...]
    ) -> list[Group]:
        found = [
            spread_group(pod, constraint, filters, demands.tolerations)
            for constraint in demands.spread
        ]
        toward = (*demands.affinity, *(t.pod_affinity_term for t in demands.preferred_affinity))
        apart = (
            *demands.anti_affinity,
            *(t.pod_affinity_term for t in demands.preferred_anti_affinity),
        )
        for kind, affinity_terms in (
            (GroupKind.AFFINITY, toward),
            (GroupKind.ANTI_AFFINITY, apart),
        ):
            found += [self._affinity(pod, term, kind, demands) for term in affinity_terms]
        return found

    def _affinity(
        self, pod: Pod, term: PodAffinityTerm, kind: GroupKind, demands: Demands
    ) -> Group:
        return affinity_group(pod, term, kind, self._directory, demands.tolerations)
