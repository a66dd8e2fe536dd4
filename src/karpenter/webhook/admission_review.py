"""AdmissionReview: the defaults and rules of the alpha kinds, as their old webhook had them.

An update that does not change the spec is always admitted: it must be possible to remove a
finalizer or an annotation from an object that was stored while no webhook answered.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from karpenter.admission.errors import FieldError
from karpenter.admission.legacy.webhook import (
    AWS_NODE_TEMPLATE,
    PROVISIONER,
    Profile,
    default_legacy,
    legacy_findings,
    with_default_class,
)
from karpenter.api.meta import JsonObject
from karpenter.visible import visible
from karpenter.webhook.reviews import Envelope

REVIEW: Final = Envelope("admission.k8s.io/v1", "AdmissionReview")
_WRITES: Final = frozenset({"CREATE", "UPDATE"})
_KINDS: Final = (PROVISIONER, AWS_NODE_TEMPLATE)
_BAD_REQUEST: Final = 400


def defaulted(review: object, profile: Profile, provider: str) -> JsonObject:
    """Answer a review with what the object lacks, as a JSON patch.

    Raises:
        ReviewError: it is no review, so there is nothing to answer.
    """
    request = REVIEW.request_in(review)
    obj = _reviewed(request)
    if obj is None:
        return _allowed(request)
    complete = with_default_class(default_legacy(obj, profile, provider=provider), provider)
    patch = _patch(obj, complete)
    if not patch:
        return _allowed(request)
    encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
    return _allowed(request, patchType="JSONPatch", patch=encoded)


def validated(review: object, provider: str) -> JsonObject:
    """Answer a review with whether the object keeps the rules, and with the field that does not.

    Raises:
        ReviewError: it is no review, so there is nothing to answer.
    """
    request = REVIEW.request_in(review)
    obj = _reviewed(request)
    if obj is None or _keeps_spec(request, obj):
        return _allowed(request)
    findings = legacy_findings(obj, provider=provider)
    warnings = [visible(str(warning)) for warning in findings.warnings]
    if findings.errors:
        return _refused(request, findings.errors, warnings)
    return _allowed(request, **({"warnings": warnings} if warnings else {}))


def _reviewed(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object of the request, if it is of an alpha kind and is created or updated."""
    obj = request.get("object")
    if request.get("operation") not in _WRITES or not isinstance(obj, Mapping):
        return None
    return obj if (obj.get("apiVersion"), obj.get("kind")) in _KINDS else None


def _keeps_spec(request: Mapping[str, Any], obj: Mapping[str, Any]) -> bool:
    old = request.get("oldObject")
    if request.get("operation") != "UPDATE" or not isinstance(old, Mapping):
        return False
    return bool(old.get("spec") == obj.get("spec"))


def _patch(given: Mapping[str, Any], complete: Mapping[str, Any]) -> list[JsonObject]:
    """The fields of the spec that were added or changed; ``add`` does both to a field."""
    before, after = given.get("spec"), complete.get("spec")
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return []
    return [
        {"op": "add", "path": f"/spec/{field}", "value": value}
        for field, value in after.items()
        if field not in before or before[field] != value
    ]


def _allowed(request: Mapping[str, Any], **more: object) -> JsonObject:
    return REVIEW.answer(request, {"allowed": True, **more})


def _refused(
    request: Mapping[str, Any], errors: list[FieldError], warnings: list[str]
) -> JsonObject:
    causes = [
        {"reason": error.reason, "message": visible(error.message), "field": error.field}
        for error in errors
    ]
    status = {
        "status": "Failure",
        "reason": "BadRequest",
        "code": _BAD_REQUEST,
        "message": visible("; ".join(map(str, errors))),
        "details": {"causes": causes},
    }
    answer: JsonObject = {"allowed": False, "status": status}
    if warnings:
        answer["warnings"] = warnings
    return REVIEW.answer(request, answer)
