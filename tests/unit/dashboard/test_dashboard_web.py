"""The page's files: small, without a build, and unable to make code or markup from text."""

import gzip
import re
from importlib import resources
from pathlib import Path

import pytest

from karpenter.dashboard.assets import load_assets

WEB = Path(str(resources.files("karpenter.dashboard") / "web"))
OWN = sorted(
    each
    for each in WEB.rglob("*")
    if each.suffix in (".js", ".css", ".html") and "vendor" not in each.relative_to(WEB).parts
)
MODULES = [each for each in OWN if each.suffix == ".js"]
_MOST_LINES = 300
_MOST_LINES_IN_ALL = 2500
_MOST_BYTES = 300_000  # of what is not the page's own
_MOST_COMPRESSED = 90_000


def name(path: Path) -> str:
    return path.relative_to(WEB).as_posix()


def test_the_page_is_small() -> None:
    lines = {name(each): len(each.read_text("utf-8").splitlines()) for each in OWN}

    assert {} == {each: count for each, count in lines.items() if count > _MOST_LINES}
    assert sum(lines.values()) <= _MOST_LINES_IN_ALL


def test_what_is_vendored_is_within_its_budget() -> None:
    vendored = [
        each.read_bytes() for each in (WEB / "vendor").iterdir() if each.suffix in (".js", ".css")
    ]

    assert sum(map(len, vendored)) < _MOST_BYTES
    assert sum(len(gzip.compress(each)) for each in vendored) < _MOST_COMPRESSED


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_a_module_imports_files_that_are_there(module: Path) -> None:
    text = module.read_text("utf-8")

    wanted = re.findall(r"""^(?:import .*from|\} from|import) "([^"]+)";$""", text, re.MULTILINE)
    assert [] == [each for each in wanted if not (module.parent / each).is_file()]


@pytest.mark.parametrize("file", OWN, ids=name)
def test_nothing_makes_code_or_markup_from_text(file: Path) -> None:
    text = file.read_text("utf-8")

    sinks = (
        r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|srcdoc"
        r"|\beval\(|new Function|DOMParser|createContextualFragment|javascript:|setHTML"
    )
    assert [] == re.findall(sinks, text)
    assert [] == re.findall(r"https?://[^\s\"'`]*", text), "the page asks its own server alone"


def test_the_index_has_no_script_and_no_style_in_it() -> None:
    text = (WEB / "index.html").read_text("utf-8")

    assert [] == re.findall(r"<script(?![^>]*\bsrc=)", text)
    assert [] == re.findall(r"<style|\bstyle=|\bon\w+=", text)
    assert [] == [
        each for each in re.findall(r'(?:src|href)="([^"]+)"', text) if "assets/-/" not in each
    ]


def test_every_file_of_the_index_is_served() -> None:
    assets = load_assets()

    for path in re.findall(rb'(?:src|href)="assets/([^/]+)/([^"]+)"', assets.index.body):
        assert path[0].decode() == assets.hash
        assert path[1].decode() in assets.files
