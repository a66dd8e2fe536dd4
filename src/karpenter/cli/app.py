"""The ``karpenter`` program: its commands and what they have in common.

Exit codes: 0 done, 1 failed, 2 wrong usage or bad input, 130 interrupted. Commands import expensive
modules only when they run, so that ``--help`` is fast.
"""

import errno
import io
import os
import shlex
import sys
from contextlib import redirect_stdout, suppress
from typing import Annotated, Final

import typer

from karpenter import __version__
from karpenter.cli import (
    catalogue,
    controller,
    convert,
    crds,
    dashboard,
    migrate,
    record,
    simulate,
    values,
)
from karpenter.cli.controller_flags import FlagCommand
from karpenter.cli.explain import command as explain
from karpenter.cli.installed_commands import Program
from karpenter.cli.plan import command as plan
from karpenter.console import output
from karpenter.console.help_pages import PlainCommand
from karpenter.operator.gc_thresholds import collect_rarely

_COMPLETING: Final = "_KARPENTER_COMPLETE"  # set by the shell's completion function
_FILES: Final = ":0"
_NO_FILES: Final = ":4"
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
app.command(cls=plan.PlanCommand, help=plan.HELP, epilog=plan.EXAMPLES)(plan.plan)
app.add_typer(explain.explain, name="explain", help=explain.HELP)
app.command(cls=PlainCommand, help=catalogue.HELP, epilog=catalogue.EXAMPLES)(catalogue.catalogue)
app.command(cls=PlainCommand, help=dashboard.HELP, epilog=dashboard.EXAMPLES)(dashboard.dashboard)
app.command(cls=PlainCommand, help=simulate.HELP, epilog=simulate.EXAMPLES)(simulate.simulate)
app.command(cls=PlainCommand, help=record.HELP, epilog=record.EXAMPLES)(record.record)
app.command(cls=PlainCommand, help=convert.HELP, epilog=convert.EXAMPLES)(convert.convert)
app.command(cls=PlainCommand, help=crds.HELP, epilog=crds.EXAMPLES)(crds.crds)
app.command(cls=PlainCommand, help=values.HELP, epilog=values.EXAMPLES)(values.values)
app.command("crds migrate", cls=PlainCommand, help=migrate.HELP, epilog=migrate.EXAMPLES)(
    migrate.migrate
)


def main() -> None:
    """Run the program with the arguments it was started with."""
    collect_rarely()  # most objects live until the exit, so collections would find nothing
    try:
        app(prog_name=output.program_name())
    except OSError as error:  # typer writes help and messages without handling this
        if error.errno not in _FULL:
            raise
        output.could_not_write(error)
        sys.exit(output.EXIT_FAILED)
    finally:
        if _COMPLETING in os.environ:
            _end_at_once()


def complete_for_kubectl() -> None:
    """Complete the arguments of ``kubectl karpenter``: kubectl runs this when Tab is pressed.

    The arguments are those typed so far, the last one perhaps empty. The output is a line for each
    proposal, and a directive of Cobra, the library that kubectl parses its command line with.
    """
    words = ["karpenter", *sys.argv[1:]]
    os.environ |= {
        _COMPLETING: "complete_bash",
        "COMP_WORDS": shlex.join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    proposals = io.StringIO()
    with redirect_stdout(proposals), suppress(SystemExit):
        app(prog_name="karpenter")
    found = proposals.getvalue().split()
    # An argument that names no object may be a file, which the shell completes itself
    typer.echo("\n".join([*found, _NO_FILES if found else _FILES]))
    _end_at_once()


def _end_at_once() -> None:
    """Exit without joining threads: one may be blocked in a DNS lookup."""
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(0)


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
