"""What is remembered of parts that broke no rule changes no verdict."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from unit.admission.small_crds import NUMBER, compiled, fields, list_of, map_of

_RULED = fields(
    a={**NUMBER, "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
    b=NUMBER,
    items=list_of(fields(a=NUMBER)),
    more=map_of(NUMBER),
) | {
    "x-kubernetes-validations": [
        {"rule": "!has(self.a) || !has(self.b) || self.a <= self.b"},
        {"rule": "!has(self.items) || self.items.all(item, item.a > 0)", "message": "too few"},
        {"rule": "!has(oldSelf.b) || has(self.b)", "messageExpression": "'b stays'"},
    ]
}
_SMALL = st.integers(0, 2)
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.one_of(_SMALL, st.just("text")),
        "b": _SMALL,
        "items": st.lists(st.fixed_dictionaries({"a": _SMALL}), max_size=2),
        "more": st.dictionaries(st.sampled_from("xé"), _SMALL, max_size=1),
    },
)


def widget(spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "w"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}


@given(st.lists(st.tuples(_SPECS, st.one_of(st.none(), _SPECS)), max_size=12))
def test_verdicts_are_those_of_rules_that_remember_nothing(
    changes: list[tuple[dict[str, Any], dict[str, Any] | None]],
) -> None:
    version = compiled(_RULED)
    for spec, before in [*changes, *changes]:
        old = widget(before) if before is not None else None

        expected = version.validate(widget(spec), old)

        assert expected == version.validate(widget(spec), old, remembers=True)
