"""OpenAPI documents hold what kubectl looks for: schemas to explain, and how patches work."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from karpenter.admission.schemas.crds import builtin_crds
from karpenter_sandbox.kinds.served import ServedResource, builtin_resources, crd_resources
from karpenter_sandbox.server.openapi import openapi_document, openapi_index

CRDS = [builtin_crds()["nodepools.karpenter.sh"]]
RESOURCES = [*builtin_resources(), *(r for crd in CRDS for r in crd_resources(crd))]
GROUP_VERSIONS = list(dict.fromkeys((r.group, r.version) for r in RESOURCES))


def document(group: str, version: str) -> dict[str, Any]:
    text = openapi_document(RESOURCES, CRDS, group, version)
    assert text is not None
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def schema_of(parsed: dict[str, Any], kind: str) -> dict[str, Any]:
    """Find a kind the way kubectl does."""
    for schema in parsed["components"]["schemas"].values():
        for entry in schema.get("x-kubernetes-group-version-kind", ()):
            if entry["kind"] == kind:
                found: dict[str, Any] = schema
                return found
    raise AssertionError(f"no schema of {kind}")


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def test_the_index_leads_to_every_document() -> None:
    index = openapi_index(RESOURCES, CRDS)

    expected = {f"apis/{g}/{v}" if g else f"api/{v}" for g, v in GROUP_VERSIONS}
    assert expected == set(index["paths"])
    entry = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
    assert entry.startswith("/openapi/v3/apis/apps/v1?hash=")


def test_hashes_change_with_what_is_served() -> None:
    changed = {**CRDS[0], "spec": {**CRDS[0]["spec"], "preserveUnknownFields": False}}

    before = openapi_index(RESOURCES, CRDS)["paths"]
    after = openapi_index(RESOURCES, [changed])["paths"]

    changes = {path for path in before if before[path] != after[path]}
    assert {"apis/karpenter.sh/v1", "apis/karpenter.sh/v1beta1"} == changes


@pytest.mark.parametrize(
    ("group", "version"), [pytest.param(g, v, id=f"{g or 'core'} {v}") for g, v in GROUP_VERSIONS]
)
def test_documents_are_complete(group: str, version: str) -> None:
    parsed = document(group, version)

    schemas = parsed["components"]["schemas"]
    missing = {r.rpartition("/")[2] for r in references(schemas)} - set(schemas)
    assert set() == missing


@pytest.mark.parametrize(
    "resource",
    [pytest.param(r, id=f"{r.api_version} {r.kind}") for r in RESOURCES if "patch" in r.verbs],
)
def test_patches_can_validate_fields(resource: ServedResource) -> None:
    parsed = document(resource.group, resource.version)

    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    patches = [
        operations["patch"]
        for operations in parsed["paths"].values()
        if operations.get("patch", {}).get("x-kubernetes-group-version-kind") == kind
    ]
    assert patches
    assert all(
        "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
        for patch in patches
    )


def test_fields_carry_types_and_merge_rules() -> None:
    parsed = document("apps", "v1")

    spec = parsed["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    assert ["containers"] == spec["required"]
    containers = spec["properties"]["containers"]
    assert {
        "description": "The containers of the pod; at least one.",
        "type": "array",
        "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "name",
    } == containers
    strategy = parsed["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]
    assert "retainKeys" == strategy["strategy"]["x-kubernetes-patch-strategy"]
    assert {"type": "integer", "format": "int32"}.items() <= strategy["replicas"].items()


@pytest.mark.parametrize(
    "kind", [pytest.param(r, id=f"{r.api_version} {r.kind}") for r in builtin_resources()]
)
def test_every_kind_is_described(kind: ServedResource) -> None:
    parsed = document(kind.group, kind.version)

    assert schema_of(parsed, kind.kind).get("description")


def test_kinds_of_crds_are_explained_in_their_own_words() -> None:
    parsed = document("karpenter.sh", "v1")

    pool = parsed["components"]["schemas"]["sh.karpenter.v1.NodePool"]
    own = CRDS[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert own["properties"]["spec"] == pool["properties"]["spec"]
    reference = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    assert [reference] == pool["properties"]["metadata"]["allOf"]
    assert schema_of(parsed, "NodePoolList")["properties"]["items"]


def test_custom_resources_know_no_strategic_merge() -> None:
    pool = document("karpenter.sh", "v1")["paths"]["/apis/karpenter.sh/v1/nodepools/{name}"]
    pod = document("", "v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]

    strategic = "application/strategic-merge-patch+json"
    assert strategic not in pool["patch"]["requestBody"]["content"]
    assert strategic in pod["patch"]["requestBody"]["content"]


def test_what_is_not_served_has_no_document() -> None:
    assert openapi_document(RESOURCES, CRDS, "nope.io", "v1") is None
