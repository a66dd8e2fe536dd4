"""Connects to a running sandbox from another process, and checks that it is a sandbox."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from karpenter.clock import SystemClock
from karpenter.console import output
from karpenter.inquiry.live import is_sandbox
from karpenter.kube.access.config import load_config
from karpenter.kube.client import Client, Kube
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.kube.http import HttpTransport
from karpenter_sandbox.command.app import KUBECONFIG

T = TypeVar("T")


def in_sandbox(kubeconfig: Path | None, work: Callable[[Kube], Awaitable[T]]) -> T:
    """Do something with the API of a running sandbox, or end the command with one sentence.

    Args:
        kubeconfig: the file that was named; if none was, ``KUBECONFIG`` counts, as for kubectl, and
            otherwise what a sandbox has written into this folder.
        work: what is done.

    Raises:
        NotFoundError: the work asked for an object that is not there.
    """
    listed = os.environ.get("KUBECONFIG", "") if kubeconfig is None else ""
    file = kubeconfig or Path(KUBECONFIG)
    if not listed and not file.exists():
        output.fail(
            f"{file} does not exist; name the kubeconfig of a running sandbox with --kubeconfig,"
            " or set KUBECONFIG"
        )
    try:
        return asyncio.run(_reached(listed or str(file), work))
    except NotFoundError:
        raise
    except KubeError as error:
        output.fail(str(error), output.EXIT_FAILED)


async def _reached(kubeconfig: str, work: Callable[[Kube], Awaitable[T]]) -> T:
    clock = SystemClock()
    config = load_config({**os.environ, "KUBECONFIG": kubeconfig})
    transport = HttpTransport(config, clock, user_agent="karpenter-sandbox")
    try:
        kube = Client(transport, clock)
        if not await is_sandbox(kube):  # it may be a production cluster
            output.fail(f"{kubeconfig} leads to a cluster that is no sandbox; nothing is changed")
        return await work(kube)
    finally:
        await transport.close()
