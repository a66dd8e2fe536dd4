"""A sandbox API in memory, with a clock that stands still until a test moves it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from karpenter_sandbox.backend import Backend, Identity
from karpenter_sandbox.client import Client
from karpenter_sandbox.kinds.registry import Registry
from karpenter_sandbox.server.api import Api, Request, Response, WatchResponse
from karpenter_sandbox.server.crds import CustomKinds
from karpenter_sandbox.store.store import Store

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class StillClock:
    """Tells the time a test has set."""

    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def move(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, read."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def message(self) -> str:
        text: str = self.body["message"]
        return text

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        found = self.body.get("details", {}).get("causes", [])
        return [(cause["reason"], cause.get("field", ""), cause["message"]) for cause in found]


@dataclass(slots=True)
class Cluster:
    """The parts of a sandbox that tests use."""

    store: Store = field(default_factory=Store)
    clock: StillClock = field(default_factory=StillClock)
    backend: Backend = field(init=False)
    api: Api = field(init=False)
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.backend = Backend(self.store, Registry(), self.clock, Identity(7))
        CustomKinds(self.backend)
        self.api = Api(self.backend)
        self.client = Client(self.backend)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        agent: str = "pytest/1.0",
        **query: str,
    ) -> Answer:
        """Send a request and read its answer; a body that is no bytes is sent as JSON."""
        answer = self.request(
            method,
            path,
            body,
            headers={"content-type": content_type, "accept": accept, "user-agent": agent},
            query=query,
        )
        assert isinstance(answer, Response)
        is_json = answer.headers.get("Content-Type", "").startswith(JSON)
        content = msgspec.json.decode(answer.body) if is_json else answer.body
        return Answer(answer.status, content, answer.headers)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str],
        query: Mapping[str, str],
    ) -> Response | WatchResponse:
        data = body if isinstance(body, bytes) else b""
        if body is not None and not isinstance(body, bytes):
            data = msgspec.json.encode(body)
        listed = {name: [value] for name, value in query.items()}
        return self.api.handle(Request(method, path, listed, headers, data))

    def watch(self, path: str, *, accept: str = JSON, **query: str) -> WatchResponse:
        """Open a watch."""
        answer = self.request(
            "GET", path, headers={"accept": accept}, query={**query, "watch": "1"}
        )
        assert isinstance(answer, WatchResponse)
        return answer

    def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Create an object and return it as stored."""
        answer = self.call("POST", self.path_of(obj, named=False), obj)
        assert answer.status == 201, answer.body
        created: dict[str, Any] = answer.body
        return created

    def get(self, obj: dict[str, Any]) -> Answer:
        """The object as it is now."""
        return self.call("GET", self.path_of(obj))

    def path_of(self, obj: dict[str, Any], *, named: bool = True) -> str:
        """The path of an object, or of the collection it belongs to."""
        resource = self.backend.kinds.named(obj["apiVersion"], obj["kind"])
        assert resource is not None
        root = "/apis" if "/" in obj["apiVersion"] else "/api"
        namespace = obj["metadata"].get("namespace")
        place = f"/namespaces/{namespace}" if resource.namespaced and namespace else ""
        name = f"/{obj['metadata']['name']}" if named else ""
        return f"{root}/{obj['apiVersion']}{place}/{resource.plural}{name}"


def cluster(*, history: int | None = None) -> Cluster:
    """A cluster with the namespace ``default``."""
    made = Cluster(store=Store(history=history)) if history else Cluster()
    made.create(manifest("v1", "Namespace", "default", namespace=None))
    return made


def manifest(
    api_version: str, kind: str, name: str, *, namespace: str | None = "default", **parts: Any
) -> dict[str, Any]:
    """An object to send."""
    metadata: dict[str, Any] = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    metadata.update(parts.pop("metadata", {}))
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def pod(name: str = "web", **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    containers = [{"name": "main", "image": "nginx:1"}]
    return manifest("v1", "Pod", name, spec={"containers": containers, **spec})


def config_map(name: str = "settings", **data: str) -> dict[str, Any]:
    """A ConfigMap, the simplest of objects."""
    return manifest("v1", "ConfigMap", name, data=data)


def deployment(name: str = "web", **spec: Any) -> dict[str, Any]:
    """A Deployment of one container."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    whole = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return manifest("apps/v1", "Deployment", name, spec=whole)


def crd(
    plural: str = "gadgets",
    kind: str = "Gadget",
    *,
    group: str = "example.com",
    scope: str = "Namespaced",
    schema: dict[str, Any] | None = None,
    **version: Any,
) -> dict[str, Any]:
    """A CRD with one version."""
    properties = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    document = schema or {"type": "object", "properties": properties}
    entry = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": document},
        **version,
    }
    spec = {
        "group": group,
        "scope": scope,
        "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
        "versions": [entry],
    }
    return manifest(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"{plural}.{group}",
        namespace=None,
        spec=spec,
    )
