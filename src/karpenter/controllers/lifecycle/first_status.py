"""The first status of a claim: written while its launch is under way, if that takes a while.

A reconcile writes a claim once, at its end. A launch that takes long would leave READY blank until
then, so the conditions that are known before it are written beside the provider's call. Neither
waits for the other, and a launch that is over within a moment costs no further write.
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.clock import Timer
from karpenter.controllers.context import STATUS, Context
from karpenter.controllers.lifecycle.claim_changes import differences
from karpenter.kube.errors import KubeError
from karpenter.model.conditions import READY, find

# Longer than a launch without a cloud's API call, shorter than a user notices in a list of claims
A_MOMENT: Final = 0.5


class FirstStatus:
    """Surrounds the steps of a claim; ``stored`` is what the API server holds afterwards."""

    def __init__(self, context: Context, stored: NodeClaim, begun: NodeClaim) -> None:
        """Prepare the write.

        Args:
            context: what the controllers share.
            stored: the claim as the API server holds it.
            begun: the same claim with the conditions that hold before any step.
        """
        self.stored = stored
        self._context = context
        self._begun = begun
        self._timer: Timer | None = None
        self._writing: asyncio.Task[NodeClaim] | None = None

    async def __aenter__(self) -> "FirstStatus":
        if find(self.stored.status.conditions, READY) is None:
            self._timer = self._context.clock.call_later(A_MOMENT, self._begin)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is None:
            return
        if error is not None:
            self._writing.cancel()
            # Propagate the error of the step, not the CancelledError of the write
            with suppress(KubeError, asyncio.CancelledError):
                await self._writing
            return
        # Suppressed: the last write of the reconcile repeats these conditions, and fails likewise
        with suppress(KubeError):
            self.stored = await self._writing

    def _begin(self) -> None:
        self._writing = asyncio.ensure_future(self._write())

    async def _write(self) -> NodeClaim:
        status = differences(self.stored, self._begun).status
        body = {"status": status}
        # Locked: nothing but these conditions may differ from the claim that is being launched
        return await self._context.patch(self.stored, body, locked=True, subresource=STATUS)
