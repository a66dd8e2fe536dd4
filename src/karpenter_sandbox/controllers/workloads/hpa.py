"""HorizontalPodAutoscalers: as many replicas as a metric asks for.

The metric is set with the annotations of ``autoscaling``, on the autoscaler or on its target.
"""

from collections.abc import Iterable
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import with_condition
from karpenter_sandbox.controllers.owning import nonzero, recorder
from karpenter_sandbox.controllers.workloads.autoscaling import (
    METRIC_VALUE,
    Decision,
    Memory,
    Reading,
    decide,
    metric_name,
    read_metric,
)
from karpenter_sandbox.controllers.workloads.rollout import size
from karpenter_sandbox.runtime.events import NORMAL, WARNING
from karpenter_sandbox.runtime.informer import ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import Controller, Runtime
from karpenter_sandbox.status import ApiError

_PERIOD: Final = 15.0
_LONGEST_WINDOW: Final = 3600.0


class AutoscalerController(Controller):
    name = "horizontal-pod-autoscaler"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._recorder = recorder(runtime, client, self.name)
        self._autoscalers = runtime.informer("autoscaling/v2", "horizontalpodautoscalers")
        self._memories: dict[ObjectKey, Memory] = {}
        self._autoscalers.on_change(self._follow)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Read the metric and scale the target."""
        hpa = self._autoscalers.get(*key)
        if hpa is None:
            return None
        reference = hpa["spec"]["scaleTargetRef"]
        try:
            target = await self._client.get(
                reference["apiVersion"], reference["kind"], key[0], reference["name"]
            )
        except ApiError as error:
            self._recorder.emit(hpa, WARNING, "FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            await self._write(hpa, self._with(hpa, "AbleToScale", "False", "FailedGetScale", text))
            return _PERIOD
        await self._write(hpa, await self._scale(hpa, target))
        return _PERIOD

    async def _scale(self, hpa: JsonObject, target: JsonObject) -> JsonObject:
        """Decide, act, and return the autoscaler with what it has to report."""
        current = size(target)
        text = "the HPA controller was able to get the target's current scale"
        changed = self._with(hpa, "AbleToScale", "True", "SucceededGetScale", text)
        spec = hpa["spec"]
        lowest, highest = spec.get("minReplicas", 1), spec["maxReplicas"]
        if current == 0 and lowest != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            changed = self._with(changed, "ScalingActive", "False", "ScalingDisabled", text)
            return _counted(changed, current, 0, [])
        if not lowest <= current <= highest:
            bound, wanted = (
                ("below Spec.Min", lowest) if current < lowest else ("above Spec.Max", highest)
            )
            reason = f"Current number of replicas {bound}Replicas"
            return await self._resize(changed, target, current, wanted, reason, [])
        readings = self._read(hpa, target, current)
        if not readings:
            return _counted(self._without_metric(changed), current, None, [])
        best = max(readings, key=lambda reading: reading.replicas)
        changed = self._with_metric(changed, best)
        decision = self._decide(hpa, current, best.replicas)
        changed = self._with_decision(changed, decision)
        reason = f"{best.name} above target"
        if best.replicas < current:
            reason = "All metrics below target"
        return await self._resize(changed, target, current, decision.replicas, reason, readings)

    def _read(self, hpa: JsonObject, target: JsonObject, current: int) -> list[Reading]:
        annotations = [obj["metadata"].get("annotations") or {} for obj in (hpa, target)]
        readings = []
        for metric in hpa["spec"].get("metrics") or []:
            reading = read_metric(metric, annotations, current, target["spec"].get("template"))
            if reading is not None:
                readings.append(reading)
                continue
            name = metric_name(metric)
            text = (
                f"failed to get {name} metric value: set it with the annotation {METRIC_VALUE}"
                f" on the autoscaler or its target"
            )
            self._recorder.emit(hpa, WARNING, f"FailedGet{metric['type']}Metric", text)
        return readings

    def _decide(self, hpa: JsonObject, current: int, recommended: int) -> Decision:
        now = self.clock.monotonic()
        # A new autoscaler does not shrink its target before it has seen a whole window
        memory = self._memories.setdefault(key_of(hpa), Memory([(now, current)]))
        memory.forget_before(now - _LONGEST_WINDOW)
        decision = decide(hpa, current, recommended, memory, now)
        memory.recommendations.append((now, recommended))
        return decision

    async def _resize(
        self,
        hpa: JsonObject,
        target: JsonObject,
        current: int,
        wanted: int,
        reason: str,
        readings: Iterable[Reading],
    ) -> JsonObject:
        if wanted == current:
            return _counted(hpa, current, wanted, readings)
        namespace, name = key_of(target)
        try:
            await self._client.scale(target["apiVersion"], target["kind"], namespace, name, wanted)
        except ApiError as error:
            text = f"New size: {wanted}; reason: {reason}; error: {error}"
            self._recorder.emit(hpa, WARNING, "FailedRescale", text)
            text = f"the HPA controller was unable to update the target scale: {error}"
            failed = self._with(hpa, "AbleToScale", "False", "FailedUpdateScale", text)
            return _counted(failed, current, current, readings)
        self._recorder.emit(
            hpa, NORMAL, "SuccessfulRescale", f"New size: {wanted}; reason: {reason}"
        )
        memory = self._memories.setdefault(key_of(hpa), Memory())
        memory.changes.append((self.clock.monotonic(), wanted - current))
        text = f"the HPA controller was able to update the target scale to {wanted}"
        changed = self._with(hpa, "AbleToScale", "True", "SucceededRescale", text)
        changed = _counted(changed, current, wanted, readings)
        changed["status"]["lastScaleTime"] = timestamp(self.clock.now())
        return changed

    def _with_metric(self, hpa: JsonObject, reading: Reading) -> JsonObject:
        text = f"the HPA was able to successfully calculate a replica count from {reading.name}"
        return self._with(hpa, "ScalingActive", "True", "ValidMetricFound", text)

    def _without_metric(self, hpa: JsonObject) -> JsonObject:
        metrics = hpa["spec"].get("metrics") or [{"type": "Resource"}]
        text = (
            "the HPA was unable to compute the replica count: no metric value is set with the"
            f" annotation {METRIC_VALUE}"
        )
        reason = f"FailedGet{metrics[0]['type']}Metric"
        return self._with(hpa, "ScalingActive", "False", reason, text)

    def _with_decision(self, hpa: JsonObject, decision: Decision) -> JsonObject:
        if decision.is_stabilised:
            text = (
                "recent recommendations were higher than current one,"
                " applying the highest recent recommendation"
            )
            changed = self._with(hpa, "AbleToScale", "True", "ScaleDownStabilized", text)
        else:
            text = "recommended size matches current size"
            changed = self._with(hpa, "AbleToScale", "True", "ReadyForNewScale", text)
        if decision.limit:
            return self._with(
                changed, "ScalingLimited", "True", decision.limit, decision.explanation
            )
        text = "the desired count is within the acceptable range"
        return self._with(changed, "ScalingLimited", "False", "DesiredWithinRange", text)

    def _with(
        self, hpa: JsonObject, kind: str, value: str, reason: str, message: str
    ) -> JsonObject:
        condition = {"type": kind, "status": value, "reason": reason, "message": message}
        return with_condition(hpa, condition, timestamp(self.clock.now()))

    async def _write(self, hpa: JsonObject, changed: JsonObject) -> None:
        if changed["status"] != hpa.get("status"):
            await self._client.update_status(changed)

    def _follow(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None:
            self._memories.pop(key_of(old or {}), None)
        # Its own status writes must not trigger a reconcile: the metric is read periodically
        elif old is None or _inputs(old) != _inputs(new):
            self.queue.add(key_of(new))


def _inputs(hpa: JsonObject) -> tuple[object, object]:
    """The user's input: the specification, and the metric among the annotations."""
    return hpa["spec"], hpa["metadata"].get("annotations")


def _counted(
    hpa: JsonObject, current: int, wanted: int | None, readings: Iterable[Reading]
) -> JsonObject:
    known = hpa.get("status") or {}
    metrics = [reading.status for reading in readings]
    status = {
        **known,
        "desiredReplicas": wanted if wanted is not None else known.get("desiredReplicas", 0),
        "currentMetrics": metrics or None,
    }
    status.pop("currentReplicas", None)
    counted = {key: value for key, value in status.items() if value is not None}
    return {**hpa, "status": {**counted, **nonzero({"currentReplicas": current})}}
