"""The compiled problem: everything that stays the same while pods are placed.

Compiling is the expensive part of a plan; solving again with other pods, or with some machines
removed, reuses it. The initial topology counts are made here too, since every attempt starts from
them.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.model.labels import HOSTNAME
from karpenter.model.resources import NODES
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.compiled.custom_labels import custom_labels
from karpenter.scheduling.compiled.effort import Effort, effort_of, fair_share
from karpenter.scheduling.compiled.offerings import members
from karpenter.scheduling.compiled.pod_classes import ClassBuilder, Groups, PodClass
from karpenter.scheduling.compiled.topology_groups import Group, inverse_groups
from karpenter.scheduling.devices.claims import ClaimDirectory
from karpenter.scheduling.packing.topology import GroupState, HostCounts
from karpenter.scheduling.problem import NO_VOLUMES, PodVolumes, Problem
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_active

_CLASSES_BETWEEN_TIME_CHECKS: Final = 64


@dataclass(frozen=True, slots=True)
class CompileBudget:
    """The deadline of compiling; pods that are not compiled in time are left out."""

    has_time: Callable[[], bool]
    first: Sequence[str] = ()  # uids of pods that were left out before


class CompiledProblem:
    """Pools, machines and topology of one problem, ready to place pods on."""

    def __init__(
        self, problem: Problem, compiler: Compiler | None = None, haste: CompileBudget | None = None
    ) -> None:
        """Compile ``problem``, whose pods become known but are not placed.

        A ``compiler`` that is kept between solves caches what has not changed in between. Without
        ``haste``, every pod is compiled.
        """
        self.problem = problem
        self.left_out: list[Pod] = []  # pods of the problem as it was given that are not in it now
        compiler = compiler or Compiler()
        self.templates = compiler.templates(problem)
        self.state_nodes = _targets_in_order(problem.nodes)
        self.nodes = compiler.nodes(problem, self.state_nodes)
        self.leaving_nodes = sum(
            1 << number for number, node in enumerate(self.state_nodes) if node.is_deleting
        )
        self.resource_claims = ClaimDirectory(problem.devices.claims, problem.pods)
        self.groups = Groups()
        self.classes: list[PodClass] = []
        builder = ClassBuilder(
            self.groups,
            problem.namespaces,
            respect_preferences=problem.options.respect_preferences,
            soft_taints_exist=any(template.has_soft_taint for template in self.templates),
            spread_of=self._spread_of,
            volumes_of=self._volumes_of,
        )
        self._class_keys = compiler.class_keys
        self.class_of = self._classify(problem.pods, builder, haste)
        self.custom_labels = custom_labels(self.classes, problem.facts.well_known_labels)
        self._base = [self._state_of(group) for group in self.groups.known]
        self._count_bound_pods()

    def states(self) -> list[GroupState]:
        """The counts before any pod is placed, free to be changed."""
        return [state.copy() for state in self._base]

    @property
    def topology_keys(self) -> list[str]:
        """The labels, but for the hostname, that any group is about."""
        return sorted({group.key for group in self.groups.known if group.key != HOSTNAME})

    def remaining_limits(self) -> list[dict[str, int]]:
        """What is left of each pool's limits, by the number of its template."""
        remaining = [dict(template.limits) for template in self.templates]
        by_pool = {
            template.name: left for template, left in zip(self.templates, remaining, strict=True)
        }
        for node in self.problem.nodes:
            left = by_pool.get(node.node_pool)
            if not left or node.is_deleting:
                continue
            for name in left:
                left[name] -= 1 if name == NODES else node.capacity[name]
        return remaining

    def _keys(self, pods: Sequence[Pod]) -> list[bytes]:
        """The keys of the pods' classes; those of pods that are gone are forgotten."""
        known, nodes = self._class_keys, self.problem.nodes
        if len(known) > len(pods) + sum(len(node.pods) for node in nodes):
            known.keep(chain(pods, *(node.pods for node in nodes)))
        if self.problem.default_spread or not self.problem.options.ignore_device_claims:
            return known.of([(pod, self._spread_of(pod), self._claims_of(pod)) for pod in pods])
        return known.of([(pod, pod.spec.topology_spread_constraints, ()) for pod in pods])

    def _classify(
        self, pods: Sequence[Pod], builder: ClassBuilder, haste: CompileBudget | None
    ) -> list[PodClass]:
        keys = self._keys(pods)
        turns = _turns(pods, haste)
        first: dict[bytes, Pod] = {}
        for position in turns:
            first.setdefault(keys[position], pods[position])
        self._declare_bound_pods()
        efforts = {
            key: effort
            for key, pod in first.items()
            # most pods state neither, and there may be thousands of classes
            if (pod.spec.affinity is not None or self._spread_of(pod))
            and (effort := self.effort(pod)) is not None
        }
        beyond: frozenset[int] = frozenset()  # positions of pods that this pass cannot afford
        if efforts:  # ordinary pods are compiled first, so costly ones cannot delay them
            ordinary = {key: pod for key, pod in first.items() if key not in efforts}
            costly = [n for n in turns if keys[n] in efforts]
            if haste is not None:
                share = fair_share((n, efforts[keys[n]]) for n in costly)
                beyond = frozenset(costly) - share
            first = ordinary | {keys[n]: first[keys[n]] for n in costly if n not in beyond}
        by_key = _built(first, efforts, builder, haste)
        self.classes = list(by_key.values())
        if beyond or len(by_key) < len(first):
            kept = [n for n, key in enumerate(keys) if key in by_key and n not in beyond]
            self.problem = replace(self.problem, pods=[pods[n] for n in kept])
            staying = frozenset(kept)
            self.left_out = [pods[n] for n in turns if n not in staying]
            keys = [keys[n] for n in kept]
        return [by_key[key] for key in keys]

    def effort(self, pod: Pod) -> Effort | None:
        """How costly a pod is to plan for, if it is."""
        respect = self.problem.options.respect_preferences
        return effort_of(pod, self._spread_of(pod), respect_preferences=respect)

    def _declare_bound_pods(self) -> None:
        repelling = {
            id(node): target.repelling
            for node, target in zip(self.state_nodes, self.nodes.targets, strict=True)
            if target.repelling
        }
        declared: set[bytes] = set()
        for node in self.problem.nodes if repelling else ():
            for kind, pod in repelling.get(id(node), ()):
                if kind not in declared:
                    declared.add(kind)
                    for group in inverse_groups(pod, self.problem.namespaces):
                        self.groups.number(group)

    def _spread_of(self, pod: Pod) -> tuple[TopologySpreadConstraint, ...]:
        stated = pod.spec.topology_spread_constraints
        return stated or self.problem.default_spread.get(pod.metadata.uid, ())

    def _claims_of(self, pod: Pod) -> tuple[tuple[str, bytes], ...]:
        if not pod.spec.resource_claims or self.problem.options.ignore_device_claims:
            return ()
        return self.resource_claims.identity(pod)

    def _volumes_of(self, pod: Pod) -> PodVolumes:
        return self.problem.volumes.get(pod.metadata.uid, NO_VOLUMES)

    def _state_of(self, group: Group) -> GroupState:
        if group.key == HOSTNAME:
            return GroupState(group)
        domains: set[str] = set()
        for template in self.templates:
            if group.tolerations is None or template.is_tolerated(group.tolerations):
                domains |= template.domains(group.key)
        state = GroupState(group, sorted(domains))
        for value, machines in self.nodes.domains(group.key).items():
            if value not in state.counts and self.makes_domain(state, machines):
                state.add(value, 0)
        return state

    def makes_domain(self, state: GroupState, machines: int) -> bool:
        """Whether any of these machines, by itself, makes its label value a domain of a group."""
        targets = self.nodes.targets
        return any(
            self._is_lasting(number)
            and state.admits(targets[number].requirements, targets[number].taints)
            for number in members(machines)
        )

    def _is_lasting(self, number: int) -> bool:
        node = self.state_nodes[number]
        return node.node is not None and not node.is_deleting

    def _count_bound_pods(self) -> None:
        if not self._base:
            return
        ours = {pod.metadata.uid for pod in self.problem.pods if pod.metadata.uid}
        where: dict[bytes, list[int]] = {}  # kind of pod -> the machine of each such pod
        kinds_of: dict[int, list[bytes]] = {}  # group -> kinds of pods that it counts
        for number, node in enumerate(self.state_nodes):
            if node.node is None:
                continue
            for pod, kind in zip(node.pods, self.nodes.targets[number].kinds, strict=True):
                if pod.metadata.uid in ours:
                    continue
                machines = where.get(kind)
                if machines is None:
                    machines = where[kind] = []
                    for group in self.groups_counting(pod):
                        kinds_of.setdefault(group, []).append(kind)
                machines.append(number)
        self._count(kinds_of, where)

    def _count(
        self, kinds_of: Mapping[int, Sequence[bytes]], where: Mapping[bytes, Sequence[int]]
    ) -> None:
        """Count pods in every group; groups with the same selection share one count."""
        counted: dict[object, tuple[HostCounts, Counter[str]]] = {}
        for group, kinds in kinds_of.items():
            state = self._base[group]
            alike = (tuple(kinds), state.group.key, state.group.node_filter)
            known = counted.get(alike)
            if known is None:
                known = counted[alike] = self._counts(state, kinds, where)
                state.nodes = known[0]
            else:
                state.nodes = known[0].copy()
            for domain, pods in known[1].items():
                state.add(domain, pods)

    def _counts(
        self, state: GroupState, kinds: Sequence[bytes], where: Mapping[bytes, Sequence[int]]
    ) -> tuple[HostCounts, Counter[str]]:
        """How many pods of these kinds are on each host, or in each domain, that counts."""
        hosts, domains = HostCounts(), Counter[str]()
        if not state.is_hostname and not self.nodes.domains(state.group.key):
            return hosts, domains
        total: Counter[int] = Counter()
        for kind in kinds:
            total.update(where[kind])
        for number, pods in total.items():
            target = self.nodes.targets[number]
            if not state.admits(target.requirements, target.taints):
                continue
            if state.is_hostname:
                hosts.add(number, pods)
            elif (domain := self.nodes.domain_of(number, state.group.key)) is not None:
                domains[domain] += pods
        return hosts, domains

    def groups_counting(self, pod: Pod) -> tuple[int, ...]:
        """The groups that count a pod where it is bound."""
        counted = self.groups.meaning(pod)[0] if is_active(pod) else ()
        inverse = inverse_groups(pod, self.problem.namespaces)
        return (*counted, *map(self.groups.number, inverse))

    def base(self, group: int) -> GroupState:
        """The counts of a group before any pod is placed; not to be changed."""
        return self._base[group]


