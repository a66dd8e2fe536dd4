"""Tokens of service accounts. They look like tokens, and open nothing but this sandbox."""

import base64
from datetime import timedelta

import msgspec

from karpenter.sandbox.backend import Backend, timestamp
from karpenter.sandbox.store import JsonObject
from karpenter.sandbox.target import Target
from karpenter.sandbox.verbs.read import find

_DEFAULT_SECONDS = 3600
_ISSUER = "https://kubernetes.default.svc.cluster.local"


def request_token(backend: Backend, target: Target, body: JsonObject) -> JsonObject:
    """Answer a request for a token of a service account."""
    account = find(backend, target).obj["metadata"]
    spec = body.get("spec") or {}
    seconds = spec.get("expirationSeconds") or _DEFAULT_SECONDS
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
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
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


def _encoded(part: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(part)).decode().rstrip("=")
