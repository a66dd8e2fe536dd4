"""``karpenter crds migrate``: store every object as v1, so that v1beta1 can go."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from karpenter.console import output
from karpenter.visible import visible

if TYPE_CHECKING:
    from karpenter.webhook.stored_versions import Outcome

HELP = """\
Store every NodePool, NodeClaim and EC2NodeClass as v1, and take v1beta1 off the list of stored versions.

Objects are written without a change, through the conversion webhook of their definitions. Only afterwards \
does the API server accept a definition without v1beta1. What cannot be rewritten is named, and keeps \
v1beta1 on the list of its kind; the command can be run again.
"""
EXAMPLES = """\
[bold]Examples[/bold]

  karpenter crds migrate --dry-run

  karpenter crds migrate --context production
"""


def migrate(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    context: Annotated[
        str,
        typer.Option(
            "--context",
            metavar="NAME",
            help="The context of the kubeconfig, if not the current one.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Rewrite objects and shorten the list of stored versions."""
    from karpenter.console.quiet import run_quietly
    from karpenter.kube.errors import KubeError
    from karpenter.webhook.stored_versions import MigrationError, sentences

    try:
        outcomes = run_quietly(_migrated(context, is_rehearsal=dry_run))
    except (KubeError, MigrationError) as error:
        output.fail(str(error), output.EXIT_FAILED)
    lines = [line for each in outcomes for line in sentences(each, is_rehearsal=dry_run)]
    if not dry_run and all(outcome.is_done or not outcome.is_installed for outcome in outcomes):
        lines.append("Every object is stored as v1: definitions without v1beta1 can be applied.")
    output.write("".join(f"{visible(line)}\n" for line in lines))
    if any(outcome.failures for outcome in outcomes):
        output.fail(
            "some objects are still stored in an old version: correct what the API server"
            " objects to, and run the command again",
            output.EXIT_FAILED,
        )


async def _migrated(context: str, *, is_rehearsal: bool) -> "list[Outcome]":
    from karpenter import __version__
    from karpenter.clock import SystemClock
    from karpenter.kube.access.config import load_config
    from karpenter.kube.client import Client
    from karpenter.kube.http import HttpTransport
    from karpenter.webhook import stored_versions

    clock = SystemClock()
    config = load_config(os.environ, context=context)
    transport = HttpTransport(
        config, clock, user_agent=f"karpenter/{__version__}", environment=os.environ
    )
    try:
        kube = Client(transport, clock)
        return [
            await stored_versions.migrate(kube, clock, name, is_rehearsal=is_rehearsal)
            for name in stored_versions.STORED
        ]
    finally:
        await transport.close()
