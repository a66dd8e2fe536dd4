"""A problem compiled: everything that stays the same while pods are tried on it.

Compiling is the costly part of a plan; asking again with other pods, or with some machines taken
away, reuses it. Counting who is where happens here too, since every attempt starts from it.
"""

from collections.abc import Iterable, Sequence

from karpenter.api.pods import Pod, TopologySpreadConstraint
from karpenter.model.labels import HOSTNAME
from karpenter.model.resources import NODES
from karpenter.scheduling.classes import ClassBuilder, Groups, PodClass, class_key
from karpenter.scheduling.compiler import Compiler
from karpenter.scheduling.devices.claims import ClaimDirectory
from karpenter.scheduling.groups import Group, inverse_groups
from karpenter.scheduling.problem import Problem
from karpenter.scheduling.topology import GroupState
from karpenter.scheduling.universe import members
from karpenter.scheduling.volumes import NO_VOLUMES, PodVolumes
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_active


class World:
    """Pools, machines and topology of one problem, ready to place pods on."""

    def __init__(self, problem: Problem, compiler: Compiler | None = None) -> None:
        """Compile ``problem``, whose pods become known but are not placed.

        A ``compiler`` that is kept between solves spares what has not changed in between.
        """
        self.problem = problem
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
        self._builder = ClassBuilder(
            self.groups,
            problem.namespaces,
            respect_preferences=problem.options.respect_preferences,
            soft_taints_exist=any(template.has_soft_taint for template in self.templates),
            spread_of=self._spread_of,
            volumes_of=self._volumes_of,
        )
        self.class_of = self._classify(problem.pods)
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

    def _classify(self, pods: Sequence[Pod]) -> list[PodClass]:
        keys = [class_key(pod, self._spread_of(pod), self._claims_of(pod)) for pod in pods]
        first: dict[bytes, Pod] = {}
        for key, pod in zip(keys, pods, strict=True):
            first.setdefault(key, pod)
        self._declare_bound_pods()
        rules = [self._builder.declare(pod) for pod in first.values()]
        by_key = {
            key: self._builder.build(number, pod, rules[number])
            for number, (key, pod) in enumerate(first.items())
        }
        self.classes = list(by_key.values())
        return [by_key[key] for key in keys]

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
        """Whether any of these machines, by itself, makes its place a domain of a group."""
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
        counting: dict[bytes, list[GroupState]] = {}  # kind of pod -> groups that count it
        for number, node in enumerate(self.state_nodes):
            if node.node is None:
                continue
            for pod, kind in zip(node.pods, self.nodes.targets[number].kinds, strict=True):
                if pod.metadata.uid in ours:
                    continue
                if kind not in counting:
                    counting[kind] = self._counting(pod)
                if counting[kind]:
                    self._count(counting[kind], number)

    def _counting(self, pod: Pod) -> list[GroupState]:
        return [self._base[n] for n in self.groups_counting(pod)]

    def groups_counting(self, pod: Pod) -> tuple[int, ...]:
        """The groups that count a pod where it is bound."""
        counted = self.groups.meaning(pod)[0] if is_active(pod) else ()
        inverse = inverse_groups(pod, self.problem.namespaces)
        return (*counted, *map(self.groups.number, inverse))

    def base(self, group: int) -> GroupState:
        """The counts of a group before any pod is placed; not to be changed."""
        return self._base[group]

    def _count(self, counting: Iterable[GroupState], number: int) -> None:
        target = self.nodes.targets[number]
        for state in counting:
            if not state.admits(target.requirements, target.taints):
                continue
            if state.is_hostname:
                state.nodes.add(number, 1)
            elif (domain := self.nodes.domain_of(number, state.group.key)) is not None:
                state.add(domain)


def _targets_in_order(nodes: Iterable[StateNode]) -> list[StateNode]:
    return sorted(nodes, key=lambda node: (not node.is_initialized, node.name))
