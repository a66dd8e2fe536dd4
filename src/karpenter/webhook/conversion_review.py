"""ConversionReview: objects of one API group between v1beta1 and v1, all of them or none.

The API server fails the whole request of its client when one object cannot be converted, so the
message names the object and the field. A part of the wrong type is refused rather than passed on:
the API server would store what comes back, without what the conversion could not read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from karpenter.admission.errors import Path, render_path
from karpenter.api.meta import JsonObject
from karpenter.conversion.v1beta1 import PoolExpiry, down, up
from karpenter.model import labels
from karpenter.visible import visible
from karpenter.webhook.reviews import Envelope

REVIEW: Final = Envelope("apiextensions.k8s.io/v1", "ConversionReview")
KINDS: Final[Mapping[str, frozenset[str]]] = {
    "karpenter.sh": frozenset({"NodePool", "NodeClaim"}),
    "karpenter.k8s.aws": frozenset({"EC2NodeClass"}),
}
V1: Final = "v1"
V1BETA1: Final = "v1beta1"

# A field or, for every element of a list, None
_Pattern: TypeAlias = tuple[str | None, ...]
_METADATA: Final[tuple[_Pattern, ...]] = (
    ("metadata",),
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("spec",),
    ("status",),
)
_TEMPLATE: Final[_Pattern] = ("spec", "template", "spec")
# What conversion reads as an object; a null counts as absent there
_OBJECTS: Final[Mapping[str, tuple[_Pattern, ...]]] = {
    "NodePool": (
        *_METADATA,
        ("spec", "template"),
        _TEMPLATE,
        (*_TEMPLATE, "nodeClassRef"),
        (*_TEMPLATE, "kubelet"),
        ("spec", "disruption"),
        ("spec", "disruption", "budgets", None),
    ),
    "NodeClaim": (*_METADATA, ("spec", "nodeClassRef"), ("spec", "kubelet")),
    "EC2NodeClass": (
        *_METADATA,
        ("spec", "metadataOptions"),
        ("spec", "amiSelectorTerms", None),
        ("spec", "blockDeviceMappings", None),
        ("spec", "blockDeviceMappings", None, "ebs"),
    ),
}


class _RefusalError(Exception):
    """Why an object cannot be converted; the text is one sentence."""


def pools_needed(review: object) -> set[str]:
    """The NodePools whose expiry the conversion of a review needs."""
    request = REVIEW.request_in(review)
    if _version_of(request.get("desiredAPIVersion"), "karpenter.sh") != V1:
        return set()
    return set(_pools_in(request.get("objects")))


def converted(review: object, group: str, pool_expiry: PoolExpiry = lambda _: None) -> JsonObject:
    """Answer a review.

    Args:
        review: the body of the API server's request.
        group: the API group whose objects are converted at this path.
        pool_expiry: returns the expiry of NodeClaims that come from v1beta1.

    Raises:
        ReviewError: it is no review, so there is nothing to answer.
    """
    request = REVIEW.request_in(review)
    try:
        objects = _converted(request, group, pool_expiry)
    except _RefusalError as refusal:
        return failure(request, str(refusal))
    result = {"status": "Success"}
    return REVIEW.answer(request, {"result": result, "convertedObjects": objects})


def failure(request: Mapping[str, Any], sentence: str) -> JsonObject:
    """The answer to a review of which nothing is converted."""
    result = {"status": "Failure", "message": visible(sentence)}
    return REVIEW.answer(request, {"result": result, "convertedObjects": []})


def _converted(request: Mapping[str, Any], group: str, pool_expiry: PoolExpiry) -> list[JsonObject]:
    wanted = request.get("desiredAPIVersion")
    version = _version_of(wanted, group)
    if version is None:
        raise _RefusalError(
            f"request.desiredAPIVersion: {wanted!r} is not served; it is {group}/{V1}"
            f" or {group}/{V1BETA1}"
        )
    objects = request.get("objects")
    if not isinstance(objects, list):
        raise _RefusalError("request.objects: there is no list of objects to convert")
    return [_one(obj, index, group, version, pool_expiry) for index, obj in enumerate(objects)]


def _one(obj: object, index: int, group: str, version: str, pool_expiry: PoolExpiry) -> JsonObject:
    if not isinstance(obj, Mapping):
        raise _RefusalError(f"request.objects[{index}]: is no object")
    kind = obj.get("kind")
    if kind not in KINDS[group]:
        known = " and ".join(sorted(KINDS[group]))
        raise _RefusalError(
            f"{_title(obj, index)}: kind: {kind!r} is not converted here; {group} has {known}"
        )
    given = _version_of(obj.get("apiVersion"), group)
    if given is None:
        raise _RefusalError(
            f"{_title(obj, index)}: apiVersion: {obj.get('apiVersion')!r} is neither"
            f" {group}/{V1} nor {group}/{V1BETA1}"
        )
    if given == version:
        return dict(obj)
    for path in _misshapen(obj, str(kind)):
        raise _RefusalError(f"{_title(obj, index)}: {render_path(path)}: must be an object")
    return up(obj, pool_expiry) if version == V1 else down(obj)


def _version_of(api_version: object, group: str) -> str | None:
    """The version of a group that an ``apiVersion`` names, if it is one of the two."""
    given, _, version = str(api_version).partition("/")
    return version if given == group and version in (V1, V1BETA1) else None


def _title(obj: Mapping[str, Any], index: int) -> str:
    """The kind and name of an object, or its place where it has none."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f'{obj.get("kind") or "object"} "{name}"' if name else f"request.objects[{index}]"


def _misshapen(obj: Mapping[str, Any], kind: str) -> Iterator[Path]:
    """The parts that should be objects and are something else."""
    for pattern in _OBJECTS[kind]:
        yield from (
            path
            for path, value in _found(obj, pattern)
            if value is not None and not isinstance(value, Mapping)
        )


def _found(value: object, pattern: _Pattern, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Everything that a pattern leads to; a parent that is no object has a pattern of its own."""
    if not pattern:
        yield path, value
        return
    key, *rest = pattern
    if key is None:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _found(item, tuple(rest), (*path, index))
    elif isinstance(value, Mapping) and value.get(key) is not None:
        yield from _found(value[key], tuple(rest), (*path, key))


def _pools_in(objects: object) -> Iterator[str]:
    """The names of the pools that NodeClaims of v1beta1 belong to."""
    for obj in objects if isinstance(objects, Sequence) else ():
        if not isinstance(obj, Mapping) or obj.get("kind") != "NodeClaim":
            continue
        metadata = obj.get("metadata")
        own = metadata.get("labels") if isinstance(metadata, Mapping) else None
        pool = own.get(labels.NODEPOOL) if isinstance(own, Mapping) else None
        if isinstance(pool, str) and pool and str(obj.get("apiVersion")).endswith(V1BETA1):
            yield pool
