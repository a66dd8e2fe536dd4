"""The machines behind simulated nodes: what is wrong with them, and which addresses they have."""

import ipaddress
from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import parse_timestamp
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.kubelet.faults import (
    BOOT_DELAY,
    FAULT_AFTER,
    KWOK_DELETE_DELAY,
    RUN_DURATION,
    SHUTDOWN_DELAY,
    START_DELAY,
    Delays,
    Fault,
    Timing,
    declared_fault,
    is_simulated,
    seconds,
)
from karpenter_sandbox.runtime.informer import Informer

NODE_NETWORK: Final = ipaddress.IPv4Address("172.18.0.1")
POD_NETWORK: Final = ipaddress.IPv4Address("10.244.0.1")
# The fraction of the boot time at which the kubelet registers; the rest waits for the network
_KUBELET_STARTS_AT: Final = 2 / 3


class Machines:
    """What is wrong with which machine, and how long things take."""

    def __init__(self, timing: Timing | None = None, delays: Delays | None = None) -> None:
        self.timing: Final = timing or Timing()
        self._delays = delays
        self.lost_zones: frozenset[str] = frozenset()  # zones whose nodes send no heartbeats
        self._faults: dict[str, Fault] = {}  # node -> injected fault

    def inject(self, node: str, fault: Fault) -> None:
        """Inject a fault into a node, from its next heartbeat on."""
        self._faults[node] = fault

    def clear(self, node: str) -> None:
        """Remove the injected fault of a node."""
        self._faults.pop(node, None)

    def fault(self, node: JsonObject, now: datetime) -> Fault | None:
        """What is wrong with a node now."""
        set_fault = self._faults.get(node["metadata"]["name"])
        if set_fault is not None:
            return set_fault
        if self.lost_zones and _zone(node) in self.lost_zones:
            return Fault.UNREACHABLE
        declared = declared_fault(node)
        if declared is None:
            return None
        after = seconds(node, FAULT_AFTER)
        if after and age(node, now) < after:
            return None
        return declared

    def joins_in(self, node: JsonObject, now: datetime) -> float:
        """Seconds until a node's kubelet first reports; zero or less when it has."""
        return self._boot_delay(node) * _KUBELET_STARTS_AT - age(node, now)

    def boots_in(self, node: JsonObject, now: datetime) -> float:
        """Seconds until a node can be ready; zero or less when it can."""
        return self._boot_delay(node) - age(node, now)

    def _boot_delay(self, node: JsonObject) -> float:
        delay = seconds(node, BOOT_DELAY)
        if delay is None and self._delays is not None:
            delay = self._delays.boot(node)
        return self.timing.boot if delay is None else delay

    def start_delay(self, pod: JsonObject, now: datetime) -> float:
        """Seconds from now, when its kubelet first sees a pod, until it runs."""
        delay = seconds(pod, START_DELAY)
        if delay is None and self._delays is not None:
            delay = self._delays.start(pod, now)
        return self.timing.start if delay is None else delay

    def lifetime(self, pod: JsonObject) -> float | None:
        """Seconds from the start of a pod until its containers exit, None for never."""
        declared = seconds(pod, RUN_DURATION)
        if declared is None and self._delays is not None:
            declared = self._delays.run(pod)
        if declared is not None:
            return declared
        return self.timing.job if _is_of_job(pod) else None

    def shutdown_delay(self, pod: JsonObject) -> float:
        """Seconds from SIGTERM until a pod is gone, if it is given so long."""
        delay = seconds(pod, SHUTDOWN_DELAY, KWOK_DELETE_DELAY)
        if delay is None and self._delays is not None:
            delay = self._delays.shutdown(pod)
        return self.timing.shutdown if delay is None else delay

    def is_up(self, node: JsonObject | None, now: datetime) -> bool:
        """Whether a node is simulated and its kubelet does its work."""
        if node is None or not is_simulated(node) or self.boots_in(node, now) > 0:
            return False
        fault = self.fault(node, now)
        return fault is None or not fault.is_silent


class Addresses:
    """Allocates free addresses."""

    def __init__(self, first: ipaddress.IPv4Address, informer: Informer, index: str) -> None:
        self._next = first
        self._informer = informer
        self._index = index

    def next(self) -> str:
        """An address that is free."""
        while True:
            address = str(self._next)
            self._next += 1
            if not self._informer.by_index(self._index, address):
                return address


def _is_of_job(pod: JsonObject) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("kind") == "Job" for owner in owners)


def _zone(node: JsonObject) -> str:
    return str((node["metadata"].get("labels") or {}).get("topology.kubernetes.io/zone", ""))


def age(obj: JsonObject, now: datetime) -> float:
    """Seconds since an object was created."""
    return (now - parse_timestamp(obj["metadata"]["creationTimestamp"])).total_seconds()


def addresses_of(obj: JsonObject) -> tuple[str, ...]:
    """The address of a pod, or of a node."""
    status = obj.get("status") or {}
    if status.get("podIP"):
        return (status["podIP"],)
    return tuple(
        known["address"]
        for known in status.get("addresses") or ()
        if known.get("type") == "InternalIP"
    )


def is_ready(node: JsonObject) -> bool:
    ready = find_condition(node, "Ready")
    return ready is not None and ready["status"] == "True"
