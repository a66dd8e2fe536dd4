"""The Deployment that represents the controllers in a sandbox, as in a real installation.

The controllers run in the sandbox's process and on no node. So kube-scheduler must ignore their
pod: it names this command as its scheduler, which marks it as running. Its log is that of the
controllers.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.kubelet import status as report
from karpenter_sandbox.log_ring import LogRing, LogSource
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Controller, ignoring_missing

NAME: Final = "karpenter"
NAMESPACE: Final = "karpenter"
SCHEDULER: Final = "karpenter-sandbox"
LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}
_OURS: Final = {"app.kubernetes.io/managed-by": SCHEDULER}
_ADDRESS: Final = "127.0.0.1"
_PARTS: Final = frozenset({"Deployment", "ReplicaSet", "Pod"})


def objects() -> tuple[JsonObject, ...]:
    """What an installation of the controllers begins with, in the order of creation."""
    place = {"name": NAME, "namespace": NAMESPACE, "labels": {**LABELS, **_OURS}}
    template = {
        "metadata": {"labels": dict(LABELS)},
        "spec": {
            "serviceAccountName": NAME,
            "schedulerName": SCHEDULER,
            "hostNetwork": True,
            "priorityClassName": "system-cluster-critical",
            "containers": [{"name": "controller", "image": "karpenter"}],
        },
    }
    spec = {"replicas": 1, "selector": {"matchLabels": dict(LABELS)}, "template": template}
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": place},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": place, "spec": spec},
    )


def runs_here(pod: Mapping[str, Any]) -> bool:
    """Whether a pod stands for the controllers of the sandbox."""
    is_there: bool = pod["metadata"].get("namespace") == NAMESPACE
    return is_there and pod["spec"].get("schedulerName") == SCHEDULER


def is_about_it(event: Mapping[str, Any]) -> bool:
    """Whether an event is about the Deployment or what it is made of."""
    about = event.get("involvedObject") or {}
    is_part = about.get("kind") in _PARTS and about.get("namespace") == NAMESPACE
    name = str(about.get("name", ""))
    return is_part and (name == NAME or name.startswith(f"{NAME}-"))


@asynccontextmanager
async def deployed(cluster: Cluster, ring: LogRing) -> AsyncIterator[None]:
    """Have the Deployment in a cluster, with a log, for as long as a block runs.

    Existing objects of those names are not changed: they were kept from the last run, or are the
    user's.
    """
    source = LogSource(NAMESPACE, SCHEDULER, ring)
    cluster.backend.logs.append(source)
    for obj in objects():
        if await cluster.find(obj) is None:
            await cluster.client.create(obj)
    controller = InProcessPods(cluster, ring)
    task = asyncio.create_task(controller.run(), name=controller.name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        cluster.backend.logs.remove(source)


async def undeploy(cluster: Cluster) -> None:
    """Remove the Deployment that an earlier run with controllers left, never a user's own."""
    *_, deployment = objects()
    known = await cluster.find(deployment)
    labels = known["metadata"].get("labels") or {} if known is not None else {}
    if labels.items() >= _OURS.items():
        await cluster.client.delete("apps/v1", "Deployment", NAMESPACE, NAME)


class InProcessPods(Controller):
    """Marks the pods that stand for this process as running."""

    name = "in-process-pods"

    def __init__(self, cluster: Cluster, ring: LogRing) -> None:
        super().__init__(cluster.runtime)
        self._client = cluster.client
        self._ring = ring
        self._started: set[str] = set()  # uids of the pods that this process has started
        self._pods = cluster.runtime.informer("v1", "pods")
        self._pods.on_change(self._on_pod)

    def _on_pod(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is not None and runs_here(new):
            self.queue.add((new["metadata"]["namespace"], new["metadata"]["name"]))
        elif new is None and old is not None and runs_here(old):
            self._started.discard(old["metadata"]["uid"])
            self._ring.wake()  # a follower of this pod's log has reached its end

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Start a pod; one of an earlier run has been restarted with this process."""
        pod = self._pods.get(*key)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return None
        uid = pod["metadata"]["uid"]
        if uid in self._started:
            return None
        is_kept = (pod.get("status") or {}).get("phase") == "Running"
        restarts = report.restart_count(pod) + 1 if is_kept else 0
        now = timestamp(self.clock.now())
        status = report.running(pod, _ADDRESS, _ADDRESS, now, restarts=restarts)
        await ignoring_missing(self._client.patch_status("v1", "pods", *key, status))
        self._started.add(uid)
        return None
