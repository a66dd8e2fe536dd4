"""``karpenter crds migrate`` on a cluster in memory, and without one."""

from pathlib import Path

import pytest

from helpers.commands import run
from karpenter.webhook import stored_versions
from karpenter.webhook.stored_versions import MigrationError, Outcome


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cluster that nobody reaches."""
    file = tmp_path / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: a, user: {}}]\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


def outcomes(monkeypatch: pytest.MonkeyPatch, **given: Outcome | Exception) -> None:
    async def migrate(*arguments: object, is_rehearsal: bool) -> Outcome:
        found = given.get(str(arguments[2]).partition(".")[0], Outcome(str(arguments[2])))
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(stored_versions, "migrate", migrate)


def test_what_was_done_is_said_for_each_kind(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Outcome("a", storage="v1", old=("v1beta1",), objects=2, is_done=True)
    absent = Outcome("b", is_installed=False)
    nothing = Outcome("c", storage="v1", is_done=True)
    outcomes(monkeypatch, nodepools=done, nodeclaims=absent, ec2nodeclasses=nothing)

    ran = run("crds", "migrate")

    assert ran.code == 0
    assert ran.out.splitlines() == [
        "a: 2 objects rewritten as v1, and v1beta1 taken out of storedVersions",
        "b: not installed",
        "c: only v1 is stored",
        "Every object is stored as v1: definitions without v1beta1 can be applied.",
    ]


def test_what_is_left_is_named_and_ends_in_an_error(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Outcome("a", storage="v1", old=("v1beta1",), objects=2, failures={"b\x1b": "no"})
    outcomes(monkeypatch, nodepools=left)

    ran = run("crds", "migrate")

    assert ran.code == 1
    assert "a: 1 of 2 objects not rewritten, so v1beta1 stays in storedVersions" in ran.out
    assert '  "b\\x1b": no' in ran.out
    assert "can be applied" not in ran.out
    assert "run the command again" in ran.err


def test_a_kind_that_must_not_be_rewritten_ends_the_command(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes(monkeypatch, nodepools=MigrationError("nodepools has no webhook"))

    ran = run("crds", "migrate", "--dry-run")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "error: nodepools has no webhook\n"


def test_a_kubeconfig_that_is_not_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))

    ran = run("crds", "migrate")

    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1


def test_crds_still_takes_kinds(kubeconfig: Path) -> None:
    assert "kind: CustomResourceDefinition" in run("crds", "nodepool").out
    assert "no kind" in run("crds", "migrat").err
    assert "karpenter crds migrate" in run("crds", "migrate", "--help").out
