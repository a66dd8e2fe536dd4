"""Encodes answers: single objects, lists, tables, and the frames of a watch.

Stored bytes are sent as they are wherever the client asked for the stored version, so a list of
thousands of objects costs little more than joining them.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds import versions
from karpenter_sandbox.kinds.registry import Resource
from karpenter_sandbox.server.messages import Response
from karpenter_sandbox.server.printing import tables
from karpenter_sandbox.server.representation import Form, partial
from karpenter_sandbox.server.target import Target
from karpenter_sandbox.server.verbs.read import Listing
from karpenter_sandbox.server.verbs.watching import Change, WatchSession
from karpenter_sandbox.status import ApiError, bad_request
from karpenter_sandbox.store.store import Stored

# Characters of all warnings together, and of each one when the total is exceeded
_LONGEST_WARNINGS: Final = 4096
_LONGEST_WARNING: Final = 256
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Changes are batched up to so many bytes, which bounds the buffer of a slow reader
_LARGEST_FRAME: Final = 1024 * 1024
_JSON_HEADERS: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the answer to one request."""

    backend: Backend
    target: Target
    form: Form
    include_object: str = ""

    def stored(self, entry: Stored) -> Response:
        """One stored object."""
        is_plain = self.form == Form() and not self.deprecation
        if is_plain and not versions.is_converted(self.target.resource):
            return Response(200, entry.data + b"\n", _JSON_HEADERS)
        return self.object(versions.served(entry.obj, self.target.resource))

    def object(self, obj: JsonObject, status: int = 200, warnings: Sequence[str] = ()) -> Response:
        """One object; answers that are no objects, such as ``Status``, are never tables."""
        body = obj
        if obj.get("kind") == self.target.resource.kind and not self.target.subresource:
            body = self._transformed(obj)
        return Response(status, self.form.encode(body), self.headers(warnings))

    @property
    def deprecation(self) -> str:
        """The deprecation warning of this version of the resource."""
        custom = self.target.resource.custom
        return (custom.deprecation or "") if custom is not None else ""

    def headers(self, warnings: Sequence[str] = ()) -> dict[str, str]:
        """The headers of an answer."""
        headers = {"Content-Type": self.form.media_type}
        texts = [self.deprecation, *warnings] if self.deprecation else warnings
        if texts:
            headers["Warning"] = ", ".join(map(_warning, _shortened(texts)))
        return headers

    def listing(self, listing: Listing) -> Response:
        """A list of stored objects."""
        resource = self.target.resource
        if self.form != Form() or versions.is_converted(resource) or self.deprecation:
            objects = [versions.served(entry.obj, resource) for entry in listing.entries]
            return self.objects(objects, listing.metadata())
        head = {
            "kind": resource.list_kind,
            "apiVersion": resource.api_version,
            "metadata": listing.metadata(),
        }
        body = b"".join(
            (
                msgspec.json.encode(head)[:-1],
                b',"items":[',
                b",".join(_items(listing.entries, resource)),
                b"]}\n",
            )
        )
        return Response(200, body, _JSON_HEADERS)

    def objects(self, objects: Sequence[JsonObject], metadata: JsonObject) -> Response:
        """A list of objects in the version that was asked for."""
        resource = self.target.resource
        if self.form.is_table:
            body = self._table(list(objects), metadata)
        elif self.form.is_partial:
            body = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": f"meta.k8s.io/{self.form.version}",
                "metadata": metadata,
                "items": [partial(obj, self.form.version) for obj in objects],
            }
        else:
            body = {
                "kind": resource.list_kind,
                "apiVersion": resource.api_version,
                "metadata": metadata,
                "items": [_item(obj, resource) for obj in objects],
            }
        return Response(200, self.form.encode(body), self.headers())

    def frame(self, change: Change, *, headers: bool) -> bytes:
        """One change as a line of JSON."""
        opening = b'{"type":"' + change.type.encode() + b'","object":'
        resource = self.target.resource
        is_plain = not self.form.transformed and not versions.is_converted(resource)
        if change.stored is not None and is_plain:
            return opening + change.stored.data + b"}\n"
        obj = change.served(self.target)
        if change.type == "BOOKMARK" and self.form.is_table:
            body = {
                "kind": "Table",
                "apiVersion": f"meta.k8s.io/{self.form.version}",
                "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
                "columnDefinitions": None,
                "rows": self._table([obj], {})["rows"],
            }
        else:
            body = self._transformed(obj, headers=headers)
        return opening + msgspec.json.encode(body) + b"}\n"

    def _transformed(self, obj: JsonObject, *, headers: bool = True) -> JsonObject:
        if self.form.is_table:
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return self._table([obj], metadata, headers=headers)
        return partial(obj, self.form.version) if self.form.is_partial else obj

    def _table(
        self, objects: list[JsonObject], metadata: JsonObject, *, headers: bool = True
    ) -> JsonObject:
        resource = self.target.resource
        custom = resource.custom
        try:
            table = tables.table(
                objects,
                api_version=resource.api_version,
                kind=resource.kind,
                now=self.backend.clock.now(),
                include_object=self.include_object or "Metadata",
                list_metadata=metadata,
                printer_columns=custom.columns if custom is not None else None,
                headers=headers,
            )
        except tables.IncludeError as error:
            raise bad_request(f"Unable to convert to Table as requested: {error}") from error
        return self._in_version(table)

    def _in_version(self, table: JsonObject) -> JsonObject:
        version = f"meta.k8s.io/{self.form.version}"
        if version == table["apiVersion"]:
            return table
        rows = [
            {**row, "object": {**row["object"], "apiVersion": version}}
            if (row.get("object") or {}).get("kind") == "PartialObjectMetadata"
            else row
            for row in table["rows"]
        ]
        return {**table, "apiVersion": version, "rows": rows}


