"""Rules in CEL run where they stand, say what their author wrote, and fail loudly."""

from typing import Any

import pytest

from unit.admission.small_crds import (
    NUMBER,
    TEXT,
    compiled,
    complaints,
    crd_problems,
    fields,
    list_of,
    map_of,
    ruled,
    widget,
)

KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
FLOAT = {"type": "number"}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}


@pytest.mark.parametrize(
    ("schema", "good", "bad", "complaint"),
    [
        pytest.param(
            ruled(fields(a=NUMBER, b=NUMBER), "self.a < self.b"),
            {"a": 1, "b": 2},
            {"a": 2, "b": 1},
            "spec: Invalid value: failed rule: self.a < self.b",
            id="self is an object",
        ),
        pytest.param(
            fields(a=ruled(NUMBER, "self % 2 == 0")),
            {"a": 2},
            {"a": 3},
            "spec.a: Invalid value: 3: failed rule: self % 2 == 0",
            id="self is a number",
        ),
        pytest.param(
            fields(a=ruled(list_of(TEXT), "self.all(x, x != '')")),
            {"a": ["x"]},
            {"a": ["x", ""]},
            "spec.a: Invalid value: failed rule: self.all(x, x != '')",
            id="self is a list",
        ),
        pytest.param(
            fields(a=list_of(ruled(TEXT, "self.startsWith('a')"))),
            {"a": ["ab"]},
            {"a": ["ab", "b"]},
            "spec.a[1]: Invalid value: \"b\": failed rule: self.startsWith('a')",
            id="self is an item of a list",
        ),
        pytest.param(
            ruled(map_of(TEXT), "self.all(key, key != 'odd' && self[key] != '')"),
            {"a": "b"},
            {"odd": "b"},
            "spec: Invalid value: failed rule: self.all(key, key != 'odd' && self[key] != '')",
            id="self is a map",
        ),
        pytest.param(
            map_of(ruled(TEXT, "size(self) > 1")),
            {"a": "bc"},
            {"a.b": "c"},
            'spec[a.b]: Invalid value: "c": failed rule: size(self) > 1',
            id="self is a value of a map",
        ),
        pytest.param(
            fields(a=ruled(FLOAT, "self / 2.0 < 1.0")),
            {"a": 1},
            {"a": 2},
            "spec.a: Invalid value: 2: failed rule: self / 2.0 < 1.0",
            id="a whole number in a number field is a double",
        ),
        pytest.param(
            fields(a=ruled(INT_OR_STRING, "type(self) == int ? self < 5 : self == '5%'")),
            {"a": "5%"},
            {"a": 6},
            "spec.a: Invalid value: 6: failed rule: type(self) == int ? self < 5 : self == '5%'",
            id="an int-or-string is what it is",
        ),
        pytest.param(
            fields(
                a=ruled({**TEXT, "format": "date-time"}, "self < timestamp('2030-01-01T00:00:00Z')")
            ),
            {"a": "2026-01-01T00:00:00.123456789Z"},
            {"a": "2031-01-01T00:00:00Z"},
            'spec.a: Invalid value: "2031-01-01T00:00:00Z": failed rule: self <'
            " timestamp('2030-01-01T00:00:00Z')",
            id="a date-time is a timestamp",
        ),
        pytest.param(
            fields(a=ruled({**TEXT, "format": "duration"}, "self <= duration('1h')")),
            {"a": "59m59.5s"},
            {"a": "2h"},
            "spec.a: Invalid value: \"2h\": failed rule: self <= duration('1h')",
            id="a duration is a duration",
        ),
        pytest.param(
            fields(a=ruled({**TEXT, "format": "byte"}, "self != b'no'")),
            {"a": "eWVz"},
            {"a": "bm8="},
            "spec.a: Invalid value: \"bm8=\": failed rule: self != b'no'",
            id="base64 is bytes",
        ),
        pytest.param(
            ruled(
                fields(**{"namespace": TEXT, "a-b": TEXT, "c.d/e": TEXT, "f__g": TEXT}),
                "self.__namespace__ + self.a__dash__b + self.c__dot__d__slash__e"
                " + self.f__underscores__g == '1234'",
            ),
            {"namespace": "1", "a-b": "2", "c.d/e": "3", "f__g": "4"},
            {"namespace": "1", "a-b": "2", "c.d/e": "3", "f__g": "5"},
            "spec: Invalid value: failed rule: self.__namespace__ + self.a__dash__b +"
            " self.c__dot__d__slash__e + self.f__underscores__g == '1234'",
            id="names that CEL cannot parse are escaped",
        ),
        pytest.param(
            ruled(
                fields(items=list_of(fields(**{"if": FLOAT}))), "self.items.all(x, x.__if__ > 0.5)"
            ),
            {"items": [{"if": 1}]},
            {"items": [{"if": 1}, {"if": 0}]},
            "spec: Invalid value: failed rule: self.items.all(x, x.__if__ > 0.5)",
            id="names are escaped and numbers converted below, too",
        ),
        pytest.param(
            fields(a=ruled(TEXT, "size(self) == 2 && self.matches('^\\\\w+$')")),
            {"a": "ab"},
            {"a": "éa"},
            'spec.a: Invalid value: "éa": failed rule: size(self) == 2 &&'
            " self.matches('^\\\\w+$')",
            id="patterns are Go's",
        ),
        pytest.param(
            fields(a=ruled(TEXT, "size(self) <= 2")),
            {"a": "éé"},
            {"a": "ééé"},
            'spec.a: Invalid value: "ééé": failed rule: size(self) <= 2',
            id="size counts characters and not bytes",
        ),
    ],
)
def test_a_rule_and_its_self(schema: dict[str, Any], good: Any, bad: Any, complaint: str) -> None:
    assert ([], [complaint]) == (complaints(schema, good), complaints(schema, bad))