def _turns(pods: Sequence[Pod], haste: CompileBudget | None) -> Sequence[int]:
    """Positions of pods in the order of compiling: those first that were left out before."""
    if haste is None or not haste.first:
        return range(len(pods))
    place = {uid: number for number, uid in enumerate(haste.first)}
    return sorted(range(len(pods)), key=lambda n: place.get(pods[n].metadata.uid, len(place)))


def _built(
    first: Mapping[bytes, Pod],
    costly: Container[bytes],
    builder: ClassBuilder,
    haste: CompileBudget | None,
) -> dict[bytes, PodClass]:
    """The classes of these pods, as many as the deadline allows; each with all of its groups."""
    rules: list[bytes] = []
    for pod in first.values():
        if _is_late(len(rules), haste):
            break
        rules.append(builder.declare(pod))
    built: dict[bytes, PodClass] = {}
    for number, (rule, (key, pod)) in enumerate(zip(rules, first.items(), strict=False)):
        if _is_late(number, haste):
            break
        built[key] = builder.build(number, pod, rule, is_costly=key in costly)
    return built


def _is_late(classes: int, haste: CompileBudget | None) -> bool:
    """Whether the deadline has passed; the clock is read only every few classes."""
    if haste is None or (classes + 1) % _CLASSES_BETWEEN_TIME_CHECKS:
        return False
    return not haste.has_time()


def _targets_in_order(nodes: Iterable[StateNode]) -> list[StateNode]:
    return sorted(nodes, key=lambda node: (not node.is_initialized, node.name))
