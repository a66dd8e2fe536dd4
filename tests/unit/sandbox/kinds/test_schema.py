"""Schemas say how values merge, from the facts about built-in kinds or from a CRD."""

from typing import Any

import pytest

from karpenter.admission.schemas.crds import builtin_crds
from karpenter_sandbox.kinds.schema import (
    ANYTHING,
    OPAQUE,
    ListKind,
    Scalar,
    Schema,
    builtin_schema,
    crd_schema,
)
from karpenter_sandbox.kinds.schemas.structs import (
    Form,
    full_name,
    kinds_of,
    struct,
    struct_of_kind,
)
from karpenter_sandbox.kinds.served import builtin_resources


def at(schema: Schema | None, *path: str) -> Schema:
    """The schema below a path; ``[]`` steps into a list, ``*`` into a map."""
    assert schema is not None
    for step in path:
        if step == "[]":
            assert schema.list is not None
            schema = schema.list.items
        else:
            assert schema.map is not None
            schema = schema.map.part(step)
    return schema


@pytest.mark.parametrize(
    ("kind", "path", "list_kind", "keys"),
    [
        pytest.param("Pod", ("spec", "containers"), ListKind.MAP, ("name",), id="containers"),
        pytest.param(
            "Pod",
            ("spec", "containers", "[]", "ports"),
            ListKind.MAP,
            ("containerPort", "protocol"),
            id="ports by two keys",
        ),
        pytest.param("Pod", ("spec", "tolerations"), ListKind.ATOMIC, (), id="tolerations"),
        pytest.param("Pod", ("metadata", "finalizers"), ListKind.SET, (), id="finalizers"),
        pytest.param("Node", ("spec", "taints"), ListKind.ATOMIC, (), id="taints"),
        pytest.param("Node", ("status", "conditions"), ListKind.MAP, ("type",), id="conditions"),
        pytest.param(
            "Pod",
            ("spec", "ephemeralContainers", "[]", "env"),
            ListKind.MAP,
            ("name",),
            id="through an inlined struct",
        ),
    ],
)
def test_lists_of_built_in_kinds(
    kind: str, path: tuple[str, ...], list_kind: ListKind, keys: tuple[str, ...]
) -> None:
    found = at(builtin_schema("v1", kind), *path).list

    assert found is not None
    assert (list_kind, keys) == (found.kind, found.keys)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(("spec", "nodeSelector"), True, id="a map its field makes atomic"),
        pytest.param(("metadata", "labels"), False, id="labels"),
        pytest.param(("metadata", "ownerReferences", "[]"), True, id="an atomic struct"),
        pytest.param(("spec",), False, id="a struct"),
    ],
)
def test_maps_of_built_in_kinds(path: tuple[str, ...], expected: bool) -> None:
    found = at(builtin_schema("v1", "Pod"), *path).map

    assert found is not None
    assert expected == found.is_atomic


def test_a_field_may_undo_the_atomicity_of_its_struct() -> None:
    found = at(builtin_schema("v1", "PersistentVolume"), "spec", "claimRef").map

    assert found is not None
    assert not found.is_atomic


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(("spec", "nodeName"), Scalar.STRING, id="text"),
        pytest.param(("spec", "priority"), Scalar.NUMERIC, id="a number"),
        pytest.param(("spec", "hostNetwork"), Scalar.BOOLEAN, id="a boolean"),
        pytest.param(("metadata", "creationTimestamp"), Scalar.STRING, id="a time"),
        pytest.param(("spec", "overhead", "cpu"), Scalar.ANY, id="a quantity"),
        pytest.param(
            ("spec", "containers", "[]", "livenessProbe", "httpGet", "port"),
            Scalar.ANY,
            id="a number or text",
        ),
    ],
)
def test_scalars_of_built_in_kinds(path: tuple[str, ...], expected: Scalar) -> None:
    found = at(builtin_schema("v1", "Pod"), *path)

    assert expected == found.scalar
    assert found.map is None


def test_fields_know_how_patches_merge_them() -> None:
    deployment = at(builtin_schema("apps/v1", "Deployment"), "spec").map
    pod = at(builtin_schema("v1", "Pod"), "spec").map

    assert deployment is not None
    assert pod is not None
    assert ("retainKeys",) == deployment.fields["strategy"].patch_strategies
    volumes = pod.fields["volumes"]
    assert (("merge", "retainKeys"), "name") == (volumes.patch_strategies, volumes.merge_key)


