"""Writes the stable interface of a major version as text, one line per name, so that diffs show it.

    python tools/surfaces.py               # tests/surfaces/*.txt
    python tools/surfaces.py --released    # tests/surfaces/released/*.txt as well, when a version is released

A line is a name, two spaces, and what else is promised about it: kind, labels, type, default. A test compares the
files with the code, and refuses a line that a release had and the code has no longer, or otherwise, unless the
*Removed* or the *Upgrade notes* of the next version in the changelog name it.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

import chart_values
import metrics_reference
from karpenter.admission.schemas.crds import builtin_crds
from karpenter.cli.app import app
from karpenter.cli.controller_flags import OTHERS, SETTINGS
from karpenter.settings import DEFAULT_GATES

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "tests" / "surfaces"
RELEASED: Final = FOLDER / "released"
_SOURCES: Final = ROOT / "src" / "karpenter"
_SCHEMAS: Final = (_SOURCES / "report", _SOURCES / "simulate" / "report")
_EVENT: Final = re.compile(r"^\| `(\w+)` \| ([^|]+) \| (Normal|Warning) \|", re.MULTILINE)
_UNRELEASED: Final = re.compile(r"^## Unreleased\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_NOTES: Final = re.compile(
    r"^### (?:Removed|Upgrade notes)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL
)
_EXITS: Final = ("exit 0  done", "exit 1  failed", "exit 2  wrong usage", "exit 130  interrupted")


def commands() -> Iterator[str]:
    """Commands, arguments, options and exit codes; those of the controller are settings."""
    program = typer.main.get_command(app)
    assert isinstance(program, TyperGroup)
    yield from _EXITS
    for words, command in _commands(program, ("karpenter",)):
        name = " ".join(words)
        yield name
        for parameter in command.params if name != "karpenter controller" else ():
            if isinstance(parameter, TyperArgument):
                yield f"{name} {parameter.metavar or str(parameter.name).upper()}"
            elif isinstance(parameter, TyperOption) and not parameter.hidden:
                for option in (*parameter.opts, *parameter.secondary_opts):
                    yield f"{name} {option}  {'flag' if parameter.is_flag else 'value'}"


def _commands(group: TyperGroup, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield (*words, name), command
            if isinstance(command, TyperGroup):
                yield from _commands(command, (*words, name))


def settings() -> Iterator[str]:
    """Environment variables with their flags and defaults, and feature gates."""
    for flag in (*SETTINGS, *OTHERS):
        yield f"{flag.variable}  {flag.text} {flag.default or 'none'}"
    for gate, default in DEFAULT_GATES.items():
        yield f"gate {gate}  {'on' if default else 'off'}"


def metrics() -> Iterator[str]:
    """Names of metrics with their kind and labels."""
    for family in metrics_reference.families():
        yield f"{family.name}  {family.kind} {' '.join(sorted(family.labels.split()))}".rstrip()


def events() -> Iterator[str]:
    """Reasons of events, with kind of object and type; tests hold the page against the code."""
    for reason, kinds, sort in _EVENT.findall((ROOT / "docs" / "events.md").read_text("utf-8")):
        yield f"{reason}  {sort} {kinds.strip()}"


def documents() -> Iterator[str]:
    """Fields of the documents of ``-o json`` and of decision records, with their types."""
    for file in sorted(file for folder in _SCHEMAS for file in folder.glob("*.schema.json")):
        schema = json.loads(file.read_text("utf-8"))
        yield from _fields(f"{file.name.split('.')[0]} ", schema, schema)


def kinds() -> Iterator[str]:
    """Fields of every kind and version, with their types."""
    for definition in builtin_crds(legacy=True).values():
        kind = definition["spec"]["names"]["kind"]
        for version in definition["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            yield from _fields(f"{kind} {version['name']} ", schema, schema)


def values() -> Iterator[str]:
    """Values of the charts, with their types."""
    for chart in ("karpenter", "karpenter-crd"):
        for value in chart_values.read(ROOT / "charts" / chart / "values.yaml"):
            yield f"{chart} {value.name}  {_type_of(value.schema)}"


def _fields(
    name: str, schema: Mapping[str, Any], root: Mapping[str, Any], above: tuple[str, ...] = ()
) -> Iterator[str]:
    """The fields below one, and the values it may have; a schema that contains itself is followed once."""
    reference = str(schema.get("$ref", ""))
    if reference in above:
        return
    schema = _resolved(schema, root)
    above = (*above, reference) if reference else above
    yield from (f"{name}={value}" for value in schema.get("enum", ()))
    for part, inner in (schema.get("properties") or {}).items():
        field = f"{name}{'' if name.endswith(' ') else '.'}{part}"
        yield f"{field}  {_type_of(_resolved(inner, root))}"
        yield from _fields(field, inner, root, above)
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _fields(name, branch, root, above)
    if isinstance(schema.get("items"), dict):
        yield from _fields(f"{name}[]", schema["items"], root, above)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _fields(f"{name}[*]", schema["additionalProperties"], root, above)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = str(schema.get("$ref", ""))
    found: Mapping[str, Any] = root["$defs"][reference.rpartition("/")[2]] if reference else schema
    return found


def _type_of(schema: Mapping[str, Any]) -> str:
    found = schema.get("type", "any")
    return "|".join(found) if isinstance(found, list) else str(found)


SURFACES: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "commands": commands,
    "documents": documents,
    "events": events,
    "kinds": kinds,
    "metrics": metrics,
    "settings": settings,
    "values": values,
}


def text(name: str) -> str:
    """A surface as it is in the code."""
    return "".join(f"{line}\n" for line in sorted(set(SURFACES[name]())))


def notes(changelog: str) -> str:
    """The *Removed* and *Upgrade notes* sections of the next version."""
    section = _UNRELEASED.search(changelog)
    return "\n".join(_NOTES.findall(section[1])) if section is not None else ""


def unnoted(released: str, current: str, said: str) -> list[str]:
    """The lines of a release that the code lacks and no note names."""
    gone = sorted(set(released.splitlines()) - set(current.splitlines()))
    return [line for line in gone if f"`{line.partition('  ')[0]}`" not in said]


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description="Write what is promised as text.")
    parser.add_argument(
        "--released", action="store_true", help="write those of the release as well"
    )
    for folder in (FOLDER, *((RELEASED,) if parser.parse_args().released else ())):
        folder.mkdir(parents=True, exist_ok=True)
        for name in SURFACES:
            (folder / f"{name}.txt").write_text(text(name), "utf-8")


if __name__ == "__main__":
    main()
