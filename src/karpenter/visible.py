r"""Escapes untrusted text for display, so that no character is invisible or controls a terminal.

Names, annotations, messages of events and errors are written by others. Control characters would
move the cursor, clear the screen or rename the window; bidirectional controls make text read other
than it is; characters without width hide in names. All of them are spelled out. Text output for
people passes through here; JSON and YAML say the same with escapes of their own, so that programs
read what was there.
"""

import re
from typing import Final

# Control characters and surrogates; then what formats, and the two odd ends of lines
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
    r"""Text on one line, with everything that is not seen spelled out, as in ``\x1b``."""
    return text if _is_plain(text) else _HIDDEN.sub(_spelled, text)


def visible_lines(text: str) -> str:
    """The same for text of several lines, which may have tabs."""
    return text if _is_plain(text) else _HIDDEN_IN_LINES.sub(_spelled, text)


def has_hidden(text: str) -> bool:
    """Whether some character of the text, line feeds and tabs aside, is not seen."""
    return not _is_plain(text) and _HIDDEN_IN_LINES.search(text) is not None


def in_json(text: str) -> str:
    """A JSON document in which such characters are escaped; it says the same as before."""
    return text if _is_plain(text) else _HIDDEN_IN_LINES.sub(_in_json, text)


def in_yaml(text: str) -> str:
    """A YAML document likewise; such characters may stand in double quotes only."""
    return text if _is_plain(text) else _HIDDEN_IN_LINES.sub(_spelled, text)


def _is_plain(text: str) -> bool:
    """Whether a glance is enough; Python takes some characters without width for printable."""
    return text.isascii() and text.isprintable()


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= _LATIN_1:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _BASIC else f"\\U{code:08x}"


def _in_json(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
