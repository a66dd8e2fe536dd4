"""JSON text to plain values, and the lines of their fields.

The standard library's decoder is used because it has a hook for repeated keys. It does not always
report the position of an error, so a text that it refuses is read again, token by token. Large
Lists are read by ``jsonitems``, which leaves all other texts to this module.
"""

import json
import re
from contextlib import suppress
from typing import Any, NoReturn

from karpenter.manifests import limits
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.positions import Path
from karpenter.manifests.scalars import ScalarError, json_number
from karpenter.manifests.text import position

_A_GLANCE = 10_000
_BLANKS = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_ONE_KIND = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS = bytes(set(range(256)) - set(b'{}[]"'))

_EXPLAINED = (
    ("Expecting property name", "a key in double quotes is expected here"),
    ("Expecting ':'", "a colon is expected here"),
    ("Expecting ','", "a comma or a closing bracket is expected here"),
    ("Expecting value", "a value is expected here"),
    ("Unterminated string", "this quote is never closed"),
    ("Invalid control character", "a line break or tab inside quotes must be written \\n or \\t"),
    ("Invalid", "the escape is not known in JSON: double the backslash"),
)


def parse(text: str, name: str) -> list[tuple[Any, int]]:
    """Return the values of a stream of JSON values, each with the index at which it starts.

    Raises:
        json.JSONDecodeError: The text is not JSON.
        ManifestError: It is, but must not be read: too much of it, or two values for one key.
    """
    _check_count(text, name)
    values = []
    at = _after_blanks(text, 0)
    try:
        while at < len(text):
            value, end = _DECODER.raw_decode(text, at)
            values.append((value, at))
            at = _after_blanks(text, end)
        _check_depth(text)
    except (_UnacceptableError, ScalarError, RecursionError) as error:
        with suppress(ValueError, IndexError):  # the text after the error may not be JSON
            _check_tokens(text, name)
        # Only reached if decoder and tokenizer disagree; then the position is unknown.
        raise ManifestError(name, None, None, f"the JSON cannot be read: {error}") from error
    if _SURROGATE_ESCAPE.search(text):
        _check_tokens(text, name)
    return values


def syntax_error(error: json.JSONDecodeError, name: str) -> ManifestError:
    """A JSON syntax error as one sentence with its position."""
    line, column = position(error.doc, error.pos)
    problem = next((said for words, said in _EXPLAINED if error.msg.startswith(words)), error.msg)
    return ManifestError(name, line, column, f"the file is not valid JSON: {problem}")


class JsonLines:
    """The lines of the fields of one JSON value.

    Values before a field are skipped at the decoder's speed. The start positions of list items are
    cached, so that lookups of every item of a long list read the list once.
    """

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self._items: dict[int, list[int]] = {}  # where a list starts -> where its items do

    def of(self, path: Path) -> int:
        """Return the line of the field at ``path``, or of its nearest ancestor that exists."""
        at = shown = self._start
        for part in path:
            found = self._pair(at, part) if isinstance(part, str) else self._item(at, part)
            if found is None:
                break
            shown, at = found
        return position(self._text, shown)[0]

    def _pair(self, at: int, wanted: str) -> tuple[int, int] | None:
        if self._text[at] != "{":
            return None
        at = _after_blanks(self._text, at + 1)
        while self._text[at] == '"':
            shown = at
            key, at = _DECODER.raw_decode(self._text, at)
            at = _after_blanks(self._text, _after_blanks(self._text, at) + 1)
            if key == wanted:
                return shown, at
            at = self._next(at)
        return None

    def _item(self, at: int, wanted: int) -> tuple[int, int] | None:
        if self._text[at] != "[":
            return None
        starts = self._items.setdefault(at, [_after_blanks(self._text, at + 1)])
        while len(starts) <= wanted and self._text[starts[-1]] != "]":
            starts.append(self._next(starts[-1]))
        if len(starts) <= wanted or self._text[starts[wanted]] == "]":
            return None
        return starts[wanted], starts[wanted]

    def _next(self, at: int) -> int:
        """Return where the next item or key starts, or the bracket that closes the collection."""
        _, end = _DECODER.raw_decode(self._text, at)
        end = _after_blanks(self._text, end)
        return _after_blanks(self._text, end + 1) if self._text[end] == "," else end


