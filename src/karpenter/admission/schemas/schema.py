"""Structural schemas: the ``openAPIV3Schema`` of a CRD version as a tree of nodes.

A node holds the structure of a value (its type, its parts, its default, how it is pruned). Value
validation (ranges, patterns, enumerations) stays in the document and is compiled by ``openapi``;
rules in CEL are compiled by ``cel``. Reading checks that the schema is structural, as the API
server does, and names every place where it is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from karpenter.admission.errors import ErrorKind, FieldError, Path, distinct

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
RULES: Final = "x-kubernetes-validations"

TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean"})
ROOT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})

Document: TypeAlias = Mapping[str, Any]


class _Nothing(Enum):
    NO_DEFAULT = "no default"


NO_DEFAULT: Final = _Nothing.NO_DEFAULT


class CrdError(ValueError):
    """A CRD that cannot be served; ``errors`` name what is wrong at which path of the CRD."""

    def __init__(self, name: str, errors: list[FieldError]) -> None:
        super().__init__(f"the CRD {name} is invalid: " + "; ".join(map(str, errors)))
        self.name = name
        self.errors = errors


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One place in a schema."""

    type: str
    format: str = ""
    properties: Mapping[str, "Node"] = field(default_factory=dict)
    values: "Node | None" = None
    items: "Node | None" = None
    default: object = NO_DEFAULT
    defaulted: tuple[tuple[str, "Node"], ...] = ()
    is_nullable: bool = False
    keeps_unknown: bool = False
    is_resource: bool = False
    is_int_or_string: bool = False
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    rules: tuple[Document, ...] = ()

    def child(self, part: str | int) -> "Node | None":
        """Return the node of a part of the value, or None where the schema has none."""
        if isinstance(part, int):
            return self.items
        return self.properties.get(part, self.values)

    def at(self, path: Path) -> "Node | None":
        """Return the node at ``path`` below this one."""
        node: Node | None = self
        for part in path:
            if node is None:
                return None
            node = node.child(part)
        return node


ANYTHING: Final = Node(type="", is_nullable=True, keeps_unknown=True)


def read_schema(document: Document, path: Path) -> tuple[Node, list[FieldError]]:
    """Read the schema of a whole object; ``path`` is the document's path in its CRD."""
    errors: list[FieldError] = []
    node = _read(document, path, errors, is_root=True)
    if not errors and node.type != "object":
        errors.append(
            FieldError(ErrorKind.INVALID, (*path, "type"), "must be object at the root", node.type)
        )
    return node, distinct(errors)


def _read(document: object, path: Path, errors: list[FieldError], *, is_root: bool = False) -> Node:
    if not isinstance(document, Mapping):
        errors.append(FieldError(ErrorKind.INVALID, path, "a schema must be an object", document))
        return ANYTHING
    errors.extend(_problems(document, path))
    properties = {
        name: _read(schema, (*path, "properties", name), errors)
        for name, schema in (document.get("properties") or {}).items()
    }
    return Node(
        type=str(document.get("type", "")),
        format=str(document.get("format", "")),
        properties=properties,
        values=_read_values(document, (*path, "additionalProperties"), errors),
        items=_read(document["items"], (*path, "items"), errors) if "items" in document else None,
        default=_default_of(document),
        defaulted=tuple(
            (name, child) for name, child in properties.items() if child.default is not NO_DEFAULT
        ),
        is_nullable=document.get("nullable") is True,
        keeps_unknown=document.get(PRESERVE) is True,
        is_resource=is_root or document.get(EMBEDDED) is True,
        is_int_or_string=document.get(INT_OR_STRING) is True,
        list_type=str(document.get(LIST_TYPE, "atomic")),
        list_keys=tuple(document.get(LIST_KEYS) or ()),
        rules=tuple(document.get(RULES) or ()),
    )


def _default_of(document: Document) -> object:
    # As for the API server, "default: null" is no default
    value = document.get("default")
    return NO_DEFAULT if value is None else value


def _read_values(document: Document, path: Path, errors: list[FieldError]) -> Node | None:
    values = document.get("additionalProperties")
    if values is None or values is False:
        return None
    return ANYTHING if values is True else _read(values, path, errors)


def _problems(document: Document, path: Path) -> list[FieldError]:
    """List why a node is not structural."""
    problems = []
    kind = document.get("type")
    if kind is None:
        if not document.get(PRESERVE) and not document.get(INT_OR_STRING):
            problems.append(
                FieldError(ErrorKind.REQUIRED, (*path, "type"), "must say what the field holds")
            )
    elif kind not in TYPES:
        detail = "supported values: " + ", ".join(f'"{name}"' for name in sorted(TYPES))
        problems.append(FieldError(ErrorKind.NOT_SUPPORTED, (*path, "type"), detail, kind))
    if "$ref" in document:
        problems.append(
            FieldError(ErrorKind.FORBIDDEN, (*path, "$ref"), "write the schema out in place")
        )
    if kind == "array" and "items" not in document:
        problems.append(
            FieldError(ErrorKind.REQUIRED, (*path, "items"), "must say what the list holds")
        )
    if document.get("properties") and document.get("additionalProperties"):
        detail = "an object has either properties or additionalProperties"
        problems.append(FieldError(ErrorKind.FORBIDDEN, (*path, "additionalProperties"), detail))
    if document.get(LIST_TYPE) == "map" and not document.get(LIST_KEYS):
        detail = f"a list of type map needs the keys that tell its items apart in {LIST_KEYS}"
        problems.append(FieldError(ErrorKind.REQUIRED, (*path, LIST_KEYS), detail))
    return problems
