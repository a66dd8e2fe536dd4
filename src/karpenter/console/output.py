"""Output of commands: objects on standard output, one line per finding on standard error.

Objects are written as UTF-8 whatever the locale, in a form that does not change from one run to
the next. Findings are coloured on a terminal only, and not where ``NO_COLOR`` is set.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import typer

from karpenter.os_errors import os_reason
from karpenter.visible import in_json, visible

Format: TypeAlias = Literal["yaml", "json"]
JsonObject: TypeAlias = Mapping[str, Any]

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2

_PLUGIN = "kubectl-karpenter"
_TOP_ORDER = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA_ORDER = ("name", "generateName", "namespace", "labels", "annotations", "finalizers")
_LINE_BREAKS = re.compile(r"[\r\n]+")


def program_name() -> str:
    """The program as it was called: by its name, or as a plugin of kubectl."""
    return "kubectl karpenter" if is_plugin() else "karpenter"


def is_plugin() -> bool:
    """Whether kubectl runs the program."""
    return Path(sys.argv[0]).stem == _PLUGIN


def error(text: str) -> None:
    """Print an error on standard error."""
    _finding("error", typer.colors.RED, text)


def warning(text: str) -> None:
    """Print a warning on standard error."""
    _finding("warning", typer.colors.YELLOW, text)


def note(text: str) -> None:
    """Print a note on standard error."""
    typer.echo(_one_line(text), err=True)


def fail(text: str, code: int = EXIT_BAD_INPUT) -> NoReturn:
    """Print an error and end the command."""
    error(text)
    raise typer.Exit(code)


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show a progress indicator on a terminal while the block runs."""
    if not _for_people():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …"):
        yield


def write(text: str) -> None:
    """Print a whole result on standard output, as UTF-8."""
    if sys.stdout is None:
        fail("the result could not be written: standard output is closed", EXIT_FAILED)
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # the reader closed the pipe; the program exits silently
    except OSError as problem:
        could_not_write(problem)
        raise typer.Exit(EXIT_FAILED) from problem


def could_not_write(problem: OSError) -> None:
    """Report on standard error, if that is writable, that a result could not be written."""
    # Flushing the buffers at exit would fail again, with a traceback
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        error(f"the result could not be written: {os_reason(problem)}")
    except OSError:
        os.dup2(nowhere, 2)


def render(objects: Sequence[JsonObject], form: Format) -> str:
    """Return objects as text: YAML documents, or one JSON object (a List where not just one)."""
    ordered = [in_order(item) for item in objects]
    return _as_json(ordered) if form == "json" else _as_yaml(ordered)


def in_order(item: JsonObject) -> dict[str, Any]:
    """Return an object with its keys in kubectl's order: apiVersion, kind, metadata first."""
    ordered = _first(item, _TOP_ORDER)
    metadata = ordered.get("metadata")
    if isinstance(metadata, Mapping):
        ordered["metadata"] = _first(metadata, _METADATA_ORDER)
    return ordered


def _first(mapping: JsonObject, keys: Sequence[str]) -> dict[str, Any]:
    return {**{key: mapping[key] for key in keys if key in mapping}, **mapping}


def _as_json(objects: Sequence[JsonObject]) -> str:
    import json

    whole = objects[0] if len(objects) == 1 else _list_of(objects)
    return in_json(json.dumps(whole, indent=2, ensure_ascii=False)) + "\n"


def _list_of(objects: Sequence[JsonObject]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def _as_yaml(objects: Sequence[JsonObject]) -> str:
    from karpenter.manifests.writer import dump

    return "---\n".join(dump(item) for item in objects)


def _finding(label: str, colour: str, text: str) -> None:
    shown = typer.style(f"{label}:", fg=colour, bold=True) if _for_people() else f"{label}:"
    typer.echo(f"{shown} {_one_line(text)}", err=True)


def _for_people() -> bool:
    return (
        sys.stderr is not None  # None where a shell closed it
        and sys.stderr.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def _one_line(text: str) -> str:
    """Replace line breaks and control characters, by which a manifest could forge output."""
    return visible(" ".join(filter(None, map(str.strip, _LINE_BREAKS.split(text)))))
