"""Evicting a pod, when the disruption budget that protects it allows."""

from dataclasses import replace
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.conditions import find_condition, is_true, with_condition
from karpenter_sandbox.matching import read_selector
from karpenter_sandbox.server.options import DeleteOptions
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs import deletion
from karpenter_sandbox.server.verbs.read import find
from karpenter_sandbox.status import ApiError, forbidden
from karpenter_sandbox.store.store import Stored

_POLICY: Final = "policy"
_BUDGETS: Final = "poddisruptionbudgets"
_MOST_UNCONFIRMED: Final = 2000
_UNPROTECTED_PHASES: Final = frozenset({"Pending", "Succeeded", "Failed"})
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(backend: Backend, target: Target, options: DeleteOptions) -> None:
    """Evict a pod.

    Raises:
        ApiError: a budget does not allow it now (429), or several protect the pod (500).
    """
    stored = find(backend, target)
    pod = stored.obj
    if _is_protected(pod):
        budgets = _budgets_of(backend, pod)
        if len(budgets) > 1:
            message = (
                "This pod has more than one PodDisruptionBudget,"
                " which the eviction subresource does not support."
            )
            raise ApiError(500, "", message)
        for budget in budgets:
            if not _is_spared(pod, budget.obj):
                _spend(backend, budget, pod["metadata"]["name"], dry_run=options.dry_run)
    _delete(backend, target, options)


def _is_protected(pod: JsonObject) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase not in _UNPROTECTED_PHASES and "deletionTimestamp" not in pod["metadata"]


def _budgets_of(backend: Backend, pod: JsonObject) -> list[Stored]:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    return [
        budget
        for budget in backend.store.entries(_POLICY, _BUDGETS, metadata["namespace"])
        if read_selector((budget.obj.get("spec") or {}).get("selector")).matches(labels)
    ]


def _is_spared(pod: JsonObject, budget: JsonObject) -> bool:
    """Whether the eviction takes nothing from the budget, because the pod is not healthy."""
    if is_true(pod, "Ready"):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _spend(backend: Backend, budget: Stored, pod: str, *, dry_run: bool) -> None:
    """Decrement the allowed disruptions, and record the pod until its deletion is observed."""
    obj = budget.obj
    name, status = obj["metadata"]["name"], obj.get("status") or {}
    if status.get("observedGeneration", 0) < obj["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise _refusal(message, retry_after=10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        problem = "pdb disruptions allowed is negative"
        raise forbidden(_POLICY, "poddisruptionbudget", name, problem)
    disrupted = status.get("disruptedPods") or {}
    if len(disrupted) > _MOST_UNCONFIRMED:
        problem = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(_POLICY, "poddisruptionbudget", name, problem)
    if allowed == 0:
        raise _refusal(_why_none_allowed(obj), retry_after=None)
    if dry_run:
        return
    spent = {
        **status,
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": {**disrupted, pod: backend.timestamp()},
    }
    changed = {**obj, "status": spent}
    if allowed == 1:
        condition = {
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration", 0),
        }
        changed = with_condition(changed, condition, backend.timestamp())
    backend.store.put(budget.key, changed)


def _why_none_allowed(budget: JsonObject) -> str:
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    condition = find_condition(budget, "DisruptionAllowed") or {}
    said = condition.get("message") if condition.get("status") == "False" else ""
    reason = condition.get("reason", "")
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    now = f"The disruption budget {name} does not allow evicting pods currently"
    if said and reason == "SyncFailed":
        return f"{now} because it failed sync: {said}"
    if healthy <= desired:
        return (
            f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    return f"{now} ({reason}): {said}" if said else now


def _refusal(message: str, *, retry_after: int | None) -> ApiError:
    details: JsonObject = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    if retry_after is not None:
        details["retryAfterSeconds"] = retry_after
    return ApiError(429, "TooManyRequests", _REFUSED, details)


def _delete(backend: Backend, target: Target, options: DeleteOptions) -> None:
    stored = find(backend, target)
    if not options.dry_run:
        deletion.require_version(target.resource, stored.obj["metadata"], options)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": None,
        }
        marked = with_condition(stored.obj, condition, backend.timestamp())
        stored = backend.store.put(stored.key, marked)
        # The condition changed the resourceVersion; the client's precondition was checked before
        options = replace(options, resource_version=None)
    deletion.delete(backend, target.resource, stored, options)
