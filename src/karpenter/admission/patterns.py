"""Regular expressions in Go's dialect (RE2), which every pattern in a CRD is written in.

``portable`` writes a pattern for the schema library, whose engine is linear in time but reads
ECMAScript's dialect; that serves nearly all. The others, and the functions of CEL, go through
``compile_go``, which rewrites them for Python. What neither can express is refused.
"""

import functools
import re
from collections.abc import Callable
from typing import Final

_ASCII_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\x0b\x0c\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_SPACES: Final = r"\t\n\x0c\r "
_LAST_CHARACTER: Final = 0x10FFFF

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
_DOUBLED_IN_CLASS: Final = re.compile(r"\[[^\]]*(?:--|&&|~~|\|\|)")

_PIECE: Final = re.compile(r"\\.|.", re.DOTALL)

_OUTSIDE: Final = re.compile(
    r"""(?x)
      \\Q (?P<quoted>.*?) (?:\\E|\Z)
    | \\ (?P<escape>x\{[0-9A-Fa-f]+\}|[0-7]{2,3}|.)
    | \(\? (?P<group>P?<[A-Za-z_][0-9A-Za-z_]*>|[a-zA-Z]*(?:-[a-zA-Z]+)?[:)])
    | (?P<lookaround>\(\?)
    | (?P<bracket>\[\^?)
    | (?P<plain>.)
    """,
    re.DOTALL,
)
_INSIDE: Final = re.compile(
    r"""(?x)
      \\ (?P<escape>x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[0-7]{2,3}|.)
    | \[: (?P<named>\^?[a-z]+) :\]
    | (?P<plain>.)
    """,
    re.DOTALL,
)
_REPEAT: Final = re.compile(r"[0-9]+(?:,[0-9]*)?\}")
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SETS: Final = {"d": r"\d", "D": r"\D", "w": r"\w", "W": r"\W", "s": _SPACES}


class PatternError(ValueError):
    """A pattern that Go refuses, or that cannot be expressed here; the text says which."""


def portable(pattern: str) -> str | None:
    """Write ``pattern`` so that ECMAScript reads it as Go does, or return None if that is hard.

    The dialects agree on nearly everything people write; they differ on which spaces ``\\s`` means.
    """
    if _PORTABLE.fullmatch(pattern) is None or _DOUBLED_IN_CLASS.search(pattern):
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


@functools.lru_cache(maxsize=1024)
def compile_go(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of Go's dialect; use ``search``, since Go's patterns are not anchored.

    Raises:
        PatternError: Go would refuse the pattern, or Python has nothing equal to it.
    """
    try:
        return re.compile(_Translation(pattern).run(), re.ASCII)
    except re.error as error:
        raise PatternError(f"{pattern!r} is not a regular expression: {error}") from error


class _Translation:
    """One pass over a pattern, rewriting it piece by piece."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._is_multiline = re.search(r"\(\?[a-zA-Z]*m", pattern) is not None

    def run(self) -> str:
        pieces = []
        while self._position < len(self._pattern):
            kind, text = self._next(_OUTSIDE)
            rewrite: Callable[[str], str] = getattr(self, f"_{kind}")
            pieces.append(rewrite(text))
        return "".join(pieces)

    def _next(self, tokens: re.Pattern[str]) -> tuple[str, str]:
        match = tokens.match(self._pattern, self._position)
        if match is None:
            raise self._refuse("a backslash with nothing after it")
        self._position = match.end()
        kind = match.lastgroup or "plain"
        return kind, match[kind]

    def _refuse(self, what: str) -> PatternError:
        return PatternError(f"{self._pattern!r} uses {what}")

    def _quoted(self, text: str) -> str:
        return re.escape(text)

    def _escape(self, text: str) -> str:
        if text == "s":
            return f"[{_SPACES}]"
        if text == "S":
            return f"[^{_SPACES}]"
        if text in _SETS or text in {"A", "b", "B", "x"}:
            return f"\\{text}"
        return r"\Z" if text == "z" else re.escape(self._character(text))

    def _character(self, text: str) -> str:
        """Read an escape that stands for one character."""
        if text in _CONTROLS:
            return _CONTROLS[text]
        if text.startswith("x") and len(text) > 1:
            code = int(text[1:].strip("{}"), 16)
        elif len(text) > 1:
            code = int(text, 8)
        elif text.isascii() and text.isalnum():
            raise self._refuse(f"\\{text}, which is not supported")
        else:
            return text
        if code > _LAST_CHARACTER:
            raise self._refuse(f"\\{text}, a character that does not exist")
        return chr(code)

    def _group(self, opening: str) -> str:
        if opening.startswith("<"):
            return f"(?P{opening}"
        if not opening.startswith("P") and "U" in opening:
            raise self._refuse("the flag U, which is not supported")
        return f"(?{opening}"

    def _lookaround(self, _text: str) -> str:
        raise self._refuse("a kind of group that Go does not have")

    def _plain(self, character: str) -> str:
        if character == "{" and not _REPEAT.match(self._pattern, self._position):
            return r"\{"
        return r"\Z" if character == "$" and not self._is_multiline else character

    def _bracket(self, opening: str) -> str:
        items: list[str] = []
        while self._position < len(self._pattern):
            if items and self._pattern[self._position] == "]":
                self._position += 1
                return f"{opening}{''.join(items)}]"
            items.append(self._class_item())
        raise self._refuse("a bracket that is never closed")

    def _class_item(self) -> str:
        low, is_set = self._class_atom()
        rest = self._pattern[self._position :]
        if is_set or not rest.startswith("-") or rest.startswith("-]"):
            return low
        self._position += 1
        high, _ = self._class_atom()
        return f"{low}-{high}"

    def _class_atom(self) -> tuple[str, bool]:
        """Read one item inside brackets, and whether it is a set of characters."""
        kind, text = self._next(_INSIDE)
        if kind == "named":
            if text not in _ASCII_CLASSES:
                raise self._refuse(f"the character class [:{text}:], which is not supported")
            return _ASCII_CLASSES[text], True
        if kind == "escape" and text in _SETS:
            return _SETS[text], True
        return re.escape(self._character(text) if kind == "escape" else text), False
