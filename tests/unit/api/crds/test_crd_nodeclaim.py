"""The API server's promise for NodeClaims of ``karpenter.sh``, v1 and v1beta1.

A claim takes what a NodePool's template takes, plus requests. In v1 its spec never changes. What
describes a node is in ``test_crd_requirements``.
"""

from typing import Any

import pytest

from helpers.crd_cases import (
    ABSENT,
    admit,
    case,
    columns,
    errors_of,
    named_tables,
    refused,
    replaced,
    unproved,
    values_of,
    wrong_fields,
)
from helpers.small_objects import CLAIM, OLD_CLAIM
from unit.api.crds.cases.label_key_cases import CLAIM_REQUIREMENT, OLD_CLAIM_REQUIREMENT
from unit.api.crds.cases.nodeclaim_cases import ACCEPTED, CLASS, REFUSED, REQUESTS
from unit.api.crds.cases.requirement_cases import (
    OLD_OPERATORS,
    V1_OPERATORS,
    refused_requirements,
    requirement,
    taint,
)
from unit.api.crds.cases.v1beta1_cases import ACCEPTED_KUBELETS, REFUSED_KUBELETS
from unit.api.crds.crd_walk import crd_version, declared_fields, rule_messages, used_fields

CRD = "nodeclaims.karpenter.sh"
SMALL = {"v1": CLAIM, "v1beta1": OLD_CLAIM}
OPERATORS = {"v1": V1_OPERATORS, "v1beta1": OLD_OPERATORS}
KEYS_OF_REQUIREMENTS = {"v1": CLAIM_REQUIREMENT, "v1beta1": OLD_CLAIM_REQUIREMENT}
# v1 has no kubelet settings in a claim
KUBELETS_ACCEPTED = {"v1": [], "v1beta1": ACCEPTED_KUBELETS}
KUBELETS_REFUSED = {"v1": [], "v1beta1": REFUSED_KUBELETS}
CONDITION = {
    "type": "Launched",
    "status": "True",
    "reason": "Launched",
    "message": "done",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
    "observedGeneration": 1,
}
STATUS: dict[str, dict[str, Any]] = {
    "v1": {
        "nodeName": "node-1",
        "providerID": "kwok://node-1",
        "imageID": "ami-1",
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": 58},
        "allocatable": {"cpu": "3920m", "memory": "15Gi", "pods": 58},
        "lastPodEventTime": "2030-01-01T00:00:00Z",
        "conditions": [CONDITION],
    },
    "v1beta1": {
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
    },
}
EDITS_REFUSED = {
    "v1": [
        case("another-node-class", f"{CLASS}.name", "a", "b"),
        case("another-expiry", "spec.expireAfter", "1h", "2h"),
        case("a-grace-period-added", "spec.terminationGracePeriod", ABSENT, "1h"),
        case("a-taint-removed", "spec.taints", [taint()], ABSENT),
        case("a-requirement-added", "spec.requirements", [], [requirement()]),
        case("other-requests", "spec.resources.requests", {"cpu": "1"}, {"cpu": "2"}),
    ],
    "v1beta1": [],
}


@pytest.mark.parametrize(("version", "field", "value"), named_tables(ACCEPTED))
def test_accepted(version: str, field: str, value: object) -> None:
    admitted = admit(replaced(SMALL[version], field, value))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.parametrize(("version", "field", "value", "at"), named_tables(REFUSED))
def test_refused(version: str, field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(SMALL[version], field, value))


@pytest.mark.parametrize(("field", "before", "after"), EDITS_REFUSED["v1"])
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
        case("status", "status", STATUS["v1"]),
    ],
)
def test_everything_else_can_be_changed(field: str, value: object) -> None:
    stored = admit(CLAIM).object

    assert errors_of(replaced(stored, field, value), stored) == []


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


def test_the_smallest_claim_gets_an_expiry_and_nothing_else() -> None:
    assert replaced(CLAIM, "spec.expireAfter", "720h") == admit(CLAIM).object


def test_nothing_is_defaulted_in_v1beta1() -> None:
    assert admit(OLD_CLAIM).object == OLD_CLAIM


def test_unknown_fields_are_dropped() -> None:
    admitted = admit(replaced(CLAIM, "spec.kubelet", {"maxPods": 20}))

    assert ([("spec", "kubelet")], admit(CLAIM).object) == (admitted.pruned, admitted.object)


@pytest.mark.parametrize("field", ["expireAfter", "terminationGracePeriod"])
def test_fields_of_v1_are_dropped(field: str) -> None:
    assert [("spec", field)] == admit(replaced(OLD_CLAIM, f"spec.{field}", "1h")).pruned


@pytest.mark.parametrize("version", SMALL)
def test_a_full_status_is_kept(version: str) -> None:
    admitted = admit({**SMALL[version], "status": STATUS[version]})

    assert (admitted.errors, admitted.pruned) == ([], [])
    assert admitted.object["status"] == STATUS[version]


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
    assert {f"status.{at}"} == wrong_fields({**CLAIM, "status": {**STATUS["v1"], field: value}})


@pytest.mark.parametrize("field", ["capacity", "allocatable"])
def test_resources_in_the_status_are_quantities(field: str) -> None:
    status = {**STATUS["v1beta1"], field: {"cpu": "four"}}

    assert {f"status.{field}.cpu"} == wrong_fields({**OLD_CLAIM, "status": status})


@pytest.mark.parametrize("version", SMALL)
def test_a_claim_has_a_status_and_cannot_be_scaled(version: str) -> None:
    assert crd_version(CRD, version)["subresources"] == {"status": {}}


def test_users_are_pointed_to_v1() -> None:
    entry = crd_version(CRD, "v1beta1")

    assert (entry["deprecated"], "v1" in entry["deprecationWarning"]) == (True, True)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param(
            "v1",
            "TYPE CAPACITY ZONE NODE READY AGE (IMAGEID) (ID) (NODEPOOL) (NODECLASS) (DRIFTED)",
            id="v1",
        ),
        pytest.param(
            "v1beta1", "TYPE ZONE NODE READY AGE (CAPACITY) (NODEPOOL) (NODECLASS)", id="v1beta1"
        ),
    ],
)
def test_columns_of_kubectl_get(version: str, expected: str) -> None:
    assert expected.split() == columns(CRD, version)


@pytest.mark.parametrize("version", SMALL)
def test_every_rule_has_a_refusing_case(version: str) -> None:
    small = SMALL[version]
    requirements = refused_requirements(OPERATORS[version], KEYS_OF_REQUIREMENTS[version])
    objects = [
        *(replaced(small, "spec.requirements", [given]) for given in requirements),
        *(
            replaced(small, "spec.kubelet", kubelet)
            for kubelet, _ in values_of(KUBELETS_REFUSED[version])
        ),
    ]
    edits = [
        (replaced(small, field, after), replaced(small, field, before))
        for field, before, after in values_of(EDITS_REFUSED[version])
    ]
    messages = rule_messages(crd_version(CRD, version))

    assert set() == unproved(messages, [*((obj, None) for obj in objects), *edits])


@pytest.mark.parametrize("version", SMALL)
def test_every_field_has_an_accepting_case(version: str) -> None:
    small = SMALL[version]
    objects = [
        *(replaced(small, field, value) for field, value in values_of(ACCEPTED[version])),
        *(
            replaced(small, "spec.kubelet", kubelet)
            for (kubelet,) in values_of(KUBELETS_ACCEPTED[version])
        ),
    ]
    used = {path for obj in objects for path in used_fields(obj["spec"])}

    assert set() == declared_fields(crd_version(CRD, version)) - used
