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

_EC2: Final = "aws:///"


def ask_for_interruption(node: str, kubeconfig: Path) -> None:
    """Ask for the instance of a node to be taken back, or say why that cannot be."""
    if not kubeconfig.exists():
        output.fail(f"{kubeconfig} does not exist; name the kubeconfig of a running sandbox")
    try:
        asyncio.run(_ask(node, kubeconfig))
    except NotFoundError:
        output.fail(f"there is no node {node}; kubectl get nodes lists those there are")
    except KubeError as error:
        output.fail(str(error), output.EXIT_FAILED)


async def _ask(node: str, kubeconfig: Path) -> None:
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
        patch = {"metadata": {"annotations": {INTERRUPT: "true"}}}
        await kube.patch(Node, node, patch)
    finally:
        await transport.close()
