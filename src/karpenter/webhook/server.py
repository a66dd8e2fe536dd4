"""The HTTP side of the webhook: bodies in, reviews out, and nothing else.

Any client on the network can connect: the API server does not authenticate itself. So bodies are
bounded in size and in time, and what is no review is refused with one sentence. Reviews are
processed in a thread, because a list of many objects would block the renewal of the lease.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web
from structlog.typing import FilteringBoundLogger

from karpenter.admission.legacy.webhook import Profile
from karpenter.api.karpenter import NodePool
from karpenter.api.meta import JsonObject
from karpenter.clock import Clock
from karpenter.kube.client import Kube
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.telemetry import Metrics
from karpenter.visible import visible
from karpenter.webhook import admission_review, conversion_review
from karpenter.webhook.reviews import ReviewError

# The API server converts up to ten thousand objects at once when it fills its caches
_LARGEST_CONVERSION: Final = 64 * 2**20
_LARGEST_ADMISSION: Final = 8 * 2**20  # two versions of an object, of which etcd takes 1.5 MiB each
_LARGEST_IN_ALL: Final = 128 * 2**20  # of the bodies that are being read and answered
_BODIES_AT_ONCE: Final = 16
_BODY_SECONDS: Final = 10.0
_JSON: Final = "application/json"

_Review: TypeAlias = Callable[[Any], Awaitable[JsonObject]]


class _BodyError(Exception):
    """A body that is not read to its end; the text is one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class WebhookApp:
    """Answers the API server's reviews."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        log: FilteringBoundLogger,
        metrics: Metrics,
        *,
        provider: str,
        profile: Profile = "late",
    ) -> None:
        """Make the application.

        Args:
            kube: reads the NodePools of claims whose expiry is converted.
            clock: bounds how long a body may take.
            log: where lines go.
            metrics: where requests are counted.
            provider: the cloud whose rules Provisioners keep.
            profile: the releases whose defaults Provisioners get.
        """
        self._kube = kube
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._provider = provider
        self._profile: Profile = profile
        self._turns = asyncio.Semaphore(_BODIES_AT_ONCE)
        self._bytes = 0  # of the bodies that are held now

    def routes(self) -> web.Application:
        """The aiohttp application with its routes."""
        app = web.Application()
        for group in conversion_review.KINDS:
            review = self._conversion(group)
            app.router.add_post(f"/convert/{group}", self._handler(review, _LARGEST_CONVERSION))
        app.router.add_post("/default", self._handler(self._defaulted, _LARGEST_ADMISSION))
        app.router.add_post("/validate", self._handler(self._validated, _LARGEST_ADMISSION))
        app.router.add_route("*", "/{path:.*}", self._nothing_here)
        return app

    def _conversion(self, group: str) -> _Review:
        async def convert(review: Any) -> JsonObject:
            try:
                expiries = await self._expiries(conversion_review.pools_needed(review))
            except KubeError as error:
                request = conversion_review.REVIEW.request_in(review)
                sentence = f"the NodePools of the NodeClaims cannot be read: {error}"
                return conversion_review.failure(request, sentence)
            return await asyncio.to_thread(conversion_review.converted, review, group, expiries.get)

        return convert

    async def _expiries(self, pools: Iterable[str]) -> dict[str, str]:
        """How long nodes of these pools live, for those that there are."""
        found = {}
        for name in sorted(pools):
            try:
                pool = await self._kube.get(NodePool, name)
            except NotFoundError:
                continue
            found[name] = pool.spec.template.spec.expire_after
        return found

    async def _defaulted(self, review: Any) -> JsonObject:
        return await asyncio.to_thread(
            admission_review.defaulted, review, self._profile, self._provider
        )

    async def _validated(self, review: Any) -> JsonObject:
        return await asyncio.to_thread(admission_review.validated, review, self._provider)

    def _handler(
        self, review: _Review, largest: int
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            async with self._turns:
                answer = await self._answer(request, review, largest)
            self._metrics.webhook_requests_total.labels(request.path, str(answer.status)).inc()
            return answer

        return handle

    async def _answer(self, request: web.Request, review: _Review, largest: int) -> web.Response:
        body = bytearray()
        try:
            reading = self._read(request, body, largest)
            await self._clock.wait_for(reading, seconds=_BODY_SECONDS)
            answer = msgspec.json.encode(await review(msgspec.json.decode(body)))
        except _BodyError as error:
            return _refusal(error.status, str(error))
        except TimeoutError:
            return _refusal(408, f"the body did not arrive within {_BODY_SECONDS:.0f} s")
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return _refusal(400, f"the body is no JSON: {error}")
        except ReviewError as error:
            return _refusal(400, str(error))
        except Exception as error:  # noqa: BLE001 one bad review must not end the others
            self._log.error("a review failed", path=request.path, exc_info=error)
            return _refusal(500, f"the review failed with an unexpected {type(error).__name__}")
        finally:
            self._bytes -= len(body)
        return web.Response(body=answer, content_type=_JSON)

    async def _read(self, request: web.Request, body: bytearray, largest: int) -> None:
        """Read a body; its bytes count towards the limit until the request is answered."""
        if (request.content_length or 0) > largest:
            raise _BodyError(413, f"the body is larger than {largest} bytes")
        async for piece in request.content.iter_any():
            if len(body) + len(piece) > largest:
                raise _BodyError(413, f"the body is larger than {largest} bytes")
            if self._bytes + len(piece) > _LARGEST_IN_ALL:
                raise _BodyError(503, "too many large bodies arrive at once; try again")
            self._bytes += len(piece)
            body += piece

    async def _nothing_here(self, request: web.Request) -> web.Response:
        self._metrics.webhook_requests_total.labels("", "404").inc()
        return _refusal(404, f"there is no webhook for {request.method} {request.path[:200]}")


def _refusal(status: int, sentence: str) -> web.Response:
    return web.Response(status=status, text=f"{visible(sentence)}\n")
