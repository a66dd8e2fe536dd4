"""The scale walk with plain kubectl: 1, 5, 20 and 10 replicas, two expiries, 5 replicas, none.

Starts a sandbox with the cluster of this folder, in which a minute passes in two seconds, does what
a person would do, and prints after each step what there is beside what was expected:

    python examples/scale-walk/walk.py [--provider aws]

On AWS, which is simulated, the types are whichever are cheapest there, so only their number is
compared. Needs kubectl. Exits with 1 when anything is not as expected.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
SPEED: Final = 30
TYPE: Final = "node.kubernetes.io/instance-type"
# Timeout of a step by the cluster's clock, which stops while a busy machine is behind
PATIENCE: Final = timedelta(minutes=60)
# The age difference of the first two nodes, which leaves time for a step between their expiries
APART: Final = timedelta(minutes=10)
# The account that the pool's selectors match on AWS; the walk's instance types on kwok
OPTIONS: Final = {
    "kwok": ("--instance-types", str(HERE / "instance-types.json")),
    "aws": ("--cluster-name", "mz-karpenter", "--region", "ap-northeast-1"),
}
START_SECONDS: Final = 120.0  # of real time


@dataclass(frozen=True)
class Step:
    """What is done, and what it should lead to."""

    does: str
    replicas: int | None  # None: wait for an expiry
    nodes: tuple[str, ...]  # types, sorted
    pods: tuple[int, ...]  # on each node that has any, fewest first
    pause: timedelta = timedelta()  # to wait before the step


STEPS: Final = (
    Step("1 replica just fits", 1, ("m5.large",), (1,)),
    Step("5 replicas", 5, ("c4.xlarge", "m5.large"), (1, 4)),
    Step("20 replicas", 20, ("c4.xlarge", "m5.large", "t3a.2xlarge"), (1, 7, 12), APART),
    Step("10 replicas", 10, ("c4.xlarge", "m5.large", "t3a.2xlarge"), (1, 2, 7)),
    Step("the first node expires", None, ("m5.large", "t3a.2xlarge"), (1, 9)),
    Step("5 replicas", 5, ("m5.large", "t3a.2xlarge"), (1, 4)),
    Step("the second node expires", None, ("c4.xlarge", "m5.large"), (1, 4)),
    Step("no replicas", 0, ("m5.large",), ()),
)


class Kubectl:
    """kubectl, on the cluster of a kubeconfig."""

    def __init__(self, program: str, kubeconfig: Path) -> None:
        self._start = [program, "--kubeconfig", str(kubeconfig)]

    def run(self, *arguments: str) -> str:
        """Run a command and return what it prints."""
        done = subprocess.run(  # noqa: S603 the program is the user's own kubectl
            [*self._start, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout

    def time(self) -> datetime:
        """The time of the cluster: the creation time of a dry-run object."""
        made = ("create", "configmap", "walk", "--dry-run=server")
        return datetime.fromisoformat(
            self.run(*made, "-o", "jsonpath={.metadata.creationTimestamp}")
        )

    def objects(self, *what: str) -> list[dict[str, Any]]:
        """Objects, as kubectl gets them."""
        items: list[dict[str, Any]] = json.loads(self.run("get", *what, "-o", "json"))["items"]
        return items


def main() -> int:
    """Walk, and say whether all went as expected."""
    program = shutil.which("kubectl")
    if program is None:
        print("error: kubectl is not installed; the walk is made with it", file=sys.stderr)
        return 1
    parser = argparse.ArgumentParser(description="The scale walk, on a sandbox.")
    parser.add_argument("--provider", choices=["kwok", "aws"], default="kwok")
    provider: str = parser.parse_args().provider
    with tempfile.TemporaryDirectory() as folder, _sandbox(Path(folder), provider) as kubeconfig:
        kubectl = Kubectl(program, kubeconfig)
        # A pod created before the fixed machine is ready would get another machine
        if not _awaited(kubectl, lambda: _has_settled(kubectl), "the fixed machine"):
            sys.exit("error: the fixed machine of cluster.yaml does not become ready")
        kubectl.run("apply", "-f", str(HERE / "provisioner.yaml"), "-f", str(HERE / "app.yaml"))
        print(f"{'step':24} {'nodes':36} {'pods on each':14} as expected")
        verdicts = [_walk(kubectl, step, provider) for step in STEPS]
        return int(not all(verdicts))


@dataclass(frozen=True)
class Seen:
    """What there is at one moment."""

    names: tuple[str, ...]  # of the nodes, the oldest first
    types: tuple[str, ...]  # of the nodes, sorted
    pods: tuple[int, ...]  # of the app, running, on each node that has any, fewest first


def _walk(kubectl: Kubectl, step: Step, provider: str) -> bool:
    began = kubectl.time()
    _awaited(kubectl, lambda: kubectl.time() - began >= step.pause, "a pause")
    seen = [_look(kubectl)]
    # The oldest node is there for good; the next is the one that expires
    expiring = seen[0].names[1:2] if step.replicas is None else ()
    if step.replicas is not None:
        kubectl.run("scale", "deployment", "app", f"--replicas={step.replicas}")

    def is_as_expected() -> bool:
        now = _look(kubectl)
        seen.append(now)
        is_gone = not set(expiring) & set(now.names)
        types = now.types if provider == "kwok" else step.nodes[: len(now.types)]
        has_nodes = types == step.nodes and len(now.types) == len(step.nodes)
        return is_gone and has_nodes and now.pods == step.pods

    is_right = _awaited(kubectl, is_as_expected, step.does)
    now = seen[-1]
    verdict = "yes" if is_right else f"no: {', '.join(step.nodes)} with {step.pods}"
    pods = "/".join(map(str, now.pods)) or "-"
    print(f"{step.does:24} {', '.join(now.types):36} {pods:14} {verdict}", flush=True)
    return is_right


def _look(kubectl: Kubectl) -> Seen:
    nodes = kubectl.objects("nodes")
    nodes.sort(key=lambda node: str(node["metadata"]["creationTimestamp"]))
    running = Counter(
        pod["spec"].get("nodeName")
        for pod in kubectl.objects("pods", "-l", "app=app")
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    )
    return Seen(
        names=tuple(node["metadata"]["name"] for node in nodes),
        types=tuple(sorted(node["metadata"]["labels"][TYPE] for node in nodes)),
        pods=tuple(sorted(running.values())),
    )


def _has_settled(kubectl: Kubectl) -> bool:
    """Whether the machines are ready and everything there is runs."""
    nodes, pods = kubectl.objects("nodes"), kubectl.objects("pods", "--all-namespaces")
    return (
        all("taints" not in node["spec"] and _is_ready(node) for node in nodes)
        and bool(nodes)
        and all(pod["status"].get("phase") == "Running" for pod in pods)
    )


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _awaited(kubectl: Kubectl, condition: Callable[[], bool], what: str) -> bool:
    """Wait until a condition holds or patience ends, and say whether it holds."""
    began = now = kubectl.time()
    while not (holds := condition()) and now - began < PATIENCE:
        _show(f"{what}: {(now - began).total_seconds() / 60:.0f} minutes of the cluster …")
        time.sleep(0.2)
        now = kubectl.time()
    _show("")
    return holds


def _show(text: str) -> None:
    """Show what is waited for, in a line that the next one overwrites."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


@contextmanager
def _sandbox(folder: Path, provider: str) -> Iterator[Path]:
    """A cluster with one fixed machine, until the block ends."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "karpenter", "sandbox", "--kubeconfig", str(kubeconfig)]
    command += ["--speed", str(SPEED), "--load", str(HERE / "cluster.yaml")]
    command += ["--provider", provider, *OPTIONS[provider]]
    # The pool is written for the first releases, whose defaults do not limit instance families
    environment = {**os.environ, "LEGACY_DEFAULTS": "early"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)  # noqa: S603 our own program
    try:
        deadline = time.monotonic() + START_SECONDS
        while not kubeconfig.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"error: the sandbox does not start: {(folder / 'log').read_text()}")
            time.sleep(0.05)
        yield kubeconfig
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
