"""Delays and faults of simulated machines, declared by annotations.

A manifest or ``kubectl annotate`` is enough to set them. The annotations of kwok are understood
too. A text that cannot be read counts as absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from karpenter.api.meta import JsonObject
from karpenter.model import durations

SIMULATED: Final = "kwok.x-k8s.io/node"  # the annotation, and its value "fake", of such nodes
PREFIX: Final = "sandbox.karpenter.sh/"
BOOT_DELAY: Final = f"{PREFIX}boot-delay"  # node: from its creation until it is ready
FAULT: Final = f"{PREFIX}fault"  # node: what is wrong with it
FAULT_AFTER: Final = f"{PREFIX}fault-after"  # node: from its creation until it goes wrong
START_DELAY: Final = f"{PREFIX}start-delay"  # pod: from its binding until it runs
RUN_DURATION: Final = f"{PREFIX}run-duration"  # pod: from its start until its containers exit
EXIT_CODE: Final = f"{PREFIX}exit-code"  # pod: what its containers exit with
SHUTDOWN_DELAY: Final = f"{PREFIX}shutdown-delay"  # pod: from SIGTERM until it is gone
KWOK_DELETE_DELAY: Final = "pod-delete.stage.kwok.x-k8s.io/delay"
KWOK_STAGE: Final = "kwok.x-k8s.io/stage"  # pod label; "unhealthy" is the only stage known


class Fault(StrEnum):
    """What can be wrong with a node."""

    NEVER_BOOTS = "never-boots"  # the machine never reports anything
    NOT_READY = "not-ready"  # the kubelet reports, but says that it is not ready
    UNREACHABLE = "unreachable"  # the kubelet stops reporting; its pods keep running
    DISAPPEARS = "disappears"  # the machine is gone, and its Node object with it
    DISK_PRESSURE = "disk-pressure"
    MEMORY_PRESSURE = "memory-pressure"
    PID_PRESSURE = "pid-pressure"

    @property
    def is_silent(self) -> bool:
        """Whether the node sends no heartbeats."""
        return self in (Fault.NEVER_BOOTS, Fault.UNREACHABLE, Fault.DISAPPEARS)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take where nothing else is declared, in seconds."""

    boot: float = 0.0
    start: float = 0.0
    job: float = 1.0  # how long the containers of a Job's pod run
    shutdown: float = 0.0


class Delays(Protocol):
    """How long things take that differ from one object to the next, where nothing is declared.

    The answer for an object is always the same; None leaves it to ``Timing``.
    """

    def boot(self, node: JsonObject) -> float | None:
        """Seconds from the creation of a node until it is ready."""

    def start(self, pod: JsonObject, now: datetime) -> float | None:
        """Seconds from now, when its kubelet first sees a pod, until the pod runs."""

    def run(self, pod: JsonObject) -> float | None:
        """Seconds from the start of a pod until its containers exit."""

    def shutdown(self, pod: JsonObject) -> float | None:
        """Seconds from SIGTERM until a pod is gone."""


def is_simulated(node: JsonObject) -> bool:
    """Whether a node is backed by a simulated machine."""
    return annotations(node).get(SIMULATED) == "fake"


def declared_fault(node: JsonObject) -> Fault | None:
    """What is declared to be wrong with a node; several are separated by commas, first one wins."""
    declared = annotations(node).get(FAULT)
    if not declared:
        return None
    for name in declared.split(","):
        try:
            return Fault(name.strip())
        except ValueError:
            continue
    return None


def seconds(obj: JsonObject, *names: str) -> float | None:
    """The first of the named annotations that is a duration: ``90s``, ``1m30s`` or ``90``."""
    declared = annotations(obj)
    for name in names:
        found = _read(declared.get(name, ""))
        if found is not None:
            return found
    return None


def exit_code(pod: JsonObject) -> int:
    """What the containers of a pod exit with."""
    text = annotations(pod).get(EXIT_CODE, "0")
    return int(text) if text.isdecimal() and int(text) < 256 else 0


def annotations(obj: JsonObject) -> Mapping[str, str]:
    """The annotations of an object."""
    return obj["metadata"].get("annotations") or {}


def _read(text: str) -> float | None:
    length = durations.period(f"{text}s" if text[-1:].isdecimal() else text)
    return length.total_seconds() if length is not None else None
