"""The stream: events as they come, a ping now and then, and an end for who does not read."""

from typing import Final

import msgspec
from aiohttp import web

from karpenter.clock import Clock
from karpenter.dashboard.contract import Ping
from karpenter.dashboard.feed import Feed
from karpenter.dashboard.follower import Follower, framed
from karpenter.dashboard.gate import HEADERS

PING_SECONDS: Final = 15.0
_PATIENCE: Final = 30.0  # with a client that reads nothing


async def stream(
    request: web.BaseRequest, follower: Follower, feed: Feed, clock: Clock
) -> web.StreamResponse:
    """Send events until the client is gone."""
    response = web.StreamResponse(
        headers={
            **HEADERS,
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    next_ping = clock.monotonic() + PING_SECONDS
    try:
        while not feed.is_over:
            left = max(0.0, next_ping - clock.monotonic())
            await clock.wait(follower.filled, seconds=left)
            frames = follower.taken()
            if clock.monotonic() >= next_ping:
                next_ping = clock.monotonic() + PING_SECONDS
                frames += framed("ping", msgspec.json.encode(Ping(at=feed.heard, seq=feed.seq)))
            if frames:
                await clock.wait_for(response.write(frames), seconds=_PATIENCE)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass  # the client is gone, which is how streams end
    return response
