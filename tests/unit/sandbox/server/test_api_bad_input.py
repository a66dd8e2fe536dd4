"""Requests that make no sense: the right status, and never a crash."""

from typing import Any

import pytest

from helpers.server import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Cluster,
    config_map,
    deployment,
    pod,
)

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(b"", id="nothing"),
            pytest.param(b"{", id="half an object"),
            pytest.param(b"[]", id="a list"),
            pytest.param(b'"text"', id="text"),
            pytest.param(b"\xff\xfe", id="no text at all"),
            pytest.param(b"[" * 100_000, id="endless brackets"),
            pytest.param(b'{"a":' * 5_000 + b"1" + b"}" * 5_000, id="endless nesting"),
            pytest.param(b'{"metadata": 5}', id="metadata that is a number"),
            pytest.param(b'{"metadata": {"name": 5}}', id="a name that is a number"),
            pytest.param(b'{"metadata": {"labels": ["a"]}}', id="labels that are a list"),
            pytest.param(
                b'{"metadata": {"name": "a"}, "data": {"x": 1}}', id="data that is no text"
            ),
            pytest.param(
                b'{"metadata":{"name":"a"},"data":{"x":"\\ud800"}}', id="half a character"
            ),
        ],
    )
    def test_what_is_no_object_is_a_bad_request(self, api: Cluster, body: bytes) -> None:
        answer = api.call("POST", MAPS, body)

        assert (400, "BadRequest") == (answer.status, answer.body["reason"])

    def test_too_large_is_said_before_reading(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, b" " * (3 * 1024 * 1024 + 1))

        assert (413, "RequestEntityTooLarge") == (answer.status, answer.body["reason"])
        assert "Request entity too large: limit is 3145728" == answer.message

    def test_an_unknown_content_type(self, api: Cluster) -> None:
        answer = api.call("POST", MAPS, config_map(), content_type="text/plain")

        assert (415, "UnsupportedMediaType") == (answer.status, answer.body["reason"])

    @pytest.mark.parametrize("body", [b"", b"k8s\x00\xff\xff", b"k8s\x00\n", b"not protobuf"])
    def test_broken_protobuf(self, api: Cluster, body: bytes) -> None:
        kind = "application/vnd.kubernetes.protobuf"

        assert 400 == api.call("POST", MAPS, body, content_type=kind).status

    @pytest.mark.parametrize("body", [b"a: [", b"- 1", b"a: &x [*x]", b"--- 1\n--- 2\n", b"\t"])
    def test_broken_yaml(self, api: Cluster, body: bytes) -> None:
        assert 400 == api.call("POST", MAPS, body, content_type="application/yaml").status

    def test_yaml_is_read(self, api: Cluster) -> None:
        text = b"metadata: {name: a}\ndata: {x: '1'}\n"

        answer = api.call("POST", MAPS, text, content_type="application/yaml; charset=utf-8")

        assert (201, {"x": "1"}) == (answer.status, answer.body["data"])

    @pytest.mark.parametrize(
        ("content_type", "patch"),
        [
            (MERGE, []),
            (MERGE, "text"),
            (MERGE, None),
            (MERGE, b"{"),
            (JSON_PATCH, {}),
            (JSON_PATCH, [{"op": "shuffle", "path": "/data"}]),
            (JSON_PATCH, [{"op": "remove", "path": "/nowhere/at/all"}]),
            (JSON_PATCH, [{"op": "test", "path": "/data/a", "value": "2"}]),
            (JSON_PATCH, [1]),
            (STRATEGIC, []),
            (STRATEGIC, {"data": []}),
        ],
    )
    def test_broken_patches(self, api: Cluster, content_type: str, patch: Any) -> None:
        api.create(config_map(a="1"))
        before = api.get(config_map()).body

        answer = api.call("PATCH", f"{MAPS}/settings", patch, content_type=content_type)

        assert answer.status in {400, 422}, answer.body
        assert before == api.get(config_map()).body

    def test_numbers_beyond_all_bounds(self, api: Cluster) -> None:
        body = b'{"metadata":{"name":"a"},"spec":{"replicas":123456789012345678901234567890}}'

        assert 400 == api.call("POST", DEPLOYMENTS, body).status


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "/nowhere",
            "/api/v2/pods",
            "/api/v1/gadgets",
            "/apis/nobody.example.com/v1/gadgets",
            "/apis/apps/v1beta1/deployments",
            "/api/v1/namespaces/default/nodes",
            "/api/v1/namespaces//pods",
            "/api/v1/namespaces/default/pods/web/nothing",
            "/api/v1/namespaces/default/pods/web/status/more",
            "/api/v1/pods/web",
            "/api/v1/nodes/n1/scale",
            "/healthz/etcd",
            "/openapi/v3/apis/nobody/v1",
            "/api/v1/namespaces/default/pods/..%2f..%2fsecrets",
            "/api/v1/namespaces/default/pods/%2e%2e",
            "/api/v1/namespaces/default/pods/%ff%fe",
            "//api//v1//pods",
        ],
    )
    def test_paths_that_lead_nowhere(self, api: Cluster, path: str) -> None:
        api.create(pod())

        answer = api.call("GET", path)

        assert 404 == answer.status

    def test_a_path_that_is_not_there_has_the_usual_body(self, api: Cluster) -> None:
        answer = api.call("GET", "/api/v1/gadgets")

        assert "the server could not find the requested resource" == answer.message

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "/api/v1/pods"),
            ("POST", f"{MAPS}/settings"),
            ("PUT", MAPS),
            ("PATCH", MAPS),
            ("DELETE", "/api/v1/namespaces"),
            ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
            ("DELETE", "/api/v1/namespaces/default/pods/web/status"),
            ("OPTIONS", MAPS),
            ("TRACE", MAPS),
            ("POST", "/version"),
        ],
    )
    def test_methods_a_path_does_not_have(self, api: Cluster, method: str, path: str) -> None:
        answer = api.call(method, path, {})

        assert 405 == answer.status
        assert "MethodNotAllowed" == answer.body["reason"]


