"""The scale walk with plain kubectl: 1, 5, 20 and 10 replicas, two expiries, 5 replicas, none.

Starts a sandbox with the cluster of this folder, in which a minute passes in a second, does what a
person would do, and prints after each step what there is beside what was expected:

    python examples/scale-walk/walk.py

Needs kubectl. Exits with 1 when anything is not as expected.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
SPEED: Final = 60
TYPE: Final = "node.kubernetes.io/instance-type"
# A step may take so many seconds of real time; half an hour of the cluster is thirty of them
PATIENCE: Final = 90.0


@dataclass(frozen=True)
class Step:
    """What is done, and what it should lead to."""

    does: str
    replicas: int | None  # None: wait for an expiry
    nodes: tuple[str, ...]  # types, sorted
    pods: tuple[int, ...]  # on each node that has any, fewest first


STEPS: Final = (
    Step("1 replica just fits", 1, ("m5.large",), (1,)),
    Step("5 replicas", 5, ("c4.xlarge", "m5.large"), (1, 4)),
    Step("20 replicas", 20, ("c4.xlarge", "m5.large", "t3a.2xlarge"), (1, 7, 12)),
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
    with tempfile.TemporaryDirectory() as folder, _sandbox(Path(folder)) as kubeconfig:
        kubectl = Kubectl(program, kubeconfig)
        kubectl.run("apply", "-f", str(HERE / "provisioner.yaml"), "-f", str(HERE / "app.yaml"))
        print(f"{'step':24} {'nodes':36} {'pods on each':14} as expected")
        verdicts = [_walk(kubectl, step) for step in STEPS]
        return int(not all(verdicts))


def _walk(kubectl: Kubectl, step: Step) -> bool:
    if step.replicas is not None:
        kubectl.run("scale", "deployment", "app", f"--replicas={step.replicas}")
    expected = (step.nodes, step.pods)
    found = _awaited(lambda: _look(kubectl), expected)
    nodes, pods = found
    verdict = "yes" if found == expected else f"no: {', '.join(step.nodes)} with {step.pods}"
    print(f"{step.does:24} {', '.join(nodes):36} {'/'.join(map(str, pods)) or '-':14} {verdict}")
    return found == expected


def _look(kubectl: Kubectl) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The types of the nodes, and how many pods of the app run on each node that has any."""
    types = sorted(node["metadata"]["labels"][TYPE] for node in kubectl.objects("nodes"))
    running = Counter(
        pod["spec"].get("nodeName")
        for pod in kubectl.objects("pods", "-l", "app=app")
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    )
    return tuple(types), tuple(sorted(running.values()))


def _awaited(
    look: Callable[[], tuple[tuple[str, ...], tuple[int, ...]]],
    expected: tuple[tuple[str, ...], tuple[int, ...]],
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Look until it is as expected, or patience ends."""
    deadline = time.monotonic() + PATIENCE
    found = look()
    while found != expected and time.monotonic() < deadline:
        time.sleep(0.2)
        found = look()
    return found


@contextmanager
def _sandbox(folder: Path) -> Iterator[Path]:
    """A cluster with one fixed machine, until the block ends."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "karpenter", "sandbox", "--kubeconfig", str(kubeconfig)]
    command += ["--speed", str(SPEED), "--load", str(HERE / "cluster.yaml")]
    command += ["--instance-types", str(HERE / "instance-types.json")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 our own program
    try:
        deadline = time.monotonic() + PATIENCE
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
