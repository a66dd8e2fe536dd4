"""The API server's promise for ``autoscaling.x-k8s.io/v1beta1`` CapacityBuffer."""

from typing import Any

import pytest

from helpers.crd_cases import (
    ABSENT,
    admit,
    case,
    columns,
    refused,
    replaced,
    unproved,
    values_of,
    wrong_fields,
)
from helpers.small_objects import BUFFER
from unit.api.crds.cases.requirement_cases import ACCEPTED_QUANTITIES, REFUSED_QUANTITIES
from unit.api.crds.crd_walk import crd_version, declared_fields, rule_messages, used_fields

CRD = "capacitybuffers.autoscaling.x-k8s.io"
V1BETA1 = crd_version(CRD, "v1beta1")
STRATEGY = "buffer.x-k8s.io/active-capacity"
TEMPLATE = {"name": "headroom"}
DEPLOYMENT = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}

ACCEPTED = [
    case("no-reference-at-all", {}),
    case("another-strategy", {"provisioningStrategy": "example.com/other"}),
    case("a-template-with-replicas", {"podTemplateRef": TEMPLATE, "replicas": 2}),
    case("a-template-with-limits", {"podTemplateRef": TEMPLATE, "limits": {"cpu": "8"}}),
    case(
        "a-template-with-both",
        {"podTemplateRef": TEMPLATE, "replicas": 2, "limits": {"cpu": "8"}},
    ),
    case("a-workload", {"scalableRef": DEPLOYMENT}),
    case("a-workload-without-group", {"scalableRef": {"kind": "Deployment", "name": "web"}}),
    case("a-workload-of-an-unserved-kind", {"scalableRef": {"kind": "Widget", "name": "web"}}),
    case("a-percentage", {"scalableRef": DEPLOYMENT, "percentage": 20}),
    case("more-than-all", {"scalableRef": DEPLOYMENT, "percentage": 150}),
    case("no-replicas-and-no-percentage", {"replicas": 0, "percentage": 0}),
    *(case(f"a-limit-of-{amount}", {"limits": {"cpu": amount}}) for amount in ACCEPTED_QUANTITIES),
]

REFUSED = [
    case("a-template-without-size", {"podTemplateRef": TEMPLATE}, "spec.replicas"),
    case(
        "a-template-with-a-percentage-only",
        {"podTemplateRef": TEMPLATE, "percentage": 10},
        "spec.replicas",
    ),
    case(
        "a-template-and-a-workload",
        {"podTemplateRef": TEMPLATE, "scalableRef": DEPLOYMENT, "replicas": 1},
        "spec.scalableRef",
    ),
    case("a-template-without-name", {"podTemplateRef": {}}, "spec.podTemplateRef.name"),
    case(
        "an-empty-template-name",
        {"podTemplateRef": {"name": ""}, "replicas": 1},
        "spec.podTemplateRef.name",
    ),
    *(
        case(
            f"a-workload-{words}-{field}",
            {"scalableRef": replaced(DEPLOYMENT, field, value)},
            f"spec.scalableRef.{field}",
        )
        for field in ("kind", "name")
        for words, value in (("without", ABSENT), ("with-empty", ""))
    ),
    *(
        case(f"{field}-{count}", {field: count}, f"spec.{field}")
        for field in ("replicas", "percentage")
        for count in (-1, 1.5, "2", 2**31)
    ),
    *(
        case(f"a-limit-of-{amount or 'nothing'}", {"limits": {"cpu": amount}}, "spec.limits.cpu")
        for amount in REFUSED_QUANTITIES
    ),
    case("a-strategy-that-is-a-number", {"provisioningStrategy": 1}, "spec.provisioningStrategy"),
]

CONDITION = {
    "type": "ReadyForProvisioning",
    "status": "True",
    "reason": "Resolved",
    "message": "",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
    "observedGeneration": 1,
}
STATUS: dict[str, Any] = {
    "podTemplateRef": TEMPLATE,
    "podTemplateGeneration": 3,
    "replicas": 2,
    "provisioningStrategy": STRATEGY,
    "conditions": [CONDITION],
}


def buffer(spec: dict[str, Any]) -> dict[str, Any]:
    return {**BUFFER, "spec": spec}


@pytest.mark.parametrize("spec", ACCEPTED)
def test_accepted(spec: dict[str, Any]) -> None:
    admitted = admit(buffer(spec))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.parametrize(("spec", "at"), REFUSED)
def test_refused(spec: dict[str, Any], at: str) -> None:
    assert {at} == wrong_fields(buffer(spec))


def test_a_buffer_without_spec_is_refused() -> None:
    assert {"spec"} == wrong_fields(replaced(BUFFER, "spec", ABSENT))


def test_the_strategy_is_defaulted() -> None:
    assert admit(BUFFER).object["spec"] == {"provisioningStrategy": STRATEGY}


def test_another_strategy_is_kept() -> None:
    spec = {"provisioningStrategy": "example.com/other"}

    assert spec == admit(buffer(spec)).object["spec"]


def test_every_field_can_be_edited() -> None:
    old = buffer({"podTemplateRef": TEMPLATE, "replicas": 1})

    assert set() == wrong_fields(buffer({"scalableRef": DEPLOYMENT, "percentage": 5}), old)


def test_unknown_fields_are_dropped() -> None:
    assert admit(buffer({"size": 3})).pruned == [("spec", "size")]


def test_a_full_status_is_kept() -> None:
    admitted = admit({**BUFFER, "status": STATUS})

    assert (admitted.errors, admitted.pruned, admitted.object["status"]) == ([], [], STATUS)


@pytest.mark.parametrize(
    ("field", "value", "at"),
    [
        refused("a-template-without-name", "podTemplateRef", {}, at="podTemplateRef.name"),
        refused("a-generation-in-words", "podTemplateGeneration", "three"),
        refused("an-empty-template-name", "podTemplateRef", {"name": ""}, at="podTemplateRef.name"),
        refused("replicas-beyond-32-bits", "replicas", 2**31),
    ],
)
def test_a_status_with_wrong_values_is_refused(field: str, value: object, at: str) -> None:
    assert {f"status.{at}"} == wrong_fields({**BUFFER, "status": {**STATUS, field: value}})


def test_columns_of_kubectl_get() -> None:
    expected = "STRATEGY PODTEMPLATE REPLICAS CONDITIONSTYPE CONDITIONSSTATUS CONDITIONSREASON AGE"

    assert expected.split() == columns(CRD, "v1beta1")


def test_every_rule_has_a_refusing_case() -> None:
    refusals = [(buffer(spec), None) for spec, _ in values_of(REFUSED)]

    assert set() == unproved(rule_messages(V1BETA1), refusals)


def test_every_field_has_an_accepting_case() -> None:
    used = {path for (spec,) in values_of(ACCEPTED) for path in used_fields(spec)}

    assert set() == declared_fields(V1BETA1) - used
