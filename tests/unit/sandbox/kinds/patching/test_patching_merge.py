"""Merge patches do what RFC 7386 says; the cases are those of its appendix and our own."""

from typing import Any

import pytest

from karpenter_sandbox.kinds.patching.errors import PatchError
from karpenter_sandbox.kinds.patching.merge_patch import apply_merge_patch

JsonObject = dict[str, Any]


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="change"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="add"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="remove"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="remove one"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list becomes a scalar"),
        pytest.param({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}, id="a scalar becomes a list"),
        pytest.param(
            {"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="below"
        ),
        pytest.param({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}, id="lists are one value"),
        pytest.param({"e": None}, {"a": 1}, {"e": None, "a": 1}, id="nulls of the target stay"),
        pytest.param(
            {}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls of new objects go"
        ),
        pytest.param({}, {"a": [{"b": None}]}, {"a": [{"b": None}]}, id="nulls in lists stay"),
        pytest.param({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="a scalar becomes an object"),
        pytest.param({"a": 1}, {}, {"a": 1}, id="nothing"),
    ],
)
def test_merging(target: JsonObject, patch: JsonObject, expected: JsonObject) -> None:
    assert expected == apply_merge_patch(target, patch)


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        pytest.param([1], "cannot unmarshal array into Go value", id="a list"),
        pytest.param("x", "cannot unmarshal string into Go value", id="text"),
        pytest.param(5, "cannot unmarshal number into Go value", id="a number"),
        pytest.param(None, "Invalid JSON Patch", id="null"),
        pytest.param(True, "cannot unmarshal bool into Go value", id="a boolean"),
    ],
)
def test_what_is_no_patch(patch: object, said: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply_merge_patch({}, patch)

    assert 400 == caught.value.status
    assert said in caught.value.message
