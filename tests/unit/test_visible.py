"""What is not seen is spelled out, and only that."""

import json
import sys
import unicodedata

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from karpenter.manifests.reader import read
from karpenter.manifests.writer import dump
from karpenter.visible import has_hidden, in_json, visible, visible_lines

HIDDEN = [
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
]
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(HIDDEN)), max_size=30)
WITHOUT_HALVES = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from([each for each in HIDDEN if unicodedata.category(each) != "Cs"]),
    ),
    max_size=30,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a\x1b[2Jb", r"a\x1b[2Jb", id="a terminal's escape"),
        pytest.param("a\x9b2Jb", r"a\x9b2Jb", id="the same in one character"),
        pytest.param("a\r\nb\tc", r"a\x0d\x0ab\x09c", id="ends of lines and tabs"),
        pytest.param("a\u202eb\u2066", r"a\u202eb\u2066", id="text that reads backwards"),
        pytest.param("a\u200bb\ufeff", r"a\u200bb\ufeff", id="characters without width"),
        pytest.param("a\u2028b", r"a\u2028b", id="an odd end of a line"),
        pytest.param("a\U000e0041", r"a\U000e0041", id="a tag"),
        pytest.param("a\U000e0100", r"a\U000e0100", id="one that Python finds printable"),
        pytest.param("a\ud800", r"a\ud800", id="half a character"),
        pytest.param("größe 日本 😀 e\u0301\u00a0", "größe 日本 😀 e\u0301\u00a0", id="words"),
    ],
)
def test_what_is_not_seen_is_spelled_out(text: str, shown: str) -> None:
    assert shown == visible(text)


def test_nothing_of_unicode_that_is_not_seen_is_left() -> None:
    kept = [char for char in HIDDEN if visible(char) == char]
    kept_in_lines = [char for char in HIDDEN if visible_lines(char) == char]

    assert [] == kept
    assert ["\t", "\n"] == kept_in_lines


@given(TEXTS)
def test_what_is_shown_holds_nothing_hidden(text: str) -> None:
    assert not has_hidden(visible_lines(text))
    assert not {*visible(text)} & {*HIDDEN}
    assert visible(visible(text)) == visible(text)


@given(st.dictionaries(TEXTS, TEXTS))
def test_json_says_the_same(content: dict[str, str]) -> None:
    shown = in_json(json.dumps(content, ensure_ascii=False, indent=2))

    assert content == json.loads(shown)
    assert not has_hidden(shown)


@given(st.dictionaries(WITHOUT_HALVES, WITHOUT_HALVES))
def test_yaml_says_the_same(content: dict[str, str]) -> None:
    shown = dump({"a": content})

    assert {"a": content} == yaml.safe_load(shown)
    assert [{"a": content}] == [document.data for document in read(shown.encode(), "f")]
    assert not has_hidden(shown)
