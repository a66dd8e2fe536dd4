"""The API server's promise for NodePools written as ``karpenter.sh/v1beta1``.

The version is served next to v1 and judged by its own rules, quirks included.
"""

from typing import Any

import pytest

from unit.api.crd_cases import (
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
from unit.api.label_key_cases import OLD_POOL_LABEL, OLD_POOL_REQUIREMENT, refused_keys
from unit.api.requirement_cases import (
    ACCEPTED_KEYS,
    ACCEPTED_MIN_VALUES,
    ACCEPTED_TAINTS,
    NOT_IN_WITHOUT_VALUES,
    ODD_BUT_ACCEPTED_VALUES,
    OLD_OPERATORS,
    REFUSED_KEYS,
    REFUSED_MIN_VALUES,
    REFUSED_TAINTS,
    accepted_operators,
    refused_operators,
    requirement,
)
from unit.api.small_objects import OLD_POOL
from unit.api.v1beta1_cases import (
    ACCEPTED,
    ACCEPTED_KUBELETS,
    BUDGETS,
    DISRUPTION,
    LABELS,
    NODES,
    REFUSED,
    REFUSED_KUBELETS,
)

CRD = "nodepools.karpenter.sh"
V1BETA1 = crd_version(CRD, "v1beta1")
REQUIREMENTS = f"{NODES}.requirements"
KUBELET = f"{NODES}.kubelet"
DEFAULT_DISRUPTION = {
    "consolidationPolicy": "WhenUnderutilized",
    "expireAfter": "720h",
    "budgets": [{"nodes": "10%"}],
}


def with_requirement(given: dict[str, Any]) -> dict[str, Any]:
    return replaced(OLD_POOL, REQUIREMENTS, [given])


@pytest.mark.parametrize(("field", "value"), ACCEPTED)
def test_accepted(field: str, value: object) -> None:
    admitted = admit(replaced(OLD_POOL, field, value))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.parametrize(("field", "value", "at"), REFUSED)
def test_refused(field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(OLD_POOL, field, value))


@pytest.mark.parametrize("kubelet", ACCEPTED_KUBELETS)
def test_kubelet_settings_are_accepted(kubelet: dict[str, Any]) -> None:
    assert errors_of(replaced(OLD_POOL, KUBELET, kubelet)) == []


@pytest.mark.parametrize(("kubelet", "fields"), REFUSED_KUBELETS)
def test_kubelet_settings_are_refused(kubelet: dict[str, Any], fields: str) -> None:
    expected = {f"{KUBELET}.{field}" for field in fields.split()}

    assert expected == wrong_fields(replaced(OLD_POOL, KUBELET, kubelet))


@pytest.mark.parametrize(
    "given",
    [*accepted_operators(OLD_OPERATORS), *ODD_BUT_ACCEPTED_VALUES, *NOT_IN_WITHOUT_VALUES],
)
def test_a_requirement_is_accepted(given: dict[str, Any]) -> None:
    assert errors_of(with_requirement(given)) == []


@pytest.mark.parametrize(("given", "field"), refused_operators(OLD_OPERATORS))
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
    assert errors_of(replaced(OLD_POOL, f"{NODES}.{field}", [given])) == []


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize(("given", "wrong"), REFUSED_TAINTS)
def test_a_taint_is_refused(field: str, given: dict[str, Any], wrong: str) -> None:
    path = f"{NODES}.{field}"

    assert {f"{path}[0].{wrong}"} == wrong_fields(replaced(OLD_POOL, path, [given]))


def test_the_whole_class_reference_can_be_changed() -> None:
    other = {"apiVersion": "example.com/v1", "kind": "OtherClass", "name": "other"}

    assert errors_of(replaced(OLD_POOL, f"{NODES}.nodeClassRef", other), OLD_POOL) == []


def test_the_smallest_pool_gets_every_default() -> None:
    assert replaced(OLD_POOL, DISRUPTION, DEFAULT_DISRUPTION) == admit(OLD_POOL).object


@pytest.mark.parametrize(
    ("field", "given", "stored"),
    [
        case("an-empty-disruption", DISRUPTION, {}, DEFAULT_DISRUPTION),
        case(
            "WhenEmpty-with-its-wait",
            DISRUPTION,
            {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
            {
                **DEFAULT_DISRUPTION,
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "30s",
            },
        ),
        case("an-empty-list-of-budgets", BUDGETS, [], []),
        case("a-budget-without-number", BUDGETS, [{}], [{"nodes": "10%"}]),
        case("text-of-durations-is-kept", f"{DISRUPTION}.expireAfter", "0336h", "0336h"),
    ],
)
def test_defaults_fill_only_what_is_missing(field: str, given: object, stored: object) -> None:
    assert stored == at_path(admit(replaced(OLD_POOL, field, given)).object, field)


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


def test_a_status_is_kept() -> None:
    status = {"resources": {"cpu": "8", "memory": "32Gi"}}

    admitted = admit({**OLD_POOL, "status": status})

    assert ([], [], status) == (admitted.errors, admitted.pruned, admitted.object["status"])


def test_resources_in_the_status_are_quantities() -> None:
    status = {"resources": {"cpu": "many"}}

    assert {"status.resources.cpu"} == wrong_fields({**OLD_POOL, "status": status})


def test_users_are_pointed_to_v1() -> None:
    assert (V1BETA1["deprecated"], "v1" in V1BETA1["deprecationWarning"]) == (True, True)


def test_subresources() -> None:
    assert V1BETA1["subresources"] == {"status": {}}


def test_columns_of_kubectl_get() -> None:
    assert columns(CRD, "v1beta1") == ["NODECLASS", "(WEIGHT)"]


def test_every_rule_has_a_refusing_case() -> None:
    requirements = [
        *(given for given, *_ in values_of(refused_operators(OLD_OPERATORS))),
        *(given for (given,) in values_of(REFUSED_MIN_VALUES)),
        *(requirement(key=key) for key in refused_keys(OLD_POOL_REQUIREMENT)),
    ]
    objects = [
        *(replaced(OLD_POOL, field, value) for field, value, _ in values_of(REFUSED)),
        *(replaced(OLD_POOL, KUBELET, kubelet) for kubelet, _ in values_of(REFUSED_KUBELETS)),
        *(with_requirement(given) for given in requirements),
        *(replaced(OLD_POOL, LABELS, {key: "x"}) for key in refused_keys(OLD_POOL_LABEL)),
    ]

    assert set() == unproved(rule_messages(V1BETA1), [(obj, None) for obj in objects])


def test_every_field_has_an_accepting_case() -> None:
    objects = [
        *(replaced(OLD_POOL, field, value) for field, value in values_of(ACCEPTED)),
        *(replaced(OLD_POOL, KUBELET, kubelet) for (kubelet,) in values_of(ACCEPTED_KUBELETS)),
    ]
    used = {path for obj in objects for path in used_fields(obj["spec"])}
    never_accepted = {".template.spec.resources.requests"}

    assert never_accepted == declared_fields(V1BETA1) - used
