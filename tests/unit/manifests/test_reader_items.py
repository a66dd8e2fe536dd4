"""A List in JSON is split into items that say what plain reading says, or left to plain reading."""

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karpenter.manifests import jsonitems, limits
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read

texts = st.text(max_size=12) | st.sampled_from(
    ['"', "\\", '\\"', "{", "]", "kind", "items", "List"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts | st.sampled_from(["apiVersion", "kind"]), values, max_size=4)
# Pieces of JSON, put where they may not stand, or may
PIECES = '" { } [ ] , : \\ \\" 1 1.0 1e999 "a":1, "kind":"x", "items":[], \\ud800 \t \n \x00 é null'


def outcome(data: bytes) -> tuple[list[tuple[str, Any, Any]], str]:
    """What was read, with the lines of the objects, and what was said; numbers with their types."""
    try:
        found = read(data, "in.json")
    except ManifestError as error:
        return [], str(error)
    return [(repr(each.data), each.line(), each.index) for each in found], ""


def plain_outcome(data: bytes) -> tuple[list[tuple[str, Any, Any]], str]:
    with patch.object(jsonitems, "split", return_value=None):
        return outcome(data)


def listed(*items: str, rest: str = '"kind": "List", "apiVersion": "v1"') -> bytes:
    return f'{{{rest}, "items": [{", ".join(items)}]}}'.encode("utf-8", "surrogatepass")


@given(st.lists(objects, max_size=4), st.sampled_from(["List", "PodList"]), st.booleans())
def test_items_are_what_plain_reading_makes_of_them(
    items: list[dict[str, Any]], kind: str, ascii_only: bool
) -> None:
    envelope = {"apiVersion": "v1", "kind": kind, "metadata": {}, "items": items}
    text = json.dumps(envelope, ensure_ascii=ascii_only, indent=1)
    data = text.encode("utf-8", "surrogatepass")

    assert plain_outcome(data) == outcome(data)


@given(st.lists(objects, min_size=1, max_size=3), st.data())
def test_spoilt_text_is_refused_in_the_same_words(
    items: list[dict[str, Any]], data: st.DataObject
) -> None:
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
    at = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(at, min(len(text), at + 3)))
    spoilt = text[:at] + data.draw(st.sampled_from(PIECES.split(" "))) + text[end:]
    written = spoilt.encode("utf-8", "surrogatepass")

    assert plain_outcome(written) == outcome(written)


@pytest.mark.parametrize(
    "item",
    [
        pytest.param('{"a": 1, "a": 1}', id="a key twice"),
        pytest.param('{"a": {"b": [{"c": 1, "c": {}}]}}', id="a key twice, deep inside"),
        pytest.param('{"a": 1, "\\u0061": 1}', id="a key twice, once escaped"),
        pytest.param('{"a": 18446744073709551616}', id="beyond 64 bits"),
        pytest.param('{"a": "18446744073709551616"}', id="a text of as many digits"),
        pytest.param('{"a": 1.0, "b": 1e2, "c": -0.0}', id="whole numbers in disguise"),
        pytest.param('{"a": 1e999}', id="beyond every number"),
        pytest.param('{"a": NaN}', id="no number"),
        pytest.param('{"a": "\\ud800"}', id="half a character"),
        pytest.param('{"a": "\\"{[\\\\"}', id="brackets and quotes in a text"),
        pytest.param('{"kind": "List", "apiVersion": "v1", "items": []}', id="a List in a List"),
        pytest.param("1", id="no object"),
        pytest.param('{"a": ' + "[" * 97 + "]" * 97 + "}", id="as deep as may be"),
        pytest.param('{"a": ' + "[" * 98 + "]" * 98 + "}", id="a level deeper"),
        pytest.param('{"a": ' + "[" * 5000 + "]" * 5000 + "}", id="too deep for any decoder"),
    ],
)
def test_odd_items_are_read_or_refused_as_ever(item: str) -> None:
    for data in (listed(item), listed('{"b": 1}', item, '{"c": "\\\\"}')):
        assert plain_outcome(data) == outcome(data)


@pytest.mark.parametrize(
    "rest",
    [
        '"kind": "List", "apiVersion": "v1", "items": []',
        '"kind": "List", "apiVersion": "v1", "kind": "List"',
        '"kind": "List", "apiVersion": "v1", "metadata": {"a": 1, "a": 1}',
        '"kind": "List", "apiVersion": "v1", "extra": 1',
        '"kind": "List", "apiVersion": "v2"',
        '"kind": "PodList"',
        '"kind": "Pod", "apiVersion": "v1"',
        '"kind": 1, "apiVersion": "v1"',
    ],
)
def test_odd_lists_are_read_or_refused_as_ever(rest: str) -> None:
    data = listed('{"a": 1}', rest=rest)

    assert plain_outcome(data) == outcome(data)


def test_too_many_values_are_refused_as_ever() -> None:
    data = listed(*['{"a": [1, 2, 3]}'] * 20)
    with patch.object(limits, "MAX_JSON_VALUES", 50):
        assert "holds more than 50 values" in outcome(data)[1]
        assert plain_outcome(data) == outcome(data)


def test_an_ordinary_list_is_split() -> None:
    found = jsonitems.split(listed('{"apiVersion": "v1", "kind": "Pod", "x": "\\\\\\""}', "{}"))

    assert found is not None
    assert [("v1", "Pod"), (None, None)] == [(i.api_version, i.kind) for i in found.items]
    assert [{"apiVersion": "v1", "kind": "Pod", "x": '\\"'}, {}] == [i.value for i in found.items]


def test_the_text_of_more_than_one_chunk_and_slice_is_counted_right() -> None:
    data = listed(*['{"a\\"": "\\\\", "b": "\\\\\\""}'] * 30)
    for size in range(1, 12):
        with patch.object(jsonitems, "_SLICE", size), patch.object(jsonitems, "_CHUNK", size):
            found = jsonitems.split(data)

        assert found is not None
        assert 30 == len(found.items)
