"""Server-side apply and field ownership; expectations are those of a real API server."""

from typing import Any

import pytest

from helpers.crd_cases import STRING_SET, list_map, spec_schema
from karpenter_sandbox.kinds import typed
from karpenter_sandbox.kinds.patching.apply import (
    Writer,
    apply_configuration,
    manager_name,
    track_update,
)
from karpenter_sandbox.kinds.patching.errors import PatchError
from karpenter_sandbox.kinds.schema import Schema, builtin_schema, crd_schema

JsonObject = dict[str, Any]
TIME = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:01:00Z"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
STATUS = (("status",),)

WIDGET_SCHEMA = spec_schema(
    {
        "size": {"type": "integer"},
        "name": {"type": "string"},
        "flag": {"type": "boolean"},
        "tags": STRING_SET,
        "plain": {"type": "array", "items": {"type": "string"}},
        "parts": list_map(
            "id",
            "kind",
            id={"type": "string"},
            kind={"type": "string", "default": "k"},
            n={"type": "integer"},
        ),
        "atom": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True},
        "map": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "w": {"type": "integer"}},
            },
        },
    },
    status={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
)


def widget(**spec: Any) -> JsonObject:
    return {"apiVersion": "x.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def deployment(*containers: JsonObject, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": list(containers)}}, **spec},
    }


def schema_of(obj: JsonObject) -> Schema:
    return builtin_schema(obj["apiVersion"], obj["kind"]) or WIDGET_SCHEMA


def apply(
    live: JsonObject | None,
    config: JsonObject,
    manager: str = "m1",
    *,
    force: bool = False,
    subresource: str = "",
    time: str = TIME,
) -> JsonObject:
    ignored = (("spec",),) if subresource else STATUS
    writer = Writer(manager, config["apiVersion"], time, subresource)
    return apply_configuration(
        live, config, schema=schema_of(config), writer=writer, force=force, ignored=ignored
    )


def update(
    live: JsonObject | None,
    new: JsonObject,
    manager: str = "u1",
    *,
    subresource: str = "",
    time: str = TIME,
) -> JsonObject:
    ignored = (("spec",),) if subresource else STATUS
    writer = Writer(manager, new["apiVersion"], time, subresource)
    return track_update(live, new, schema=schema_of(new), writer=writer, ignored=ignored)


def owned(obj: JsonObject) -> dict[str, Any]:
    """Fields by manager; those of a subresource as ``manager/subresource``."""
    return {
        "/".join(filter(None, [entry["manager"], entry.get("subresource")])): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


def fields(*names: str) -> JsonObject:
    return {"f:spec": {f"f:{name}": {} for name in names}}


def refusal(live: JsonObject | None, config: JsonObject, manager: str = "m1") -> PatchError:
    with pytest.raises(PatchError) as caught:
        apply(live, config, manager)
    return caught.value


def test_applying_creates_an_object_and_owns_what_was_stated() -> None:
    config = widget(
        size=1,
        tags=["b", "a"],
        parts=[{"id": "1", "n": 1}],
        atom={"a": "1"},
        free={"x": {"y": 1}},
        map={"k": {"v": 1}},
    )

    created = apply(None, config)

    assert config["spec"] == created["spec"]
    (entry,) = created["metadata"]["managedFields"]
    assert {
        "manager": "m1",
        "operation": "Apply",
        "apiVersion": "x.io/v1",
        "time": TIME,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:spec": {
                "f:size": {},
                "f:tags": {'v:"a"': {}, 'v:"b"': {}},
                "f:parts": {'k:{"id":"1","kind":"k"}': {".": {}, "f:id": {}, "f:n": {}}},
                "f:atom": {},
                "f:free": {"f:x": {".": {}, "f:y": {}}},
                "f:map": {"f:k": {".": {}, "f:v": {}}},
            }
        },
    } == entry


def test_applying_the_same_again_changes_nothing() -> None:
    created = apply(None, widget(size=1, tags=["a"]))

    again = apply(created, widget(size=1, tags=["a"]), time=LATER)

    assert created == again


def test_what_is_no_longer_stated_is_removed() -> None:
    created = apply(None, widget(size=1, name="n", parts=[{"id": "1"}, {"id": "2"}], map={"k": {}}))

    result = apply(created, widget(size=1, parts=[{"id": "2"}]), time=LATER)

    assert {"size": 1, "parts": [{"id": "2"}]} == result["spec"]
    assert LATER == result["metadata"]["managedFields"][0]["time"]


