"""Documents come apart in order, and each knows the line of every field."""

import json
from typing import Any

import pytest

from karpenter.manifests.positions import Path
from karpenter.manifests.reader import read

LIST = """\
# a comment
apiVersion: v1
kind: List
items:
- apiVersion: karpenter.sh/v1
  kind: NodePool
  metadata: {name: a}
- apiVersion: v1
  kind: List
  items:
  - kind: Inner
    metadata:
      name: b
---
kind: Last
"""

POOL = """\
# NodePool of the web team

---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: web
spec:
  template:
    spec:
      requirements:
      - key: a
        values: [x,
          y]
      - {key: b,
         operator: Exists}
  8080: port
  text: |
    spec:
      nothing: here
  after: 1
"""


def objects(text: str, name: str = "file.yaml") -> list[dict[str, Any]]:
    return [document.data for document in read(text.encode(), name)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}], id="--- between documents"),
        pytest.param("a: 1\n...\n---\nb: 2\n...\n", [{"a": 1}, {"b": 2}], id="... ends one"),
        pytest.param("---\na: 1\n--- # next\nb: 2\n", [{"a": 1}, {"b": 2}], id="a first ---"),
        pytest.param("---\n---\na: 1\n---\n# no more\n", [{"a": 1}], id="empty ones left out"),
        pytest.param("a: 1\r\n---\r\nb: 2\r\n", [{"a": 1}, {"b": 2}], id="CRLF"),
        pytest.param('{"a": 1}\n{"b": 2}\n', [{"a": 1}, {"b": 2}], id="JSON after JSON"),
        pytest.param('{"a": 1}\n---\n{"b": 2}\n', [{"a": 1}, {"b": 2}], id="--- between JSON"),
        pytest.param("{a: 1, b: [x]}\n", [{"a": 1, "b": ["x"]}], id="flow style"),
        pytest.param('{"a": 1,}\n', [{"a": 1}], id="a trailing comma is YAML"),
        pytest.param("{}", [{}], id="an empty object"),
    ],
)
def test_documents_of_a_file(text: str, expected: list[dict[str, Any]]) -> None:
    assert expected == objects(text)


def test_documents_are_counted_through_the_file() -> None:
    indices = [document.index for document in read(LIST.encode(), "file.yaml")]

    assert indices == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: &x [1, 2]\nb: *x\n", {"a": [1, 2], "b": [1, 2]}, id="an alias of a list"),
        pytest.param("a: &k key\n*k : 1\n", {"a": "key", "key": 1}, id="an alias as a key"),
        pytest.param("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}, id="a later anchor"),
        pytest.param(
            "base: &x {a: 1, b: 2}\nc:\n  b: 3\n  <<: *x\n",
            {"base": {"a": 1, "b": 2}, "c": {"b": 3, "a": 1}},
            id="merging gives way to what is written",
        ),
        pytest.param(
            "p: &p {a: 1}\nq: &q {a: 2, b: 2}\nc: {<<: [*p, *q], d: 4}\n",
            {"p": {"a": 1}, "q": {"a": 2, "b": 2}, "c": {"d": 4, "a": 1, "b": 2}},
            id="the first of several merged wins",
        ),
        pytest.param('"<<": 1\n', {"<<": 1}, id="a quoted merge key is a key"),
        pytest.param(
            "a: &x\n  b: &y {c: 1}\nd: *x\ne: *y\n",
            {"a": {"b": {"c": 1}}, "d": {"b": {"c": 1}}, "e": {"c": 1}},
            id="an anchor in an anchor",
        ),
    ],
)
def test_anchors_and_merge_keys(text: str, expected: dict[str, Any]) -> None:
    assert [expected] == objects(text)


def test_what_an_alias_repeats_is_a_copy() -> None:
    (data,) = objects("a: &x {b: [1]}\nc: *x\n")

    data["a"]["b"].append(2)

    assert data["c"] == {"b": [1]}


