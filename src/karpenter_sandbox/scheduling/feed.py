"""Updates the scheduler's state and queue from API changes."""

import dataclasses
from collections.abc import Callable

from karpenter.api.meta import JsonObject
from karpenter.clock import Clock
from karpenter_sandbox.runtime.informer import Informer
from karpenter_sandbox.runtime.runtime import Runtime
from karpenter_sandbox.scheduling.cluster import Cluster
from karpenter_sandbox.scheduling.nodes import read_node
from karpenter_sandbox.scheduling.placement import Change
from karpenter_sandbox.scheduling.queue import PodQueue
from karpenter_sandbox.scheduling.shapes import DEFAULT_SCHEDULER, PodInfo, Shapes, is_terminal
from karpenter_sandbox.scheduling.views import StorageMirror
from karpenter_sandbox.scheduling.volumes import volume_limits

_MOST_UNUSED_SHAPES = 1000


class Feed:
    """Turns changes of objects into changes of the scheduler's state."""

    def __init__(
        self,
        runtime: Runtime,
        pods: Informer,
        storage: StorageMirror,
        cluster: Cluster,
        queue: PodQueue,
        wake: Callable[[], None],
    ) -> None:
        self._clock: Clock = runtime.clock
        self._cluster = cluster
        self._queue = queue
        self._wake = wake
        self._shapes = Shapes()
        self.gated: dict[tuple[str, str], JsonObject] = {}  # pods that wait for their gates
        self._assumed: set[str] = set()  # pods whose place the API has not confirmed
        self._nodes = runtime.informer("v1", "nodes")
        self._namespaces = runtime.informer("v1", "namespaces")
        self._csi_nodes = runtime.informer("storage.k8s.io/v1", "csinodes")
        self._pods = pods
        self._namespaces.on_change(self._on_namespace)
        self._csi_nodes.on_change(self._on_csi_node)
        self._nodes.on_change(self._on_node)
        self._pods.on_change(self._on_pod)
        for informer in (storage.claims, storage.persistent_volumes, storage.classes):
            informer.on_change(self._on_storage)

    def refresh(self) -> None:
        """Apply the pending changes of all mirrors."""
        self._namespaces.refresh()
        self._csi_nodes.refresh()
        self._nodes.refresh()
        self._pods.refresh()

    def assume(self, pod: PodInfo, node: str) -> PodInfo:
        """Count a pod on a node before its binding is confirmed by a watch."""
        placed = dataclasses.replace(pod, node_name=node)
        self._queue.remove(pod.key)
        self._cluster.set_pod(placed)
        self._assumed.add(pod.uid)
        return placed

    def forget(self, pod: PodInfo) -> None:
        """Undo ``assume`` after a failed binding."""
        self._assumed.discard(pod.uid)
        self._cluster.remove_pod(pod.uid)
        self._changed(Change.POD_GONE)
        current = self._pods.get(*pod.key)
        if current is not None and current["metadata"].get("uid") == pod.uid:
            self._take_in(current)

    def current(self, pod: PodInfo) -> JsonObject | None:
        """A pod as it is now, if it is still there."""
        obj = self._pods.get(*pod.key)
        return obj if obj is not None and obj["metadata"].get("uid") == pod.uid else None

    def _on_namespace(self, old: JsonObject | None, new: JsonObject | None) -> None:
        obj = new or old
        assert obj is not None
        labels = new["metadata"].get("labels") or {} if new is not None else None
        self._cluster.set_namespace(obj["metadata"]["name"], labels)

    def _on_csi_node(self, old: JsonObject | None, new: JsonObject | None) -> None:
        obj = new or old
        assert obj is not None
        self._cluster.set_limits(obj["metadata"]["name"], volume_limits(new) if new else {})
        self._changed(Change.STORAGE)

    def _on_storage(self, old: JsonObject | None, new: JsonObject | None) -> None:
        self._changed(Change.STORAGE)

    def _on_node(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None:
            assert old is not None
            self._cluster.remove_node(old["metadata"]["name"])
            # fewer domains may satisfy a spread constraint
            self._changed(Change.NODE)
        elif self._cluster.set_node(read_node(new)):
            self._changed(Change.NODE)

    def _on_pod(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._drop(old)
        if new is None:
            return
        if is_terminal(new):
            self._drop(new)
        elif self._is_confirmation(old, new):
            self._assumed.discard(new["metadata"]["uid"])
            self._changed(Change.POD_CAME)
        elif not self._is_mere_status(old, new):
            self._take_in(new)

    def _is_confirmation(self, old: JsonObject | None, new: JsonObject) -> bool:
        """Whether a change only confirms the assumed node."""
        uid = new["metadata"]["uid"]
        if old is None or uid not in self._assumed:
            return False
        known = self._cluster.pods[uid]
        if (
            "deletionTimestamp" in new["metadata"]
            or known.labels != (new["metadata"].get("labels") or {})
            or {**old["spec"], "nodeName": known.node_name} != new["spec"]
        ):
            return False
        known.obj = new
        return True

    def _is_mere_status(self, old: JsonObject | None, new: JsonObject | None) -> bool:
        """Whether a change of a bound pod, like most, is irrelevant to placement."""
        if old is None or new is None:
            return False
        known = self._cluster.pods.get(new["metadata"]["uid"])
        if known is None or known.node_name != new["spec"].get("nodeName"):
            return False
        if known.uid in self._assumed:
            return False
        before, after = old["metadata"], new["metadata"]
        if (
            known.is_terminating != ("deletionTimestamp" in after)
            or before.get("labels") != after.get("labels")
            or before.get("generation") != after.get("generation")
        ):
            return False
        known.obj = new
        known.started = (new.get("status") or {}).get("startTime") or ""
        return True

    def _take_in(self, pod: JsonObject) -> None:
        info = self._shapes.read(pod)
        if info.node_name:
            self._take_in_placed(info)
        elif not self._is_ours(pod) or info.is_terminating:
            self._queue.remove(info.key)
        elif pod["spec"].get("schedulingGates"):
            self._queue.remove(info.key)
            self.gated[info.key] = pod
            self._wake()
        elif info.uid not in self._cluster.pods:
            self.gated.pop(info.key, None)
            self._queue.add(info, self._clock.monotonic())
            if info.nominated:
                self._cluster.nominate(info, info.nominated)
            self._wake()
        if len(self._shapes) > _MOST_UNUSED_SHAPES:
            self._prune_shapes()

    def _take_in_placed(self, pod: PodInfo) -> None:
        known = self._cluster.pods.get(pod.uid)
        self._queue.remove(pod.key)
        self._cluster.set_pod(pod)
        if known is None or pod.uid in self._assumed or known.labels != pod.labels:
            self._assumed.discard(pod.uid)
            self._changed(Change.POD_CAME)
        elif known.is_terminating != pod.is_terminating:
            self._changed(Change.POD_GONE)

    def _drop(self, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self._queue.remove(key)
        self.gated.pop(key, None)
        self._assumed.discard(metadata["uid"])
        was_placed = self._cluster.remove_pod(metadata["uid"]) is not None
        if was_placed or self._cluster.drop_nomination(metadata["uid"]):
            self._changed(Change.POD_GONE)

    def _is_ours(self, pod: JsonObject) -> bool:
        name: str = pod["spec"].get("schedulerName", DEFAULT_SCHEDULER)
        return name == DEFAULT_SCHEDULER

    def _changed(self, change: Change) -> None:
        self._queue.changed(change, self._clock.monotonic())
        self._wake()

    def _prune_shapes(self) -> None:
        used = {
            id(pod.shape): pod.shape for pod in (*self._cluster.pods.values(), *self._queue.pods())
        }
        if len(used) * 2 < len(self._shapes):
            self._shapes.prune(used.values())
