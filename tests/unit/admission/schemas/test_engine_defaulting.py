"""Defaults are filled in wherever the parent exists; a null that may not be null is no value."""

import copy
from typing import Any

import pytest

from unit.admission.small_crds import NUMBER, TEXT, compiled, fields, list_of, map_of, widget

SIZE = {**TEXT, "default": "small"}
NULLABLE = {**TEXT, "nullable": True}


@pytest.mark.parametrize(
    ("schema", "spec", "expected"),
    [
        pytest.param(fields(size=SIZE), {}, {"size": "small"}, id="a missing field gets it"),
        pytest.param(fields(size=SIZE), {"size": "big"}, {"size": "big"}, id="a given field stays"),
        pytest.param(fields(size=SIZE), {"size": ""}, {"size": ""}, id="an empty text stays"),
        pytest.param(
            fields(count={**NUMBER, "default": 3}), {"count": 0}, {"count": 0}, id="a zero stays"
        ),
        pytest.param(
            fields(on={"type": "boolean", "default": True}),
            {"on": False},
            {"on": False},
            id="false stays",
        ),
        pytest.param(
            fields(inner=fields(size=SIZE)),
            {"inner": {}},
            {"inner": {"size": "small"}},
            id="an inner object that exists is filled in",
        ),
        pytest.param(
            fields(inner=fields(size=SIZE)), {}, {}, id="an inner object that is absent stays so"
        ),
        pytest.param(
            fields(inner={**fields(size=SIZE, other=TEXT), "default": {}}),
            {},
            {"inner": {"size": "small"}},
            id="an absent inner object with a default is made and filled in",
        ),
        pytest.param(
            fields(inner={**fields(size=SIZE), "default": {"size": "big"}}),
            {},
            {"inner": {"size": "big"}},
            id="the default of the parent wins over that of the field",
        ),
        pytest.param(
            fields(items=list_of(fields(size=SIZE))),
            {"items": [{}, {"size": "big"}]},
            {"items": [{"size": "small"}, {"size": "big"}]},
            id="items of a list are filled in",
        ),
        pytest.param(
            map_of(fields(size=SIZE)),
            {"a": {}},
            {"a": {"size": "small"}},
            id="values of a map are filled in",
        ),
        pytest.param(
            fields(items=list_of(fields(size=SIZE), default=[{}])),
            {},
            {"items": [{"size": "small"}]},
            id="items of a default list are filled in",
        ),
        pytest.param(
            fields(size=SIZE), {"size": None}, {"size": "small"}, id="null becomes the default"
        ),
        pytest.param(fields(name=TEXT), {"name": None}, {}, id="null without a default is dropped"),
        pytest.param(
            fields(name=NULLABLE), {"name": None}, {"name": None}, id="null stays where it may be"
        ),
        pytest.param(
            fields(size={**NULLABLE, "default": "small"}),
            {"size": None},
            {"size": None},
            id="null stays in a nullable field with a default",
        ),
        pytest.param(
            fields(size={**NULLABLE, "default": "small"}),
            {},
            {"size": "small"},
            id="a missing nullable field gets its default",
        ),
        pytest.param(
            map_of(TEXT), {"a": None, "b": "c"}, {"b": "c"}, id="null in a map is dropped"
        ),
        pytest.param(
            map_of(SIZE), {"a": None}, {"a": "small"}, id="null in a map becomes the default"
        ),
        pytest.param(
            fields(items=list_of(SIZE)),
            {"items": [None]},
            {"items": ["small"]},
            id="null in a list becomes the default of the items",
        ),
        pytest.param(
            fields(items=list_of(TEXT)),
            {"items": [None]},
            {"items": [None]},
            id="null in a list without a default stays, to be refused",
        ),
        pytest.param(
            fields(size={**TEXT, "default": None}), {}, {}, id="a default of null is no default"
        ),
        pytest.param(
            fields(free={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
            {"free": {"odd": None}},
            {"free": {"odd": None}},
            id="null in a field the schema does not know stays",
        ),
        pytest.param(fields(size=SIZE), "text", "text", id="what is no object is left alone"),
    ],
)
def test_default(schema: dict[str, Any], spec: Any, expected: Any) -> None:
    assert widget(expected) == compiled(schema).default(widget(spec))


def test_an_object_never_shares_a_default_with_another() -> None:
    version = compiled(fields(items=list_of(TEXT, default=["a"])))
    first = version.default(widget({}))

    first["spec"]["items"].append("b")

    assert widget({"items": ["a"]}) == version.default(widget({}))


def test_the_given_object_is_not_changed() -> None:
    obj = widget({"inner": {"name": None}})
    before = copy.deepcopy(obj)

    compiled(fields(inner=fields(size=SIZE, name=TEXT))).default(obj)

    assert before == obj


def test_a_complete_object_is_returned_as_it_is() -> None:
    obj = widget({"size": "big", "items": [{"size": "small"}]})

    assert compiled(fields(size=SIZE, items=list_of(fields(size=SIZE)))).default(obj) is obj
