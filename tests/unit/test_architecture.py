"""The architecture page is true: its pictures are those of the import contracts, its files exist."""

import ast
import re

import pytest

import architecture

TEXT = architecture.PAGE.read_text("utf-8")
SRC = architecture.ROOT / "src"
# Files of the tables: `kube/mirror.py`, and names that must stand in them
FILE = re.compile(r"`((?:[\w]+/)+[\w]+\.py)`")
FILES = {name for name in FILE.findall(TEXT) if not name.startswith("tools/")}
STEP = re.compile(r"`((?:[\w]+/)+[\w]+\.py)` `([\w.]+)`")


def path_of(name: str) -> str:
    return name if name.startswith("karpenter_sandbox/") else f"karpenter/{name}"


def test_the_pictures_are_those_of_the_contracts() -> None:
    written = architecture.page(TEXT)

    assert written == TEXT, "run: python tools/architecture.py"


def test_every_module_stands_in_a_layer() -> None:
    layers = [name for layer in architecture.all_layers() for name in layer]
    entrances = {"karpenter.__main__"}

    outside = [
        module
        for module in architecture.modules()
        if module not in entrances
        and not any(module == name or module.startswith(f"{name}.") for name in layers)
    ]

    assert [] == outside


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_is_named_exists(name: str) -> None:
    assert (SRC / path_of(name)).is_file()


@pytest.mark.parametrize(("name", "symbol"), sorted(set(STEP.findall(TEXT))))
def test_a_name_stands_in_the_file_it_is_said_to_stand_in(name: str, symbol: str) -> None:
    tree = ast.parse((SRC / path_of(name)).read_text("utf-8"))
    scope: list[ast.stmt] = tree.body
    for part in symbol.split("."):
        found = [node for node in scope if part in _defined(node)]
        assert found, f"{name} has no {symbol}"
        scope = getattr(found[0], "body", [])


def test_a_file_named_alone_lies_beside_the_one_named_before_it() -> None:
    missing = [
        f"{folder}{name}"
        for cell in re.findall(r"[^|\n]+", TEXT)
        for folder in [f.rpartition("/")[0] + "/" for f in FILE.findall(cell)[:1]]
        for name in re.findall(r"`(\w+\.py)`", cell)
        if not (SRC / path_of(folder + name)).is_file()
    ]

    assert [] == missing


def test_a_folder_that_is_named_exists() -> None:
    folders = set(re.findall(r"`((?:\w+/)+)`", TEXT))

    assert folders
    assert [] == [folder for folder in folders if not (SRC / path_of(folder)).is_dir()]


def test_a_method_named_without_a_file_exists() -> None:
    """Such as ``CloudProvider.create``, which every provider has a file of its own for."""
    sources = [path.read_text("utf-8") for path in sorted(SRC.rglob("*.py"))]
    alone = set(re.findall(r"(?<!\.py` )`([A-Z]\w+)\.(\w+)`", TEXT))

    assert alone
    for kind, method in alone:
        body = next(
            text for text in sources if f"class {kind}(" in text or f"class {kind}:" in text
        )
        assert f"def {method}(" in body, f"{kind} has no {method}"


def _defined(node: ast.stmt) -> set[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return {node.name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


def test_the_noun_of_a_question_is_in_the_path_that_answers_it() -> None:
    _, _, rest = TEXT.partition("## Where is it decided?")
    table, _, _ = rest.partition("\n## ")
    rows = re.findall(r"^\| (.+\?) \| (.+) \|$", table, re.MULTILINE)

    strange = [
        question
        for question, files in rows
        if not any(
            word[:5] in part
            for word in re.findall(r"[a-z]{4,}", question.lower())
            for part in re.split(r"[/_`., ]+", files.lower())
        )
    ]

    assert len(rows) >= 10
    assert [] == strange
