"""The structs of Kubernetes' own kinds, read from ``structs.json`` one at a time.

A struct is what a kind looks like in the Go code of an API server: its fields with their types,
protobuf numbers and merge rules. The wire formats follow from it, JSON as well as protobuf, and so
do field ownership, strategic merge patches and OpenAPI documents.

In the file a field is one line, ``<number> <type> <words>``. The type is written as in Go with
short package names (``*int32``, ``[]core.v1.Container``); a named scalar shows its name after a
colon. The words: ``always`` (written even when empty), ``omitzero``, ``required``, ``default:``,
``list:`` and ``map:`` (how parts are owned), ``patch:`` and ``key:`` (how patches merge). A name
that starts with ``<`` is a struct whose fields stand directly in this one.
"""

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from typing import Any, Final

import msgspec

SCALARS: Final = frozenset({"string", "bool", "int32", "int64", "float64", "bytes"})
# Structs in Go that JSON shows as something else, by the package that defines them
OPAQUE: Final = {
    "Time": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "MicroTime": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "FieldsV1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "Quantity": "io.k8s.apimachinery.pkg.api.resource",
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr",
    "RawExtension": "io.k8s.apimachinery.pkg.runtime",
    "JSON": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "JSONSchemaPropsOrArray": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "JSONSchemaPropsOrBool": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    "JSONSchemaPropsOrStringArray": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
}


class Form(Enum):
    """What kind of value a type describes."""

    SCALAR = "scalar"
    OPAQUE = "opaque"
    STRUCT = "struct"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class GoType:
    """The type of a value; ``item`` is that of the parts of a list or map."""

    form: Form
    name: str
    is_pointer: bool = False
    go_name: str = ""
    item: "GoType | None" = None

    @property
    def parts(self) -> "GoType":
        """The type of the parts of a list or map."""
        assert self.item is not None
        return self.item

    def __str__(self) -> str:
        """Spell the type as error messages of Go programs do."""
        if self.form is Form.LIST:
            return f"[]{self.parts}"
        if self.form is Form.MAP:
            # the only named map type in messages
            is_named = self.parts.name == "Quantity"
            return "v1.ResourceList" if is_named else f"map[string]{self.parts}"
        if self.form is Form.STRUCT:
            return ".".join(self.name.split(".")[-2:])
        return self.go_name or self.name


@dataclass(frozen=True, slots=True)
class StructField:
    """One field of a struct; ``json`` is empty when the fields of its type stand in its place."""

    json: str
    number: int
    type: GoType
    is_always_written: bool = False
    is_omitted_when_zero: bool = False
    is_required: bool = False
    default: Any = None
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    map_type: str = ""
    patch_strategies: tuple[str, ...] = ()
    merge_key: str = ""


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct: its fields as declared, and by JSON name with those of inlined structs."""

    name: str
    fields: tuple[StructField, ...]
    is_atomic: bool

    @property
    def go_name(self) -> str:
        """The name without its package."""
        return self.name.rpartition(".")[2]

    def json_fields(self) -> Mapping[str, StructField]:
        """Every field as it appears in JSON."""
        return _json_fields(self.name)


class _File(msgspec.Struct):
    packages: dict[str, str]
    kinds: dict[str, str]
    structs: dict[str, dict[str, str]]


@functools.cache
def _file() -> _File:
    path = resources.files("karpenter_sandbox.kinds.schemas") / "structs.json"
    return msgspec.json.decode(path.read_bytes(), type=_File)


def struct_of_kind(api_version: str, kind: str) -> Struct | None:
    """The struct of one of Kubernetes' own kinds, or None when it is not known."""
    name = _file().kinds.get(f"{api_version}/{kind}")
    return None if name is None else struct(name)


def kinds_of(group: str, version: str) -> dict[str, str]:
    """Kinds of a group and version, and the names of their structs."""
    prefix = f"{group}/{version}/" if group else f"{version}/"
    found = _file().kinds.items()
    return {path.removeprefix(prefix): name for path, name in found if path.startswith(prefix)}


def full_name(name: str) -> str:
    """The name a struct or opaque type has in OpenAPI documents."""
    if name in OPAQUE:
        return f"{OPAQUE[name]}.{name}"
    package, _, last = name.rpartition(".")
    return f"{_file().packages[package]}.{last}"


@functools.cache
def struct(name: str) -> Struct:
    """The struct with a short name such as ``core.v1.PodSpec``."""
    lines = _file().structs[name]
    fields = tuple(_read_field(key, line) for key, line in lines.items() if key != ".")
    return Struct(name, fields, is_atomic=lines.get(".") == "map:atomic")


@functools.cache
def _json_fields(name: str) -> dict[str, StructField]:
    return {field.json: field for field in _flattened(struct(name))}


def _flattened(outer: Struct) -> Iterator[StructField]:
    for field in outer.fields:
        if field.json:
            yield field
        else:
            yield from _flattened(struct(field.type.name))


def _read_field(key: str, line: str) -> StructField:
    if key.startswith("<"):
        return StructField("", int(line), GoType(Form.STRUCT, key[1:]))
    number, type_name, *words = line.split(" ")
    said = dict(word.partition(":")[::2] for word in words)
    list_type, _, keys = said.get("list", "").partition(":")
    return StructField(
        json=key,
        number=int(number),
        type=_read_type(type_name),
        is_always_written="always" in said,
        is_omitted_when_zero="omitzero" in said,
        is_required="required" in said,
        default=json.loads(said["default"]) if "default" in said else None,
        list_type=list_type,
        map_keys=tuple(filter(None, keys.split(","))),
        map_type=said.get("map", ""),
        patch_strategies=tuple(filter(None, said.get("patch", "").split(","))),
        merge_key=said.get("key", ""),
    )


@functools.cache
def _read_type(text: str) -> GoType:
    if text.startswith("*"):
        pointed = _read_type(text[1:])
        return GoType(pointed.form, pointed.name, True, pointed.go_name, pointed.item)
    if text.startswith("[]"):
        return GoType(Form.LIST, "", item=_read_type(text[2:]))
    if text.startswith("map[string]"):
        return GoType(Form.MAP, "", item=_read_type(text.removeprefix("map[string]")))
    name, _, go_name = text.partition(":")
    if name in SCALARS:
        return GoType(Form.SCALAR, name, go_name=go_name)
    if name in OPAQUE:
        return GoType(Form.OPAQUE, name)
    return GoType(Form.STRUCT, name)
