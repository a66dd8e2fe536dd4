"""Every example that is shipped passes the checks it is there to show."""

import re
from pathlib import Path

import pytest

from helpers.commands import run
from karpenter.admission.check import check
from karpenter.manifests.reader import read

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ALL = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.yaml"))
# What stands under install is made of kinds that only a cluster knows, and is applied to one;
# tests/unit/conformance/test_docs.py reads the file for eksctl
FILES = [
    name
    for name in ALL
    # tests/unit/cli/test_cli_simulate.py runs the scenarios
    if not re.match("install/|scenarios/(traces/)?[^/]*$", name)
    and name not in ("scale-walk/eksctl.yaml", "scale-walk/scenario.yaml")
]


def test_there_are_examples() -> None:
    assert {
        "aws-plan",
        "cheapest",
        "commitments",
        "disruption",
        "legacy",
        "migrate",
        "plan",
        "rebalance",
        "scale-walk",
        "scenarios",
        "spot",
        "v1",
    } == {name.partition("/")[0] for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_an_example_is_accepted(name: str) -> None:
    documents = read((EXAMPLES / name).read_bytes(), name)

    assert documents
    for document in documents:
        assert [] == check(document.data).errors


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("v1/")])
def test_an_example_of_today_has_nothing_to_be_warned_of(name: str) -> None:
    for document in read((EXAMPLES / name).read_bytes(), name):
        assert [] == check(document.data).warnings


def test_the_legacy_example_converts_to_what_the_checks_accept() -> None:
    path = EXAMPLES / "legacy" / "provisioner.yaml"

    ran = run("convert", str(path), "--node-role", "KarpenterNodeRole-demo")

    assert ran.code == 0, ran.err
    documents = read(ran.out.encode(), "converted.yaml")
    assert ["NodePool", "EC2NodeClass"] == [document.data["kind"] for document in documents]
    for document in documents:
        checked = check(document.data)
        assert ([], []) == (checked.errors, checked.warnings)
