"""The API server's promise for ``karpenter.sh/v1`` NodeClaim.

A claim takes what a NodePool's template takes, plus requests, and its spec never changes.
"""

from typing import Any

import pytest

from karpenter.admission.crds import builtin_crds
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
from unit.api.label_key_cases import CLAIM_REQUIREMENT, refused_keys
from unit.api.nodeclaim_cases import ACCEPTED, CLASS, REFUSED
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
    taint,
)
from unit.api.small_objects import CLAIM

CRD = "nodeclaims.karpenter.sh"
V1 = crd_version(CRD, "v1")
CONDITION = {
    "type": "Launched",
    "status": "True",
    "reason": "Launched",
    "message": "done",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
    "observedGeneration": 1,
}
STATUS: dict[str, Any] = {
    "nodeName": "node-1",
    "providerID": "kwok://node-1",
    "imageID": "ami-1",
    "capacity": {"cpu": "4", "memory": "16Gi", "pods": 58},
    "allocatable": {"cpu": "3920m", "memory": "15Gi", "pods": 58},
    "lastPodEventTime": "2030-01-01T00:00:00Z",
    "conditions": [CONDITION],
}
REFUSED_EDITS = [
    case("another-node-class", f"{CLASS}.name", "a", "b"),
    case("another-expiry", "spec.expireAfter", "1h", "2h"),
    case("a-grace-period-added", "spec.terminationGracePeriod", ABSENT, "1h"),
    case("a-taint-removed", "spec.taints", [taint()], ABSENT),
    case("a-requirement-added", "spec.requirements", [], [requirement()]),
    case("other-requests", "spec.resources.requests", {"cpu": "1"}, {"cpu": "2"}),
]


def with_requirement(given: dict[str, Any]) -> dict[str, Any]:
    return replaced(CLAIM, "spec.requirements", [given])


@pytest.mark.parametrize(("field", "value"), ACCEPTED)
def test_accepted(field: str, value: object) -> None:
    admitted = admit(replaced(CLAIM, field, value))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.parametrize(("field", "value", "at"), REFUSED)
def test_refused(field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(CLAIM, field, value))


@pytest.mark.parametrize(
    "given",
    [*accepted_operators(V1_OPERATORS), *ODD_BUT_ACCEPTED_VALUES, *NOT_IN_WITHOUT_VALUES],
)
def test_a_requirement_is_accepted(given: dict[str, Any]) -> None:
    assert errors_of(with_requirement(given)) == []


@pytest.mark.parametrize(("given", "field"), refused_operators(V1_OPERATORS))
def test_a_requirement_is_refused(given: dict[str, Any], field: str) -> None:
    assert {f"spec.requirements[0].{field}"} == wrong_fields(with_requirement(given))


@pytest.mark.parametrize("key", ACCEPTED_KEYS)
def test_a_requirement_key_is_accepted(key: str) -> None:
    assert errors_of(with_requirement(requirement(key=key))) == []


@pytest.mark.parametrize("key", REFUSED_KEYS)
def test_a_requirement_key_is_refused(key: object) -> None:
    assert {"spec.requirements[0].key"} == wrong_fields(with_requirement(requirement(key=key)))


@pytest.mark.parametrize("given", ACCEPTED_MIN_VALUES)
def test_min_values_are_accepted(given: dict[str, Any]) -> None:
    assert errors_of(with_requirement(given)) == []


@pytest.mark.parametrize("given", REFUSED_MIN_VALUES)
def test_min_values_are_refused(given: dict[str, Any]) -> None:
    assert {"spec.requirements[0].minValues"} == wrong_fields(with_requirement(given))


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize("given", ACCEPTED_TAINTS)
def test_a_taint_is_accepted(field: str, given: dict[str, Any]) -> None:
    assert errors_of(replaced(CLAIM, f"spec.{field}", [given])) == []


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize(("given", "wrong"), REFUSED_TAINTS)
def test_a_taint_is_refused(field: str, given: dict[str, Any], wrong: str) -> None:
    claim = replaced(CLAIM, f"spec.{field}", [given])

    assert {f"spec.{field}[0].{wrong}"} == wrong_fields(claim)


