"""The API server's promise for NodeClaims written as ``karpenter.sh/v1beta1``."""

from typing import Any

import pytest

from unit.api.crd_cases import (
    ABSENT,
    admit,
    case,
    columns,
    errors_of,
    refused,
    replaced,
    unproved,
    values_of,
    wrong_fields,
)
from unit.api.crd_walk import crd_version, declared_fields, rule_messages, used_fields
from unit.api.label_key_cases import OLD_CLAIM_REQUIREMENT, refused_keys
from unit.api.requirement_cases import (
    ACCEPTED_QUANTITIES,
    ACCEPTED_TAINTS,
    OLD_OPERATORS,
    REFUSED_KEYS,
    REFUSED_MIN_VALUES,
    REFUSED_QUANTITIES,
    REFUSED_TAINTS,
    accepted_operators,
    refused_operators,
    requirement,
)
from unit.api.small_objects import OLD_CLAIM
from unit.api.v1beta1_cases import ACCEPTED_KUBELETS, FULL_TAINT, REFUSED_KUBELETS

CRD = "nodeclaims.karpenter.sh"
V1BETA1 = crd_version(CRD, "v1beta1")
KUBELET = "spec.kubelet"
REQUESTS = "spec.resources.requests"

ACCEPTED = [
    case("the-smallest-claim", "spec.requirements", []),
    case("a-class-by-name-alone", "spec.nodeClassRef", {"name": "default"}),
    case("30-requirements", "spec.requirements", [requirement()] * 30),
    case(
        "requirements-with-all-fields",
        "spec.requirements",
        [requirement("In", values=["a", "b"], minValues=1)],
    ),
    case("a-full-taint", "spec.taints", [FULL_TAINT]),
    case("a-full-startup-taint", "spec.startupTaints", [FULL_TAINT]),
    *(case(f"a-request-of-{amount}", REQUESTS, {"cpu": amount}) for amount in ACCEPTED_QUANTITIES),
]
REFUSED = [
    refused("no-spec", "spec", ABSENT),
    refused("no-node-class", "spec.nodeClassRef", ABSENT),
    refused("a-class-without-name", "spec.nodeClassRef.name", ABSENT),
    refused("an-empty-class-name", "spec.nodeClassRef.name", ""),
    refused("no-list-of-requirements", "spec.requirements", ABSENT),
    refused("31-requirements", "spec.requirements", [requirement()] * 31),
    *(
        refused(
            f"a-request-of-{amount or 'nothing'}", REQUESTS, {"cpu": amount}, at=f"{REQUESTS}.cpu"
        )
        for amount in REFUSED_QUANTITIES
    ),
]
STATUS: dict[str, Any] = {
    "nodeName": "node-1",
    "providerID": "aws:///us-west-2a/i-1",
    "imageID": "ami-1",
    "capacity": {"cpu": "4"},
    "allocatable": {"cpu": "3920m"},
    "conditions": [
        {"type": "Empty", "status": "True", "severity": ""},
        {
            "type": "Launched",
            "status": "True",
            "reason": "",
            "message": "",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        },
    ],
}


def with_requirement(given: dict[str, Any]) -> dict[str, Any]:
    return replaced(OLD_CLAIM, "spec.requirements", [given])


@pytest.mark.parametrize(("field", "value"), ACCEPTED)
def test_accepted(field: str, value: object) -> None:
    admitted = admit(replaced(OLD_CLAIM, field, value))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.parametrize(("field", "value", "at"), REFUSED)
def test_refused(field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(OLD_CLAIM, field, value))


@pytest.mark.parametrize("kubelet", ACCEPTED_KUBELETS)
def test_kubelet_settings_are_accepted(kubelet: dict[str, Any]) -> None:
    assert errors_of(replaced(OLD_CLAIM, KUBELET, kubelet)) == []


@pytest.mark.parametrize(("kubelet", "fields"), REFUSED_KUBELETS)
def test_kubelet_settings_are_refused(kubelet: dict[str, Any], fields: str) -> None:
    expected = {f"{KUBELET}.{field}" for field in fields.split()}

    assert expected == wrong_fields(replaced(OLD_CLAIM, KUBELET, kubelet))


@pytest.mark.parametrize("given", accepted_operators(OLD_OPERATORS))
def test_a_requirement_is_accepted(given: dict[str, Any]) -> None:
    assert errors_of(with_requirement(given)) == []


