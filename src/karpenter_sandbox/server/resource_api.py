"""Requests about resources: from a path and a body to a verb, and from its outcome to an answer."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.server import bodies
from karpenter_sandbox.server.answers import WatchFrames, Writer
from karpenter_sandbox.server.messages import Request, Response, WatchResponse
from karpenter_sandbox.server.options import (
    ListOptions,
    WriteOptions,
    delete_options,
    list_options,
    wants_watch,
    write_options,
)
from karpenter_sandbox.server.representation import REPRESENTATIONS, STREAMS, negotiate
from karpenter_sandbox.server.structure import not_registered, read_as
from karpenter_sandbox.server.target import ResourcePath, Target
from karpenter_sandbox.server.verbs import (
    binding,
    deletion,
    eviction,
    logs,
    patches,
    read,
    reviews,
    scaling,
    tokens,
    writing,
)
from karpenter_sandbox.server.verbs.watching import WatchSession
from karpenter_sandbox.status import (
    bad_request,
    method_not_allowed,
    not_found,
    not_simulated,
    unknown_patch_type,
    unknown_path,
    unsupported_media_type,
    wrong_method,
)

Answer = Response | WatchResponse

# Subresources of pods, nodes and services that need a running container
_NOT_SIMULATED: Final = frozenset({"log", "exec", "attach", "portforward", "proxy"})
# Subresources that are written in the form of their object
_WRITTEN_PARTS: Final = frozenset(
    {"status", "finalize", "approval", "ephemeralcontainers", "resize"}
)
_SUCCESS: Final[JsonObject] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


class ResourceApi:
    """All verbs on all resources."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._verbs: Mapping[str, Callable[[Request, Target, Writer], Answer]] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_all,
        }

    def handle(self, request: Request, path: ResourcePath) -> Answer:
        """Answer a request.

        Raises:
            ApiError: the request is refused.
        """
        resource = self._backend.kinds.find(path.group, path.version, path.resource)
        if resource is None:
            raise unknown_path()
        is_watch = path.is_watch or wants_watch(request.query)
        verb = path.verb(request.method, is_watch=is_watch)
        target = Target(resource, path.namespace, path.name, path.subresource)
        self._check_place(target, verb)
        if path.subresource in _NOT_SIMULATED and resource.subresource(path.subresource):
            return self._program(request, path, target)
        if path.rest:
            raise unknown_path()
        verb = self._allowed(target, verb, request.method)
        if path.is_watch and verb == "get":
            verb = "watch"
        form = negotiate(request.header("accept"), _representations(target))
        include = request.query.get("includeObject", [""])[0]
        return self._verbs[verb](request, target, Writer(self._backend, target, form, include))

    def _program(self, request: Request, path: ResourcePath, target: Target) -> Answer:
        """Answer subresources that need a container: only logs of this process are available."""
        is_log = (path.resource, path.subresource, request.method) == ("pods", "log", "GET")
        if is_log and not path.rest:
            answer = logs.read_log(self._backend, target, request.query)
            if answer is not None:
                return answer
        raise not_simulated(f"{path.resource}/{path.subresource}")

    def _check_place(self, target: Target, verb: str | None) -> None:
        """Refuse paths that put a resource where it cannot be."""
        if not target.resource.namespaced:
            if target.namespace:
                raise unknown_path()
        elif not target.namespace and (target.name or verb not in {"list", "watch", "create"}):
            raise unknown_path()

    def _allowed(self, target: Target, verb: str | None, method: str) -> str:
        resource = target.resource
        allowed = resource.served.verbs
        if target.subresource:
            part = resource.subresource(target.subresource)
            if part is None and resource.custom is not None:
                raise not_found(resource.group, resource.plural, target.name)
            if part is None:
                raise unknown_path()
            allowed = part.verbs
        is_misplaced = verb == "create" and bool(target.name) != bool(target.subresource)
        is_misplaced = is_misplaced or (verb in {"update", "patch"} and not target.name)
        needs_namespace = resource.namespaced and not target.namespace and verb == "create"
        if verb is None or verb not in allowed or is_misplaced or needs_namespace:
            if resource.custom is None:
                raise wrong_method()
            raise method_not_allowed(resource.group, resource.plural, verb or method.lower())
        return verb

    def _get(self, request: Request, target: Target, writer: Writer) -> Answer:
        if target.subresource == "scale":
            return writer.object(scaling.get_scale(self._backend, target))
        version = request.query.get("resourceVersion", [""])[0]
        entry = read.get(self._backend, target, version)
        return writer.stored(entry)

    def _list(self, request: Request, target: Target, writer: Writer) -> Answer:
        return writer.listing(read.list_objects(self._backend, target, list_options(request.query)))

    def _watch(self, request: Request, target: Target, writer: Writer) -> Answer:
        query = {**request.query, "watch": ["true"]}
        session = WatchSession(self._backend, target, list_options(query))
        return WatchResponse(WatchFrames(session, writer), headers=writer.headers())

    def _create(self, request: Request, target: Target, writer: Writer) -> Answer:
        options = self._options(request, "CreateOptions")
        if target.subresource:
            return self._create_part(request, target, writer, options)
        body = self._body(request, target)
        if reviews.is_review(target.resource):
            resource = target.resource
            content = read_as(_object(body.content), resource.api_version, resource.kind)
            return writer.object(
                reviews.answer(self._backend, target.resource, content, request.user), 201
            )
        if target.resource.kind == "Binding":
            return self._bind(_object(body.content), target, writer, options)
        written = writing.create(self._backend, target, body.content, options, body.duplicates)
        return writer.object(written.obj, 201, written.warnings)

    def _create_part(
        self, request: Request, target: Target, writer: Writer, options: WriteOptions
    ) -> Answer:
        body = _object(self._body(request, target).content)
        match target.subresource:
            case "binding":
                return self._bind(body, target, writer, options)
            case "eviction":
                body = read_as(body, "policy/v1", "Eviction")
                named = (body.get("metadata") or {}).get("name", target.name)
                if named != target.name:
                    raise bad_request("name in URL does not match name in Eviction object")
                body_options = dict(body.get("deleteOptions") or {})
                if options.dry_run:
                    body_options["dryRun"] = ["All"]
                eviction.evict(self._backend, target, delete_options({}, body_options))
                return writer.object(_SUCCESS, 201)
            case "token":
                return writer.object(tokens.request_token(self._backend, target, body), 201)
        raise unknown_path()

    def _bind(
        self, body: JsonObject, target: Target, writer: Writer, options: WriteOptions
    ) -> Answer:
        body = read_as(body, "v1", "Binding")
        name = target.name or (body.get("metadata") or {}).get("name", "")
        pods = self._backend.kinds.find("", "v1", "pods")
        assert pods is not None
        pod = Target(pods, target.namespace, name, "binding")
        binding.bind(self._backend, pod, body, dry_run=options.dry_run)
        return writer.object(_SUCCESS, 201)

    def _update(self, request: Request, target: Target, writer: Writer) -> Answer:
        options = self._options(request, "UpdateOptions")
        body = self._body(request, target)
        if target.subresource == "scale":
            written = scaling.update_scale(self._backend, target, _object(body.content), options)
        elif target.subresource and target.subresource not in _WRITTEN_PARTS:
            raise unknown_path()
        else:
            written = writing.update(self._backend, target, body.content, options, body.duplicates)
        return writer.object(written.obj, 201 if written.is_new else 200, written.warnings)

    def _patch(self, request: Request, target: Target, writer: Writer) -> Answer:
        options = self._options(request, "PatchOptions")
        patch_type = request.header("content-type").partition(";")[0].strip().lower()
        accepted = patches.accepted_types(target.resource)
        if patch_type not in accepted:
            is_own = target.resource.custom is None
            raise unknown_patch_type() if is_own else unsupported_media_type(", ".join(accepted))
        is_apply = patch_type == patches.APPLY_PATCH
        body = bodies.read_patch(request.body, is_apply=is_apply).content
        if target.subresource == "scale":
            written = scaling.patch_scale(self._backend, target, patch_type, body, options)
        else:
            written = patches.patch(self._backend, target, patch_type, body, options)
        return writer.object(written.obj, 201 if written.is_new else 200, written.warnings)

    def _delete(self, request: Request, target: Target, writer: Writer) -> Answer:
        options = delete_options(request.query, self._delete_body(request))
        outcome = deletion.remove(self._backend, target, options)
        is_accepted = not outcome.is_gone and options.orphan_dependents is False
        return writer.object(deletion.answer(outcome, target), 202 if is_accepted else 200)

    def _delete_all(self, request: Request, target: Target, writer: Writer) -> Answer:
        selection: ListOptions = list_options(request.query)
        options = delete_options(request.query, self._delete_body(request))
        outcomes = deletion.remove_all(self._backend, target, selection, options)
        version = str(self._backend.store.resource_version)
        return writer.objects(outcomes, {"resourceVersion": version})

    def _delete_body(self, request: Request) -> JsonObject | None:
        if not request.body:
            return None
        body = _object(
            bodies.read_object(request.body, request.header("content-type"), None).content
        )
        kind, api_version = body.get("kind", "DeleteOptions"), str(body.get("apiVersion", "v1"))
        if kind != "DeleteOptions":
            raise bad_request(not_registered(api_version, str(kind)))
        return read_as(body, "v1", "DeleteOptions")

    def _body(self, request: Request, target: Target) -> bodies.Body:
        return bodies.read_object(request.body, request.header("content-type"), target.resource)

    def _options(self, request: Request, kind: str) -> WriteOptions:
        return write_options(request.query, request.header("user-agent"), kind=kind)


def _representations(target: Target) -> tuple[str, ...] | None:
    """The forms one of Kubernetes' own resources is shown in; CRDs have no such list."""
    if target.resource.custom is not None:
        return None
    return REPRESENTATIONS if target.name else (*REPRESENTATIONS, *STREAMS)


def _object(content: Any) -> JsonObject:
    if not isinstance(content, dict):
        raise bad_request("the body of the request must be an object")
    return content
