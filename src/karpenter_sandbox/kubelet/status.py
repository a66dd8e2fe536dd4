"""What kubelets report of nodes and pods: pure functions from objects to statuses."""

import hashlib
import uuid
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.conditions import is_true
from karpenter_sandbox.kinds.served import version_info
from karpenter_sandbox.kubelet.faults import KWOK_STAGE, Fault

RUNTIME: Final = "containerd"
_RUNTIME_VERSION: Final = "containerd://2.1.5"
_KUBELET_PORT: Final = 10250
_ARCHITECTURE: Final = "kubernetes.io/arch"
_OPERATING_SYSTEM: Final = "kubernetes.io/os"
_HOSTNAME: Final = "kubernetes.io/hostname"
_REGION: Final = "topology.kubernetes.io/region"
DEFAULT_REGION: Final = "sandbox"  # of nodes whose cloud names none
# The deprecated labels that Kubernetes still writes beside the stable ones
_OLD_SPELLINGS: Final = {
    "beta.kubernetes.io/arch": _ARCHITECTURE,
    "beta.kubernetes.io/os": _OPERATING_SYSTEM,
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/region": _REGION,
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}
# kwok's capacity for nodes that state none
_DEFAULT_CAPACITY: Final = {"cpu": "1k", "memory": "1Ti", "pods": "1M"}
_PRESSURES: Final = (
    ("MemoryPressure", Fault.MEMORY_PRESSURE, "InsufficientMemory", "SufficientMemory"),
    ("DiskPressure", Fault.DISK_PRESSURE, "DiskPressure", "NoDiskPressure"),
    ("PIDPressure", Fault.PID_PRESSURE, "InsufficientPID", "SufficientPID"),
)
_PRESSURE_TEXTS: Final = {
    "InsufficientMemory": "kubelet has insufficient memory available",
    "SufficientMemory": "kubelet has sufficient memory available",
    "DiskPressure": "kubelet has disk pressure",
    "NoDiskPressure": "kubelet has no disk pressure",
    "InsufficientPID": "kubelet has insufficient PID available",
    "SufficientPID": "kubelet has sufficient PID available",
}

_BROKEN: Final = "[container runtime is down, PLEG is not healthy]"
_BOOTING: Final = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady"
    " message:Network plugin returns error: cni plugin not initialized"
)


def node_conditions(
    node: JsonObject, fault: Fault | None, now: str, *, is_booting: bool = False
) -> list[JsonObject]:
    """The conditions that a node's kubelet reports, keeping the times of those that stay."""
    conditions = [
        _node_condition(
            kind,
            fault is pressure,
            f"KubeletHas{bad if fault is pressure else good}",
            _PRESSURE_TEXTS[bad if fault is pressure else good],
        )
        for kind, pressure, bad, good in _PRESSURES
    ]
    trouble = _BROKEN if fault is Fault.NOT_READY else _BOOTING if is_booting else ""
    reason = "KubeletNotReady" if trouble else "KubeletReady"
    message = trouble or "kubelet is posting ready status"
    conditions.append(_node_condition("Ready", not trouble, reason, message))
    known = {c["type"]: c for c in (node.get("status") or {}).get("conditions") or ()}
    ours = {condition["type"] for condition in conditions}
    for condition in conditions:
        before = known.get(condition["type"], {})
        condition["lastHeartbeatTime"] = now
        same = before.get("status") == condition["status"]
        condition["lastTransitionTime"] = before.get("lastTransitionTime", now) if same else now
    return [*(c for name, c in known.items() if name not in ours), *conditions]


def _node_condition(kind: str, is_true: bool, reason: str, message: str) -> JsonObject:
    status = "True" if is_true else "False"
    return {"type": kind, "status": status, "reason": reason, "message": message}


def says_the_same(node: JsonObject, conditions: list[JsonObject]) -> bool:
    """Whether a node has these conditions already, whatever their times."""
    known = (node.get("status") or {}).get("conditions") or ()
    return {_meaning(c) for c in known} == {_meaning(c) for c in conditions}


def _meaning(condition: JsonObject) -> tuple[object, ...]:
    return condition["type"], condition["status"], condition.get("reason"), condition.get("message")


