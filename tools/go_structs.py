"""Read the structs of Go source: field names, types and tags, nothing else.

Understands what the ``types.go`` files of the Kubernetes API modules contain: structs whose fields
stand on one line each, and named types for scalars, lists and maps. Comments are skipped.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_IMPORT: Final = re.compile(r'^\t(?:(\w+) )?"([\w./-]+)"$')
_STRUCT: Final = re.compile(r"^type (\w+) struct \{$")
_EMPTY: Final = re.compile(r"^type (\w+) struct ?\{\}$")
_NAMED: Final = re.compile(r"^type (\w+) =?\s*([\w.\[\]*]+)$")
_FIELD: Final = re.compile(r"^\t(?:(\w+)\s+)?([\w.\[\]*{}]+)\s+`([^`]*)`")
_TAG: Final = re.compile(r'(\w+):"([^"]*)"')


@dataclass(frozen=True, slots=True)
class GoField:
    """A field of a struct; ``go_type`` is spelled as in the source."""

    go_type: str
    tags: dict[str, str]

    @property
    def json_name(self) -> str:
        return self.tags.get("json", "").split(",")[0]

    @property
    def json_options(self) -> list[str]:
        return self.tags.get("json", "").split(",")[1:]

    @property
    def number(self) -> str:
        return self.tags["protobuf"].split(",")[1] if "protobuf" in self.tags else "0"


@dataclass(slots=True)
class GoPackage:
    """The types of one package; imports are kept per file because aliases are."""

    path: str
    structs: dict[str, list[GoField]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)


def read_package(folder: Path, path: str) -> GoPackage:
    """Read every Go file of a folder that is neither generated nor a test."""
    package = GoPackage(path)
    for file in sorted(folder.glob("*.go")):
        if not file.name.endswith(("_test.go", ".pb.go")) and "generated" not in file.name:
            _read_file(file, package)
    return package


def _read_file(file: Path, package: GoPackage) -> None:
    lines = iter(file.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if found := _IMPORT.match(line):
            alias, target = found.groups()
            package.imports[alias or target.rsplit("/", 1)[-1]] = target
        elif found := _STRUCT.match(line):
            package.structs[found[1]] = list(_fields(lines))
        elif found := _EMPTY.match(line):
            package.structs[found[1]] = []
        elif found := _NAMED.match(line):
            package.named[found[1]] = found[2]


def _fields(lines: Iterator[str]) -> Iterator[GoField]:
    for line in lines:
        if line == "}":
            return
        if found := _FIELD.match(line):
            yield GoField(found[2], dict(_TAG.findall(found[3])))
