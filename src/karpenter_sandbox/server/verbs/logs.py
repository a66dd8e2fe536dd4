"""Reading the log of a pod that stands for a program of this process."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend, duration
from karpenter_sandbox.log_ring import LogLine, LogRing
from karpenter_sandbox.server.messages import Response, WatchResponse
from karpenter_sandbox.server.options import LogOptions, Query, log_options
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.status import bad_request

_HEADERS: Final = {"Content-Type": "text/plain"}


def read_log(backend: Backend, target: Target, query: Query) -> Response | WatchResponse | None:
    """The log of a pod, or None when nothing is kept of it.

    Raises:
        ApiError: the options are wrong, or ask for a container that is not there.
    """
    pod = backend.store.get(backend.key(target.resource, target.namespace, target.name))
    source = next((each for each in backend.logs if pod is not None and each.is_of(pod)), None)
    if pod is None or source is None:
        return None
    options = log_options(query, target.name)
    container = _container(pod, options.container)
    if options.previous:
        raise bad_request(
            f'previous terminated container "{container}" in pod "{target.name}" not found'
        )
    selection = _Selection(options, _since(backend, options))
    if options.follow:
        frames = LogFrames(backend, target, pod["metadata"]["uid"], source.ring, selection)
        return WatchResponse(frames, headers=_HEADERS)
    lines, _ = source.ring.since(0)
    return Response(200, selection.of(lines, is_first=True)[: options.limit_bytes], _HEADERS)


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which lines are wanted, and how they are written."""

    options: LogOptions
    since: datetime | None

    def of(self, lines: Sequence[LogLine], *, is_first: bool) -> bytes:
        """The wanted lines as they are sent; the tail is one of those there were at first."""
        if self.since is not None:
            lines = [line for line in lines if line.moment >= self.since]
        if is_first and self.options.tail_lines is not None:
            lines = lines[max(0, len(lines) - self.options.tail_lines) :]
        if self.options.timestamps:
            return b"".join(_stamp(line.moment) + line.data for line in lines)
        return b"".join(line.data for line in lines)


@dataclass(frozen=True, slots=True)
class LogFrames:
    """A log as it grows, until its pod is gone or as much of it is sent as was asked for."""

    backend: Backend
    target: Target
    uid: str
    ring: LogRing
    selection: _Selection

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Lines as they come, several at once."""
        left = self.selection.options.limit_bytes
        is_first = True
        with self.ring.followed() as follower:
            while True:
                text = self.selection.of(follower.taken(), is_first=is_first)[:left]
                is_first = False
                if text:
                    yield text
                if left is not None:
                    left -= len(text)
                if left == 0 or not self._has_pod():
                    return
                await follower.wait()

    def _has_pod(self) -> bool:
        target = self.target
        key = self.backend.key(target.resource, target.namespace, target.name)
        pod = self.backend.store.get(key)
        return pod is not None and pod["metadata"]["uid"] == self.uid


def _container(pod: JsonObject, wanted: str) -> str:
    """The container that is meant, which need not be named where there is only one."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [container["name"] for container in spec["containers"]]
    first = [container["name"] for container in spec.get("initContainers") or ()]
    if wanted:
        if wanted not in (*names, *first):
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(names) == 1:
        only: str = names[0]
        return only
    choice = (
        f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
    )
    if first:
        choice += f" or one of the init containers: [{' '.join(first)}]"
    raise bad_request(choice)


def _since(backend: Backend, options: LogOptions) -> datetime | None:
    if options.since_seconds is not None:
        return backend.clock.now() - duration(options.since_seconds)
    return options.since_time


def _stamp(moment: datetime) -> bytes:
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond:06d}000Z ".encode()
