"""The pod garbage collector: pods without a kubelet, and too many finished ones."""

from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import with_condition
from karpenter_sandbox.controllers.nodes.taints import readiness
from karpenter_sandbox.controllers.owning import by_age
from karpenter_sandbox.controllers.pods import is_finished, is_leaving, node_of
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing

# Grace period of a missing node: it may register again under the same name
_QUARANTINE: Final = 40.0
_MOST_FINISHED: Final = 12_500
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class PodGarbageCollector(Controller):
    name = "pod-garbage-collector"
    period = 20.0

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._pods = runtime.informer("v1", "pods")
        self._nodes = runtime.informer("v1", "nodes")
        self._gone: dict[str, float] = {}  # missing node -> when it was first missing

    async def tick(self) -> None:
        """Delete the pods that no other component deletes."""
        pods = self._pods.list()
        await self._delete_finished(pods)
        await self._delete_out_of_service(pods)
        await self._delete_lost(pods)
        for pod in pods:
            if is_leaving(pod) and not node_of(pod):
                await self._delete(pod, "")

    async def _delete_finished(self, pods: list[JsonObject]) -> None:
        finished = [pod for pod in pods if is_finished(pod)]
        for pod in by_age(finished)[: max(0, len(finished) - _MOST_FINISHED)]:
            await self._delete(pod, "")

    async def _delete_lost(self, pods: list[JsonObject]) -> None:
        """Delete pods whose node has been gone for a while."""
        now = self.clock.monotonic()
        present = {node["metadata"]["name"] for node in self._nodes.list()}
        missing = {node_of(pod) for pod in pods} - present - {""}
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
