"""The API server's promise for ``karpenter.sh/v1`` NodePool.

Every field has an object that is accepted and every rule one that is refused at the right place;
two tests at the end watch over that completeness. Which label keys may be used where is in
``test_crd_label_keys``.
"""

from typing import Any

import pytest

from karpenter.admission.crds import builtin_crds
from unit.api.crd_cases import (
    ABSENT,
    admit,
    at_path,
    case,
    columns,
    errors_of,
    replaced,
    unproved,
    values_of,
    wrong_fields,
)
from unit.api.crd_walk import crd_version, declared_fields, rule_messages, used_fields
from unit.api.label_key_cases import POOL_LABEL, POOL_REQUIREMENT, refused_keys
from unit.api.nodepool_cases import ACCEPTED, BUDGETS, CLASS, DISRUPTION, LABELS, NODES, REFUSED
from unit.api.requirement_cases import (
    ACCEPTED_KEYS,
    ACCEPTED_MIN_VALUES,
    ACCEPTED_TAINTS,
    NOT_IN_WITHOUT_VALUES,
    ODD_BUT_ACCEPTED_VALUES,
    REFUSED_KEYS,
    REFUSED_MIN_VALUES,
    REFUSED_TAINTS,
    V1_OPERATORS,
    accepted_operators,
    refused_operators,
    requirement,
)
from unit.api.small_objects import POOL

CRD = "nodepools.karpenter.sh"
V1 = crd_version(CRD, "v1")
REQUIREMENTS = f"{NODES}.requirements"
DEFAULT_DISRUPTION = {
    "consolidateAfter": "0s",
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "budgets": [{"nodes": "10%"}],
}
WITH_REPLICAS = [
    case("limited-by-nodes", {"replicas": 3, "limits": {"nodes": 5}}, set()),
    case("with-empty-limits", {"replicas": 3, "limits": {}}, set()),
    case("with-a-weight", {"replicas": 3, "weight": 10}, {"spec.weight"}),
    case("limited-by-cpu", {"replicas": 3, "limits": {"nodes": 5, "cpu": 8}}, {"spec.limits"}),
    case(
        "with-consolidation-fields",
        {"replicas": 3, "disruption": {"consolidateAfter": "Never"}},
        set(),
    ),
]
REFUSED_EDITS = [
    case("group-of-the-node-class", f"{CLASS}.group", "a.example", "b.example"),
    case("kind-of-the-node-class", f"{CLASS}.kind", "A", "B"),
    case("replicas-added", "spec.replicas", ABSENT, 3),
    case("replicas-removed", "spec.replicas", 3, ABSENT),
]
STATUS: dict[str, Any] = {
    "resources": {"cpu": "12", "memory": "96Gi", "pods": 110, "nodes": 2},
    "nodes": 2,
    "nodeClassObservedGeneration": 4,
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
            "message": "",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ],
}


def pool(**spec: Any) -> dict[str, Any]:
    """The small pool with fields of its spec added."""
    return {**POOL, "spec": {**POOL["spec"], **spec}}


def with_requirement(given: dict[str, Any]) -> dict[str, Any]:
    return replaced(POOL, REQUIREMENTS, [given])


@pytest.mark.parametrize(("field", "value"), ACCEPTED)
def test_accepted(field: str, value: object) -> None:
    admitted = admit(replaced(POOL, field, value))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.row("S2-20")
def test_a_pool_holds_taints_zones_types_system_architecture_and_expiry() -> None:
    nodes = {
        **POOL["spec"]["template"]["spec"],
        "requirements": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2a"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]},
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "kubernetes.io/arch", "operator": "NotIn", "values": ["arm64"]},
        ],
        "taints": [{"key": "example.com/special", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "example.com/starting", "effect": "NoExecute"}],
        "expireAfter": "336h",
    }

    admitted = admit(replaced(POOL, NODES, nodes))

    assert admitted.errors == []
    assert nodes == at_path(admitted.object, NODES)


@pytest.mark.row("S2-19")
@pytest.mark.parametrize(("field", "value", "at"), REFUSED)
def test_refused(field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(POOL, field, value))


@pytest.mark.parametrize(
    "given",
    [*accepted_operators(V1_OPERATORS), *ODD_BUT_ACCEPTED_VALUES, *NOT_IN_WITHOUT_VALUES],
)
def test_a_requirement_is_accepted(given: dict[str, Any]) -> None:
    assert errors_of(with_requirement(given)) == []


