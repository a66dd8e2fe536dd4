"""The projected state: the cluster right after commands were begun, with nothing ready or gone yet.

Candidates are marked and their pods need room. Replacements have launched but have no Node yet, and
machines that will take pods are nominated for them. A provisioning plan is projected as fully
carried out.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from karpenter.api.karpenter import NodeClaim, NodeClaimSpec, NodeClaimStatus, NodePool
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.nodes import Node, NodeSpec, NodeStatus
from karpenter.api.pods import Pod
from karpenter.cloud.types import InstanceType, Offering, ProviderFacts
from karpenter.disruption.commands import Command, Decision
from karpenter.model import labels
from karpenter.model.conditions import READY, REBOOTING, TRUE
from karpenter.scheduling.plan import Plan, PlannedClaim
from karpenter.scheduling.provisioning import Catalogue
from karpenter.state.nodes import StateNode
from karpenter.state.pods import key_of
from karpenter.state.snapshot import Snapshot


@dataclass(slots=True)
class ProjectedState:
    """A cluster, with the effects of the commands begun so far."""

    snapshot: Snapshot
    facts: ProviderFacts
    catalogue: Catalogue
    in_progress: set[str] = field(default_factory=set)
    taken: dict[str, int] = field(default_factory=dict)  # reservation -> machines launched on it
    _known: dict[int, tuple[tuple[InstanceType, ...], tuple[InstanceType, ...]]] = field(
        default_factory=dict
    )  # id of a catalogue -> the catalogue, kept alive so that its id stays unique, and the rest

    def types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        """The types of a pool, less the reservations taken so far."""
        listed = self.catalogue(pool)
        if not self.taken:
            return listed
        known = self._known.get(id(listed))
        if known is None:
            known = self._known[id(listed)] = listed, tuple(map(self._left_of, listed))
        return known[1]

    def expect(self, names: Collection[str], *, until: datetime) -> None:
        """Nominate machines for pending pods."""
        nodes = tuple(
            replace(machine, nominated_until=until) if machine.name in names else machine
            for machine in self.snapshot.nodes
        )
        self.snapshot = replace(self.snapshot, nodes=nodes)

    def carry_out(self, plan: Plan) -> None:
        """Add the nodes of a provisioning plan, initialized and with their pods bound."""
        going = {name: pods for name, pods in plan.existing.items() if pods}
        made: list[StateNode] = []
        for claim in plan.claims:
            # consecutive plans reuse the names of planned nodes
            name = f"{claim.name}-{len(self.snapshot.nodes) + len(made)}"
            machine = self._launched(replace(claim, name=name))
            if machine is not None:
                made.append(_up(machine))
                going[name] = claim.pods
        target = {pod: name for name, pods in going.items() for pod in pods}
        pods = {
            key: _bound(pod, target[key]) if key in target else pod
            for key, pod in self.snapshot.pods.items()
        }
        nodes = [
            replace(
                # with its Node: topology does not count the pods of a machine without one
                _up(machine) if machine.node is None else machine,
                pods=(
                    *(pod for pod in machine.pods if key_of(pod) not in target),
                    *(pods[each] for each in going.get(machine.name, ()) if each in pods),
                ),
            )
            if machine.name in going or any(key_of(pod) in target for pod in machine.pods)
            else machine  # the same object, so that the next pass finds it in its cache
            for machine in (*self.snapshot.nodes, *made)
        ]
        unbound = {key: pod for key, pod in self.snapshot.unbound_pods.items() if key not in target}
        self.snapshot = replace(self.snapshot, nodes=tuple(nodes), pods=pods, unbound_pods=unbound)

    def begin(self, command: Command, *, until: datetime) -> None:
        """Begin a command; machines that will take pods are nominated until then."""
        going = set(command.names)
        self.in_progress |= going
        leave = _rebooting if command.decision is Decision.REBOOT else _marked
        nodes = [
            leave(machine)
            if machine.name in going
            else replace(machine, nominated_until=until)
            if machine.name in command.placements
            else machine
            for machine in self.snapshot.nodes
        ]
        unlaunched = tuple(
            claim for claim in self.snapshot.unlaunched if claim.metadata.name not in going
        )
        nodes += [made for claim in command.replacements if (made := self._launched(claim))]
        self.snapshot = replace(self.snapshot, nodes=tuple(nodes), unlaunched=unlaunched)

    def _launched(self, claim: PlannedClaim) -> StateNode | None:
        pool = self.snapshot.node_pools.get(claim.node_pool)
        launch = claim.launch
        if pool is None or launch is None:
            return None
        kind = next((t for t in self.types(pool) if t.name == launch.instance_type), None)
        offering = _offering(kind, claim) if kind is not None else None
        if kind is None or offering is None:
            return None
        if offering.reservation_id:
            self.taken[offering.reservation_id] = self.taken.get(offering.reservation_id, 0) + 1
            self._known.clear()
        settled = {
            entry.key: entry.any()
            for entry in (*kind.requirements, *offering.requirements)
            if not entry.complement and len(entry.values) == 1
        }
        return StateNode(
            node=None,
            node_claim=NodeClaim(
                metadata=ObjectMeta(
                    name=claim.name,
                    uid=claim.name,
                    labels={**settled, **claim.labels},
                    annotations=dict(claim.annotations),
                ),
                spec=NodeClaimSpec(
                    node_class_ref=claim.node_class_ref,
                    taints=claim.taints,
                    startup_taints=claim.startup_taints,
                    expire_after=claim.expire_after,
                    termination_grace_period=claim.termination_grace_period,
                ),
                status=NodeClaimStatus(
                    provider_id=f"planned://{claim.name}",
                    capacity=kind.capacity.to_wire(),
                    allocatable=kind.allocatable_of(offering).to_wire(),
                ),
            ),
        )

    def _left_of(self, kind: InstanceType) -> InstanceType:
        if not any(offering.reservation_id in self.taken for offering in kind.offerings):
            return kind
        return kind.with_offerings(tuple(map(self._less, kind.offerings)))

    def _less(self, offering: Offering) -> Offering:
        taken = self.taken.get(offering.reservation_id, 0)
        left = max(0, offering.reservation_capacity - taken)
        return replace(offering, reservation_capacity=left)


def _up(machine: StateNode) -> StateNode:
    """A launched machine with its Node, initialized, with the promised resources."""
    claim = machine.node_claim
    assert claim is not None
    name = claim.metadata.name
    started = {labels.REGISTERED: "true", labels.INITIALIZED: "true", labels.HOSTNAME: name}
    node = Node(
        metadata=ObjectMeta(name=name, uid=name, labels={**claim.metadata.labels, **started}),
        spec=NodeSpec(provider_id=claim.status.provider_id, taints=claim.spec.taints),
        status=NodeStatus(
            capacity=claim.status.capacity,
            allocatable=claim.status.allocatable,
            conditions=(Condition(type=READY, status=TRUE),),
        ),
    )
    return replace(machine, node=node)


def _bound(pod: Pod, node: str) -> Pod:
    """The pod bound to a node."""
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    status = msgspec.structs.replace(pod.status, phase="Running", conditions=())
    return msgspec.structs.replace(pod, spec=spec, status=status)


def _marked(machine: StateNode) -> StateNode:
    return replace(machine, is_marked=True)


def _rebooting(machine: StateNode) -> StateNode:
    claim = machine.node_claim
    assert claim is not None
    others = (each for each in claim.status.conditions if each.type != REBOOTING)
    conditions = (*others, Condition(type=REBOOTING, status=TRUE))
    status = msgspec.structs.replace(claim.status, conditions=conditions)
    return replace(machine, node_claim=msgspec.structs.replace(claim, status=status))


def _offering(kind: InstanceType, claim: PlannedClaim) -> Offering | None:
    """The offering of a claim's launch."""
    launch = claim.launch
    assert launch is not None
    ways: Iterable[Offering] = (
        offering
        for offering in kind.offerings
        if offering.is_launchable
        and offering.zone == launch.zone
        and offering.capacity_type == launch.capacity_type
        and offering.requirements.intersects(claim.requirements)
    )
    return min(ways, key=lambda way: (way.price, way.reservation_id), default=None)
