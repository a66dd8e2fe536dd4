"""Who has to leave a node, in what order and by when: the decisions alone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, Unpack

import msgspec
import pytest

from helpers.builders import NOW, condition, node_claim, owner, pod, toleration
from karpenter.api.karpenter import NodeClaim
from karpenter.api.pods import Pod
from karpenter.controllers.termination.deadline import (
    DeadlineError,
    deadline_of,
    first_deadline,
    grace_left,
    is_overdue,
    is_to_be_deleted,
    tightened,
)
from karpenter.controllers.termination.drain import plan_drain, reason_of
from karpenter.controllers.termination.eviction_requests import (
    EvictionRequest,
    EvictionStep,
    combined,
    next_step,
    seconds_until_due,
)
from karpenter.model.labels import DISRUPTED, DO_NOT_DISRUPT, TERMINATION_TIMESTAMP


class PodFacts(TypedDict, total=False):
    """What these tests say about a pod."""

    grace: int | None  # 30 unless told
    going: int  # seconds from now until it should be gone
    told: int  # the grace period it was told
    daemon: bool
    critical: bool
    mirror: bool
    held: str  # its do-not-disrupt annotation
    tolerates: Sequence[Any]
    phase: str


def bound(name: str = "a", **facts: Unpack[PodFacts]) -> Pod:
    """A pod on node ``n``."""
    owners = [owner("ReplicaSet", "web")]
    if facts.get("daemon"):
        owners = [owner("DaemonSet", "ds")]
    if facts.get("mirror"):
        owners = [owner("Node", "n", "v1")]
    held = facts.get("held")
    made = pod(
        name,
        node_name="n",
        owners=owners,
        annotations={DO_NOT_DISRUPT: held} if held else {},
        tolerations=facts.get("tolerates", ()),
        phase=facts.get("phase", "Running"),
    )
    spec = msgspec.structs.replace(
        made.spec,
        termination_grace_period_seconds=facts.get("grace", 30),
        priority_class_name="system-node-critical" if facts.get("critical") else "",
    )
    metadata = made.metadata
    if "going" in facts:
        metadata = msgspec.structs.replace(
            metadata,
            deletion_timestamp=after(facts["going"]),
            deletion_grace_period_seconds=facts.get("told"),
        )
    return msgspec.structs.replace(made, metadata=metadata, spec=spec)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def names(pods: Sequence[Pod]) -> list[str]:
    return [each.metadata.name for each in pods]


APP = bound("app")
DAEMON = bound("daemon", daemon=True)
CRITICAL = bound("critical", critical=True)
CRITICAL_DAEMON = bound("critical-daemon", critical=True, daemon=True)
ALL = (CRITICAL_DAEMON, CRITICAL, DAEMON, APP)


@pytest.mark.parametrize(
    ("pods", "waiting", "going"),
    [
        pytest.param([], [], [], id="DIS-70 a node with no pods is empty"),
        pytest.param(
            [bound(tolerates=[toleration(DISRUPTED, "Exists", effect="NoSchedule")])],
            [],
            [],
            id="DIS-71 a pod that tolerates the drain by key stays",
        ),
        pytest.param(
            [bound(tolerates=[toleration(DISRUPTED, "Equal", "", effect="NoSchedule")])],
            [],
            [],
            id="DIS-71 a pod that tolerates the drain by value stays",
        ),
        pytest.param(
            [bound(tolerates=[toleration("", "Exists")])],
            [],
            [],
            id="DIS-71 a pod that tolerates everything stays",
        ),
        pytest.param(
            [bound(tolerates=[toleration("node.kubernetes.io/unschedulable", "Exists")])],
            ["a"],
            ["a"],
            id="DIS-72 a pod that tolerates only a cordon goes",
        ),
        pytest.param([bound(mirror=True)], [], [], id="DIS-73 a mirrored pod is ignored"),
        pytest.param(
            [pod("a", node_name="n")], ["a"], ["a"], id="DIS-74 a pod that nobody owns goes"
        ),
        pytest.param([bound(phase="Succeeded")], [], [], id="DIS-75 a finished pod is ignored"),
        pytest.param([bound(phase="Failed")], [], [], id="DIS-75 a failed pod is ignored"),
        pytest.param([DAEMON], ["daemon"], ["daemon"], id="DIS-76 a daemon goes"),
        pytest.param(
            [APP, DAEMON], ["app", "daemon"], ["app"], id="DIS-76 a daemon goes in the second tier"
        ),
        pytest.param(
            ALL,
            ["app", "critical", "critical-daemon", "daemon"],
            ["app"],
            id="DIS-77 applications go first",
        ),
        pytest.param(ALL[:3], sorted(names(ALL[:3])), ["daemon"], id="DIS-77 then daemons"),
        pytest.param(ALL[:2], sorted(names(ALL[:2])), ["critical"], id="DIS-77 then critical pods"),
        pytest.param(
            ALL[:1], ["critical-daemon"], ["critical-daemon"], id="DIS-77 critical daemons go last"
        ),
        pytest.param(
            [bound("app", going=20), DAEMON],
            ["app", "daemon"],
            [],
            id="DIS-77 a tier that is going holds the next one",
        ),
        pytest.param(
            [bound("app", phase="Succeeded"), DAEMON],
            ["daemon"],
            ["daemon"],
            id="DIS-77 a tier that has ended holds nobody",
        ),
        pytest.param(
            [bound("app", going=-61), DAEMON],
            ["daemon"],
            ["daemon"],
            id="DIS-91 a pod 61 s past its time counts as gone",
        ),
        pytest.param(
            [bound("app", going=-60), DAEMON],
            ["app", "daemon"],
            [],
            id="DIS-91 a pod 60 s past its time does not",
        ),
        pytest.param(
            [bound(held="true")], ["a"], ["a"], id="DIS-82 a protected pod is waited for and queued"
        ),
    ],
)
def test_drain_without_a_deadline(
    pods: Sequence[Pod], waiting: list[str], going: list[str]
) -> None:
    drain = plan_drain(pods, deadline=None, now=NOW)

    assert (waiting, going) == (names(drain.waiting), names(drain.next))
    assert names(drain.forced) == []


@pytest.mark.parametrize(
    ("pods", "deadline", "forced", "following"),
    [
        pytest.param(
            [bound(grace=300)], after(299), ["a"], [], id="DIS-84 a grace beyond the deadline"
        ),
        pytest.param(
            [bound(grace=60, held="true")],
            after(300),
            [],
            ["a"],
            id="DIS-85 there is time for the grace",
        ),
        pytest.param(
            [bound(grace=60, held="true")],
            after(60),
            [],
            ["a"],
            id="DIS-85 exactly time enough is enough",
        ),
        pytest.param([bound(grace=None)], after(-9), [], ["a"], id="a pod without a grace period"),
        pytest.param(
            [APP, bound("critical", critical=True, grace=600)],
            after(300),
            ["critical"],
            ["app"],
            id="DIS-88 a pod whose time is up is not held by its tier",
        ),
        pytest.param(
            [bound(going=400, told=400)],
            after(300),
            ["a"],
            [],
            id="DIS-87 a pod that goes too late is told again",
        ),
        pytest.param(
            [bound(going=1, told=1)],
            after(-3600),
            [],
            [],
            id="a pod that was told the shortest time is not told again",
        ),
        pytest.param(
            [bound(going=400)],
            after(300),
            ["a"],
            [],
            id="DIS-87 a pod of which nobody knows its time",
        ),
        pytest.param(
            [bound(going=300, told=400)], after(300), [], [], id="a pod that goes at the deadline"
        ),
        pytest.param(
            [bound(going=200, told=400)], after(300), [], [], id="a pod that goes in time"
        ),
    ],
)
def test_drain_with_a_deadline(
    pods: Sequence[Pod], deadline: datetime, forced: list[str], following: list[str]
) -> None:
    drain = plan_drain(pods, deadline=deadline, now=NOW)

    assert (forced, following) == (names(drain.forced), names(drain.next))
    assert len(pods) == len(drain.waiting)


@pytest.mark.parametrize(
    ("deadline", "seconds"),
    [
        pytest.param(after(-3600), 1, id="DIS-86 an hour late"),
        pytest.param(NOW, 1, id="right now"),
        pytest.param(after(1.9), 1, id="part of a second is none"),
        pytest.param(after(300), 300, id="DIS-84 in five minutes"),
    ],
)
def test_grace_of_a_pod_whose_time_is_up(deadline: datetime, seconds: int) -> None:
    assert seconds == grace_left(deadline, now=NOW)


@pytest.mark.parametrize(
    ("grace", "deadline"),
    [
        pytest.param(2**40, after(60), id="DIS-84 a grace longer than time itself"),
        pytest.param(2**62, after(60), id="DIS-84 a grace that is no length of time"),
        pytest.param(30, datetime.min.replace(tzinfo=UTC), id="DIS-86 a deadline before all times"),
    ],
)
def test_what_no_calendar_holds_is_overdue_and_holds_no_node(
    grace: int, deadline: datetime
) -> None:
    held = bound(grace=grace, held="true")

    planned = plan_drain([held], deadline=deadline, now=NOW)

    assert (held,) == planned.forced
    assert EvictionStep.DELETE is next_step(held, EvictionRequest(deadline), now=NOW)
    assert 0 < (seconds_until_due(held, EvictionRequest(deadline), now=NOW) or 0) < 1


def test_a_pod_going_after_the_deadline_is_overdue_even_when_telling_it_again_changes_nothing() -> (
    None
):
    told = bound(going=1, told=1)

    assert is_overdue(told, after(-10), now=NOW)
    assert not is_to_be_deleted(told, after(-10), now=NOW)


def claim(period: str | None = None, written: str | None = None) -> NodeClaim:
    """A claim that is being deleted since NOW."""
    made = node_claim("c", deleted=NOW)
    if written is not None:
        made = node_claim("c", deleted=NOW, annotations={TERMINATION_TIMESTAMP: written})
    return msgspec.structs.replace(
        made, spec=msgspec.structs.replace(made.spec, termination_grace_period=period)
    )


@pytest.mark.parametrize(
    ("deleted", "written"),
    [
        pytest.param(claim("1h"), "2026-08-01T13:00:00Z", id="DIS-66 an hour after the deletion"),
        pytest.param(claim("0s"), "2026-08-01T12:00:00Z", id="at once"),
        pytest.param(claim("1h", "2026-08-01T12:05:00Z"), None, id="DIS-67 one that is written"),
        pytest.param(claim("1h", "nonsense"), None, id="DIS-67 even when it cannot be read"),
        pytest.param(claim(), None, id="DIS-68 no grace period"),
        pytest.param(claim("soon"), None, id="DIS-68 a grace period that is no length of time"),
    ],
)
def test_first_deadline(deleted: NodeClaim, written: str | None) -> None:
    assert written == first_deadline(deleted)


@pytest.mark.parametrize(
    ("known", "written"),
    [
        pytest.param(None, "2026-08-01T12:00:00Z", id="none so far"),
        pytest.param("2026-08-01T12:00:01Z", "2026-08-01T12:00:00Z", id="a later one"),
        pytest.param("2026-08-01T12:00:00Z", None, id="the same"),
        pytest.param("2026-08-01T11:59:59Z", None, id="V15-D10 an earlier one is kept"),
        pytest.param("2026-08-01T14:00:00+02:00", None, id="the same in another zone"),
        pytest.param("soon", "2026-08-01T12:00:00Z", id="one that cannot be read"),
        pytest.param("300", "2026-08-01T12:00:00Z", id="a number, which is no time"),
    ],
)
def test_tightened_deadline(known: str | None, written: str | None) -> None:
    assert written == tightened(claim(written=known), NOW)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("soon", id="words"),
        pytest.param("300", id="a number, which would be long ago if it were seconds since 1970"),
        pytest.param("2026-08-01T12:00:00", id="a time of no zone"),
    ],
)
def test_a_deadline_that_is_no_time_is_named_with_its_claim(text: str) -> None:
    with pytest.raises(DeadlineError, match=f"of NodeClaim c is '{text}'; write a time"):
        deadline_of(claim(written=text))


def test_a_node_of_no_claim_has_no_deadline() -> None:
    assert deadline_of(None) is None


FORCE, LOOSE = EvictionRequest(after(10)), EvictionRequest(after(500))
TIMEOUT, LOOSE_TIMEOUT = (
    EvictionRequest(after(10), is_timeout=True),
    EvictionRequest(after(500), is_timeout=True),
)


@pytest.mark.parametrize(
    ("known", "new", "stands"),
    [
        pytest.param(EvictionRequest(), FORCE, FORCE, id="DIS-89 a deadline after none"),
        pytest.param(FORCE, EvictionRequest(), FORCE, id="DIS-90 none after a deadline"),
        pytest.param(FORCE, LOOSE, FORCE, id="DIS-90 tight, then loose"),
        pytest.param(LOOSE, FORCE, FORCE, id="DIS-89 loose, then tight"),
        pytest.param(TIMEOUT, LOOSE, LOOSE, id="V15-D42 deleting replaces giving up"),
        pytest.param(
            TIMEOUT, EvictionRequest(), EvictionRequest(), id="V15-D42 even without a deadline"
        ),
        pytest.param(LOOSE, TIMEOUT, LOOSE, id="V15-D42 and is never replaced by it"),
        pytest.param(LOOSE_TIMEOUT, TIMEOUT, TIMEOUT, id="the earlier of two time-outs"),
        pytest.param(
            EvictionRequest(is_timeout=True),
            TIMEOUT,
            TIMEOUT,
            id="a time-out after an unbounded one",
        ),
    ],
)
def test_the_stricter_order_stands(
    known: EvictionRequest, new: EvictionRequest, stands: EvictionRequest
) -> None:
    assert stands == combined(known, new)


@pytest.mark.parametrize(
    ("given", "order", "step"),
    [
        pytest.param(bound(), EvictionRequest(), EvictionStep.EVICT, id="a running pod"),
        pytest.param(
            bound(held="true"), EvictionRequest(), EvictionStep.WAIT, id="DIS-82 a protected pod"
        ),
        pytest.param(
            bound(held="no"),
            EvictionRequest(),
            EvictionStep.EVICT,
            id="a value that protects nothing",
        ),
        pytest.param(bound(going=9), EvictionRequest(), EvictionStep.DROP, id="a pod that goes"),
        pytest.param(
            bound(phase="Failed"), EvictionRequest(), EvictionStep.DROP, id="a pod that has ended"
        ),
        pytest.param(
            bound(tolerates=[toleration("", "Exists")]),
            EvictionRequest(),
            EvictionStep.DROP,
            id="one that may stay",
        ),
        pytest.param(
            bound(held="true", grace=11), FORCE, EvictionStep.DELETE, id="DIS-84 time is up"
        ),
        pytest.param(
            bound(held="true", grace=10), FORCE, EvictionStep.WAIT, id="DIS-85 time is not up"
        ),
        pytest.param(
            bound(going=99, told=99), FORCE, EvictionStep.DELETE, id="DIS-87 it goes too late"
        ),
        pytest.param(bound(grace=11), TIMEOUT, EvictionStep.EVICT, id="a time-out deletes nobody"),
        pytest.param(
            bound(),
            EvictionRequest(NOW, is_timeout=True),
            EvictionStep.EVICT,
            id="a time-out that is just reached",
        ),
        pytest.param(
            bound(held="true"),
            EvictionRequest(after(-1), is_timeout=True),
            EvictionStep.DROP,
            id="V15-D29 after a time-out the pod is left alone",
        ),
    ],
)
def test_next_step(given: Pod, order: EvictionRequest, step: EvictionStep) -> None:
    assert step == next_step(given, order, now=NOW)


@pytest.mark.parametrize(
    ("grace", "order", "seconds"),
    [
        pytest.param(30, EvictionRequest(), None, id="no deadline"),
        pytest.param(
            30,
            EvictionRequest(after(300)),
            270.001,
            id="DIS-85 just after the grace no longer fits",
        ),
        pytest.param(30, EvictionRequest(after(-9)), 0.001, id="it is over"),
        pytest.param(30, TIMEOUT, 10.001, id="a time-out knows no grace"),
        pytest.param(None, EvictionRequest(after(300)), None, id="no grace that could be too long"),
        pytest.param(None, TIMEOUT, 10.001, id="a time-out needs no grace"),
        pytest.param(30, EvictionRequest(is_timeout=True), None, id="a time-out that never comes"),
    ],
)
def test_seconds_until_the_deadline_matters(
    grace: int | None, order: EvictionRequest, seconds: float | None
) -> None:
    assert seconds == seconds_until_due(bound(grace=grace), order, now=NOW)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(None, "", id="no claim"),
        pytest.param(node_claim("c"), "Forceful Termination", id="DIS-96 nobody said why"),
        pytest.param(
            node_claim("c", conditions=[condition("DisruptionReason", reason="Drifted")]),
            "Drifted",
            id="DIS-95 the reason of the disruption",
        ),
        pytest.param(
            node_claim("c", conditions=[condition("DisruptionReason", "False", "Drifted")]),
            "Forceful Termination",
            id="a disruption that was called off",
        ),
    ],
)
def test_reason_of_a_drain(given: NodeClaim | None, reason: str) -> None:
    assert reason == reason_of(given)
