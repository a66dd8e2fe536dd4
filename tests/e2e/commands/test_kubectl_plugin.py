"""``kubectl karpenter``: the program as a plugin, and what is offered when Tab is pressed."""

import json
import os
import socket
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.sandbox.test_sandbox_cli import KUBECTL, PATIENCE, Sandbox, needs_kubectl
from helpers import pages

SCRIPTS: Final = Path(sysconfig.get_path("scripts"))
SHOWN: Final = [each for each in pages.commands() if str(each).startswith("docs/kubectl.md")]
DEPLOYMENT: Final = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
        },
    },
}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    running = Sandbox(tmp_path_factory.mktemp("plugin"), "--nodes", "1", "--example")
    try:
        running.kubectl("create", "namespace", "shop")
        running.kubectl("apply", "-f", "-", given=json.dumps(DEPLOYMENT))
        running.kubectl("rollout", "status", "deployment/web", "-n", "shop")
        yield running
    finally:
        running.stop()


def call(kubeconfig: Path | str, *words: str, **variables: str) -> Any:
    path = os.pathsep.join([str(SCRIPTS), os.environ["PATH"]])
    return subprocess.run(
        words,
        env={**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig), **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def offered(kubeconfig: Path | str, *words: str, seconds: float = PATIENCE) -> list[str]:
    """What is offered for the last of the words, and whether files may be meant."""
    limit = {"KARPENTER_COMPLETION_SECONDS": str(seconds)}
    done = call(kubeconfig, "kubectl_complete-karpenter", *words, **limit)
    assert (0, "") == (done.returncode, done.stderr)
    return list(done.stdout.splitlines())


@needs_kubectl
@pytest.mark.case("OPS-43")
class TestPlugin:
    def test_it_plans_as_the_program_does(self, sandbox: Sandbox) -> None:
        assert KUBECTL is not None
        as_plugin = call(sandbox.kubeconfig, KUBECTL, "karpenter", "plan", "-o", "json")
        by_itself = call(sandbox.kubeconfig, "karpenter", "plan", "-o", "json")

        assert (0, 0) == (as_plugin.returncode, by_itself.returncode)
        assert json.loads(by_itself.stdout).keys() == json.loads(as_plugin.stdout).keys()

    @pytest.mark.parametrize("command", [str(each) for each in SHOWN])
    def test_commands_of_the_page_run(self, sandbox: Sandbox, command: str) -> None:
        assert 0 == call(sandbox.kubeconfig, *command.partition(": ")[2].split()).returncode

    def test_help_names_what_was_typed(self, sandbox: Sandbox) -> None:
        assert KUBECTL is not None
        page = call(sandbox.kubeconfig, KUBECTL, "karpenter", "plan", "--help").stdout

        assert "Usage: kubectl karpenter plan" in page
        assert "kubectl karpenter plan --only disruption" in page
        assert "Usage: karpenter plan" in call("none", "karpenter", "plan", "--help").stdout

    def test_a_plugin_installs_no_completion_of_kubectl(self) -> None:
        assert "completion" not in call("none", "kubectl-karpenter", "--help").stdout
        assert "--show-completion" in call("none", "karpenter", "--help").stdout

    def test_kubectl_offers_names(self, sandbox: Sandbox) -> None:
        assert KUBECTL is not None
        words = ("__complete", "karpenter", "explain", "node", "")
        limit = {"KARPENTER_COMPLETION_SECONDS": str(PATIENCE)}
        done = call(sandbox.kubeconfig, KUBECTL, *words, **limit)

        assert ["node-1", ":4"] == done.stdout.splitlines()

    def test_the_kubeconfig_can_be_named(self, sandbox: Sandbox) -> None:
        words = ("explain", "nodepool", "default", "--kubeconfig", str(sandbox.kubeconfig))

        assert 0 == call("/no/such/file", "kubectl-karpenter", *words).returncode
        assert 2 == call("/no/such/file", "kubectl-karpenter", *words[:3]).returncode

    def test_the_namespace_of_the_context_is_the_usual_one(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        (pod,) = sandbox.kubectl("get", "pods", "-n", "shop", "-o", "name").split()
        in_shop = tmp_path / "kubeconfig"
        config = yaml.safe_load(sandbox.kubeconfig.read_text())
        config["contexts"][0]["context"]["namespace"] = "shop"
        in_shop.write_text(yaml.safe_dump(config))

        assert f"shop/{pod.removeprefix('pod/')}" in offered(
            sandbox.kubeconfig, "explain", "pod", ""
        )
        assert pod.removeprefix("pod/") in offered(in_shop, "explain", "pod", "w")


@needs_kubectl
@pytest.mark.parametrize(
    ("words", "names"),
    [
        pytest.param(("ex",), ["explain", ":4"], id="commands"),
        pytest.param(("explain", "nodep"), ["nodepool", ":4"], id="kinds"),
        pytest.param(("explain", "nodepool", ""), ["default", ":4"], id="pools"),
        pytest.param(("explain", "node", "no"), ["node-1", ":4"], id="nodes"),
        pytest.param(("explain", "deployment", "-n", "shop", ""), ["web", ":4"], id="namespaced"),
        pytest.param(("explain", "deployment", "shop/"), ["shop/web", ":4"], id="with namespace"),
        pytest.param(("explain", "pod", "-n", "sh"), ["shop", ":4"], id="namespaces"),
        pytest.param(("plan", "--context", ""), ["karpenter-sandbox", ":4"], id="contexts"),
        pytest.param(("plan", ""), [":0"], id="files"),
    ],
)
def test_names_of_the_cluster_are_offered(
    sandbox: Sandbox, words: tuple[str, ...], names: list[str]
) -> None:
    assert names == offered(sandbox.kubeconfig, *words)


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("BATCH_", ["BATCH_IDLE_DURATION=", "BATCH_MAX_DURATION="]),
        ("FEATURE_GATES=NodeO", ["FEATURE_GATES=NodeOverlay="]),
        (
            "FEATURE_GATES=NodeRepair=true,NodeO",
            ["FEATURE_GATES=NodeRepair=true,NodeOverlay="],
        ),
    ],
)
def test_settings_and_gates_are_offered(typed: str, names: list[str]) -> None:
    assert [*names, ":4"] == offered("none", "plan", "--set", typed)


