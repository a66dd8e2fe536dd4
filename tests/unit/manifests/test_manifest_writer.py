"""Written YAML is plain to read, and every reader takes it for the same values."""

from typing import Any

import pytest
import yaml

from karpenter.manifests.reader import read
from karpenter.manifests.writer import dump


def test_the_style_is_that_of_manifests() -> None:
    data = {
        "kind": "NodePool",
        "metadata": {"name": "a", "labels": {}},
        "spec": {"list": [{"key": "x", "values": ["1", "y"]}], "none": [], "text": "a\nb\n"},
    }

    expected = """\
kind: NodePool
metadata:
  name: a
  labels: {}
spec:
  list:
  - key: x
    values:
    - "1"
    - "y"
  none: []
  text: |
    a
    b
"""
    assert expected == dump(data)


@pytest.mark.parametrize(
    "text",
    ["yes", "n", "~", "", "null", "1e3", "0o17", "08", "1_000", ".5", ".inf", "0x1F", "true"],
)
def test_text_that_kubernetes_would_take_for_something_else_is_quoted(text: str) -> None:
    assert f'a: "{text}"\n' == dump({"a": text})


@pytest.mark.parametrize(
    "value",
    [
        "2024-01-01",
        "12:30",
        "100m",
        "a: b",
        "- a",
        "#x",
        "a #x",
        " lead",
        "trail ",
        "tab\there",
        "two\nlines",
        "two\nlines\n",
        "more\n\n\n",
        "\n",
        "  indented\n    more\n",
        "trailing space \nnext\n",
        "\ttab first\nnext\n",
        "x" * 300 + " " + "y" * 300,
        "Zürich 🚀 京都",
        "\x00\x1b\x7f\x85\u2028\ufeff",
        "{{ x }}",
        "*x",
        "&x",
        "!x",
        "%x",
        "@x",
        "`x`",
        "<<",
        "=",
        "---",
        "...",
        "'",
        '"',
        "\\",
        1,
        1.5,
        1e30,
        True,
        None,
        [[], {}, [[1]], {"a": []}],
    ],
)
def test_what_is_written_reads_the_same(value: Any) -> None:
    text = dump({"key": value, "list": [value]})

    expected = {"key": value, "list": [value]}
    assert expected == yaml.safe_load(text)
    assert [expected] == [document.data for document in read(text.encode(), "f")]


def test_a_value_that_occurs_twice_is_written_twice() -> None:
    shared = {"a": [1]}

    text = dump({"one": shared, "two": shared})

    assert text == "one:\n  a:\n  - 1\ntwo:\n  a:\n  - 1\n"
