"""Fuses Nodes and NodeClaims into machines, as they come and go.

Notation
    machine id    the provider ID; for a Node that has none and belongs to no pool, its name

A Node and a NodeClaim with one id are one machine. A Node of a pool is ignored until its provider
ID and, unless it is initialized, its instance type are known; a NodeClaim without a provider ID has
no machine yet. Only machines that have changed are rebuilt: all others stay the same objects, with
their cached values. The order of events does not matter.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from datetime import UTC, datetime
from typing import Final, TypeVar

from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Resource
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.model import labels
from karpenter.state.nodes import StateNode
from karpenter.state.object_keys import may_be_same

R = TypeVar("R", bound=Resource)

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Machines:
    """The machines of a cluster, with their pods, deletion marks and nominations."""

    def __init__(self) -> None:
        """Begin without any machine."""
        self._nodes: _Members[Node] = _Members()
        self._claims: _Members[NodeClaim] = _Members()
        self._pods: dict[str, dict[str, Pod]] = defaultdict(dict)  # node name -> pod key -> pod
        self._node_of: dict[str, str] = {}  # pod key -> name of its node
        self._marked: set[str] = set()  # machine ids
        self._nominated: dict[str, datetime] = {}  # machine id -> until when
        self._fused: dict[str, StateNode] = {}  # machine id -> machine
        self._order: list[str] = []  # machine ids, sorted
        self._touched: set[str] = set()  # ids of machines to be rebuilt
        self._all: tuple[StateNode, ...] = ()

    def put_node(self, node: Node) -> bool:
        """Store a Node, new or changed; return whether anything has changed."""
        return self._put(self._nodes, node, _id_of_node(node))

    def drop_node(self, node: Node) -> bool:
        """Remove a Node; return whether it was there."""
        return self._drop(self._nodes, node)

    def put_claim(self, claim: NodeClaim) -> bool:
        """Store a NodeClaim, new or changed; return whether anything has changed."""
        return self._put(self._claims, claim, claim.status.provider_id)

    def drop_claim(self, claim: NodeClaim) -> bool:
        """Remove a NodeClaim; return whether it was there."""
        return self._drop(self._claims, claim)

    def bind(self, key: str, pod: Pod) -> None:
        """Put a pod on its node, and take it off the one it was on before."""
        self.unbind(key)
        name = pod.spec.node_name
        self._node_of[key] = name
        self._pods[name][key] = pod
        self._touched |= self._nodes.machine_of(name)

    def unbind(self, key: str) -> None:
        """Take a pod off its node, if it has one."""
        name = self._node_of.pop(key, None)
        if name is None:
            return
        on_node = self._pods[name]
        del on_node[key]
        if not on_node:
            del self._pods[name]
        self._touched |= self._nodes.machine_of(name)

    def mark(self, name: str) -> bool:
        """Mark the machine of a Node or NodeClaim for deletion; return whether that is new."""
        news = self._named(name) - self._marked
        self._marked |= news
        self._touched |= news
        return bool(news)

    def unmark(self, name: str) -> bool:
        """Remove a mark; return whether there was one."""
        news = self._named(name) & self._marked
        self._marked -= news
        self._touched |= news
        return bool(news)

    def nominate(self, name: str, until: datetime) -> bool:
        """Nominate the machine of a Node or NodeClaim until then; return whether that is new."""
        news = {
            machine
            for machine in self._named(name)
            if self._nominated.get(machine, _LONG_AGO) < until
        }
        for machine in news:
            self._nominated[machine] = until
        self._touched |= news
        return bool(news)

    @property
    def unlaunched(self) -> tuple[NodeClaim, ...]:
        """The NodeClaims without a machine, by name."""
        return self._claims.astray

    @property
    def skipped_nodes(self) -> tuple[Node, ...]:
        """The Nodes that are ignored so far, by name."""
        return self._nodes.astray

    def all(self) -> tuple[StateNode, ...]:
        """Every machine, by machine id."""
        if self._touched:
            for machine in self._touched:
                self._fuse(machine)
            self._touched.clear()
            self._all = tuple(self._fused[machine] for machine in self._order)
        return self._all

    def _put(self, members: "_Members[R]", member: R, machine: str) -> bool:
        if members.get(member.metadata.name) == member:
            return False
        self._touch(members.put(member, machine))
        return True

    def _drop(self, members: "_Members[R]", member: R) -> bool:
        found = members.get(member.metadata.name)
        if found is None or not may_be_same(found, member):
            return False
        self._touch(members.drop(member.metadata.name))
        return True

    def _touch(self, machines: set[str]) -> None:
        self._touched |= machines
        for machine in machines:
            if not self._nodes.has_machine(machine) and not self._claims.has_machine(machine):
                self._marked.discard(machine)
                self._nominated.pop(machine, None)

    def _fuse(self, machine: str) -> None:
        nodes = self._nodes.of_machine(machine)
        claims = self._claims.of_machine(machine)
        if not nodes and not claims:
            if self._fused.pop(machine, None) is not None:
                del self._order[bisect_left(self._order, machine)]
            return
        if machine not in self._fused:
            insort(self._order, machine)
        bound = [item for node in nodes for item in self._pods.get(node.metadata.name, {}).items()]
        made = StateNode(
            node=_newest(nodes),
            node_claim=_newest(claims),
            pods=tuple(pod for _, pod in sorted(bound, key=lambda item: item[0])),
            is_marked=machine in self._marked,
            nominated_until=self._nominated.get(machine),
        )
        if made != self._fused.get(machine):
            self._fused[machine] = made

    def _named(self, name: str) -> set[str]:
        return self._nodes.machine_of(name) or self._claims.machine_of(name)


class _Members(dict[str, R]):
    """The objects of one kind by name, and the machine each belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self._machine: dict[str, str] = {}  # name -> machine id, or nothing
        self._names: dict[str, set[str]] = {}  # machine id -> names
        self._astray: set[str] = set()  # names of those without a machine

    def put(self, member: R, machine: str) -> set[str]:
        """Add or replace an object; return the machines that are affected."""
        name = member.metadata.name
        affected = self.drop(name)
        self[name] = member
        self._machine[name] = machine
        if machine:
            self._names.setdefault(machine, set()).add(name)
            affected.add(machine)
        else:
            self._astray.add(name)
        return affected

    def drop(self, name: str) -> set[str]:
        """Remove an object, if it is there; return the machines that are affected."""
        affected = self.machine_of(name)
        for machine in affected:
            self._names[machine].discard(name)
            if not self._names[machine]:
                del self._names[machine]
        self._astray.discard(name)
        self._machine.pop(name, None)
        self.pop(name, None)
        return affected

    def machine_of(self, name: str) -> set[str]:
        """The machine of an object: one, or none."""
        machine = self._machine.get(name)
        return {machine} if machine else set()

    def of_machine(self, machine: str) -> list[R]:
        """The objects that belong to a machine; hardly ever more than one."""
        return [self[name] for name in self._names.get(machine, ())]

    def has_machine(self, machine: str) -> bool:
        """Whether any object belongs to a machine."""
        return machine in self._names

    @property
    def astray(self) -> tuple[R, ...]:
        """The objects that belong to no machine, by name."""
        return tuple(self[name] for name in sorted(self._astray))


def _id_of_node(node: Node) -> str:
    held = node.metadata.labels
    if labels.NODEPOOL not in held:
        return node.spec.provider_id or node.metadata.name
    if labels.INSTANCE_TYPE not in held and held.get(labels.INITIALIZED) != "true":
        return ""
    return node.spec.provider_id


def _newest(members: list[R]) -> R | None:
    """The newest object, which is authoritative where several have one provider ID."""
    return max(members, key=_age_key, default=None)


def _age_key(member: R) -> tuple[datetime, str]:
    return (member.metadata.creation_timestamp or _LONG_AGO, member.metadata.name)
