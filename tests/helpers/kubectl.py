"""The real kubectl against a sandbox server in this process."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers.server import Cluster
from karpenter_sandbox.server.http import Server, new_token, serving, write_kubeconfig

PROGRAM = shutil.which("kubectl")

needs_kubectl = pytest.mark.skipif(
    PROGRAM is None, reason="NOT TESTED: there is no kubectl on the PATH; install it to run this"
)


def run_kubectl(
    arguments: Sequence[str],
    config: Path,
    *,
    stdin: str | None = None,
    seconds: float = 60,
    folder: Path | None = None,
    **environment: str,
) -> "subprocess.CompletedProcess[str]":
    """Run the command with a kubeconfig, whatever comes of it."""
    return subprocess.run(
        [PROGRAM or "kubectl", *arguments],
        input=stdin,
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(config), **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@dataclass(frozen=True, slots=True)
class Result:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.out.splitlines()]


class Kubectl:
    """Runs commands."""

    def __init__(self, folder: Path, config: Path) -> None:
        self.folder = folder
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "KUBECONFIG": str(config),
            "KUBECACHEDIR": str(folder / "cache"),
        }

    async def __call__(self, *words: str, stdin: str = "", **environment: str) -> Result:
        """Run a command, whatever comes of it."""
        assert PROGRAM is not None
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment | environment,
            cwd=self.folder,
        )
        try:
            async with asyncio.timeout(60):
                out, err = await process.communicate(stdin.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Result(process.returncode, out.decode(), err.decode())

    async def ok(self, *words: str, stdin: str = "", **environment: str) -> Result:
        """Run a command that must succeed."""
        result = await self(*words, stdin=stdin, **environment)
        assert 0 == result.code, result.err
        return result


@asynccontextmanager
async def running(cluster: Cluster, folder: Path) -> AsyncIterator[Kubectl]:
    """Serve a cluster and talk to it."""
    async with serving(Server(cluster.api, token=new_token())) as server:
        config = folder / "kubeconfig"
        write_kubeconfig(server, config)
        yield Kubectl(folder, config)