@pytest.mark.parametrize(("given", "field"), refused_operators(V1_OPERATORS))
def test_a_requirement_is_refused(given: dict[str, Any], field: str) -> None:
    assert {f"{REQUIREMENTS}[0].{field}"} == wrong_fields(with_requirement(given))


@pytest.mark.parametrize("key", ACCEPTED_KEYS)
def test_a_requirement_key_is_accepted(key: str) -> None:
    assert errors_of(with_requirement(requirement(key=key))) == []


@pytest.mark.parametrize("key", REFUSED_KEYS)
def test_a_requirement_key_is_refused(key: object) -> None:
    assert {f"{REQUIREMENTS}[0].key"} == wrong_fields(with_requirement(requirement(key=key)))


@pytest.mark.parametrize("given", ACCEPTED_MIN_VALUES)
def test_min_values_are_accepted(given: dict[str, Any]) -> None:
    assert errors_of(with_requirement(given)) == []


@pytest.mark.parametrize("given", REFUSED_MIN_VALUES)
def test_min_values_are_refused(given: dict[str, Any]) -> None:
    assert {f"{REQUIREMENTS}[0].minValues"} == wrong_fields(with_requirement(given))


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize("given", ACCEPTED_TAINTS)
def test_a_taint_is_accepted(field: str, given: dict[str, Any]) -> None:
    assert errors_of(replaced(POOL, f"{NODES}.{field}", [given])) == []


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize(("given", "wrong"), REFUSED_TAINTS)
def test_a_taint_is_refused(field: str, given: dict[str, Any], wrong: str) -> None:
    path = f"{NODES}.{field}"

    assert {f"{path}[0].{wrong}"} == wrong_fields(replaced(POOL, path, [given]))


def test_duplicate_taints_are_left_to_the_controllers() -> None:
    twice = [{"key": "a", "effect": "NoSchedule"}] * 2

    assert errors_of(replaced(POOL, f"{NODES}.taints", twice)) == []


@pytest.mark.parametrize(("spec", "wrong"), WITH_REPLICAS)
def test_a_pool_with_replicas(spec: dict[str, Any], wrong: set[str]) -> None:
    assert wrong == wrong_fields(pool(**spec))


@pytest.mark.parametrize(
    ("field", "before", "after"),
    [
        pytest.param(f"{CLASS}.name", "a", "b", id="another-node-class"),
        pytest.param("spec.replicas", 1, 2, id="more-replicas"),
        pytest.param("spec.replicas", 1, 0, id="no-replicas"),
        pytest.param("spec.weight", 1, ABSENT, id="weight-removed"),
        pytest.param("spec.limits", ABSENT, {"cpu": 1}, id="limits-added"),
        pytest.param(f"{DISRUPTION}.consolidateAfter", "0s", "Never", id="consolidation-off"),
        pytest.param(f"{NODES}.expireAfter", "720h", "Never", id="expiry-off"),
        pytest.param(
            REQUIREMENTS,
            [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}],
            [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c5.large"]}],
            id="other-instance-types",
        ),
    ],
)
def test_an_edit_is_accepted(field: str, before: object, after: object) -> None:
    assert errors_of(replaced(POOL, field, after), replaced(POOL, field, before)) == []


@pytest.mark.parametrize(("field", "before", "after"), REFUSED_EDITS)
def test_an_edit_is_refused(field: str, before: object, after: object) -> None:
    assert {field} == wrong_fields(replaced(POOL, field, after), replaced(POOL, field, before))


def test_the_smallest_pool_gets_every_default() -> None:
    expected = replaced(pool(disruption=DEFAULT_DISRUPTION), f"{NODES}.expireAfter", "720h")

    assert expected == admit(POOL).object


