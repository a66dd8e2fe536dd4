"""The pod garbage collector: pods without a kubelet, and too many finished ones."""

from collections.abc import Hashable
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import with_condition
from karpenter_sandbox.controllers.nodes.taints import readiness
from karpenter_sandbox.controllers.owning import by_age
from karpenter_sandbox.controllers.pods import is_finished, is_leaving, node_of, nodes_of
from karpenter_sandbox.runtime.informer import ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing

# Grace period of a missing node: it may register again under the same name
_QUARANTINE: Final = 40.0
_MOST_FINISHED: Final = 12_500
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_BY_NODE: Final = "node"


class PodGarbageCollector(Controller):
    name = "pod-garbage-collector"
    period = 20.0

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._pods = runtime.informer("v1", "pods")
        self._pods.add_index(_BY_NODE, nodes_of)
        self._pods.on_change(self._sort)
        self._nodes = runtime.informer("v1", "nodes")
        self._ending: set[ObjectKey] = set()  # pods that have finished or are leaving
        self._gone: dict[str, float] = {}  # missing node -> when it was first missing

    def _sort(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None and (is_leaving(new) or is_finished(new)):
            self._ending.add(key_of(new))
        elif old is not None:
            self._ending.discard(key_of(old))

    async def tick(self) -> None:
        """Delete the pods that no other component deletes."""
        pods, hosts = self._pods.list(), set(self._pods.values(_BY_NODE))
        ending = [pod for pod in pods if key_of(pod) in self._ending] if self._ending else []
        await self._delete_finished(ending)
        await self._delete_out_of_service(ending)
        await self._delete_lost(pods, hosts)
        for pod in ending:
            if is_leaving(pod) and not node_of(pod):
                await self._delete(pod, "")

    async def _delete_finished(self, pods: list[JsonObject]) -> None:
        finished = [pod for pod in pods if is_finished(pod)]
        for pod in by_age(finished)[: max(0, len(finished) - _MOST_FINISHED)]:
            await self._delete(pod, "")

    async def _delete_lost(self, pods: list[JsonObject], hosts: set[Hashable]) -> None:
        """Delete pods whose node has been gone for a while; ``hosts`` are the nodes of pods."""
        now = self.clock.monotonic()
        present = {node["metadata"]["name"] for node in self._nodes.list()}
        missing = {str(name) for name in hosts} - present
        self._gone = {name: self._gone.get(name, now) for name in sorted(missing)}
        for pod in pods if missing else ():
            since = self._gone.get(node_of(pod))
            if since is not None and now - since >= _QUARANTINE:
                await self._delete(pod, "PodGC: node no longer exists")

    async def _delete_out_of_service(self, pods: list[JsonObject]) -> None:
        """Delete terminating pods on unready nodes with the out-of-service taint."""
        for pod in pods:
            node = self._nodes.get("", node_of(pod)) if is_leaving(pod) else None
            if node is None or readiness(node) == "True":
                continue
            taints = (node.get("spec") or {}).get("taints") or []
            if any(taint["key"] == _OUT_OF_SERVICE for taint in taints):
                await self._delete(pod, "PodGC: node out of service")

    async def _delete(self, pod: JsonObject, reason: str) -> None:
        metadata = pod["metadata"]
        if reason and not is_finished(pod):
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": reason,
            }
            failed = with_condition(pod, condition, timestamp(self.clock.now()))
            failed["status"] = {**failed["status"], "phase": "Failed"}
            await ignoring_missing(self._client.update_status(failed))
        await ignoring_missing(
            self._client.delete(
                "v1", "pods", metadata["namespace"], metadata["name"], grace_period=0
            )
        )
