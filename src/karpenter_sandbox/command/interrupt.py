"""Requests an interruption from a running sandbox, from another process."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from karpenter.api.nodes import Node
from karpenter.cloud.aws.interruption.queue import ACT_ON_REBALANCE
from karpenter.console import output
from karpenter.kube.client import Kube
from karpenter.kube.errors import NotFoundError
from karpenter.visible import visible
from karpenter_sandbox.command.aws import INTERRUPT
from karpenter_sandbox.command.running import in_sandbox

_EC2: Final = "aws:///"
_REMOVED: Final = (
    "the controllers delete its NodeClaim, drain the node and replace what its pods need"
)
_ADVISED: Final = (
    "the controllers record an event, and remove the node only where its NodePool has the"
    f" annotation {ACT_ON_REBALANCE}"
)
# Interruption event -> its name in words, and the effect that the command prints
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


def ask_for_interruption(node: str, event: str, kubeconfig: Path | None) -> None:
    """Request an interruption of a node's instance, or print why that is not possible.

    Args:
        node: the node.
        event: what is announced.
        kubeconfig: the file that was named.
    """
    try:
        instance = in_sandbox(kubeconfig, lambda kube: _ask(kube, node, event))
    except NotFoundError:
        output.fail(f"there is no node {node}; kubectl get nodes lists those there are")
    announced, follows = _EVENTS[event]
    text = f"AWS announces {announced} of {instance}, the instance of node {node}: {follows}."
    output.write(f"{visible(text)}\n")


async def _ask(kube: Kube, node: str, event: str) -> str:
    """Annotate the node, and return the id of its instance."""
    provider_id = (await kube.get(Node, node)).spec.provider_id
    if not provider_id.startswith(_EC2):
        output.fail(
            f"node {node} is no instance of EC2; karpenter sandbox --provider aws makes such"
        )
    patch = {"metadata": {"annotations": {INTERRUPT: event}}}
    await kube.patch(Node, node, patch)
    return provider_id.rpartition("/")[2]
