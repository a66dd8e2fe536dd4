"""Help pages that show what is typed: no types of Python, and commands by the names of kubectl.

Nothing on them is cut, however narrow the terminal, and values that cannot be right are refused in
words that name the value.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from karpenter.console import output

if TYPE_CHECKING:
    from rich.console import RenderableType

_PROGRAM: Final = re.compile(r"(?m)(?<=^  )karpenter(?= )|(?<=\| )karpenter(?= )")


def unset_option(text: str, *flags: str, metavar: str | None = None, **more: Any) -> Any:
    """An option that is unset unless it is given, so its help shows no default."""
    return typer.Option(*flags, metavar=metavar, help=text, show_default=False, **more)


def unset_argument(text: str, *, metavar: str, **more: Any) -> Any:
    """An argument that may be omitted, whose help shows no default."""
    return typer.Argument(metavar=metavar, help=text, show_default=False, **more)


class _Option(TyperOption):
    """An option that is followed by what may be typed there: nothing, a choice or a noun."""

    def display_type_rich(self, ctx: Any) -> str | None:
        """What stands beside its name."""
        if self.metavar is not None:
            return self.metavar
        return None if self.is_flag else self.display_type(ctx).strip("<>")

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Parse the value; an error names the value."""
        try:
            return super().process_value(ctx, value)
        except typer.BadParameter as error:
            error.message = _objection(error, value)
            raise


def _objection(error: typer.BadParameter, value: object) -> str:
    """What is wrong with a value, in place of the message of the type checker."""
    errors = getattr(error.__cause__, "errors", None)
    if errors is None:
        return error.message
    found = errors()[0]
    kind, context = found["type"], found.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind.startswith("int_"):
        return f"{value!r} is not a whole number."
    if kind.startswith("float_"):
        return f"{value!r} is not a number."
    if kind == "greater_than_equal":
        return f"{value} is less than {context['ge']}."
    if kind == "less_than_equal":
        return f"{value} is more than {context['le']}."
    return error.message


class _Argument(TyperArgument):
    """An argument, shown by its name alone."""

    def display_type_rich(self, ctx: Any) -> str | None:
        """Nothing."""
        return None


def _in_plain_words(params: list[Any]) -> list[Any]:
    # The library creates parameters, and has no other hook for how they are shown
    for param in params:
        if type(param) is TyperOption:
            param.__class__ = _Option
        elif type(param) is TyperArgument:
            param.__class__ = _Argument
    return params


def _cut_nothing() -> None:
    """Make the tables of help pages wrap long text instead of truncating it; names stay whole."""
    from rich.columns import Columns
    from rich.table import Table
    from rich.text import Text
    from typer import rich_utils

    class Whole(Table):
        def add_row(self, *cells: "RenderableType | None", **options: Any) -> None:
            super().add_row(*cells, **options)
            for part in (
                p for cell in cells if isinstance(cell, Columns) for p in cell.renderables
            ):
                if isinstance(part, Text):
                    part.overflow = "fold"
            *names, _, _ = [*self.columns] if len(self.columns) > 2 else [None, None]
            for column in self.columns:
                column.overflow, column.no_wrap = "fold", column in names

    # The library creates its tables itself and has no hook, so its Table class is replaced
    rich_utils.Table = Whole  # type: ignore[attr-defined]


class PlainCommand(TyperCommand):
    """A command whose help shows what is typed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the page; its examples are typed as the program was called."""
        _cut_nothing()
        if self.epilog is not None:
            self.epilog = _PROGRAM.sub(output.program_name(), self.epilog)
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options and arguments."""
        return _in_plain_words(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands whose help shows what is typed; some commands have further names."""

    other_names: ClassVar[Mapping[str, str]] = {}  # further name -> command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the page."""
        _cut_nothing()
        super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """Its options and arguments."""
        return _in_plain_words(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name, in upper or lower case where it is a further one."""
        known = super().get_command(ctx, cmd_name)
        if known is not None:
            return known
        return super().get_command(ctx, self.other_names.get(cmd_name.lower(), cmd_name))
