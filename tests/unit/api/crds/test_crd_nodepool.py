"""The API server's promise for NodePools of ``karpenter.sh``, v1 and v1beta1.

v1beta1 is served next to v1 and judged by its own rules, quirks included. Every field has an object
that is accepted and every rule one that is refused at the right place; two tests at the end watch
over that completeness. What describes a node is in ``test_crd_requirements``, and which label keys
may be used where in ``test_crd_label_keys``.
"""

from typing import Any

import pytest

from helpers.crd_cases import (
    ABSENT,
    admit,
    at_path,
    case,
    columns,
    errors_of,
    named_tables,
    replaced,
    unproved,
    values_of,
    wrong_fields,
)
from helpers.small_objects import OLD_POOL, POOL
from unit.api.crds.cases import nodepool_cases, v1beta1_cases
from unit.api.crds.cases.label_key_cases import (
    OLD_POOL_LABEL,
    OLD_POOL_REQUIREMENT,
    POOL_LABEL,
    POOL_REQUIREMENT,
    refused_keys,
)
from unit.api.crds.cases.nodepool_cases import BUDGETS, CLASS, DISRUPTION, LABELS, NODES
from unit.api.crds.cases.requirement_cases import OLD_OPERATORS, V1_OPERATORS, refused_requirements
from unit.api.crds.cases.v1beta1_cases import ACCEPTED_KUBELETS, REFUSED_KUBELETS
from unit.api.crds.crd_walk import crd_version, declared_fields, rule_messages, used_fields

CRD = "nodepools.karpenter.sh"
REQUIREMENTS = f"{NODES}.requirements"
KUBELET = f"{NODES}.kubelet"
SMALL = {"v1": POOL, "v1beta1": OLD_POOL}
ACCEPTED = {"v1": nodepool_cases.ACCEPTED, "v1beta1": v1beta1_cases.ACCEPTED}
REFUSED = {"v1": nodepool_cases.REFUSED, "v1beta1": v1beta1_cases.REFUSED}
OPERATORS = {"v1": V1_OPERATORS, "v1beta1": OLD_OPERATORS}
KEYS_OF_LABELS = {"v1": POOL_LABEL, "v1beta1": OLD_POOL_LABEL}
KEYS_OF_REQUIREMENTS = {"v1": POOL_REQUIREMENT, "v1beta1": OLD_POOL_REQUIREMENT}
# v1 has no kubelet settings in a pool
KUBELETS_ACCEPTED = {"v1": [], "v1beta1": ACCEPTED_KUBELETS}
KUBELETS_REFUSED = {"v1": [], "v1beta1": REFUSED_KUBELETS}
DEFAULT_DISRUPTION: dict[str, dict[str, Any]] = {
    "v1": {
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "10%"}],
    },
    "v1beta1": {
        "consolidationPolicy": "WhenUnderutilized",
        "expireAfter": "720h",
        "budgets": [{"nodes": "10%"}],
    },
}
WITH_REPLICAS = {
    "v1": [
        case("limited-by-nodes", {"replicas": 3, "limits": {"nodes": 5}}, set()),
        case("with-empty-limits", {"replicas": 3, "limits": {}}, set()),
        case("with-a-weight", {"replicas": 3, "weight": 10}, {"spec.weight"}),
        case("limited-by-cpu", {"replicas": 3, "limits": {"nodes": 5, "cpu": 8}}, {"spec.limits"}),
        case(
            "with-consolidation-fields",
            {"replicas": 3, "disruption": {"consolidateAfter": "Never"}},
            set(),
        ),
    ],
    "v1beta1": [],
}
EDITS_REFUSED = {
    "v1": [
        case("group-of-the-node-class", f"{CLASS}.group", "a.example", "b.example"),
        case("kind-of-the-node-class", f"{CLASS}.kind", "A", "B"),
        case("replicas-added", "spec.replicas", ABSENT, 3),
        case("replicas-removed", "spec.replicas", 3, ABSENT),
    ],
    "v1beta1": [],
}
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


