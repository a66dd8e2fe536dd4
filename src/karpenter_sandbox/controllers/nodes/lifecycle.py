"""The node lifecycle: conditions, taints, and eviction from unresponsive nodes."""

from dataclasses import dataclass
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import find_condition, with_condition
from karpenter_sandbox.controllers.nodes.taints import (
    NOT_READY,
    UNREACHABLE,
    eviction_rate,
    eviction_taint,
    readiness,
    with_condition_taints,
    with_eviction_taint,
    zone_of,
    zone_state,
)
from karpenter_sandbox.controllers.owning import recorder
from karpenter_sandbox.controllers.pods import created, is_ready, nodes_of
from karpenter_sandbox.runtime.events import NORMAL, WARNING
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing

_LEASE_NAMESPACE: Final = "kube-node-lease"
_PATIENCE: Final = 50.0  # seconds without a heartbeat (status report or lease renewal)
_START_PATIENCE: Final = 60.0  # seconds until the first heartbeat
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_BY_NODE: Final = "node"
# Ready condition -> the taint that lets pods be evicted
_EVICTING: Final = {"False": NOT_READY, "Unknown": UNREACHABLE}


@dataclass(slots=True)
class _Health:
    """The last heartbeat of a node."""

    uid: str
    seen: float
    sign: tuple[str, str] = ("", "")  # last report, last renewal of the lease
    was_ready: bool = False


class _Read:
    """What is read of a node, once for each object: most ticks see the same ones."""

    __slots__ = ("beat", "node", "ready", "taint", "zone")

    def __init__(self, node: JsonObject) -> None:
        self.node = node
        self.beat = _heartbeat(node)
        self.ready = readiness(node)
        self.taint = eviction_taint(node)
        self.zone = zone_of(node)


