"""Who may come in: the checks of where a dashboard listens, before it does.

On loopback a random token is enough. Beyond it everybody on the network can try, so that the token is
one that a person chose with care and keeps in a file, and the names under which the page is reached
are known: a page of another name could be foreign.
"""

import asyncio
import ipaddress
import re
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from karpenter.clock import Clock
from karpenter.dashboard.server.serving import LOOPBACK, PORT, Place
from karpenter.os_errors import os_reason

SHORTEST_TOKEN: Final = 32
_LONGEST_TOKEN: Final = 4096
# A name or an address, as the gate compares it: browsers send ports, and it leaves them out
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-_.A-Za-z0-9]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_CERTIFICATE_SECONDS: Final = 60.0


class EntranceError(Exception):
    """A dashboard may not be served so; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """What the command line says of it."""

    host: str = LOOPBACK
    port: int | None = None  # None: the usual one, or the next that is free
    hosts: Sequence[str] = ()
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    named: Callable[[str], str] = "--{}".format  # how an option is called where it is given

    @property
    def is_open(self) -> bool:
        """Whether others than this machine can connect."""
        return not is_loopback(self.host)

    def place(self) -> Place:
        """Where to serve.

        Raises:
            EntranceError: not so.
        """
        if self.is_open and self.token_file is None:
            raise EntranceError(
                f"{self.named('host')} {self.host} opens the dashboard to the network: give it a"
                f" token of {SHORTEST_TOKEN} characters or more with {self.named('token-file')}"
            )
        if self.is_open and not self.hosts:
            raise EntranceError(
                f"{self.named('host')} {self.host} opens the dashboard to the network: name what it"
                f" is called there with {self.named('allow-host')}"
            )
        for name in self.hosts:
            if not _HOST_NAME.fullmatch(name):
                raise EntranceError(
                    f"{self.named('allow-host')} {name!r}: write the name alone, such as"
                    " nodes.example.com, without scheme, port and path"
                )
        return Place(
            host=self.host,
            port=PORT if self.port is None else self.port,
            takes_next=self.port is None,
            option=self.named("port"),
            token=self._token(),
            hosts=tuple(self.hosts),
            tls=self._tls(),
        )

    @property
    def warning(self) -> str:
        """What to warn of; empty for nothing."""
        if self.is_open and self.certificate is None:
            return (
                "the dashboard is served over plain HTTP: everybody between it and a browser can"
                f" read the token; {self.named('tls-cert')} and {self.named('tls-key')} encrypt it"
            )
        return ""

    def _token(self) -> str:
        if self.token_file is None:
            return ""
        given = f"{self.named('token-file')} {self.token_file}"
        try:
            token = self.token_file.read_text("utf-8").strip()
        except OSError as error:
            raise EntranceError(f"{given}: {os_reason(error)}") from error
        except UnicodeDecodeError:
            raise EntranceError(f"{given}: it is no text") from None
        if not SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN:
            raise EntranceError(
                f"{given}: the token has {len(token)} characters; it needs {SHORTEST_TOKEN} to"
                f" {_LONGEST_TOKEN}"
            )
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise EntranceError(
                f"{given}: the token may hold letters, digits and signs of ASCII only, on one line"
            )
        return token

    def _tls(self) -> ssl.SSLContext | None:
        if self.certificate is None and self.key is None:
            return None
        if self.certificate is None or self.key is None:
            missing = self.named("tls-cert" if self.certificate is None else "tls-key")
            raise EntranceError(f"HTTPS needs a certificate and its key: {missing} is missing")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._load(context, self.certificate, self.key)
        return context

    def _load(self, context: ssl.SSLContext, certificate: Path, key: Path) -> None:
        """Have connections from now on use a certificate."""
        given = f"{self.named('tls-cert')} {certificate}, {self.named('tls-key')} {key}"
        try:
            context.load_cert_chain(certificate, key)
        except ssl.SSLError as error:  # before OSError, which it is too
            reason = error.reason or "a certificate and its key in PEM format are expected"
            raise EntranceError(f"{given}: {reason}") from error
        except OSError as error:
            raise EntranceError(f"{given}: {os_reason(error)}") from error

    async def renewed(
        self, context: ssl.SSLContext | None, clock: Clock, warn: Callable[[str], object]
    ) -> None:
        """Use a new certificate once its files have changed, until cancelled."""
        certificate, key = self.certificate, self.key
        if context is None or certificate is None or key is None:
            return
        known = await asyncio.to_thread(_changed_at, certificate, key)
        while True:
            await clock.sleep(_CERTIFICATE_SECONDS)
            now = await asyncio.to_thread(_changed_at, certificate, key)
            if now is None or now == known:
                continue
            known = now
            try:
                self._load(context, certificate, key)
            except EntranceError as error:
                warn(f"{error}; the certificate of before stays in use")


def _changed_at(*files: Path) -> tuple[int, ...] | None:
    try:
        return tuple(file.stat().st_mtime_ns for file in files)
    except OSError:
        return None


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
