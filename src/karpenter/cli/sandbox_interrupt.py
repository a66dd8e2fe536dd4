"""Asking a running sandbox for an interruption, from another process."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from karpenter.api.nodes import Node
from karpenter.cli import output
from karpenter.cli.cluster_live import is_sandbox
from karpenter.cli.sandbox_aws import INTERRUPT
from karpenter.clock import SystemClock
from karpenter.cloud.aws.interruption import ACT_ON_REBALANCE
from karpenter.kube.client import Client
from karpenter.kube.config import load_config
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.kube.http import HttpTransport
from karpenter.visible import visible

_EC2: Final = "aws:///"
_REMOVED: Final = (
    "the controllers delete its NodeClaim, drain the node and replace what its pods need"
)
_ADVISED: Final = (
    "the controllers record an event, and remove the node only where its NodePool has the"
    f" annotation {ACT_ON_REBALANCE}"
)
# What is announced, and what follows from it
_EVENTS: Final[Mapping[str, tuple[str, str]]] = {
    "spot": ("a spot interruption", f"{_REMOVED}, and avoid that spot offering for a while"),
    "rebalance": (
        "a rebalance recommendation",
        _ADVISED,
    ),
    "reservation": (
        "the end of the capacity reservation",
        f"{_REMOVED}, and count the reservation as full",
    ),
    "scheduled-change": ("a scheduled change", _REMOVED),
    "stopping": ("the stop", _REMOVED),
    "terminating": ("the termination", _REMOVED),
}


def ask_for_interruption(node: str, event: str, kubeconfig: Path | None, usual: Path) -> None:
    """Ask for an announcement about the instance of a node, or say why that cannot be.

    Args:
        node: the node.
        event: what is announced.
        kubeconfig: the file that was named.
        usual: the file where neither one was named nor ``KUBECONFIG`` is set.
    """
    listed = os.environ.get("KUBECONFIG", "") if kubeconfig is None else ""
    file = kubeconfig or usual
    if not listed and not file.exists():
        output.fail(
            f"{file} does not exist; name the kubeconfig of a running sandbox with --kubeconfig,"
            " or set KUBECONFIG"
        )
    try:
        instance = asyncio.run(_ask(node, event, listed or str(file)))
    except NotFoundError:
        output.fail(f"there is no node {node}; kubectl get nodes lists those there are")
    except KubeError as error:
        output.fail(str(error), output.EXIT_FAILED)
    announced, follows = _EVENTS[event]
    told = f"AWS announces {announced} of {instance}, the instance of node {node}: {follows}."
    output.write(f"{visible(told)}\n")


async def _ask(node: str, event: str, kubeconfig: str) -> str:
    """Ask, and return the id of the instance."""
    clock = SystemClock()
    config = load_config({**os.environ, "KUBECONFIG": kubeconfig})
    transport = HttpTransport(config, clock, user_agent="karpenter-sandbox")
    try:
        kube = Client(transport, clock)
        if not await is_sandbox(kube):  # nobody there would act on it, and it may be in earnest
            output.fail(f"{kubeconfig} leads to a cluster that is no sandbox; nothing is changed")
        provider_id = (await kube.get(Node, node)).spec.provider_id
        if not provider_id.startswith(_EC2):
            output.fail(
                f"node {node} is no instance of EC2; karpenter sandbox --provider aws makes such"
            )
        patch = {"metadata": {"annotations": {INTERRUPT: event}}}
        await kube.patch(Node, node, patch)
        return provider_id.rpartition("/")[2]
    finally:
        await transport.close()