def test_lists_are_taken_apart_however_deep() -> None:
    expected = [
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}},
        {"kind": "Inner", "metadata": {"name": "b"}},
        {"kind": "Last"},
    ]

    assert expected == objects(LIST)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            {"apiVersion": "karpenter.sh/v1", "kind": "NodePoolList", "items": [{"spec": {}}]},
            [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {}}],
            id="the items of a typed list get its kind",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "PodList", "items": [{"kind": "Other"}]},
            [{"apiVersion": "v1", "kind": "Other"}],
            id="an item keeps a kind of its own",
        ),
        pytest.param({"apiVersion": "v1", "kind": "List", "items": []}, [], id="no items"),
        pytest.param({"apiVersion": "v1", "kind": "List", "items": None}, [], id="null items"),
        pytest.param({"apiVersion": "v1", "kind": "List"}, [], id="items left out"),
        pytest.param(
            {"kind": "AllowList", "spec": {}},
            [{"kind": "AllowList", "spec": {}}],
            id="a kind that only sounds like a list",
        ),
    ],
)
@pytest.mark.parametrize("name", ["file.json", "file.yaml"])
def test_kinds_of_lists(data: dict[str, Any], expected: list[dict[str, Any]], name: str) -> None:
    assert expected == objects(json.dumps(data), name)


def test_items_that_are_no_list_are_refused() -> None:
    with pytest.raises(Exception, match=r"^f:3: the items of a List must be a list$"):
        read(b"apiVersion: v1\nkind: List\nitems: {}\n", "f")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 4),
        (("apiVersion",), 4),
        (("metadata",), 6),
        (("metadata", "name"), 7),
        (("metadata", "labels", "a"), 6),
        (("spec", "template", "spec", "requirements"), 11),
        (("spec", "template", "spec", "requirements", 0), 12),
        (("spec", "template", "spec", "requirements", 0, "values", 1), 14),
        (("spec", "template", "spec", "requirements", 1), 15),
        (("spec", "template", "spec", "requirements", 1, "operator"), 16),
        (("spec", "template", "spec", "requirements", 2), 11),
        (("spec", "8080"), 17),
        (("spec", "text", "nothing"), 18),
        (("spec", "after"), 21),
        (("status",), 4),
    ],
)
def test_line_of_a_field_in_yaml(path: Path, line: int) -> None:
    (document,) = read(POOL.encode(), "pool.yaml")

    assert line == document.line(path)


def test_lines_of_a_second_document_and_of_list_items() -> None:
    first, inner, last = read(LIST.encode(), "file.yaml")

    assert [first.line(()), first.line(("kind",)), first.line(("metadata", "name"))] == [5, 6, 7]
    assert [inner.line(()), inner.line(("metadata", "name"))] == [11, 13]
    assert [last.line(("kind",))] == [15]


def test_the_line_of_an_aliased_field_is_that_of_the_alias() -> None:
    (document,) = read(b"a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n  e: 1\n", "file.yaml")

    assert [document.line(("c", "b")), document.line(("d", "b"))] == [3, 4]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 2),
        (("metadata",), 4),
        (("metadata", "name"), 5),
        (("metadata", "nothing"), 4),
        (("spec", "taints", 0), 8),
        (("spec", "taints", 1, "key"), 11),
        (("spec", "taints", 2), 7),
        (("spec", "taints", "key"), 7),
        (("spec", "empty", 0), 12),
        (("kind", "x"), 3),
    ],
)
def test_line_of_a_field_in_json(path: Path, line: int) -> None:
    text = """
{
  "kind": "NodePool",
  "metadata": {
    "name": "a,{[\\"}"
  },
  "spec": {"taints": [
      {"key": "x"},
      {
        "effect": "NoSchedule",
        "key" : "y"}],
    "empty": []}
}
"""
    (document,) = read(text.encode(), "file.json")

    assert line == document.line(path)


def test_lines_of_the_items_of_a_json_list_in_any_order() -> None:
    items = [{"kind": "A", "metadata": {"name": str(i)}} for i in range(5)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
    documents = read(text.encode(), "file.json")

    lines = [documents[i].line(("kind",)) for i in (3, 0, 4, 1)]

    assert [text.splitlines().index('   "kind": "A",') + 1 + 6 * i for i in (3, 0, 4, 1)] == lines
