"""Programs that run in the background while tests run, and that end with them."""

import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

_STOP_SECONDS: Final = 10
_LOG_LINES: Final = 30
_POLL_SECONDS: Final = 0.1


class StartError(Exception):
    """A program did not come up."""


class Process:
    """A running program whose output goes to a file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._command = [str(part) for part in command]
        self._folder = folder
        self._environment = environment
        self._log = folder / f"{name}.log"
        self._log.write_bytes(b"")
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_until(self, is_ready: Callable[[], bool], *, seconds: float) -> None:
        """Wait for the program to come up.

        Raises:
            StartError: it ended, or it is not ready after ``seconds``.
        """
        deadline = time.monotonic() + seconds
        while not is_ready():
            if self._process.poll() is not None:
                raise StartError(f"{self.name} ended ({self._process.returncode})\n{self._tail()}")
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} is not ready after {seconds} s\n{self._tail()}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Terminate the program; kill it if it does not end in time."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Kill the program."""
        self._process.kill()
        self._process.wait()

    def start_again(self) -> None:
        """Start the program that has ended once more, as it was."""
        self._process = self._started()

    def _tail(self) -> str:
        return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:])


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that are free at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
