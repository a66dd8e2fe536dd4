"""Whatever the bytes, reading ends in objects or in one ``ManifestError``; and writing inverts it."""

import json
import math
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from karpenter.manifests import limits
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import Document, read
from karpenter.manifests.writer import dump

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def objects(largest_character: int = 0x10FFFF) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects of any shape; a surrogate is no character and cannot be encoded."""
    characters = st.characters(max_codepoint=largest_character, exclude_categories=["Cs"])
    texts = st.text(characters, max_size=20)
    values = st.recursive(
        st.none() | st.booleans() | numbers | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )
    return st.dictionaries(texts, values, max_size=4).filter(lambda data: not is_list(data))


# Pieces that YAML gives a meaning to, so that random text gets past the first line.
WORDS = "a b c v1 kind List items apiVersion 1 0x1F 1e999 .inf ~ yes *x &x << !!int !!binary !Foo"
SIGNS = "- : ? , [ ] { } {{ }} | > & * ! % @ ` # ' \" \\ ... ---"
BREAKS = [
    "\n",
    "\n  ",
    "\n    ",
    "\n- ",
    "\n---\n",
    "\r\n",
    ": ",
    " ",
    "\t",
    "\x85",
    "\u2028",
    "é🚀",
]
pieces = st.sampled_from([*WORDS.split(), *SIGNS.split(), *BREAKS])
yaml_like = st.lists(pieces, max_size=40).map("".join)


def is_list(data: dict[str, Any]) -> bool:
    """Whether the reader would take the object apart."""
    return str(data.get("kind", "")).endswith("List")


def as_json_has_it(value: Any) -> Any:
    """Whole floats are whole numbers once they have been through JSON."""
    if isinstance(value, dict):
        return {key: as_json_has_it(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_json_has_it(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and math.fabs(value) < 2**63:
        return int(value)
    return value


def read_or_refuse(data: bytes, name: str) -> list[Document]:
    refused = ""
    try:
        return read(data, name)
    except ManifestError as error:
        refused = str(error)
    assert [refused] == refused.splitlines()
    assert refused.startswith(name)
    return []


def paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += paths(inner, (*path, index))
    return found


@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00\xd8")
@example(b"{\xef\xbb\xbf")
def test_any_bytes(data: bytes) -> None:
    for document in read_or_refuse(data, "file"):
        assert isinstance(document.data, dict)


@given(yaml_like)
@example("a: !!binary \u00e9")
@example('{"a": 1}\n12')
@example("? [a]\n: b")
@example("!!int\r\na\u2028a")
def test_anything_like_yaml(text: str) -> None:
    lines = len(text.splitlines())

    for document in read_or_refuse(text.encode(), "file"):
        assert all(1 <= document.line(path) <= lines for path in paths(document.data))


@given(st.text('{}[],:"\\ -+.eE0123456789truefalsn\n', max_size=60).map(lambda text: "{" + text))
def test_anything_like_json(text: str) -> None:
    for document in read_or_refuse(text.encode(), "file.json"):
        assert document.data == as_json_has_it(json.loads(text))


@given(objects(), st.sampled_from([None, 2]), st.booleans())
def test_json_reads_as_it_was_written(
    data: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)

    (document,) = read(text.encode(), "file.json")

    assert as_json_has_it(data) == document.data


# YAML has no surrogate pairs in escapes, which JSON needs beyond the first 65,536 characters.
def depth_of(value: Any) -> int:
    inner = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(objects(), st.sampled_from([None, 2]), st.booleans())
@example({'"': ["\\", '\\"', {"}": "[{"}], "": ["\n]"]}, None, False)
def test_json_may_be_nested_as_deep_as_the_limit_and_no_deeper(
    data: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only).encode()

    with patch.object(limits, "MAX_DEPTH", depth_of(data)):
        read(text, "deep.json")
    with (
        patch.object(limits, "MAX_DEPTH", depth_of(data) - 1),
        pytest.raises(ManifestError, match="levels deep"),
    ):
        read(text, "deep.json")


@given(objects(largest_character=0xFFFF).filter(bool))
def test_json_is_yaml_with_the_same_lines(data: dict[str, Any]) -> None:
    text = json.dumps(data, indent=1)
    (as_json,) = read(text.encode(), "file.json")
    (as_yaml,) = read(f"---\n{text}".encode(), "file.yaml")

    assert as_json.data == as_yaml.data
    for path in paths(as_json.data):
        assert as_json.line(path) + 1 == as_yaml.line(path)


@given(objects())
@example({"\U000e0100": None})  # hidden, although Python finds it printable
def test_what_is_written_reads_the_same(data: dict[str, Any]) -> None:
    (document,) = read(dump(data).encode(), "file.yaml")

    assert as_json_has_it(data) == document.data


@given(objects(), st.booleans())
def test_what_pyyaml_writes_reads_the_same(data: dict[str, Any], flow: bool) -> None:
    quoted = yaml.safe_dump(data, default_style='"', default_flow_style=flow, allow_unicode=True)

    (document,) = read(quoted.encode(), "file.yaml")

    assert as_json_has_it(data) == document.data
