"""Where no cluster can be found, ``plan`` and ``explain`` say so in one sentence."""

from pathlib import Path

import pytest

from unit.cli.commands import run

COMMANDS = [
    pytest.param(["plan"], id="plan"),
    pytest.param(["explain", "pod", "web"], id="explain pod"),
    pytest.param(["explain", "node", "n1"], id="explain node"),
    pytest.param(["explain", "nodepool", "general"], id="explain nodepool"),
]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "CLOUD_PROVIDER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("words", COMMANDS)
def test_no_kubeconfig(words: list[str]) -> None:
    ran = run(*words)

    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "error: no cluster is configured: set KUBECONFIG" in ran.err
    assert ran.err.endswith("; or name files with the manifests of one\n")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_kubeconfig_that_is_not_there(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "gone")

    ran = run(*words)

    assert (2, "", ["error: there is no kubeconfig at gone; create it, or set KUBECONFIG"]) == (
        ran.code,
        ran.out,
        ran.errors,
    )


def test_a_context_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text("apiVersion: v1\nkind: Config\ncontexts: []\n", "utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    ran = run("plan", "--context", "production")

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert "there is no context 'production'" in ran.err


def test_a_provider_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").write_text(
        "apiVersion: v1\n"
        "kind: Config\n"
        "current-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {}}]\n",
        "utf-8",
    )
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    ran = run("plan", "--provider", "kwk")

    assert (2, "", 1) == (ran.code, ran.out, len(ran.errors))
    assert "no provider is called kwk" in ran.err
    assert "did you mean kwok?" in ran.err
