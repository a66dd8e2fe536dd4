"""Registration: the Node of an instance is taken over by its claim.

The Node gets what its claim specifies in the same write that removes its ``unregistered`` taint, so
no pod is scheduled to a half-configured Node. Startup taints are added once and not restored after
they have been removed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import OwnerReference
from karpenter.api.nodes import Node, Taint
from karpenter.cloud.provider import HookResult, RegistrationHook
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context
from karpenter.controllers.lifecycle.claim_changes import (
    ClaimStep,
    added,
    conditioned,
    with_metadata,
)
from karpenter.controllers.lookup import nodes_of
from karpenter.kube.events import WARNING, Event
from karpenter.model import labels
from karpenter.model.conditions import FALSE, REGISTERED, TRUE, UNKNOWN, status_of
from karpenter.model.taints import UNREGISTERED, matches

_YES: Final = "true"


class RegistrationHealth(Protocol):
    """The record of how registrations of a pool end."""

    async def succeeded(self, claim: NodeClaim) -> None:
        """Note that a node of the claim's pool has registered."""

    async def failed(self, claim: NodeClaim, reason: str, message: str) -> None:
        """Note that a claim of the pool was given up before its node registered."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The combined result of the provider's hooks."""

    pending: tuple[str, ...] = ()  # names of the hooks that are not done
    again: float | None = None
    error: Exception | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class Registration:
    """The second step of a claim."""

    def __init__(self, context: Context, health: RegistrationHealth) -> None:
        self._context = context
        self._health = health
        self._log = context.log.bind(controller="nodeclaim.lifecycle")

    async def take(self, claim: NodeClaim) -> ClaimStep:
        """Register a claim that has not been registered."""
        if status_of(claim.status.conditions, REGISTERED) != UNKNOWN:
            return ClaimStep(claim)
        nodes = nodes_of(self._context, claim)
        if len(nodes) > 1:
            names = ", ".join(sorted(node.metadata.name for node in nodes))
            message = f"several Nodes have provider ID {claim.status.provider_id}: {names}"
            return ClaimStep(self._set(claim, FALSE, "MultipleNodesFound", message))
        if not nodes:
            message = "no Node with the provider ID of this claim has joined the cluster"
            return ClaimStep(self._set(claim, UNKNOWN, "NodeNotFound", message))
        if is_leaving(nodes[0]):
            message = f"Node {nodes[0].metadata.name} is being deleted"
            return ClaimStep(self._set(claim, UNKNOWN, "NodeNotFound", message))
        return await self._register(claim, nodes[0])

    async def _register(self, claim: NodeClaim, node: Node) -> ClaimStep:
        if lacks_marks(node):
            self._complain(claim, node)
        verdict = await ask(self._context.cloud.registration_hooks, claim, node)
        claim = with_metadata(
            claim,
            labels={**claim.metadata.labels, **verdict.labels},
            annotations={**claim.metadata.annotations, **verdict.annotations},
        )
        body = node_patch(claim, node, is_ready=not verdict.pending)
        if body:
            await self._context.patch(node, body, locked=True)
        if verdict.pending:
            message = f"waiting for {', '.join(verdict.pending)}"
            pending = self._set(claim, UNKNOWN, "RegistrationHookPending", message)
            return ClaimStep(pending, again=verdict.again, error=verdict.error)
        registered = self._set(claim, TRUE)
        status = msgspec.structs.replace(registered.status, node_name=node.metadata.name)
        return ClaimStep(
            msgspec.structs.replace(registered, status=status), afterwards=self._reporting(node)
        )

    def _set(self, claim: NodeClaim, status: str, reason: str = "", message: str = "") -> NodeClaim:
        now = self._context.clock.now()
        return conditioned(claim, REGISTERED, status, reason, message, now=now)

    def _complain(self, claim: NodeClaim, node: Node) -> None:
        name = node.metadata.name
        self._log.error(
            "node joined without the unregistered taint",
            NodeClaim={"name": claim.metadata.name},
            Node={"name": name},
        )
        self._context.recorder.publish(
            Event(
                claim,
                WARNING,
                "UnregisteredTaintMissing",
                f"Missing {labels.UNREGISTERED} taint which prevents registration related race"
                f" conditions on Karpenter-managed nodes: Node {name} joined without it, so pods"
                " may have been placed before it was registered",
                dedupe=(claim.metadata.uid,),
            )
        )

    def _reporting(self, node: Node) -> Callable[[NodeClaim], Awaitable[None]]:
        async def report(claim: NodeClaim) -> None:
            held = claim.metadata.labels
            self._context.metrics.nodes_created_total.labels(
                nodepool=held.get(labels.NODEPOOL, ""), zone=held.get(labels.ZONE, "")
            ).inc()
            self._context.decide(
                self._log.info,
                "registered nodeclaim",
                drafts.registered(claim, node, self._context.command_of(claim)),
                NodeClaim={"name": claim.metadata.name},
                Node={"name": node.metadata.name},
                **{"provider-id": claim.status.provider_id},
            )
            await self._health.succeeded(claim)

        return report


