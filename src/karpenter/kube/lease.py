"""Leader election by a Lease that its holder keeps renewing.

Notation: ``t`` is the moment at which a request that renews the lease is sent, by our own monotonic
clock. The others see the renewal at ``t`` or later, and take over ``duration`` after they saw it at
the earliest. We act until ``t + renew_deadline`` at the latest, which is sooner; the difference is
what work in flight has to end in. No clock is ever compared with another machine's: whether another
holder's lease has expired is judged by when we saw it change.

A holder that cannot renew in time stops acting and stands for election again. The process does not
exit: a machine that was too busy for ten seconds can lead again.
"""

import asyncio
import random
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias

import structlog

from karpenter.api.cluster import Lease, LeaseSpec
from karpenter.clock import Clock
from karpenter.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubeError,
    NotFoundError,
)

_REQUEST_SECONDS: Final = 5.0
_MOST_TRANSITIONS: Final = 2**31 - 1  # the API server's limit; a user may have edited the lease
# The fields whose change means a renewal; others may change without one
_Mark: TypeAlias = tuple[str | None, datetime | None, datetime | None, int | None]

_log = structlog.get_logger(__name__)


class LeaseClient(Protocol):
    """What an election asks of an API server."""

    async def get(self, kind: type[Lease], name: str, namespace: str = "") -> Lease:
        """The lease as it is now."""

    async def create(self, kind: type[Lease], body: Mapping[str, Any]) -> Lease:
        """Make the lease."""

    async def patch(self, kind: type[Lease], name: str, body: Any, namespace: str = "") -> Lease:
        """Change the lease."""


def new_identity(hostname: str = "") -> str:
    """A name for this replica; in a pod the part before the underscore is the pod's name."""
    return f"{hostname or socket.gethostname()}_{uuid.uuid4()}"


