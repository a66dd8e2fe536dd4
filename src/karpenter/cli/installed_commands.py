"""Commands that installed packages add to the program, each found by its name.

A package registers a ``typer.Typer`` in its own metadata::

    [project.entry-points."karpenter.commands"]
    sandbox = "karpenter_sandbox.command.app:sandbox"

Entry points are read only when a command is not built in, or when all are listed: reading the
metadata of every installed package takes several times as long as the rest of a short command's
start.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command

from karpenter.console import output
from karpenter.console.help_pages import PlainGroup

GROUP: Final = "karpenter.commands"
_COMPLETION: Final = ("install_completion", "show_completion")


class Program(PlainGroup):
    """The commands of the program: those built in, and those of installed packages."""

    order: ClassVar[tuple[str, ...]] = ("controller", "plan", "explain", "sandbox")

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, those for beginners first."""
        names = [*super().list_commands(ctx), *_installed()]
        first = [name for name in self.order if name in names]
        return first + [name for name in dict.fromkeys(names) if name not in first]

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options; a plugin has none for completion, because kubectl completes plugins."""
        found = super().get_params(ctx)
        if not output.is_plugin():
            return found
        return [each for each in found if each.name not in _COMPLETION]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that arguments begin with, whose name may be of two words."""
        two = " ".join(args[:2])
        if len(args) > 1 and two in self.commands:
            return two, self.commands[two], args[2:]
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; one that is built in wins over an installed one."""
        known = super().get_command(ctx, cmd_name)
        if known is not None:
            return known
        entry = _installed().get(cmd_name)
        return None if entry is None else _loaded(entry)


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _loaded(entry: EntryPoint) -> Any:
    try:
        found = entry.load()
    except Exception as error:  # noqa: BLE001 importing a foreign package may do anything
        reason = " ".join(str(error).split()) or "no reason given"
        return _broken(entry, f": {type(error).__name__}: {reason}")
    if not isinstance(found, typer.Typer):
        return _broken(entry, ", which is no typer.Typer")
    command = get_command(found)
    command.name = entry.name
    return command


def _broken(entry: EntryPoint, reason: str) -> TyperCommand:
    """Stand in for a command that cannot be loaded: it is listed, and running it says why."""

    def fail() -> None:
        output.fail(
            f"command {entry.name} cannot be loaded from {entry.value}{reason};"
            " upgrade or uninstall the package that brings it",
            output.EXIT_FAILED,
        )

    return TyperCommand(
        entry.name,
        callback=fail,
        help=f"Cannot be loaded from {entry.value}.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