@dataclass(frozen=True, slots=True)
class WatchFrames:
    """The lines a watcher receives."""

    session: WatchSession
    writer: Writer

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Lines as they come, several at once; a refusal is the last of them."""
        is_first = True
        try:
            async for batch in self.session.batches():
                lines, size = [], 0
                for change in batch:
                    lines.append(self.writer.frame(change, headers=is_first))
                    is_first = False
                    size += len(lines[-1])
                    if size > _LARGEST_FRAME:
                        yield b"".join(lines)
                        lines, size = [], 0
                if lines:
                    yield b"".join(lines)
        except ApiError as error:
            yield b'{"type":"ERROR","object":' + msgspec.json.encode(error.body()) + b"}\n"


def _items(entries: Sequence[Stored], resource: Resource) -> list[bytes]:
    """The stored bytes as items; those of Kubernetes' own kinds without apiVersion and kind."""
    if resource.custom is not None:
        return [entry.data for entry in entries]
    identity = {"apiVersion": resource.storage_api_version, "kind": resource.kind}
    prefix = msgspec.json.encode(identity)[:-1] + b","
    length = len(prefix)
    return [
        b"{" + entry.data[length:] if entry.data.startswith(prefix) else entry.data
        for entry in entries
    ]


def _item(obj: JsonObject, resource: Resource) -> JsonObject:
    if resource.custom is not None:
        return obj
    return {key: value for key, value in obj.items() if key not in {"apiVersion", "kind"}}


def _shortened(texts: Iterable[str]) -> list[str]:
    """Warnings that fit into a header: all of them, or else the beginnings of the first."""
    distinct = list(dict.fromkeys(texts))
    if sum(map(len, distinct)) <= _LONGEST_WARNINGS:
        return distinct
    kept, length = [], 0
    for text in dict.fromkeys(text[:_LONGEST_WARNING] for text in distinct):
        if length >= _LONGEST_WARNINGS:
            break
        kept.append(text)
        length += len(text)
    return kept


def _warning(text: str) -> str:
    quoted = _CONTROL.sub(" ", text).replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'
