"""``karpenter record``: what happens in a cluster, as a scenario that replays it."""

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from karpenter.console import output
from karpenter.console.help_pages import unset_option
from karpenter.inquiry import completion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter.clock import Clock
    from karpenter.cloud.types import InstanceType
    from karpenter.kube.access.config import ClusterConfig
    from karpenter.kube.transport import Transport
    from karpenter.simulate.record.folder import Folder
    from karpenter.simulate.record.names import Names
    from karpenter.simulate.record.session import Pricing

HELP = """\
Record what happens in a cluster, to replay it with `karpenter simulate`. Nothing is changed.

Writes what workloads ask for and what they run on, never Secrets, environments or arguments, until \
--for is over or Ctrl-C. A folder that has a recording already is continued.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter record -o monday --for 24h

  karpenter record -o monday -n shop -n mail --hash-names

  karpenter simulate monday/scenario.yaml
"""

_LEAST_KEY: Final = 16  # bytes
_LEAST_SECONDS: Final = 60.0
_LEAST_BYTES: Final = 64 * 2**10


def record(
    folder: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", readable=False, help="The folder to write to."
        ),
    ],
    lasts: Annotated[
        str | None,
        unset_option("How long to record, such as 24h; by default until Ctrl-C.", "--for"),
    ] = None,
    context: Annotated[
        str,
        unset_option(
            "The context of the kubeconfig, if not the current one.",
            metavar="NAME",
            autocompletion=completion.contexts,
        ),
    ] = "",
    namespaces: Annotated[
        list[str] | None,
        unset_option(
            "Record the workloads of this namespace alone; repeatable.",
            "--namespace",
            "-n",
            metavar="NAME",
            autocompletion=completion.namespaces,
        ),
    ] = None,
    hash_names: Annotated[
        bool,
        typer.Option("--hash-names", help="Write hashes in place of names, images and labels."),
    ] = False,
    key: Annotated[
        Path | None,
        unset_option(
            "The key of the hashes; by default one that is forgotten.",
            "--key",
            metavar="FILE",
            readable=False,
        ),
    ] = None,
    rotate: Annotated[
        str,
        typer.Option(
            "--rotate", metavar="LENGTH|SIZE", help="When to begin another file: 1h or 64Mi."
        ),
    ] = "1h",
    keep: Annotated[
        str | None,
        unset_option("How long to keep files, such as 7d; by default for ever.", metavar="LENGTH"),
    ] = None,
    prices: Annotated[
        bool,
        typer.Option("--prices", help="Record what the cloud sells, and every price that moves."),
    ] = False,
) -> None:
    """Record a cluster."""
    rotate_seconds, rotate_bytes = _rotation(rotate)
    wish = _Wish(
        lasts=_length("--for", lasts),
        namespaces=_namespaces(namespaces or ()),
        keep=_length("--keep", keep),
        rotate_seconds=rotate_seconds,
        rotate_bytes=rotate_bytes,
        has_prices=prices,
    )
    names = _names(key, is_hashing=hash_names)
    with output.progress("connecting"):
        from karpenter.kube.access.config import ConfigError, load_config
        from karpenter.kube.errors import KubeError
        from karpenter.simulate.record.folder import Folder, FolderError, WriteError
        from karpenter.simulate.record.live import NotRecordableError

        try:
            config = load_config(os.environ, context=context)
        except ConfigError as error:
            output.fail(str(error))
    try:
        opened = Folder(folder)
        _run(config, opened, names, wish)
    except FolderError as error:
        output.fail(f"-o {error}")
    except WriteError as error:
        output.fail(f"-o {error}", output.EXIT_FAILED)
    except NotRecordableError as error:
        output.fail(str(error), output.EXIT_FAILED)
    except KubeError as error:
        output.fail(f"the cluster cannot be recorded: {error}", output.EXIT_FAILED)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the options ask for."""

    lasts: float | None
    namespaces: tuple[str, ...]
    keep: float | None
    rotate_seconds: float | None
    rotate_bytes: int | None
    has_prices: bool


def _namespaces(names: Sequence[str]) -> tuple[str, ...]:
    """The namespaces, each once."""
    from karpenter.model.label_rules import is_namespace

    for name in names:
        if not is_namespace(name):
            output.fail(f"--namespace {name!r}: is no name that a namespace can have")
    return tuple(dict.fromkeys(names))


def _length(option: str, text: str | None) -> float | None:
    from karpenter.simulate.lengths import is_length, seconds

    if text is None:
        return None
    if not is_length(text):
        output.fail(f"{option} {text!r}: is no length of time such as 90s, 1h30m or 7d")
    if seconds(text) <= 0:
        output.fail(f"{option} {text}: nothing would be recorded; give a longer time")
    return seconds(text)


def _rotation(text: str) -> tuple[float | None, int | None]:
    """How long, or how large, a file gets."""
    from karpenter.model.quantity import QuantityError, units
    from karpenter.simulate.lengths import is_length, seconds

    if is_length(text):
        if seconds(text) < _LEAST_SECONDS:
            output.fail(f"--rotate {text}: files of less than a minute are too many")
        return seconds(text), None
    try:
        size = units(text)
    except QuantityError:
        output.fail(
            f"--rotate {text!r}: is neither a length of time such as 1h nor a size such as 64Mi"
        )
    if size < _LEAST_BYTES:
        output.fail(f"--rotate {text}: files of less than 64Ki are too many")
    return None, size


def _names(file: Path | None, *, is_hashing: bool) -> "Names":
    from karpenter.os_errors import os_reason
    from karpenter.simulate.record.names import Names

    if file is None:
        return Names(secrets.token_bytes(32), is_hashing=is_hashing)
    if not is_hashing:
        output.fail("--key goes with --hash-names only")
    try:
        data = file.read_bytes().strip()
    except OSError as error:
        output.fail(f"--key {file}: {os_reason(error)}")
    if len(data) < _LEAST_KEY:
        output.fail(f"--key {file}: has {len(data)} bytes; a key of at least {_LEAST_KEY} is safe")
    return Names(data, is_hashing=True)


def _run(config: "ClusterConfig", folder: "Folder", names: "Names", wish: _Wish) -> None:
    from karpenter.console.quiet import run_quietly
    from karpenter.simulate.record.folder import Archive
    from karpenter.simulate.record.session import now, recorded

    archive = Archive(
        folder,
        now=now,
        rotate_seconds=wish.rotate_seconds,
        rotate_bytes=wish.rotate_bytes,
        keep_seconds=wish.keep,
    )
    heard = archive.continue_(names.fingerprint)
    lasts, namespaces = wish.lasts, wish.namespaces
    run_quietly(
        recorded(
            config,
            archive,
            names,
            lasts=lasts,
            namespaces=namespaces,
            heard=heard,
            pricing=_pricing() if wish.has_prices else None,
        )
    )


def _pricing() -> "Pricing":
    """What asks the cloud of the cluster for its prices, without changing anything."""
    from karpenter.cli.catalogue import merged
    from karpenter.inquiry.catalogues import Catalogues, NotAskableError
    from karpenter.settings import Settings
    from karpenter.simulate.record.prices import Asked, NotAskedError

    def made(transport: "Transport", clock: "Clock") -> Asked:
        catalogues = Catalogues(transport, clock, os.environ, Settings())

        async def asked() -> "Sequence[InstanceType]":
            try:
                return merged(await catalogues.types())
            except NotAskableError as error:
                raise NotAskedError(str(error)) from None

        return asked

    return made
