"""Errors with the API server's messages, and their ``Status`` bodies.

Clients decide by ``code`` and ``reason`` and show ``message`` to people, so all three are those of
Kubernetes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from karpenter.admission.errors import FieldError
from karpenter.api.meta import JsonObject


class ApiError(Exception):
    """A request that was refused; callers decide by ``status`` and ``reason``."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self._has_details = details is not None
        self.metadata: dict[str, Any] = {}  # of the Status, where a client finds how to go on

    @property
    def retry_after(self) -> int | None:
        """Seconds after which another attempt may succeed, when the server knows."""
        seconds: int | None = self.details.get("retryAfterSeconds")
        return seconds

    def body(self) -> JsonObject:
        """The ``Status`` object of this refusal."""
        body: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details or self._has_details:
            body["details"] = self.details
        body["code"] = self.status
        return body

    def encoded(self) -> bytes:
        """The ``Status`` object as it is sent."""
        return msgspec.json.encode(self.body()) + b"\n"


class UnknownPathError(ApiError):
    """A path that leads nowhere."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "the server could not find the requested resource", {})


def success(group: str, resource: str, name: str, uid: str) -> JsonObject:
    """The ``Status`` object that answers a finished deletion."""
    details = _details(group, resource, name)
    if uid:
        details["uid"] = uid
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def qualified(group: str, resource: str) -> str:
    """A resource as messages name it: ``pods``, ``deployments.apps``."""
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> ApiError:
    return _named(404, "NotFound", (group, resource, name), "not found")


def unknown_path() -> ApiError:
    """The answer to a path that names nothing this server serves."""
    return UnknownPathError()


def already_exists(group: str, resource: str, name: str) -> ApiError:
    return _named(409, "AlreadyExists", (group, resource, name), "already exists")


def _named(code: int, reason: str, target: tuple[str, str, str], problem: str) -> ApiError:
    """An error about one object: group, resource and name."""
    group, resource, name = target
    message = f'{qualified(group, resource)} "{name}" {problem}'
    return ApiError(code, reason, message, _details(group, resource, name))


def name_not_generated(group: str, resource: str, name: str) -> ApiError:
    message = (
        f'{qualified(group, resource)} "{name}" already exists,'
        " the server was not able to generate a unique name for the object"
    )
    details = {**_details(group, resource, name), "retryAfterSeconds": 1}
    return ApiError(409, "AlreadyExists", message, details)


def conflict(group: str, resource: str, name: str, problem: str) -> ApiError:
    message = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {problem}'
    return ApiError(409, "Conflict", message, _details(group, resource, name))


def modified(group: str, resource: str, name: str) -> ApiError:
    """The refusal of a write that was based on an outdated version."""
    return conflict(
        group,
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def forbidden(group: str, resource: str, name: str, problem: str) -> ApiError:
    named = f' "{name}"' if name else ""
    message = f"{qualified(group, resource)}{named} is forbidden: {problem}"
    return ApiError(403, "Forbidden", message, _details(group, resource, name))


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """A 422 that lists what is wrong with which field."""
    details = _details(group, kind, name)
    details["causes"] = [
        {"reason": error.reason, "message": error.message, "field": error.field} for error in errors
    ]
    message = f'{qualified(group, kind)} "{name}" is invalid'
    lines = list(dict.fromkeys(str(error) for error in errors))
    if len(lines) == 1:
        message += f": {lines[0]}"
    elif lines:
        message += f": [{', '.join(lines)}]"
    return ApiError(422, "Invalid", message, details)


def wrong_method() -> ApiError:
    """The refusal of a method that means nothing at a path."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def method_not_allowed(group: str, resource: str, action: str) -> ApiError:
    """The refusal of a verb that a resource does not have."""
    return ApiError(
        405,
        "MethodNotAllowed",
        f'{action} is not supported on resources of kind "{qualified(group, resource)}"',
        _details(group, resource, ""),
    )


def unacceptable(accepted: str) -> ApiError:
    return ApiError(
        406,
        "NotAcceptable",
        f"only the following media types are accepted: {accepted}",
    )


def unknown_representation(available: str) -> ApiError:
    """The refusal to write an answer in an unknown form."""
    message = f"406: Not Acceptable\n\nAvailable representations: {available}"
    return ApiError(406, "NotAcceptable", message, {})


def unknown_patch_type() -> ApiError:
    """The refusal of a patch of an unknown kind by one of Kubernetes' own resources."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def unsupported_media_type(accepted: str) -> ApiError:
    message = (
        "the body of the request was in an unknown format"
        f" - accepted media types include: {accepted}"
    )
    return ApiError(415, "UnsupportedMediaType", message)


def too_large(limit: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def too_slow() -> ApiError:
    """The answer to a request that takes longer than any may."""
    message = "Timeout: request did not complete within the allotted timeout"
    return ApiError(504, "Timeout", message, {})


def expired(message: str) -> ApiError:
    """A 410: the history no longer reaches back to what was asked for."""
    return ApiError(410, "Expired", message)


def version_too_large(wanted: int, current: int) -> ApiError:
    """The answer to a resource version from the future: wait a little and ask again."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return ApiError(504, "Timeout", message, details)


def not_simulated(what: str) -> ApiError:
    """The answer to requests that need real containers."""
    message = (
        f"{what} is not simulated: containers in the sandbox cluster run no programs;"
        " use a real cluster for it"
    )
    return ApiError(501, "NotImplemented", message)


def internal(problem: str) -> ApiError:
    details = {"causes": [{"message": problem}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {problem}", details)


def _details(group: str, kind: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}