class TestHeaders:
    def test_forms_nobody_knows(self, api: Cluster) -> None:
        answer = api.call("GET", MAPS, accept="text/html")

        assert (406, "NotAcceptable") == (answer.status, answer.body["reason"])
        assert "Available representations: application/json, application/yaml" in answer.message

    @pytest.mark.parametrize(
        "accept",
        [
            "application/vnd.kubernetes.protobuf",
            "application/json;as=Poem;g=meta.k8s.io;v=v1",
            "application/json;as=Table;g=meta.k8s.io;v=v9",
        ],
    )
    def test_forms_nobody_can_write(self, api: Cluster, accept: str) -> None:
        answer = api.call("GET", MAPS, accept=accept)

        assert (406, "NotAcceptable") == (answer.status, answer.body["reason"])
        assert "only the following media types are accepted: application/json" in answer.message

    @pytest.mark.parametrize(
        ("accept", "kind"),
        [
            ("", "ConfigMapList"),
            ("*/*", "ConfigMapList"),
            ("application/vnd.kubernetes.protobuf,application/json", "ConfigMapList"),
            ("text/html;q=0.9,application/json;q=0.1", "ConfigMapList"),
            ("application/json;q=0.1,application/json;as=Table;g=meta.k8s.io;v=v1", "Table"),
            ("application/json;as=Table;g=meta.k8s.io;v=v9,application/json", "ConfigMapList"),
        ],
    )
    def test_the_best_form_is_chosen(self, api: Cluster, accept: str, kind: str) -> None:
        assert kind == api.call("GET", MAPS, accept=accept).body["kind"]

    @pytest.mark.parametrize(
        "query", [{"limit": "many"}, {"timeoutSeconds": "soon"}, {"gracePeriodSeconds": "x"}]
    )
    def test_numbers_that_are_none(self, api: Cluster, query: dict[str, str]) -> None:
        api.create(config_map())
        method = "DELETE" if "gracePeriodSeconds" in query else "GET"
        path = f"{MAPS}/settings" if method == "DELETE" else MAPS

        answer = api.call(method, path, **query)

        assert 400 == answer.status
        assert "strconv.ParseInt: parsing" in answer.message

    def test_an_error_of_the_server_itself_is_a_500(
        self, api: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(*_args: Any, **_more: Any) -> None:
            raise ZeroDivisionError("oops")

        monkeypatch.setattr(api.store, "entries", fail)

        answer = api.call("GET", MAPS)

        assert (500, "InternalError") == (answer.status, answer.body["reason"])
        assert "Internal error occurred: ZeroDivisionError: oops" == answer.message
        assert "request failed: GET" in caplog.text


class TestDocuments:
    @pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping"])
    def test_health(self, api: Cluster, path: str) -> None:
        answer = api.call("GET", path)

        assert (200, b"ok") == (answer.status, answer.body)

    def test_version(self, api: Cluster) -> None:
        assert "1" == api.call("GET", "/version").body["major"]

    def test_the_root_lists_paths(self, api: Cluster) -> None:
        paths = api.call("GET", "/").body["paths"]

        assert {"/api/v1", "/apis/apps/v1", "/openapi/v3"} <= set(paths)

    def test_discovery_follows_the_crds(self, api: Cluster) -> None:
        groups = api.call("GET", "/apis").body["groups"]

        assert "apps" in [group["name"] for group in groups]
        assert deployment()["kind"] in [
            entry["kind"] for entry in api.call("GET", "/apis/apps/v1").body["resources"]
        ]

    def test_openapi_documents_are_indexed_and_served(self, api: Cluster) -> None:
        index = api.call("GET", "/openapi/v3").body["paths"]
        document = api.call("GET", "/openapi/v3/apis/apps/v1").body

        assert "apis/apps/v1" in index
        assert document["openapi"].startswith("3.")
