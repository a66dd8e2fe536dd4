"""CapacityBuffers: whether each can be turned into pods, and whether there is room for them.

This controller decides the first whenever an object that the buffer refers to changes; the
provisioner decides the second, in every pass.
"""

from collections.abc import Iterable
from typing import Any, Final

from karpenter.api.karpenter import CapacityBuffer
from karpenter.api.meta import Resource
from karpenter.api.pods import PodTemplate
from karpenter.api.workloads import Deployment, ReplicaSet, StatefulSet
from karpenter.controllers.context import Context, Controller
from karpenter.controllers.provisioning.batching import Batcher
from karpenter.kube.errors import ConflictError, NotFoundError
from karpenter.kube.mirror import Key, key_of
from karpenter.model.conditions import FALSE, TRUE, to_wire, with_condition
from karpenter.scheduling.inputs.buffers import (
    ACTIVE_CAPACITY,
    Resolution,
    ResolvedBuffer,
    Scalable,
    resolve_buffer,
)
from karpenter.scheduling.provisioning import BufferOutcome

READY_FOR_PROVISIONING: Final = "ReadyForProvisioning"
PROVISIONING: Final = "Provisioning"

_AGAIN: Final = 30.0
_SCALABLES: Final[tuple[type[Deployment | ReplicaSet | StatefulSet], ...]] = (
    Deployment,
    ReplicaSet,
    StatefulSet,
)


class BufferController(Controller):
    """Resolves buffers, and triggers a pass each time."""

    name = "capacitybuffer"
    kind = CapacityBuffer

    def __init__(self, context: Context, batcher: Batcher) -> None:
        super().__init__(context)
        self._batcher = batcher
        self._buffers = context.mirror(CapacityBuffer)
        for kind in (CapacityBuffer, PodTemplate, *_SCALABLES):
            self._ends.append(context.mirror(kind).on_change(self._on_change))

    async def reconcile(self, key: Key) -> float | None:
        buffer = self._buffers.get(key[1], key[0])
        if buffer is None:
            # The next pass plans without its virtual pods, so nothing is kept for them any more
            self._batcher.trigger()
            return None
        resolved = self._resolved(buffer)
        if resolved is None:
            return None
        await self._write(buffer, resolved)
        self._batcher.trigger(buffer.metadata.uid)
        return _AGAIN

    def _on_change(self, old: Resource | None, new: Resource | None) -> None:
        """Enqueue the buffers that refer to a changed object; changes of status are ignored."""
        if old is not None and new is not None:
            before, after = old.metadata, new.metadata
            if before.uid == after.uid and before.generation == after.generation:
                return
        obj = new or old
        assert obj is not None
        if isinstance(obj, CapacityBuffer):
            self.queue.add(key_of(obj))
            return
        for buffer in self._buffers.list(obj.metadata.namespace):
            if refers_to(buffer, obj):
                self.queue.add(key_of(buffer))

    def _resolved(self, buffer: CapacityBuffer) -> ResolvedBuffer | None:
        namespace, spec = buffer.metadata.namespace, buffer.spec
        templates = {}
        if spec.pod_template_ref is not None:
            name = spec.pod_template_ref.name
            template = self.context.mirror(PodTemplate).get(name, namespace)
            if template is not None:
                templates[f"{namespace}/{name}"] = template.template
        scalables = {}
        if spec.scalable_ref is not None:
            for kind in _SCALABLES:
                workload = self.context.mirror(kind).get(spec.scalable_ref.name, namespace)
                if workload is not None:
                    scalables[workload.kind, f"{namespace}/{workload.metadata.name}"] = Scalable(
                        workload.spec.template, workload.spec.replicas
                    )
        return resolve_buffer(buffer, templates, scalables)

    async def _write(self, buffer: CapacityBuffer, resolved: ResolvedBuffer) -> None:
        status = buffer.status
        is_resolved = resolved.resolution is Resolution.RESOLVED
        conditions = with_condition(
            status.conditions,
            READY_FOR_PROVISIONING,
            TRUE if is_resolved else FALSE,
            resolved.resolution.value,
            resolved.detail,
            now=self.clock.now(),
            generation=buffer.metadata.generation,
        )
        reference, generation = self._template_of(buffer) if is_resolved else (None, None)
        wanted: dict[str, Any] = {
            "podTemplateRef": {"name": reference} if reference else None,
            "podTemplateGeneration": generation,
            "replicas": len(resolved.pods) if is_resolved else None,
            "provisioningStrategy": buffer.spec.provisioning_strategy or ACTIVE_CAPACITY,
        }
        held = {
            "podTemplateRef": {"name": status.pod_template_ref.name}
            if status.pod_template_ref
            else None,
            "podTemplateGeneration": status.pod_template_generation,
            "replicas": status.replicas,
            "provisioningStrategy": status.provisioning_strategy,
        }
        if wanted == held and conditions == status.conditions:
            return
        body = {"status": {**wanted, "conditions": to_wire(conditions)}}
        await self.context.patch(buffer, body, locked=True, subresource="status")

    def _template_of(self, buffer: CapacityBuffer) -> tuple[str | None, int | None]:
        reference = buffer.spec.pod_template_ref
        if reference is None:
            return None, None
        namespace = buffer.metadata.namespace
        template = self.context.mirror(PodTemplate).get(reference.name, namespace)
        return reference.name, template.metadata.generation if template is not None else None


def refers_to(buffer: CapacityBuffer, obj: Resource) -> bool:
    """Whether a buffer of the same namespace takes its pods from an object."""
    template, scalable = buffer.spec.pod_template_ref, buffer.spec.scalable_ref
    if isinstance(obj, PodTemplate):
        return template is not None and template.name == obj.metadata.name
    return (
        scalable is not None
        and scalable.api_group in ("", "apps")
        and (scalable.kind, scalable.name) == (obj.kind, obj.metadata.name)
    )


def verdict(outcome: BufferOutcome) -> tuple[str, str, str]:
    """Status, reason and message of the condition about room for the buffer."""
    if outcome.detail:
        return FALSE, "NotReadyForProvisioning", outcome.detail
    if not outcome.replicas:
        return FALSE, "BufferEmpty", "it requests no pods"
    if outcome.ready:
        return TRUE, "FitsExistingCapacity", ""
    return FALSE, "RequiresNewCapacity", f"not all of its {outcome.replicas} pods have room so far"


async def report_buffers(context: Context, outcomes: Iterable[BufferOutcome]) -> None:
    """Write down for each buffer whether a pass found room for it."""
    for outcome in outcomes:
        namespace, _, name = outcome.name.partition("/")
        buffer = context.mirror(CapacityBuffer).get(name, namespace)
        if buffer is None:
            continue
        conditions = with_condition(
            buffer.status.conditions,
            PROVISIONING,
            *verdict(outcome),
            now=context.clock.now(),
            generation=buffer.metadata.generation,
        )
        if conditions == buffer.status.conditions:
            continue
        body = {"status": {"conditions": to_wire(conditions)}}
        try:
            await context.patch(buffer, body, locked=True, subresource="status")
        except (ConflictError, NotFoundError):
            continue  # the next pass writes it
