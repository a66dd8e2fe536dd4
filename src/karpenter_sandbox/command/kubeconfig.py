"""The kubeconfig of a running sandbox: it exists for as long as the sandbox serves.

The sandbox holds a lock on the file, so that another one in the same folder detects that the
cluster still runs, and does not replace the file; the lock ends with the process, even if it is
killed.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from karpenter.console import output
from karpenter.os_errors import os_reason
from karpenter_sandbox.server.http import Server, kubeconfig

_CONTEXT: Final = "karpenter-sandbox"
_OWNER_ONLY: Final = 0o600


def make_way(path: Path) -> None:
    """Remove an old kubeconfig, unless the file is in use or not a sandbox's."""
    if not path.parent.is_dir():
        output.fail(f"{path}: the folder {path.parent} does not exist")
    if not path.exists():
        return
    try:
        known = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        known = None
    if not isinstance(known, dict) or known.get("current-context") != _CONTEXT:
        output.fail(
            f"{path} is not the kubeconfig of a sandbox and is left alone;"
            " choose another file with --kubeconfig"
        )
    if _is_held(path):
        output.fail(_taken(path))
    # A program that waits for the file must not find that of an earlier run
    _behind_links(path).unlink(missing_ok=True)


@contextmanager
def published(server: Server, path: Path) -> Iterator[None]:
    """Let clients find a server for as long as a block runs."""
    target = _behind_links(path)
    try:
        file = _written(target, kubeconfig(server))
    except FileExistsError:
        output.fail(_taken(path))
    except OSError as error:
        output.fail(f"{path}: {os_reason(error)}", output.EXIT_FAILED)
    try:
        yield
    finally:
        _withdraw(target, file)


def _written(path: Path, text: str) -> int:
    """Write a file that only its owner can read; it appears complete, and locked, or not at all.

    Raises:
        FileExistsError: another process created it first.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    file = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
    try:
        _lock(file)
        with open(file, "w", encoding="utf-8", closefd=False) as writer:
            writer.write(text)
        try:
            os.link(partial, path)
        except FileExistsError:
            raise
        except OSError:  # the file system has no hard links
            partial.replace(path)
    except BaseException:
        os.close(file)
        raise
    finally:
        partial.unlink(missing_ok=True)
    return file


def _withdraw(path: Path, file: int) -> None:
    """Delete the kubeconfig of a stopped server, unless another process has replaced the file."""
    try:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file), path.stat()):
                path.unlink(missing_ok=True)
    finally:
        os.close(file)


def _is_held(path: Path) -> bool:
    """Whether the sandbox that wrote a kubeconfig still locks it; False without file locks."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _lock(file)
    finally:
        os.close(file)


def _lock(file: int) -> bool:
    """Lock an open file; return False if another process holds the lock."""
    if os.name != "posix":
        return True
    import fcntl

    try:
        # This lock belongs to the open file; other readers in this process do not release it
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return True
    return True


def _behind_links(path: Path) -> Path:
    """Resolve symbolic links, so that the target is replaced and the link stays a link."""
    return Path(os.path.realpath(path))


def _taken(path: Path) -> str:
    return (
        f"{path} leads to another sandbox, which still runs;"
        " stop that one, or choose another file with --kubeconfig"
    )
