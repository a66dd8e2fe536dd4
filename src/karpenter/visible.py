r"""Escapes untrusted text for display, so that no character is invisible or controls a terminal.

Names, annotations, messages of events and errors are untrusted input. Control characters would
move the cursor, clear the screen or rename the window; bidirectional controls reorder text;
zero-width characters hide in names. All of them are replaced by escapes. Text output passes
through here; JSON and YAML use their own escapes, so that programs decode the original text.
"""

import re
from typing import Final

# Control characters and surrogates; then format characters, and the line and paragraph separators
_STEERING: Final = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_INVISIBLE: Final = (
    r"\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\ufeff\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN: Final = re.compile(f"[{_STEERING}{_INVISIBLE}]")
_HIDDEN_IN_LINES: Final = re.compile(rf"(?![\t\n])[{_STEERING}{_INVISIBLE}]")
_LATIN_1: Final = 0xFF
_BASIC: Final = 0xFFFF


def visible(text: str) -> str:
    r"""Text on one line, with every invisible character escaped, as in ``\x1b``."""
    return text if _is_plain(text) else _HIDDEN.sub(_spelled, text)


def visible_lines(text: str) -> str:
    """The same for text of several lines, which may have tabs."""
    return text if _is_plain(text) else _HIDDEN_IN_LINES.sub(_spelled, text)


def has_hidden(text: str) -> bool:
    """Whether some character of the text, line feeds and tabs aside, is invisible."""
    return not _is_plain(text) and _HIDDEN_IN_LINES.search(text) is not None


def in_json(text: str) -> str:
    """A JSON document in which such characters are escaped; it decodes to the same value."""
    return text if _is_plain(text) else _HIDDEN_IN_LINES.sub(_in_json, text)


def in_yaml(text: str) -> str:
    """A YAML document likewise; such characters may stand in double quotes only."""
    return text if _is_plain(text) else _HIDDEN_IN_LINES.sub(_spelled, text)


def _is_plain(text: str) -> bool:
    """The fast path: printable ASCII. ``isprintable`` alone accepts zero-width characters."""
    return text.isascii() and text.isprintable()


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= _LATIN_1:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _BASIC else f"\\U{code:08x}"


def _in_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
