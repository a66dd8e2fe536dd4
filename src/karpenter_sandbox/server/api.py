"""The whole API without a transport: a request in, a response out.

Nothing here waits: an answer is complete when ``handle`` returns, except that a watch goes on. Bad
requests become ``Status`` bodies; an error of the server itself becomes a 500 and is logged.
"""

import logging
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from karpenter_sandbox.backend import Backend
from karpenter_sandbox.kinds.served import version_info
from karpenter_sandbox.server import discovery, openapi
from karpenter_sandbox.server.messages import Request, Response, WatchResponse, refused
from karpenter_sandbox.server.resource_api import Answer, ResourceApi
from karpenter_sandbox.server.target import parse_path
from karpenter_sandbox.status import (
    ApiError,
    UnknownPathError,
    internal,
    unknown_path,
    wrong_method,
)

log = logging.getLogger(__name__)

__all__ = ["Api", "Request", "Response", "WatchResponse"]

_HEALTH: Final = frozenset({"healthz", "livez", "readyz"})
_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}
_JSON: Final = {"Content-Type": "application/json"}
# Outside of Kubernetes' own groups, an unknown path is answered in plain text
_UNKNOWN_PAGE: Final = Response(404, b"404 page not found\n", _TEXT)
_NO_DOCUMENT: Final = Response(404, b"")
# As in Accept; the answer has "." in place of "@", which is not valid in a media type
_OPENAPI_V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


class Api:
    """Answers requests of clients."""

    def __init__(self, backend: Backend, *, address: str = "127.0.0.1") -> None:
        self._backend = backend
        self._resources = ResourceApi(backend)
        self._address = address
        self._documents: dict[tuple[int, tuple[str, ...]], bytes] = {}

    def handle(self, request: Request) -> Answer:
        """Answer a request, whatever it is."""
        try:
            return self._handle(request)
        except ApiError as error:
            return refused(error)
        except Exception as error:
            # A fault in one request must not end the server
            log.exception("request failed: %s %s", request.method, request.path)
            return refused(internal(f"{type(error).__name__}: {error}"))

    def _handle(self, request: Request) -> Answer:
        parts = _parts(request.path)
        path = parse_path(parts)
        try:
            if path is not None:
                return self._resources.handle(request, path)
            if request.method not in {"GET", "HEAD"}:
                raise wrong_method()
            return self._document(request, parts)
        except UnknownPathError:
            if self._is_below_own_group(parts):
                raise
            return _UNKNOWN_PAGE

    def _is_below_own_group(self, parts: list[str]) -> bool:
        """Whether a path is below a group of Kubernetes itself, which answers with a ``Status``."""
        if parts[:1] == ["api"]:
            return True
        own = {resource.group for resource in self._backend.kinds if resource.custom is None}
        return parts[:1] == ["apis"] and len(parts) > 1 and parts[1] in own

    def _document(self, request: Request, parts: list[str]) -> Response:
        match parts:
            case []:
                return _json({"paths": self._paths()})
            case ["version"]:
                return _json(version_info())
            case [name, *checks] if name in _HEALTH:
                return _healthy(name, checks, is_verbose="verbose" in request.query)
            case ["openapi", *place]:
                return self._openapi(tuple(place), request.header("accept"))
        return self._discovery(parts, request.header("accept"))

    def _discovery(self, parts: list[str], accept: str) -> Response:
        match parts:
            case ["api" | "apis"]:
                return self._groups(parts[0], accept)
            case ["api", version]:
                return self._resource_list("", version)
            case ["apis", group]:
                return _found(discovery.api_group(self._backend.kinds.served(), group))
            case ["apis", group, version]:
                return self._resource_list(group, version)
        raise unknown_path()

    def _groups(self, root: str, accept: str) -> Response:
        served = self._backend.kinds.served()
        if discovery.wants_aggregated(accept):
            document = discovery.aggregated_discovery(served, legacy=root == "api")
            return _json(document, discovery.AGGREGATED_CONTENT_TYPE)
        if root == "api":
            return _json(discovery.api_versions(self._address))
        return _json(discovery.api_groups(served))

    def _resource_list(self, group: str, version: str) -> Response:
        return _found(discovery.api_resources(self._backend.kinds.served(), group, version))

    def _openapi_index(self) -> bytes:
        kinds = self._backend.kinds
        return msgspec.json.encode(openapi.openapi_index(kinds.served(), kinds.crds()))

    def _openapi(self, place: tuple[str, ...], accept: str) -> Response:
        match place:
            case ("v2",):
                return _empty_openapi_v2(accept)
            case ("v3",):
                return self._kept(place, self._openapi_index)
            case ("v3", "api", version):
                group = ""
            case ("v3", "apis", group, version):
                pass
            case _:
                return _NO_DOCUMENT if place else _UNKNOWN_PAGE

        if not self._backend.kinds.serves(group, version):
            return _NO_DOCUMENT
        return self._kept(place, lambda: self._openapi_document(group, version))

    def _openapi_document(self, group: str, version: str) -> bytes:
        kinds = self._backend.kinds
        document = openapi.openapi_document(kinds.served(), kinds.crds(), group, version)
        assert document is not None, "what is served has a document"
        return document

    def _kept(self, name: tuple[str, ...], build: Callable[[], bytes]) -> Response:
        """A document that is built once for every change of what is served."""
        key = (self._backend.kinds.revision, name)
        if key not in self._documents:
            current = self._backend.kinds.revision
            self._documents = {k: v for k, v in self._documents.items() if k[0] == current}
            self._documents[key] = build()
        return Response(200, self._documents[key], _JSON)

    def _paths(self) -> list[str]:
        served = {(r.group, r.version) for r in self._backend.kinds}
        paths = {"/api", "/apis", "/healthz", "/livez", "/readyz", "/openapi/v3", "/version"}
        for group, version in served:
            paths.add(f"/apis/{group}/{version}" if group else f"/api/{version}")
            if group:
                paths.add(f"/apis/{group}")
        return sorted(paths)