def test_a_rule_at_the_root_sees_the_name() -> None:
    rule = {"rule": "self.metadata.name.size() < 5", "message": "name is too long"}
    version = compiled(fields(), **{"x-kubernetes-validations": [rule]})

    errors = [str(e) for e in version.validate(widget({}, metadata={"name": "much-too-long"}))]

    assert errors == ["Invalid value: name is too long"]


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        pytest.param(
            {"rule": "self.a > 5", "message": "a must be large"},
            "spec: Invalid value: a must be large",
            id="a message",
        ),
        pytest.param(
            {"rule": "self.a > 5", "messageExpression": "'a is only ' + string(self.a)"},
            "spec: Invalid value: a is only 1",
            id="a message that is computed",
        ),
        pytest.param(
            {"rule": "self.a > 5", "message": "plain", "messageExpression": "self.missing"},
            "spec: Invalid value: plain",
            id="the plain message when the computed one fails",
        ),
        pytest.param(
            {"rule": "self.a > 5", "messageExpression": "'  '"},
            "spec: Invalid value: failed rule: self.a > 5",
            id="the rule itself when the computed message is blank",
        ),
        pytest.param(
            {"rule": "self.a > 5", "fieldPath": ".a", "message": "no"},
            "spec.a: Invalid value: no",
            id="the field it points at",
        ),
        pytest.param(
            {"rule": "self.a > 5", "fieldPath": ".m['x.y']", "message": "no"},
            "spec.m[x.y]: Invalid value: no",
            id="the entry of a map it points at",
        ),
        pytest.param(
            {"rule": "self.a > 5", "reason": "FieldValueForbidden", "message": "no"},
            "spec: Forbidden: no",
            id="forbidden",
        ),
        pytest.param(
            {"rule": "self.a > 5", "reason": "FieldValueRequired", "message": "no"},
            "spec: Required value: no",
            id="required",
        ),
        pytest.param(
            {"rule": "self.a > 5", "reason": "FieldValueDuplicate", "message": "no"},
            "spec: Duplicate value",
            id="duplicate",
        ),
        pytest.param(
            {"rule": "  self.a > 5\n", "message": ""},
            "spec: Invalid value: failed rule: self.a > 5",
            id="the rule without the blanks around it",
        ),
    ],
)
def test_what_a_broken_rule_says(rule: dict[str, Any], complaint: str) -> None:
    assert [complaint] == complaints(ruled(fields(a=NUMBER, m=map_of(TEXT)), rule), {"a": 1})


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        pytest.param(
            "self.b == 1",
            "no such key: b evaluating rule: failed rule: self.b == 1",
            id="a field that is not there",
        ),
        pytest.param(
            {"rule": "self.b == 1", "message": "b is one"},
            "no such key: b evaluating rule: b is one",
            id="the message of the rule",
        ),
        pytest.param(
            "self.l[3] == 1",
            "index out of bounds: 3 evaluating rule: failed rule: self.l[3] == 1",
            id="an item that is not there",
        ),
        pytest.param(
            "self.a / 0 == 1",
            "division by zero evaluating rule: failed rule: self.a / 0 == 1",
            id="a division by zero",
        ),
        pytest.param(
            "self.a + 9223372036854775807 == 1",
            "integer overflow evaluating rule: failed rule: self.a + 9223372036854775807 == 1",
            id="an overflow",
        ),
        pytest.param(
            "self.i + 1 == 2",
            "'no such overload': call arguments did not match a supported operator, function or"
            " macro signature for rule: failed rule: self.i + 1 == 2",
            id="an int-or-string of the other type",
        ),
        pytest.param(
            "self.t.substring(9) == ''",
            "index out of range: 9 evaluating rule: failed rule: self.t.substring(9) == ''",
            id="a function that fails",
        ),
        pytest.param(
            "self.t.find(self.a) == ''",
            "'no such overload': call arguments did not match a supported operator, function or"
            " macro signature for rule: failed rule: self.t.find(self.a) == ''",
            id="a function called with the wrong type",
        ),
    ],
)
def test_a_rule_that_cannot_be_evaluated_refuses_the_object(
    rule: str | dict[str, Any], complaint: str
) -> None:
    schema = ruled(fields(a=NUMBER, b=NUMBER, l=list_of(NUMBER), i=INT_OR_STRING, t=TEXT), rule)

    expected = [f"spec: Invalid value: {complaint}"]

    assert expected == complaints(schema, {"a": 1, "l": [], "i": "x", "t": "abc"})


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("self.missing == 1 || true", id="an error beside a true alternative"),
        pytest.param("!(self.missing == 1 && false)", id="an error beside a false condition"),
        pytest.param("self.t.substring(9) == '' || true", id="a failing function beside true"),
        pytest.param("has(self.missing) ? self.missing == 1 : true", id="a branch not taken"),
    ],
)
def test_an_error_that_does_not_matter_is_ignored(rule: str) -> None:
    assert complaints(ruled(fields(t=TEXT, missing=NUMBER), rule), {"t": "abc"}) == []


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        pytest.param(
            {"rule": "self.a >"},
            '[0].rule: Invalid value: "self.a >": compilation failed: line 1, column 9: Syntax'
            " error: mismatched input '<EOF>'",
            id="broken syntax",
        ),
        pytest.param(
            {"rule": "self.?a.orValue(1) == 1"},
            '[0].rule: Invalid value: "self.?a.orValue(1) == 1": compilation failed: uses the'
            " optional syntax `.?`, which is not supported here; use has()",
            id="optional selection",
        ),
        pytest.param(
            {"rule": "self.`a-b` == 1"},
            '[0].rule: Invalid value: "self.`a-b` == 1": compilation failed: uses a field name in'
            " backticks, which is not supported here; escape it, as in __dot__ or __dash__",
            id="a quoted name",
        ),
        pytest.param(
            {"rule": "self.l.all(i, v, v > i)"},
            "[0].rule: Invalid value: \"self.l.all(i, v, v > i)\": compilation failed: calls 'all'"
            " with arguments that are not supported here; it takes one variable and one condition",
            id="a macro of two variables",
        ),
        pytest.param(
            {"rule": "self.a == b"},
            '[0].rule: Invalid value: "self.a == b": compilation failed: undeclared reference to'
            " 'b'",
            id="a variable nobody declares",
        ),
        pytest.param(
            {"rule": "self.a.frobnicate()"},
            '[0].rule: Invalid value: "self.a.frobnicate()": compilation failed: undeclared'
            " reference to the function 'frobnicate'",
            id="a function nobody declares",
        ),
        pytest.param(
            {"rule": " "}, '[0].rule: Invalid value: "": must not be empty', id="an empty rule"
        ),
        pytest.param(
            {"rule": "true", "messageExpression": "'a' +"},
            "[0].messageExpression: Invalid value: \"'a' +\": compilation failed: line 1, column 6:"
            " Syntax error: mismatched input '<EOF>'",
            id="a message that does not compile",
        ),
        pytest.param(
            {"rule": "true", "reason": "Because"},
            '[0].reason: Invalid value: "Because": supported values: "FieldValueInvalid",'
            ' "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"',
            id="a reason that does not exist",
        ),
        pytest.param(
            {"rule": "true", "fieldPath": "a[0]"},
            '[0].fieldPath: Invalid value: "a[0]": must be a path such as .spec.name',
            id="a path that is none",
        ),
    ],
)
def test_a_rule_that_cannot_work_is_refused_with_its_crd(
    rule: dict[str, Any], problem: str
) -> None:
    schema = ruled(fields(a=NUMBER, l=list_of(NUMBER)), rule)

    assert [f"x-kubernetes-validations{problem}"] == crd_problems(schema)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"a": {"n": 1}, "b": {"n": 1}}, ["spec.a", "spec.b", "spec"], id="nothing"),
        pytest.param({"a": {"n": "1"}, "b": {"n": 1}}, ["spec.a.n", "spec.b"], id="a wrong type"),
        pytest.param({"a": {}, "b": {"n": 1}}, ["spec.a.n", "spec.b"], id="a missing field"),
        pytest.param(
            {"a": {"n": 1, "e": "z"}, "b": {"n": 1}}, ["spec.a.e", "spec.b"], id="an odd choice"
        ),
        pytest.param(
            {"a": {"n": 1, "t": "long"}, "b": {"n": 1}}, ["spec.a.t", "spec.b"], id="a long text"
        ),
        pytest.param(
            {"a": {"n": 1, "l": [1, 1]}, "b": {"n": 1}}, ["spec.a.l", "spec.b"], id="a long list"
        ),
        pytest.param(
            {"a": {"n": -1}, "b": {"n": 1}},
            ["spec.a.n", "spec.a", "spec.b", "spec"],
            id="a number out of range, which has the right shape",
        ),
        pytest.param({"a": {"n": 1}, "b": [1]}, ["spec.b", "spec.a"], id="a list for an object"),
    ],
)
def test_rules_that_could_stumble_over_an_error_are_skipped(
    spec: dict[str, Any], expected: list[str]
) -> None:
    part = ruled(
        {
            **fields(
                n={**NUMBER, "minimum": 0},
                e={**TEXT, "enum": ["a"]},
                t={**TEXT, "maxLength": 2},
                l=list_of(ruled(NUMBER, "self > 5"), maxItems=1),
            ),
            "required": ["n"],
        },
        "self.n > 5",
    )
    schema = ruled(fields(a=part, b=part), "self.a.n + self.b.n > 10")

    fields_named = [error.field for error in compiled(schema).validate(widget(spec))]

    assert sorted(expected) == sorted(fields_named)


