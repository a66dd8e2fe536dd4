"""ReplicationControllers: the older form of ReplicaSets, with a plain map of labels for a selector."""

from typing import Any

from karpenter.sandbox.controllers.informer import JsonObject
from karpenter.sandbox.controllers.replicaset import ReplicaSetController
from karpenter.sandbox.status import ApiError


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
        """The status of a controller, which does not count pods on their way out."""
        status = super().status_of(owner, pods, failure)
        return {key: value for key, value in status.items() if key != "terminatingReplicas"}
