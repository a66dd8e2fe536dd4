"""From bytes and plain data to wire models, and back.

One registry says which kinds are known. Everything that does not fit raises ``DecodeError``, with
the path of the field and a sentence about it; malformed JSON does too, with an empty path.

The fast path is one pass of msgspec over the bytes. Objects that do not fit take a slower one that
tolerates nulls and odd years (see ``karpenter.api.null_fields``) and, failing that, words the error.

A list or a watch may hold an object that does not fit even so. It is passed on as ``Unreadable``,
by name, so that one such object does not make the others unavailable.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from karpenter.api import (
    cluster,
    devices,
    karpenter,
    legacy,
    nodes,
    pods,
    policy,
    storage,
    workloads,
)
from karpenter.api.meta import (
    Item,
    ListMeta,
    Model,
    ObjectList,
    Resource,
    Status,
    TypeMeta,
    group_of,
    kind_of,
)
from karpenter.api.node_classes import NodeClass, ec2, kwok
from karpenter.api.null_fields import without_null_fields
from karpenter.api.problems import DecodeError, TooDeepError, UnknownKindError, explain

KINDS: tuple[type[Resource], ...] = (
    # Kubernetes: what runs, and what makes it run
    pods.Pod,
    pods.PodTemplate,
    workloads.ReplicationController,
    workloads.DaemonSet,
    workloads.Deployment,
    workloads.ReplicaSet,
    workloads.StatefulSet,
    workloads.Job,
    workloads.CronJob,
    # Kubernetes: where it runs
    nodes.Node,
    storage.CSINode,
    storage.PersistentVolume,
    storage.PersistentVolumeClaim,
    storage.StorageClass,
    storage.VolumeAttachment,
    devices.DeviceClass,
    devices.ResourceClaim,
    devices.ResourceClaimTemplate,
    devices.ResourceSlice,
    # Kubernetes: the rules and the surroundings
    policy.LimitRange,
    policy.PodDisruptionBudget,
    policy.PriorityClass,
    cluster.ConfigMap,
    cluster.Event,
    cluster.Lease,
    cluster.Namespace,
    cluster.Service,
    # Karpenter
    karpenter.NodePool,
    karpenter.NodePoolV1Beta1,
    karpenter.NodeClaim,
    karpenter.NodeClaimV1Beta1,
    karpenter.NodeOverlay,
    karpenter.CapacityBuffer,
    karpenter.Commitment,
    ec2.EC2NodeClass,
    ec2.EC2NodeClassV1Beta1,
    kwok.KWOKNodeClass,
    legacy.Provisioner,
    legacy.AWSNodeTemplate,
)

_SAME_SHAPE = {"resource.k8s.io/v1": "resource.k8s.io/v1beta2"}  # served version -> its twin

_REGISTRY: Mapping[tuple[str, str], type[Resource]] = {
    (version, kind_of(resource)): resource
    for resource in KINDS
    for version in (resource.api_version, _SAME_SHAPE.get(resource.api_version, ""))
    if version
}

R = TypeVar("R", bound=Resource)
S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[R]):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK, or ERROR with a Status."""

    type: str
    object: "R | Status | Unreadable"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object that does not have the shape of its kind: which one it is, and what is wrong."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    problem: str


class PartialList(ObjectList[Item], Generic[Item], frozen=True):
    """A list, or one page of it, of which some objects cannot be read."""

    unreadable: tuple[Unreadable, ...] = ()


def unreadable_in(page: ObjectList[Any]) -> tuple[Unreadable, ...]:
    """The objects of a list that its items lack because they cannot be read."""
    return page.unreadable if isinstance(page, PartialList) else ()