def test_kinds_nobody_knows() -> None:
    assert builtin_schema("v1", "Nope") is None
    assert struct_of_kind("karpenter.sh/v1", "NodePool") is None


@pytest.mark.parametrize(
    "resource",
    [pytest.param(r, id=f"{r.api_version} {r.kind}") for r in builtin_resources()],
)
def test_every_served_kind_has_facts_to_the_bottom(resource: Any) -> None:
    pending = [struct_of_kind(resource.api_version, resource.kind)]
    seen = set()
    while pending:
        found = pending.pop()
        assert found is not None
        if found.name in seen:
            continue
        seen.add(found.name)
        for field in found.json_fields().values():
            go_type = field.type
            while go_type.form in (Form.LIST, Form.MAP):
                go_type = go_type.parts
            if go_type.form is Form.STRUCT:
                pending.append(struct(go_type.name))

    assert seen
    assert builtin_schema(resource.api_version, resource.kind) is not None


def test_names_in_openapi_documents() -> None:
    assert "io.k8s.api.core.v1.PodSpec" == full_name("core.v1.PodSpec")
    assert "io.k8s.apimachinery.pkg.api.resource.Quantity" == full_name("Quantity")
    assert "core.v1.Pod" == kinds_of("", "v1")["Pod"]
    assert "apps.v1.Deployment" == kinds_of("apps", "v1")["Deployment"]


def test_types_are_spelled_as_in_go() -> None:
    fields = struct("core.v1.PodSpec").json_fields()

    spelled = {name: str(fields[name].type) for name in ("containers", "dnsPolicy", "nodeSelector")}
    assert {
        "containers": "[]v1.Container",
        "dnsPolicy": "v1.DNSPolicy",
        "nodeSelector": "map[string]string",
    } == spelled


CUSTOM = crd_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "set": {
                        "type": "array",
                        "x-kubernetes-list-type": "set",
                        "items": {"type": "string"},
                    },
                    "bare": {"type": "array"},
                    "atom": {"type": "object", "x-kubernetes-map-type": "atomic"},
                    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "open": {"type": "object", "additionalProperties": True},
                    "closed": {"type": "object", "additionalProperties": False},
                    "free": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"a": {"type": "object", "properties": {"b": {}}}},
                    },
                    "any": {},
                    "int-or-string": {"x-kubernetes-int-or-string": True},
                },
            }
        },
    }
)


@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        pytest.param((), "spec", True, id="a property"),
        pytest.param((), "metadata", True, id="metadata needs no mention"),
        pytest.param((), "status", False, id="status does"),
        pytest.param(("spec",), "nope", False, id="an unknown field"),
        pytest.param(("spec", "map"), "k", True, id="a key of a map"),
        pytest.param(("spec", "open"), "k", True, id="a key of an open object"),
        pytest.param(("spec", "closed"), "k", False, id="a key of a closed object"),
        pytest.param(("spec", "free"), "k", True, id="a preserved field"),
        pytest.param(("spec", "free", "a"), "k", True, id="a preserved field further down"),
        pytest.param(("spec", "any"), "k", True, id="below anything"),
    ],
)
def test_what_custom_objects_declare(path: tuple[str, ...], key: str, expected: bool) -> None:
    found = at(CUSTOM, *path).map

    assert found is not None
    assert expected == found.declares(key)


def test_custom_values() -> None:
    tags = at(CUSTOM, "spec", "set").list
    bare = at(CUSTOM, "spec", "bare").list
    atom = at(CUSTOM, "spec", "atom").map

    assert tags is not None
    assert bare is not None
    assert atom is not None
    assert ListKind.SET == tags.kind
    assert (ListKind.ATOMIC, OPAQUE) == (bare.kind, bare.items)
    assert atom.is_atomic
    assert Scalar.NUMERIC == at(CUSTOM, "spec", "map", "k").scalar
    assert Scalar.ANY == at(CUSTOM, "spec", "int-or-string").scalar
    assert ANYTHING is at(CUSTOM, "spec", "free", "k")


@pytest.mark.parametrize("name", sorted(builtin_crds()))
def test_own_crds_have_schemas(name: str) -> None:
    for version in builtin_crds()[name]["spec"]["versions"]:
        schema = crd_schema(version["schema"]["openAPIV3Schema"])

        assert schema.map is not None
        assert schema.map.declares("spec")


def test_a_schema_that_is_no_object_stays_as_it_is() -> None:
    assert Scalar.STRING == crd_schema({"type": "string"}).scalar