class _UnacceptableError(ValueError):
    """Well-formed JSON that is refused nevertheless."""


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise _UnacceptableError("a key is set twice")
    return mapping


def _refuse_constant(word: str) -> NoReturn:
    raise _UnacceptableError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_distinct_keys,
    parse_int=json_number,
    parse_float=json_number,
    parse_constant=_refuse_constant,
)


def _check_count(text: str, name: str) -> None:
    """Refuse what would take too much memory, by an upper limit of the number of values."""
    if text.count(",") + text.count("{") + text.count("[") <= limits.MAX_JSON_VALUES:
        return
    depth = 0
    for found in _TOKEN.finditer(text, 0, _A_GLANCE):
        depth += (found.group() in "{[") - (found.group() in "}]")
        if depth > limits.MAX_DEPTH:  # for mere brackets, the depth is the clearer error
            raise ManifestError(name, *position(text, found.start()), limits.too_deep())
    line, _ = position(text, len(text))
    raise ManifestError(name, line, None, limits.too_many_values(limits.MAX_JSON_VALUES))


def _check_depth(text: str) -> None:
    """Refuse deep nesting, by the brackets of valid JSON.

    Empty pairs are removed repeatedly; the number of rounds is the depth.
    """
    if "\\" in text:
        text = text.replace("\\\\", "").replace('\\"', "")
    brackets = text.encode("utf-8", "surrogatepass").translate(_ONE_KIND, _NO_BRACKETS)
    # Adjacent quotes are an empty string, or end one string and begin the next; both can go
    brackets = b"".join(brackets.replace(b'""', b"").split(b'"')[::2])
    for _ in range(limits.MAX_DEPTH):
        if not brackets:
            return
        brackets = brackets.replace(b"{}", b"")
    if brackets:
        raise _UnacceptableError(limits.too_deep())


def _check_tokens(text: str, name: str) -> None:
    """Find the first value in well-formed JSON that is refused, with its position."""
    open_keys: list[dict[str, int]] = []  # for each open collection, the positions of its keys
    last = ""
    last_at = 0
    for found in _TOKEN.finditer(text):
        lexeme, at = found.group(), found.start()
        problem = None
        if lexeme in "{[":
            open_keys.append({})
            problem = limits.too_deep() if len(open_keys) > limits.MAX_DEPTH else None
        elif lexeme in "}]":
            open_keys.pop()
        elif lexeme == ":":
            at = last_at
            problem = _repeated(last, at, open_keys[-1], text)
        elif lexeme != ",":
            problem = _scalar_problem(lexeme)
        if problem:
            raise ManifestError(name, *position(text, at), problem)
        last, last_at = lexeme, found.start()


def _repeated(lexeme: str, at: int, keys: dict[str, int], text: str) -> str | None:
    key = json.loads(lexeme)
    first = keys.setdefault(key, at)
    if first == at:
        return None
    line, _ = position(text, first)
    return f"the key `{key}` is already set on line {line}; keep one of them"


def _scalar_problem(lexeme: str) -> str | None:
    if lexeme.startswith('"'):
        if _LONE_SURROGATE.search(json.loads(lexeme)):
            return "the text holds half of a UTF-16 surrogate pair, which is no character"
        return None
    if lexeme in ("true", "false", "null"):
        return None
    if lexeme in ("NaN", "Infinity", "-Infinity"):
        return f"{lexeme} is not a number that JSON can carry"
    try:
        json_number(lexeme)
    except ScalarError as error:
        return str(error)
    except ValueError:
        return "a value is expected here, and this is none that JSON knows"
    return None


def _after_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    assert blanks is not None  # it matches the empty text
    return blanks.end()
