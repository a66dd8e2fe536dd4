"""Why pods and nodes went, from what observers saw and what was decided."""

from dataclasses import replace
from typing import Any

import pytest

from helpers.observing import START
from karpenter.decision_log.record import Draft, Kind, Outcome, moment_text, recorded
from karpenter.simulate.observe.machines import Life
from karpenter.simulate.observe.pods import BY_AUTOSCALER, Eviction
from karpenter.simulate.report.causes import Causes

BY_API = "EvictionByEvictionAPI"


def life(**more: Any) -> Life:
    return Life("node", "claim", "pool", "c-4x", "a", "spot", began=0.0, price=0.1, **more)


def went(reason: str = BY_API, at: float = 100.0) -> Eviction:
    return Eviction(at, "default/web", "Pod/default/web", "node", reason, 0.0, is_again=False)


def decided(kind: Kind, reason: str) -> Causes:
    draft = Draft(kind, Outcome.BEGUN, reason, "text", objects=("Node/node", "NodeClaim/claim"))
    return Causes([recorded(draft, "1", START)], START, [life()], {})


@pytest.mark.parametrize(
    ("causes", "eviction", "expected"),
    [
        (decided(Kind.DISRUPT, "Drifted"), went(), "Drifted"),
        (decided(Kind.DISRUPT, "Underutilized"), went(BY_AUTOSCALER), "Underutilized"),
        (decided(Kind.REPAIR, "Unhealthy"), went(), "Unhealthy"),
        (decided(Kind.INTERRUPT, "SpotInterrupted"), went("DeletionByPodGC"), "Interrupted"),
        (decided(Kind.DISRUPT, "Drifted"), went("PreemptionByScheduler"), "Preempted"),
        (Causes([], START, [life(noticed=50.0)], {}), went(), "Interrupted"),
        (Causes([], START, [life()], {}), went("DeletionByTaintManager"), "NodeLost"),
        (Causes([], START, [life(ended=90.0, cause="disappeared")], {}), went(), "NodeLost"),
        (Causes([], START, [life()], {"pool": 80.0}), went(), "PoolDeleted"),
        (Causes([], START, [life()], {"pool": 120.0}), went(), "Deleted"),
    ],
)
def test_an_eviction_has_the_cause_that_took_its_node(
    causes: Causes, eviction: Eviction, expected: str
) -> None:
    assert expected == causes.of_eviction(eviction)


def test_a_decision_after_the_eviction_was_not_its_cause() -> None:
    draft = Draft(Kind.DISRUPT, Outcome.BEGUN, "Drifted", "text", objects=("Node/node",))
    later = recorded(draft, "1", START.replace(minute=5))
    assert moment_text(START.replace(minute=5)) == later.at

    assert "Deleted" == Causes([later], START, [life()], {}).of_eviction(went())


def test_every_node_of_a_command_went_because_of_it() -> None:
    names = [f"node-{number}" for number in range(122)]
    lives = [replace(life(ended=90.0), name=name, claim=f"claim-{name}") for name in names]
    objects = tuple(f"Node/{name}" for name in names)
    detail = {"candidates": names[:100]}  # a record tells only so many in detail
    draft = Draft(Kind.DISRUPT, Outcome.BEGUN, "Empty", "text", objects=objects, detail=detail)
    causes = Causes([recorded(draft, "1", START)], START, lives, {})

    assert {"Empty"} == {causes.of_end(each) for each in lives}
