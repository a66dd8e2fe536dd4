"""Evicts pods for NoExecute taints: at once, or after their toleration period."""

from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import duration, parse_timestamp, timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import with_condition
from karpenter_sandbox.controllers.nodes.taints import NO_EXECUTE
from karpenter_sandbox.controllers.owning import recorder
from karpenter_sandbox.controllers.pods import is_leaving, node_of, nodes_of
from karpenter_sandbox.matching import read_taints, read_tolerations
from karpenter_sandbox.runtime.events import NORMAL
from karpenter_sandbox.runtime.informer import ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing

_BY_NODE: Final = "node"


class TaintEvictionController(Controller):
    name = "taint-eviction-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._recorder = recorder(runtime, client, self.name)
        self._nodes = runtime.informer("v1", "nodes")
        self._pods = runtime.informer("v1", "pods")
        self._pods.add_index(_BY_NODE, nodes_of)
        self._since: dict[str, datetime] = {}  # uid of a pod -> when its toleration period began
        self._pods.on_change(self._follow_pod)
        self._nodes.on_change(self._follow_node)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Delete a pod whose toleration period has ended; else return the remaining seconds."""
        pod = self._pods.get(*key)
        if pod is None or is_leaving(pod):
            return None
        node = self._nodes.get("", node_of(pod))
        taints = _driving(node) if node is not None else []
        uid = pod["metadata"]["uid"]
        seconds = _tolerated_seconds(pod, taints)
        if seconds is None:
            if self._since.pop(uid, None) is not None:
                text = f"Cancelling deletion of Pod {'/'.join(key)}"
                self._recorder.emit(pod, NORMAL, "TaintManagerEviction", text)
            return None
        now = self.clock.now()
        since = self._since.setdefault(uid, _beginning(taints, pod, now))
        left: float = (since + duration(seconds) - now).total_seconds()
        if left > 0:
            return left
        await self._evict(pod)
        return None

    async def _evict(self, pod: JsonObject) -> None:
        text = f"Marking for deletion Pod {'/'.join(key_of(pod))}"
        self._recorder.emit(pod, NORMAL, "TaintManagerEviction", text)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        await self._client.update_status(
            with_condition(pod, condition, timestamp(self.clock.now()))
        )
        namespace, name = key_of(pod)
        await ignoring_missing(
            self._client.delete("v1", "pods", namespace, name, uid=pod["metadata"]["uid"])
        )

    def _follow_pod(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None:
            self._since.pop((old or {})["metadata"]["uid"], None)
            return
        is_placed = node_of(new) and (old is None or not node_of(old))
        is_changed = old is not None and old["spec"].get("tolerations") != new["spec"].get(
            "tolerations"
        )
        if is_placed or is_changed:
            self.queue.add(key_of(new))

    def _follow_node(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None:
            return
        if old is not None and _driving(old) == _driving(new):
            return
        if old is None and not _driving(new):
            return
        for pod in self._pods.by_index(_BY_NODE, new["metadata"]["name"]):
            self.queue.add(key_of(pod))


def _driving(node: JsonObject) -> list[JsonObject]:
    taints = (node.get("spec") or {}).get("taints") or []
    return [taint for taint in taints if taint.get("effect") == NO_EXECUTE]


def _tolerated_seconds(pod: JsonObject, taints: list[JsonObject]) -> int | None:
    """How long a pod may stay: 0 not at all, None for ever."""
    if not taints:
        return None
    given = pod["spec"].get("tolerations") or []
    compiled = read_tolerations(given)
    limits: list[int] = []
    for taint in read_taints(taints):
        fitting = [
            toleration
            for toleration, rule in zip(given, compiled, strict=True)
            if rule.covers(taint)
        ]
        if not fitting:
            return 0
        limits += [
            max(0, int(toleration["tolerationSeconds"]))
            for toleration in fitting
            if "tolerationSeconds" in toleration
        ]
    return min(limits, default=None)


def _beginning(taints: list[JsonObject], pod: JsonObject, now: datetime) -> datetime:
    """When a pod's toleration period began: with the taint, or when the pod was bound after it."""
    moments = [parse_timestamp(taint["timeAdded"]) for taint in taints if taint.get("timeAdded")]
    started = (pod.get("status") or {}).get("startTime")
    begun = [*moments, *([parse_timestamp(started)] if started and moments else [])]
    return min(max(begun), now) if begun else now
