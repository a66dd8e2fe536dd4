"""Operations of users on the API, each at its time: all that demand is made of."""

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from karpenter.api.meta import JsonObject

Verb: TypeAlias = Literal["create", "apply", "merge", "scale", "delete"]

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class Operation:
    """A request of a user."""

    at: float  # virtual seconds since the start of the scenario
    verb: Verb
    api_version: str
    kind: str
    namespace: str
    name: str
    body: JsonObject | None = None  # the object, or the patch
    replicas: int = 0


def created(at: float, obj: JsonObject) -> Operation:
    """The creation of an object."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace", "default")
    return Operation(at, "create", obj["apiVersion"], obj["kind"], namespace, metadata["name"], obj)


def in_order(streams: Iterable[Iterable[Operation]]) -> Iterator[Operation]:
    """Merge streams that are in order each; at one instant, the first stream comes first."""
    return heapq.merge(*streams, key=lambda operation: operation.at)


def digest(operations: Iterable[Operation]) -> str:
    """A SHA-256 of all operations, the same wherever they are the same."""
    found = hashlib.sha256()
    for operation in operations:
        found.update(_encode(operation))
        found.update(b"\n")
    return found.hexdigest()
