"""Karpenter's own programs, built from its published Go module (``peer/go.mod`` says which version).

What is built is kept in the user's cache, outside the source tree, and built anew when the module
changes.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.measuring import ROOT

sys.path.insert(0, str(ROOT / "tests"))  # processes and waiting are helpers of the tests
from helpers.real_cluster import Controller

HERE: Final = Path(__file__).parent / "peer"
MODULE: Final = "sigs.k8s.io/karpenter"


@dataclass(frozen=True, slots=True)
class Program:
    """A program of Karpenter's module and how Go builds it."""

    name: str
    package: str
    build: tuple[str, ...]


BENCHMARK: Final = Program(
    "scheduling.test",
    f"{MODULE}/pkg/controllers/provisioning/scheduling",
    ("test", "-c", "-tags", "test_performance"),
)
CONTROLLER: Final = Program("karpenter-kwok", f"{MODULE}/kwok", ("build",))


def obstacle() -> str:
    """Why nothing of Karpenter's can be built here; empty when it can."""
    return "" if shutil.which("go") else "Go is not installed; put go 1.26 on the PATH"


def is_built(program: Program) -> bool:
    """Whether a program of Karpenter's is there, from the module of today."""
    target, built_from = _places(program)
    return target.is_file() and built_from.is_file() and built_from.read_bytes() == _module()


def built(program: Program) -> Path:
    """A program of Karpenter's; the first time takes minutes."""
    target, built_from = _places(program)
    if is_built(program):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", *program.build, "-o", str(target), program.package]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=HERE)
    if done.returncode:
        raise SystemExit(f"{program.name} of Karpenter could not be built:\n{done.stderr.strip()}")
    built_from.write_bytes(_module())
    return target


def _places(program: Program) -> tuple[Path, Path]:
    """Where a program is kept, and what it was built from."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "karpenter-peer"
    return cache / program.name, cache / f"{program.name}.built-from"


def _module() -> bytes:
    return (HERE / "go.mod").read_bytes() + (HERE / "go.sum").read_bytes()


class PeerController(Controller):
    """Karpenter's own controller with its simulated provider."""

    def __init__(self, kubeconfig: Path, log: Path, environment: Mapping[str, str]) -> None:
        own = {"SYSTEM_NAMESPACE": "kube-system", **environment}
        super().__init__(kubeconfig, log, own, command=[str(built(CONTROLLER))])

    def lines(self, message: str = "") -> list[dict[str, Any]]:
        """The lines of its log that are objects; libraries of its own write others between them."""
        texts = self.text.split("\n")[:-1]
        found = [json.loads(text) for text in texts if text.startswith("{")]
        return [line for line in found if message in ("", line["message"])]


if __name__ == "__main__":
    print(f"{CONTROLLER.name}: {built(CONTROLLER)}")
