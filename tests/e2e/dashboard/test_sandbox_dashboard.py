"""The dashboard of a running sandbox: its plans and reasons are those that the commands print."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from helpers.commands import run
from helpers.kubectl import needs_kubectl, run_kubectl

pytestmark = [pytest.mark.slow, needs_kubectl]
PATIENCE = 600  # seconds until something that has to come has come
_AGAIN = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS)
_OWN = ("asOf", "took", "isPartial")


class Running:
    """A sandbox with a pool, a Deployment and its dashboard."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        command = [sys.executable, "-m", "karpenter", "sandbox", "--example"]
        self.process = subprocess.Popen(
            [*command, "--kubeconfig", str(self.kubeconfig)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
        )
        assert self.process.stdout is not None
        greeting = [self.process.stdout.readline() for _ in range(4)]
        self.address, _, self._token = greeting[2].split()[-1].partition("#token=")

    def asked(self, path: str, **body: Any) -> Any:
        """What the dashboard answers, once it can: a plan may take too long on a busy machine."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._asked(path, body)
            except HTTPError as error:
                if error.code not in _AGAIN or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _asked(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Karpenter-Token": self._token, "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self.address}api/v1/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def printed(self, *command: str) -> Any:
        """What a command prints about the same cluster; None if it finds nothing to tell."""
        ran = run(*command, "--kubeconfig", str(self.kubeconfig), "-o", "json")
        return json.loads(ran.out) if ran.code == 0 else None

    def kubectl(self, *arguments: str) -> None:
        """Change the cluster."""
        done = run_kubectl(arguments, self.kubeconfig, seconds=PATIENCE)
        assert 0 == done.returncode, done.stderr

    def stop(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("sandbox"))
    try:
        running.kubectl("scale", "deployment", "inflate", "--replicas=5")
        running.kubectl("rollout", "status", "deployment/inflate", f"--timeout={PATIENCE}s")
        yield running
    finally:
        running.stop()


def first(table: str) -> Callable[[Running], str]:
    """Name the first node or pod there is."""
    return lambda sandbox: str(sandbox.asked("view")[table]["name"][0])


@pytest.mark.case("DASH-10")
@pytest.mark.parametrize(
    ("path", "command", "name"),
    [
        ("plan", ("plan",), None),
        ("explain/node/", ("explain", "node"), first("nodes")),
        ("explain/pod/default/", ("explain", "pod"), first("pods")),
        ("explain/nodepool/", ("explain", "nodepool"), lambda sandbox: "default"),
    ],
    ids=["plan", "node", "pod", "nodepool"],
)
def test_what_the_dashboard_says_is_what_a_command_prints(
    sandbox: Running,
    path: str,
    command: tuple[str, ...],
    name: Callable[[Running], str] | None,
) -> None:
    deadline = time.monotonic() + PATIENCE
    said = printed = None
    while time.monotonic() < deadline:  # what moves in the cluster comes to rest
        named = (name(sandbox),) if name is not None else ()
        try:
            answer = sandbox.asked(path + "".join(named))
        except HTTPError:  # it has gone meanwhile
            time.sleep(0.5)
            continue
        said = {key: value for key, value in answer.items() if key not in _OWN}
        printed = sandbox.printed(*command, *named)
        if said == printed:
            return

    assert printed == said


@pytest.mark.case("DASH-15")
def test_a_what_if_changes_nothing(sandbox: Running) -> None:
    node = first("nodes")(sandbox)

    answer = sandbox.asked("what-if", drain=[node])

    assert node in answer["diff"]["nodesRemoved"]
    nodes = run_kubectl(["get", "nodes", "-o", "json"], sandbox.kubeconfig, seconds=PATIENCE)
    (found,) = (
        each for each in json.loads(nodes.stdout)["items"] if each["metadata"]["name"] == node
    )
    assert "unschedulable" not in found["spec"]
    assert not found["spec"].get("taints")


def test_the_process_that_plans_ends_with_the_sandbox(tmp_path: Path) -> None:
    running = Running(tmp_path)
    try:
        running.asked("about")
        deadline = time.monotonic() + PATIENCE
        while not running.asked("about")["settings"] and time.monotonic() < deadline:
            time.sleep(0.2)
        running.asked("explain/nodepool/default")
        children = _children(running.process.pid)
    finally:
        running.stop()

    assert children
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found
