"""Tokens of service accounts: JWTs without a signature, which no real cluster accepts."""

import base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import msgspec

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend, timestamp
from karpenter_sandbox.server.structure import read_as
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs.read import find
from karpenter_sandbox.status import invalid

_DEFAULT_SECONDS: Final = 3600
_LEAST_SECONDS: Final = 600
_MOST_SECONDS: Final = 2**32
_GROUP: Final = "authentication.k8s.io"
_KIND: Final = "TokenRequest"
_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"


def request_token(backend: Backend, target: Target, body: JsonObject) -> JsonObject:
    """Answer a request for a token of a service account.

    Raises:
        ApiError: there is no such account, or the request is not well formed, or the token would
            live too short or too long.
    """
    request = read_as(body, f"{_GROUP}/v1", _KIND)
    account = find(backend, target).obj["metadata"]
    spec = request.get("spec") or {}
    seconds = spec.get("expirationSeconds", _DEFAULT_SECONDS)
    errors = list(_duration_errors(seconds))
    if errors:
        # A real server leaves out the name of the account
        raise invalid(_GROUP, _KIND, "", errors)
    now = backend.clock.now()
    audiences = spec.get("audiences") or [_ISSUER]
    claims = {
        "iss": _ISSUER,
        "sub": f"system:serviceaccount:{account['namespace']}:{account['name']}",
        "aud": audiences,
        "iat": int(now.timestamp()),
        "exp": int(now.timestamp()) + seconds,
    }
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    token = ".".join(_encoded(part) for part in parts) + "." + _encoded(account["uid"])
    return {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": {
            "name": account["name"],
            "namespace": account["namespace"],
            "creationTimestamp": timestamp(now),
        },
        "spec": {
            "boundObjectRef": None,
            **spec,
            "audiences": audiences,
            "expirationSeconds": seconds,
        },
        "status": {
            "token": token,
            "expirationTimestamp": timestamp(now + timedelta(seconds=seconds)),
        },
    }


def _duration_errors(seconds: int) -> Iterator[FieldError]:
    path = ("spec", "expirationSeconds")
    if seconds < _LEAST_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        yield FieldError(ErrorKind.INVALID, path, detail, seconds)
    if seconds > _MOST_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield FieldError(ErrorKind.INVALID, path, detail, seconds)


def _encoded(part: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=")
