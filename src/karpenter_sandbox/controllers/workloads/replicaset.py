"""ReplicaSets and ReplicationControllers: as many pods of one template as asked for.

A ReplicationController is the older form, with a plain map of labels for a selector.
"""

from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.owning import (
    BURST,
    BY_CONTROLLER,
    FAILED_CREATE,
    OwningController,
    is_terminating_namespace,
    nonzero,
)
from karpenter_sandbox.controllers.pods import (
    from_template,
    is_active,
    is_available,
    is_finished,
    is_leaving,
    is_ready,
    next_available,
)
from karpenter_sandbox.controllers.workloads.victims import victims
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Runtime, controller_of, controller_uids
from karpenter_sandbox.status import ApiError

_FAILURE: Final = "ReplicaFailure"


class ReplicaSetController(OwningController):
    name = "replicaset-controller"
    resource = "replicasets"
    kind = "ReplicaSet"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._pods = runtime.informer("v1", "pods")
        self.owners.add_index(BY_CONTROLLER, controller_uids)
        self.own(self._pods)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Create or delete pods until there are as many as asked for."""
        replica_set = self.owners.get(*key)
        if replica_set is None:
            return None
        pods = await self.owned(replica_set, self._pods)
        failure: ApiError | None = None
        if not is_leaving(replica_set):
            try:
                await self._adjust(replica_set, [pod for pod in pods if is_active(pod)])
            except ApiError as error:
                failure = error
        pods = self._pods.by_index(BY_CONTROLLER, replica_set["metadata"]["uid"])
        status = self.status_of(replica_set, pods, failure)
        await self.write_status(replica_set, status)
        if failure is not None:
            raise failure
        seconds = replica_set["spec"].get("minReadySeconds", 0)
        return next_available(pods, seconds, self.clock.now())

    async def _adjust(self, replica_set: JsonObject, active: list[JsonObject]) -> None:
        surplus = len(active) - wanted(replica_set)
        if surplus > 0:
            related = self._related(replica_set)
            for pod in victims(active, related, min(surplus, BURST), self.clock.now()):
                await self.delete_pod(replica_set, pod)
        for _ in range(min(-surplus, BURST)):
            pod = from_template(replica_set["spec"]["template"], replica_set)
            try:
                await self.create_pod(replica_set, pod)
            except ApiError as error:
                if is_terminating_namespace(error):
                    return
                raise
        if abs(surplus) > BURST:
            self.queue.add((replica_set["metadata"]["namespace"], replica_set["metadata"]["name"]))

    def _related(self, replica_set: JsonObject) -> list[JsonObject]:
        """The pods of all sets with the same owner, this one included."""
        owner = controller_of(replica_set)
        sets = self.owners.by_index(BY_CONTROLLER, owner["uid"]) if owner else [replica_set]
        return [
            pod
            for sister in sets
            for pod in self._pods.by_index(BY_CONTROLLER, sister["metadata"]["uid"])
        ]

    def status_of(
        self, owner: JsonObject, pods: list[JsonObject], failure: ApiError | None
    ) -> JsonObject:
        """The status fields that count the pods of an owner."""
        spec, now = owner["spec"], self.clock.now()
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        active = [pod for pod in pods if is_active(pod)]
        ready = [pod for pod in active if is_ready(pod)]
        seconds = spec.get("minReadySeconds", 0)
        known = owner.get("status") or {}
        return {
            "replicas": len(active),
            **nonzero(
                {
                    "fullyLabeledReplicas": sum(_carries(pod, labels) for pod in active),
                    "readyReplicas": len(ready),
                    "availableReplicas": sum(is_available(pod, seconds, now) for pod in ready),
                    "observedGeneration": owner["metadata"].get("generation", 0),
                    "conditions": self._conditions(owner, known, active, failure),
                }
            ),
            "terminatingReplicas": sum(is_leaving(pod) and not is_finished(pod) for pod in pods),
        }

    def _conditions(
        self,
        replica_set: JsonObject,
        status: JsonObject,
        active: list[JsonObject],
        failure: ApiError | None,
    ) -> list[JsonObject]:
        others = [c for c in status.get("conditions") or [] if c["type"] != _FAILURE]
        if failure is None:
            return others
        known = find_condition(replica_set, _FAILURE)
        if known is not None:
            return [*others, known]
        is_short = len(active) < wanted(replica_set)
        condition: dict[str, Any] = {
            "type": _FAILURE,
            "status": "True",
            "reason": FAILED_CREATE if is_short else "FailedDelete",
            "message": str(failure),
            "lastTransitionTime": timestamp(self.clock.now()),
        }
        return [*others, condition]


def wanted(owner: JsonObject) -> int:
    """How many replicas are asked for."""
    count: int = owner["spec"].get("replicas", 1)
    return count


def _carries(pod: JsonObject, labels: dict[str, str]) -> bool:
    return labels.items() <= (pod["metadata"].get("labels") or {}).items()


class ReplicationController(ReplicaSetController):
    name = "replication-controller"
    api_version = "v1"
    resource = "replicationcontrollers"
    kind = "ReplicationController"

    def written_selector(self, owner: JsonObject) -> Any:
        """The selector of an owner, in the form that newer kinds write."""
        return {"matchLabels": owner["spec"].get("selector") or {}}

    def status_of(
        self, owner: JsonObject, pods: list[JsonObject], failure: ApiError | None
    ) -> JsonObject:
        """The status of a ReplicationController, which has no field for terminating pods."""
        status = super().status_of(owner, pods, failure)
        return {key: value for key, value in status.items() if key != "terminatingReplicas"}
