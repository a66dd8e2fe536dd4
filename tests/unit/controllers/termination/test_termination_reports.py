"""What users read while a node goes: the sentences alone."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from helpers.builders import NOW, node, pod
from karpenter.api.meta import ObjectMeta
from karpenter.api.storage import VolumeAttachment
from karpenter.controllers.termination import events
from karpenter.controllers.termination.nodes import TerminationState
from karpenter.model.labels import DO_NOT_DISRUPT

BEGAN = NOW - timedelta(minutes=10)


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        pytest.param(1, "Failed to drain node, 1 pods are waiting to be evicted", id="one pod"),
        pytest.param(2, "Failed to drain node, 2 pods are waiting to be evicted", id="two pods"),
    ],
)
def test_how_many_pods_are_waited_for(count: int, sentence: str) -> None:
    assert sentence == events.waiting(node(), count).message


@pytest.mark.parametrize(
    ("count", "listed"),
    [
        pytest.param(1, "v0", id="one volume"),
        pytest.param(5, "v0, v1, v2, v3, v4", id="as many as are named"),
        pytest.param(6, "v0, v1, v2, v3, v4 and 1 other(s)", id="one more than are named"),
        pytest.param(20, "v0, v1, v2, v3, v4 and 15 other(s)", id="many volumes"),
    ],
)
def test_which_volumes_are_waited_for(count: int, listed: str) -> None:
    attached = [VolumeAttachment(metadata=ObjectMeta(name=f"v{each}")) for each in range(count)]

    told = events.volumes_attached(node(), attached)

    assert f"Awaiting deletion of bound volumeattachments ({listed})" == told.message


@pytest.mark.parametrize(
    ("value", "started", "reason"),
    [
        pytest.param("true", BEGAN, None, id="a pod that is protected for good needs no word"),
        pytest.param("true", None, None, id="nor before it has started"),
        pytest.param("1h", None, None, id="a pod that has not started has no end to tell"),
        pytest.param("11m", BEGAN, "DoNotDisruptUntil", id="a minute is left"),
        pytest.param("10m", BEGAN, "DoNotDisruptGracePeriodElapsed", id="it ends now"),
        pytest.param("9m", BEGAN, "DoNotDisruptGracePeriodElapsed", id="it ended a minute ago"),
        pytest.param("yes", BEGAN, "InvalidDoNotDisruptAnnotation", id="no length of time"),
        pytest.param("0s", None, "InvalidDoNotDisruptAnnotation", id="no time at all"),
    ],
)
def test_what_an_annotation_of_a_pod_does_now(
    value: str, started: datetime | None, reason: str | None
) -> None:
    given = pod(annotations={DO_NOT_DISRUPT: value}, node_name="n")
    given = replace(given, status=replace(given.status, start_time=started))

    told = events.protection(given, now=NOW)

    assert reason == (told.reason if told is not None else None)


def test_a_pod_without_the_annotation_needs_no_word() -> None:
    assert events.protection(pod(node_name="n", started=BEGAN), now=NOW) is None


@pytest.mark.case("DIS-94")
@pytest.mark.parametrize(
    ("deadline", "is_overdue"),
    [
        pytest.param(None, False, id="a node without a deadline has all the time"),
        pytest.param(NOW + timedelta(seconds=1), False, id="a second before the deadline"),
        pytest.param(NOW, False, id="the deadline itself is in time"),
        pytest.param(NOW - timedelta(seconds=1), True, id="a second after it is too late"),
    ],
)
def test_when_volumes_are_no_longer_waited_for(deadline: datetime | None, is_overdue: bool) -> None:
    assert is_overdue == TerminationState(node(), None, [], deadline, NOW).is_overdue
