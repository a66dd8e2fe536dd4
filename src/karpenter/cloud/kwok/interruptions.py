"""Interruptions of the simulated cloud: a notice, upon which the claim is deleted, as on AWS.

What takes the machine away afterwards is not here: the giver of the notice does that as well.
"""

import asyncio
from collections import deque
from typing import Final

import structlog

from karpenter.api.karpenter import NodeClaim
from karpenter.clock import Clock
from karpenter.cloud.kwok.machine import PROVIDER_PREFIX
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Draft, Kind, Outcome, Severity
from karpenter.kube.client import Kube
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.model import labels

REASON: Final = "SpotInterrupted"
_MESSAGE: Final = "Spot interruption warning was triggered"
_TRY_AGAIN: Final = 1.0  # seconds until a claim that could not be deleted is tried again

log = structlog.get_logger(__name__)


class Interruptions:
    """Notices that were given, and what is done about them while ``run`` runs."""

    def __init__(self, kube: Kube, clock: Clock, decisions: DecisionLog | None) -> None:
        self._kube = kube
        self._clock = clock
        self._decisions = decisions
        self._noticed: deque[str] = deque()
        self._changed = asyncio.Event()

    def notice(self, *nodes: str) -> None:
        """Announce that the machines of these nodes will be taken back."""
        self._noticed.extend(nodes)
        self._changed.set()

    async def run(self) -> None:
        """Delete the claims of machines that will be taken back, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._noticed:
                try:
                    await self._take(self._noticed[0])
                except KubeError as error:
                    log.warning("interruption not handled", node=self._noticed[0], error=str(error))
                    await self._clock.sleep(_TRY_AGAIN)
                else:
                    self._noticed.popleft()

    async def _take(self, node: str) -> None:
        provider_id = PROVIDER_PREFIX + node
        for claim in await self._kube.list(NodeClaim):
            if claim.status.provider_id != provider_id:
                continue
            if claim.metadata.deletion_timestamp is not None:
                return
            try:
                await self._kube.delete(NodeClaim, claim.metadata.name, uid=claim.metadata.uid)
            except NotFoundError:
                return
            self._record(claim, node)
            return

    def _record(self, claim: NodeClaim, node: str) -> None:
        name = claim.metadata.name
        log.info("interrupted", NodeClaim={"name": name}, kind="spot_interrupted")
        if self._decisions is None:
            return
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        draft = Draft(
            Kind.INTERRUPT,
            Outcome.BEGUN,
            REASON,
            f"{name}: {_MESSAGE}",
            objects=(f"NodeClaim/{name}", f"Node/{claim.status.node_name or node}"),
            node_pools=(pool,) if pool else (),
            severity=Severity.WARNING,
            identity=(claim.metadata.uid,),
        )
        self._decisions.add(self._clock.now(), draft)