def test_what_another_manager_states_too_stays() -> None:
    first = apply(None, widget(size=1, tags=["a", "b"]))
    both = apply(first, widget(size=1, tags=["b", "c"]), "m2")

    result = apply(both, widget(), "m1")

    assert {"size": 1, "tags": ["b", "c"]} == result["spec"]
    expected: JsonObject = {"f:spec": {"f:size": {}, "f:tags": {'v:"b"': {}, 'v:"c"': {}}}}
    assert {"m1": {"f:spec": {}}, "m2": expected} == owned(result)


def test_two_managers_share_a_list() -> None:
    first = apply(None, widget(parts=[{"id": "1", "n": 1}, {"id": "2"}]))

    result = apply(first, widget(parts=[{"id": "3"}, {"id": "2", "n": 2}]), "m2")

    expected = [{"id": "1", "n": 1}, {"id": "3"}, {"id": "2", "n": 2}]
    assert expected == result["spec"]["parts"]


def test_changing_what_another_manager_owns_is_a_conflict() -> None:
    live = apply(None, widget(size=1))

    error = refusal(live, widget(size=2), "m2")

    assert (409, "Conflict") == (error.status, error.reason)
    assert 'Apply failed with 1 conflict: conflict with "m1": .spec.size' == error.message
    (cause,) = error.causes
    assert ("FieldManagerConflict", 'conflict with "m1"', ".spec.size") == (
        cause.reason,
        cause.message,
        cause.field,
    )


def test_every_conflict_is_told() -> None:
    live = update(None, deployment({"name": "c", "image": "1"}, replicas=1), "kubectl-create")
    status = {**live, "status": {"replicas": 1}}
    live = update(live, status, "ctl", subresource="status")

    error = refusal(live, deployment({"name": "c", "image": "2"}, replicas=2))

    assert (
        'Apply failed with 2 conflicts: conflicts with "kubectl-create" using apps/v1:\n'
        "- .spec.replicas\n"
        '- .spec.template.spec.containers[name="c"].image'
    ) == error.message


def test_conflicts_name_the_subresource() -> None:
    live = update(None, deployment(), "u1")
    live = update(live, {**live, "status": {"replicas": 1}}, "ctl", subresource="status")
    config = {**deployment(), "status": {"replicas": 2}}
    del config["spec"]

    with pytest.raises(PatchError) as caught:
        apply(live, config, subresource="status")

    assert (
        'Apply failed with 1 conflict: conflict with "ctl" with subresource "status"'
        " using apps/v1: .status.replicas"
    ) == caught.value.message


def test_force_takes_fields_over() -> None:
    live = apply(None, widget(size=1, name="n"))

    result = apply(live, widget(size=2), "m2", force=True)

    assert {"size": 2, "name": "n"} == result["spec"]
    assert {"m1": fields("name"), "m2": fields("size")} == owned(result)


def test_agreeing_makes_both_owners() -> None:
    live = apply(None, widget(size=1))

    result = apply(live, widget(size=1), "m2")

    assert {"m1": fields("size"), "m2": fields("size")} == owned(result)


def test_an_atomic_value_has_one_owner() -> None:
    live = apply(None, widget(atom={"a": "1"}, plain=["x"]))

    error = refusal(live, widget(atom={"b": "1"}, plain=["y"]), "m2")

    assert [".spec.atom", ".spec.plain"] == [cause.field for cause in error.causes]


def test_status_has_managers_of_its_own() -> None:
    live = apply(None, widget(size=1))
    config = {**widget(), "status": {"phase": "x"}}

    result = apply(live, config, subresource="status")

    assert {"phase": "x"} == result["status"]
    assert {"m1": fields("size"), "m1/status": {"f:status": {"f:phase": {}}}} == owned(result)


def test_fields_a_request_cannot_change_are_not_owned() -> None:
    result = apply(None, {**widget(size=1), "status": {"phase": "x"}})

    assert {"m1": fields("size")} == owned(result)


def test_lists_are_reordered_by_who_states_them() -> None:
    live = apply(None, widget(parts=[{"id": "1"}, {"id": "2"}, {"id": "3"}]))
    live = apply(live, widget(parts=[{"id": "9"}]), "m2")

    result = apply(live, widget(parts=[{"id": "3"}, {"id": "n"}, {"id": "1"}]))

    assert ["3", "9", "n", "1"] == [part["id"] for part in result["spec"]["parts"]]


