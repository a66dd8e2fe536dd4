"""Errors of the operating system in words: without addresses, and never by a number of others."""

import errno
import socket
import ssl

import pytest

from karpenter.os_errors import os_reason


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            OSError(errno.EACCES, "Permission denied", "some/file"),
            "permission denied",
            id="of a file",
        ),
        pytest.param(
            ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('10.0.0.7', 443)"),
            "connection refused",
            id="asyncio tells where it tried",
        ),
        pytest.param(
            ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
            "[ssl: wrong_version_number] wrong version number",
            id="TLS has numbers of its own",
        ),
        pytest.param(
            socket.gaierror(8, "nodename nor servname provided, or not known"),
            "nodename nor servname provided, or not known",
            id="and so have name servers",
        ),
        pytest.param(OSError("Could not bind"), "could not bind", id="no number at all"),
    ],
)
def test_why_something_could_not_be_done(error: OSError, expected: str) -> None:
    assert expected == os_reason(error)
