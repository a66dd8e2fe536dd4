"""Pending Nodes: each is created some time after its launch, and none outlives its claim.

Pending Nodes are kept in memory only while this process leads. The next leader restores them: a
launched claim names its Node, and an unregistered Node without a claim belongs to an abandoned
launch and is removed.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.api.nodes import Node
from karpenter.api.times import in_seconds, later
from karpenter.clock import Clock
from karpenter.cloud.kwok.machine import (
    ONLY_PARTITION,
    PARTITION,
    PROVIDER_PREFIX,
    Machine,
    machine_promised_to,
    node_name_of,
)
from karpenter.kube.client import Kube
from karpenter.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from karpenter.model import durations, labels
from karpenter.model.conditions import LAUNCHED, REGISTERED, TRUE, find
from karpenter.model.taints import UNREGISTERED, matches

PAUSES: Final = (0.01, 0.05, 0.25)  # seconds between the attempts to create one Node
NEXT_ROUND: Final = 60.0  # seconds until a Node that could not be created is tried again
FIRST_SWEEPS: Final = 20
SWEEP_PERIOD_AT_FIRST: Final = 10.0
SWEEP_PERIOD: Final = 120.0

_UNREGISTERED_NODES: Final = f"{PARTITION}={ONLY_PARTITION},{labels.REGISTERED}!=true"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Arrival:
    machine: Machine
    due: float  # in the clock's monotonic seconds
    task: asyncio.Task[None] | None = None


class Arrivals:
    """Creates Nodes when they are due, for as long as ``run`` runs."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._expected: dict[str, _Arrival] = {}  # node name -> what comes, and when
        self._changed = asyncio.Event()

    def expect(self, machine: Machine, *, after: float) -> None:
        """Schedule a Node for creation after so many seconds, unless it is pending already."""
        due = self._clock.monotonic() + after
        self._expected.setdefault(machine.name, _Arrival(machine, due))
        self._changed.set()

    def expected(self, name: str) -> Machine | None:
        """The machine of a pending Node."""
        arrival = self._expected.get(name)
        return None if arrival is None else arrival.machine

    def labels(self) -> dict[str, Mapping[str, str]]:
        """The labels of all pending Nodes, by node name."""
        return {name: arrival.machine.labels for name, arrival in self._expected.items()}

    def call_off(self, name: str) -> None:
        """Cancel a pending Node."""
        arrival = self._expected.pop(name, None)
        if arrival is not None and arrival.task is not None:
            arrival.task.cancel()

    async def run(self) -> None:
        """Create due Nodes and remove abandoned ones, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_order())
                while True:
                    self._changed.clear()
                    for arrival in self._expected.values():
                        if arrival.task is None:
                            arrival.task = tasks.create_task(self._bring(arrival))
                    await self._clock.wait(self._changed, seconds=SWEEP_PERIOD)
        finally:
            self._expected.clear()

    async def restore(self) -> None:
        """Schedule the Nodes of claims that were launched before this process led."""
        for claim in await self._kube.list(NodeClaim):
            if _waits_for_node(claim):
                delay = await self._remaining_delay(claim)
                try:
                    self.expect(machine_promised_to(claim), after=delay)
                except Exception as error:
                    log.exception(
                        "node not expected",
                        NodeClaim={"name": claim.metadata.name},
                        error=f"{type(error).__name__}: {error}",
                    )

    async def sweep(self) -> None:
        """Remove Nodes, created or pending, whose claims were deleted before registration."""
        expected = set(self._expected)
        # Nodes before claims: the claim of a listed Node exists before the second list is made
        unregistered = await self._kube.list(Node, label_selector=_UNREGISTERED_NODES)
        nodes = [node for node in unregistered if _is_forgotten(node)]
        if not (nodes or expected):
            return
        wanted = {node_name_of(claim) for claim in await self._kube.list(NodeClaim)}
        for name in sorted(expected - wanted):
            self.call_off(name)
        for node in nodes:
            if node.metadata.name not in wanted:
                await remove_node(self._kube, node.metadata.name, uid=node.metadata.uid)
                log.info("node of a claim that is gone removed", node=node.metadata.name)

    async def _keep_order(self) -> None:
        sweeps, is_restored = 0, False
        while True:
            try:
                if not is_restored:
                    await self.restore()
                    is_restored = True
                await self.sweep()
            except Exception as error:
                is_foreseen = isinstance(error, KubeError)
                log.warning(
                    "simulated nodes not updated",
                    error=str(error) if is_foreseen else f"{type(error).__name__}: {error}",
                    exc_info=None if is_foreseen else error,
                )
            sweeps += 1
            early = not is_restored or sweeps < FIRST_SWEEPS
            await self._clock.sleep(SWEEP_PERIOD_AT_FIRST if early else SWEEP_PERIOD)

    async def _bring(self, arrival: _Arrival) -> None:
        machine = arrival.machine
        await self._clock.sleep(max(0.0, arrival.due - self._clock.monotonic()))
        while (error := await self._create(machine)) is not None:
            log.error("node not created", node=machine.name, error=str(error))
            await self._clock.sleep(NEXT_ROUND)
        self._expected.pop(machine.name, None)

    async def _create(self, machine: Machine) -> Exception | None:
        """Create a Node, with a few quick retries; return the last error if all failed."""
        last: Exception | None = None
        for pause in (0.0, *PAUSES):
            await self._clock.sleep(pause)
            try:
                await self._kube.create(Node, machine.body())
            except AlreadyExistsError:
                return None
            except Exception as error:  # noqa: BLE001 other Nodes are still created
                last = error
            else:
                return None
        return last

    async def _remaining_delay(self, claim: NodeClaim) -> float:
        try:
            node_class = await self._kube.get(KWOKNodeClass, claim.spec.node_class_ref.name)
        except NotFoundError:
            return 0.0
        launched = find(claim.status.conditions, LAUNCHED)
        since = launched.last_transition_time if launched is not None else None
        delay = in_seconds(registration_delay(node_class))
        due = later(since or self._clock.now(), delay)
        return max(0.0, _seconds_until(due, self._clock.now()))


def registration_delay(node_class: KWOKNodeClass) -> float:
    """Seconds between the launch and the Node, as the node class asks for."""
    length = durations.period(node_class.spec.node_registration_delay)
    return length.total_seconds() if length is not None else 0.0


async def remove_node(kube: Kube, name: str, *, uid: str = "") -> None:
    """Ask for a Node to be removed, if there is one."""
    try:
        await kube.delete(Node, name, uid=uid)
    except NotFoundError:
        return


def _waits_for_node(claim: NodeClaim) -> bool:
    """Whether the claim was launched here and its Node has never registered."""
    registered = find(claim.status.conditions, REGISTERED)
    return (
        claim.status.provider_id.startswith(PROVIDER_PREFIX)
        and claim.metadata.deletion_timestamp is None
        and (registered is None or registered.status != TRUE)
    )


def _is_forgotten(node: Node) -> bool:
    """Whether the Node was made here, never registered and is not leaving yet."""
    return (
        node.spec.provider_id.startswith(PROVIDER_PREFIX)
        and node.metadata.deletion_timestamp is None
        and any(matches(taint, UNREGISTERED) for taint in node.spec.taints)
    )


def _seconds_until(moment: datetime, now: datetime) -> float:
    return (moment - now).total_seconds()
