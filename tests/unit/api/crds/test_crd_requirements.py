"""What describes a node is judged alike wherever a kind of ``karpenter.sh`` has it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from helpers.crd_cases import errors_of, named_tables, replaced, wrong_fields
from helpers.small_objects import CLAIM, OLD_CLAIM, OLD_POOL, OVERLAY, POOL
from unit.api.crds.cases.requirement_cases import (
    ACCEPTED_KEYS,
    ACCEPTED_MIN_VALUES,
    ACCEPTED_TAINTS,
    NOT_IN_WITHOUT_VALUES,
    ODD_BUT_ACCEPTED_VALUES,
    OLD_OPERATORS,
    REFUSED_KEYS,
    REFUSED_MIN_VALUES,
    REFUSED_TAINTS,
    V1_OPERATORS,
    accepted_operators,
    refused_operators,
    requirement,
)
from unit.api.crds.cases.v1beta1_cases import ACCEPTED_KUBELETS, REFUSED_KUBELETS

POOL_V1 = "v1-NodePool"
POOL_V1BETA1 = "v1beta1-NodePool"
CLAIM_V1 = "v1-NodeClaim"
CLAIM_V1BETA1 = "v1beta1-NodeClaim"
OVERLAY_V1ALPHA1 = "v1alpha1-NodeOverlay"
# A small object of each kind, and where in it a node is described
PLACES: dict[str, tuple[Mapping[str, Any], str]] = {
    POOL_V1: (POOL, "spec.template.spec"),
    POOL_V1BETA1: (OLD_POOL, "spec.template.spec"),
    CLAIM_V1: (CLAIM, "spec"),
    CLAIM_V1BETA1: (OLD_CLAIM, "spec"),
    OVERLAY_V1ALPHA1: (OVERLAY, "spec"),
}
OPERATORS = {
    POOL_V1: V1_OPERATORS,
    POOL_V1BETA1: OLD_OPERATORS,
    CLAIM_V1: V1_OPERATORS,
    CLAIM_V1BETA1: OLD_OPERATORS,
    OVERLAY_V1ALPHA1: V1_OPERATORS,
}
ACCEPTED_REQUIREMENTS = {
    POOL_V1: [*ODD_BUT_ACCEPTED_VALUES, *NOT_IN_WITHOUT_VALUES],
    POOL_V1BETA1: [*ODD_BUT_ACCEPTED_VALUES, *NOT_IN_WITHOUT_VALUES],
    CLAIM_V1: [*ODD_BUT_ACCEPTED_VALUES, *NOT_IN_WITHOUT_VALUES],
    OVERLAY_V1ALPHA1: ODD_BUT_ACCEPTED_VALUES,
}


def at(places: Iterable[str], cases: Sequence[ParameterSet]) -> list[ParameterSet]:
    """The same cases at each of the places."""
    return named_tables(dict.fromkeys(places, cases))


def path(place: str, field: str) -> str:
    """Where a field of the description of a node is."""
    return f"{PLACES[place][1]}.{field}"


def described(place: str, field: str, value: object) -> dict[str, Any]:
    """The small object with one field of its description of a node replaced."""
    return replaced(PLACES[place][0], path(place, field), value)


def with_requirement(place: str, given: dict[str, Any]) -> dict[str, Any]:
    return described(place, "requirements", [given])


@pytest.mark.parametrize(
    ("place", "given"),
    [
        *named_tables({place: accepted_operators(some) for place, some in OPERATORS.items()}),
        *named_tables(ACCEPTED_REQUIREMENTS),
    ],
)
def test_a_requirement_is_accepted(place: str, given: dict[str, Any]) -> None:
    assert errors_of(with_requirement(place, given)) == []


@pytest.mark.parametrize(
    ("place", "given", "field"),
    named_tables({place: refused_operators(some) for place, some in OPERATORS.items()}),
)
def test_a_requirement_is_refused(place: str, given: dict[str, Any], field: str) -> None:
    wrong = path(place, f"requirements[0].{field}")

    assert {wrong} == wrong_fields(with_requirement(place, given))


@pytest.mark.parametrize(
    ("place", "key"), at((POOL_V1, POOL_V1BETA1, CLAIM_V1, OVERLAY_V1ALPHA1), ACCEPTED_KEYS)
)
def test_a_requirement_key_is_accepted(place: str, key: str) -> None:
    assert errors_of(with_requirement(place, requirement(key=key))) == []


@pytest.mark.parametrize(("place", "key"), at(PLACES, REFUSED_KEYS))
def test_a_requirement_key_is_refused(place: str, key: object) -> None:
    wrong = path(place, "requirements[0].key")

    assert {wrong} == wrong_fields(with_requirement(place, requirement(key=key)))


@pytest.mark.parametrize(
    ("place", "given"), at((POOL_V1, POOL_V1BETA1, CLAIM_V1), ACCEPTED_MIN_VALUES)
)
def test_min_values_are_accepted(place: str, given: dict[str, Any]) -> None:
    assert errors_of(with_requirement(place, given)) == []


@pytest.mark.parametrize(
    ("place", "given"),
    at((POOL_V1, POOL_V1BETA1, CLAIM_V1, CLAIM_V1BETA1), REFUSED_MIN_VALUES),
)
def test_min_values_are_refused(place: str, given: dict[str, Any]) -> None:
    wrong = path(place, "requirements[0].minValues")

    assert {wrong} == wrong_fields(with_requirement(place, given))


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize(
    ("place", "given"), at((POOL_V1, POOL_V1BETA1, CLAIM_V1, CLAIM_V1BETA1), ACCEPTED_TAINTS)
)
def test_a_taint_is_accepted(place: str, field: str, given: dict[str, Any]) -> None:
    assert errors_of(described(place, field, [given])) == []


@pytest.mark.parametrize("field", ["taints", "startupTaints"])
@pytest.mark.parametrize(
    ("place", "given", "wrong"),
    at((POOL_V1, POOL_V1BETA1, CLAIM_V1, CLAIM_V1BETA1), REFUSED_TAINTS),
)
def test_a_taint_is_refused(place: str, field: str, given: dict[str, Any], wrong: str) -> None:
    assert {path(place, f"{field}[0].{wrong}")} == wrong_fields(described(place, field, [given]))


@pytest.mark.parametrize("given", NOT_IN_WITHOUT_VALUES)
def test_unlike_in_a_pool_not_in_of_an_overlay_needs_values(given: dict[str, Any]) -> None:
    wrong = path(OVERLAY_V1ALPHA1, "requirements[0].values")

    assert {wrong} == wrong_fields(with_requirement(OVERLAY_V1ALPHA1, given))


@pytest.mark.parametrize(("place", "kubelet"), at((POOL_V1BETA1, CLAIM_V1BETA1), ACCEPTED_KUBELETS))
def test_kubelet_settings_are_accepted(place: str, kubelet: dict[str, Any]) -> None:
    assert errors_of(described(place, "kubelet", kubelet)) == []


@pytest.mark.parametrize(
    ("place", "kubelet", "fields"), at((POOL_V1BETA1, CLAIM_V1BETA1), REFUSED_KUBELETS)
)
def test_kubelet_settings_are_refused(place: str, kubelet: dict[str, Any], fields: str) -> None:
    expected = {path(place, f"kubelet.{field}") for field in fields.split()}

    assert expected == wrong_fields(described(place, "kubelet", kubelet))
