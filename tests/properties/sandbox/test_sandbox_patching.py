"""Patches lead where they were meant to; applying is idempotent, fair and forgets nothing."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.crd_cases import STRING_SET, list_map, spec_schema
from karpenter_sandbox.kinds.patching.apply import Writer, apply_configuration, track_update
from karpenter_sandbox.kinds.patching.comparing import compare, fields_of
from karpenter_sandbox.kinds.patching.elements import ABSENT
from karpenter_sandbox.kinds.patching.errors import PatchError
from karpenter_sandbox.kinds.patching.fieldsets import FieldSet
from karpenter_sandbox.kinds.patching.json_patch import apply_json_patch
from karpenter_sandbox.kinds.patching.merge_patch import apply_merge_patch
from karpenter_sandbox.kinds.patching.merging import merge, remove
from karpenter_sandbox.kinds.patching.strategic import apply_strategic_patch
from karpenter_sandbox.kinds.schema import builtin_schema

pytestmark = pytest.mark.storm

JsonObject = dict[str, Any]
TIME = "2026-01-01T00:00:00Z"
QUICK = settings(max_examples=60, deadline=None)
POD = builtin_schema("v1", "Pod")
assert POD is not None
CUSTOM = spec_schema(
    {
        "size": {"type": "integer"},
        "tags": STRING_SET,
        "parts": list_map(
            "id", id={"type": "string"}, n={"type": "integer"}, m={"type": "integer"}
        ),
        "atom": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "integer"},
        },
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
)

keys = st.sampled_from(["a", "b", "c", "d"])
numbers = st.integers(0, 2)
scalars = st.one_of(numbers, keys, st.booleans())
documents = st.dictionaries(
    keys,
    st.recursive(
        scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner))
    ),
)
filled_maps = st.dictionaries(keys, numbers, min_size=1)
specs = st.fixed_dictionaries(
    {},
    optional={
        "size": numbers,
        "tags": st.lists(keys, min_size=1, unique=True),
        "parts": st.lists(
            st.fixed_dictionaries({"id": keys}, optional={"n": numbers, "m": numbers}),
            min_size=1,
            unique_by=lambda part: part["id"],
        ),
        "atom": filled_maps,
        "map": filled_maps,
        "free": st.dictionaries(keys, scalars, min_size=1),
    },
)
managers = st.sampled_from(["m1", "m2", "m3"])


def custom(spec: JsonObject) -> JsonObject:
    content = {"spec": spec} if spec else {}
    return {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}, **content}


def apply(
    live: JsonObject | None, spec: JsonObject, manager: str = "m1", *, force: bool = True
) -> JsonObject:
    writer = Writer(manager, "x.io/v1", TIME)
    return apply_configuration(live, custom(spec), schema=CUSTOM, writer=writer, force=force)


def owned(obj: JsonObject, manager: str) -> FieldSet:
    for entry in obj["metadata"].get("managedFields", []):
        if entry["manager"] == manager:
            return FieldSet.from_wire(entry["fieldsV1"])
    return FieldSet()


def sorted_lists(value: Any) -> Any:
    """A value whose lists are in one order, whoever stated them first."""
    if isinstance(value, dict):
        return {key: sorted_lists(part) for key, part in sorted(value.items())}
    if isinstance(value, list):
        return sorted((sorted_lists(part) for part in value), key=json.dumps)
    return value


def merge_difference(before: JsonObject, after: JsonObject) -> JsonObject:
    patch: JsonObject = {key: None for key in before if key not in after}
    for key, value in after.items():
        if isinstance(before.get(key), dict) and isinstance(value, dict):
            patch[key] = merge_difference(before[key], value)
        elif key not in before or json.dumps(before[key]) != json.dumps(value):
            patch[key] = value
    return patch


@QUICK
@given(documents, documents)
def test_a_merge_patch_leads_from_one_document_to_another(
    before: JsonObject, after: JsonObject
) -> None:
    result = apply_merge_patch(before, merge_difference(before, after))

    assert json.dumps(after, sort_keys=True) == json.dumps(result, sort_keys=True)


def json_difference(before: Any, after: Any, path: str = "") -> list[JsonObject]:
    if isinstance(before, dict) and isinstance(after, dict):
        operations = [
            {"op": "remove", "path": f"{path}/{key}"} for key in before if key not in after
        ]
        for key, value in after.items():
            inner = f"{path}/{key}"
            if key not in before:
                operations.append({"op": "add", "path": inner, "value": value})
            else:
                operations.extend(json_difference(before[key], value, inner))
        return operations
    if json.dumps(before) == json.dumps(after):
        return []
    return [
        {"op": "test", "path": path, "value": before},
        {"op": "replace", "path": path, "value": after},
    ]


@QUICK
@given(documents, documents)
def test_a_json_patch_leads_from_one_document_to_another(
    before: JsonObject, after: JsonObject
) -> None:
    result = apply_json_patch(before, json_difference(before, after))

    assert json.dumps(after, sort_keys=True) == json.dumps(result, sort_keys=True)


env = st.lists(
    st.fixed_dictionaries({"name": keys}, optional={"value": keys}),
    unique_by=lambda entry: entry["name"],
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": keys}, optional={"image": keys, "env": env, "command": st.lists(keys)}
    ),
    unique_by=lambda entry: entry["name"],
)
pods = st.builds(
    lambda containers, finalizers: {
        "metadata": {"finalizers": finalizers},
        "spec": {"containers": containers},
    },
    containers,
    st.lists(keys, unique=True),
)


def keyed_difference(name: str, before: list[Any], after: list[Any]) -> JsonObject:
    """What ``kubectl apply`` would send about a list with keys."""
    held = {item["name"]: item for item in before}
    wanted = {item["name"]: item for item in after}
    items = [{"$patch": "delete", "name": key} for key in held if key not in wanted]
    for key, item in wanted.items():
        old = held.get(key, {})
        change: JsonObject = {"name": key, **{field: None for field in old if field not in item}}
        for field, value in item.items():
            if field == "env" and isinstance(old.get("env"), list):
                change.update(keyed_difference("env", old["env"], value))
            elif field != "name":
                change[field] = value
        items.append(change)
    return {name: items, f"$setElementOrder/{name}": [{"name": key} for key in wanted]}


@QUICK
@given(pods, pods)
def test_a_strategic_patch_leads_from_one_pod_to_another(
    before: JsonObject, after: JsonObject
) -> None:
    old, new = before["metadata"]["finalizers"], after["metadata"]["finalizers"]
    patch = {
        "metadata": {
            "finalizers": new,
            "$setElementOrder/finalizers": new,
            "$deleteFromPrimitiveList/finalizers": [name for name in old if name not in new],
        },
        "spec": keyed_difference(
            "containers", before["spec"]["containers"], after["spec"]["containers"]
        ),
    }
    assert POD is not None

    result = apply_strategic_patch(before, patch, POD)

    assert after == result


paths = st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'v:"x"']), min_size=1, max_size=3)
path_sets = st.frozensets(paths.map(tuple), max_size=6)


@QUICK
@given(path_sets, path_sets)
def test_field_sets_are_sets_of_paths(
    left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]
) -> None:
    one, other = FieldSet.of(*left), FieldSet.of(*right)

    assert left | right == set((one | other).paths())
    assert left & right == set((one & other).paths())
    assert left - right == set((one - other).paths())
    below = {path for path in left if any(path[: len(top)] == top for top in right)}
    assert left - below == set(one.without_subtrees(other).paths())
    assert all(path in one for path in left)
    assert bool(left) == bool(one)


@QUICK
@given(path_sets)
def test_field_sets_survive_the_wire(content: frozenset[tuple[str, ...]]) -> None:
    wire = FieldSet.of(*content).to_wire()

    assert content == set(FieldSet.from_wire(json.loads(json.dumps(wire))).paths())


@QUICK
@given(specs, specs)
def test_comparing_finds_every_difference_and_no_other(
    before: JsonObject, after: JsonObject
) -> None:
    old, new = custom(before), custom(after)

    comparison = compare(old, new, CUSTOM)

    had, has = fields_of(old, CUSTOM), fields_of(new, CUSTOM)
    assert not (has - had) - comparison.added
    assert not (had - has) - comparison.removed
    changed = comparison.added | comparison.modified | comparison.removed
    assert bool(changed) == (sorted_lists(before) != sorted_lists(after))
    assert not comparison.added & had
    assert not comparison.removed & has


@QUICK
@given(specs, specs)
def test_merging_keeps_both_and_prefers_what_is_laid_on_top(
    base: JsonObject, laid: JsonObject
) -> None:
    merged = merge(custom(base), custom(laid), CUSTOM)

    assert not (fields_of(custom(laid), CUSTOM) - fields_of(merged, CUSTOM))
    assert not (fields_of(custom(base), CUSTOM) - fields_of(merged, CUSTOM))
    assert merged == merge(merged, custom(laid), CUSTOM)
    assert merged == merge(merged, ABSENT, CUSTOM)


@QUICK
@given(specs, specs)
def test_removing_takes_out_what_it_is_told(spec: JsonObject, other: JsonObject) -> None:
    gone = fields_of(custom(other), CUSTOM)

    left = remove(custom(spec), gone, CUSTOM)

    assert not fields_of(left, CUSTOM) & gone


@QUICK
@given(specs, specs)
def test_applying_again_changes_nothing(first: JsonObject, second: JsonObject) -> None:
    live = apply(apply(None, first, "m1"), second, "m2")

    assert live == apply(live, second, "m2")


@QUICK
@given(st.lists(st.tuples(managers, specs), min_size=1, max_size=6))
def test_what_was_applied_last_is_there_and_owned(
    history: list[tuple[str, JsonObject]],
) -> None:
    live: JsonObject | None = None
    for manager, spec in history:
        live = apply(live, spec, manager)
        stated = fields_of(custom(spec), CUSTOM) - FieldSet.of(
            ("f:apiVersion",), ("f:kind",), ("f:metadata", "f:name")
        )
        assert stated == owned(live, manager)
        assert not stated - fields_of(live, CUSTOM)
        again = compare(live, merge(live, custom(spec), CUSTOM), CUSTOM)
        assert not again.modified | again.added


@QUICK
@given(st.lists(st.tuples(managers, specs), min_size=1, max_size=6))
def test_when_everybody_lets_go_nothing_is_left(
    history: list[tuple[str, JsonObject]],
) -> None:
    live: JsonObject | None = None
    for manager, spec in history:
        live = apply(live, spec, manager)
    for manager in ("m1", "m2", "m3"):
        live = apply(live, {}, manager)

    assert live is not None
    assert {} == live.get("spec", {})


@QUICK
@given(specs, specs)
def test_two_managers_end_with_the_same_fields_in_either_order(
    first: JsonObject, second: JsonObject
) -> None:
    def both(order: list[tuple[str, JsonObject]]) -> JsonObject | None:
        live: JsonObject | None = None
        try:
            for manager, spec in order:
                live = apply(live, spec, manager, force=False)
        except PatchError:
            return None
        return live

    forward = both([("m1", first), ("m2", second)])
    backward = both([("m2", second), ("m1", first)])

    assert (forward is None) == (backward is None)
    if forward is not None and backward is not None:
        assert sorted_lists(forward.get("spec")) == sorted_lists(backward.get("spec"))
        assert owned(forward, "m1") == owned(backward, "m1")


@QUICK
@given(specs.filter(bool), specs)
def test_an_updater_owns_exactly_what_it_changed(before: JsonObject, after: JsonObject) -> None:
    live = apply(None, before, "m1")
    new = {**custom(after), "metadata": {"name": "w"}}

    result = track_update(live, new, schema=CUSTOM, writer=Writer("u", "x.io/v1", TIME))

    differences = compare(custom(before), custom(after), CUSTOM)
    assert differences.added | differences.modified == owned(result, "u")
    everybodys = owned(result, "m1") | owned(result, "u")
    assert not fields_of(custom(before), CUSTOM) & everybodys - fields_of(new, CUSTOM)
