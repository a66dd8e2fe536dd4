"""Pruning, defaulting and checking settle at once, and their fast paths equal plain ones."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.admission.cel.expression import Functions, compile_expression
from karpenter.admission.cel.runtime import EVALUATION_ERRORS, Context
from karpenter.admission.cel.values import shape_of
from karpenter.admission.schemas.schema import ROOT_FIELDS, Node, read_schema
from unit.admission.small_crds import compiled, fields, list_of, map_of, widget

NAMES = ("a", "b", "c", "if")
FREE = {"x-kubernetes-preserve-unknown-fields": True}

scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(["", "x", "é"]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from((*NAMES, "odd")), inner, max_size=4),
    ),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from((*NAMES, "odd")), values, max_size=4)


@st.composite
def scalar_schemas(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = draw(
        st.sampled_from(
            [
                {"type": "string", "maxLength": 1},
                {"type": "integer", "minimum": 0},
                {"type": "number"},
                {"type": "boolean"},
                {"x-kubernetes-int-or-string": True},
                FREE,
            ]
        )
    )
    defaults = {"string": "x", "integer": 1, "number": 2, "boolean": False}
    if draw(st.booleans()) and schema.get("type") in defaults:
        schema = {**schema, "default": defaults[schema["type"]]}
    return {**schema, "nullable": True} if draw(st.booleans()) else schema


def containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    records = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3).map(
        lambda properties: fields(**properties)
    )
    return st.one_of(
        records,
        records.map(lambda schema: {**schema, "default": {}}),
        records.map(lambda schema: {**schema, **FREE}),
        records.map(lambda schema: {**schema, "nullable": True}),
        inner.map(map_of),
        inner.map(list_of),
        inner.map(lambda schema: list_of(schema, **{"x-kubernetes-list-type": "set"})),
    )


schemas = st.recursive(scalar_schemas(), containers, max_leaves=8)
records = st.dictionaries(st.sampled_from(NAMES), schemas, max_size=4).map(
    lambda properties: fields(**properties)
)


def plainly_pruned(value: Any, node: Node) -> Any:
    """What pruning means, without thrift."""
    if isinstance(value, dict):
        return {
            name: part
            if node.is_resource and name in ROOT_FIELDS
            else plainly_pruned(part, child)
            if (child := node.child(name)) is not None
            else part
            for name, part in value.items()
            if node.child(name) is not None or node.keeps_unknown or node.is_resource
        }
    if isinstance(value, list) and node.items is not None:
        return [plainly_pruned(item, node.items) for item in value]
    return value


@settings(max_examples=150, deadline=None)
@given(records, objects)
def test_pruning_equals_a_plain_walk(schema: dict[str, Any], spec: dict[str, Any]) -> None:
    _, problems = read_schema(schema, ())
    version = compiled(schema)

    pruned, _ = version.prune(widget(spec))

    assert ([], widget(plainly_pruned(spec, version.schema.properties["spec"]))) == (
        problems,
        pruned,
    )


@settings(max_examples=150, deadline=None)
@given(records, objects)
def test_what_is_pruned_has_nothing_left_to_prune(
    schema: dict[str, Any], spec: dict[str, Any]
) -> None:
    version = compiled(schema)
    pruned, _ = version.prune(widget(spec))

    assert (pruned, []) == version.prune(pruned)


@settings(max_examples=150, deadline=None)
@given(records, objects)
def test_what_is_complete_has_nothing_left_to_fill_in(
    schema: dict[str, Any], spec: dict[str, Any]
) -> None:
    version = compiled(schema)
    complete = version.default(widget(spec))

    assert complete == version.default(complete)


@settings(max_examples=150, deadline=None)
@given(records, objects)
def test_what_is_admitted_is_admitted_again_unchanged(
    schema: dict[str, Any], spec: dict[str, Any]
) -> None:
    version = compiled(schema)
    first = version.admit(widget(spec))

    second = version.admit(first.object, old=first.object)

    assert (first.object, first.errors, []) == (second.object, second.errors, second.pruned)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """Comparisons of fields of ``self``, some of them several steps deep."""
    names = {"if": "__if__"}
    path = ".".join(
        names.get(name, name)
        for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
    )
    form = draw(
        st.sampled_from(
            [
                "has(self.{0})",
                "self.{0} == 1",
                "size(self.{0}) > 0",
                "self.{0}.all(x, x != 1)",
                "self.{0} == self.{0}",
                "type(self.{0}) == double",
            ]
        )
    )
    return form.format(path)


@settings(max_examples=300, deadline=None)
@given(records, objects, st.lists(expressions(), min_size=1, max_size=3))
def test_handing_over_only_what_is_read_changes_no_answer(
    schema: dict[str, Any], spec: dict[str, Any], sources: list[str]
) -> None:
    expression = compile_expression(" || ".join(sources), ("self",))
    shape = shape_of(read_schema(schema, ())[0])

    outcomes = []
    for reads in (None, expression.reads("self")):
        functions = Functions(expression.functions)
        context = Context(
            variables={"self": shape.hand_over(spec, reads)}, functions=functions.by_name
        )
        try:
            outcomes.append(str(expression.run(context, is_ascii=False)))
        except EVALUATION_ERRORS as error:
            outcomes.append(functions.explain(error))

    assert outcomes[0] == outcomes[1]