@pytest.mark.parametrize(("given", "field"), refused_operators(OLD_OPERATORS))
def test_a_requirement_is_refused(given: dict[str, Any], field: str) -> None:
    assert {f"spec.requirements[0].{field}"} == wrong_fields(with_requirement(given))


@pytest.mark.parametrize("given", REFUSED_MIN_VALUES)
def test_min_values_are_refused(given: dict[str, Any]) -> None:
    assert {"spec.requirements[0].minValues"} == wrong_fields(with_requirement(given))


@pytest.mark.parametrize("key", REFUSED_KEYS)
def test_a_requirement_key_is_refused(key: object) -> None:
    assert {"spec.requirements[0].key"} == wrong_fields(with_requirement(requirement(key=key)))


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize("given", ACCEPTED_TAINTS)
def test_a_taint_is_accepted(field: str, given: dict[str, Any]) -> None:
    assert errors_of(replaced(OLD_CLAIM, f"spec.{field}", [given])) == []


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize(("given", "wrong"), REFUSED_TAINTS)
def test_a_taint_is_refused(field: str, given: dict[str, Any], wrong: str) -> None:
    claim = replaced(OLD_CLAIM, f"spec.{field}", [given])

    assert {f"spec.{field}[0].{wrong}"} == wrong_fields(claim)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        case("another-node-class", "spec.nodeClassRef.name", "other"),
        case("another-requirement", "spec.requirements", [requirement()]),
        case("requests", REQUESTS, {"cpu": "1"}),
    ],
)
def test_unlike_in_v1_the_spec_can_be_changed(field: str, value: object) -> None:
    assert errors_of(replaced(OLD_CLAIM, field, value), OLD_CLAIM) == []


def test_nothing_is_defaulted() -> None:
    assert admit(OLD_CLAIM).object == OLD_CLAIM


@pytest.mark.parametrize("field", ["expireAfter", "terminationGracePeriod"])
def test_fields_of_v1_are_dropped(field: str) -> None:
    assert [("spec", field)] == admit(replaced(OLD_CLAIM, f"spec.{field}", "1h")).pruned


def test_a_full_status_is_kept() -> None:
    admitted = admit({**OLD_CLAIM, "status": STATUS})

    assert (admitted.errors, admitted.pruned, admitted.object["status"]) == ([], [], STATUS)


@pytest.mark.parametrize("field", ["capacity", "allocatable"])
def test_resources_in_the_status_are_quantities(field: str) -> None:
    status = {**STATUS, field: {"cpu": "four"}}

    assert {f"status.{field}.cpu"} == wrong_fields({**OLD_CLAIM, "status": status})


def test_users_are_pointed_to_v1() -> None:
    assert (V1BETA1["deprecated"], "v1" in V1BETA1["deprecationWarning"]) == (True, True)


def test_subresources() -> None:
    assert V1BETA1["subresources"] == {"status": {}}


def test_columns_of_kubectl_get() -> None:
    expected = "TYPE ZONE NODE READY AGE (CAPACITY) (NODEPOOL) (NODECLASS)"

    assert expected.split() == columns(CRD, "v1beta1")


def test_every_rule_has_a_refusing_case() -> None:
    requirements = [
        *(given for given, *_ in values_of(refused_operators(OLD_OPERATORS))),
        *(given for (given,) in values_of(REFUSED_MIN_VALUES)),
        *(requirement(key=key) for key in refused_keys(OLD_CLAIM_REQUIREMENT)),
    ]
    objects = [
        *(replaced(OLD_CLAIM, KUBELET, kubelet) for kubelet, _ in values_of(REFUSED_KUBELETS)),
        *(with_requirement(given) for given in requirements),
    ]

    assert set() == unproved(rule_messages(V1BETA1), [(obj, None) for obj in objects])


def test_every_field_has_an_accepting_case() -> None:
    objects = [
        *(replaced(OLD_CLAIM, field, value) for field, value in values_of(ACCEPTED)),
        *(replaced(OLD_CLAIM, KUBELET, kubelet) for (kubelet,) in values_of(ACCEPTED_KUBELETS)),
    ]
    used = {path for obj in objects for path in used_fields(obj["spec"])}

    assert set() == declared_fields(V1BETA1) - used
