"""What a run shows to those who observe it, and what it leaves behind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from karpenter.api.meta import JsonObject
from karpenter.cloud.types import InstanceType
from karpenter.decision_log.record import DecisionRecord
from karpenter.kube.transport import Request
from karpenter.simulate.scenario.models import Scenario
from karpenter_sandbox.store.store import Event, Store


@dataclass(frozen=True, slots=True)
class MachineEvent:
    """Something that happened to a machine of the simulated cloud.

    It is ``launched`` when the cloud has answered, ``noticed`` when the cloud announces that it
    takes the machine back, and ``gone`` when the machine is no more.
    """

    kind: str
    at: float  # virtual seconds since the start of the scenario
    name: str  # of its Node
    claim: str
    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float  # dollars per hour at that moment
    cause: str = ""  # of ``gone``: deleted, interrupted or disappeared


@dataclass(frozen=True, slots=True)
class PriceChange:
    """A new price of an offering; running machines pay it from now on."""

    at: float
    instance_type: str
    zone: str
    capacity_type: str
    price: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A step of the timeline, by its verb; a ``pulled`` image says how many bytes it has."""

    at: float
    kind: str
    text: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What observers may look at while a run goes on."""

    start: datetime
    until: float
    warmup: float
    grid: float
    store: Store
    types: tuple[InstanceType, ...]  # with their list prices
    now: Callable[[], float]  # virtual seconds since the start
    price: Callable[[str, str, str], float]  # of type, zone and capacity type at this moment


class Observer(Protocol):
    """Someone who watches a run; nothing that it does may change the cluster."""

    def begin(self, view: View) -> None:
        """Called before anything of the scenario exists."""

    def changed(self, event: Event) -> None:
        """Called right after every change of the store."""

    def machine(self, event: MachineEvent) -> None:
        """Called for every machine."""

    def priced(self, change: PriceChange) -> None:
        """Called for every price that moves."""

    def marked(self, mark: Mark) -> None:
        """Called for every step of the timeline."""

    def wrote(self, request: Request) -> None:
        """Called after each write of the controllers that was carried out."""

    def finish(self) -> object:
        """Called at the end; the result must be picklable."""


@dataclass(frozen=True, slots=True)
class VariantRun:
    """What one variant left behind."""

    name: str
    ended: float  # virtual seconds that were run
    is_complete: bool
    observed: tuple[object, ...]  # what the observers found, in their order
    decisions: tuple[DecisionRecord, ...]  # the oldest first
    problems: tuple[str, ...]  # unexpected errors of the controllers
    settings: Mapping[str, str]
    # What users asked for in vain, such as scaling what is not there
    warnings: tuple[str, ...] = ()
    expectations: tuple[JsonObject, ...] = ()  # the outcomes of those that steps judged


@dataclass(frozen=True, slots=True)
class Run:
    """What a scenario left behind."""

    scenario: Scenario
    sha256: str
    demand_sha256: str
    seed: int
    variants: tuple[VariantRun, ...]
    warnings: tuple[str, ...]
    not_modelled: tuple[str, ...]
    wall_seconds: float
    processor_seconds: float
    peak_bytes: int
    objects: tuple[JsonObject, ...] = ()  # that are there from the start
