"""Draws the packages of the project into ``docs/architecture.md``, from the import contracts.

The layers are those that ``make check`` enforces, and each package is described by its own docstring,
so the picture cannot differ from the code. Run without arguments to write the page; a
test compares the page with what would be written.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "architecture.md"
BEGIN: Final = "<!-- begin: written by tools/architecture.py -->"
END: Final = "<!-- end: written by tools/architecture.py -->"

_PICTURES: Final = {
    "Imports point downwards": "The program",
    "The sandbox's imports point downwards": "The sandbox",
}


def layers(contract: str) -> list[list[str]]:
    """The layers of an import contract, from top to bottom, each with its modules."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for entry in settings["tool"]["importlinter"]["contracts"]:
        if entry["name"] == contract:
            return [[name.strip() for name in layer.split("|")] for layer in entry["layers"]]
    raise SystemExit(f"pyproject.toml has no import contract called {contract!r}")


def all_layers() -> list[list[str]]:
    """The layers of every picture."""
    return [layer for contract in _PICTURES for layer in layers(contract)]


def described(module: str) -> str:
    """The first sentence of a module's or package's docstring."""
    path = ROOT / "src" / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return " ".join(text.split("\n\n", 1)[0].split()).replace("``", "`")


def modules() -> Iterator[str]:
    """Every module of the project that holds code."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
        if file.name != "__init__.py":
            yield name


def drawn(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A box for every layer, those that import others above them."""
    lines = [" · ".join(row) for row in rows]
    width = max(map(len, lines))
    rule = "─" * (width + 2)
    yield f"┌{rule}┐"
    for number, line in enumerate(lines):
        if number:
            yield f"├{rule}┤"
        yield f"│ {line:<{width}} │"
    yield f"└{rule}┘"


def section() -> str:
    """Everything between the two marks of the page."""
    parts: list[str] = [BEGIN]
    for contract, title in _PICTURES.items():
        rows = layers(contract)
        parts += ["", f"### {title}", "", "```text", *drawn(rows), "```", ""]
        parts += ["| package | what it is responsible for |", "| --- | --- |"]
        parts += [f"| `{name}` | {described(name)} |" for row in rows for name in row]
    return "\n".join([*parts, "", END])


def page(text: str) -> str:
    """The page with its generated part replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{section()}{after}"


def main() -> None:
    """Write the page."""
    text = PAGE.read_text("utf-8")
    if BEGIN not in text or END not in text:
        sys.exit(f"{PAGE.name} has no marks to write between; add {BEGIN} and {END}")
    PAGE.write_text(page(text), "utf-8")


if __name__ == "__main__":
    main()
