"""YAML's syntax errors as sentences that state what to do.

The parser reports only where it stopped and which token it expected. Most mistakes in manifests are
of a few kinds that the surrounding text shows: an omission marked with ``...``, a tab, an
unrendered template, several values where one belongs. Those are checked first.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml

Explanation = tuple[int | None, int | None, str]

TEMPLATE = "`{{` begins a template: render it first, for example with `helm template`"

_DOCUMENT_END = re.compile(r"(\.\.\.)\s*")
_ELISION = re.compile(r"\s*(?:-\s+)?(\.\.\.|…)\s*")
_SEPARATOR = re.compile(r"(--|----+)\s*")
_FENCE = re.compile(r"\s*(```|~~~)\s*\w*\s*")
_CONFLICT = re.compile(r"(<{7}|={7}|>{7})(\s.*)?")
_TEMPLATE = re.compile(r"(?:^|.*?[\s:-])(\{\{).*")

# A whole line that explains the error wherever the parser noticed it, and what to do about it.
_LINE_PROBLEMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        _DOCUMENT_END,
        (
            "`{}` ends the document: replace the elision `...` with the real content, "
            "or begin the next document with `---`"
        ),
    ),
    (_ELISION, "something was left out here: replace the elision `{}` with the real content"),
    (_SEPARATOR, "`{}` separates nothing: write `---` between documents"),
    (_FENCE, "this is a Markdown fence: keep only the lines between the fences"),
    (_CONFLICT, "`{}` marks a merge conflict: resolve it first"),
    (_TEMPLATE, TEMPLATE.replace("{{", "{}")),
)

_PAIR = re.compile(r":(?:\s|$)")
_UNSPACED_ITEM = re.compile(r"\s*-[^\s-].*")
_UNSPACED_PAIR = re.compile(r"\s*(?:- +)*[\w./-]+:[^\s/]\S*")
_INDENTATION = re.compile(r"[ \t]*")


@dataclass(frozen=True, slots=True)
class _Site:
    """Where the parser stopped; rows and columns count from zero, as the parser's do."""

    lines: list[str]
    row: int
    column: int
    context_row: int | None
    context_column: int
    problem: str

    @property
    def before(self) -> str:
        """The text of the line up to where the parser stopped."""
        return self.line(self.row)[: self.column]

    @property
    def character(self) -> str:
        return self.line(self.row)[self.column : self.column + 1]

    def line(self, row: int) -> str:
        return self.lines[row] if row < len(self.lines) else ""

    def here(self, problem: str) -> Explanation:
        return self.row + 1, self.column + 1, problem

    def at_context(self, problem: str) -> Explanation:
        """Report the position where the construct began rather than where the parser stopped."""
        if self.context_row is None:
            return self.here(problem)
        return self.context_row + 1, self.context_column + 1, problem

    def row_above(self) -> int | None:
        """The nearest line above that is neither blank nor a comment."""
        for row in range(self.row - 1, -1, -1):
            text = self.line(row).strip()
            if text and not text.startswith("#"):
                return row
        return None


def explain(error: yaml.MarkedYAMLError, text: str) -> Explanation:
    """Return the line, the column and one sentence for a syntax error."""
    site = _site(error, text)
    return (
        _line_problem(site)
        or _tab(site)
        or next(
            (explained(site) for pattern, explained in _EXPLAINED if pattern.search(site.problem)),
            None,
        )
        or site.here(f"the file is not valid YAML: {site.problem}")
    )


def _site(error: yaml.MarkedYAMLError, text: str) -> _Site:
    mark, context = error.problem_mark, error.context_mark
    return _Site(
        lines=text.splitlines(),
        row=mark.line if mark else 0,
        column=mark.column if mark else 0,
        context_row=context.line if context else None,
        context_column=context.column if context else 0,
        problem=" ".join(filter(None, (error.problem, error.context))),
    )


def _suspects(site: _Site) -> Iterator[int]:
    yield site.row
    if site.context_row is not None:
        yield site.context_row
    above = site.row_above()
    if above is not None:
        yield above


def _line_problem(site: _Site) -> Explanation | None:
    for row in _suspects(site):
        for pattern, problem in _LINE_PROBLEMS:
            found = pattern.fullmatch(site.line(row))
            if found:
                return row + 1, found.start(1) + 1, problem.format(found.group(1))
    return None


