"""What commands read: the manifests named on the command line, and what is wrong with them where.

Findings are printed in the order of the input, one line each, with file, line, object and field.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from karpenter.cli import output

if TYPE_CHECKING:
    from karpenter.admission.errors import FieldError, FieldWarning
    from karpenter.manifests.files import Loaded
    from karpenter.manifests.reader import Document

Filenames: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE",
        help="The same as FILE, for those who are used to kubectl.",
        show_default=False,
    ),
]
Recursive: TypeAlias = Annotated[
    bool, typer.Option("--recursive", "-R", help="Look into the subfolders of folders, too.")
]


def load_documents(names: Sequence[str], *, recursive: bool) -> "Loaded":
    """Read the named files, folders and standard input, or end the command where none is named."""
    from karpenter.manifests.files import STANDARD_INPUT, load

    if not names:
        output.fail("no input: name a file or a folder, or - for standard input (see --help)")
    if names.count(STANDARD_INPUT) > 1:
        output.fail("standard input can be read only once: name - only once")
    standard_input = sys.stdin.buffer if sys.stdin else None  # None where a shell closed it
    return load(names, recursive=recursive, standard_input=standard_input)


def report(
    document: "Document", errors: "Iterable[FieldError]", warnings: "Iterable[FieldWarning]"
) -> None:
    """Print the findings of one object from top to bottom."""
    said = [(output.warning, warning.path, str(warning)) for warning in warnings]
    said += [(output.error, error.path, str(error)) for error in errors]
    lines = {path: document.line(path) for _, path, _ in said}
    for say, path, text in sorted(said, key=lambda item: lines[item[1]]):
        title = title_of(document.data) + ("" if path else ":")
        say(f"{document.source.name}:{lines[path]}: {title} {text}")


def title_of(data: dict[str, Any]) -> str:
    """Name an object the way kubectl does, as far as it has a kind and a name."""
    metadata = data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    parts = [part for part in (data.get("kind"), name) if isinstance(part, str) and part]
    return "/".join(parts) or "object"


def problems(count: int) -> str:
    """Say how many problems there are."""
    return f"{count} problem{'s' if count > 1 else ''} above"