def _parts(path: str) -> list[str]:
    """The parts of a path, decoded one by one so that an encoded slash separates nothing."""
    parts = [unquote(part) for part in path.split("?", 1)[0].strip("/").split("/")]
    return [] if parts == [""] else parts


def _empty_openapi_v2(accept: str) -> Response:
    """An empty document, which makes old clients request version 3.

    kubectl reads it for a kind that is not served, and then requires protobuf.
    """
    version = version_info()["gitVersion"]
    if _OPENAPI_V2_PROTOBUF in accept:
        info = _text_field(1, "Kubernetes") + _text_field(2, version)
        document = _text_field(1, "2.0") + _bytes_field(2, info) + _bytes_field(8, b"")
        return Response(200, document, {"Content-Type": _OPENAPI_V2_PROTOBUF.replace("@", ".")})
    about = {"title": "Kubernetes", "version": version}
    return _json({"swagger": "2.0", "info": about, "paths": {}, "definitions": {}})


def _text_field(number: int, text: str) -> bytes:
    return _bytes_field(number, text.encode())


def _bytes_field(number: int, data: bytes) -> bytes:
    """One field of a protobuf message; short ones only, whose length fits one byte."""
    return bytes((number << 3 | 2, len(data))) + data


def _healthy(name: str, checks: list[str], *, is_verbose: bool) -> Response:
    if checks and checks != ["ping"]:
        raise unknown_path()
    text = f"[+]ping ok\n{name} check passed\n" if is_verbose else "ok"
    return Response(200, text.encode(), _TEXT)


def _found(document: dict[str, Any] | None) -> Response:
    if document is None:
        raise unknown_path()
    return _json(document)


def _json(document: Any, content_type: str = "application/json") -> Response:
    return Response(200, msgspec.json.encode(document), {"Content-Type": content_type})
