"""Keeps the webhook's certificates: the Secret, the trust of the API server, and what is shown.

Every replica runs it, not only the leader: a process leads only after it has listed all objects,
and those lists may need the very conversion that lacks a certificate. Replicas are coordinated by
optimistic locking: a write carries the resourceVersion that was read. The objects with a
``caBundle`` are read before the Secret, so that a bundle made from an old Secret conflicts instead
of replacing a newer one.
"""

from datetime import datetime
from typing import Final

from structlog.typing import FilteringBoundLogger

from karpenter.api.cluster import Secret
from karpenter.api.meta import kind_of
from karpenter.clock import Clock
from karpenter.kube.client import Kube, PatchType
from karpenter.kube.errors import ForbiddenError, NotFoundError
from karpenter.kube.workqueue import Backoff
from karpenter.runtime import LoopController
from karpenter.telemetry import Metrics
from karpenter.webhook.certificates import TlsIdentity, service_names
from karpenter.webhook.rotation import Holdings, next_holdings, read_holdings, written
from karpenter.webhook.trust import TARGETS, Place, Target, is_published, leads_to, publish

_PERIOD: Final = 10.0
# How long API servers may take to load a new authority
_SETTLING: Final = 15.0


class CertificateKeeper(LoopController):
    """Keeps the certificates of one replica's server, and those that all replicas share."""

    name = "webhook.certificates"
    backoff = Backoff(0.5, _PERIOD)

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: Metrics,
        *,
        identity: TlsIdentity,
        place: Place,
        makes_certificates: bool = True,
    ) -> None:
        """Make a keeper.

        Args:
            kube: a client that may write whether this process leads or not.
            clock: the time.
            log: where lines go.
            metrics: where the expiry is exported.
            identity: the TLS context of the server.
            place: the Service and the Secret.
            makes_certificates: false where another program fills the Secret and the ``caBundle``
                fields.
        """
        super().__init__(clock, log, metrics)
        self._kube = kube
        self._identity = identity
        self._place = place
        self._makes = makes_certificates
        self._names = service_names(place.service, place.namespace)
        self._held = Holdings()  # the leaf of the server, and its authorities
        self._trusted: tuple[bytes, float] | None = None  # a bundle, and since when it is published
        self._logged: set[str] = set()  # what has been logged, to log it once

    async def step(self) -> float:
        """Check the certificates once, and take at most one step of a rotation."""
        targets = await self._targets() if self._makes else ()
        secret = await self._secret()
        current = read_holdings(secret.data) if secret is not None else Holdings()
        if self._makes:
            current = await self._stored(secret, current, targets)
            await self._publish(targets, current.bundle)
        self._show(current)
        return _PERIOD

    async def _targets(self) -> tuple[Target, ...]:
        """The objects that refer the API server to this webhook, as they are now."""
        found: list[Target] = []
        for kind, name in TARGETS:
            try:
                target = await self._kube.get(kind, name)
            except NotFoundError:
                continue
            except ForbiddenError as error:
                self._log_once(
                    f"cannot write the caBundle of {name}",
                    error=str(error),
                    advice="bind the role karpenter-webhook of examples/install/optional/webhook.yaml",
                )
                continue
            if leads_to(target, self._place):
                found.append(target)
        return tuple(found)

    async def _secret(self) -> Secret | None:
        try:
            return await self._kube.get(Secret, self._place.secret, self._place.namespace)
        except NotFoundError:
            return None

    async def _stored(
        self, secret: Secret | None, current: Holdings, targets: tuple[Target, ...]
    ) -> Holdings:
        """What the Secret holds after this step."""
        # An emptied Secret gets a new authority; the old one stays trusted while its leaf is served
        basis = current if current.authorities else self._held.without_signer()
        is_trusted = self._is_settled(targets, current.bundle)
        wanted = next_holdings(basis, self.clock.now(), self._names, is_trusted=is_trusted)
        if wanted is current:
            return current
        name, namespace = self._place.secret, self._place.namespace
        if secret is None:
            secret = await self._created()
        body = {
            "metadata": {"resourceVersion": secret.metadata.resource_version},
            "data": written(wanted),
        }
        await self._kube.patch(Secret, name, body, namespace)
        assert wanted.leaf is not None, "what is stored is complete"
        self.log.info(
            "changed the certificates of the webhook",
            secret=f"{namespace}/{name}",
            authorities=len(wanted.authorities),
            leaf_expires=wanted.leaf.expires.isoformat(),
        )
        return wanted

    async def _created(self) -> Secret:
        """Create the Secret without data; one that another replica has filled stays as it is.

        Server-side apply instead of POST: RBAC can restrict to one Secret only requests that name
        the object, and a create does not.
        """
        name, namespace = self._place.secret, self._place.namespace
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": Secret.api_version, "kind": kind_of(Secret), "metadata": metadata}
        return await self._kube.patch(Secret, name, body, namespace, patch_type=PatchType.APPLY)

    async def _publish(self, targets: tuple[Target, ...], bundle: bytes) -> None:
        """Write a bundle to all targets, and record since when it is published."""
        for target in targets:
            if not is_published(target, self._place, bundle):
                await publish(self._kube, target, self._place, bundle)
                self._trusted = None
        if self._trusted is None or self._trusted[0] != bundle:
            self._trusted = (bundle, self.clock.monotonic())

    def _is_settled(self, targets: tuple[Target, ...], bundle: bytes) -> bool:
        """Whether every API server has had the time to load a bundle."""
        if self._trusted is None or self._trusted[0] != bundle:
            return False
        is_known = all(is_published(target, self._place, bundle) for target in targets)
        return is_known and self.clock.monotonic() - self._trusted[1] >= _SETTLING

    def _show(self, holdings: Holdings) -> None:
        """Serve with the leaf from now on, unless it cannot be used."""
        leaf = holdings.usable_leaf(self.clock.now())
        if leaf is None:
            self._log_once(
                "the Secret holds no certificate that the webhook can show",
                secret=f"{self._place.namespace}/{self._place.secret}",
            )
            return
        self._held = holdings
        if self._identity.show(leaf):
            self.log.info("the webhook shows a new certificate", expires=leaf.expires.isoformat())
            expiry = self.metrics.certificate_expiry_seconds.labels("leaf")
            expiry.set_function(lambda: self._left(leaf.expires))
        if holdings.authorities:
            ends = holdings.authorities[0].expires
            expiry = self.metrics.certificate_expiry_seconds.labels("authority")
            expiry.set_function(lambda: self._left(ends))

    def _left(self, expires: datetime) -> float:
        return (expires - self.clock.now()).total_seconds()

    def _log_once(self, sentence: str, **more: str) -> None:
        if sentence not in self._logged:
            self._logged.add(sentence)
            self.log.error(sentence, **more)
