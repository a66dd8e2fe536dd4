"""``karpenter sandbox`` as people use it: start the command, talk to it with kubectl, stop it."""

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from typer.testing import CliRunner

from helpers.kubectl import run_kubectl
from karpenter.cli.app import app

KUBECTL = shutil.which("kubectl")
PATIENCE = 60  # for one command; a command that needs it has failed

needs_kubectl = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not installed: the sandbox is NOT tried end to end"
)


class Sandbox:
    """A running ``karpenter sandbox``."""

    def __init__(self, folder: Path, *options: str, limits: str = ":") -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.rest = ""  # its output after the greeting, once it is stopped
        command = [sys.executable, "-m", "karpenter", "sandbox", *options]
        self.process = subprocess.Popen(
            [*limited(limits), *command, "--kubeconfig", str(self.kubeconfig)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
        )
        assert self.process.stdout is not None
        # The fourth line is the last thing it says before it is ready
        self.greeting = [self.process.stdout.readline() for _ in range(4)]

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        url = urlsplit(config["clusters"][0]["cluster"]["server"])
        assert url.hostname is not None
        assert url.port is not None
        return url.hostname, url.port

    def kubectl(self, *arguments: str, check: bool = True, given: str | None = None) -> str:
        """Run kubectl and return what it prints."""
        done = run_kubectl(arguments, self.kubeconfig, stdin=given, seconds=PATIENCE)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout if check else done.stdout + done.stderr

    def json(self, *arguments: str) -> Any:
        """What kubectl prints as JSON."""
        return json.loads(self.kubectl(*arguments, "-o", "json"))

    def stop(self) -> int:
        """Press Ctrl-C and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        self.rest, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


def limited(limits: str) -> list[str]:
    """The beginning of a command that has less of something, in the words of a shell."""
    return ["/bin/sh", "-c", f'{limits} && exec "$@"', "sh"]


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    running = Sandbox(tmp_path_factory.mktemp("sandbox"), "--nodes", "3")
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def runner() -> CliRunner:
    return CliRunner()


@needs_kubectl
def test_it_says_how_to_use_it_and_the_kubeconfig_is_private(sandbox: Sandbox) -> None:
    first, second, third, fourth = sandbox.greeting

    assert first.startswith("The cluster is up: Kubernetes v1.")
    assert f"export KUBECONFIG={sandbox.kubeconfig}" in second
    assert third.startswith("Watch it in a browser: http://127.0.0.1:")
    assert "Ctrl-C" in fourth
    assert 0o600 == sandbox.kubeconfig.stat().st_mode & 0o777


@needs_kubectl
def test_a_deployment_runs_scales_and_rolls_out(sandbox: Sandbox) -> None:
    sandbox.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    sandbox.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    sandbox.kubectl("scale", "deployment/web", "--replicas=5")
    sandbox.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    sandbox.kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    status = sandbox.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    wide = sandbox.kubectl("get", "pods", "-l", "app=web", "-o", "wide")
    sandbox.kubectl("rollout", "undo", "deployment/web")
    sandbox.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    history = sandbox.kubectl("rollout", "history", "deployment/web")
    described = sandbox.kubectl("describe", "deployment/web")
    sandbox.kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=30s")

    left = sandbox.json("get", "pods,replicasets", "-l", "app=web")

    assert 'deployment "web" successfully rolled out' in status
    lines = wide.splitlines()
    assert ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"] == lines[0].split()[:7]
    assert {"1/1"} == {line.split()[1] for line in lines[1:]}
    assert {"node-1", "node-2", "node-3"} == {line.split()[6] for line in lines[1:]}
    assert ["2", "3"] == [line.split()[0] for line in history.splitlines()[2:] if line]
    assert "ScalingReplicaSet" in described
    assert [] == left["items"]


@pytest.mark.storm
@needs_kubectl
def test_draining_a_node_respects_a_budget(sandbox: Sandbox) -> None:
    sandbox.kubectl("create", "deployment", "calm", "--image=nginx", "--replicas=6")
    sandbox.kubectl("create", "pdb", "calm", "--selector=app=calm", "--min-available=5")
    sandbox.kubectl("rollout", "status", "deployment/calm", "--timeout=30s")
    outcome = sandbox.kubectl("drain", "node-1", "--timeout=60s", check=False)
    pods = sandbox.json("get", "pods", "-l", "app=calm")["items"]
    nodes = sandbox.kubectl("get", "nodes")
    sandbox.kubectl("uncordon", "node-1")
    sandbox.kubectl("delete", "deployment,pdb", "calm", "--timeout=30s")

    assert "node/node-1 drained" in outcome
    assert "node-1" not in {pod["spec"].get("nodeName") for pod in pods}
    assert "Ready,SchedulingDisabled" in nodes


@needs_kubectl
def test_a_namespace_goes_with_everything_in_it(sandbox: Sandbox) -> None:
    sandbox.kubectl("create", "namespace", "team")
    sandbox.kubectl("create", "deployment", "web", "--image=nginx", "-n", "team")
    sandbox.kubectl("create", "job", "work", "--image=busybox", "-n", "team")
    sandbox.kubectl("wait", "job/work", "-n", "team", "--for=condition=complete", "--timeout=30s")
    sandbox.kubectl("delete", "namespace", "team", "--timeout=60s")

    left = sandbox.kubectl("get", "namespace", "team", check=False)

    assert 'namespaces "team" not found' in left


@needs_kubectl
def test_the_kinds_of_karpenter_are_there_from_the_start(sandbox: Sandbox) -> None:
    kinds = sandbox.kubectl("api-resources", "--api-group=karpenter.sh", "-o", "name")

    assert {"nodepools.karpenter.sh", "nodeclaims.karpenter.sh"} <= set(kinds.split())


@pytest.mark.storm
@needs_kubectl
def test_a_cluster_in_a_file_survives_and_manifests_are_loaded(tmp_path: Path) -> None:
    manifest = tmp_path / "web.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: team}\n"
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
    )
    journal = str(tmp_path / "cluster.journal")
    first = Sandbox(tmp_path, "--data", journal, "--load", str(manifest), "--nodes", "1")
    try:
        loaded = first.kubectl("get", "configmap", "settings", "-n", "team", "-o", "name")
        first.kubectl("create", "configmap", "mine", "--from-literal=a=b")
    finally:
        code = first.stop()
    is_withdrawn = not first.kubeconfig.exists()
    second = Sandbox(tmp_path, "--data", journal, "--nodes", "1")
    try:
        kept = second.kubectl("get", "configmap", "mine", "-o", "jsonpath={.data.a}")
        nodes = second.kubectl("get", "nodes", "-o", "name").split()
    finally:
        second.stop()

    assert (0, True) == (code, is_withdrawn)
    assert ("configmap/settings\n", "b", ["node/node-1"]) == (loaded, kept, nodes)


@needs_kubectl
def test_an_example_that_was_kept_stays_as_it_was_left(tmp_path: Path) -> None:
    options = ("--example", "--no-controllers", "--data", str(tmp_path / "cluster.journal"))
    first = Sandbox(tmp_path, *options)
    try:
        first.kubectl("scale", "deployment", "inflate", "--replicas=3")
    finally:
        first.stop()
    second = Sandbox(tmp_path, *options)
    try:
        replicas = second.kubectl("get", "deploy", "inflate", "-o", "jsonpath={.spec.replicas}")
    finally:
        second.stop()

    assert "3" == replicas


def test_a_second_sandbox_in_the_same_folder_does_not_take_the_first_one_over(
    tmp_path: Path, runner: CliRunner
) -> None:
    first = Sandbox(tmp_path, "--no-controllers")
    try:
        before = first.kubeconfig.read_text()
        second = runner.invoke(app, ["sandbox", "--kubeconfig", str(first.kubeconfig)])
        after = first.kubeconfig.read_text()
    finally:
        code = first.stop()

    assert (2, "", before) == (second.exit_code, second.stdout, after)
    assert "leads to another sandbox, which still runs; stop that one" in second.stderr
    assert 1 == len(second.stderr.splitlines())
    assert (0, False) == (code, first.kubeconfig.exists())


@pytest.mark.storm
def test_more_clients_than_files_are_refused_without_many_words(tmp_path: Path) -> None:
    running = Sandbox(tmp_path, "--no-controllers", limits="ulimit -n 300")
    clients: list[socket.socket] = []
    try:
        address = running.address
        for _ in range(600):
            clients.append(socket.create_connection(address, timeout=PATIENCE))
            clients[-1].sendall(b"GET /readyz HTTP/1.1\r\nHost: sandbox\r\n\r\n")
        answers = [_first_line(client) for client in clients]
    finally:
        for client in clients:
            client.close()
        code = running.stop()

    assert 140 == answers.count(b"HTTP/1.1 200 OK")
    assert b"HTTP/1.1 429 Too Many Requests" in answers
    assert (0, 1) == (code, len(running.rest.splitlines()))
    assert "there are 140 connections; further ones are refused" in running.rest


def _first_line(client: socket.socket) -> bytes:
    try:
        return client.recv(1000).partition(b"\r\n")[0]
    except ConnectionError:  # refused before its request was read
        return b""


def test_a_full_disk_is_said_in_one_sentence(tmp_path: Path) -> None:
    # The file size limit is below the size of the initial objects
    command = [sys.executable, "-m", "karpenter", "sandbox", "--no-controllers"]

    ended = subprocess.run(
        [*limited("ulimit -f 64"), *command, "--data", "cluster.journal"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    expected = "error: cluster.journal: File too large; changes are refused until this is fixed"
    assert (1, "", [expected]) == (ended.returncode, ended.stdout, ended.stderr.splitlines())
    assert ["cluster.journal"] == [path.name for path in tmp_path.iterdir()]


def test_a_damaged_last_change_is_said(tmp_path: Path) -> None:
    journal = tmp_path / "cluster.journal"
    Sandbox(tmp_path, "--no-controllers", "--data", str(journal)).stop()
    data = bytearray(journal.read_bytes())
    data[-3] ^= 1
    journal.write_bytes(bytes(data))

    again = Sandbox(tmp_path, "--no-controllers", "--data", str(journal))
    again.stop()

    assert again.greeting[0].startswith(f"warning: {journal} is damaged at byte ")
    assert again.greeting[0].endswith(" is lost; restore a copy if it matters\n")


def test_a_port_that_is_taken_is_said_in_one_sentence(tmp_path: Path, runner: CliRunner) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = runner.invoke(
            app, ["sandbox", "--port", str(port), "--kubeconfig", str(tmp_path / "kubeconfig")]
        )

    assert 1 == outcome.exit_code
    assert f"error: port {port} of 127.0.0.1 is taken; choose another" in outcome.stderr
    assert 1 == len(outcome.stderr.splitlines())
    assert not (tmp_path / "kubeconfig").exists()


def test_an_address_of_another_machine_is_refused(tmp_path: Path, runner: CliRunner) -> None:
    outcome = runner.invoke(
        app, ["sandbox", "--address", "192.0.2.1", "--kubeconfig", str(tmp_path / "kubeconfig")]
    )

    assert 1 == outcome.exit_code
    assert "error: cannot listen on 192.0.2.1: " in outcome.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(["--speed", "0"], "--speed is a number above 0", id="time stands still"),
        pytest.param(["--load", "absent.yaml"], "no such file or folder", id="a file to load"),
        pytest.param(["--kubeconfig", "absent/kc"], "does not exist", id="a folder for the file"),
        pytest.param(["--kubeconfig", "other"], "is left alone", id="somebody else's kubeconfig"),
        pytest.param(["--data", "other"], "other", id="a data file that is none"),
        pytest.param(["--load", "bad.yaml"], "bad.yaml:1: Gadget/x", id="an unknown kind to load"),
    ],
)
def test_mistakes_are_said_in_one_sentence_and_nothing_is_left_behind(
    options: list[str],
    expected: str,
    tmp_path: Path,
    runner: CliRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other").write_text("apiVersion: v1\nkind: Config\ncurrent-context: production\n")
    Path("bad.yaml").write_text("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: x}\n")

    outcome = runner.invoke(app, ["sandbox", *options])

    assert 2 == outcome.exit_code
    assert expected in outcome.stderr
    assert "Traceback" not in outcome.output
    assert ["bad.yaml", "other"] == sorted(path.name for path in tmp_path.iterdir())