def test_a_value_may_change_its_type() -> None:
    live = apply(None, widget(free={"x": {"y": 1}}, either=1))

    result = apply(live, widget(free={"x": [1]}, either="1"))

    assert {"free": {"x": [1]}, "either": "1"} == result["spec"]


def test_the_first_apply_respects_what_was_there() -> None:
    live = widget(size=1, name="n")

    error = refusal(live, widget(size=2))
    result = apply(live, widget(size=1, flag=True))

    assert (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using x.io/v1: .spec.size'
    ) == error.message
    before: JsonObject = {"f:spec": {".": {}, "f:name": {}, "f:size": {}}}
    assert {"m1": fields("flag", "size"), "before-first-apply": before} == owned(result)


def last_applied(config: str) -> JsonObject:
    live = widget(size=1, name="old")
    live["metadata"]["annotations"] = {LAST_APPLIED: config}
    return update(None, live, "kubectl-client-side-apply")


CLIENT_CONFIG = '{"apiVersion":"x.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1}}'


def test_kubectl_takes_over_from_its_client_side_apply() -> None:
    live = last_applied(CLIENT_CONFIG)

    result = apply(live, widget(size=2), "kubectl")

    assert {"size": 2, "name": "old"} == result["spec"]
    record = result["metadata"]["annotations"][LAST_APPLIED]
    assert (
        '{"apiVersion":"x.io/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":2}}\n'
    ) == record


@pytest.mark.parametrize(
    ("config", "manager"),
    [
        pytest.param(CLIENT_CONFIG, "m1", id="another manager"),
        pytest.param(CLIENT_CONFIG.replace("x.io/v1", "x.io/v2"), "kubectl", id="another version"),
        pytest.param("{", "kubectl", id="a broken record"),
        pytest.param("[]", "kubectl", id="a record that is no object"),
        pytest.param(CLIENT_CONFIG.replace("1}}", "7}}"), "kubectl", id="a value changed since"),
        pytest.param('{"apiVersion":"x.io/v1"}', "kubectl", id="a record without the field"),
    ],
)
def test_nobody_else_takes_over(config: str, manager: str) -> None:
    error = refusal(last_applied(config), widget(size=2), manager)

    assert 409 == error.status


@pytest.mark.parametrize(
    ("config", "status", "message"),
    [
        pytest.param(
            {**widget(), "apiVersion": "x.io/v2"},
            400,
            "invalid object type: x.io/v2, Kind=Widget",
            id="another version",
        ),
        pytest.param({"spec": {}}, 400, "invalid object type: /, Kind=", id="no kind at all"),
        pytest.param(
            {**widget(), "metadata": {"managedFields": []}},
            400,
            "metadata.managedFields must be nil",
            id="managers in a configuration",
        ),
        pytest.param(
            widget(nope=1),
            500,
            "failed to create typed patch object (/w; x.io/v1, Kind=Widget):"
            " .spec.nope: field not declared in schema",
            id="an unknown field",
        ),
        pytest.param(
            widget(size="x"),
            500,
            "failed to create typed patch object (/w; x.io/v1, Kind=Widget):"
            " .spec.size: expected numeric (int or float), got string",
            id="text for a number",
        ),
        pytest.param(
            widget(tags=["a", "a"]),
            500,
            "failed to create typed patch object (/w; x.io/v1, Kind=Widget):"
            ' .spec.tags: duplicate entries for key [="a"]',
            id="twice in a set",
        ),
        pytest.param(
            widget(tags=[{"a": 1}]),
            500,
            "failed to create typed patch object (/w; x.io/v1, Kind=Widget): .spec.tags:"
            " element 0: associative list without keys has an element that's a map type",
            id="an object in a set",
        ),
        pytest.param(
            widget(parts=["x"]),
            500,
            "failed to create typed patch object (/w; x.io/v1, Kind=Widget): .spec.parts:"
            " element 0: associative list with keys may not have non-map elements",
            id="text among items",
        ),
        pytest.param(
            widget(size=True, name=1, flag="x", tags=5, map=[], either={}, plain=[5]),
            500,
            "failed to create typed patch object (/w; x.io/v1, Kind=Widget): errors:\n"
            "  .spec.size: expected numeric (int or float), got bool\n"
            "  .spec.name: expected string, got number\n"
            "  .spec.flag: expected boolean, got string\n"
            "  .spec.tags: expected list, got number\n"
            "  .spec.map: expected map, got list\n"
            "  .spec.plain[0]: expected string, got number",
            id="several mistakes",
        ),
    ],
)
def test_configurations_that_do_not_fit(config: JsonObject, status: int, message: str) -> None:
    writer = Writer("m1", "x.io/v1", TIME)

    with pytest.raises(PatchError) as caught:
        apply_configuration(None, config, schema=WIDGET_SCHEMA, writer=writer)

    assert (status, message) == (caught.value.status, caught.value.message)


