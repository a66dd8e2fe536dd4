"""The API server's promise for ``karpenter.kwok.sh/v1alpha1`` KWOKNodeClass."""

import pytest

from helpers.crd_cases import admit, columns, errors_of, replaced, wrong_fields
from helpers.small_objects import NODE_CLASS
from unit.api.crds.cases.requirement_cases import ACCEPTED_DURATIONS, REFUSED_DURATIONS
from unit.api.crds.crd_walk import crd_version, rule_messages

CRD = "kwoknodeclasses.karpenter.kwok.sh"
V1ALPHA1 = crd_version(CRD, "v1alpha1")
DELAY = "spec.nodeRegistrationDelay"
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2024-01-01T01:01:01Z",
}


@pytest.mark.parametrize("text", ACCEPTED_DURATIONS)
def test_a_delay_is_accepted(text: str) -> None:
    assert errors_of(replaced(NODE_CLASS, DELAY, text)) == []


@pytest.mark.parametrize("text", [*REFUSED_DURATIONS, "Never"])
def test_a_delay_is_refused(text: object) -> None:
    assert {DELAY} == wrong_fields(replaced(NODE_CLASS, DELAY, text))


def test_a_class_needs_no_spec() -> None:
    assert errors_of(NODE_CLASS) == []


def test_a_class_is_ready_the_moment_it_exists() -> None:
    assert admit(NODE_CLASS).object == {**NODE_CLASS, "status": {"conditions": [READY]}}


def test_a_written_status_is_kept() -> None:
    status = {"conditions": [{**READY, "status": "False", "observedGeneration": 2}]}

    admitted = admit({**NODE_CLASS, "status": status})

    assert ([], [], status) == (admitted.errors, admitted.pruned, admitted.object["status"])


def test_unknown_fields_are_dropped() -> None:
    assert admit(replaced(NODE_CLASS, "spec.speed", 60)).pruned == [("spec", "speed")]


def test_columns_of_kubectl_get() -> None:
    assert columns(CRD, "v1alpha1") == ["READY", "AGE"]


def test_the_schema_alone_says_everything() -> None:
    assert set() == rule_messages(V1ALPHA1)
