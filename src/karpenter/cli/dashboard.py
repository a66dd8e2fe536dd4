"""``karpenter dashboard``: a page that shows a cluster as it changes, beside any controller."""

from pathlib import Path
from typing import Annotated

import typer

from karpenter.console import output
from karpenter.console.help_pages import unset_option
from karpenter.console.manifest_files import Filenames, Recursive
from karpenter.inquiry.question import (
    Assignments,
    Context,
    Files,
    InstanceTypes,
    Kubeconfig,
    Provider,
)

HELP = """\
Serve a page that shows nodes, pods, cost and decisions of a cluster as they change, and answers why.

The cluster is that of the kubeconfig, with any controllers, or the one that manifests stand for, which stands \
still. Nothing is installed and nothing is changed: the cluster is only read. The address with its token is printed, and \
opened in a browser on a terminal.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter dashboard

  karpenter dashboard --context production --namespaces shop,payments

  karpenter dashboard --instance-types types.json --history-file views.history

  karpenter dashboard examples/plan
"""


def dashboard(
    files: Files = None,
    filenames: Filenames = None,
    recursive: Recursive = False,
    instance_types: InstanceTypes = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    provider: Provider = None,
    assignments: Assignments = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address to listen on; beyond this machine it needs --token-file and --allow-host.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        unset_option(
            "The port to listen on, 0 for any free one; by default 8765, or the next free one.",
            metavar="PORT",
            min=0,
            max=65535,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        unset_option(
            "A host name under which the page is reached, besides localhost; may be repeated.",
            metavar="NAME",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        unset_option(
            "A file with the token, of 32 characters or more; by default a new one every time.",
            metavar="FILE",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        unset_option(
            "The certificate to serve HTTPS with; read again when it changes.", metavar="FILE"
        ),
    ] = None,
    tls_key: Annotated[
        Path | None, unset_option("The key of the certificate.", metavar="FILE")
    ] = None,
    history: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="For how long views are kept, in 64 MiB at most; 0s: not at all.",
        ),
    ] = "24h",
    history_file: Annotated[
        Path | None,
        unset_option("Keep the views in this file from one run to the next.", metavar="FILE"),
    ] = None,
    namespaces: Annotated[
        str | None,
        unset_option(
            "Show only pods of these namespaces by name, such as shop,payments.", metavar="NAMES"
        ),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Show hashes in place of all names.")
    ] = False,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Open no browser; BROWSER=none has the same effect.")
    ] = False,
) -> None:
    """Serve until a signal."""
    from karpenter.model import durations

    kept = durations.period(history)
    if kept is None:
        output.fail(f"--history: {history!r} is no duration, such as 24h or 90m")
    names = [*(files or ()), *(filenames or ())]
    if names and history_file is not None:
        output.fail("--history-file applies to a live cluster: omit it, or name no files")
    from karpenter.dashboard.homes.companion import CompanionOptions, run
    from karpenter.dashboard.server.entrance import Entrance
    from karpenter.inquiry.question import Source

    run(
        CompanionOptions(
            Source(names, recursive, context, provider, instance_types, kubeconfig=kubeconfig),
            Entrance(host, port, tuple(allow_host or ()), token_file, tls_cert, tls_key),
            assignments=assignments or (),
            history=kept,
            history_file=history_file,
            namespaces=None if namespaces is None else _namespaces(namespaces),
            is_redacted=redact,
            opens_browser=not no_open,
        )
    )


def _namespaces(text: str) -> frozenset[str]:
    """The namespaces whose pods have names; one at least, or an empty variable would show all."""
    from karpenter.model.label_rules import is_namespace

    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not is_namespace(name):
            output.fail(f"--namespaces: {name!r} is no namespace; name some, such as shop,payments")
    return frozenset(names)