@pytest.mark.parametrize(("field", "before", "after"), REFUSED_EDITS)
def test_no_part_of_the_spec_can_be_changed(field: str, before: object, after: object) -> None:
    old, new = replaced(CLAIM, field, before), replaced(CLAIM, field, after)

    assert {"spec"} == wrong_fields(new, old)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        case("nothing", "metadata.name", "default-x7k2p"),
        case("labels", "metadata.labels", {"a": "b"}),
        case("annotations", "metadata.annotations", {"karpenter.sh/do-not-disrupt": "true"}),
        case("the-default-written-out", "spec.expireAfter", "720h"),
        case("status", "status", STATUS),
    ],
)
def test_everything_else_can_be_changed(field: str, value: object) -> None:
    stored = admit(CLAIM).object

    assert errors_of(replaced(stored, field, value), stored) == []


def test_the_smallest_claim_gets_an_expiry_and_nothing_else() -> None:
    assert replaced(CLAIM, "spec.expireAfter", "720h") == admit(CLAIM).object


def test_unknown_fields_are_dropped() -> None:
    admitted = admit(replaced(CLAIM, "spec.kubelet", {"maxPods": 20}))

    assert ([("spec", "kubelet")], admit(CLAIM).object) == (admitted.pruned, admitted.object)


def test_a_full_status_is_kept() -> None:
    admitted = admit({**CLAIM, "status": STATUS})

    assert (admitted.errors, admitted.pruned, admitted.object["status"]) == ([], [], STATUS)


@pytest.mark.parametrize(
    ("field", "value", "at"),
    [
        refused("a-last-pod-event-in-words", "lastPodEventTime", "now"),
        refused("capacity-that-is-no-quantity", "capacity", {"cpu": "four"}, at="capacity.cpu"),
        refused("allocatable-that-is-none", "allocatable", {"cpu": "4x"}, at="allocatable.cpu"),
        refused("allocatable-as-a-list", "allocatable", []),
    ],
)
def test_a_status_with_wrong_values_is_refused(field: str, value: object, at: str) -> None:
    assert {f"status.{at}"} == wrong_fields({**CLAIM, "status": {**STATUS, field: value}})


def test_names_versions_and_scope() -> None:
    spec = builtin_crds()[CRD]["spec"]

    assert (spec["group"], spec["scope"]) == ("karpenter.sh", "Cluster")
    assert spec["names"] == {
        "kind": "NodeClaim",
        "listKind": "NodeClaimList",
        "plural": "nodeclaims",
        "singular": "nodeclaim",
        "categories": ["karpenter"],
    }
    assert [
        (version["name"], version["served"], version["storage"]) for version in spec["versions"]
    ] == [("v1", True, True), ("v1beta1", True, False)]


def test_a_claim_has_a_status_and_cannot_be_scaled() -> None:
    assert V1["subresources"] == {"status": {}}


def test_columns_of_kubectl_get() -> None:
    expected = "TYPE CAPACITY ZONE NODE READY AGE (IMAGEID) (ID) (NODEPOOL) (NODECLASS) (DRIFTED)"

    assert expected.split() == columns(CRD, "v1")


def test_every_rule_has_a_refusing_case() -> None:
    requirements = [
        *(given for given, *_ in values_of(refused_operators(V1_OPERATORS))),
        *(given for (given,) in values_of(REFUSED_MIN_VALUES)),
        *(requirement(key=key) for key in refused_keys(CLAIM_REQUIREMENT)),
    ]
    objects = [with_requirement(given) for given in requirements]
    edits = [
        (replaced(CLAIM, field, after), replaced(CLAIM, field, before))
        for field, before, after in values_of(REFUSED_EDITS)
    ]

    assert set() == unproved(rule_messages(V1), [*((obj, None) for obj in objects), *edits])


def test_every_field_has_an_accepting_case() -> None:
    used = {
        path
        for field, value in values_of(ACCEPTED)
        for path in used_fields(replaced(CLAIM, field, value)["spec"])
    }

    assert set() == declared_fields(V1) - used
