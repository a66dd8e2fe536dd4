"""The items of a List in JSON, decoded lazily.

A dump of a cluster is one List of ten thousands of objects. All of its text is read here, but only
the text of each item is kept, not its values: a wire model can be decoded from the text, and the
values of an item, which take several times the memory, are needed only where it has a problem.

Nothing is refused here. A text that is anything but an ordinary List, that sets a key twice or
nests too deeply, is left to ``jsontext``, which reports what is wrong and where.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from karpenter.manifests import limits
from karpenter.manifests.scalars import ScalarError, json_number

_OBJECT_FIRST: Final = re.compile(rb"[ \t\r\n]*(?=\{)")
# The first fields of an object as API servers and kubectl write it
_USUAL_HEAD: Final = re.compile(
    rb'\{\s*"apiVersion":\s*"([a-z0-9./]+)",\s*"kind":\s*"([A-Za-z0-9]+)"\s*[,}]'
)
# Both are small enough for the CPU caches
_CHUNK: Final = 20  # items whose values are in memory at a time
_SLICE: Final = 2**18  # bytes that are searched at a time
_AROUND: Final = 2  # levels that the List and its list of items add to those of an item
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * 19  # an integer with fewer digits fits into 64 bits
_ONE_KIND: Final = bytes.maketrans(b"[]", b"{}")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'{}[]"'))

Decode: TypeAlias = Callable[[msgspec.Raw], Any]


class Item(msgspec.Struct, frozen=True, gc=False):
    """The text of one object in a List.

    ``common`` holds the fields that a typed list states once for all of its items. msgspec decodes
    ``1.0`` to a float, the reader of manifests to the integer 1; so ``has_fractions`` records
    whether there is a number with a fraction or an exponent. ``made`` is the maker's result.
    """

    text: msgspec.Raw
    common: Mapping[str, Any]
    api_version: object
    kind: object
    has_fractions: bool
    made: object = None

    @property
    def value(self) -> dict[str, Any]:
        """The object as plain values, decoded again at each access."""
        return {**self.common, **_decode(self.text)}


class KindMaker(Protocol):
    """Makes results of the objects of one kind, from a type that holds all of their fields."""

    @property
    def decode(self) -> Decode:
        """Decodes the text of an object to a value that encodes to equivalent text.

        It may raise any error of msgspec; the object is then read into plain values.
        """

    def made(self, text: msgspec.Raw, value: Any) -> object:
        """Return the result for an object, from its text and the decoded value."""


class Maker(Protocol):
    """Makes results of objects while they are read."""

    def of_kind(self, api_version: object, kind: object) -> KindMaker | None:
        """Return the maker for a kind, or None."""


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a List, and where in the text the List starts."""

    start: int
    items: list[Item]


