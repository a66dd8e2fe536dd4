"""The ``karpenter`` program: its commands and what they have in common.

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 interrupted. Commands import what is
heavy only when they run, so that asking for help costs nothing.
"""

import errno
import sys
from typing import Annotated, Final

import typer

from karpenter import __version__
from karpenter.cli import controller, convert, crds, explain, output, plan, sandbox
from karpenter.cli.controller_flags import FlagCommand
from karpenter.cli.cycles import collect_rarely
from karpenter.cli.help_pages import PlainCommand, PlainGroup

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

app = typer.Typer(
    name="karpenter",
    cls=PlainGroup,
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
app.add_typer(sandbox.sandbox, name="sandbox", help=sandbox.HELP, epilog=sandbox.EXAMPLES)
app.command(cls=PlainCommand, help=convert.HELP, epilog=convert.EXAMPLES)(convert.convert)
app.command(cls=PlainCommand, help=crds.HELP, epilog=crds.EXAMPLES)(crds.crds)


def main() -> None:
    """Run the program with the arguments it was started with."""
    collect_rarely()  # what is imported stays, and most commands are over before it would pay
    try:
        app(prog_name="karpenter")
    except OSError as error:  # help and messages are written by others, who do not look
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