def test_a_shell_is_offered_the_same() -> None:
    """Bash, zsh and the others ask the program itself."""
    environment = {
        "_KARPENTER_COMPLETE": "complete_bash",
        "COMP_WORDS": "karpenter plan --set BATCH_I",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        [str(SCRIPTS / "karpenter")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert ("BATCH_IDLE_DURATION=\n", "") == (done.stdout, done.stderr)


def kubeconfig_for(server: str, folder: Path) -> Path:
    file = folder / "kubeconfig"
    named = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    file.write_text(yaml.safe_dump(named))
    return file


@pytest.mark.case("OPS-43")
@pytest.mark.parametrize("words", [("explain", "pod", ""), ("explain", "pod", "-n", "")])
class TestNothingIsOffered:
    def test_by_a_cluster_that_never_answers(self, tmp_path: Path, words: tuple[str, ...]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            server = f"http://127.0.0.1:{silent.getsockname()[1]}"

            assert [":0"] == offered(kubeconfig_for(server, tmp_path), *words, seconds=0.1)

    def test_by_a_cluster_that_is_gone(self, tmp_path: Path, words: tuple[str, ...]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            server = f"http://127.0.0.1:{gone.getsockname()[1]}"

        assert [":0"] == offered(kubeconfig_for(server, tmp_path), *words)

    def test_without_a_kubeconfig(self, tmp_path: Path, words: tuple[str, ...]) -> None:
        assert [":0"] == offered(tmp_path / "missing", *words)

    def test_with_a_broken_one(self, tmp_path: Path, words: tuple[str, ...]) -> None:
        file = tmp_path / "kubeconfig"
        file.write_text("clusters: [")

        assert [":0"] == offered(file, *words)
