"""The pages for users are true: commands print what they show, tables name what there is."""

import html
import json
import re
import shlex
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from helpers import pages
from helpers.commands import run
from helpers.pages import ROOT, RUN_ELSEWHERE, Shown, text_of
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.settings import DEFAULT_GATES

COMMANDS = list(pages.commands())
RUN_HERE = [shown for shown in COMMANDS if pages.is_run_here(shown)]
PICTURE = text_of("docs/images/plan.svg")
PIECE = re.compile(r'<text [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*clip-path[^>]*>([^<]*)</text>')
# Commands, the page that has their options in tables, and the options that every command has
OPTIONS = {
    ("plan",): "docs/plan.md",
    ("convert",): "docs/convert.md",
    ("crds",): "docs/validation.md",
    ("simulate",): "docs/simulate.md",
    ("record",): "docs/record.md",
    ("sandbox",): "docs/sandbox.md",
    ("sandbox", "fault"): "docs/sandbox.md",
    ("sandbox", "interrupt"): "docs/aws.md",
    ("explain", "pod"): "docs/explain.md",
    ("explain", "deployment"): "docs/explain.md",
    ("explain", "node"): "docs/explain.md",
    ("explain", "nodepool"): "docs/explain.md",
}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def test_what_is_not_run_here_is_on_the_pages() -> None:
    assert set() == RUN_ELSEWHERE.keys() - {str(shown) for shown in COMMANDS}


def test_there_are_commands_that_are_run_here() -> None:
    assert {"convert", "crds", "explain", "plan", "simulate"} == {
        _words(shown)[0] for shown in RUN_HERE
    }


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(shown, marks=[pytest.mark.slow] if "karpenter simulate" in str(shown) else [])
        for shown in RUN_HERE
    ],
    ids=str,
)
def test_a_command_prints_what_its_page_shows(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in pages.files():
        Path(name).write_text(text, "utf-8")
    Path("examples").symlink_to(ROOT / "examples")
    width = re.match(r"COLUMNS=(\d+) ", shown.command)
    monkeypatch.setenv("COLUMNS", width[1] if width else "80")

    ran = run(*_words(shown))

    assert 0 == ran.code, ran.err
    assert ran.out
    if shown.output:
        assert pages.is_as_shown(shown.output, ran.out), ran.out


def test_the_picture_of_a_plan_is_one_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "118")

    ran = run("plan", "examples/plan")

    assert ["$ karpenter plan examples/plan", *ran.out.splitlines()] == drawn(PICTURE)


def test_the_error_that_is_shown_is_one_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = "template: {spec: {nodeClassRef: {group: a, kind: B, name: c}, requirements: []}}"
    pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: default\nspec:\n"
    Path("pools.yaml").write_text(f"{pool}  {spec}\n" + 7 * "\n" + "  weight: 0\n", "utf-8")

    ran = run("plan", "pools.yaml")

    assert f"```\n{ran.err}```\n" in text_of("docs/validation.md")


@pytest.mark.parametrize(("words", "page"), OPTIONS.items(), ids=str)
def test_a_page_names_every_option_of_its_command(words: tuple[str, ...], page: str) -> None:
    named = set(OPTION.findall(text_of(page)))
    if words[0] == "explain":  # which refers to the page of plan for the rest
        named |= set(OPTION.findall(text_of("docs/plan.md")))

    assert set() == _options(words) - named


@pytest.mark.parametrize(
    "page",
    ["docs/plan.md", "docs/convert.md", "docs/sandbox.md", "docs/aws.md", "docs/simulate.md"],
)
def test_tables_name_no_option_that_is_not_there(page: str) -> None:
    known = set().union(*(_options(words) for words in OPTIONS))
    cells = re.findall(r"^\| ([^|]*) \|", text_of(page), re.MULTILINE)
    named = {option for cell in cells if cell.startswith("`-") for option in OPTION.findall(cell)}

    assert named
    assert set() == named - known


