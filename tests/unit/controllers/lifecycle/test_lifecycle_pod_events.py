"""When pods last came or went, as far as they tell, and when that is news: the decisions alone."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from helpers.builders import node_claim, pod
from karpenter.api.meta import Condition
from karpenter.api.pods import Pod
from karpenter.clock import EPOCH
from karpenter.controllers.lifecycle.pod_events import is_news, last_change


def at(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def said(kind: str, status: str, seconds: float) -> Condition:
    """A condition of a pod since so many seconds."""
    return Condition(type=kind, status=status, last_transition_time=at(seconds))


def seen(
    *told: Condition,
    created: datetime | None = EPOCH,
    phase: str = "Running",
    gone_by: float | None = None,
    grace: int | None = None,
) -> Pod:
    """A pod as a process finds it when it begins to look."""
    found = pod(node_name="n", phase=phase, conditions=told)
    leaving = at(gone_by) if gone_by is not None else None
    metadata = replace(
        found.metadata,
        creation_timestamp=created,
        deletion_timestamp=leaving,
        deletion_grace_period_seconds=grace,
    )
    return replace(found, metadata=metadata)


BOUND = said("PodScheduled", "True", 20)


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        pytest.param(seen(created=None), None, id="a pod that tells nothing"),
        pytest.param(seen(), 0, id="its creation, if it tells nothing else"),
        pytest.param(seen(BOUND), 20, id="DIS-48 when it was bound"),
        pytest.param(
            seen(said("PodScheduled", "False", 20)), 0, id="DIS-48 not when it could not be bound"
        ),
        pytest.param(
            seen(BOUND, said("Ready", "True", 50)),
            20,
            id="DIS-48 a pod that becomes ready is no event",
        ),
        pytest.param(
            seen(BOUND, said("Ready", "False", 90), phase="Succeeded"),
            90,
            id="DIS-50 when it ended",
        ),
        pytest.param(seen(BOUND, phase="Failed"), 20, id="DIS-50 an end of which nothing is told"),
        pytest.param(
            seen(BOUND, gone_by=100, grace=30), 70, id="DIS-50 when it was told to go, not by when"
        ),
        pytest.param(seen(BOUND, gone_by=100), 100, id="DIS-50 told to go at once"),
        pytest.param(
            seen(BOUND, gone_by=100, grace=100_000_000_000), 20, id="three thousand years to go in"
        ),
        pytest.param(seen(BOUND, gone_by=100, grace=2**63 - 1), 20, id="more than there are"),
    ],
)
def test_the_last_event_of_a_pod(found: Pod, seconds: float | None) -> None:
    assert (at(seconds) if seconds is not None else None) == last_change(found)


@pytest.mark.case("DIS-48")
@pytest.mark.parametrize(
    ("last", "moment", "expected"),
    [
        pytest.param(None, 100, True, id="the first event"),
        pytest.param(90.5, 100, False, id="less than ten seconds after the last"),
        pytest.param(90, 100, True, id="ten seconds after the last"),
        pytest.param(100, 90, False, id="an event before the last"),
        pytest.param(160, 100, False, id="a clock that is a minute ahead is believed"),
        pytest.param(161, 100, True, id="one that is further ahead is not"),
    ],
)
def test_when_an_event_is_news(last: float | None, moment: float, expected: bool) -> None:
    claim = node_claim("c")
    held = replace(claim.status, last_pod_event_time=at(last) if last is not None else None)

    assert expected == is_news(replace(claim, status=held), at(moment), now=at(100))
