"""Bytes to text: UTF-8 with or without a byte order mark, or UTF-16 with one.

Also the arithmetic of lines: LF, CRLF and the lone CR of old editors all end a line.
"""

import codecs
import re

from karpenter.manifests.errors import ManifestError

_MAGIC = {
    b"\x1f\x8b": "compressed data (gzip); unpack it first",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"\x7fELF": "a program, not a manifest",
}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# Characters that are not printable in YAML, and the byte order mark, allowed only at the start.
_NOT_YAML = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def decode(data: bytes, name: str) -> str:
    """Return the text of a file; raise ``ManifestError`` where the bytes are not text."""
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            raise ManifestError(name, 1, None, f"this is {what}")
    encoding = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        problem = (
            f"the byte 0x{data[error.start]:02x} is not {encoding.removesuffix('-sig').upper()} "
            "text; save the file as UTF-8"
        )
        raise ManifestError(name, line, None, problem) from error
    if "\0" in text:
        line, column = position(text, text.index("\0"))
        problem = "this is binary data (it holds NUL bytes), not UTF-8 text"
        raise ManifestError(name, line, column, problem)
    return text


def check_printable(text: str, name: str) -> None:
    """Refuse the control characters that YAML does not allow anywhere."""
    found = _NOT_YAML.search(text)
    if found is None:
        return
    line, column = position(text, found.start())
    character = found.group()
    if character == "\ufeff":
        problem = "a byte order mark stands inside the file; remove this invisible character"
    else:
        problem = f"the control character U+{ord(character):04X} is not allowed in YAML; remove it"
    raise ManifestError(name, line, column, problem)


def position(text: str, index: int) -> tuple[int, int]:
    """Return the line and column of a character, both counted from one."""
    returns = text.count("\r", 0, index) - text.count("\r\n", 0, index)
    line = text.count("\n", 0, index) + returns + 1
    line_start = max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1
    return line, index - line_start + 1
