"""Exec credential plugins: runs them and parses their answer.

They are run as ``kubectl`` runs them, with the environment of this process, what the kubeconfig
adds to it, and ``KUBERNETES_EXEC_INFO``. Their standard error goes into the error message, because
a controller has no terminal.
"""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from karpenter.api.codec import decode_as
from karpenter.api.meta import Model, Time
from karpenter.api.problems import DecodeError
from karpenter.clock import Clock
from karpenter.kube.access.types import Certificate, ExecCommand
from karpenter.kube.errors import CredentialsError

# A plugin may have to wait for a cloud, but needs a timeout
_SECONDS: Final = 60.0
_MOST_WORDS: Final = 300


class _Status(Model, frozen=True):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Time | None = None


class _ExecCredential(Model, frozen=True):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class ExecAnswer:
    """The answer of a plugin: a token, a certificate or both, and their expiry."""

    token: str = field(default="", repr=False)
    certificate: Certificate | None = None
    expires: datetime | None = None


def _stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


async def run_plugin(
    command: ExecCommand,
    environment: Mapping[str, str],
    clock: Clock,
    *,
    is_terminal: Callable[[], bool] = _stdin_is_terminal,
) -> ExecAnswer:
    """Run the program and return its answer.

    Raises:
        CredentialsError: it cannot be run, failed, or printed no credentials.
    """
    interactive = command.interactive_mode != "Never" and is_terminal()
    if command.interactive_mode == "Always" and not interactive:
        raise CredentialsError(
            f"the exec plugin {command.command} asks for input, but there is no terminal;"
            " use other credentials, or interactiveMode IfAvailable"
        )
    info = {"interactive": interactive}
    output = await _output(command, _environment(command, environment, info), clock, interactive)
    return _answer(command, output)


def _environment(
    command: ExecCommand, environment: Mapping[str, str], spec: dict[str, Any]
) -> dict[str, str]:
    if command.cluster_info is not None:
        spec = {**spec, "cluster": command.cluster_info}
    credential = {"kind": "ExecCredential", "apiVersion": command.api_version, "spec": spec}
    text = msgspec.json.encode(credential).decode()
    return {**environment, **dict(command.env), "KUBERNETES_EXEC_INFO": text}


async def _output(
    command: ExecCommand, environment: Mapping[str, str], clock: Clock, interactive: bool
) -> bytes:
    program = shutil.which(command.command, path=environment.get("PATH", os.defpath))
    if program is None:
        hint = f"; {command.install_hint}" if command.install_hint else ""
        raise CredentialsError(f"the exec plugin {command.command} is not installed{hint}")
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *command.args,
            env=environment,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except (OSError, ValueError) as error:  # ValueError: an invalid name of a variable
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CredentialsError(f"the exec plugin {program} cannot be run: {reason}") from error
    try:
        output, said = await clock.wait_for(process.communicate(), seconds=_SECONDS)
    except TimeoutError as error:
        raise CredentialsError(
            f"the exec plugin {command.command} did not answer within {_SECONDS:.0f} seconds"
        ) from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        words = " ".join(said.decode(errors="replace").split())[-_MOST_WORDS:]
        raise CredentialsError(
            f"the exec plugin {command.command} failed with exit code {process.returncode}"
            + (f": {words}" if words else "")
        )
    return output


def _answer(command: ExecCommand, output: bytes) -> ExecAnswer:
    name = f"the exec plugin {command.command}"
    try:
        said = decode_as(output, _ExecCredential)
    except DecodeError as error:
        raise CredentialsError(
            f"{name} printed something other than a credential: {error}"
        ) from error
    if said.kind != "ExecCredential" or said.api_version != command.api_version:
        raise CredentialsError(
            f"{name} answered with {said.kind or 'no kind'} of {said.api_version or 'no version'},"
            f" but the kubeconfig asks for ExecCredential of {command.api_version}"
        )
    status = said.status or _Status()
    certificate, key = status.client_certificate_data, status.client_key_data
    if bool(certificate) != bool(key):
        raise CredentialsError(f"{name} gave a certificate without a key, or the other way round")
    if not status.token and not certificate:
        raise CredentialsError(f"{name} gave neither a token nor a certificate")
    return ExecAnswer(
        token=status.token,
        certificate=Certificate(certificate.encode(), key.encode()) if certificate else None,
        expires=status.expiration_timestamp,
    )