@pytest.mark.parametrize(
    ("field", "given", "stored"),
    [
        pytest.param(DISRUPTION, {}, DEFAULT_DISRUPTION, id="an-empty-disruption"),
        pytest.param(
            DISRUPTION,
            {"consolidationPolicy": "WhenEmpty"},
            {**DEFAULT_DISRUPTION, "consolidationPolicy": "WhenEmpty"},
            id="a-policy-alone",
        ),
        pytest.param(
            DISRUPTION,
            {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
            {**DEFAULT_DISRUPTION, "consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
            id="all-but-the-policy",
        ),
        pytest.param(BUDGETS, [], [], id="an-empty-list-of-budgets"),
        pytest.param(
            BUDGETS,
            [{"reasons": ["Drifted"]}],
            [{"reasons": ["Drifted"], "nodes": "10%"}],
            id="a-budget-without-number",
        ),
        pytest.param(f"{NODES}.expireAfter", "Never", "Never", id="nodes-that-never-expire"),
        pytest.param(f"{NODES}.expireAfter", "0720h", "0720h", id="text-of-durations-is-kept"),
        pytest.param("status", {}, {"nodes": 0}, id="an-empty-status"),
    ],
)
def test_defaults_fill_only_what_is_missing(field: str, given: object, stored: object) -> None:
    assert stored == at_path(admit(replaced(POOL, field, given)).object, field)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(POOL, id="the-smallest-pool"),
        pytest.param(
            replaced(pool(disruption={"consolidateAfter": "60s"}), f"{NODES}.expireAfter", "720h"),
            id="durations-another-tool-would-rewrite",
        ),
    ],
)
def test_applying_the_stored_object_again_changes_nothing(given: dict[str, Any]) -> None:
    stored = admit(given).object

    again = admit(stored, old=stored)

    assert (stored, [], []) == (again.object, again.errors, again.pruned)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        case("a-field-nobody-knows", "spec.colour", "red"),
        case("kubelet-settings", f"{NODES}.kubelet", {"maxPods": 20}),
        case("resources", f"{NODES}.resources", {"requests": {}}),
        case("a-name-in-the-template", "spec.template.metadata.name", "x"),
        case("labels-outside-of-metadata", "spec.template.labels", {"a": "b"}),
        case("expiry-where-v1beta1-had-it", f"{DISRUPTION}.expireAfter", "1h"),
    ],
)
def test_fields_v1_does_not_know_are_dropped(field: str, value: object) -> None:
    given = replaced(POOL, field, value)

    admitted = admit(given)

    assert [tuple(field.split("."))] == admitted.pruned
    assert admit(replaced(given, field, ABSENT)).object == admitted.object


def test_a_full_status_is_kept() -> None:
    admitted = admit({**POOL, "status": STATUS})

    assert (admitted.errors, admitted.pruned, admitted.object["status"]) == ([], [], STATUS)


def test_resources_in_the_status_are_quantities() -> None:
    status = {**STATUS, "resources": {"cpu": "many"}}

    assert {"status.resources.cpu"} == wrong_fields({**POOL, "status": status})


def test_more_than_50_reasons_are_refused() -> None:
    many = [{"nodes": "1", "reasons": ["Empty"] * 51}]

    assert f"{BUDGETS}[0].reasons" in wrong_fields(replaced(POOL, BUDGETS, many))


def test_names_versions_and_scope() -> None:
    spec = builtin_crds()[CRD]["spec"]

    assert (spec["group"], spec["scope"]) == ("karpenter.sh", "Cluster")
    assert spec["names"] == {
        "kind": "NodePool",
        "listKind": "NodePoolList",
        "plural": "nodepools",
        "singular": "nodepool",
        "categories": ["karpenter"],
    }
    assert [
        (version["name"], version["served"], version["storage"]) for version in spec["versions"]
    ] == [("v1", True, True), ("v1beta1", True, False)]


def test_kubectl_can_scale_a_pool() -> None:
    expected = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
    }

    assert expected == V1["subresources"]


def test_columns_of_kubectl_get() -> None:
    expected = "NODECLASS NODES READY AGE (WEIGHT) (CPU) (MEMORY)"

    assert expected.split() == columns(CRD, "v1")


def test_every_rule_has_a_refusing_case() -> None:
    requirements = [
        *(given for given, *_ in values_of(refused_operators(V1_OPERATORS))),
        *(given for (given,) in values_of(REFUSED_MIN_VALUES)),
        *(requirement(key=key) for key in refused_keys(POOL_REQUIREMENT)),
    ]
    objects = [
        *(replaced(POOL, field, value) for field, value, _ in values_of(REFUSED)),
        *(pool(**spec) for spec, _ in values_of(WITH_REPLICAS)),
        *(with_requirement(given) for given in requirements),
        *(replaced(POOL, LABELS, {key: "x"}) for key in refused_keys(POOL_LABEL)),
    ]
    edits = [
        (replaced(POOL, field, after), replaced(POOL, field, before))
        for field, before, after in values_of(REFUSED_EDITS)
    ]

    assert set() == unproved(rule_messages(V1), [*((obj, None) for obj in objects), *edits])


def test_every_field_has_an_accepting_case() -> None:
    used = {
        path
        for field, value in values_of(ACCEPTED)
        for path in used_fields(replaced(POOL, field, value)["spec"])
    }

    assert set() == declared_fields(V1) - used
