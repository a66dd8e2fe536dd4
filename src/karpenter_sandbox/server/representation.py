"""The form a client wants its answer in: plain objects, a table, or metadata alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import yaml

from karpenter.api.meta import JsonObject
from karpenter_sandbox.status import unacceptable, unknown_representation

JSON: Final = "application/json"
YAML: Final = "application/yaml"
REPRESENTATIONS: Final = (JSON, YAML, "application/vnd.kubernetes.protobuf")
STREAMS: Final = (
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
)
_META_GROUP: Final = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Form:
    """How to write an answer; ``transformed`` is empty, ``Table`` or ``PartialObjectMetadata``."""

    media_type: str = JSON
    transformed: str = ""
    version: str = "v1"

    @property
    def is_table(self) -> bool:
        """Whether objects are shown as rows."""
        return self.transformed == "Table"

    @property
    def is_partial(self) -> bool:
        """Whether only metadata is shown."""
        return self.transformed.startswith("PartialObjectMetadata")

    def encode(self, body: JsonObject) -> bytes:
        """Write a body."""
        if self.media_type == YAML:
            return yaml.safe_dump(body, sort_keys=True).encode()
        return msgspec.json.encode(body) + b"\n"


def negotiate(accept: str, available: Sequence[str] | None = None) -> Form:
    """Choose the first form a client accepts that the server can write.

    Args:
        accept: the client's ``Accept`` header.
        available: what to name when the client wants nothing of the kind.

    Raises:
        ApiError: there is none.
    """
    if not accept:
        return Form()
    is_known = False
    for media_type, parameters in _accepted(accept):
        if media_type in {JSON, "*/*", "application/*"}:
            form = _transformed(JSON, parameters)
        elif media_type in {YAML, "application/x-yaml", "text/yaml"}:
            form = _transformed(YAML, parameters)
        else:
            is_known = is_known or media_type in REPRESENTATIONS
            continue
        if form is not None:
            return form
        is_known = True
    if available is not None and not is_known:
        raise unknown_representation(", ".join(available))
    raise unacceptable(", ".join(REPRESENTATIONS))


def _transformed(media_type: str, parameters: Mapping[str, str]) -> Form | None:
    wanted = parameters.get("as", "")
    if not wanted:
        return Form(media_type)
    if parameters.get("g") != _META_GROUP or parameters.get("v") not in {"v1", "v1beta1"}:
        return None
    if wanted not in {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}:
        return None
    return Form(media_type, wanted, parameters["v"])


def _accepted(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Media types in the order of the client's preference."""
    entries = []
    for index, entry in enumerate(accept.split(",")):
        media_type, *rest = (part.strip() for part in entry.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        entries.append((-quality, index, media_type, parameters))
    for _, _, media_type, parameters in sorted(entries, key=lambda entry: entry[:2]):
        yield media_type, parameters


def partial(obj: JsonObject, version: str) -> JsonObject:
    """An object reduced to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"{_META_GROUP}/{version}",
        "metadata": obj.get("metadata", {}),
    }
