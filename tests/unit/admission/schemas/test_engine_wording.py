"""Every kind of schema error reads as the API server writes it."""

from typing import Any

import pytest

from karpenter.admission.errors import ErrorKind, FieldError, Path
from unit.admission.small_crds import (
    GENERIC,
    NUMBER,
    TEXT,
    compiled,
    complaints,
    crd_problems,
    fields,
    list_of,
    map_of,
    widget,
)

INT_OR_STRING = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": "^[0-9]+%?$",
}
EITHER = {
    **fields(a=TEXT, b=TEXT),
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}
ONE = {
    **fields(a=TEXT, b=TEXT),
    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "complaint"),
    [
        pytest.param(
            NUMBER,
            3,
            "3",
            'spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"',
            id="a text in place of a number",
        ),
        pytest.param(
            NUMBER,
            3.0,
            3.5,
            'spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"',
            id="a fraction in place of a whole number",
        ),
        pytest.param(
            TEXT,
            "true",
            True,
            'spec.x: Invalid value: "boolean": spec.x in body must be of type string: "boolean"',
            id="a boolean in place of a text",
        ),
        pytest.param(
            TEXT,
            "",
            None,
            'spec.x: Invalid value: "null": spec.x in body must be of type string: "null"',
            id="null where it may not be",
        ),
        pytest.param(
            {**NUMBER, "nullable": True},
            None,
            [],
            'spec.x: Invalid value: "array": spec.x in body must be of type integer: "array"',
            id="a list in a nullable field",
        ),
        pytest.param(
            INT_OR_STRING,
            5,
            True,
            'spec.x: Invalid value: "boolean": spec.x in body must be of type'
            ' integer,string: "boolean"',
            id="a boolean in place of an int-or-string",
        ),
        pytest.param(
            INT_OR_STRING,
            "5%",
            "five",
            "spec.x: Invalid value: \"five\": spec.x in body should match '^[0-9]+%?$'",
            id="a text that an int-or-string does not allow",
        ),
        pytest.param(
            {**NUMBER, "minimum": 1},
            1,
            0,
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
            id="a number that is too small",
        ),
        pytest.param(
            {**NUMBER, "maximum": 9},
            9,
            10,
            "spec.x: Invalid value: 10: spec.x in body should be less than or equal to 9",
            id="a number that is too large",
        ),
        pytest.param(
            {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            0.1,
            0,
            "spec.x: Invalid value: 0: spec.x in body should be greater than 0",
            id="a number at a limit that is excluded",
        ),
        pytest.param(
            {"type": "number", "maximum": 1, "exclusiveMaximum": True},
            0.9,
            1,
            "spec.x: Invalid value: 1: spec.x in body should be less than 1",
            id="a number at an upper limit that is excluded",
        ),
        pytest.param(
            {**NUMBER, "minimum": 1, "exclusiveMinimum": False},
            1,
            0,
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
            id="a flag that excludes nothing",
        ),
        pytest.param(
            {**NUMBER, "multipleOf": 4},
            8,
            9,
            "spec.x: Invalid value: 9: spec.x in body should be a multiple of 4",
            id="a number between the steps",
        ),
        pytest.param(
            {**NUMBER, "format": "int32"},
            2**31 - 1,
            2**31,
            "spec.x: Invalid value: 2147483648: spec.x in body should be less than or equal to"
            " 2147483647",
            id="a number beyond 32 bits",
        ),
        pytest.param(
            {**NUMBER, "format": "int64"},
            -(2**63),
            -(2**63) - 1,
            "spec.x: Invalid value: -9223372036854775809: spec.x in body should be greater than or"
            " equal to -9223372036854775808",
            id="a number beyond 64 bits",
        ),
        pytest.param(
            {**TEXT, "enum": ["a", "b"]},
            "a",
            "c",
            'spec.x: Unsupported value: "c": supported values: "a", "b"',
            id="a text that is not among the choices",
        ),
        pytest.param(
            {**NUMBER, "enum": [1, 2]},
            1,
            3,
            'spec.x: Unsupported value: 3: supported values: "1", "2"',
            id="a number that is not among the choices",
        ),
        pytest.param(
            {**TEXT, "minLength": 1},
            "a",
            "",
            'spec.x: Invalid value: "": spec.x in body should be at least 1 chars long',
            id="a text that is too short",
        ),
        pytest.param(
            {**TEXT, "maxLength": 2},
            "éé",
            "abc",
            "spec.x: Too long: may not be more than 2 bytes",
            id="a text that is too long",
        ),
        pytest.param(
            {**TEXT, "pattern": "^a+$"},
            "aa",
            "b",
            "spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'",
            id="a text of another form",
        ),
        pytest.param(
            {**TEXT, "pattern": r"^a\s+b$"},
            "a b",
            "ab",
            r"""spec.x: Invalid value: "ab": spec.x in body should match '^a\s+b$'""",
            id="a pattern is shown as its author wrote it",
        ),
        pytest.param(
            {**TEXT, "format": "date-time"},
            "2026-01-02T03:04:05Z",
            "yesterday",
            'spec.x: Invalid value: "yesterday": spec.x in body must be of type date-time:'
            ' "yesterday"',
            id="a text of another format",
        ),
        pytest.param(
            list_of(TEXT, maxItems=1),
            ["a"],
            ["a", "b"],
            "spec.x: Too many: 2: must have at most 1 items",
            id="a list that is too long",
        ),
        pytest.param(
            list_of(TEXT, minItems=1),
            ["a"],
            [],
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
            id="a list that is too short",
        ),
        pytest.param(
            map_of(TEXT, maxProperties=1),
            {"a": "b"},
            {"a": "b", "c": "d"},
            "spec.x: Too many: 2: must have at most 1 items",
            id="a map with too many entries",
        ),
        pytest.param(
            map_of(TEXT, minProperties=1),
            {"a": "b"},
            {},
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties",
            id="a map with too few entries",
        ),
        pytest.param(
            {**fields(a=TEXT), "required": ["a"]},
            {"a": "b"},
            {},
            "spec.x.a: Required value",
            id="a missing field",
        ),
        pytest.param(
            list_of(fields(n=NUMBER)),
            [{"n": 1}],
            [{"n": 1}, {"n": "a"}],
            'spec.x[1].n: Invalid value: "string": spec.x[1].n in body must be of type integer:'
            ' "string"',
            id="an item of a list is named by its index",
        ),
        pytest.param(
            map_of(NUMBER),
            {"a.b/c": 1},
            {"a.b/c": "d"},
            'spec.x[a.b/c]: Invalid value: "string": spec.x[a.b/c] in body must be of type integer:'
            ' "string"',
            id="an entry of a map is named by its key",
        ),
        pytest.param(
            {**GENERIC, "x-kubernetes-embedded-resource": True},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}},
            {"apiVersion": "v1", "metadata": {}},
            "spec.x.kind: Required value",
            id="an embedded resource without a kind",
        ),
        pytest.param(
            {**TEXT, "not": {"enum": ["a"]}},
            "b",
            "a",
            'spec.x: Invalid value: "": "spec.x" must not validate the schema (not)',
            id="what is excluded",
        ),
        pytest.param(
            {**TEXT, "allOf": [{"maxLength": 1}, {"pattern": "^a"}]},
            "a",
            "b",
            "spec.x: Invalid value: \"b\": spec.x in body should match '^a'",
            id="one of several conditions that must all hold",
        ),
        pytest.param(
            ONE,
            {"a": "1"},
            {"a": "1", "b": "2"},
            'spec.x: Invalid value: "": "spec.x" must validate one and only one schema (oneOf).'
            " Found more than one valid",
            id="two alternatives at once",
        ),
    ],
)
def test_one_error(schema: dict[str, Any], good: Any, bad: Any, complaint: str) -> None:
    parent = fields(x=schema)

    assert ([], [complaint]) == (complaints(parent, {"x": good}), complaints(parent, {"x": bad}))


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        pytest.param(EITHER, '"spec" must validate at least one schema (anyOf)', id="anyOf"),
        pytest.param(
            ONE,
            '"spec" must validate one and only one schema (oneOf). Found none valid',
            id="oneOf",
        ),
    ],
)
def test_no_alternative_fits_names_what_the_nearest_lacks(
    schema: dict[str, Any], complaint: str
) -> None:
    expected = [f'spec: Invalid value: "": {complaint}', "spec.a: Required value"]

    assert expected == complaints(schema, {})


