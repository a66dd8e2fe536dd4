"""Reconciles node classes: finalizer, drift hash, status, and clean-up on deletion.

A node class that is deleted waits for its claims, then takes its instance profiles and launch
templates with it.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import structlog

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.ec2.errors import AwsUnauthorizedError
from karpenter.cloud.aws.launch.templates import LaunchTemplates
from karpenter.cloud.aws.node_class import conditions, drift_hash
from karpenter.cloud.aws.node_class.instance_profiles import InstanceProfiles
from karpenter.cloud.aws.node_class.status import NEVER, StatusSteps, StepFunction
from karpenter.cloud.aws.node_class.validation import Validation
from karpenter.cloud.provider import CloudError
from karpenter.kube.errors import KubeError, NotFoundError
from karpenter.kube.events import NORMAL, WARNING, Event, Recorder
from karpenter.kube.workqueue import Backoff
from karpenter.model.conditions import DRIFTED, FALSE, READY, find
from karpenter.runtime import REASONABLE, KeyedController
from karpenter.telemetry import Metrics

_WAITING: Final = "WaitingOnNodeClaimTermination"
_NOT_LISTED: Final = "InstanceProfilesNotListed"
_BLOCKED: Final = "DeletionBlocked"
_WAIT_FOR_CLAIMS: Final = 600.0


class NodeClassController(KeyedController):
    """Reconciles node classes; a key is the name of one."""

    name: str = "nodeclass"
    kind = EC2NodeClass
    workers: int = 10
    backoff: Backoff = REASONABLE

    def __init__(
        self,
        view: ClusterView,
        clock: Clock,
        recorder: Recorder,
        steps: StatusSteps,
        validation: Validation,
        profiles: InstanceProfiles,
        templates: LaunchTemplates,
        metrics: Metrics,
        *,
        uses_reservations: bool = True,
        is_isolated: bool = False,
        ca_bundle: Callable[[], str] = str,
    ) -> None:
        super().__init__(clock, structlog.get_logger("karpenter.aws"), metrics)
        self._ca_bundle = ca_bundle  # base64; part of the hash
        self._view = view
        self._recorder = recorder
        self._steps = steps
        self._validation = validation
        self._profiles = profiles
        self._templates = templates
        self._dependents = conditions.dependents(uses_reservations=uses_reservations)
        self._is_isolated = is_isolated

    async def run(self) -> None:
        """Reconcile node classes until cancelled."""
        await self._view.synced()
        self._ends.append(self._view.node_classes.on_change(self._class_changed))
        self._ends.append(self._view.claims.on_change(self._claim_changed))
        await super().run()

    async def reconcile(self, key: str) -> float | None:
        """Bring one node class up to date, and return the seconds until the next reconcile."""
        node_class = self._view.node_classes.get(key)
        if node_class is None:
            return None
        if node_class.metadata.deletion_timestamp is not None:
            return await self._finalize(node_class)
        node_class = await self._stamp(node_class)
        return await self._update_status(node_class)

    async def _update_status(self, node_class: EC2NodeClass) -> float | None:
        if find(node_class.status.conditions, READY) is None:
            # Before any call to AWS, which may be slow or fail
            node_class = await self._write_status(node_class, node_class)
        changed, wait, failure = node_class, NEVER, None
        for step in (*self._steps.all, self._validation.step):
            try:
                changed, again = await _take(step, changed)
            except (CloudError, KubeError) as error:
                failure = failure or error
                continue
            wait = min(wait, again)
        await self._write_status(node_class, changed)
        if failure is not None:
            raise failure
        return wait if wait < NEVER else None

    async def _write_status(self, stored: EC2NodeClass, changed: EC2NodeClass) -> EC2NodeClass:
        """Write what differs, with Ready as the sum of all conditions."""
        changed = conditions.summed_up(changed, self._dependents, now=self.clock.now())
        body = conditions.status_body(stored, changed)
        return await self._patch(stored, {"status": body}, subresource="status") if body else stored

    async def _stamp(self, node_class: EC2NodeClass) -> EC2NodeClass:
        """Add the finalizer and the hash; claims with a hash of another kind get a new one."""
        metadata = node_class.metadata
        stamp = {
            ec2_labels.NODE_CLASS_HASH: drift_hash.node_class_hash(node_class, self._ca_bundle()),
            ec2_labels.NODE_CLASS_HASH_VERSION: drift_hash.VERSION,
        }
        known = metadata.annotations.get(ec2_labels.NODE_CLASS_HASH_VERSION)
        if known != drift_hash.VERSION:
            for claim in self._view.claims_of_class(metadata.name):
                await self._restamp(claim, stamp)
        body: dict[str, Any] = {}
        if ec2_labels.TERMINATION not in metadata.finalizers:
            body["finalizers"] = [*metadata.finalizers, ec2_labels.TERMINATION]
        if any(metadata.annotations.get(key) != value for key, value in stamp.items()):
            body["annotations"] = stamp
        return await self._patch(node_class, {"metadata": body}) if body else node_class

    async def _restamp(self, claim: NodeClaim, stamp: Mapping[str, str]) -> None:
        held = claim.metadata.annotations
        if held.get(ec2_labels.NODE_CLASS_HASH_VERSION) == drift_hash.VERSION:
            return
        # A claim that has drifted keeps its hash, which differs from that of the class
        has_drifted = find(claim.status.conditions, DRIFTED) is not None
        kept = (ec2_labels.NODE_CLASS_HASH_VERSION,) if has_drifted else tuple(stamp)
        body = {"metadata": {"annotations": {key: stamp[key] for key in kept}}}
        try:
            changed = await self._view.kube.patch(NodeClaim, claim.metadata.name, body)
        except NotFoundError:
            return
        self._view.claims.put(changed)

    async def _finalize(self, node_class: EC2NodeClass) -> float | None:
        metadata = node_class.metadata
        if ec2_labels.TERMINATION not in metadata.finalizers:
            return None
        claims = sorted(c.metadata.name for c in self._view.claims_of_class(metadata.name))
        if claims:
            more = f" and {len(claims) - 5} other(s)" if len(claims) > 5 else ""
            message = f"Waiting on NodeClaim termination for {', '.join(claims[:5])}{more}"
            self._publish(node_class, NORMAL, _WAITING, message)
            return _WAIT_FOR_CLAIMS
        try:
            await self._clean_up(node_class)
        except AwsUnauthorizedError as error:
            await self._report_blocked(node_class, error)
            raise
        left = [each for each in metadata.finalizers if each != ec2_labels.TERMINATION]
        with suppress(NotFoundError):
            await self._patch(node_class, {"metadata": {"finalizers": left}})
        self._validation.forget(metadata.name)
        return None

    async def _clean_up(self, node_class: EC2NodeClass) -> None:
        """Delete what was created for a node class; resources it may not list are reported."""
        if not self._is_isolated:
            left = await self._profiles.delete_all(node_class)
            if left:
                self._publish(node_class, WARNING, _NOT_LISTED, left)
        await self._templates.delete_of(node_class.metadata.name)

    async def _report_blocked(self, node_class: EC2NodeClass, error: AwsUnauthorizedError) -> None:
        """Report on the class which permission its deletion waits for."""
        permission = f"{error.service}:{error.operation}"
        message = f"the node class cannot be deleted: grant the controller {permission} ({error})"
        self._publish(node_class, WARNING, _BLOCKED, message)
        changed = conditions.with_condition(
            node_class, READY, FALSE, _BLOCKED, message, now=self.clock.now()
        )
        body = conditions.status_body(node_class, changed)
        if body:
            await self._patch(node_class, {"status": body}, subresource="status")

    def _publish(self, node_class: EC2NodeClass, type_: str, reason: str, message: str) -> None:
        dedupe = (node_class.metadata.uid,)
        self._recorder.publish(Event(node_class, type_, reason, message, dedupe=dedupe))

    async def _patch(
        self, node_class: EC2NodeClass, body: Mapping[str, Any], *, subresource: str = ""
    ) -> EC2NodeClass:
        metadata = node_class.metadata
        locked = {**body.get("metadata", {}), "resourceVersion": metadata.resource_version}
        changed = await self._view.kube.patch(
            EC2NodeClass,
            metadata.name,
            {**body, "metadata": locked},
            subresource=subresource,
        )
        self._view.node_classes.put(changed)
        return changed

    def _class_changed(self, old: EC2NodeClass | None, new: EC2NodeClass | None) -> None:
        if new is None:
            return
        # Changes of the status alone are written by this controller
        if old is None or _watched(old) != _watched(new):
            self.queue.add(new.metadata.name)

    def _claim_changed(self, old: NodeClaim | None, new: NodeClaim | None) -> None:
        if new is None and old is not None:
            self.queue.add(old.spec.node_class_ref.name)


async def _take(step: StepFunction, node_class: EC2NodeClass) -> tuple[EC2NodeClass, float]:
    taken = await step(node_class)
    return taken.node_class, taken.look_again_in


def _watched(node_class: EC2NodeClass) -> tuple[object, ...]:
    metadata = node_class.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.deletion_timestamp,
        metadata.finalizers,
        dict(metadata.annotations),
    )
