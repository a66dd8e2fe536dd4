"""Conditions in the status of every kind: what each generation of writers may leave out.

Today's kinds want all of a condition; NodeClaims bear with older writers who left reason and
message empty; kinds of v1beta1 and before knew little more than type and status.
"""

from typing import Any

import pytest

from helpers.crd_cases import ABSENT, admit, case, errors_of, replaced, wrong_fields
from helpers.small_objects import (
    BUFFER,
    CLAIM,
    NODE_CLASS,
    OLD_CLAIM,
    OLD_POOL,
    OVERLAY,
    POOL,
    PROVISIONER,
)

STRICT = [POOL, OVERLAY, BUFFER, NODE_CLASS]
LENIENT = [CLAIM]
TERSE = [OLD_POOL, OLD_CLAIM, PROVISIONER]

CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "all is well",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
    "observedGeneration": 1,
}


def name_of(obj: dict[str, Any]) -> str:
    return f"{obj['apiVersion']}-{obj['kind']}"


def with_conditions(obj: dict[str, Any], *conditions: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "status": {"conditions": list(conditions)}}


@pytest.mark.parametrize("obj", [*STRICT, *LENIENT, *TERSE], ids=name_of)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        case("True", "status", "True"),
        case("False", "status", "False"),
        case("Unknown", "status", "Unknown"),
        case("an-empty-message", "message", ""),
        case("a-message-of-32768-characters", "message", "x" * 32768),
        case("a-reason-with-all-signs", "reason", "Not_ready1,then:Ready"),
        case("a-reason-of-1024-characters", "reason", "x" * 1024),
        case("a-type-with-a-domain", "type", "example.com/Ready"),
        case("a-type-of-316-characters", "type", "x" * 316),
        case("a-time-with-an-offset", "lastTransitionTime", "2030-01-01T01:00:00+01:00"),
        case("no-generation", "observedGeneration", ABSENT),
    ],
)
def test_a_whole_condition_is_kept(obj: dict[str, Any], field: str, value: object) -> None:
    condition = replaced(CONDITION, field, value)

    admitted = admit(with_conditions(obj, condition))

    assert ([str(error) for error in admitted.errors], admitted.pruned) == ([], [])
    assert [condition] == admitted.object["status"]["conditions"]


@pytest.mark.parametrize("obj", [*STRICT, *LENIENT, *TERSE], ids=name_of)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        case("no-type", "type", ABSENT),
        case("a-type-with-a-blank", "type", "a b"),
        case("a-type-of-317-characters", "type", "x" * 317),
        case("no-status", "status", ABSENT),
        case("a-status-in-between", "status", "Maybe"),
        case("a-status-that-is-true", "status", True),
        case("a-reason-with-a-blank", "reason", "not ready"),
        case("a-reason-of-1025-characters", "reason", "x" * 1025),
        case("a-message-of-32769-characters", "message", "x" * 32769),
        case("a-time-in-words", "lastTransitionTime", "soon"),
        case("a-negative-generation", "observedGeneration", -1),
        case("a-generation-beyond-64-bits", "observedGeneration", 2**63),
    ],
)
def test_a_malformed_condition_is_refused(obj: dict[str, Any], field: str, value: object) -> None:
    condition = replaced(CONDITION, field, value)

    # The list has no key for an entry without type, which the API server reports as well
    wrong = wrong_fields(with_conditions(obj, condition)) - {"status.conditions[0]"}

    assert {f"status.conditions[0].{field}"} == wrong


@pytest.mark.parametrize(
    ("field", "value", "kinds_that_accept"),
    [
        case("no-reason", "reason", ABSENT, [*LENIENT, *TERSE]),
        case("an-empty-reason", "reason", "", [*LENIENT, *TERSE]),
        case("no-message", "message", ABSENT, [*LENIENT, *TERSE]),
        case("no-time", "lastTransitionTime", ABSENT, TERSE),
    ],
)
@pytest.mark.parametrize("obj", [*STRICT, *LENIENT, *TERSE], ids=name_of)
def test_what_may_be_missing_depends_on_the_kind(
    obj: dict[str, Any], field: str, value: object, kinds_that_accept: list[dict[str, Any]]
) -> None:
    expected = set() if obj in kinds_that_accept else {f"status.conditions[0].{field}"}

    assert expected == wrong_fields(with_conditions(obj, replaced(CONDITION, field, value)))


@pytest.mark.parametrize("obj", TERSE, ids=name_of)
def test_old_kinds_know_a_severity(obj: dict[str, Any]) -> None:
    condition = {"type": "Ready", "status": "True", "severity": "Info"}

    assert [condition] == admit(with_conditions(obj, condition)).object["status"]["conditions"]


@pytest.mark.parametrize("obj", [*STRICT, *LENIENT, *TERSE], ids=name_of)
def test_every_type_occurs_once(obj: dict[str, Any]) -> None:
    other = {**CONDITION, "type": "Other"}

    assert errors_of(with_conditions(obj, CONDITION, other)) == []
    assert {"status.conditions[1]"} == wrong_fields(with_conditions(obj, CONDITION, CONDITION))
