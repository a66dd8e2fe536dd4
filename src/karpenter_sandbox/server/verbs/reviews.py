"""Access reviews: who the client is and what it may do. Here every client may do everything."""

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.status import invalid

_GROUPS = ["system:masters", "system:authenticated"]


def answer(backend: Backend, resource: Resource, body: JsonObject, user: str) -> JsonObject:
    """The review with its answer."""
    review: JsonObject = {
        **body,
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": body.get("metadata") or {},
    }
    match resource.kind:
        case "SelfSubjectReview":
            review["metadata"] = {"creationTimestamp": backend.timestamp()}
            review["status"] = {"userInfo": {"username": user, "groups": _GROUPS}}
        case "TokenReview":
            review["status"] = {
                "authenticated": True,
                "user": {"username": user, "groups": _GROUPS},
            }
        case "SelfSubjectRulesReview":
            review["status"] = {
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            }
        case _:
            _check_question(resource, body.get("spec") or {})
            review["status"] = {"allowed": True}
    review.setdefault("spec", {})
    return review


def _check_question(resource: Resource, spec: JsonObject) -> None:
    """Refuse a review that names no action, or two."""
    asked = [spec.get(name) for name in ("resourceAttributes", "nonResourceAttributes")]
    if [value is None for value in asked].count(True) != 1:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        path = ("spec", "resourceAttributes")
        error = FieldError(ErrorKind.INVALID, path, detail, asked[0])
        raise invalid(resource.group, "", "", [error])


def is_review(resource: Resource) -> bool:
    """Whether a resource is a question that is answered and never stored."""
    return resource.group in {"authentication.k8s.io", "authorization.k8s.io"}