def test_all_errors_are_reported_at_once() -> None:
    schema = {**fields(a=NUMBER, b={**TEXT, "enum": ["x"]}), "required": ["c"]}

    expected = {
        'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"',
        'spec.b: Unsupported value: "y": supported values: "x"',
        "spec.c: Required value",
    }

    assert expected == set(complaints(schema, {"a": "1", "b": "y"}))


def test_an_unknown_format_is_ignored() -> None:
    assert complaints(fields(x={**TEXT, "format": "colour"}), {"x": "blue"}) == []


@pytest.mark.parametrize(
    ("obj", "complaint"),
    [
        pytest.param(
            widget({"labels": {1: "a"}}),
            "spec.labels: Invalid value: the key 1 must be a string; write it in quotes",
            id="a key that is a number",
        ),
        pytest.param(
            widget({"free": {"a": object()}}),
            "spec.free.a: Invalid value: object is not JSON",
            id="a value that JSON does not know",
        ),
    ],
)
def test_what_is_not_json_is_refused(obj: dict[str, Any], complaint: str) -> None:
    version = compiled(fields(free=GENERIC, labels=map_of(TEXT)))

    assert [complaint] == [str(error) for error in version.validate(obj)]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("a", '"a"', id="a text"),
        pytest.param({"b": [1, None]}, '{"b":[1,null]}', id="an object"),
        pytest.param("x" * 300, '"' + "x" * 198 + "…", id="a long text, cut"),
        pytest.param("\ud800", "…", id="half a character"),
    ],
)
def test_the_value_in_an_error(value: object, shown: str) -> None:
    assert f"a: Invalid value: {shown}: no" == str(
        FieldError(ErrorKind.INVALID, ("a",), "no", value)
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "containers", 0, "env", 0, "value"), 12345),
        (("spec", "containers", 0, "command", 1), {"password": "secret"}),
        (("spec", "containers", 0, "args"), "--password=secret"),
        (("metadata", "annotations", "key"), ["secret"]),
    ],
)
def test_a_value_that_may_be_a_secret_is_not_shown(path: Path, value: object) -> None:
    assert "Invalid value: no" == FieldError(ErrorKind.INVALID, path, "no", value).message