@pytest.mark.parametrize(
    ("words", "first"),
    [
        pytest.param(["pod", "web-0", "examples/plan"], "pod", id="pod"),
        pytest.param(["node", "general-web", "examples/disruption"], "node", id="node"),
        pytest.param(["nodepool", "general", "examples/disruption"], "nodePool", id="nodepool"),
    ],
)
def test_the_tables_of_explain_have_the_fields_of_its_documents(
    words: list[str], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    told: dict[str, Any] = json.loads(run("explain", *words, "-o", "json").out)
    tables = re.findall(
        r"^\| field \| meaning \|\n\| --- \| --- \|\n((?:\|.*\n)+)",
        text_of("docs/explain.md"),
        re.MULTILINE,
    )
    fields = [
        [name for cell in re.findall(r"^\| (.*?) \|", table, re.MULTILINE) for name in _code(cell)]
        for table in tables
    ]
    (named,) = [names for names in fields if names[0] == first]

    # A pod is costly to plan for only rarely, and then has one field more
    assert told.keys() == set(named) - {"costly"}


def test_the_page_on_plans_names_every_field_of_the_schema() -> None:
    schema = json.loads(run("plan", "--schema").out)
    text = text_of("docs/plan-json.md")
    # of taints and requirements, which Kubernetes describes
    usual = {"effect", "minValues", "value"}

    unnamed = {name for name in _properties(schema) if not re.search(rf"\b{name}\b", text)}

    assert usual == unnamed


def test_the_page_on_controllers_names_every_feature_gate_with_its_default() -> None:
    section = text_of("docs/controller.md").partition("| gate | default |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?) \| (on|off) \|", section, re.MULTILINE)

    assert DEFAULT_GATES == {
        gate: default == "on" for cell, default in rows for gate in _code(cell)
    }


def test_the_page_on_controllers_names_every_file_of_optional_rights() -> None:
    section = text_of("docs/controller.md").partition("| File | Needed with |")[2]
    cells = re.findall(r"^\| (`.*?) \|", section.partition("\n\n")[0], re.MULTILINE)
    there = {path.name for path in (ROOT / "examples" / "install" / "optional").iterdir()}

    assert there == {name for cell in cells for name in _code(cell)}


def test_the_page_on_aws_names_every_setting_with_its_default() -> None:
    section = text_of("docs/aws.md").partition("| environment | default |")[2]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", section.partition("\n\n")[0], re.MULTILINE)
    named = {name: default for cell, default in rows for name in _code(cell)}
    settings = AwsSettings("my-cluster")
    defaults = {
        each.name.upper(): _as_text(getattr(settings, each.name)) for each in fields(settings)
    }
    # one gate of several that may come
    gates = {"AWS_FEATURE_GATES": f"NodeClassCEL={defaults.pop('NODE_CLASS_CEL')}"}

    assert {**defaults, **gates}.keys() == named.keys()
    for name, default in {**defaults, **gates}.items():
        # what has no default is described in words
        assert f"`{default}`" == named[name] or not default or name == "CLUSTER_NAME"


def test_the_page_on_the_sandbox_names_every_annotation() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    known = set(re.findall(r'(?:{PREFIX}|"sandbox\.karpenter\.sh/)([a-z-]+)"', sources))
    named = set(re.findall(r"`sandbox\.karpenter\.sh/([a-z-]+)`", text_of("docs/sandbox.md")))
    # by which the commands interrupt and fault reach the sandbox
    internal = {"interrupt", "region", "zones"}

    assert known - internal == named


@pytest.mark.parametrize("path", [*pages.PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(path)):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        found = path.parent / name if name else path
        assert found.exists(), target
        assert not anchor or anchor in _anchors(found), target


def drawn(picture: str) -> list[str]:
    """The lines of a picture of a terminal."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for across, down, text in PIECE.findall(picture):
        shown = html.unescape(text).replace("\xa0", " ").strip("\n")
        lines.setdefault(float(down), []).append((float(across), shown))
    return ["".join(text for _, text in sorted(lines[down])).rstrip() for down in sorted(lines)]


def _words(shown: Shown) -> list[str]:
    """The arguments of the program in a command, less what a shell does with its output."""
    words = shlex.split(shown.name)
    if words[0].startswith("COLUMNS="):
        words = words[1:]
    assert "karpenter" == words[0], f"{shown} is neither run here nor listed with a reason"
    ends = [at for at, word in enumerate(words) if word in ("|", ">")]
    return words[1 : ends[0] if ends else None]


def _options(words: tuple[str, ...]) -> set[str]:
    """The options of a command, as its help lists them."""
    ran = run(*words, "--help")
    assert 0 == ran.code, ran.err
    listed = re.findall(r"^│ +((?:--?[a-z][a-z-]* +)+)", ran.out, re.MULTILINE | re.IGNORECASE)
    return {option for names in listed for option in OPTION.findall(names)} - {"--help"}


def _as_text(value: object) -> str:
    """A setting as it is written in the environment."""
    if isinstance(value, timedelta):
        return f"{value // timedelta(minutes=1)}m"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _properties(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_properties, schema))
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties")
    return set(own if isinstance(own, dict) else ()).union(*map(_properties, schema.values()))


def _code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _prose(path: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchors(path: Path) -> set[str]:
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ (.*)$", _prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
