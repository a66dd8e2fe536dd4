"""The kubelet of a few nodes on a real control plane, whose containers are processes of this machine.

A pod of the chart that is bound to one of its nodes becomes a ``karpenter controller`` with the pod's
environment and a token that is bound to the pod, as a kubelet would mount it, so the audit log tells
which pod asked for what. The pod is ready when the process says so. A pod that is deleted is asked to
end, and gone when its process is; after its grace period it is killed.
"""

import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from control_plane.cluster import ControlPlane, RefusedError
from helpers.real_cluster import Controller

Json = dict[str, Any]

_POLL_SECONDS: Final = 0.25
_HEARTBEAT_SECONDS: Final = 10.0
_SIZE: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_MERGE: Final = "application/merge-patch+json"
# Settings with ports: processes share one machine, so each gets free ones
_PORTS: Final = frozenset({"METRICS_PORT", "HEALTH_PROBE_PORT"})


class ProcessKubelet:
    """Runs the pods of a namespace that are bound to its nodes."""

    def __init__(self, plane: ControlPlane, namespace: str, nodes: tuple[str, ...]) -> None:
        self._plane = plane
        self._pods_path = f"/api/v1/namespaces/{namespace}/pods"
        self._accounts_path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self._nodes = nodes
        self.processes: Final[dict[str, Controller]] = {}  # by the name of the pod, ended ones too
        self._ending: dict[str, float] = {}  # pods that were asked to end, and until when
        self._stopped = threading.Event()
        self._beat = 0.0
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Register the nodes, and run pods from now on."""
        for name in self._nodes:
            self._plane.send("POST", "/api/v1/nodes", _node(name))
        self._heartbeat()
        self._thread.start()

    def stop(self) -> None:
        """End, and every process with it.

        Raises:
            BaseException: what went wrong meanwhile.
        """
        self._stopped.set()
        self._thread.join()
        for each in self.processes.values():
            if each.process.poll() is None:
                each.process.kill()
                each.process.wait()
        if self.failure is not None:
            raise self.failure

    @property
    def alive(self) -> dict[str, Controller]:
        """The processes that run, by the name of the pod."""
        return {n: p for n, p in tuple(self.processes.items()) if p.process.poll() is None}

    def leaders(self) -> list[str]:
        """The pods that became leader and have not ended."""
        return [name for name, process in self.alive.items() if process.lines("became leader")]

    def _run(self) -> None:
        try:
            while not self._stopped.wait(_POLL_SECONDS):
                self._heartbeat()
                for pod in self._plane.send("GET", self._pods_path)["items"]:
                    if pod["spec"].get("nodeName") in self._nodes:
                        self._sync(pod)
        except BaseException as error:  # noqa: BLE001 raised again where the test can see it
            self.failure = error

    def _sync(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            self._end(pod)
        elif name not in self.processes:
            self.processes[name] = self._started(pod)
        elif self._is_ready(name) != _says_ready(pod):
            self._say(pod, is_ready=self._is_ready(name))

    def _started(self, pod: Json) -> Controller:
        name = pod["metadata"]["name"]
        wish = {
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": name,
                "uid": pod["metadata"]["uid"],
            }
        }
        account = f"{self._accounts_path}/{pod['spec']['serviceAccountName']}/token"
        token = self._plane.send("POST", account, {"spec": wish})["status"]["token"]
        folder = self._plane.folder
        kubeconfig = self._plane.write_kubeconfig(folder / f"{name}.kubeconfig", {"token": token})
        (container,) = pod["spec"]["containers"]
        environment = {
            each["name"]: each["value"]
            for each in container["env"]
            if "value" in each and each["name"] not in _PORTS
        }
        return Controller(kubeconfig, folder / f"{name}.log", environment)

    def _is_ready(self, name: str) -> bool:
        process = self.processes[name]
        assert process.process.poll() is None, f"{name} ended by itself\n{process.text[-2000:]}"
        try:
            with urllib.request.urlopen(process.readiness_url, timeout=5) as answer:
                return bool(answer.status == HTTPStatus.OK)
        except OSError:
            return False

    def _end(self, pod: Json) -> None:
        name = pod["metadata"]["name"]
        process = self.processes.get(name)
        if process is not None and process.process.poll() is None:
            if name not in self._ending:
                grace = pod["metadata"]["deletionGracePeriodSeconds"]
                self._ending[name] = time.monotonic() + grace
                process.process.terminate()
            elif time.monotonic() > self._ending[name]:
                process.process.kill()
            return
        with suppress(RefusedError):  # it is gone already
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            self._plane.send("DELETE", f"{self._pods_path}/{name}", body)

    def _say(self, pod: Json, *, is_ready: bool) -> None:
        now, status = _now(), "True" if is_ready else "False"
        kinds = {"Initialized": "True", "PodScheduled": "True"}
        conditions = [
            {"type": kind, "status": value, "lastTransitionTime": now}
            for kind, value in (kinds | {"ContainersReady": status, "Ready": status}).items()
        ]
        body = {"status": {"phase": "Running", "startTime": now, "conditions": conditions}}
        with suppress(RefusedError):  # it is gone already
            path = f"{self._pods_path}/{pod['metadata']['name']}/status"
            self._plane.send("PATCH", path, body, content_type=_MERGE)

    def _heartbeat(self) -> None:
        if time.monotonic() < self._beat:
            return
        self._beat = time.monotonic() + _HEARTBEAT_SECONDS
        now = _now()
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        body = {"status": {"conditions": [{**ready, **times}]}}
        for name in self._nodes:
            path = f"/api/v1/nodes/{name}/status"
            self._plane.send("PATCH", path, body, content_type=_MERGE)


@contextmanager
def process_kubelet(
    plane: ControlPlane, namespace: str, nodes: tuple[str, ...] = ("first", "second")
) -> Iterator[ProcessKubelet]:
    """A kubelet for as long as a block runs."""
    kubelet = ProcessKubelet(plane, namespace, nodes)
    kubelet.start()
    try:
        yield kubelet
    finally:
        kubelet.stop()


def _says_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _node(name: str) -> Json:
    labels = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{name}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": _SIZE, "allocatable": _SIZE},
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