def split(data: bytes, maker: Maker | None = None) -> Items | None:
    """Return the items of a text that is one JSON List of objects; None for any other text."""
    start = _OBJECT_FIRST.match(data)
    if start is None:
        return None
    try:
        items = list(_Reading(maker).items(data))
    except (_NotOrdinaryError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    except (OverflowError, ScalarError):  # a number beyond 64 bits, or beyond every bound
        return None
    return Items(start.end(), items)


def common_of(api_version: object, kind: object) -> dict[str, Any] | None:
    """Return the fields that a List states for all of its items; None if it is not a List."""
    if kind == "List" and api_version == "v1":
        return {}
    if not (isinstance(kind, str) and kind.endswith("List")):
        return None
    # In a typed list the API server omits apiVersion and kind of the items.
    return {"apiVersion": api_version, "kind": kind.removesuffix("List")}


class _Head(msgspec.Struct, rename="camel", gc=False):
    """The apiVersion and kind of an object, which may be of any type."""

    api_version: Any = msgspec.UNSET
    kind: Any = msgspec.UNSET


class _Envelope(_Head, forbid_unknown_fields=True, kw_only=True, gc=False):
    items: list[msgspec.Raw]
    metadata: Any = msgspec.UNSET


class _NotOrdinaryError(ValueError):
    """The text has to be read by ``jsontext``."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """The apiVersion and kind of items, with their maker."""

    api_version: object
    kind: object
    maker: KindMaker | None


class _Decoded(msgspec.Struct, frozen=True, gc=False):
    """One item, and a value that encodes to equivalent text."""

    text: msgspec.Raw
    kind: _Kind
    value: Any
    is_typed: bool = True
    has_fractions: bool = False


class _Reading:
    """One pass over one List."""

    def __init__(self, maker: Maker | None) -> None:
        self._maker = maker
        self._common: Mapping[str, Any] = {}
        self._kinds: dict[bytes, _Kind] = {}  # by what their texts begin with
        self._quotes = 0  # quotes in the encoded values
        self._count = 0  # a lower limit of the number of values
        self._fractions = 0  # numbers with a fraction or an exponent, so far
        self._decode_any = msgspec.json.Decoder(float_hook=self._number).decode

    def items(self, data: bytes) -> Iterator[Item]:
        envelope = _ENVELOPES.decode(data)
        common = common_of(_stated(envelope.api_version), _stated(envelope.kind))
        if common is None:
            raise _NotOrdinaryError
        self._common = common
        texts, envelope.items = envelope.items, []
        self._check([envelope], limits.MAX_DEPTH)
        for first in range(0, len(texts), _CHUNK):
            found = [self._decoded(text) for text in texts[first : first + _CHUNK]]
            self._check([each.value for each in found], limits.MAX_DEPTH - _AROUND)
            for each in found:
                yield self._item(each)
        # A key that is set twice is in the text twice and in the values once, so the counts differ
        if self._quotes != sum(map(_quotes, _slices(data))):
            raise _NotOrdinaryError

    def _decoded(self, text: msgspec.Raw) -> _Decoded:
        kind = self._kind(text)
        if kind.maker is not None:
            try:
                return _Decoded(text, kind, kind.maker.decode(text))
            except (ValueError, RecursionError):
                pass  # decoded without a type below
        before = self._fractions
        value = self._decode_any(text)
        if type(value) is not dict:
            raise _NotOrdinaryError
        has_fractions = self._fractions > before
        return _Decoded(text, kind, value, is_typed=False, has_fractions=has_fractions)

    def _kind(self, text: msgspec.Raw) -> _Kind:
        usual = _USUAL_HEAD.match(text)
        if usual is None:
            head = _HEADS.decode(text)
            return self._kind_of(head.api_version, head.kind)
        known = self._kinds.get(usual[0])
        if known is None:
            known = self._kinds[usual[0]] = self._kind_of(usual[1].decode(), usual[2].decode())
        return known

    def _kind_of(self, api_version: object, kind: object) -> _Kind:
        if api_version is msgspec.UNSET:
            api_version = self._common.get("apiVersion")
        if kind is msgspec.UNSET:
            kind = self._common.get("kind")
        if common_of(api_version, kind) is not None:
            raise _NotOrdinaryError  # a List in a List
        maker = None if self._maker is None else self._maker.of_kind(api_version, kind)
        return _Kind(api_version, kind, maker)

    def _number(self, text: str) -> int | float:
        self._fractions += 1
        return json_number(text)

    def _check(self, values: Sequence[Any], levels: int) -> None:
        """Refuse what ``jsontext`` refuses, except for keys that are set twice."""
        written = _encode(values)
        brackets = _without_escapes(written).translate(_ONE_KIND, _NO_BRACKETS)
        self._count += written.count(b",") + brackets.count(b"{")
        if self._count > limits.MAX_JSON_VALUES:
            raise _NotOrdinaryError
        if _LONG_NUMBER in written.translate(_DIGITS):
            _pack(values)  # raises an OverflowError if the digits are a number beyond 64 bits
        self._quotes += brackets.count(b'"')
        # Adjacent quotes are an empty string, or end one string and begin the next; both can go
        brackets = b"".join(brackets.replace(b'""', b"").split(b'"')[::2])
        for _ in range(levels + 1):  # one for the sequence of values
            if not brackets:
                return
            brackets = brackets.replace(b"{}", b"")
        if brackets:
            raise _NotOrdinaryError

    def _item(self, found: _Decoded) -> Item:
        kind, made = found.kind, None
        if found.is_typed and kind.maker is not None:
            made = kind.maker.made(found.text, found.value)
        return Item(
            found.text, self._common, kind.api_version, kind.kind, found.has_fractions, made
        )


def _stated(value: object) -> object:
    return None if value is msgspec.UNSET else value


def _slices(data: bytes) -> Iterator[bytes]:
    """Yield a text in pieces without splitting an escape."""
    at = 0
    while at < len(data):
        end = at + _SLICE
        while data[end - 1 : end] == b"\\":
            end += 1
        yield data[at:end]
        at = end


def _quotes(text: bytes) -> int:
    """Count the quotes around the texts in a piece of well-formed JSON."""
    return _without_escapes(text).count(b'"')


def _without_escapes(text: bytes) -> bytes:
    return text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text


_encode: Final = msgspec.json.Encoder().encode
_pack: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.json.Decoder(float_hook=json_number).decode
_ENVELOPES: Final = msgspec.json.Decoder(_Envelope)
_HEADS: Final = msgspec.json.Decoder(_Head)
