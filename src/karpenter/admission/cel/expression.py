"""One CEL expression, compiled once and run against many values.

Compiling reports what cannot work: syntax errors, syntax the engine does not support, undeclared
names. It also determines which fields of a variable the expression can read at all, because
converting a value for the engine costs far more than evaluating the expression.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from karpenter.admission.cel.objects import OBJECT_FUNCTIONS
from karpenter.admission.cel.runtime import Context, Program, compile_program
from karpenter.admission.cel.text import TEXT_FUNCTIONS, CelError, go_matches, rune_count
from karpenter.admission.cel.versions import VERSION_FUNCTIONS

# Which fields are read: a field maps to the fields read below it, or to None when all of it is
Fields: TypeAlias = dict[str, Any]

# The engine's own "matches" compiles its pattern at every call and reads Rust's dialect; its
# "size" counts bytes. Methods of the engine cannot be replaced, so calls are renamed.
_RENAMED: Final = {"matches": "goMatches"}
_RENAMED_BEYOND_ASCII: Final = {**_RENAMED, "size": "runeCount"}

LIBRARY: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        **TEXT_FUNCTIONS,
        **OBJECT_FUNCTIONS,
        **VERSION_FUNCTIONS,
        "goMatches": go_matches,
        "runeCount": rune_count,
    }
)
_NATIVE: Final = frozenset(
    {
        *("bytes", "double", "duration", "dyn", "int", "timestamp", "type", "uint"),
        *("contains", "endsWith", "matches", "size", "startsWith"),
        *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getMonth"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
        *("hasValue", "or", "orValue", "value"),
        *("optional.none", "optional.of", "optional.ofNonZeroValue"),
    }
)
_MACROS: Final = frozenset({"all", "exists", "existsOne", "exists_one", "filter", "has", "map"})
_NAMESPACES: Final = frozenset(
    name.partition(".")[0] for name in (*LIBRARY, *_NATIVE) if "." in name
)
_TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
)

_TOKEN: Final = re.compile(
    r"""(?x)
      (?P<string>
        [bB]?[rR][bB]?(?:'''(?s:.*?)'''|\"{3}(?s:.*?)\"{3}|'[^'\n]*'|"[^"\n]*")
      | [bB]?(?:'''(?s:(?:\\.|[^\\])*?)'''|\"{3}(?s:(?:\\.|[^\\])*?)\"{3}
               |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
      )
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<space>\s+|//[^\n]*)
    | (?P<optional>\.\?|\[\?)
    | (?P<quoted>`)
    | (?P<number>\.?[0-9][0-9A-Za-z]*)
    | (?P<mark>(?s:.))
    """
)
_POSITION: Final = re.compile(r"<input>:(\d+):(\d+): ([^\n]*)")


class ExpressionError(ValueError):
    """Why an expression cannot be compiled, as a phrase."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression and what it uses."""

    source: str
    variables: frozenset[str]
    functions: frozenset[str]
    _reads: Mapping[str, Fields | None]
    _program: Program
    _program_beyond_ascii: Program

    def reads(self, variable: str) -> Fields | None:
        """Which fields of ``variable`` are read; None means any."""
        return self._reads.get(variable, {})

    def run(self, context: Context, *, is_ascii: bool) -> object:
        """Evaluate; ``is_ascii``: all text in the context is ASCII."""
        program = self._program if is_ascii else self._program_beyond_ascii
        return program.execute(context)


class Functions:
    """The function library for one round of evaluation, which records the errors of functions.

    The engine logs a function that raises. So a failed function returns a value that the engine
    cannot convert: ``&&`` and ``||`` treat that as an error too, and nothing is logged.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._failures: list[str] = []
        self.by_name = {name: self._guard(LIBRARY[name]) for name in names}

    def explain(self, error: Exception) -> str:
        """Describe a failed evaluation in Kubernetes' wording."""
        if self._failures:
            return self._failures.pop()
        return _explain(error)

    def forget(self) -> None:
        """Drop failures that did not affect the result."""
        self._failures.clear()

    def _guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except CelError as error:
                self._failures.append(str(error))
            except (TypeError, AttributeError, ValueError):
                self._failures.append(NO_OVERLOAD)
            return _UNCONVERTIBLE

        return call


_UNCONVERTIBLE: Final = object()
NO_OVERLOAD: Final = "no such overload"


def compile_expression(source: str, variables: Collection[str]) -> Expression:
    """Compile an expression that may use ``variables``.

    Raises:
        ExpressionError: it cannot be compiled.
    """
    tokens = list(_tokens(source))
    _refuse_unsupported(tokens)
    program = _compile(source, tokens, _RENAMED)
    calls = frozenset(_calls(tokens))
    bound = _bound_names(tokens)
    used = frozenset(program.variables()) & frozenset(variables)
    _refuse_undeclared(program, calls, {*variables, *bound})
    library = frozenset(
        _RENAMED_BEYOND_ASCII.get(name, name)
        for name in calls
        if name in LIBRARY or name in _RENAMED_BEYOND_ASCII
    )
    counts = "size" in calls
    return Expression(
        source=source,
        variables=used,
        functions=library,
        _reads={name: None if name in bound else _fields_read(tokens, name) for name in used},
        _program=program,
        _program_beyond_ascii=(
            _compile(source, tokens, _RENAMED_BEYOND_ASCII) if counts else program
        ),
    )


def merge_fields(left: Fields | None, right: Fields | None) -> Fields | None:
    """Which fields are read by either of two readers."""
    if left is None or right is None:
        return None
    merged = dict(left)
    for name, below in right.items():
        merged[name] = merge_fields(merged[name], below) if name in merged else below
    return merged


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or "mark"
        if kind != "space":
            yield kind, match[0]


def _refuse_unsupported(tokens: list[tuple[str, str]]) -> None:
    for kind, text in tokens:
        if kind == "optional":
            raise ExpressionError(
                f"uses the optional syntax `{text}`, which is not supported here; use has()"
            )
        if kind == "quoted":
            raise ExpressionError(
                "uses a field name in backticks, which is not supported here;"
                " escape it, as in __dot__ or __dash__"
            )


def _refuse_undeclared(program: Program, calls: Collection[str], known: Collection[str]) -> None:
    for name in sorted(calls):
        if name not in LIBRARY and name not in _NATIVE and name not in _MACROS:
            raise ExpressionError(f"undeclared reference to the function '{name}'")
        if name in _MACROS and name in program.functions():
            raise ExpressionError(
                f"calls '{name}' with arguments that are not supported here;"
                " it takes one variable and one condition"
            )
    for name in program.variables():
        if name not in known and name not in _TYPE_NAMES and name not in _NAMESPACES:
            raise ExpressionError(f"undeclared reference to '{name}'")


def _compile(source: str, tokens: list[tuple[str, str]], renamed: Mapping[str, str]) -> Program:
    text = source
    if any(text in renamed for _, text in tokens):
        text = "".join(_rename(source, renamed))
    try:
        return compile_program(text)
    except ValueError as error:
        raise ExpressionError(_syntax_problem(source, error)) from error


def _syntax_problem(source: str, error: ValueError) -> str:
    """Where the syntax error is in the expression as written, before calls were renamed."""
    try:
        compile_program(source)
    except ValueError as original:
        error = original
    position = _POSITION.search(str(error))
    if position is None:
        return str(error).splitlines()[0]
    line, column, problem = position.groups()
    return f"line {line}, column {column}: {problem.partition(' expecting ')[0]}"


def _rename(source: str, renamed: Mapping[str, str]) -> Iterator[str]:
    matches = list(_TOKEN.finditer(source))
    for match in matches:
        is_call = match["name"] in renamed and source[match.end() :].lstrip().startswith("(")
        yield renamed[match[0]] if is_call else match[0]


def _calls(tokens: list[tuple[str, str]]) -> Iterator[str]:
    """The functions and macros called, with the namespace of those that have one."""
    for index, (kind, text) in enumerate(tokens[:-1]):
        if kind != "name" or tokens[index + 1][1] != "(":
            continue
        if index >= 2 and tokens[index - 1][1] == ".":
            namespaced = f"{tokens[index - 2][1]}.{text}"
            is_root = index < 3 or tokens[index - 3][1] != "."
            if is_root and (namespaced in LIBRARY or namespaced in _NATIVE):
                yield namespaced
                continue
        yield text


def _bound_names(tokens: list[tuple[str, str]]) -> set[str]:
    """The variables that macros introduce."""
    return {
        tokens[index + 2][1]
        for index, (kind, text) in enumerate(tokens[:-3])
        if kind == "name"
        and text in _MACROS
        and tokens[index - 1][1] == "."
        and tokens[index + 1][1] == "("
        and tokens[index + 2][0] == "name"
        and tokens[index + 3][1] == ","
    }


def _fields_read(tokens: list[tuple[str, str]], variable: str) -> Fields | None:
    """Follow every ``variable.field.field`` as far as it is plain field selection."""
    fields: Fields = {}
    for index, (kind, text) in enumerate(tokens):
        if kind != "name" or text != variable or (index and tokens[index - 1][1] == "."):
            continue
        names = _selected(tokens, index + 1)
        if not names:
            return None
        chain: Fields | None = None
        for name in reversed(names):
            chain = {name: chain}
        fields = merge_fields(fields, chain) or {}
    return fields


def _selected(tokens: list[tuple[str, str]], start: int) -> list[str]:
    names = []
    position = start
    while position + 1 < len(tokens) and tokens[position][1] == ".":
        kind, name = tokens[position + 1]
        is_call = position + 2 < len(tokens) and tokens[position + 2][1] == "("
        if kind != "name" or is_call:
            break
        names.append(name)
        position += 2
    return names


def _explain(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    if isinstance(error, TypeError):
        return NO_OVERLOAD
    if isinstance(error, ZeroDivisionError):
        return "division by zero"
    if isinstance(error, OverflowError):
        return "integer overflow"
    text = str(error).removesuffix(". Check function arguments and their types.")
    return re.sub(r"^Function '\w+' error: ", "", text)
