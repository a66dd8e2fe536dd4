"""Walks over the schemas of a CRD, for tests that watch over the completeness of their cases."""

from collections.abc import Iterator
from typing import Any

from karpenter.admission.schemas.crds import builtin_crds


def crd_version(name: str, version: str) -> dict[str, Any]:
    """The entry of one version in the CRD called ``name``."""
    versions = builtin_crds()[name]["spec"]["versions"]
    found: dict[str, Any] = next(entry for entry in versions if entry["name"] == version)
    return found


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema below ``schema`` with its path, such as ``.spec.taints[].key``."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from schemas(child, f"{path}.{name}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")


def undescribed(entry: dict[str, Any]) -> list[str]:
    """The fields of a version that have no description; metadata is described by Kubernetes."""
    return [
        path
        for path, schema in schemas(entry["schema"]["openAPIV3Schema"])
        if path != ".metadata" and not schema.get("description")
    ]


def rule_messages(entry: dict[str, Any]) -> set[str]:
    """The messages of all CEL rules of a version."""
    return {
        rule["message"]
        for _, schema in schemas(entry["schema"]["openAPIV3Schema"])
        for rule in schema.get("x-kubernetes-validations", ())
    }


def declared_fields(entry: dict[str, Any]) -> set[str]:
    """The paths of all fields below ``spec`` that a version declares."""
    spec = entry["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return {path for path, _ in schemas(spec) if path and not path.endswith("[]")}


def used_fields(value: object, path: str = "") -> Iterator[str]:
    """The paths of all fields that an object sets, written as ``schemas`` writes them."""
    yield path
    if isinstance(value, dict):
        for name, child in value.items():
            yield from used_fields(child, f"{path}.{name}")
    if isinstance(value, list):
        for child in value:
            yield from used_fields(child, f"{path}[]")
