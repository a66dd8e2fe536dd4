"""Help pages that show what is typed: no types of Python, and commands by the names of kubectl."""

from collections.abc import Mapping
from typing import Any, ClassVar

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption


class _Option(TyperOption):
    """An option that is followed by what may be typed there: nothing, a choice or a noun."""

    def display_type_rich(self, ctx: Any) -> str | None:
        """What stands beside its name."""
        if self.metavar is not None:
            return self.metavar
        return None if self.is_flag else self.display_type(ctx).strip("<>")


class _Argument(TyperArgument):
    """An argument, whose name says it all."""

    def display_type_rich(self, ctx: Any) -> str | None:
        """Nothing."""
        return None


def _in_plain_words(params: list[Any]) -> list[Any]:
    # Parameters are made by the library, which leaves no other way to say what they look like
    for param in params:
        if type(param) is TyperOption:
            param.__class__ = _Option
        elif type(param) is TyperArgument:
            param.__class__ = _Argument
    return params


class PlainCommand(TyperCommand):
    """A command whose help shows what is typed."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options and arguments."""
        return _in_plain_words(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands whose help shows what is typed; some commands have further names."""

    other_names: ClassVar[Mapping[str, str]] = {}  # further name -> command

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options and arguments."""
        return _in_plain_words(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, in upper or lower case where it is a further one."""
        known = super().get_command(ctx, cmd_name)
        if known is not None:
            return known
        return super().get_command(ctx, self.other_names.get(cmd_name.lower(), cmd_name))
