"""Karpenter's own decisions: the peer, built from its published module, and how to ask it.

The sources and versions stand in ``peer/``. The program is kept in the user's cache, outside the
source tree, and built anew when any of them changes; a first build takes some minutes.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from parity import pins
from parity.problems import Json, Problem

HERE: Final = Path(__file__).parent / "peer"
MODULE: Final = "sigs.k8s.io/karpenter"


class PeerError(Exception):
    """The peer could not be built, or could not answer."""


def obstacle() -> str:
    """Why the peer cannot be built here; empty when it can."""
    return "" if shutil.which("go") else "Go is not installed; put go 1.26 on the PATH"


def built() -> Path:
    """The peer; it appears in the cache complete or not at all.

    Raises:
        PeerError: it could not be built.
    """
    sources = [*sorted(HERE.glob("go.*")), *sorted(HERE.glob("*.go")), Path(pins.__file__)]
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "karpenter-parity"
    target = cache / f"peer-{digest.hexdigest()[:16]}"
    if not target.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _build(Path(folder)).replace(target)
    return target


def _build(folder: Path) -> Path:
    _go("mod", "download", MODULE)
    module = Path(_go("list", "-m", "-f", "{{.Dir}}", MODULE).strip())
    copied = folder / "karpenter"
    shutil.copytree(module / "pkg", copied / "pkg", copy_function=shutil.copyfile)
    shutil.copyfile(module / "go.mod", copied / "go.mod")
    try:
        pins.apply(copied)
    except LookupError as error:
        raise PeerError(str(error)) from error
    # The same requirements, with the copy in place of the module
    required = (HERE / "go.mod").read_text("utf-8")
    (folder / "go.mod").write_text(f"{required}\nreplace {MODULE} => {copied}\n", "utf-8")
    shutil.copyfile(HERE / "go.sum", folder / "go.sum")
    modfile = f"-modfile={folder / 'go.mod'}"
    _go("build", "-trimpath", modfile, "-o", str(folder / "peer"), ".")
    return folder / "peer"


def _go(*arguments: str) -> str:
    # The module may ask for a later patch release of Go than the one installed: let go fetch it
    environment = {**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "auto"}
    done = subprocess.run(
        ["go", *arguments], check=False, capture_output=True, text=True, cwd=HERE, env=environment
    )
    if done.returncode:
        raise PeerError(f"go {arguments[0]} failed for Karpenter's code:\n{done.stderr.strip()}")
    return done.stdout


class Peer:
    """A running peer."""

    def __init__(self) -> None:
        """Start one; it is built first where it has to be."""
        self._process = subprocess.Popen(
            [built()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> "Peer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def answers(self, problem: Problem, runs: int = 1, *, loose: bool = False) -> list[Json]:
        """What Karpenter decides in so many runs, without repetitions.

        Unless it is ``loose``, the first by name is taken of spread domains with as many pods.
        """
        question = {"problem": problem.wire(), "runs": runs, "loose": loose}
        found: list[Json] = self._ask(question)["answers"]
        return found

    def hashes(self, pools: Iterable[Json]) -> tuple[str, list[str]]:
        """The version of Karpenter's NodePool hash, and the hash of each pool."""
        found = self._ask({"pools": list(pools)})
        return found["version"], found["hashes"]

    def _ask(self, question: Json) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question, separators=(",", ":")), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise PeerError("the peer ended before it answered")
        found = json.loads(line)
        if found.get("error"):
            raise PeerError(found["error"])
        return found
