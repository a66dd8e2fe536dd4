"""What does not fit is named by its path, in a sentence that says what to write instead."""

from typing import Any

import pytest

from helpers.wire_samples import error_of, pod_text
from karpenter.api import codec


@pytest.mark.parametrize(
    ("members", "path", "problem"),
    [
        pytest.param(
            {"spec": {"containers": [{"name": "a"}, {"name": 5}]}},
            ("spec", "containers", 1, "name"),
            "expected a string, got a whole number; write it in quotes",
            id="number for a string",
        ),
        pytest.param(
            {"metadata": {"annotations": {"a": "b", "karpenter.sh/do-not-disrupt": True}}},
            ("metadata", "annotations", "karpenter.sh/do-not-disrupt"),
            "expected a string, got true or false; write it in quotes",
            id="unquoted boolean in a map",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"disk": None}}},
            ("spec", "nodeSelector", "disk"),
            'expected a string, got null; write "" for an empty one',
            id="null in a map is not absent",
        ),
        pytest.param(
            {"spec": {"containers": [None]}},
            ("spec", "containers", 0),
            "expected a map, got null",
            id="null in a list is not absent",
        ),
        pytest.param(
            {"spec": {"containers": {"name": "a"}}},
            ("spec", "containers"),
            "expected a list, got a map",
            id="map for a list",
        ),
        pytest.param(
            {"spec": []}, ("spec",), "expected a map, got a list", id="list for a section"
        ),
        pytest.param(
            {"spec": {"priority": 1.5}},
            ("spec", "priority"),
            "expected a whole number, got a number with a fraction",
            id="fraction for a whole number",
        ),
        pytest.param(
            {"spec": {"priority": "high", "containers": None}},
            ("spec", "priority"),
            "expected a whole number, got a string",
            id="beside a null that is forgiven",
        ),
        pytest.param(
            {"spec": {"hostNetwork": "true"}},
            ("spec", "hostNetwork"),
            "expected true or false, got a string",
            id="string for a boolean",
        ),
        pytest.param(
            {"spec": {"overhead": {"memory": "1Gi", "cpu": ["1"]}}},
            ("spec", "overhead", "cpu"),
            "expected a number or a string, got a list",
            id="list for a quantity",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": "yesterday"}},
            ("metadata", "creationTimestamp"),
            "expected a time such as 2006-01-02T15:04:05Z",
            id="text for a time",
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-03-01T10:00:00"}},
            ("metadata", "deletionTimestamp"),
            "expected a time such as 2006-01-02T15:04:05Z",
            id="time without a zone",
        ),
    ],
)
def test_a_misfit_is_named_by_its_path(
    members: dict[str, Any], path: tuple[str | int, ...], problem: str
) -> None:
    error = error_of(codec.decode, pod_text(**members))

    assert (path, problem, False) == (error.path, error.problem, error.missing)


def test_a_missing_field_is_named_by_the_path_it_should_have() -> None:
    error = error_of(codec.decode, pod_text(spec={"containers": [{"image": "a"}]}))

    assert error.path == ("spec", "containers", 0, "name")
    assert error.missing
    assert str(error) == "spec.containers[0].name: required field is missing"


def test_an_odd_key_stands_in_brackets_in_the_sentence() -> None:
    error = error_of(codec.decode, pod_text(metadata={"labels": {"example.com/a": 1}}))

    expected = "metadata.labels[example.com/a]: expected a string, got a whole number"

    assert f"{expected}; write it in quotes" == str(error)


@pytest.mark.parametrize("wrong", [0, 1, 499, 998, 999])
def test_the_entry_of_a_large_map_that_does_not_fit_is_found(wrong: int) -> None:
    labels: dict[str, object] = {f"key-{number}": "value" for number in range(1000)}
    labels[f"key-{wrong}"] = 7

    error = error_of(codec.decode, pod_text(metadata={"labels": labels}))

    assert ("metadata", "labels", f"key-{wrong}") == error.path


def test_the_first_of_two_wrong_entries_is_named() -> None:
    labels: dict[str, object] = {f"key-{number}": "value" for number in range(100)}
    labels |= {"key-30": 1, "key-80": 2}

    error = error_of(codec.decode, pod_text(metadata={"labels": labels}))

    assert error.path == ("metadata", "labels", "key-30")


def test_a_misfit_inside_maps_inside_a_list_is_named_by_its_keys() -> None:
    counters = {"free": {"value": "1"}, "memory": {"value": True}}
    devices = [{"name": "a"}, {"name": "b", "consumesCounters": [_counters(counters)]}]
    value = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}

    error = error_of(codec.convert, {**value, "spec": {"devices": devices}})

    expected = ("spec", "devices", 1, "consumesCounters", 0, "counters", "memory", "value")
    assert expected == error.path


def _counters(counters: dict[str, Any]) -> dict[str, Any]:
    return {"counterSet": "card-0", "counters": counters}


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        pytest.param({}, ("apiVersion",), "required field is missing", id="no apiVersion"),
        pytest.param({"apiVersion": "v1"}, ("kind",), "required field is missing", id="no kind"),
        pytest.param(
            {"apiVersion": 1, "kind": "Pod"},
            ("apiVersion",),
            "expected a string, got a whole number; write it in quotes",
            id="a number for apiVersion",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": None},
            ("kind",),
            "required field is missing",
            id="a null kind",
        ),
    ],
)
def test_an_object_must_name_its_kind(
    value: dict[str, Any], path: tuple[str, ...], problem: str
) -> None:
    error = error_of(codec.convert, value)

    assert (path, problem) == (error.path, error.problem)


def test_a_key_that_is_no_string_is_refused() -> None:
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {1: "a"}}}

    error = error_of(codec.convert, value)

    assert str(error) == "metadata.labels: a key is not a string; write it in quotes"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "the data is not JSON: input data was truncated", id="empty"),
        pytest.param(b"\x00\x01", "the data is not JSON: invalid character (byte 0)", id="binary"),
        pytest.param(
            b'{"kind":"Pod"', "the data is not JSON: input data was truncated", id="cut short"
        ),
        pytest.param(b"[]", "expected a map, got a list", id="a list"),
        pytest.param(b'{"kind":"\xff"}', "the data is not UTF-8 text", id="not UTF-8"),
        pytest.param(b"[" * 100_000, "the data is nested too deeply", id="bottomless"),
        pytest.param(
            b'{"apiVersion":"v1","kind":"Pod","x":' + b'{"a":' * 100_000,
            "the data is nested too deeply",
            id="bottomless in a field nobody reads",
        ),
    ],
)
def test_data_that_is_no_object_is_refused(data: bytes, problem: str) -> None:
    error = error_of(codec.decode, data)

    assert ((), problem) == (error.path, str(error))
