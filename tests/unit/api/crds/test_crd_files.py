"""What holds for every CRD file: it can be served, explained by kubectl, and edited by hand.

Whether a real API server takes the files depends on little more than what is checked here: typed
schemas, rules that compile, and patterns that its regular expressions know.
"""

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import cel
import pytest
import yaml

from karpenter.admission.schemas.crds import builtin_crds
from karpenter.admission.schemas.engine import compile_crd
from unit.api.crds.crd_walk import undescribed

NAMES = sorted(builtin_crds())
TYPES = {"object", "array", "string", "integer", "number", "boolean"}
NOT_RE2 = re.compile(r"\(\?[=!<]|\\[1-9]|\\[pPkKZG]|[*+?}][+]")


def versions(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = builtin_crds()[name]["spec"]["versions"]
    return found


def schemas(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a CRD with its path, maps and lists included."""
    for version in versions(name):
        yield from _below(version["schema"]["openAPIV3Schema"], version["name"])


def _below(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for field, child in schema.get("properties", {}).items():
        yield from _below(child, f"{path}.{field}")
    if "items" in schema:
        yield from _below(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _below(schema["additionalProperties"], f"{path}{{}}")


def rules(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        (path, rule)
        for path, schema in schemas(name)
        for rule in schema.get("x-kubernetes-validations", ())
    ]


def test_there_is_one_file_for_every_kind() -> None:
    files = {
        file.name: yaml.safe_load(file.read_text("utf-8"))
        for file in resources.files("karpenter.api.crds").iterdir()
        if file.name.endswith(".yaml")
    }
    expected = {
        f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml" for crd in files.values()
    }

    assert expected == set(files)
    assert {crd["metadata"]["name"] for crd in files.values()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_names_of_a_kind_agree(name: str) -> None:
    crd = builtin_crds()[name]
    names = crd["spec"]["names"]

    assert (crd["apiVersion"], crd["kind"]) == (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    )
    assert name == crd["metadata"]["name"] == f"{names['plural']}.{crd['spec']['group']}"
    assert names["singular"] == names["kind"].lower()
    assert names["listKind"] == f"{names['kind']}List"
    assert names["plural"].startswith(names["singular"])


@pytest.mark.parametrize("name", NAMES)
def test_every_version_is_served_and_one_is_stored(name: str) -> None:
    assert [entry["storage"] for entry in versions(name) if entry["storage"]] == [True]
    assert all(entry["served"] for entry in versions(name))


@pytest.mark.parametrize("name", NAMES)
def test_how_versions_are_converted_is_left_to_the_installation(name: str) -> None:
    assert "conversion" not in builtin_crds()[name]["spec"]


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_has_a_type(name: str) -> None:
    untyped = [
        path
        for path, schema in schemas(name)
        if schema.get("type") not in TYPES and not schema.get("x-kubernetes-int-or-string")
    ]

    assert untyped == []


@pytest.mark.parametrize("name", NAMES)
def test_every_list_says_what_it_holds(name: str) -> None:
    assert [path for path, schema in schemas(name) if schema.get("type") == "array"] == [
        path for path, schema in schemas(name) if "items" in schema
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_field_can_be_explained(name: str) -> None:
    assert [field for entry in versions(name) for field in undescribed(entry)] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_description_is_a_sentence(name: str) -> None:
    texts = [schema["description"] for _, schema in schemas(name) if "description" in schema]

    assert [text for text in texts if not text.endswith(".") or text != text.strip()] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_compiles(name: str) -> None:
    for _, rule in rules(name):
        cel.compile(rule["rule"])

    assert {entry["name"] for entry in versions(name)} == set(compile_crd(builtin_crds()[name]))


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_says_what_is_wrong_in_one_phrase(name: str) -> None:
    messages = [rule.get("message", "") for _, rule in rules(name)]

    assert [text for text in messages if not text or "\n" in text or text.endswith(".")] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_pattern_is_one_the_api_server_knows(name: str) -> None:
    patterns = [schema["pattern"] for _, schema in schemas(name) if "pattern" in schema]

    assert [pattern for pattern in patterns if NOT_RE2.search(pattern)] == []
    assert all(re.compile(pattern) for pattern in patterns)


@pytest.mark.parametrize("name", NAMES)
def test_columns_have_one_name_each_and_a_path(name: str) -> None:
    for entry in versions(name):
        columns = entry["additionalPrinterColumns"]

        assert len({column["name"] for column in columns}) == len(columns)
        assert all(column["jsonPath"].startswith(".") for column in columns)


def test_taints_are_the_same_wherever_v1_and_v1beta1_have_them() -> None:
    found = [
        schema["items"]
        for name in ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh")
        for path, schema in schemas(name)
        if path.lower().endswith("taints")
    ]

    assert len(found) == 8
    assert [schema for schema in found if schema != found[0]] == []


@pytest.mark.parametrize(
    "name", ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh"]
)
def test_requirements_are_replaced_as_a_whole(name: str) -> None:
    lists = [schema for path, schema in schemas(name) if path.endswith(".requirements")]

    assert len(lists) == len(versions(name))
    assert {schema["x-kubernetes-list-type"] for schema in lists} == {"atomic"}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_pools_and_claims_differ_in_requirements_by_the_keys_alone(version: str) -> None:
    pool, claim = (
        next(schema for path, schema in schemas(name) if path == f"{version}{field}")
        for name, field in (
            ("nodepools.karpenter.sh", ".spec.template.spec.requirements"),
            ("nodeclaims.karpenter.sh", ".spec.requirements"),
        )
    )
    without_key = [
        {**schema, "items": {**schema["items"], "properties": properties}}
        for schema in (pool, claim)
        for properties in [{k: v for k, v in schema["items"]["properties"].items() if k != "key"}]
    ]

    assert without_key[0] == without_key[1]


def test_every_quantity_follows_one_grammar() -> None:
    patterns = {
        schema["pattern"]
        for name in NAMES
        for _, schema in schemas(name)
        if schema.get("x-kubernetes-int-or-string") and "pattern" in schema
    }
    any_sign = {pattern.removeprefix("^").lstrip("[]+-?") for pattern in patterns}

    assert len(any_sign) == 1