def _tab(site: _Site) -> Explanation | None:
    indentation = _INDENTATION.match(site.line(site.row))
    column = indentation.group().find("\t") if indentation else -1
    if column < 0:
        return None
    return site.row + 1, column + 1, "tabs may not indent YAML: replace the tab with spaces"


def _misplaced_pair(site: _Site) -> Explanation:
    if _PAIR.search(site.before):
        return site.here("the value contains a colon and a space: put the whole value in quotes")
    row = site.row_above()
    if row is None or _PAIR.search(site.line(row)) or site.line(row).endswith("-"):
        return site.here(
            "this pair is indented as if it belonged to the value above it: "
            "align it with its siblings, or put that value in quotes"
        )
    return _odd_line(site, row)


def _unfinished_key(site: _Site) -> Explanation:
    return _odd_line(site, site.row if site.context_row is None else site.context_row)


def _odd_line(site: _Site, row: int) -> Explanation:
    line = site.line(row)
    if _UNSPACED_ITEM.fullmatch(line):
        problem = "a space is missing after the dash"
    elif _UNSPACED_PAIR.fullmatch(line):
        problem = "a space is missing after the colon"
    else:
        problem = (
            "this is neither a `key: value` pair nor a list item: "
            "check its indentation, or add the missing colon"
        )
    return row + 1, len(line) - len(line.lstrip()) + 1, problem


def _stray_token(site: _Site) -> Explanation:
    before = site.before.rstrip()
    if before.endswith(('"', "'")):
        if site.character == ",":
            return site.here(
                "several values stand where one is expected: write each value as its own "
                'list item, or all of them in brackets like ["a", "b"]'
            )
        return site.here("text follows a closing quote: put the whole value in one pair of quotes")
    if site.character == "-" and "block mapping" in site.problem:
        return site.here("a list item stands among `key: value` pairs: indent it under its key")
    began = "" if site.context_row is None else f", which begin on line {site.context_row + 1}"
    return site.here(
        f"the indentation fits none of the lines above{began}: align this line with its siblings"
    )


def _forbidden_start(site: _Site) -> Explanation:
    row = site.row if site.context_row is None else site.context_row
    column = site.column if site.context_row is None else site.context_column
    character = site.line(row)[column : column + 1]
    if not character:
        return site.here("the text ends where a value is expected: write it, or close the brackets")
    shown = "a backtick" if character == "`" else f"`{character}`"
    return site.at_context(f"a value cannot begin with {shown}: put it in quotes")


def _unclosed_bracket(site: _Site) -> Explanation:
    bracket = "]" if "sequence" in site.problem else "}"
    return site.at_context(
        f"the brackets that open here are not closed: add the missing `{bracket}` or comma"
    )


def _simply(problem: str) -> Callable[[_Site], Explanation]:
    return lambda site: site.here(problem)


def _at_context(problem: str) -> Callable[[_Site], Explanation]:
    return lambda site: site.at_context(problem)


# By the parser's message, of libyaml or of PyYAML's parser in Python.
_EXPLAINED: tuple[tuple[re.Pattern[str], Callable[[_Site], Explanation]], ...] = (
    (re.compile("unexpected end of stream.*quoted"), _at_context("this quote is never closed")),
    (re.compile(r"',' or '[\]}]'"), _unclosed_bracket),
    (re.compile("expected ':'"), _unfinished_key),
    (re.compile("mapping values are not allowed"), _misplaced_pair),
    (
        re.compile("sequence entries are not allowed"),
        _simply("a list item cannot begin here: put it on its own line below the key"),
    ),
    (re.compile("<document start>"), _simply("the document has ended: begin the next with `---`")),
    (
        re.compile("cannot start any token|node content|alphabetic or numeric"),
        _forbidden_start,
    ),
    (re.compile("expected key|'-' indicator|<block end>"), _stray_token),
    (
        re.compile("escape|hexdecimal"),
        _simply("the escape is not known in double quotes: double the backslash"),
    ),
    (re.compile("tag"), _simply("the tag is not understood: write the value without it")),
    (re.compile("block scalar"), _simply("the text after `|` or `>` begins on the next line")),
)
