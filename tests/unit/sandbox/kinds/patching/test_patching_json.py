"""JSON patches do what RFC 6902 says, and are refused as an API server refuses them."""

import copy
from typing import Any

import pytest

from karpenter_sandbox.kinds.patching.errors import PatchError
from karpenter_sandbox.kinds.patching.json_patch import apply_json_patch

JsonObject = dict[str, Any]
DOCUMENT: JsonObject = {
    "metadata": {"labels": {"a/b": "1", "c~d": "2"}},
    "spec": {"list": ["x", "y"], "nothing": None, "deep": [{"n": 1}]},
}


def patched(*operations: JsonObject) -> JsonObject:
    return apply_json_patch(DOCUMENT, list(operations))


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param({"op": "add", "path": "/spec/list/1", "value": 1}, ["x", 1, "y"], id="insert"),
        pytest.param({"op": "add", "path": "/spec/list/-", "value": 1}, ["x", "y", 1], id="append"),
        pytest.param(
            {"op": "add", "path": "/spec/list/2", "value": 1}, ["x", "y", 1], id="at the end"
        ),
        pytest.param(
            {"op": "add", "path": "/spec/list/-1", "value": 1},
            ["x", "y", 1],
            id="at the end, counted backwards",
        ),
        pytest.param({"op": "remove", "path": "/spec/list/0"}, ["y"], id="remove an item"),
        pytest.param({"op": "remove", "path": "/spec/list/-1"}, ["x"], id="remove the last"),
        pytest.param(
            {"op": "replace", "path": "/spec/list/0", "value": "z"}, ["z", "y"], id="replace"
        ),
        pytest.param({"op": "replace", "path": "/spec/list", "value": []}, [], id="replace a list"),
        pytest.param({"op": "add", "path": "/spec/list", "value": [1]}, [1], id="add over a field"),
        pytest.param(
            {"op": "copy", "from": "/spec/deep/0/n", "path": "/spec/list/0"},
            [1, "x", "y"],
            id="copy",
        ),
        pytest.param(
            {"op": "move", "from": "/spec/list/0", "path": "/spec/list/1"}, ["y", "x"], id="move"
        ),
    ],
)
def test_operations(operation: JsonObject, expected: list[Any]) -> None:
    before = copy.deepcopy(DOCUMENT)

    result = patched(operation)

    assert expected == result["spec"]["list"]
    assert before == DOCUMENT


def test_removing_a_field() -> None:
    assert {"metadata": DOCUMENT["metadata"]} == patched({"op": "remove", "path": "/spec"})


def test_replacing_what_is_not_there_adds_it() -> None:
    spec = patched({"op": "replace", "path": "/spec/new", "value": 1})["spec"]

    assert 1 == spec["new"]


def test_escaped_names() -> None:
    labels = patched(
        {"op": "replace", "path": "/metadata/labels/a~1b", "value": "x"},
        {"op": "replace", "path": "/metadata/labels/c~0d", "value": "y"},
    )["metadata"]["labels"]

    assert {"a/b": "x", "c~d": "y"} == labels


def test_replacing_the_document() -> None:
    assert {"a": 1} == patched({"op": "replace", "path": "", "value": {"a": 1}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("/spec/list", ["x", "y"], id="a list"),
        pytest.param("/spec/deep/0", {"n": 1}, id="an object"),
        pytest.param("/spec/absent", None, id="absent is null"),
        pytest.param("", DOCUMENT, id="the document"),
    ],
)
def test_tests_that_hold(path: str, value: Any) -> None:
    assert DOCUMENT == patched({"op": "test", "path": path, "value": value})


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/spec/deep/0/n", "value": True}, id="1 is not true"),
        pytest.param({"op": "test", "path": "/spec/list", "value": ["x"]}, id="a shorter list"),
        pytest.param({"op": "test", "path": "/spec/deep/0", "value": {}}, id="fewer fields"),
        pytest.param({"op": "remove", "path": "/spec/absent"}, id="remove what is not there"),
        pytest.param({"op": "remove", "path": "/spec/list/2"}, id="remove beyond the end"),
        pytest.param({"op": "add", "path": "/spec/list/3", "value": 1}, id="insert beyond the end"),
        pytest.param({"op": "add", "path": "/spec/list/x", "value": 1}, id="no index"),
        pytest.param({"op": "add", "path": "/spec/list/" + "9" * 99, "value": 1}, id="huge index"),
        pytest.param({"op": "add", "path": "/spec/absent/x", "value": 1}, id="no parent"),
        pytest.param({"op": "add", "path": "/spec/nothing/x", "value": 1}, id="a null parent"),
        pytest.param({"op": "add", "path": "/spec/list/0/x", "value": 1}, id="below a scalar"),
        pytest.param(
            {"op": "test", "path": "/spec/list/0/x", "value": 1}, id="test below a scalar"
        ),
        pytest.param({"op": "add", "path": "", "value": {}}, id="add a document"),
        pytest.param({"op": "add", "path": "spec", "value": 1}, id="a path without its slash"),
        pytest.param({"op": "add", "value": 1}, id="no path"),
        pytest.param({"op": "copy", "path": "/spec/x"}, id="no origin"),
        pytest.param({"op": "frob", "path": "/spec"}, id="no such operation"),
        pytest.param({"path": "/spec"}, id="no operation"),
        pytest.param({"op": 5, "path": "/spec"}, id="a number for an operation"),
        pytest.param({"op": "replace", "path": "", "value": []}, id="no longer an object"),
    ],
)
def test_operations_that_do_not_fit(operation: JsonObject) -> None:
    with pytest.raises(PatchError) as caught:
        patched(operation)

    error = caught.value
    assert (422, "Invalid") == (error.status, error.reason)
    assert "the server rejected our request due to an error in our request" == error.message


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(
            {"op": "add"}, "unmarshal object into Go value of type []handlers", id="object"
        ),
        pytest.param("x", "unmarshal string into Go value of type []handlers", id="text"),
        pytest.param([1], "unmarshal number into Go value of type handlers", id="numbers"),
        pytest.param([None], "unmarshal null into Go value of type handlers", id="nulls"),
    ],
)
def test_what_is_no_patch(patch: object, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_json_patch(DOCUMENT, patch)

    assert (400, "BadRequest") == (caught.value.status, caught.value.reason)
    assert message in caught.value.message


def test_endless_patches_are_refused() -> None:
    patch = [{"op": "test", "path": "/spec/absent", "value": None}] * 10_001

    with pytest.raises(PatchError, match="maximum operations in a JSON patch is 10000, got 10001"):
        apply_json_patch(DOCUMENT, patch)
