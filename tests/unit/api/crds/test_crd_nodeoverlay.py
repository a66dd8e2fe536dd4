"""The API server's promise for ``karpenter.sh/v1alpha1`` NodeOverlay."""

from typing import Any

import pytest

from helpers.crd_cases import admit, columns, replaced, unproved, values_of, wrong_fields
from helpers.small_objects import OVERLAY
from unit.api.crds.cases.label_key_cases import OVERLAY_REQUIREMENT, refused_keys
from unit.api.crds.cases.nodeoverlay_cases import ACCEPTED, REFUSED
from unit.api.crds.cases.requirement_cases import V1_OPERATORS, refused_operators, requirement
from unit.api.crds.crd_walk import crd_version, declared_fields, rule_messages, used_fields

CRD = "nodeoverlays.karpenter.sh"
V1ALPHA1 = crd_version(CRD, "v1alpha1")
TWO_PRICES = {"requirements": [], "price": "1", "priceAdjustment": "+1"}


def with_requirement(given: dict[str, Any]) -> dict[str, Any]:
    return replaced(OVERLAY, "spec.requirements", [given])


@pytest.mark.parametrize(("field", "value"), ACCEPTED)
def test_accepted(field: str, value: object) -> None:
    admitted = admit(replaced(OVERLAY, field, value))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])


@pytest.mark.parametrize(("field", "value", "at"), REFUSED)
def test_refused(field: str, value: object, at: str) -> None:
    assert {at} == wrong_fields(replaced(OVERLAY, field, value))


def test_min_values_are_unknown_here() -> None:
    admitted = admit(with_requirement(requirement(minValues=2)))

    assert admitted.pruned == [("spec", "requirements", 0, "minValues")]


def test_price_and_adjustment_exclude_each_other() -> None:
    assert {"spec.priceAdjustment"} == wrong_fields({**OVERLAY, "spec": TWO_PRICES})


def test_nothing_is_defaulted() -> None:
    assert admit(OVERLAY).object == OVERLAY


def test_conditions_are_kept() -> None:
    condition = {
        "type": "ValidationSucceeded",
        "status": "False",
        "reason": "Conflict",
        "message": "conflicts with another overlay",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    status = {"conditions": [condition]}

    admitted = admit({**OVERLAY, "status": status})

    assert ([], [], status) == (admitted.errors, admitted.pruned, admitted.object["status"])


def test_columns_of_kubectl_get() -> None:
    assert columns(CRD, "v1alpha1") == ["READY", "AGE", "(WEIGHT)"]


def test_every_rule_has_a_refusing_case() -> None:
    requirements = [
        *(given for given, *_ in values_of(refused_operators(V1_OPERATORS))),
        *(requirement(key=key) for key in refused_keys(OVERLAY_REQUIREMENT)),
    ]
    objects = [
        *(replaced(OVERLAY, field, value) for field, value, _ in values_of(REFUSED)),
        *(with_requirement(given) for given in requirements),
        {**OVERLAY, "spec": TWO_PRICES},
    ]

    assert set() == unproved(rule_messages(V1ALPHA1), [(obj, None) for obj in objects])


def test_every_field_has_an_accepting_case() -> None:
    used = {
        path
        for field, value in values_of(ACCEPTED)
        for path in used_fields(replaced(OVERLAY, field, value)["spec"])
    }

    assert set() == declared_fields(V1ALPHA1) - used
