"""Reads the manifests named on the command line, and reports their errors with positions.

Findings are printed in the order of the input, one line each, with file, line, object and field.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from karpenter.console import output
from karpenter.console.help_pages import unset_option

if TYPE_CHECKING:
    from karpenter.admission.errors import FieldError, FieldWarning
    from karpenter.manifests.files import Loaded
    from karpenter.manifests.jsonitems import Maker
    from karpenter.manifests.reader import Document

_MATCH: Final = " should match "
_UNITS: Final = re.compile(r"s\|m\|h|\[0-9\]\+h")  # in the pattern of a duration
_UNITS_OF: Final = {"(0s)": "h and m", "ns|us|ms": "h, m, s, ms, us and ns"}  # part of a pattern
_DAYS: Final = re.compile(r"([0-9]{1,6}) ?(d|days?|w|weeks?)")

Filenames: TypeAlias = Annotated[
    list[str] | None,
    unset_option("The same as FILE, as with kubectl.", "--filename", "-f", metavar="FILE"),
]
Recursive: TypeAlias = Annotated[
    bool, typer.Option("--recursive", "-R", help="Read the subfolders of folders, too.")
]


def load_documents(
    names: Sequence[str], *, recursive: bool, maker: "Maker | None" = None
) -> "Loaded":
    """Read the named files, folders and standard input, or end the command where none is named."""
    from karpenter.manifests.files import STANDARD_INPUT, load

    if not names:
        output.fail("no input: name a file or a folder, or - for standard input (see --help)")
    if names.count(STANDARD_INPUT) > 1:
        output.fail("standard input can be read only once: name - only once")
    standard_input = sys.stdin.buffer if sys.stdin else None  # None where a shell closed it
    return load(names, recursive=recursive, standard_input=standard_input, maker=maker)


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with the input, or worth knowing about it, as a command would print it."""

    text: str  # with file and line, where it has them
    is_error: bool = True
    line: int | None = None
    field: str = ""  # such as spec.template.spec.taints[0].key

    def say(self) -> None:
        """Print it."""
        (output.error if self.is_error else output.warning)(self.text)


def findings(
    document: "Document", errors: "Iterable[FieldError]", warnings: "Iterable[FieldWarning]"
) -> list[Finding]:
    """The findings of one object from top to bottom."""
    from karpenter.admission.errors import render_path

    texts = [(False, warning.path, str(warning)) for warning in warnings]
    texts += [(True, error.path, said(error)) for error in errors]
    found = []
    for is_error, path, text in texts:
        line = document.line(path)
        title = title_of(document.data) + ("" if path else ":")
        whole = f"{document.source.name}:{line}: {title} {text}"
        found.append(Finding(whole, is_error, line, render_path(path)))
    return sorted(found, key=lambda each: each.line or 0)


def report(
    document: "Document", errors: "Iterable[FieldError]", warnings: "Iterable[FieldWarning]"
) -> None:
    """Print the findings of one object from top to bottom."""
    for each in findings(document, errors, warnings):
        each.say()


def said(error: "FieldError") -> str:
    """An error as text; for a duration it describes the format instead of the pattern."""
    _, is_pattern, pattern = error.detail.partition(_MATCH)
    if not is_pattern or not isinstance(error.value, str) or not _UNITS.search(pattern):
        return str(error)
    units = next((units for part, units in _UNITS_OF.items() if part in pattern), "h, m and s")
    never = ", or is Never" if "Never" in pattern else ""
    advice = f"a duration is made of numbers with the units {units}, such as 1h30m{never}"
    days = _DAYS.fullmatch(error.value.strip().lower())
    if days is not None:
        hours = int(days[1]) * (168 if days[2].startswith("w") else 24)
        advice += f"; write {hours}h instead"
    return str(replace(error, detail=advice))


def title_of(data: dict[str, Any]) -> str:
    """Name an object the way kubectl does, as far as it has a kind and a name."""
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    parts = [part for part in (data.get("kind"), name) if isinstance(part, str) and part]
    return "/".join(parts) or "object"


def problems(count: int) -> str:
    """Say how many problems there are."""
    return f"{count} problem{'s' if count > 1 else ''} above"