def test_an_object_of_many_levels_is_refused_and_not_followed() -> None:
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = {"a": deep}
    version = compiled(fields(text=TEXT))

    expected = ["spec.text.a: Invalid value: is nested more than 100 levels deep"]

    assert expected == [str(error) for error in version.validate(widget({"text": deep}))]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param(
            fields(x={}),
            "properties.x.type: Required value: must say what the field holds",
            id="a field without a type",
        ),
        pytest.param(
            fields(x={"type": "text"}),
            'properties.x.type: Unsupported value: "text": supported values: "array", "boolean",'
            ' "integer", "number", "object", "string"',
            id="a type that does not exist",
        ),
        pytest.param(
            fields(x={"type": "array"}),
            "properties.x.items: Required value: must say what the list holds",
            id="a list of nothing",
        ),
        pytest.param(
            fields(x={"type": "object", "$ref": "#/definitions/a"}),
            "properties.x[$ref]: Forbidden: write the schema out in place",
            id="a reference",
        ),
        pytest.param(
            fields(x={**fields(a=TEXT), "additionalProperties": TEXT}),
            "properties.x.additionalProperties: Forbidden: an object has either properties or"
            " additionalProperties",
            id="fields and entries at once",
        ),
        pytest.param(
            fields(x=list_of(fields(a=TEXT), **{"x-kubernetes-list-type": "map"})),
            "properties.x.x-kubernetes-list-map-keys: Required value: a list of type map needs the"
            " keys that tell its items apart in x-kubernetes-list-map-keys",
            id="a list of type map without keys",
        ),
        pytest.param(
            fields(x=3),
            "properties.x: Invalid value: 3: a schema must be an object",
            id="a schema that is no object",
        ),
        pytest.param(
            fields(x={**TEXT, "pattern": "(?=a)"}),
            "properties.x.pattern: Invalid value: \"(?=a)\": '(?=a)' is not a regular expression:"
            " invalid perl operator: (?=",
            id="a pattern that Go does not know",
        ),
        pytest.param(
            fields(x={**TEXT, "pattern": "[z-a]"}),
            "properties.x.pattern: Invalid value: \"[z-a]\": '[z-a]' is not a regular expression:"
            " invalid character class range: z-a",
            id="a pattern that is none",
        ),
    ],
)
def test_a_schema_that_cannot_be_served_is_refused(schema: dict[str, Any], problem: str) -> None:
    assert [problem] == crd_problems(schema)
