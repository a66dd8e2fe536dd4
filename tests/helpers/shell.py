"""A shell in a folder of its own, which runs the commands of pages unaltered."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from control_plane.processes import Process
from helpers import pages

PATIENCE: Final = 120.0  # for one command, or what it leads to; whatever needs it has failed
_POLL_SECONDS: Final = 0.5


class Shell:
    """A folder with charts and examples in it, and a shell that finds the program, and others if given."""

    def __init__(self, folder: Path, *programs: Path) -> None:
        self.folder = folder
        for name in ("charts", "examples"):
            (folder / name).symlink_to(pages.ROOT / name)
        program = folder / "bin" / "karpenter"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m karpenter "$@"\n')
        program.chmod(0o755)
        for other in programs:
            (program.parent / other.name).symlink_to(other)
        self.environment = {
            **os.environ,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": str(folder / "karpenter.kubeconfig"),
            "KUBECACHEDIR": str(folder / "cache"),
        }

    def type(self, command: str) -> str:
        """Run a command that must succeed, and return what it prints."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert 0 == done.returncode, f"{command}: {done.stderr}"
        return done.stdout

    def follow(self, shown: pages.Shown, **placeholders: str) -> str:
        """Do what a page says, with names of your own; it prints what the page shows."""
        command = shown.command
        for name, value in placeholders.items():
            command = command.replace(name, value)
        printed = self.type(command)
        assert not shown.output or pages.is_as_shown(shown.output, printed), printed
        return printed

    @contextmanager
    def background(self, name: str, shown: pages.Shown) -> Iterator[Process]:
        """Run a command of a page in another terminal."""
        command = ["/bin/sh", "-c", f"exec env {shown.command}"]
        process = Process(name, command, self.folder, environment=self.environment)
        try:
            yield process
        finally:
            process.stop()

    def nodes(self) -> list[str]:
        """The nodes that are ready and stay."""
        found = json.loads(self.type("kubectl get nodes -o json"))["items"]
        return [
            node["metadata"]["name"]
            for node in found
            if "deletionTimestamp" not in node["metadata"]
            for condition in node["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]


def wait_for(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"no {what} after {PATIENCE} s"
        time.sleep(_POLL_SECONDS)