class _RawEvent(Model, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _RawList(Model, frozen=True):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


def is_known(api_version: str, kind: str) -> bool:
    """Whether there is a wire model for this kind in this version."""
    return (api_version, kind) in _REGISTRY


def model_for(api_version: str, kind: str) -> type[Resource]:
    """Return the wire model of a kind, or raise ``UnknownKindError``."""
    model = _REGISTRY.get((api_version, kind))
    if model is None:
        raise UnknownKindError(api_version, kind)
    return model


def known_node_class(group: str, kind: str) -> type[NodeClass] | None:
    """The wire model of a node class of this project, or None for a kind of another provider."""
    found = (each for each in KINDS if issubclass(each, NodeClass))
    return next((each for each in found if (group_of(each), kind_of(each)) == (group, kind)), None)


def peek(data: bytes) -> TypeMeta:
    """Read only the apiVersion and kind of an object."""
    return decode_as(data, TypeMeta)


def decode(data: bytes) -> Resource:
    """Decode one JSON object of any known kind."""
    return decode_as(data, _model_named_by(peek(data)))


def decode_as(data: bytes | msgspec.Raw, model: type[S]) -> S:
    """Decode one JSON object whose kind the caller knows."""
    try:
        decoded: S = _decoder(model).decode(data)
    except msgspec.ValidationError:
        return convert_as(_plain(data), model)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(error) from error
    return decoded


def decode_list(data: bytes, model: type[R]) -> ObjectList[R]:
    """Decode the answer to a list request, or one page of it; all items are of one kind.

    ``unreadable_in`` returns those that do not fit; one without a name raises a ``DecodeError``.
    """
    try:
        return _list_decoder(model).decode(data)
    except msgspec.ValidationError:
        return _item_by_item(data, model)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(error) from error


def decode_event(line: bytes, model: type[R]) -> WatchEvent[R]:
    """Decode one line of a watch on objects of one kind; the object may be ``Unreadable``."""
    event = decode_as(line, _RawEvent)
    try:
        if event.type == "ERROR":
            return WatchEvent(type=event.type, object=decode_as(event.object, Status))
        return WatchEvent(type=event.type, object=_decode_or_name(event.object, model))
    except DecodeError as error:
        raise error.below(("object",)) from error


def convert(value: Mapping[str, Any]) -> Resource:
    """Make a wire model of plain data, as a YAML parser gives it, of any known kind."""
    return convert_as(value, _model_named_by(convert_as(value, TypeMeta)))


def convert_as(value: object, model: type[S]) -> S:
    """Make a wire model of plain data whose kind the caller knows."""
    try:
        return msgspec.convert(value, model)
    except msgspec.ValidationError:
        pass
    except RecursionError as error:
        raise _unreadable(error) from error
    mended = without_null_fields(value, model)
    try:
        return msgspec.convert(mended, model)
    except msgspec.ValidationError as error:
        raise explain(error, mended, model) from error


def encode(resource: Resource | Status) -> bytes:
    """Encode an object as JSON, with apiVersion and kind, without defaults.

    Only for objects this process makes: a decoded one lacks the fields its model does not have.
    """
    # The kind is the tag of the struct, so the text is never the empty object.
    return b'{"apiVersion":"' + resource.api_version.encode() + b'",' + _encoder(resource)[1:]


def to_plain(resource: Resource | Status) -> dict[str, Any]:
    """Return what ``encode`` writes as plain data."""
    plain: dict[str, Any] = msgspec.json.decode(encode(resource))
    return plain


def _model_named_by(head: TypeMeta) -> type[Resource]:
    for field, value in (("apiVersion", head.api_version), ("kind", head.kind)):
        if not value:
            raise DecodeError((field,), "required field is missing", missing=True)
    return model_for(head.api_version, head.kind)


_encoder = msgspec.json.Encoder().encode


@cache
def _decoder(model: type[S]) -> msgspec.json.Decoder[S]:
    return msgspec.json.Decoder(model)


@cache
def _list_decoder(model: type[R]) -> msgspec.json.Decoder[ObjectList[R]]:
    # the argument of the generic is only known at run time, which type checkers cannot follow
    return msgspec.json.Decoder(ObjectList[model])  # type: ignore[valid-type]


def _item_by_item(data: bytes, model: type[R]) -> ObjectList[R]:
    """Decode a list in which at least one item has nulls or does not fit.

    One such item must not send the other ten thousand down the slow path.
    """
    page = decode_as(data, _RawList)
    items: list[R] = []
    unreadable: list[Unreadable] = []
    for index, item in enumerate(page.items or ()):
        try:
            found = _decode_or_name(item, model)
        except DecodeError as error:
            raise error.below(("items", index)) from error
        if isinstance(found, Unreadable):
            unreadable.append(found)
        else:
            items.append(found)
    if not unreadable:
        return ObjectList(metadata=page.metadata, items=tuple(items))
    return PartialList(metadata=page.metadata, items=tuple(items), unreadable=tuple(unreadable))


def _decode_or_name(data: msgspec.Raw, model: type[R]) -> R | Unreadable:
    """Decode an object, or name the one that does not fit.

    Raises:
        DecodeError: it has no readable name either.
    """
    try:
        return decode_as(data, model)
    except DecodeError as error:
        plain = _plain(data)
        metadata = plain.get("metadata") if isinstance(plain, Mapping) else None
        fields = metadata if isinstance(metadata, Mapping) else {}
        name, namespace, uid, version = (
            text if isinstance(text := fields.get(field), str) else ""
            for field in ("name", "namespace", "uid", "resourceVersion")
        )
        if not name or not version:
            raise
        return Unreadable(name, namespace, uid, version, str(error))


def _plain(data: bytes | msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> DecodeError:
    if isinstance(error, RecursionError):
        return TooDeepError()
    if isinstance(error, UnicodeDecodeError):
        return DecodeError((), "the data is not UTF-8 text")
    text = str(error).removeprefix("JSON is malformed: ")
    return DecodeError((), f"the data is not JSON: {text[:1].lower()}{text[1:]}")
