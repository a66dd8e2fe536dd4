"""What the scheduler reads beside pods and nodes: storage, workloads and disruption budgets."""

from collections.abc import Hashable

from karpenter.api.meta import JsonObject
from karpenter_sandbox.matching import (
    EVERYTHING,
    Requirement,
    Selector,
    exact_selector,
    read_selector,
)
from karpenter_sandbox.runtime.informer import Informer
from karpenter_sandbox.runtime.runtime import Runtime
from karpenter_sandbox.scheduling.preemption import Budget, read_budget
from karpenter_sandbox.scheduling.shapes import PodInfo


class StorageMirror:
    """Claims, volumes and storage classes."""

    def __init__(self, runtime: Runtime, pods: Informer) -> None:
        self.claims = runtime.informer("v1", "persistentvolumeclaims")
        self.persistent_volumes = runtime.informer("v1", "persistentvolumes")
        self.classes = runtime.informer("storage.k8s.io/v1", "storageclasses")
        self._pods = pods
        pods.add_index("claim", _claims_of)

    def claim(self, namespace: str, name: str) -> JsonObject | None:
        return self.claims.get(namespace, name)

    def volume(self, name: str) -> JsonObject | None:
        return self.persistent_volumes.get("", name) if name else None

    def volumes(self) -> list[JsonObject]:
        return self.persistent_volumes.list()

    def storage_class(self, name: str) -> JsonObject | None:
        return self.classes.get("", name)

    def pods_using(self, namespace: str, claim: str) -> int:
        pods = self._pods.by_index("claim", (namespace, claim))
        return sum(bool(pod["spec"].get("nodeName")) for pod in pods)


def _claims_of(pod: JsonObject) -> list[Hashable]:
    namespace = pod["metadata"].get("namespace", "")
    return [
        (namespace, volume["persistentVolumeClaim"]["claimName"])
        for volume in pod["spec"].get("volumes") or ()
        if volume.get("persistentVolumeClaim")
    ]


class WorkloadMirror:
    """Services and controllers, which say which pods belong together."""

    def __init__(self, runtime: Runtime) -> None:
        self._owners = {
            "ReplicaSet": runtime.informer("apps/v1", "replicasets"),
            "StatefulSet": runtime.informer("apps/v1", "statefulsets"),
            "ReplicationController": runtime.informer("v1", "replicationcontrollers"),
        }
        self._services = runtime.informer("v1", "services")
        self._services.add_index("namespace", lambda obj: (obj["metadata"]["namespace"],))
        self._known: dict[Hashable, Selector | None] = {}
        for informer in (*self._owners.values(), self._services):
            informer.on_change(self._forget_on_new_selector)

    def selector_of(self, pod: PodInfo) -> Selector | None:
        """The selector of the services and the controller a pod belongs to, if any."""
        for informer in self._owners.values():
            informer.refresh()
        self._services.refresh()
        key = (pod.owner, pod.key[0], tuple(pod.labels.items()))
        if key not in self._known:
            self._known[key] = self._find(pod)
        return self._known[key]

    def _find(self, pod: PodInfo) -> Selector | None:
        requirements: list[Requirement] = []
        for service in self._services.by_index("namespace", pod.key[0]):
            selector = service["spec"].get("selector")
            if selector and exact_selector(selector).matches(pod.labels):
                requirements.extend(exact_selector(selector).requirements or ())
        requirements.extend(self._of_owner(pod).requirements or ())
        merged = EVERYTHING.narrowed(requirements)
        return None if merged.is_empty else merged

    def _of_owner(self, pod: PodInfo) -> Selector:
        for reference in pod.obj["metadata"].get("ownerReferences") or ():
            if reference.get("controller") and reference["kind"] in self._owners:
                owner = self._owners[reference["kind"]].get(pod.key[0], reference["name"])
                if owner is None:
                    continue
                selector = owner["spec"].get("selector")
                if reference["kind"] == "ReplicationController":
                    return exact_selector(selector or {})
                return read_selector(selector)
        return EVERYTHING

    def _forget_on_new_selector(self, old: JsonObject | None, new: JsonObject | None) -> None:
        before = old["spec"].get("selector") if old is not None else None
        after = new["spec"].get("selector") if new is not None else None
        if before != after:
            self._known.clear()


class BudgetMirror:
    """Disruption budgets, read once per change."""

    def __init__(self, runtime: Runtime) -> None:
        self._budgets = runtime.informer("policy/v1", "poddisruptionbudgets")

    def read(self) -> list[Budget]:
        """All budgets as they are now."""
        return [read_budget(budget) for budget in self._budgets.list()]