def node_labels(node: JsonObject) -> JsonObject:
    """The labels that kubelet and cloud controller write on a node, as far as it lacks them."""
    held = node["metadata"].get("labels") or {}
    wanted = {_REGION: DEFAULT_REGION, **held}
    wanted |= {old: wanted[now] for old, now in _OLD_SPELLINGS.items() if now in wanted}
    return {key: value for key, value in wanted.items() if key not in held}


def node_status(node: JsonObject, address: str) -> JsonObject:
    """The part of a node's status that a kubelet reports once, at its registration."""
    status = node.get("status") or {}
    labels = node["metadata"].get("labels") or {}
    name = node["metadata"]["name"]
    machine = node["metadata"].get("uid") or name
    capacity = {**_DEFAULT_CAPACITY, **(status.get("capacity") or {})}
    return {
        "capacity": capacity,
        "allocatable": {**capacity, **(status.get("allocatable") or {})},
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": labels.get(_HOSTNAME, name)},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": _KUBELET_PORT}},
        "nodeInfo": {
            "architecture": labels.get(_ARCHITECTURE, "amd64"),
            "bootID": str(uuid.uuid5(uuid.NAMESPACE_OID, f"boot {machine}")),
            "containerRuntimeVersion": _RUNTIME_VERSION,
            "kernelVersion": "6.12.0-sandbox",
            "kubeProxyVersion": "",
            "kubeletVersion": kubelet_version(),
            "machineID": uuid.uuid5(uuid.NAMESPACE_OID, machine).hex,
            "operatingSystem": labels.get(_OPERATING_SYSTEM, "linux"),
            "osImage": "Karpenter Sandbox",
            "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_OID, machine)),
        },
        "phase": "Running",
    }


def kubelet_version() -> str:
    """The version that simulated kubelets claim to have: that of the API server."""
    version: str = version_info()["gitVersion"]
    return version.split("+")[0]


def is_unhealthy(pod: JsonObject) -> bool:
    """Whether a pod is declared to run without ever becoming ready."""
    return (pod["metadata"].get("labels") or {}).get(KWOK_STAGE) == "unhealthy"


def running(
    pod: JsonObject, address: str, node_address: str, now: str, *, restarts: int = 0
) -> JsonObject:
    """The status of a pod whose containers have just started."""
    if is_unhealthy(pod):
        status = _status(pod, "Unknown", now, is_ready=False)
        return {**status, **_addresses(address, node_address), "startTime": now}
    before = pod.get("status") or {}
    spec = pod["spec"]
    started = {"running": {"startedAt": now}}
    status = _status(pod, "Running", now, is_ready=not _missing_gates(pod))
    status |= _addresses(address, node_address)
    status["startTime"] = before.get("startTime") or now
    status["containerStatuses"] = [
        _container(pod, container, started, restarts=restarts, is_ready=True)
        for container in spec["containers"]
    ]
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container(
                pod,
                container,
                started if _is_sidecar(container) else _completed(now, now, 0),
                restarts=0,
                is_ready=True,
            )
            for container in spec["initContainers"]
        ]
    return status


def changed_readiness(pod: JsonObject, now: str) -> list[JsonObject] | None:
    """The conditions of a running pod that is ready, or not, unlike its status says, else None."""
    status = pod.get("status") or {}
    if status.get("phase") != "Running" or is_unhealthy(pod) or _is_waiting(pod):
        return None
    if not pod["spec"].get("readinessGates") and is_true(pod, "Ready"):
        return None  # so are almost all pods at almost all times
    known = status.get("conditions") or []
    conditions: list[JsonObject] = _status(pod, "Running", now, is_ready=not _missing_gates(pod))[
        "conditions"
    ]
    before = {_meaning(condition) for condition in known}
    return conditions if before != {_meaning(condition) for condition in conditions} else None


def _is_waiting(pod: JsonObject) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("waiting" in (status.get("state") or {}) for status in statuses)


def exited(pod: JsonObject, code: int, started: str, now: str) -> JsonObject:
    """The status of a pod whose containers have exited for good."""
    phase = "Failed" if code else "Succeeded"
    status = _status(
        pod, phase, now, is_ready=False, reason="PodFailed" if code else "PodCompleted"
    )
    status["containerStatuses"] = [
        _container(
            pod,
            container,
            _completed(started, now, code),
            restarts=restart_count(pod),
            is_ready=False,
        )
        for container in pod["spec"]["containers"]
    ]
    return status


