"""PodDisruptionBudgets: how many pods may be disrupted now."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import parse_timestamp, timestamp
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import with_condition
from karpenter_sandbox.controllers.owning import GATHERING, nonzero, recorder
from karpenter_sandbox.controllers.pods import is_leaving, is_ready
from karpenter_sandbox.controllers.workloads.rollout import scaled_value, size
from karpenter_sandbox.matching import Selector, read_selector
from karpenter_sandbox.runtime.events import NORMAL, WARNING
from karpenter_sandbox.runtime.informer import ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import Controller, Runtime, controller_of

# A pod that still exists this long after its eviction counts as not evicted
_DELETION_TIMEOUT: Final = timedelta(minutes=2)
_SCALED: Final = (
    ("apps/v1", "Deployment", "deployments"),
    ("apps/v1", "ReplicaSet", "replicasets"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("v1", "ReplicationController", "replicationcontrollers"),
)


class _Expectation(NamedTuple):
    """How many pods there should be, how many have to be healthy, or why neither is known."""

    pods: int
    healthy: int
    problem: str = ""


class DisruptionController(Controller):
    name = "disruption-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._recorder = recorder(runtime, client, "controllermanager")
        self._budgets = runtime.informer("policy/v1", "poddisruptionbudgets")
        self._pods = runtime.informer("v1", "pods")
        self._scaled = {kind: runtime.informer(api, plural) for api, kind, plural in _SCALED}
        self._selectors: dict[ObjectKey, Selector] = {}
        self._members: dict[ObjectKey, dict[ObjectKey, None]] = {}  # budget -> its pods
        self._budgets.on_change(self._follow_budget)
        self._pods.on_change(self._follow_pod)
        for informer in self._scaled.values():
            informer.on_change(self._follow_scale)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Write the allowed disruptions into the budget's status."""
        budget = self._budgets.get(*key)
        if budget is None:
            return None
        members = list(self._members.get(key, ()))
        pods = [pod for member in members if (pod := self._pods.get(*member)) is not None]
        if not pods:
            self._recorder.emit(budget, NORMAL, "NoPods", "No matching pods found")
        expectation = self._expectation(budget, pods)
        now = self.clock.now()
        disrupted = self._still_expected(budget, pods, now)
        healthy = sum(
            is_ready(pod) and not is_leaving(pod) and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        changed = _reported(budget, expectation, healthy, disrupted, now)
        if changed["status"] != (budget.get("status") or {}):
            await self._client.update_status(changed)
        if expectation.problem:
            text = f"Failed to calculate the number of expected pods: {expectation.problem}"
            self._recorder.emit(budget, WARNING, "CalculateExpectedPodCountFailed", text)
        moments = [parse_timestamp(moment) + _DELETION_TIMEOUT for moment in disrupted.values()]
        return max(0.0, (min(moments) - now).total_seconds()) + 1 if moments else None

    def _expectation(self, budget: JsonObject, pods: list[JsonObject]) -> _Expectation:
        spec = budget["spec"]
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if most is None and not isinstance(least, str):
            return _Expectation(len(pods), least or 0)
        total, unmanaged, problem = self._scale(pods)
        if problem:
            return _Expectation(0, 0, problem)
        if unmanaged:
            self._recorder.emit(budget, WARNING, "UnmanagedPods", _unmanaged_text(spec))
        if most is not None:
            return _Expectation(total, max(0, total - scaled_value(most, total, round_up=True)))
        return _Expectation(total, scaled_value(least or 0, total, round_up=True))

    def _scale(self, pods: Iterable[JsonObject]) -> tuple[int, bool, str]:
        """The size of everything that manages one of the pods."""
        sizes: dict[str, int] = {}
        has_unmanaged = False
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                has_unmanaged = True
            elif reference["uid"] not in sizes:
                owner = self._owner(pod["metadata"]["namespace"], reference)
                if owner is None:
                    return 0, False, f'found no controllers for pod "{pod["metadata"]["name"]}"'
                sizes[reference["uid"]] = 0
                sizes[owner["metadata"]["uid"]] = size(owner)
        return sum(sizes.values()), has_unmanaged, ""

    def _owner(self, namespace: str, reference: JsonObject) -> JsonObject | None:
        """The controller whose size counts: of a ReplicaSet, its Deployment if it has one."""
        informer = self._scaled.get(reference["kind"])
        found = informer.get(namespace, reference["name"]) if informer is not None else None
        if found is None or found["metadata"]["uid"] != reference["uid"]:
            return None
        above = controller_of(found)
        if above is not None and above["kind"] == "Deployment":
            return self._scaled["Deployment"].get(namespace, above["name"]) or found
        return found

    def _still_expected(
        self, budget: JsonObject, pods: list[JsonObject], now: datetime
    ) -> dict[str, str]:
        """The evicted pods without a deletionTimestamp so far, each with its eviction time."""
        known = (budget.get("status") or {}).get("disruptedPods") or {}
        kept = {}
        for pod in pods:
            name = pod["metadata"]["name"]
            if name not in known or is_leaving(pod):
                continue
            if parse_timestamp(known[name]) + _DELETION_TIMEOUT < now:
                where = "/".join(key_of(budget))
                text = f"Pod was expected by PDB {where} to be deleted but it wasn't"
                self._recorder.emit(pod, WARNING, "NotDeleted", text)
            else:
                kept[name] = known[name]
        return kept

    def _follow_budget(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None:
            key = key_of(old or {})
            self._selectors.pop(key, None)
            self._members.pop(key, None)
            return
        key = key_of(new)
        selector = read_selector((new.get("spec") or {}).get("selector"))
        if self._selectors.get(key) != selector:
            self._selectors[key] = selector
            self._members[key] = {
                key_of(pod): None
                for pod in self._pods.list(key[0])
                if selector.matches(pod["metadata"].get("labels") or {})
            }
        self.queue.add(key)

    def _follow_pod(self, old: JsonObject | None, new: JsonObject | None) -> None:
        namespace, name = key_of(new or old or {})
        labels = (new["metadata"].get("labels") or {}) if new is not None else {}
        for key, selector in self._selectors.items():
            if key[0] != namespace:
                continue
            members = self._members[key]
            if new is not None and selector.matches(labels):
                members[namespace, name] = None
                self.queue.add_after(key, GATHERING)
            elif (namespace, name) in members:
                del members[namespace, name]
                self.queue.add_after(key, GATHERING)

    def _follow_scale(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is not None and new is not None and old["spec"] == new["spec"]:
            return
        namespace = key_of(new or old or {})[0]
        for key in self._selectors:
            if key[0] == namespace:
                self.queue.add(key)


def _reported(
    budget: JsonObject,
    expectation: _Expectation,
    healthy: int,
    disrupted: dict[str, str],
    now: datetime,
) -> JsonObject:
    generation = budget["metadata"].get("generation", 0)
    known = budget.get("status") or {}
    # A budget without pods allows nothing, so that its first pods are safe
    allowed = max(0, healthy - expectation.healthy) if expectation.pods > 0 else 0
    status = {
        "currentHealthy": healthy,
        "desiredHealthy": expectation.healthy,
        "disruptionsAllowed": allowed,
        "expectedPods": expectation.pods,
        **nonzero({"observedGeneration": generation, "disruptedPods": disrupted}),
        "conditions": known.get("conditions") or [],
    }
    if expectation.problem:
        counts = ("currentHealthy", "desiredHealthy", "expectedPods")
        status |= {name: known.get(name, 0) for name in counts}
        value, reason = "False", "SyncFailed"
    else:
        value, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    condition = {
        "type": "DisruptionAllowed",
        "status": value,
        "reason": reason,
        "message": expectation.problem,
        "observedGeneration": generation,
    }
    return with_condition({**budget, "status": status}, condition, timestamp(now))


def _unmanaged_text(spec: JsonObject) -> str:
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    shown = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {shown}) have no controller, so"
        ' their number is unknown; set ".spec.minAvailable" to an integer to account for them'
    )
