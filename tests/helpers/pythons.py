"""The Pythons of this machine, and environments that hold nothing but what a test installs."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from releasing import wheels

_PATIENCE: Final = 300.0  # for one command; whatever needs it has failed

# A name on the path may be a shim, so the interpreter is asked for its real path
_ASKED: Final = "import sys, venv; print('%d.%d' % sys.version_info[:2], sys.executable)"


@cache
def find(version: str) -> Path | None:
    """An interpreter such as ``3.12``: on the path, or one that pyenv has installed."""
    on_path = shutil.which(f"python{version}")
    roots = (os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv")
    installed = [
        path
        for root in roots
        if root
        for path in sorted(Path(root).glob(f"versions/{version}.*/bin/python{version}"))
    ]
    for candidate in [*([Path(on_path)] if on_path else []), *installed]:
        done = subprocess.run(
            [candidate, "-c", _ASKED],
            capture_output=True,
            text=True,
            check=False,
        )
        said, _, program = done.stdout.strip().partition(" ")
        if done.returncode == 0 and said == version:
            return Path(program)
    return None


def need(version: str) -> Path:
    """An interpreter; tests that ask for it are skipped without it."""
    found = find(version)
    if found is None:
        pytest.skip(f"there is no Python {version} on this machine")
    return found


def wheelhouse() -> wheels.Platform:
    """The platform of this machine, with the pinned wheels; tests that ask for it are skipped without them."""
    platform = wheels.native()
    if platform is None or not platform.is_fetched:
        pytest.skip("the pinned wheels are not fetched; run make wheels")
    return platform


def plain_environment(**others: str) -> dict[str, str]:
    """The environment without anything that leads Python elsewhere."""
    led = ("PYTHON", "PIP_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(led)}
    return {**kept, **others}


class Environment:
    """A virtual environment without pip: it holds what is installed from the wheels, offline."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.folder = folder
        _run(python, "-m", "venv", "--without-pip", folder)

    def install(self, *words: str | Path) -> None:
        """Install without a network; nothing but what is named."""
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "--python")
        folder = wheelhouse().folder
        found = [word for each in wheels.PURPOSES for word in ("--find-links", folder / each)]
        offline = ("--no-index", "--no-deps", "--no-compile", *found)
        _run(*pip, self.folder / "bin" / "python", "install", *offline, *words)

    def run(self, program: str, *words: str | Path, cwd: Path) -> str:
        """Run one of its programs, which must succeed, and return what it prints."""
        return _run(self.folder / "bin" / program, *words, cwd=cwd)


def _run(*words: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        words,
        cwd=cwd,
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert 0 == done.returncode, f"{' '.join(map(str, words))}: {done.stderr}{done.stdout}"
    return done.stdout