def waiting_to_restart(pod: JsonObject, code: int, started: str, now: str) -> JsonObject:
    """The status of a pod whose containers exited and will be started again."""
    status = _status(pod, "Running", now, is_ready=False)
    delay = restart_delay(restart_count(pod))
    message = (
        f"back-off {delay:g}s restarting failed container={pod['spec']['containers'][0]['name']}"
    )
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    status["containerStatuses"] = [
        {
            **_container(pod, container, state, restarts=restart_count(pod), is_ready=False),
            "lastState": _completed(started, now, code),
        }
        for container in pod["spec"]["containers"]
    ]
    return status


def restart_delay(restarts: int) -> float:
    """How long containers wait before they are started again: not at all the first time."""
    return min(10.0 * 2.0 ** min(restarts - 1, 10), 300.0) if restarts else 0.0


def restart_count(pod: JsonObject) -> int:
    """How often the containers of a pod have been started again."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((status.get("restartCount") or 0 for status in statuses), default=0)


def _status(
    pod: JsonObject, phase: str, now: str, *, is_ready: bool, reason: str = ""
) -> JsonObject:
    before = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or ()}
    names = [container["name"] for container in pod["spec"]["containers"]]
    not_ready = {
        "reason": reason or "ContainersNotReady",
        "message": f"containers with unready status: [{' '.join(names)}]",
    }
    if missing := _missing_gates(pod):
        gates = {"reason": "ReadinessGatesNotReady"}
        gates["message"] = (
            f'corresponding condition of pod readiness gate "{missing[0]}" does not exist.'
        )
    else:
        gates = not_ready
    if reason:
        del not_ready["message"]
    ours: list[tuple[str, bool, JsonObject]] = [
        ("PodReadyToStartContainers", phase == "Running", {}),
        ("Initialized", True, {"reason": reason} if reason else {}),
        ("Ready", is_ready, {} if is_ready else gates if phase == "Running" else not_ready),
        ("ContainersReady", is_ready or bool(missing), {} if is_ready or missing else not_ready),
        ("PodScheduled", True, {}),
    ]
    conditions = []
    for kind, holds, why in ours:
        condition: JsonObject = {"type": kind, "status": str(holds), "lastProbeTime": None, **why}
        if generation := pod["metadata"].get("generation"):
            condition["observedGeneration"] = generation
        known = before.pop(kind, {})
        same = known.get("status") == condition["status"]
        condition["lastTransitionTime"] = known.get("lastTransitionTime", now) if same else now
        conditions.append(condition)
    status: JsonObject = {"phase": phase, "conditions": [*before.values(), *conditions]}
    if generation := pod["metadata"].get("generation"):
        status["observedGeneration"] = generation
    return status


def _missing_gates(pod: JsonObject) -> list[str]:
    known = {
        c["type"]
        for c in (pod.get("status") or {}).get("conditions") or ()
        if c["status"] == "True"
    }
    return [
        gate["conditionType"]
        for gate in pod["spec"].get("readinessGates") or ()
        if gate["conditionType"] not in known
    ]


def _addresses(address: str, node_address: str) -> JsonObject:
    return {
        "hostIP": node_address,
        "hostIPs": [{"ip": node_address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
    }


def _container(
    pod: JsonObject, container: JsonObject, state: JsonObject, *, restarts: int, is_ready: bool
) -> JsonObject:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"{image.split(':')[0]}@sha256:{hashlib.sha256(image.encode()).hexdigest()}",
        "containerID": _container_id(pod, container, restarts),
        "ready": is_ready,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }


def _container_id(pod: JsonObject, container: JsonObject, restarts: int) -> str:
    identity = f"{pod['metadata'].get('uid')} {container['name']} {restarts}"
    return f"{RUNTIME}://{hashlib.sha256(identity.encode()).hexdigest()}"


def _completed(started: str, finished: str, code: int) -> JsonObject:
    reason = "Error" if code else "Completed"
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "startedAt": started,
            "finishedAt": finished,
        }
    }


def _is_sidecar(container: JsonObject) -> bool:
    return container.get("restartPolicy") == "Always"