@pytest.mark.parametrize(("version", "field", "value"), named_tables(ACCEPTED))
def test_accepted(version: str, field: str, value: object) -> None:
    admitted = admit(replaced(SMALL[version], field, value))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.parametrize(
    ("version", "field", "value", "at"), named_tables(REFUSED, rows={"v1": "S2-19"})
)
def test_refused(version: str, field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(SMALL[version], field, value))


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


def test_duplicate_taints_are_left_to_the_controllers() -> None:
    twice = [{"key": "a", "effect": "NoSchedule"}] * 2

    assert errors_of(replaced(POOL, f"{NODES}.taints", twice)) == []


@pytest.mark.parametrize(("spec", "wrong"), WITH_REPLICAS["v1"])
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


@pytest.mark.parametrize(("field", "before", "after"), EDITS_REFUSED["v1"])
def test_an_edit_is_refused(field: str, before: object, after: object) -> None:
    assert {field} == wrong_fields(replaced(POOL, field, after), replaced(POOL, field, before))


def test_the_whole_class_reference_of_v1beta1_can_be_changed() -> None:
    other = {"apiVersion": "example.com/v1", "kind": "OtherClass", "name": "other"}

    assert errors_of(replaced(OLD_POOL, f"{NODES}.nodeClassRef", other), OLD_POOL) == []


@pytest.mark.parametrize(
    ("version", "others"),
    [
        pytest.param("v1", {"expireAfter": "720h"}, id="v1"),
        pytest.param("v1beta1", {}, id="v1beta1"),
    ],
)
def test_the_smallest_pool_gets_every_default(version: str, others: dict[str, Any]) -> None:
    expected = replaced(SMALL[version], DISRUPTION, DEFAULT_DISRUPTION[version])
    expected = replaced(expected, NODES, {**at_path(expected, NODES), **others})

    assert expected == admit(SMALL[version]).object


