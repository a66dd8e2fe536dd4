"""Simulated kubelets run the pods bound to their nodes, restart them, and end them."""

from collections.abc import Hashable
from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import duration, parse_timestamp, timestamp
from karpenter_sandbox.kubelet import status as report
from karpenter_sandbox.kubelet.faults import exit_code, is_simulated
from karpenter_sandbox.kubelet.machines import (
    POD_NETWORK,
    Addresses,
    Machines,
    addresses_of,
    is_ready,
)
from karpenter_sandbox.runtime.api_client import ApiClient
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Controller, Runtime, ignoring_missing

# Seconds until a pod is retried whose kubelet is booting or has a fault
_RESUME_PERIOD: Final = 10.0
# Seconds until a kubelet corrects what another client wrote about the readiness of a pod
_CORRECT_PERIOD: Final = 10.0
_KILLED: Final = 137
_TERMINATED: Final = 143  # by SIGTERM, for a program that does nothing about it
_FINISHED: Final = ("Succeeded", "Failed")


class PodKubelet(Controller):
    """Runs the pods bound to simulated nodes, and ends them."""

    name = "kubelet-pods"

    def __init__(self, runtime: Runtime, client: ApiClient, machines: Machines) -> None:
        super().__init__(runtime)
        self._client = client
        self._machines = machines
        self._nodes = runtime.informer("v1", "nodes")
        self._pods = runtime.informer("v1", "pods")
        self._pods.add_index("node", _node_of)
        self._pods.add_index("address", addresses_of)
        self._addresses = Addresses(POD_NETWORK, self._pods, "address")
        # uid -> when its kubelet first saw the pod, and after how many seconds it runs
        self._seen: dict[str, tuple[datetime, float]] = {}
        self._wrong: dict[str, datetime] = {}  # uid -> since when its readiness is wrong
        self._was_up: dict[str, bool] = {}  # node -> whether its kubelet worked at the last check
        self._pods.on_change(self._on_pod)
        self._nodes.on_change(self._on_node)

    def _on_pod(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None:
            assert old is not None
            self._seen.pop(old["metadata"]["uid"], None)
            self._wrong.pop(old["metadata"]["uid"], None)
        elif new["spec"].get("nodeName"):
            self.queue.add((new["metadata"]["namespace"], new["metadata"]["name"]))

    def _on_node(self, old: JsonObject | None, new: JsonObject | None) -> None:
        """Queue the pods of a node whose kubelet starts or recovers."""
        if new is None:
            assert old is not None
            self._was_up.pop(old["metadata"]["name"], None)
            return
        name = new["metadata"]["name"]
        is_up = is_ready(new) and self._machines.is_up(new, self.clock.now())
        if is_up and not self._was_up.get(name, False):
            for pod in self._pods.by_index("node", name):
                self.queue.add((pod["metadata"]["namespace"], pod["metadata"]["name"]))
        self._was_up[name] = is_up

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Take one step in the life of a pod."""
        pod = self._pods.get(*key)
        if pod is None or not pod["spec"].get("nodeName"):
            return None
        node = self._nodes.get("", pod["spec"]["nodeName"])
        now = self.clock.now()
        if node is None or not is_simulated(node):
            return None
        if not self._machines.is_up(node, now):
            return _RESUME_PERIOD
        if "deletionTimestamp" in pod["metadata"]:
            return await self._shut_down(pod, now)
        phase = (pod.get("status") or {}).get("phase")
        if phase in _FINISHED:
            return None
        if not (pod.get("status") or {}).get("podIP"):
            return await self._start(pod, node, now) if is_ready(node) else _RESUME_PERIOD
        corrects_in = await self._report_readiness(pod, node, now)
        due_in = await self._carry_on(pod, now)
        return min((each for each in (corrects_in, due_in) if each is not None), default=None)

    async def _start(self, pod: JsonObject, node: JsonObject, now: datetime) -> float | None:
        uid = pod["metadata"]["uid"]
        if uid not in self._seen:
            self._seen[uid] = (now, self._machines.start_delay(pod, now))
        left = _left(*self._seen[uid], now)
        if left > 0:
            return left
        node_address = next(iter(addresses_of(node)), "")
        on_host = pod["spec"].get("hostNetwork")
        address = node_address if on_host else self._addresses.next()
        await self._set(pod, report.running(pod, address, node_address, timestamp(now)))
        return self._machines.lifetime(pod)

    async def _report_readiness(
        self, pod: JsonObject, node: JsonObject, now: datetime
    ) -> float | None:
        """Write whether a pod is ready; return in how many seconds, if not now.

        The node lifecycle controller calls the pods of a node not ready that has failed, and only
        the kubelet, once it is well again, says that they are. A gate is looked at at once.
        """
        uid = pod["metadata"]["uid"]
        conditions = report.changed_readiness(pod, timestamp(now)) if is_ready(node) else None
        if conditions is None:
            self._wrong.pop(uid, None)
            return None
        left = _left(self._wrong.setdefault(uid, now), _CORRECT_PERIOD, now)
        if left > 0 and not pod["spec"].get("readinessGates"):
            return left
        self._wrong.pop(uid)
        await self._set(pod, {"conditions": conditions})
        return None

    async def _carry_on(self, pod: JsonObject, now: datetime) -> float | None:
        if (lifetime := self._machines.lifetime(pod)) is None or report.is_unhealthy(pod):
            return None
        state = _container_state(pod)
        if "waiting" in state:
            return await self._restart(pod, now)
        started = (state.get("running") or {}).get("startedAt")
        if started is None:
            return None
        left = _left(parse_timestamp(started), lifetime, now)
        if left > 0:
            return left
        code = exit_code(pod)
        policy = pod["spec"].get("restartPolicy", "Always")
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            await self._set(pod, report.exited(pod, code, started, timestamp(now)))
            return None
        delay = report.restart_delay(report.restart_count(pod))
        await self._set(pod, report.waiting_to_restart(pod, code, started, timestamp(now)))
        return delay

    async def _restart(self, pod: JsonObject, now: datetime) -> float | None:
        restarts = report.restart_count(pod)
        ended = _container_last_end(pod)
        left = _left(ended, report.restart_delay(restarts), now) if ended else 0.0
        if left > 0:
            return left
        status = pod["status"]
        await self._set(
            pod,
            report.running(
                pod, status["podIP"], status["hostIP"], timestamp(now), restarts=restarts + 1
            ),
        )
        return self._machines.lifetime(pod)

    async def _shut_down(self, pod: JsonObject, now: datetime) -> float | None:
        metadata = pod["metadata"]
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        asked = parse_timestamp(metadata["deletionTimestamp"]) - duration(grace)
        needed = self._machines.shutdown_delay(pod)
        left = _left(asked, min(needed, grace), now)
        if left > 0:
            return left
        is_finished = (pod.get("status") or {}).get("phase") in _FINISHED
        if is_finished and not grace and metadata.get("finalizers"):
            return None  # the kubelet is done; the finalizers belong to other controllers
        if not is_finished and metadata.get("finalizers"):
            # the owner of the finalizer may read how the pod ended
            code = _KILLED if needed > grace else self._code_of_end(pod)
            started = (pod.get("status") or {}).get("startTime") or timestamp(now)
            await self._set(pod, report.exited(pod, code, started, timestamp(now)))
        await ignoring_missing(
            self._client.delete(
                "v1",
                "pods",
                metadata["namespace"],
                metadata["name"],
                uid=metadata["uid"],
                grace_period=0,
            )
        )
        return None

    def _code_of_end(self, pod: JsonObject) -> int:
        """What containers exit with on SIGTERM: servers with 0, work that is not done with 143."""
        return 0 if self._machines.lifetime(pod) is None else _TERMINATED

    async def _set(self, pod: JsonObject, status: JsonObject) -> None:
        metadata = pod["metadata"]
        await ignoring_missing(
            self._client.patch_status("v1", "pods", metadata["namespace"], metadata["name"], status)
        )


def _left(since: datetime, needed: float, now: datetime) -> float:
    return needed - (now - since).total_seconds()


def _container_state(pod: JsonObject) -> JsonObject:
    statuses = pod["status"].get("containerStatuses") or ()
    state: JsonObject = statuses[0].get("state") or {} if statuses else {}
    return state


def _container_last_end(pod: JsonObject) -> datetime | None:
    statuses = pod["status"].get("containerStatuses") or ()
    last = (statuses[0].get("lastState") or {}).get("terminated") if statuses else None
    return parse_timestamp(last["finishedAt"]) if last else None


def _node_of(pod: JsonObject) -> tuple[Hashable, ...]:
    name = pod["spec"].get("nodeName")
    return (name,) if name else ()
