"""The webhook of a controller process: its server, and the certificates it shows.

It serves for as long as the process runs, with or without the lease and before the mirrors are
synced: the API server may need it to answer the controller's own first lists.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final, Literal, cast

from structlog.typing import FilteringBoundLogger

from karpenter.clock import Clock
from karpenter.kube.access.config import own_namespace
from karpenter.kube.client import Kube
from karpenter.operator.serving import EVERYWHERE, ServingError, listen
from karpenter.runtime import Runnable
from karpenter.settings import Settings
from karpenter.telemetry import Metrics
from karpenter.webhook.certificates import TlsIdentity
from karpenter.webhook.keeper import CertificateKeeper
from karpenter.webhook.server import WebhookApp
from karpenter.webhook.trust import Place

_SERVICE: Final = "karpenter-webhook"
_FIRST_CERTIFICATE: Final = 15.0


async def serve_webhook(
    stack: AsyncExitStack,
    kube: Kube,
    clock: Clock,
    log: FilteringBoundLogger,
    metrics: Metrics,
    settings: Settings,
    provider: str,
) -> int:
    """Serve the webhook until the stack is unwound, and return the port.

    Raises:
        ServingError: the port cannot be bound, or the namespace is not known.
    """
    identity = TlsIdentity()
    app = WebhookApp(
        kube,
        clock,
        log.bind(controller="webhook"),
        metrics,
        provider=provider,
        profile=cast(Literal["early", "late"], settings.legacy_defaults),
    )
    keeper = CertificateKeeper(
        kube,
        clock,
        log,
        metrics,
        identity=identity,
        place=webhook_place(settings),
        makes_certificates=settings.webhook_certificates == "own",
    )
    await stack.enter_async_context(_running(keeper))
    # Listening without a certificate would fail connections that another replica could serve
    if not await clock.wait(identity.is_shown, seconds=_FIRST_CERTIFICATE):
        log.error("the webhook has no certificate yet, and refuses connections until it has one")
    return await listen(
        stack,
        app.routes(),
        EVERYWHERE,
        settings.webhook_port,
        "WEBHOOK_PORT",
        identity.context,
    )


def webhook_place(settings: Settings) -> Place:
    """Where the webhook is found: in the namespace of the controller."""
    namespace = settings.leader_election_namespace or own_namespace()
    if not namespace:
        raise ServingError(
            "the webhook's certificates need a namespace outside of a cluster: set"
            " LEADER_ELECTION_NAMESPACE, or WEBHOOK_PORT=0 to do without a webhook"
        )
    service = settings.karpenter_service or _SERVICE
    return Place(namespace, service, settings.webhook_secret_name or f"{service}-cert")


@asynccontextmanager
async def _running(worker: Runnable) -> AsyncIterator[None]:
    """Run a worker beside the block."""
    task = asyncio.create_task(worker.run(), name=worker.name)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
