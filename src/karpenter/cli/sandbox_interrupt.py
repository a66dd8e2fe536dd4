"""Asking a running sandbox for an interruption, from another process."""

import asyncio
from pathlib import Path
from typing import Final

from karpenter.api.nodes import Node
from karpenter.cli import output
from karpenter.cli.sandbox_aws import INTERRUPT
from karpenter.clock import SystemClock
from karpenter.kube.client import Client
from karpenter.kube.config import load_config
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.kube.http import HttpTransport
from karpenter.visible import visible

_EC2: Final = "aws:///"


def ask_for_interruption(node: str, event: str, kubeconfig: Path) -> None:
    """Ask for an announcement about the instance of a node, or say why that cannot be."""
    if not kubeconfig.exists():
        output.fail(f"{kubeconfig} does not exist; name the kubeconfig of a running sandbox")
    try:
        instance = asyncio.run(_ask(node, event, kubeconfig))
    except NotFoundError:
        output.fail(f"there is no node {node}; kubectl get nodes lists those there are")
    except KubeError as error:
        output.fail(str(error), output.EXIT_FAILED)
    told = f"AWS announces {event} for {instance}, the instance of node {node}"
    output.write(f"{visible(told)}\n")


async def _ask(node: str, event: str, kubeconfig: Path) -> str:
    """Ask, and return the id of the instance."""
    clock = SystemClock()
    config = load_config({"KUBECONFIG": str(kubeconfig)})
    transport = HttpTransport(config, clock, user_agent="karpenter-sandbox")
    try:
        kube = Client(transport, clock)
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