class NodeLifecycleController(Controller):
    name = "node-controller"
    period = 5.0

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._recorder = recorder(runtime, client, self.name)
        self._nodes = runtime.informer("v1", "nodes")
        self._leases = runtime.informer("coordination.k8s.io/v1", "leases")
        self._pods = runtime.informer("v1", "pods")
        self._pods.add_index(_BY_NODE, nodes_of)
        self._health: dict[str, _Health] = {}
        self._read: dict[str, _Read] = {}
        self._next: dict[str, float] = {}  # zone -> when its next node may be tainted (rate limit)
        self.follow(self._nodes)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Set the NoSchedule taints that follow from a node's conditions."""
        node = self._nodes.get(*key)
        if node is None:
            self._forget(key[1])
            return None
        self._meet(node)
        await self._write_taints(node, with_condition_taints(node))
        return None

    async def tick(self) -> None:
        """Check heartbeats; nodes without one become Unknown and are tainted, at a limited rate."""
        renewals = {
            lease["metadata"]["name"]: (lease.get("spec") or {}).get("renewTime") or ""
            for lease in self._leases.list(_LEASE_NAMESPACE)
        }
        for node in self._nodes.list():
            name = node["metadata"]["name"]
            self._meet(node)
            read, health = self._look(node), self._health[name]
            is_late = self._is_late(health, read, renewals.get(name, ""))
            if is_late or health.was_ready is not (read.ready == "True"):
                await self._examine(node, health, is_late=is_late)
        await self._give_up()

    def _look(self, node: JsonObject) -> _Read:
        name = node["metadata"]["name"]
        read = self._read.get(name)
        if read is None or read.node is not node:
            read = self._read[name] = _Read(node)
        return read

    def _meet(self, node: JsonObject) -> None:
        metadata = node["metadata"]
        known = self._health.get(metadata["name"])
        if known is not None and known.uid == metadata["uid"]:
            return
        age = (self.clock.now() - created(node)).total_seconds()
        is_new = readiness(node) is None
        seen = self.clock.monotonic() - (age if is_new else 0.0)
        self._health[metadata["name"]] = _Health(metadata["uid"], seen)
        name = metadata["name"]
        text = f"Node {name} event: Registered Node {name} in Controller"
        self._recorder.emit(node, NORMAL, "RegisteredNode", text)

    def _forget(self, name: str) -> None:
        self._read.pop(name, None)
        known = self._health.pop(name, None)
        if known is not None:
            metadata = {"name": name, "uid": known.uid}
            gone = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
            text = f"Node {name} event: Removing Node {name} from Controller"
            self._recorder.emit(gone, NORMAL, "RemovingNode", text)

    def _is_late(self, health: _Health, read: _Read, renewal: str) -> bool:
        """Whether a node's heartbeat is overdue, and it is not yet called silent."""
        now = self.clock.monotonic()
        sign = (read.beat, renewal)
        if sign != health.sign:
            health.sign, health.seen = sign, now
        patience = _START_PATIENCE if read.ready is None else _PATIENCE
        return now - health.seen > patience and read.ready != "Unknown"

    async def _examine(self, node: JsonObject, health: _Health, *, is_late: bool) -> None:
        """Declare a node silent whose heartbeat is late, and mark the pods of one that fails."""
        name = node["metadata"]["name"]
        is_up = readiness(node) == "True"
        if is_late:
            node = await self._declare_silent(node)
            is_up = readiness(node) == "True"
        if health.was_ready and not is_up:
            text = f"Node {name} status is now: NodeNotReady"
            self._recorder.emit(node, NORMAL, "NodeNotReady", text)
            await self._mark_pods(name)
        health.was_ready = is_up

    async def _declare_silent(self, node: JsonObject) -> JsonObject:
        now = timestamp(self.clock.now())
        changed = node
        for kind in _REPORTED:
            known = find_condition(node, kind)
            condition = {
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": node["metadata"]["creationTimestamp"],
            }
            if known is not None:
                condition |= {
                    "reason": "NodeStatusUnknown",
                    "message": "Kubelet stopped posting node status.",
                    "lastHeartbeatTime": known.get("lastHeartbeatTime"),
                }
            changed = with_condition(changed, condition, now)
        return await self._client.update_status(changed)

    async def _mark_pods(self, name: str) -> None:
        """Mark the pods of an unresponsive node as not ready: their own reports are outdated."""
        for pod in self._pods.by_index(_BY_NODE, name):
            if not is_ready(pod):
                continue
            known = find_condition(pod, "Ready") or {}
            condition = {key: part for key, part in known.items() if key != "lastTransitionTime"}
            changed = with_condition(
                pod, {**condition, "status": "False"}, timestamp(self.clock.now())
            )
            await ignoring_missing(self._client.update_status(changed))
            self._recorder.emit(pod, WARNING, "NodeNotReady", "Node is not ready")

    async def _give_up(self) -> None:
        """Taint unresponsive nodes so that their pods are evicted, at a limited rate."""
        zones: dict[str, list[_Read]] = {}
        for node in self._nodes.list():
            read = self._look(node)
            zones.setdefault(read.zone, []).append(read)
        states = {zone: zone_state([r.ready for r in nodes]) for zone, nodes in zones.items()}
        self._next = {zone: due for zone, due in self._next.items() if zone in zones}
        for zone, nodes in zones.items():
            rate = eviction_rate(states[zone], states.values(), len(nodes))
            for read in nodes:
                if read.taint is not None or read.ready in _EVICTING:
                    await self._treat(read, zone, rate)

    async def _treat(self, read: _Read, zone: str, rate: float) -> None:
        node, wanted, present = read.node, _EVICTING.get(read.ready or ""), read.taint
        now = self.clock.monotonic()
        if wanted is not None and present is None:
            if rate == 0 or now < self._next.get(zone, 0.0):
                return
            self._next[zone] = now + 1 / rate
        # When no node responds anywhere, evictions stop, even where they had begun
        key = wanted if rate else None
        if key != present:
            moment = timestamp(self.clock.now())
            await self._write_taints(node, with_eviction_taint(node, key, moment))

    async def _write_taints(self, node: JsonObject, taints: list[JsonObject]) -> None:
        known = (node.get("spec") or {}).get("taints") or []
        if taints == known:
            return
        metadata = node["metadata"]
        version = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": version, "spec": {"taints": taints or None}}
        await ignoring_missing(
            self._client.patch("merge", "v1", "nodes", None, metadata["name"], patch)
        )


def _heartbeat(node: JsonObject) -> str:
    condition = find_condition(node, "Ready") or {}
    # Unknown is written by this controller, so it is not a heartbeat
    if condition.get("status") == "Unknown":
        return ""
    beat: str = condition.get("lastHeartbeatTime") or ""
    return beat
