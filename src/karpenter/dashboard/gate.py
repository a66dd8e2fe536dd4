"""What is checked of a request before any route sees it, and the headers of every answer.

The page is reachable by every program and every web page of the machine it runs on. So a request
must name this server as its host (another name means that a foreign page had its own name resolved
to this address), must not come from a page of another origin, and for data must carry the token.
Only a link that a person follows to the page itself may begin elsewhere: the page alone says nothing.
"""

import hmac
import posixpath
import re
import secrets
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from karpenter.clock import Clock

TOKEN_HEADER: Final = "Karpenter-Token"  # noqa: S105 the name of a header
API: Final = "/api/"
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
MOST_FAILURES: Final = 10  # with a wrong token, of one address
FAILURES_SECONDS: Final = 60.0
_MOST_ADDRESSES: Final = 1000
_TOKEN_BYTES: Final = 32
_BODY_TYPES: Final = ("application/json", "application/yaml", "application/x-yaml", "text/yaml")
_PORT: Final = re.compile(r":\d+$")

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as far as the gate looks at it; names of headers are in lower case."""

    method: str
    target: str  # as it was sent, with the query
    headers: Mapping[str, str]
    address: str  # of the client

    @property
    def path(self) -> str:
        """The path that is routed: decoded, without dots and repeated slashes."""
        target = self.target
        path = target.partition("?")[0] if target.startswith("/") else urlsplit(target).path
        return posixpath.normpath(f"/{unquote(path).lstrip('/')}")


@dataclass(frozen=True, slots=True)
class Turned:
    """Why a request is not let through."""

    status: int
    text: str  # one sentence
    headers: Mapping[str, str] = field(default_factory=dict)


def new_token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


class Gate:
    """Lets requests through, or says why not."""

    def __init__(
        self,
        token: str,
        clock: Clock,
        *,
        hosts: Collection[str] = (),
        has_tls: bool = False,
        is_guessable: bool = False,
    ) -> None:
        """Make a gate.

        Args:
            token: what every request for data carries.
            clock: the time of failures.
            hosts: names under which the page is reached, besides those of loopback.
            has_tls: the server itself speaks HTTPS.
            is_guessable: the token was chosen by a person. After too many wrong ones not even the
                right one is taken from that address for a while, else guessing could go on. A
                random token cannot be guessed, and its owner cannot be locked out.
        """
        self._token = token.encode()
        self._clock = clock
        self._hosts = frozenset((*LOOPBACK_NAMES, *map(str.lower, hosts)))
        self._behind = frozenset(map(str.lower, hosts))  # a proxy may speak HTTPS for these
        self._scheme = "https" if has_tls else "http"
        self._is_guessable = is_guessable
        self._failures: dict[str, deque[float]] = {}  # address -> moments of the last minute

    def turned_away(self, asked: Asked) -> Turned | None:
        """Why a request does not get to its route; None if it does."""
        try:
            path = asked.path
        except ValueError:
            return Turned(400, "the target of the request is no URL")
        return self._foreign(asked, path) or self._unknown(asked, path) or _unfit(asked)

    def _foreign(self, asked: Asked, path: str) -> Turned | None:
        """Whether a request comes from elsewhere than the page."""
        host = asked.headers.get("host", "").lower()
        if self._name(host) not in self._hosts:
            return Turned(
                421,
                "this server does not answer to that host name; --allow-host adds a name",
            )
        if not self._is_of_page(asked.headers.get("origin"), host):
            return Turned(403, "requests of pages of another origin are not answered")
        site = asked.headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none") and not _follows_link(asked, path):
            return Turned(403, "requests of pages of another origin are not answered")
        return None

    def _name(self, host: str) -> str:
        return host if host in self._hosts else _PORT.sub("", host)

    def _is_of_page(self, origin: str | None, host: str) -> bool:
        if origin is None:
            return True
        schemes = {self._scheme}
        if not {host, self._name(host)}.isdisjoint(self._behind):
            schemes.add("https")
        return origin.lower() in {f"{scheme}://{host}" for scheme in schemes}

    def _unknown(self, asked: Asked, path: str) -> Turned | None:
        """Whether a request for data lacks the token."""
        if not f"{path}/".startswith(API):
            return None
        failures = self._failures_of(asked.address)
        is_locked = len(failures) >= MOST_FAILURES
        is_right = hmac.compare_digest(_given(asked.headers).encode(errors="replace"), self._token)
        if is_right and not (is_locked and self._is_guessable):
            return None
        if is_locked:
            left = failures[0] + FAILURES_SECONDS - self._clock.monotonic()
            return Turned(
                429,
                "too many requests without the right token; wait a minute",
                {"Retry-After": str(max(1, round(left)))},
            )
        self._note_failure(asked.address, failures)
        return Turned(401, "this needs the token of the printed address")

    def _failures_of(self, address: str) -> deque[float]:
        failures = self._failures.get(address, deque())
        while failures and self._clock.monotonic() - failures[0] >= FAILURES_SECONDS:
            failures.popleft()
        return failures

    def _note_failure(self, address: str, failures: deque[float]) -> None:
        failures.append(self._clock.monotonic())
        self._failures.pop(address, None)
        self._failures[address] = failures  # the latest comes last
        if len(self._failures) > _MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]


def _given(headers: Mapping[str, str]) -> str:
    """The token of a request; empty if there is none."""
    if token := headers.get(TOKEN_HEADER.lower(), ""):
        return token
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _follows_link(asked: Asked, path: str) -> bool:
    """Whether a browser opens the page because a person followed a link, in a tab of its own."""
    return (
        asked.method == "GET"
        and path == "/"
        and asked.headers.get("sec-fetch-mode") == "navigate"
        and asked.headers.get("sec-fetch-dest") == "document"
    )


def _unfit(asked: Asked) -> Turned | None:
    """Whether a body has a type that plain forms of foreign pages can send."""
    if asked.method != "POST":
        return None
    kind = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _BODY_TYPES:
        return None
    return Turned(415, "a body must be JSON or YAML, with the Content-Type that says so")
