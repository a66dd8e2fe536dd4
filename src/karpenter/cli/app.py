"""The ``karpenter`` program: its commands and what they have in common.

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 interrupted. Commands import expensive
modules only when they run, so that ``--help`` is fast.
"""

import errno
import sys
from typing import Annotated, Final

import typer

from karpenter import __version__
from karpenter.cli import controller, convert, crds
from karpenter.cli.controller_flags import FlagCommand
from karpenter.cli.explain import command as explain
from karpenter.cli.installed_commands import Program
from karpenter.cli.plan import command as plan
from karpenter.console import output
from karpenter.console.help_pages import PlainCommand
from karpenter.operator.gc_thresholds import collect_rarely

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

app = typer.Typer(
    name="karpenter",
    cls=Program,
    help="Just-in-time nodes for any Kubernetes cluster.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.command(cls=FlagCommand, help=controller.HELP, epilog=controller.EXAMPLES)(
    controller.controller
)
app.command(cls=PlainCommand, help=plan.HELP, epilog=plan.EXAMPLES)(plan.plan)
app.add_typer(explain.explain, name="explain", help=explain.HELP)
app.command(cls=PlainCommand, help=convert.HELP, epilog=convert.EXAMPLES)(convert.convert)
app.command(cls=PlainCommand, help=crds.HELP, epilog=crds.EXAMPLES)(crds.crds)


def main() -> None:
    """Run the program with the arguments it was started with."""
    collect_rarely()  # imported objects stay, and most commands end before a collection pays
    try:
        app(prog_name="karpenter")
    except OSError as error:  # typer writes help and messages without handling this
        if error.errno not in _FULL:
            raise
        output.could_not_write(error)
        sys.exit(output.EXIT_FAILED)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"karpenter {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options that belong to no command."""