def test_an_item_without_its_key_is_known_by_the_default() -> None:
    created = apply(None, deployment({"image": "x"}))

    containers = owned(created)["m1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert {'k:{"name":""}': {".": {}, "f:image": {}}} == containers


def test_an_item_needs_a_key_or_a_default() -> None:
    items = {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}}
    parts = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id"],
    }
    schema = crd_schema({"type": "object", "properties": {"parts": parts}})
    config = {"apiVersion": "x.io/v1", "kind": "Widget", "parts": [{"n": 1}]}

    with pytest.raises(PatchError) as caught:
        apply_configuration(None, config, schema=schema, writer=Writer("m1", "x.io/v1", TIME))

    assert caught.value.message.endswith(
        ".parts: element 0: associative list with keys has an element that omits all key fields"
        ' ["id"] (and doesn\'t have default values for any key fields)'
    )


def test_creating_owns_what_is_written_and_defaulted() -> None:
    new = typed.complete_object(
        deployment(
            {"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}
        ),
        "apps/v1",
        "Deployment",
    )
    new["metadata"]["labels"] = {"a": "b"}

    created = update(None, new)

    container: JsonObject = {
        ".": {},
        "f:image": {},
        "f:name": {},
        "f:ports": {
            ".": {},
            'k:{"containerPort":80,"protocol":"TCP"}': {
                ".": {},
                "f:containerPort": {},
                "f:protocol": {},
            },
        },
        "f:resources": {},
    }
    spec = {"f:template": {"f:spec": {"f:containers": {'k:{"name":"c"}': container}}}}
    metadata: JsonObject = {"f:labels": {".": {}, "f:a": {}}}
    assert {"u1": {"f:metadata": metadata, "f:spec": spec}} == owned(created)


def test_creating_a_custom_resource_owns_its_containers_too() -> None:
    created = update(None, widget(size=1, tags=["a"]))

    assert {"u1": {"f:spec": {".": {}, "f:size": {}, "f:tags": {".": {}, 'v:"a"': {}}}}} == owned(
        created
    )


def test_updating_takes_over_what_it_changes() -> None:
    live = update(None, widget(size=1, name="n"), "u1")

    result = update(live, {**live, "spec": {"size": 2, "flag": True}}, "u2", time=LATER)

    assert {
        "u1": {"f:spec": {}},
        "u2": fields("flag", "size"),
    } == owned(result)
    times = {entry["manager"]: entry["time"] for entry in result["metadata"]["managedFields"]}
    assert {"u1": TIME, "u2": LATER} == times


def test_an_update_that_changes_nothing_leaves_managers_alone() -> None:
    live = update(None, widget(size=1), "u1")

    result = update(live, live, "u2", time=LATER)

    assert live == result


def test_an_update_adds_to_what_the_manager_had() -> None:
    live = update(None, widget(size=1), "u1")

    result = update(live, {**live, "spec": {"size": 1, "name": "n"}}, "u1", time=LATER)

    assert {"u1": {"f:spec": {".": {}, "f:name": {}, "f:size": {}}}} == owned(result)
    assert LATER == result["metadata"]["managedFields"][0]["time"]


def test_an_object_without_managers_stays_without() -> None:
    live = widget(size=1)

    result = update(live, widget(size=2))

    assert "managedFields" not in result["metadata"]


def test_clients_that_drop_managers_do_not_erase_them() -> None:
    live = apply(None, widget(size=1))
    bare = widget(size=1, name="n")

    result = update(live, bare)

    assert {"m1": fields("size"), "u1": fields("name")} == owned(result)


def test_clients_that_garble_managers_do_not_erase_them() -> None:
    live = apply(None, widget(size=1))
    garbled = widget(size=1)
    garbled["metadata"]["managedFields"] = [{"manager": "x", "operation": "Frob"}]

    assert owned(live) == owned(update(live, garbled))


@pytest.mark.parametrize(
    "reset", [pytest.param([], id="an empty list"), pytest.param([{}], id="one empty entry")]
)
def test_managers_can_be_reset(reset: list[JsonObject]) -> None:
    live = apply(None, widget(size=1))
    new = {**live, "metadata": {"name": "w", "managedFields": reset}}

    assert {} == owned(update(live, new))


def test_managers_can_be_edited() -> None:
    live = apply(None, widget(size=1))
    entry = {**live["metadata"]["managedFields"][0], "manager": "other"}
    new = {**live, "metadata": {"name": "w", "managedFields": [entry]}}

    assert {"other": fields("size")} == owned(update(live, new))


def test_a_subresource_cannot_edit_managers() -> None:
    live = apply(None, widget(size=1))
    new = {**live, "metadata": {"name": "w", "managedFields": [{}]}, "status": {"a": 1}}

    result = update(live, new, subresource="status")

    assert {"m1": fields("size"), "u1/status": {"f:status": {".": {}, "f:a": {}}}} == owned(result)


def test_names_and_server_fields_are_nobodys() -> None:
    created = update(None, {**widget(), "metadata": {"name": "w", "uid": "1", "generation": 1}})

    assert {"u1": {"f:spec": {}}} == owned(created)


def test_old_managers_are_folded_into_one() -> None:
    live = update(None, widget(), "u0")
    for number in range(12):
        annotations = {f"a{i}": "x" for i in range(number + 1)}
        new = {**live, "metadata": {**live["metadata"], "annotations": annotations}}
        live = update(live, new, f"u{number + 1:02}", time=f"2026-01-01T00:{number:02}:00Z")

    managers = owned(live)

    assert 10 == len(managers)
    assert {
        "f:metadata": {"f:annotations": {".": {}, "f:a0": {}, "f:a1": {}, "f:a2": {}}},
        "f:spec": {},
    } == managers["ancient-changes"]
    assert {"f:metadata": {"f:annotations": {"f:a11": {}}}} == managers["u12"]


def test_duplicates_are_owned_together() -> None:
    live = update(None, widget(plain=["a"], tags=["a"]))

    twice = update(live, {**live, "spec": {"tags": ["a", "a"]}}, "u2")
    once = update(twice, {**twice, "spec": {"tags": ["a"]}}, "u3")

    assert {"f:spec": {"f:tags": {'v:"a"': {}}}} == owned(twice)["u2"]
    assert {"f:spec": {"f:tags": {'v:"a"': {}}}} == owned(once)["u3"]


def test_duplicates_that_change_are_taken_over_together() -> None:
    parts = [{"id": "1", "kind": "k", "n": 1}, {"id": "1", "kind": "k", "n": 2}]
    live = update(None, widget(parts=parts))

    result = update(live, {**live, "spec": {"parts": list(reversed(parts))}}, "u2")

    assert {"f:spec": {"f:parts": {'k:{"id":"1","kind":"k"}': {}}}} == owned(result)["u2"]


def test_items_without_identity_end_the_tracking() -> None:
    live = update(None, widget(tags=["a"]))

    result = update(live, {**live, "spec": {"tags": [None]}})

    assert {} == owned(result)


def test_live_managers_that_cannot_be_read_stop_an_apply() -> None:
    live = widget(size=1)
    live["metadata"]["managedFields"] = [{"operation": "Apply", "apiVersion": "x.io/v1"}]

    error = refusal(live, widget(size=1))

    assert (
        500,
        "failed to decode managed fields: missing fieldsType in managed fields entry 0",
    ) == (error.status, error.message)


@pytest.mark.parametrize(
    ("field_manager", "agent", "expected"),
    [
        pytest.param("me", "kubectl/v1", "me", id="named"),
        pytest.param("", "kubectl/v1.32 (linux)", "kubectl", id="from the user agent"),
        pytest.param(None, "a\x00b\tc", "abc", id="without control characters"),
        pytest.param(None, "ä" * 100, "ä" * 64, id="cut to 128 bytes"),
        pytest.param(None, "", "", id="unknown"),
    ],
)
def test_the_name_of_a_manager(field_manager: str | None, agent: str, expected: str) -> None:
    assert expected == manager_name(field_manager, agent)


def test_a_writer_without_a_name_is_unknown() -> None:
    assert ["unknown"] == list(owned(update(None, widget(size=1), "")))
