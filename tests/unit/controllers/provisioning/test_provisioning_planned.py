"""What is remembered about pods: when they were first seen, and where they are expected."""

from datetime import timedelta

import pytest

from helpers.builders import NOW, pod
from karpenter.controllers.provisioning import planned_pods
from karpenter.controllers.provisioning.planned_pods import PlannedPods

A, B = pod("a"), pod("b")
UID = A.metadata.uid
LATER = NOW + timedelta(seconds=5)


def test_a_pod_is_expected_on_the_last_claim_it_was_planned_for_alone() -> None:
    memory = PlannedPods()
    memory.expect("first", [A, B])
    memory.expect("second", [A])

    assert ("second", (B,), (A,)) == (
        memory.claim_of(UID),
        memory.pods_of("first"),
        memory.pods_of("second"),
    )


def test_a_pod_that_is_gone_is_expected_nowhere() -> None:
    memory = PlannedPods()
    memory.see(UID, NOW)
    memory.expect("first", [A])
    memory.forget_pod(UID)

    assert ("", (), None) == (memory.claim_of(UID), memory.pods_of("first"), memory.times_of(UID))


def test_nobody_is_expected_on_a_claim_that_is_gone() -> None:
    memory = PlannedPods()
    memory.expect("first", [A])
    memory.forget_claim("first")
    memory.expect("second", [A])  # what is left of the first must not be in the way

    assert ((), "second") == (memory.pods_of("first"), memory.claim_of(UID))


def test_only_the_first_decision_and_the_first_place_count() -> None:
    memory = PlannedPods()
    memory.see(UID, NOW)
    decisions = [
        memory.decide(UID, LATER, is_placed=False),
        memory.decide(UID, LATER + timedelta(seconds=1), is_placed=True),
        memory.decide(UID, LATER + timedelta(seconds=2), is_placed=True),
    ]
    times = memory.times_of(UID)

    assert [5.0, None, None] == decisions
    assert times is not None
    assert (LATER, LATER + timedelta(seconds=1)) == (times.decided, times.placed)


def test_the_oldest_is_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_pods, "_MOST_REMEMBERED", 2)
    memory = PlannedPods()
    for uid in ("1", "2", "3"):
        memory.see(uid, NOW)

    assert [False, True, True] == [memory.times_of(uid) is not None for uid in ("1", "2", "3")]