def test_rules_can_be_left_out() -> None:
    version = compiled(ruled(fields(a=NUMBER), "self.a > 5"))

    assert version.validate(widget({"a": 1}), rules=False) == []


def test_rules_do_not_run_on_null() -> None:
    schema = fields(a={**ruled(fields(b=NUMBER), "self.b > 5"), "nullable": True})

    assert complaints(schema, {"a": None}) == []


@pytest.mark.parametrize(
    ("schema", "old", "new", "refused"),
    [
        pytest.param(ruled(TEXT, "self == oldSelf"), None, {"x": "b"}, [], id="on create"),
        pytest.param(
            ruled(TEXT, "self == oldSelf"), {"x": "a"}, {"x": "a"}, [], id="nothing changes"
        ),
        pytest.param(
            ruled(TEXT, "self == oldSelf"), {"x": "a"}, {"x": "b"}, ["spec.x"], id="a value changes"
        ),
        pytest.param(ruled(TEXT, "self == oldSelf"), {}, {"x": "b"}, [], id="a value is added"),
        pytest.param(ruled(TEXT, "self == oldSelf"), {"x": "a"}, {}, [], id="a value is removed"),
        pytest.param(
            ruled({**TEXT, "nullable": True}, "self == oldSelf"),
            {"x": None},
            {"x": "b"},
            [],
            id="a value was null",
        ),
        pytest.param(
            fields(y=ruled(TEXT, "self == oldSelf")),
            {"x": {"y": "a"}},
            {"x": {"y": "b"}},
            ["spec.x.y"],
            id="through properties",
        ),
        pytest.param(
            map_of(ruled(TEXT, "self == oldSelf")),
            {"x": {"k": "a", "l": "a"}},
            {"x": {"k": "b", "m": "b"}},
            ["spec.x.k"],
            id="through values of a map",
        ),
        pytest.param(
            list_of(fields(name=TEXT, v=ruled(TEXT, "self == oldSelf")), **KEYED),
            {"x": [{"name": "p", "v": "a"}, {"name": "q", "v": "a"}]},
            {"x": [{"name": "q", "v": "b"}, {"name": "p", "v": "a"}, {"name": "r", "v": "c"}]},
            ["spec.x[0].v"],
            id="through items of a list of type map, wherever they moved",
        ),
        pytest.param(
            ruled(list_of(TEXT), "self == oldSelf"),
            {"x": ["a"]},
            {"x": ["b"]},
            ["spec.x"],
            id="an atomic list as a whole",
        ),
        pytest.param(
            ruled(TEXT, "size(self) >= size(oldSelf)"),
            {"x": "éé"},
            {"x": "abc"},
            [],
            id="an old text beyond ASCII is counted in characters",
        ),
        pytest.param(
            ruled(fields(y=TEXT), "has(self.y) == has(oldSelf.y)"),
            {"x": {}},
            {"x": {"y": "a"}},
            ["spec.x"],
            id="a field is added to an object",
        ),
        pytest.param(
            ruled(
                TEXT,
                {"rule": "oldSelf.orValue('a') == 'a'", "optionalOldSelf": True},
            ),
            None,
            {"x": "b"},
            [],
            id="an optional old value is absent on create",
        ),
        pytest.param(
            ruled(
                TEXT,
                {"rule": "oldSelf.hasValue() && oldSelf.value() == self", "optionalOldSelf": True},
            ),
            None,
            {"x": "b"},
            ["spec.x"],
            id="a rule with an optional old value runs on create",
        ),
        pytest.param(
            ruled(
                TEXT,
                {"rule": "oldSelf.hasValue() && oldSelf.value() == self", "optionalOldSelf": True},
            ),
            {"x": "b"},
            {"x": "b"},
            [],
            id="an optional old value is there on update",
        ),
        pytest.param(
            ruled(
                TEXT,
                {"rule": "!oldSelf.hasValue() || oldSelf.value() == self", "optionalOldSelf": True},
                "self == oldSelf",
            ),
            {"x": "a"},
            {"x": "b"},
            ["spec.x", "spec.x"],
            id="both kinds of old value side by side",
        ),
    ],
)
def test_rules_about_changes(
    schema: dict[str, Any], old: Any, new: Any, refused: list[str]
) -> None:
    before = None if old is None else widget(old)
    errors = compiled(fields(x=schema)).validate(widget(new), before)

    assert refused == [error.field for error in errors]


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(list_of(ruled(TEXT, "self == oldSelf")), id="an atomic list"),
        pytest.param(
            list_of(ruled(TEXT, "self == oldSelf"), **{"x-kubernetes-list-type": "set"}), id="a set"
        ),
    ],
)
def test_a_rule_about_changes_of_items_without_keys_is_refused(schema: dict[str, Any]) -> None:
    problem = (
        'properties.x.items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf":'
        " oldSelf cannot be used inside a list whose items have no keys"
    )

    assert [problem] == crd_problems(fields(x=schema))


def test_an_error_that_did_not_matter_is_not_blamed_on_the_next_rule() -> None:
    schema = ruled(fields(t=TEXT, b=NUMBER), "self.t.substring(9) == '' || true", "self.b == 1")

    expected = ["spec: Invalid value: no such key: b evaluating rule: failed rule: self.b == 1"]

    assert expected == complaints(schema, {"t": "abc"})


def test_rules_of_one_place_do_not_disturb_each_other() -> None:
    schema = ruled(
        fields(a=NUMBER, b=fields(c=TEXT, d=TEXT)),
        "self.a == 1",
        "self.b.c == 'x'",
        "has(self.b) && self.b == {'c': 'x', 'd': 'y'}",
    )

    assert complaints(schema, {"a": 1, "b": {"c": "x", "d": "y"}}) == []
