"""Conditions in the status of objects."""

from karpenter.api.meta import JsonObject


def find_condition(obj: JsonObject, name: str) -> JsonObject | None:
    """The condition of type ``name``."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return next((found for found in conditions if found.get("type") == name), None)


def is_true(obj: JsonObject, name: str) -> bool:
    """Whether the condition of type ``name`` holds."""
    condition = find_condition(obj, name)
    return condition is not None and condition.get("status") == "True"


def with_condition(obj: JsonObject, condition: JsonObject, now: str) -> JsonObject:
    """The object with a condition set; its time changes only when its status does."""
    status = obj.get("status") or {}
    conditions = list(status.get("conditions") or [])
    for index, known in enumerate(conditions):
        if known.get("type") == condition["type"]:
            same = known.get("status") == condition["status"]
            moment = known.get("lastTransitionTime", now) if same else now
            conditions[index] = {**condition, "lastTransitionTime": moment}
            break
    else:
        conditions.append({**condition, "lastTransitionTime": now})
    return {**obj, "status": {**status, "conditions": conditions}}
