"""What a replay begins with: the machines of pools that the cluster had, and the pods on them.

It happens shortly before the scenario starts, while nothing else places pods: machines and claims are
created as they are long after a launch, and each pod is bound to a node that one of its workload was on.
"""

from collections import deque
from collections.abc import Callable, Collection, Container, Sequence
from datetime import datetime
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.api.times import earlier, in_seconds
from karpenter.clock import Clock
from karpenter.cloud.kwok.machine import ONLY_PARTITION, PARTITION, PROVIDER_PREFIX
from karpenter.cloud.kwok.prices import OfferingName
from karpenter.model import labels
from karpenter.model.conditions import INITIALIZED, LAUNCHED, READY, REGISTERED
from karpenter.simulate.demand.recorded_start import Owner, RecordedStart, StartMachine
from karpenter.simulate.engine.cloud import Machines
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.controllers.workloads.daemon_placement import node_of_daemon
from karpenter_sandbox.kubelet.faults import SIMULATED
from karpenter_sandbox.store.store import Key

_LOOK: Final = 0.1  # virtual seconds between two looks for pods that are new
_YES: Final = "true"


class Furnishing:
    """Furnishes the cluster of one run."""

    def __init__(
        self,
        cluster: Cluster,
        machines: Machines,
        start: datetime,
        starts: Sequence[RecordedStart],
    ) -> None:
        """Prepare for a scenario that starts at ``start``."""
        self._cluster = cluster
        self._machines = machines
        self._start = start
        self._recorded = [machine for each in starts for machine in each.machines]
        self._places: dict[Owner, deque[str]] = {}
        for each in starts:
            for owner, nodes in each.places.items():
                self._places.setdefault(owner, deque()).extend(nodes)

    async def add_machines(self, pools: Container[str], sold: Container[OfferingName]) -> list[str]:
        """Add the machines of pools that there are; return warnings about the others."""
        unsold: list[StartMachine] = []
        orphaned: list[StartMachine] = []
        for machine in self._recorded:
            if machine.pool not in pools:
                orphaned.append(machine)
            elif machine.offering in sold:
                await self._add(machine)
            else:
                unsold.append(machine)
        reasons = []
        if orphaned:
            named = _some({machine.pool for machine in orphaned})
            reasons.append((orphaned, f"the scenario has no NodePool {named}"))
        if unsold:
            named = _some({machine.offering[0] or "no type" for machine in unsold})
            why = f"the simulated cloud does not sell {named}; name what it sells with --instance-types"
            reasons.append((unsold, why))
        total = len(self._recorded)
        return [
            f"the replay begins without {len(machines)} of {total} nodes of pools: {why}"
            for machines, why in reasons
        ]

    async def place_pods(self, clock: Clock, until: Callable[[], float]) -> None:
        """Bind pods as they come, for so many seconds."""
        while True:
            await self._bind()
            left = until()
            if left <= 0:
                return
            await clock.sleep(min(_LOOK, left))

    async def _add(self, machine: StartMachine) -> None:
        store, client = self._cluster.store, self._cluster.client
        born = timestamp(earlier(self._start, in_seconds(machine.age)))
        pool = store.get(Key("karpenter.sh", "nodepools", "", machine.pool))
        assert pool is not None, "only machines of pools that there are"
        kind, zone, capacity_type = machine.offering
        held = {
            **machine.claim["metadata"]["labels"],
            labels.INSTANCE_TYPE: kind,
            labels.ZONE: zone,
            labels.CAPACITY_TYPE: capacity_type,
        }
        metadata = {
            **machine.claim["metadata"],
            "labels": held,
            "finalizers": [labels.TERMINATION],
            "ownerReferences": [_reference(pool)],
        }
        claim = await client.create({**machine.claim, "metadata": metadata})
        self._age(Key("karpenter.sh", "nodeclaims", "", metadata["name"]), born)
        await client.patch_status(
            claim["apiVersion"], "nodeclaims", None, metadata["name"], _status(machine, born)
        )
        self._machines.add(
            machine.name, metadata["name"], machine.pool, machine.offering, -machine.age
        )
        await client.create(_node(machine, claim))
        self._age(Key("", "nodes", "", machine.name), born)

    def _age(self, key: Key, born: str) -> None:
        """Let an object be as old as it was, which nobody can ask an API for."""
        store = self._cluster.store
        obj = store.get(key)
        if obj is not None:
            store.replace(key, {**obj, "metadata": {**obj["metadata"], "creationTimestamp": born}})

    async def _bind(self) -> None:
        nodes = {node["metadata"]["name"] for node in self._cluster.store.list("", "nodes")}
        for pod in self._cluster.store.list("", "pods"):
            if (pod.get("spec") or {}).get("nodeName") or "deletionTimestamp" in pod["metadata"]:
                continue
            node = self._node_for(pod, nodes)
            if node:
                metadata = pod["metadata"]
                await self._cluster.client.bind(metadata["namespace"], metadata["name"], node)

    def _node_for(self, pod: JsonObject, nodes: Container[str]) -> str:
        """A node that a pod of the same workload was on, and that is there."""
        if daemon := node_of_daemon(pod):
            return daemon
        for owner in self._owners(pod):
            left = self._places.get(owner)
            while left:
                node = left.popleft()
                if node in nodes:
                    return node
        return ""

    def _owners(self, pod: JsonObject) -> list[Owner]:
        metadata = pod["metadata"]
        namespace = str(metadata["namespace"])
        found: list[Owner] = [("Pod", namespace, str(metadata["name"]))]
        owner = _controller(metadata)
        if owner:
            found.append((owner["kind"], namespace, owner["name"]))
        if owner.get("kind") == "ReplicaSet":
            key = Key("apps", "replicasets", namespace, owner["name"])
            above = _controller((self._cluster.store.get(key) or {"metadata": {}})["metadata"])
            if above:
                found.append((above["kind"], namespace, above["name"]))
        return found


def _node(machine: StartMachine, claim: JsonObject) -> JsonObject:
    node, claimed = machine.node, claim["metadata"]
    metadata = {
        **node["metadata"],
        "labels": {
            **node["metadata"]["labels"],
            labels.REGISTERED: _YES,
            labels.INITIALIZED: _YES,
            PARTITION: ONLY_PARTITION,
        },
        "annotations": {**(node["metadata"].get("annotations") or {}), SIMULATED: "fake"},
        "finalizers": [labels.TERMINATION],
        "ownerReferences": [{**_reference(claim), "controller": False}],
    }
    metadata["labels"].setdefault(labels.HOSTNAME, claimed["name"])
    spec = {**node["spec"], "providerID": PROVIDER_PREFIX + machine.name}
    return {**node, "metadata": metadata, "spec": spec}


def _some(names: Collection[str]) -> str:
    """The first few of some names."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(sorted(names)[:5]) + more


def _status(machine: StartMachine, born: str) -> JsonObject:
    conditions = [
        {"type": each, "status": "True", "reason": each, "message": "", "lastTransitionTime": born}
        for each in (LAUNCHED, REGISTERED, INITIALIZED, READY)
    ]
    return {
        **machine.node["status"],
        "nodeName": machine.name,
        "providerID": PROVIDER_PREFIX + machine.name,
        "conditions": conditions,
    }


def _reference(obj: JsonObject) -> JsonObject:
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }


def _controller(metadata: JsonObject) -> JsonObject:
    owners: Sequence[Any] = metadata.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})