class Election:
    """Lets ``lead`` run in at most one of the replicas that share a lease."""

    def __init__(
        self,
        kube: LeaseClient,
        clock: Clock,
        *,
        name: str,
        namespace: str,
        identity: str,
        rng: random.Random,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry: float = 2.0,
    ) -> None:
        """Prepare to stand for election.

        Args:
            kube: a client without a rate limit, so that a busy controller keeps its lease.
            clock: the monotonic clock for all deadlines.
            name: of the lease.
            namespace: of the lease.
            identity: our own name, different for each process.
            rng: the source of jitter between replicas.
            duration: how long the others wait after a renewal they saw.
            renew_deadline: how long we act after a renewal we sent.
            retry: the time between attempts.
        """
        if not 0 < retry < renew_deadline < duration:
            raise ValueError(
                f"an election needs retry < renew deadline < duration,"
                f" not {retry} < {renew_deadline} < {duration}"
            )
        self.identity: Final = identity
        self._kube = kube
        self._clock = clock
        self._name = name
        self._namespace = namespace
        self._rng = rng
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._retry = retry
        self._leads_until: float | None = None  # monotonic; None while we do not lead
        self._held: Lease | None = None  # the lease as we wrote it last
        self._mark: _Mark | None = None  # the lease as it was seen last
        self._marked_at = 0.0  # when it was first seen so
        self._promised = duration  # how long it is valid from then on
        self._holder = ""
        self._trouble = ""  # what was logged last, while it lasts

    def is_leading(self) -> bool:
        """Whether we may act at this moment; checked before each write (fencing)."""
        return self._leads_until is not None and self._clock.monotonic() < self._leads_until

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last seen; empty if there was none."""
        return self._holder

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Stand for election for ever, and run ``lead`` whenever we hold the lease.

        ``lead`` is cancelled the moment we may no longer act, and has ended before we stand for
        election again. When it returns by itself, so does this; an error of it is passed on.
        The lease is released on the way out, so that a successor need not wait.
        """
        try:
            while True:
                await self._win()
                _log.info("became leader", identity=self.identity, lease=self._name)
                if await self._reign(lead):
                    return
                _log.warning("lost the lease", identity=self.identity, holder=self._holder)
        finally:
            await self.release()

    async def release(self) -> None:
        """Give up the lease, if we hold it."""
        held, self._held, self._leads_until = self._held, None, None
        if held is None:
            return
        # One second, the shortest duration, for candidates that ignore the empty holder
        spec = {**self._times(), "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._clock.wait_for(self._patch(held, spec), seconds=_REQUEST_SECONDS)
        except (KubeError, TimeoutError) as error:
            _log.warning("lease not released", lease=self._name, error=_sentence(error))

    async def _win(self) -> None:
        """Try until we hold the lease."""
        while not await self._attempt(_REQUEST_SECONDS):
            pause = self._retry * self._rng.uniform(1.0, 1.2)
            left = self._marked_at + self._promised - self._clock.monotonic()
            if self._holder and 0 < left < pause:
                pause = left
            await self._clock.sleep(pause)

    async def _reign(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Run ``lead`` for as long as we hold the lease; return whether it ended by itself."""
        work = asyncio.ensure_future(lead())
        try:
            await self._keep(work)
            ended = work.done()
        finally:
            self._leads_until = None
            work.cancel()
            await asyncio.wait({work})
        if not work.cancelled():
            work.result()
        return ended

    async def _keep(self, work: asyncio.Future[None]) -> None:
        """Renew until the lease is lost, or until the work has ended."""
        ended = asyncio.Event()
        work.add_done_callback(lambda _: ended.set())
        while (left := self._left()) > 0:
            if await self._clock.wait(ended, seconds=min(self._retry, left)):
                return
            left = self._left()
            is_holder = left > 0 and await self._attempt(min(_REQUEST_SECONDS, left))
            if not is_holder and self._holder not in ("", self.identity):
                return

    def _left(self) -> float:
        """How long we may act, in seconds."""
        return (self._leads_until or 0.0) - self._clock.monotonic()

    async def _attempt(self, seconds: float) -> bool:
        """Try once to become or stay the holder, and return whether we are."""
        try:
            is_holder = await self._clock.wait_for(self._claim(), seconds=seconds)
        except Exception as error:  # noqa: BLE001 retried at the next attempt
            trouble = _sentence(error)
            if trouble != self._trouble:
                is_foreseen = isinstance(error, KubeError | TimeoutError)
                _log.warning(
                    "lease not reached",
                    lease=self._name,
                    error=trouble,
                    exc_info=None if is_foreseen else error,
                )
            self._trouble = trouble
            return False
        self._trouble = ""
        return is_holder

    async def _claim(self) -> bool:
        if self._held is not None:
            try:
                return await self._write(self._held)
            except (ConflictError, NotFoundError):
                # Changed or removed by another client: read it before going on
                self._held = None
        try:
            lease = await self._kube.get(Lease, self._name, self._namespace)
        except NotFoundError:
            # It was removed; its holder acts until it notices
            return not self._belongs_to_another() and await self._create()
        self._observe(lease)
        if self._belongs_to_another():
            return False
        try:
            return await self._write(lease)
        except ConflictError:
            return False  # another candidate was faster

    async def _create(self) -> bool:
        sent = self._clock.monotonic()
        metadata = {"name": self._name, "namespace": self._namespace}
        spec = {**self._own_spec(LeaseSpec()), "leaseTransitions": 0}
        try:
            lease = await self._kube.create(Lease, {"metadata": metadata, "spec": spec})
        except AlreadyExistsError:
            return False
        return self._hold(lease, sent)

    async def _write(self, lease: Lease) -> bool:
        sent = self._clock.monotonic()
        return self._hold(await self._patch(lease, self._own_spec(lease.spec)), sent)

    def _hold(self, lease: Lease, sent: float) -> bool:
        self._observe(lease)
        self._held = lease
        self._leads_until = sent + self._renew_deadline
        return True

    async def _patch(self, lease: Lease, spec: Mapping[str, Any]) -> Lease:
        # The version makes this a compare-and-swap: of two candidates one gets a conflict
        body = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        return await self._kube.patch(Lease, self._name, body, self._namespace)

    def _own_spec(self, before: LeaseSpec) -> dict[str, Any]:
        spec = {
            **self._times(),
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self._duration),
            "leaseTransitions": min((before.lease_transitions or 0) + 1, _MOST_TRANSITIONS),
        }
        if before.holder_identity == self.identity:
            del spec["acquireTime"], spec["leaseTransitions"]
        return spec

    def _times(self) -> dict[str, Any]:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"acquireTime": now, "renewTime": now}

    def _observe(self, lease: Lease) -> None:
        spec = lease.spec
        self._holder = spec.holder_identity or ""
        self._promised = max(self._duration, spec.lease_duration_seconds or 0)
        mark = (self._holder, spec.acquire_time, spec.renew_time, spec.lease_transitions)
        if mark != self._mark:
            self._mark, self._marked_at = mark, self._clock.monotonic()

    def _belongs_to_another(self) -> bool:
        if self._holder in ("", self.identity):
            return False
        return self._clock.monotonic() < self._marked_at + self._promised


def _sentence(error: Exception) -> str:
    return str(error) or "the server did not answer in time"
