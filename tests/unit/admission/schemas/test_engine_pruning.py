"""Unknown fields are dropped and reported, except where the schema asks to keep them."""

import copy
from typing import Any

import pytest

from unit.admission.small_crds import (
    GENERIC,
    TEXT,
    compiled,
    fields,
    list_of,
    map_of,
    widget,
)

EMBEDDED = {
    **fields(spec=fields(known=TEXT)),
    "x-kubernetes-embedded-resource": True,
}


@pytest.mark.parametrize(
    ("schema", "spec", "kept", "dropped"),
    [
        pytest.param(
            fields(known=TEXT), {"known": "a"}, {"known": "a"}, [], id="a known field stays"
        ),
        pytest.param(
            fields(known=TEXT),
            {"known": "a", "odd": 1},
            {"known": "a"},
            [("spec", "odd")],
            id="an unknown field goes",
        ),
        pytest.param(
            fields(inner=fields(known=TEXT)),
            {"inner": {"odd": 1}},
            {"inner": {}},
            [("spec", "inner", "odd")],
            id="an unknown field of an inner object goes and leaves the object",
        ),
        pytest.param(
            fields(items=list_of(fields(known=TEXT))),
            {"items": [{"known": "a"}, {"odd": 1}]},
            {"items": [{"known": "a"}, {}]},
            [("spec", "items", 1, "odd")],
            id="an unknown field of a list item goes",
        ),
        pytest.param(
            map_of(fields(known=TEXT)),
            {"any": {"odd": 1, "known": "a"}},
            {"any": {"known": "a"}},
            [("spec", "any", "odd")],
            id="keys of a map stay and their values are pruned",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True},
            {"any": {"odd": [{"deep": 1}]}},
            {"any": {"odd": [{"deep": 1}]}},
            [],
            id="a map of anything keeps everything",
        ),
        pytest.param(
            GENERIC,
            {"odd": {"odd": 1}},
            {"odd": {"odd": 1}},
            [],
            id="an object that preserves unknown fields keeps them",
        ),
        pytest.param(
            {**GENERIC, **fields(inner=fields(known=TEXT))},
            {"odd": 1, "inner": {"odd": 1, "known": "a"}},
            {"odd": 1, "inner": {"known": "a"}},
            [("spec", "inner", "odd")],
            id="a known field of a preserving object is pruned by its own schema",
        ),
        pytest.param(
            fields(text=TEXT),
            {"text": {"odd": 1}},
            {"text": {}},
            [("spec", "text", "odd")],
            id="an object in place of a text loses its fields and is refused later",
        ),
        pytest.param(
            fields(size={"x-kubernetes-int-or-string": True}),
            {"size": "10%"},
            {"size": "10%"},
            [],
            id="an int-or-string stays",
        ),
        pytest.param(
            fields(template=EMBEDDED),
            {
                "template": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"known": "a", "odd": 1},
                    "odd": 1,
                }
            },
            {
                "template": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"known": "a"},
                }
            },
            [("spec", "template", "spec", "odd"), ("spec", "template", "odd")],
            id="an embedded resource keeps its apiVersion, kind and metadata",
        ),
        pytest.param(
            {"x-kubernetes-preserve-unknown-fields": True},
            [1, {"a": [2]}],
            [1, {"a": [2]}],
            [],
            id="a value of any type is kept",
        ),
    ],
)
def test_prune(schema: dict[str, Any], spec: Any, kept: Any, dropped: list[Any]) -> None:
    pruned, paths = compiled(schema).prune(widget(spec))

    assert (widget(kept), dropped) == (pruned, paths)


def test_the_root_keeps_metadata_whole_and_drops_unknown_fields() -> None:
    obj = widget({}, status={"a": 1}, metadata={"name": "one", "odd": 1})

    expected = widget({}, metadata={"name": "one", "odd": 1}), [("status",)]

    assert expected == compiled(fields()).prune(obj)


def test_the_given_object_is_not_changed() -> None:
    obj = widget({"inner": {"odd": 1}})
    before = copy.deepcopy(obj)

    compiled(fields(inner=fields())).prune(obj)

    assert before == obj


def test_an_object_with_nothing_to_drop_is_returned_as_it_is() -> None:
    obj = widget({"items": [{"known": "a"}]})

    pruned, _ = compiled(fields(items=list_of(fields(known=TEXT)))).prune(obj)

    assert pruned is obj
