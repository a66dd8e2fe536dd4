"""Makes the environment of ``kubectl karpenter`` beside this file, from its wheels, without a network.

It appears complete or not at all: it is made under another name and then renamed. Of two that run at the
same time, the first rename wins, and both use its result.
"""

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / "environment"


def install(folder: Path) -> str:
    """Fill a folder; return what went wrong, if anything."""
    venv.create(folder, with_pip=False, symlinks=True)
    (pip,) = HERE.glob("pip-*.whl")
    words = ["--no-index", "--no-deps", "--no-compile", "--require-hashes", "--no-cache-dir"]
    done = subprocess.run(  # noqa: S603 the interpreter that was just put there
        [sys.executable, f"{pip}/pip", "--disable-pip-version-check", "-q",
         "--python", str(folder / "bin" / "python"), "install", *words,
         "--find-links", str(HERE / "wheels"), "--requirement", str(HERE / "requirements.txt")],
        check=False,
        capture_output=True,
        text=True,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return said[-1] if done.returncode and said else "pip failed" if done.returncode else ""


def main() -> int:
    """Make the environment, unless another process has done so meanwhile."""
    print(f"preparing {ENVIRONMENT}, once", file=sys.stderr)
    if not (ENVIRONMENT / "bin" / "python").exists():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)  # its interpreter was removed
    try:
        partial = Path(tempfile.mkdtemp(prefix="environment-", dir=HERE))
    except OSError as error:
        print(f"error: {HERE} cannot be written to: {error.strerror}", file=sys.stderr)
        return 1
    try:
        problem = install(partial)
        if problem:
            print(f"error: the environment cannot be made: {problem}", file=sys.stderr)
            return 1
        try:
            partial.rename(ENVIRONMENT)
        except OSError:
            if not (ENVIRONMENT / "bin" / "python").exists():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
