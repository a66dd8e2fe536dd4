"""Current credentials: token files are read again, and exec plugins run again on expiry.

Every request asks for a ``Proof``. When the server rejects one, ``renew`` obtains a newer one, once
for all requests that used the old one.
"""

import asyncio
import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from karpenter.clock import Clock
from karpenter.kube.access.exec_plugin import ExecAnswer, run_plugin
from karpenter.kube.access.types import Certificate, Identity
from karpenter.kube.errors import CredentialsError

# Tokens of service accounts live for an hour and are replaced long before their end
_READ_EVERY: Final = 60.0
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Proof:
    """The credentials of one request; equal proofs are the same to the server."""

    headers: tuple[tuple[str, str], ...] = ()
    certificate: Certificate | None = None


class Credentials:
    """Provides current credentials for the life of a client."""

    def __init__(self, identity: Identity, clock: Clock, environment: Mapping[str, str]) -> None:
        self._identity = identity
        self._clock = clock
        self._environment = environment
        self._token = identity.token
        self._read_at: float | None = None  # when the token file was read last
        self._answer: ExecAnswer | None = None  # of the plugin
        self._asking = asyncio.Lock()

    async def proof(self) -> Proof:
        """What to send now.

        Raises:
            CredentialsError: credentials are configured and cannot be obtained.
        """
        identity = self._identity
        headers = [*identity.impersonation]
        certificate = identity.certificate
        if token := self._current_token():
            headers.append(("Authorization", f"Bearer {token}"))
        elif identity.username:
            pair = f"{identity.username}:{identity.password}".encode()
            headers.append(("Authorization", f"Basic {base64.b64encode(pair).decode()}"))
        elif identity.exec_command is not None:
            answer = await self._plugin_answer()
            certificate = answer.certificate or certificate
            if answer.token:
                headers.append(("Authorization", f"Bearer {answer.token}"))
        _check_headers(headers)
        return Proof(tuple(headers), certificate)

    async def renew(self, refused: Proof) -> Proof | None:
        """A proof to try after the server refused one, or None when there is no other."""
        self._read_at = None
        answer = self._answer
        current = await self.proof()
        if current == refused and answer is not None:
            # Unless another request has done so already, run the plugin again
            if self._answer is answer:
                self._answer = None
            current = await self.proof()
        return current if current != refused else None

    async def _plugin_answer(self) -> ExecAnswer:
        async with self._asking:
            answer = self._answer
            if answer is None or (answer.expires and self._clock.now() >= answer.expires):
                assert self._identity.exec_command is not None
                answer = await run_plugin(
                    self._identity.exec_command, self._environment, self._clock
                )
                self._answer = answer
            return answer

    def _current_token(self) -> str:
        file = self._identity.token_file
        now = self._clock.monotonic()
        if file is not None and (self._read_at is None or now - self._read_at >= _READ_EVERY):
            self._token = _read_token(file) or self._token
            self._read_at = now
            if not self._token:
                raise CredentialsError(f"there is no token in {file}; write one, or use another")
        return self._token


def _check_headers(headers: Sequence[tuple[str, str]]) -> None:
    for name, value in headers:
        if _CONTROL.search(value):
            what = "the token" if name == "Authorization" else f"what is sent as {name}"
            raise CredentialsError(
                f"{what} has a line break or another control character in it;"
                " write it on one line, and nothing else"
            )


def _read_token(file: Path) -> str:
    """The token in a file; empty when it cannot be read just now."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
