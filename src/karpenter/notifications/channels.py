"""Ways to sinks: HTTP for Slack and webhooks, boto3 for SNS.

Addresses and keys are read from their files for every try, since secrets are rotated in place. No
redirection is followed, plain HTTP goes to this host only, and of an address only the host is
logged.
"""

import asyncio
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec

from karpenter import __version__
from karpenter.clock import Clock
from karpenter.kube.access.proxies import is_url, proxy_for
from karpenter.kube.errors import ConfigError as ProxyError
from karpenter.notifications.config import SinkConfig, SinkType
from karpenter.notifications.outbox import Message
from karpenter.notifications.payloads import (
    CLOUD_EVENTS,
    JSON,
    SNS_BYTES,
    encoded_event,
    signature,
    slack_payload,
    sns_subject,
)
from karpenter.notifications.retrying import Answer
from karpenter.os_errors import os_reason

_MOST_SECRET_BYTES: Final = 64 * 1024
_LOCAL: Final = "localhost"
_UNAVAILABLE: Final = 503


class UnsentError(Exception):
    """A message that did not get there, and may be tried again; the text is a sentence."""


class UnsendableError(Exception):
    """A message that cannot be sent as things are configured; the text is a sentence."""


class Channel(Protocol):
    """A way to one sink."""

    async def send(self, message: Message) -> Answer:
        """Send a message once.

        Raises:
            UnsentError: there was no answer.
            UnsendableError: the configuration does not allow it to be sent.
        """

    def where(self) -> str:
        """Where the last message went, without secrets: a host or the name of a topic."""

    async def close(self) -> None:
        """Close connections."""


class Poster(Protocol):
    """Sends bodies to addresses over HTTP."""

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a body, and return the answer without following redirections.

        Raises:
            UnsentError: there was no answer.
        """

    async def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True, slots=True)
class ChannelDependencies:
    """What channels need besides their configuration."""

    cluster: str  # name of the cluster
    clock: Clock
    environment: Mapping[str, str]


def open_channel(
    sink: SinkConfig, around: ChannelDependencies, poster: Poster | None = None
) -> Channel:
    """The way to a sink; nothing is sent yet."""
    if sink.type is SinkType.SNS:
        return SnsChannel(sink, around)
    return HttpChannel(sink, around, poster or HttpPoster(around.environment))


class HttpChannel:
    """The way to Slack or a webhook."""

    def __init__(self, sink: SinkConfig, around: ChannelDependencies, poster: Poster) -> None:
        self._sink = sink
        self._around = around
        self._poster = poster
        self._host = ""

    async def send(self, message: Message) -> Answer:
        """Send a message once."""
        text = await asyncio.to_thread(read_secret, self._sink.url_file)
        url = text.decode(errors="replace")
        self._host = checked_host(url, self._sink.url_file)
        if self._sink.type is SinkType.SLACK:
            body = msgspec.json.encode(slack_payload(message, self._sink.template))
            return await self._poster.post(url, body, {"Content-Type": JSON})
        body = encoded_event(message, self._around.cluster)
        headers = {"Content-Type": CLOUD_EVENTS}
        if self._sink.secret_file:
            key = await asyncio.to_thread(read_secret, self._sink.secret_file)
            at = int(self._around.clock.now().timestamp())
            headers |= signature(body, key, at)
        return await self._poster.post(url, body, headers)

    def where(self) -> str:
        """The host."""
        return self._host

    async def close(self) -> None:
        """Close connections."""
        await self._poster.close()


class HttpPoster:
    """HTTP through aiohttp, and through the proxy of the environment if there is one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Send a body."""
        host = urlsplit(url).hostname or ""
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        try:
            async with self._session.post(
                url,
                data=body,
                headers={"User-Agent": f"karpenter/{__version__}", **headers},
                allow_redirects=False,
                proxy=proxy_for(url, self._environment) or None,
            ) as response:
                found = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, found)
        except (aiohttp.ClientError, OSError, ProxyError) as error:
            raise UnsentError(f"{host}: {_words(error)}") from None

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class SnsChannel:
    """The way to a topic of SNS, with the credentials of the controller."""

    def __init__(self, sink: SinkConfig, around: ChannelDependencies) -> None:
        self._sink = sink
        self._around = around
        self._client: Any = None

    async def send(self, message: Message) -> Answer:
        """Publish a message once."""
        body = encoded_event(message, self._around.cluster, SNS_BYTES)
        return await asyncio.to_thread(self._publish, body.decode(), sns_subject(message))

    def where(self) -> str:
        """The name of the topic."""
        return self._sink.topic_arn.rpartition(":")[2]

    async def close(self) -> None:
        """Do nothing: boto3 closes its connections itself."""

    def _publish(self, body: str, subject: str) -> Answer:
        try:
            import boto3  # type: ignore[import-untyped]
            from botocore.exceptions import (  # type: ignore[import-untyped]
                BotoCoreError,
                ClientError,
            )
        except ImportError:
            raise UnsendableError(
                "SNS needs boto3, which is not installed; install karpenter[aws]"
            ) from None
        try:
            if self._client is None:
                self._client = boto3.client("sns", region_name=self._sink.region)
            self._client.publish(TopicArn=self._sink.topic_arn, Message=body, Subject=subject)
        except ClientError as error:
            return Answer(_status(error.response))
        except BotoCoreError as error:
            raise UnsentError(f"SNS: {type(error).__name__}: {error}") from error
        return Answer(200)


def read_secret(path: str) -> bytes:
    """The content of a file without the white space around it.

    Raises:
        UnsentError: it cannot be read now, or is empty.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST_SECRET_BYTES).strip()
    except OSError as error:
        raise UnsentError(f"{path} cannot be read: {os_reason(error)}") from error
    if not text:
        raise UnsentError(f"{path} is empty")
    return text


def checked_host(url: str, path: str) -> str:
    """The host of an address that may be used.

    Raises:
        UnsendableError: it is no URL, or one without TLS to another host.
    """
    if not is_url(url):
        raise UnsendableError(f"{path} holds no address that begins with https://")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https" and not _is_loopback(host):
        raise UnsendableError(f"{path} holds a plain http address of {host}; use https")
    return host


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == _LOCAL


def _status(response: Mapping[str, Any]) -> int:
    """The HTTP status of an error of AWS; throttling counts as one to retry."""
    code = str(response.get("Error", {}).get("Code", ""))
    if "Throttl" in code:
        return 429
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return int(status) if status else _UNAVAILABLE


def _words(error: BaseException) -> str:
    """The reason of an error, without the URL that messages of aiohttp may contain."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {os_reason(error.os_error)}"
    if isinstance(error, ProxyError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return os_reason(error)
    return f"the connection was lost ({type(error).__name__})"