def is_leaving(node: Node) -> bool:
    """Whether a Node is being deleted without our finalizer; none can be added any more."""
    metadata = node.metadata
    return metadata.deletion_timestamp is not None and labels.TERMINATION not in metadata.finalizers


def lacks_marks(node: Node) -> bool:
    """Whether a Node is new and yet has nothing that keeps pods away."""
    has_taint = any(matches(taint, UNREGISTERED) for taint in node.spec.taints)
    return labels.REGISTERED not in node.metadata.labels and not has_taint


async def ask(hooks: Sequence[RegistrationHook], claim: NodeClaim, node: Node) -> Verdict:
    """Call all hooks concurrently, and combine their answers."""
    answers = await asyncio.gather(*(hook(claim, node) for hook in hooks), return_exceptions=True)
    return sum_up([(hook.name, answer) for hook, answer in zip(hooks, answers, strict=True)])


def sum_up(answers: Sequence[tuple[str, HookResult | BaseException]]) -> Verdict:
    """Combine the answers of all hooks.

    Raises:
        BaseException: a hook raised something that is no ``Exception``, such as a cancellation.
    """
    pending: list[str] = []
    waits: list[float] = []
    error: Exception | None = None
    more_labels: dict[str, str] = {}
    more_annotations: dict[str, str] = {}
    for name, answer in answers:
        if isinstance(answer, Exception):
            error = error or answer
            pending.append(name)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            more_labels |= answer.labels
            more_annotations |= answer.annotations
            if not answer.is_ready:
                pending.append(name)
                waits.append(answer.retry_after)
    return Verdict(
        pending=tuple(sorted(pending)),
        again=min(waits, default=None),
        error=error,
        labels=more_labels,
        annotations=more_annotations,
    )


def node_patch(claim: NodeClaim, node: Node, *, is_ready: bool) -> dict[str, Any]:
    """The patch that gives a Node what its claim specifies; empty if it has it.

    With ``is_ready`` it also removes the ``unregistered`` taint.
    """
    metadata: dict[str, Any] = {}
    held = node.metadata
    wanted_labels = dict(claim.metadata.labels)
    if is_ready:
        wanted_labels[labels.REGISTERED] = _YES
    if labels.TERMINATION not in held.finalizers:
        metadata["finalizers"] = [*held.finalizers, labels.TERMINATION]
    if not any(_is_reference_to(claim, owner) for owner in held.owner_references):
        owners = (*held.owner_references, _reference_to(claim))
        metadata["ownerReferences"] = msgspec.to_builtins(owners)
    if more := added(held.labels, wanted_labels):
        metadata["labels"] = more
    if more := added(held.annotations, claim.metadata.annotations):
        metadata["annotations"] = more
    body: dict[str, Any] = {"metadata": metadata} if metadata else {}
    taints = wanted_taints(claim, node, is_ready=is_ready)
    if taints != node.spec.taints:
        body["spec"] = {"taints": msgspec.to_builtins(taints)}
    return body


def wanted_taints(claim: NodeClaim, node: Node, *, is_ready: bool) -> tuple[Taint, ...]:
    """The taints of a Node that is registered, or still waits to be.

    A Node may carry the registered label while its claim lacks the condition, after a write that
    failed. Its startup taints are not restored: their owner may have removed them since.
    """
    taints = list(node.spec.taints)
    was_registered = node.metadata.labels.get(labels.REGISTERED) == _YES
    if not was_registered and node.metadata.labels.get(labels.DO_NOT_SYNC_TAINTS) != _YES:
        for taint in (*claim.spec.taints, *claim.spec.startup_taints):
            if not any(matches(taint, known) for known in taints):
                taints.append(taint)
    if is_ready:
        taints = [taint for taint in taints if not matches(taint, UNREGISTERED)]
    return tuple(taints)


def _reference_to(claim: NodeClaim) -> OwnerReference:
    return OwnerReference(
        api_version=NodeClaim.api_version,
        kind=claim.kind,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        block_owner_deletion=True,
    )


def _is_reference_to(claim: NodeClaim, owner: OwnerReference) -> bool:
    ours = _reference_to(claim)
    return (owner.api_version, owner.kind, owner.uid) == (ours.api_version, ours.kind, ours.uid)
