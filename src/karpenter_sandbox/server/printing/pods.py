"""Rows of pods: how many containers are ready, what state the pod is in, how often it restarted.

The state is the phase of the pod unless something says more: its init containers while they run,
then its containers, the last of them first, and finally its deletion.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from karpenter_sandbox.server.printing.parts import (
    NONE,
    Cells,
    JsonObject,
    Printer,
    age,
    at,
    columns,
    condition_status,
    name_of,
    read_time,
    since,
)

_TERMINAL: Final = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class _Tally:
    """What the statuses of containers add up to."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str | None = None

    def count_restarts(self, status: Mapping[str, Any]) -> None:
        self.restarts += at(status, "restartCount", default=0)
        finished = at(status, "lastState", "terminated", "finishedAt")
        moment, latest = read_time(finished), read_time(self.last_restart)
        if moment is not None and (latest is None or moment > latest):
            self.last_restart = finished


def pod_row(pod: JsonObject, now: datetime) -> Cells:
    """The cells of a pod."""
    tally = _tally(pod)
    restarts = str(tally.restarts)
    if tally.restarts and tally.last_restart:
        restarts = f"{tally.restarts} ({since(tally.last_restart, now)} ago)"
    total = len(_containers(pod)) + sum(map(_is_restartable, _init_containers(pod)))
    addresses = at(pod, "status", "podIPs", default=[])
    return [
        name_of(pod),
        f"{tally.ready}/{total}",
        _state(pod, tally.reason),
        restarts,
        age(pod, now),
        (at(addresses[0], "ip") if addresses else None) or NONE,
        at(pod, "spec", "nodeName") or NONE,
        at(pod, "status", "nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]


def completion(pod: JsonObject) -> list[dict[str, str]]:
    """The row conditions of a pod that has run to its end."""
    phase = at(pod, "status", "phase")
    messages = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
    if phase not in messages:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": messages[phase]}]


def _tally(pod: JsonObject) -> _Tally:
    reason = str(at(pod, "status", "reason") or at(pod, "status", "phase", default=""))
    for condition in at(pod, "status", "conditions", default=[]):
        if at(condition, "type") == "PodScheduled" and at(condition, "reason") == "SchedulingGated":
            reason = "SchedulingGated"
    tally = _Tally(reason)
    is_initializing, of_sidecars = _tally_init_containers(pod, tally)
    if not is_initializing or condition_status(pod, "Initialized") == "True":
        tally.restarts, tally.last_restart = of_sidecars.restarts, of_sidecars.last_restart
        _tally_containers(pod, tally)
    return tally


def _tally_init_containers(pod: JsonObject, tally: _Tally) -> tuple[bool, _Tally]:
    """Go through init containers up to the first that is not done; count sidecars apart."""
    specs = {at(container, "name"): container for container in _init_containers(pod)}
    of_sidecars = _Tally("")
    for index, status in enumerate(at(pod, "status", "initContainerStatuses", default=[])):
        is_sidecar = _is_restartable(specs.get(at(status, "name"), {}))
        tally.count_restarts(status)
        if is_sidecar:
            of_sidecars.count_restarts(status)
        terminated = at(status, "state", "terminated")
        if terminated is not None and at(terminated, "exitCode", default=0) == 0:
            continue
        if is_sidecar and at(status, "started"):
            tally.ready += bool(at(status, "ready"))
            continue
        waiting = at(status, "state", "waiting", "reason")
        if terminated is not None:
            tally.reason = f"Init:{_end(terminated)}"
        elif waiting and waiting != "PodInitializing":
            tally.reason = f"Init:{waiting}"
        else:
            tally.reason = f"Init:{index}/{len(specs)}"
        return True, of_sidecars
    return False, of_sidecars


def _tally_containers(pod: JsonObject, tally: _Tally) -> None:
    has_running = False
    failure = ""
    for status in reversed(at(pod, "status", "containerStatuses", default=[])):
        tally.count_restarts(status)
        terminated = at(status, "state", "terminated")
        if at(status, "state", "waiting", "reason"):
            tally.reason = at(status, "state", "waiting", "reason")
        elif terminated is not None:
            tally.reason = _end(terminated)
            if at(terminated, "exitCode", default=0) != 0:
                failure = tally.reason
        elif at(status, "ready") and at(status, "state", "running") is not None:
            has_running = True
            tally.ready += 1
    if tally.reason == "Completed":
        tally.reason = _completed_reason(pod, failure, has_running=has_running)


def _completed_reason(pod: JsonObject, failure: str, *, has_running: bool) -> str:
    """A pod is only completed when none of its containers runs and none failed."""
    if has_running and condition_status(pod, "Ready") == "True":
        return "Running"
    if failure:
        return failure
    return "NotReady" if has_running else "Completed"


def _end(terminated: Mapping[str, Any]) -> str:
    if reason := at(terminated, "reason"):
        return str(reason)
    if signal := at(terminated, "signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{at(terminated, 'exitCode', default=0)}"


def _state(pod: JsonObject, reason: str) -> str:
    if at(pod, "metadata", "deletionTimestamp") is None:
        return reason
    if at(pod, "status", "reason") == "NodeLost":
        return "Unknown"
    return reason if at(pod, "status", "phase") in _TERMINAL else "Terminating"


def _readiness_gates(pod: JsonObject) -> str:
    gates = at(pod, "spec", "readinessGates", default=[])
    if not gates:
        return NONE
    passed = sum(condition_status(pod, at(gate, "conditionType")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


def _containers(pod: JsonObject) -> list[Any]:
    return list(at(pod, "spec", "containers", default=[]))


def _init_containers(pod: JsonObject) -> list[Any]:
    return list(at(pod, "spec", "initContainers", default=[]))


def _is_restartable(container: Mapping[str, Any]) -> bool:
    return bool(at(container, "restartPolicy") == "Always")


POD: Final = Printer(
    columns(
        "Ready|Status|Restarts|Age",
        wide="IP|Node|Nominated Node|Readiness Gates",
    ),
    pod_row,
)
