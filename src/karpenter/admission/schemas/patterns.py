"""Regular expressions in Go's dialect (RE2), which every pattern in a CRD is written in.

They are untrusted: they come from users who may install a CRD or, in CEL, write an object; so
nothing here may take more than linear time. ``compile_go`` uses RE2 itself. ``portable`` rewrites a
pattern for the schema library, whose engine is linear in time too and saves a call into Python for
every value, but reads ECMAScript's dialect.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # it ships no types; Pattern is the typed wrapper

from karpenter.model.memo import remembered

_SPACES: Final = r"\t\n\x0c\r "
# The check whether a pattern is portable takes quadratic time
_LONGEST_PORTABLE: Final = 2_000

# Pieces on which Go, ECMAScript and Rust agree. A class may not begin with "]" nor hold "[".
_PORTABLE: Final = re.compile(
    r"""(?x:
      \\[dDwWsStnrfv] | \\[^0-9A-Za-z]
    | \[\^?(?!\])(?:\\[dDwWs](?!-[^\]])|\\[tnrfv]|\\[^0-9A-Za-z]|[^\[\]\\])*\]
    | \((?!\?) | \(\?: | \)
    | \{[0-9]+(?:,[0-9]*)?\}
    | [^\\\[\](){}]
    )*"""
)
# Go accepts a repeated anchor, other dialects do not
_REPEATED_ANCHOR: Final = re.compile(r"[$^][*+?{]")
_DOUBLED_IN_CLASS: Final = re.compile(r"\[[^\]]*(?:--|&&|~~|\|\|)")
_PIECE: Final = re.compile(r"\\.|.", re.DOTALL)
_QUOTED_OR_PIECE: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|.", re.DOTALL)
_ONE_BYTE: Final = r"\C"
_LONGEST_SHOWN: Final = 120
# How many compiled patterns are kept; RE2 bounds each at 8 MiB
_REMEMBERED: Final = 128
_LONGEST_REMEMBERED: Final = 4096  # longer patterns are compiled each time


class PatternError(ValueError):
    """A pattern that Go refuses; the text gives the reason."""


class Pattern:
    """A compiled pattern; like Go's, it is not anchored."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str) -> None:
        """Compile a pattern.

        Raises:
            PatternError: Go would refuse it.
        """
        options = re2.Options()
        options.log_errors = False  # they would go to standard error, and are raised here
        try:
            self._compiled: Any = re2.compile(pattern, options)
        except re2.error as error:
            raise PatternError(_explain(pattern, error)) from error
        except UnicodeEncodeError as error:
            raise PatternError(f"{_short(pattern)!r} is not text in UTF-8") from error
        if _ONE_BYTE in _QUOTED_OR_PIECE.findall(pattern):
            # RE2 supports it, Go's regexp does not
            raise PatternError(
                f"{_short(pattern)!r} is not a regular expression: \\C is not supported"
            )

    def is_in(self, text: str) -> bool:
        """Whether some part of ``text`` matches."""
        # as bytes, because the position is not needed: character offsets are most of the cost
        return self._compiled.search(text.encode()) is not None

    def first_in(self, text: str) -> str:
        """The first part of ``text`` that matches, or the empty text."""
        match = self._compiled.search(text)
        return str(match[0]) if match else ""

    def all_in(self, text: str) -> Iterator[str]:
        """The parts of ``text`` that match, one after the other."""
        end = -1
        for match in self._compiled.finditer(text):
            # Go omits an empty match right after another match
            if match.end() > match.start() or match.start() != end:
                yield str(match[0])
            end = match.end()


def portable(pattern: str) -> str | None:
    """Write ``pattern`` so that ECMAScript reads it as Go does, or return None if that is hard.

    The dialects agree on nearly all patterns in use; they differ in which spaces ``\\s`` matches.
    """
    if len(pattern) > _LONGEST_PORTABLE or _PORTABLE.fullmatch(pattern) is None:
        return None
    if _DOUBLED_IN_CLASS.search(pattern) or _REPEATED_ANCHOR.search(pattern):
        return None
    pieces = []
    is_in_class = False
    for piece in _PIECE.findall(pattern):
        if piece == r"\s":
            pieces.append(_SPACES if is_in_class else f"[{_SPACES}]")
        elif piece == r"\S":
            pieces.append(f"[^{_SPACES}]")
        else:
            is_in_class = piece == "[" or (is_in_class and piece != "]")
            pieces.append(piece)
    return "".join(pieces)


@remembered(_REMEMBERED, longest=_LONGEST_REMEMBERED)
def compile_go(pattern: str) -> Pattern:
    """Compile a pattern of Go's dialect.

    Raises:
        PatternError: Go would refuse the pattern.
    """
    return Pattern(pattern)


def _explain(pattern: str, error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    if isinstance(reason, bytes):
        reason = reason.decode(errors="replace")
    return f"{_short(pattern)!r} is not a regular expression: {_short(str(reason))}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