DEFAULTED = {
    "v1": [
        pytest.param(DISRUPTION, {}, DEFAULT_DISRUPTION["v1"], id="an-empty-disruption"),
        pytest.param(
            DISRUPTION,
            {"consolidationPolicy": "WhenEmpty"},
            {**DEFAULT_DISRUPTION["v1"], "consolidationPolicy": "WhenEmpty"},
            id="a-policy-alone",
        ),
        pytest.param(
            DISRUPTION,
            {"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
            {**DEFAULT_DISRUPTION["v1"], "consolidateAfter": "Never", "budgets": [{"nodes": "0"}]},
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
    "v1beta1": [
        case("an-empty-disruption", DISRUPTION, {}, DEFAULT_DISRUPTION["v1beta1"]),
        case(
            "WhenEmpty-with-its-wait",
            DISRUPTION,
            {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
            {
                **DEFAULT_DISRUPTION["v1beta1"],
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "30s",
            },
        ),
        case("an-empty-list-of-budgets", BUDGETS, [], []),
        case("a-budget-without-number", BUDGETS, [{}], [{"nodes": "10%"}]),
        case("text-of-durations-is-kept", f"{DISRUPTION}.expireAfter", "0336h", "0336h"),
    ],
}


@pytest.mark.parametrize(("version", "field", "given", "stored"), named_tables(DEFAULTED))
def test_defaults_fill_only_what_is_missing(
    version: str, field: str, given: object, stored: object
) -> None:
    assert stored == at_path(admit(replaced(SMALL[version], field, given)).object, field)


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


@pytest.mark.parametrize(
    ("field", "value", "pruned"),
    [
        case("reasons-of-a-budget", BUDGETS, [{"nodes": "1", "reasons": ["Drifted"]}], "reasons"),
        case("replicas", "spec.replicas", 3, "replicas"),
        case("expiry-in-the-template", f"{NODES}.expireAfter", "1h", "expireAfter"),
        case("a-grace-period", f"{NODES}.terminationGracePeriod", "1h", "terminationGracePeriod"),
        case("the-group-of-a-class", f"{NODES}.nodeClassRef.group", "a.example", "group"),
    ],
)
def test_fields_of_v1_are_dropped(field: str, value: object, pruned: str) -> None:
    assert [pruned] == [path[-1] for path in admit(replaced(OLD_POOL, field, value)).pruned]


def test_a_full_status_is_kept() -> None:
    admitted = admit({**POOL, "status": STATUS})

    assert (admitted.errors, admitted.pruned, admitted.object["status"]) == ([], [], STATUS)


def test_a_status_of_v1beta1_is_kept() -> None:
    status = {"resources": {"cpu": "8", "memory": "32Gi"}}

    admitted = admit({**OLD_POOL, "status": status})

    assert ([], [], status) == (admitted.errors, admitted.pruned, admitted.object["status"])


@pytest.mark.parametrize(
    ("version", "status"),
    [pytest.param("v1", STATUS, id="v1"), pytest.param("v1beta1", {}, id="v1beta1")],
)
def test_resources_in_the_status_are_quantities(version: str, status: dict[str, Any]) -> None:
    wrong = {**SMALL[version], "status": {**status, "resources": {"cpu": "many"}}}

    assert {"status.resources.cpu"} == wrong_fields(wrong)


def test_more_than_50_reasons_are_refused() -> None:
    many = [{"nodes": "1", "reasons": ["Empty"] * 51}]

    assert f"{BUDGETS}[0].reasons" in wrong_fields(replaced(POOL, BUDGETS, many))


def test_kubectl_can_scale_a_pool() -> None:
    expected = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
    }

    assert expected == crd_version(CRD, "v1")["subresources"]


def test_users_are_pointed_to_v1() -> None:
    entry = crd_version(CRD, "v1beta1")

    assert (entry["deprecated"], "v1" in entry["deprecationWarning"]) == (True, True)


def test_a_pool_of_v1beta1_cannot_be_scaled() -> None:
    assert crd_version(CRD, "v1beta1")["subresources"] == {"status": {}}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("v1", "NODECLASS NODES READY AGE (WEIGHT) (CPU) (MEMORY)", id="v1"),
        pytest.param("v1beta1", "NODECLASS (WEIGHT)", id="v1beta1"),
    ],
)
def test_columns_of_kubectl_get(version: str, expected: str) -> None:
    assert expected.split() == columns(CRD, version)


@pytest.mark.parametrize("version", SMALL)
def test_every_rule_has_a_refusing_case(version: str) -> None:
    small = SMALL[version]
    requirements = refused_requirements(OPERATORS[version], KEYS_OF_REQUIREMENTS[version])
    objects = [
        *(replaced(small, field, value) for field, value, _ in values_of(REFUSED[version])),
        *(pool(**spec) for spec, _ in values_of(WITH_REPLICAS[version])),
        *(replaced(small, REQUIREMENTS, [given]) for given in requirements),
        *(replaced(small, LABELS, {key: "x"}) for key in refused_keys(KEYS_OF_LABELS[version])),
        *(replaced(small, KUBELET, kubelet) for kubelet, _ in values_of(KUBELETS_REFUSED[version])),
    ]
    edits = [
        (replaced(small, field, after), replaced(small, field, before))
        for field, before, after in values_of(EDITS_REFUSED[version])
    ]
    messages = rule_messages(crd_version(CRD, version))

    assert set() == unproved(messages, [*((obj, None) for obj in objects), *edits])


@pytest.mark.parametrize(
    ("version", "never_accepted"),
    [
        pytest.param("v1", set(), id="v1"),
        pytest.param("v1beta1", {".template.spec.resources.requests"}, id="v1beta1"),
    ],
)
def test_every_field_has_an_accepting_case(version: str, never_accepted: set[str]) -> None:
    small = SMALL[version]
    objects = [
        *(replaced(small, field, value) for field, value in values_of(ACCEPTED[version])),
        *(replaced(small, KUBELET, given) for (given,) in values_of(KUBELETS_ACCEPTED[version])),
    ]
    used = {path for obj in objects for path in used_fields(obj["spec"])}

    assert never_accepted == declared_fields(crd_version(CRD, version)) - used
