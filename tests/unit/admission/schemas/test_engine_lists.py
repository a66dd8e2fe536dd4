"""Items of sets and of lists of type map differ from each other."""

from typing import Any

import pytest

from unit.admission.small_crds import NUMBER, TEXT, complaints, fields, list_of, map_of

SET = list_of(TEXT, **{"x-kubernetes-list-type": "set"})
PORT = fields(name=TEXT, port=NUMBER, protocol={**TEXT, "default": "TCP"})


def by(*keys: str) -> dict[str, Any]:
    """A list of ports told apart by these keys."""
    return list_of(PORT, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys]})


@pytest.mark.parametrize(
    ("schema", "good", "bad", "complaint"),
    [
        pytest.param(
            SET, ["a", "b"], ["a", "b", "a"], 'spec.x[2]: Duplicate value: "a"', id="a set"
        ),
        pytest.param(
            list_of(
                {"type": "object", "additionalProperties": NUMBER},
                **{"x-kubernetes-list-type": "set"},
            ),
            [{"a": 1, "b": 2}, {"a": 1}],
            [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
            'spec.x[1]: Duplicate value: {"b":2,"a":1}',
            id="a set of objects, whatever the order of their fields",
        ),
        pytest.param(
            by("name"),
            [{"name": "a", "port": 1}, {"name": "b", "port": 1}],
            [{"name": "a", "port": 1}, {"name": "a", "port": 2}],
            'spec.x[1]: Duplicate value: {"name":"a"}',
            id="a list of type map",
        ),
        pytest.param(
            by("port", "protocol"),
            [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}],
            [{"port": 1, "protocol": "TCP"}, {"port": 1}],
            'spec.x[1]: Duplicate value: {"port":1,"protocol":"TCP"}',
            id="a list of type map with two keys, one of them a default",
        ),
    ],
)
def test_duplicates(schema: dict[str, Any], good: Any, bad: Any, complaint: str) -> None:
    parent = fields(x=schema)

    assert ([], [complaint]) == (complaints(parent, {"x": good}), complaints(parent, {"x": bad}))


def test_an_atomic_list_may_repeat_itself() -> None:
    assert complaints(fields(x=list_of(TEXT)), {"x": ["a", "a"]}) == []


def test_lists_are_found_inside_lists_and_maps() -> None:
    schema = map_of(list_of(fields(tags=SET)))

    expected = ['spec.a[1].tags[1]: Duplicate value: "x"']

    assert expected == complaints(schema, {"a": [{"tags": ["x"]}, {"tags": ["x", "x"]}]})


def test_one_and_true_are_different_items() -> None:
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    schema = fields(x=list_of(anything, **{"x-kubernetes-list-type": "set"}))

    assert complaints(schema, {"x": [1, True, "1"]}) == []


def test_items_of_the_wrong_type_are_reported_as_such_only() -> None:
    expected = [
        'spec.x[0]: Invalid value: "string": spec.x[0] in body must be of type object: "string"',
        'spec.x[1]: Invalid value: "string": spec.x[1] in body must be of type object: "string"',
    ]

    assert expected == complaints(fields(x=by("name")), {"x": ["a", "a"]})
