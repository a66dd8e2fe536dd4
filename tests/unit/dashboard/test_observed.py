"""What is recorded of a cluster whose controller is another one, and that each thing is told once."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from msgspec.structs import replace

from helpers.builders import NOW, node, node_claim, taint
from karpenter.api.cluster import Event, EventSource
from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import Condition, ObjectMeta, ObjectReference, Resource
from karpenter.api.nodes import Node
from karpenter.dashboard.observed.observer import Observer
from karpenter.dashboard.observed.sightings import Sighting
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import Kind, Outcome, Source, encoded

SCHEMA = resources.files("karpenter.report").joinpath("decision.schema.json")
VALIDATOR = Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
HOUR = timedelta(hours=1)


def at(seconds: float) -> datetime:
    """A moment of the story."""
    return NOW + timedelta(seconds=seconds)


def true(kind: str, seconds: float, reason: str = "") -> Condition:
    """A condition that became true."""
    return Condition(
        type=kind, status="True", reason=reason or kind, last_transition_time=at(seconds)
    )


def claim(name: str = "general-x", *conditions: Condition, **metadata: Any) -> NodeClaim:
    """A claim of pool general, made at the beginning."""
    base = node_claim(name, pool="general", conditions=conditions)
    fields = {"creation_timestamp": NOW} | metadata
    status = replace(base.status, node_name=f"{name}.node" if len(conditions) > 1 else "")
    return replace(base, metadata=replace(base.metadata, **fields), status=status)


def machine(name: str = "general-x", *taints: str) -> Node:
    """The Node of a claim."""
    return node(f"{name}.node", pool="general", taints=[taint(each) for each in taints])


def event(
    reason: str, about: Resource | ObjectReference, message: str, seconds: float, **more: Any
) -> Event:
    """An event of Karpenter."""
    if isinstance(about, Resource):
        about = ObjectReference(
            kind=about.kind,
            name=about.metadata.name,
            uid=about.metadata.uid,
            namespace=about.metadata.namespace,
        )
    name = f"{about.name}.{reason}.{about.kind}.{seconds}"
    fields: dict[str, Any] = {
        "type": "Normal",
        "source": EventSource(component="karpenter"),
        "first_timestamp": at(seconds),
        "last_timestamp": at(seconds),
    }
    return Event(
        metadata=ObjectMeta(name=name, namespace="default", uid=name),
        involved_object=about,
        reason=reason,
        message=message,
        **fields | more,
    )


POD = ObjectReference(kind="Pod", name="web-1", namespace="shop", uid="pod-1")
LIFE = (
    claim("general-x"),
    claim("general-x", true("Launched", 2)),
    claim("general-x", true("Launched", 2), true("Registered", 30)),
    claim("general-x", true("Launched", 2), true("Registered", 30), true("Initialized", 40)),
)
RUNNING = LIFE[-1]
GOING = claim(
    "general-x", *RUNNING.status.conditions, true("DisruptionReason", 100, "Underutilized")
)
DELETED = replace(GOING, metadata=replace(GOING.metadata, deletion_timestamp=at(160)))


def told(sightings: Iterable[Sighting]) -> list[tuple[str, str, str]]:
    """The kind, outcome and reason of records."""
    return [(str(s.draft.kind), str(s.draft.outcome), s.draft.reason) for s in sightings]


def stories(observer: Observer, *versions: Resource | None) -> None:
    """Give an observer the versions of one object, as a watch does."""
    known = None
    for each in versions:
        observer.changed(known, each)
        known = each


def test_a_machine_is_seen_from_its_claim_to_its_end() -> None:
    observer = Observer(since=NOW)
    found = []
    for old, new in zip((None, *LIFE), LIFE, strict=False):
        observer.changed(old, new)
        found += observer.look(at(50))
    observer.changed(None, machine())
    observer.changed(RUNNING, GOING)
    observer.changed(machine(), machine("general-x", "karpenter.sh/disrupted:NoSchedule"))
    found += observer.look(at(101))
    observer.changed(GOING, DELETED)
    found += observer.look(at(161))
    observer.changed(machine("general-x", "karpenter.sh/disrupted:NoSchedule"), None)
    observer.changed(DELETED, None)
    found += observer.look(at(200))

    assert told(found) == [
        ("Provision", "done", "Created"),
        ("Launch", "done", "Launched"),
        ("Register", "done", "Registered"),
        ("Initialize", "done", "Initialized"),
        ("Disrupt", "begun", "Underutilized"),
        ("Drain", "begun", "Underutilized"),
        ("Disrupt", "done", "Underutilized"),
        ("Terminate", "done", "NodeClaimDeleted"),
        ("Terminate", "done", "NodeDeleted"),
    ]
    assert {each.draft.node_pools for each in found} == {("general",)}
    assert all(each.draft.source is Source.OBSERVED for each in found)
    assert all(each.draft.text.startswith("seen: ") for each in found)
    assert {each.draft.savings_hourly for each in found} == {None}
    assert [each.at for each in found[:4]] == [at(0), at(2), at(30), at(40)]


def test_the_event_and_the_deletion_of_a_machine_are_one_record() -> None:
    observer = Observer(since=NOW)
    stories(observer, RUNNING)
    observer.changed(None, machine())
    observer.look(at(90))
    observer.changed(RUNNING, DELETED)
    for target in (machine(), RUNNING):
        message = f"Disrupting {target.kind}: Underutilized"
        observer.changed(None, event("DisruptionTerminating", target, message, 160))
    found = observer.look(at(161))

    assert told(found) == [
        ("Disrupt", "begun", "Underutilized"),
        ("Disrupt", "done", "Underutilized"),
    ]
    assert found[1].draft.objects == ("Node/general-x.node", "NodeClaim/general-x")
    late = event("DisruptionTerminating", RUNNING, "Disrupting NodeClaim: Underutilized", 162)
    observer.changed(None, late)
    assert not observer.look(at(163))


def test_a_saving_is_told_only_if_the_event_names_one() -> None:
    observer = Observer(since=NOW)
    stories(observer, RUNNING)
    message = "Consolidation candidate: Replace: [general-x] -> [1 replacement] (savings: $0.11)"
    observer.changed(None, event("ConsolidationCandidate", RUNNING, message, 90))
    unknown = "Consolidation rejected: Delete: [general-x], reason: too new (savings: unknown)"
    observer.changed(None, event("ConsolidationRejected", RUNNING, unknown, 95))
    found = observer.look(at(100))[-2:]

    assert told(found) == [
        ("Disrupt", "begun", "ConsolidationCandidate"),
        ("Disrupt", "abandoned", "ConsolidationRejected"),
    ]
    assert [each.draft.savings_hourly for each in found] == [0.11, None]


@pytest.mark.parametrize(
    ("reason", "kind", "severity"),
    [
        ("SpotInterrupted", Kind.INTERRUPT, "warning"),
        ("SpotRebalanceRecommendation", Kind.INTERRUPT, "info"),
        ("FailedDraining", Kind.DRAIN, "info"),
        ("RebootFailed", Kind.REPAIR, "warning"),
        ("UnregisteredTaintMissing", Kind.REGISTER, "info"),
    ],
)
def test_an_event_on_node_and_claim_is_one_record(reason: str, kind: Kind, severity: str) -> None:
    observer, log = Observer(since=NOW), DecisionLog()
    stories(observer, RUNNING)
    observer.look(at(90))
    for target in (machine(), RUNNING):
        observer.changed(None, event(reason, target, f"{target.kind} is in trouble", 95))
    (found,) = observer.look(at(96))

    record = log.add(found.at, found.draft)
    assert (record.kind, record.severity, record.source) == (kind, severity, "observed")


def test_what_upstream_writes_about_pods_and_pools() -> None:
    observer = Observer(since=NOW)
    pool = ObjectReference(kind="NodePool", name="general", uid="pool-1")
    scheduling = "Failed to schedule pod, incompatible with nodepool general"
    ready = "Status condition transitioned, Type: Ready, Status: True -> False, Reason: NodeClassNotReady"
    for each in (
        event("FailedScheduling", POD, scheduling, 1, type="Warning"),
        event("Nominated", POD, "Pod should schedule on: nodeclaim/general-x", 2),
        event(
            "InsufficientCapacityError", POD, "creating instance, no capacity", 3, type="Warning"
        ),
        event("Evicted", POD, "Evicted pod: Underutilized", 4),
        event("NoCompatibleInstanceTypes", pool, "requirements exclude all", 5, type="Warning"),
        event("Ready", pool, ready, 6),
        event("DisruptionBlocked", pool, "No allowed disruptions for reason Empty", 7),
        event("", pool, "an event without a reason", 8, type="Warning"),
    ):
        observer.changed(None, each)
    found = observer.look(at(10))

    assert told(found) == [
        ("Refuse", "failed", "FailedScheduling"),
        ("Config", "failed", "NoCompatibleInstanceTypes"),
        ("Config", "failed", "NodeClassNotReady"),
        ("Config", "failed", "Seen"),
    ]
    assert found[0].draft.objects == ("Pod/shop/web-1",)
    assert found[0].draft.text == f"seen: shop/web-1: {scheduling}"
    assert found[1].draft.node_pools == ("general",)


def test_events_of_other_components_are_passed_over() -> None:
    observer = Observer(since=NOW)
    kubelet = EventSource(component="kubelet")
    observer.changed(None, event("FailedScheduling", POD, "no", 1, source=kubelet, type="Warning"))
    assert not observer.look(at(2))


def test_an_event_that_is_repeated_is_told_again_only_after_an_hour() -> None:
    observer = Observer(since=NOW)
    first = event("FailedDraining", machine(), "Failed to drain node, 3 pods are waiting", 0)
    observer.changed(None, first)
    assert len(observer.look(at(1))) == 1
    for seconds in range(600, 6000, 600):
        again = replace(
            first,
            message=f"Failed to drain node, {seconds} pods are waiting",
            last_timestamp=at(seconds),
        )
        observer.changed(first, again)
        first = again
        assert not observer.look(at(seconds + 1))
    observer.changed(first, replace(first, last_timestamp=at(5400 + 3601)))
    (found,) = observer.look(at(9002))
    assert found.at == at(9001)


def test_a_machine_too_short_lived_to_be_seen_is_told_by_its_events() -> None:
    observer = Observer(since=NOW)
    about = ObjectReference(kind="NodeClaim", name="general-y", uid="y")
    moved = (
        "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched"
    )
    observer.changed(None, event("Launched", about, moved, 1))
    observer.changed(None, event("Finalized", about, "Finalized karpenter.sh/termination", 5))
    nameless = ObjectReference(kind="NodeClaim")
    observer.changed(None, event("Finalized", nameless, "Finalized karpenter.sh/termination", 5))
    assert told(observer.look(at(6))) == [
        ("Launch", "done", "Launched"),
        ("Terminate", "done", "NodeClaimDeleted"),
    ]


def test_a_claim_that_comes_and_goes_between_two_looks_is_told() -> None:
    observer = Observer(since=NOW)
    stories(observer, *LIFE[:2], None)
    assert [kind for kind, _, _ in told(observer.look(at(9)))] == [
        "Provision",
        "Launch",
        "Terminate",
    ]


def test_what_is_older_than_the_beginning_is_no_news() -> None:
    observer = Observer(since=NOW + HOUR)
    observer.changed(None, RUNNING)
    observer.changed(None, event("FailedScheduling", POD, "no place", 0, type="Warning"))
    assert not observer.look(at(3601))


def test_an_expired_machine_says_so() -> None:
    observer = Observer(since=NOW)
    old = replace(RUNNING, spec=replace(RUNNING.spec, expire_after="1h"))
    observer.changed(None, old)
    observer.look(at(3600))
    gone = replace(old, metadata=replace(old.metadata, deletion_timestamp=at(3601)))
    observer.changed(old, gone)
    assert told(observer.look(at(3602))) == [("Disrupt", "begun", "Expired")]


def test_a_command_that_is_given_up_is_told_as_abandoned() -> None:
    observer = Observer(since=NOW)
    tainted = machine("general-x", "karpenter.sh/disrupted:NoSchedule")
    stories(observer, GOING)
    stories(observer, tainted)
    observer.look(at(110))
    observer.changed(GOING, RUNNING)
    observer.changed(tainted, machine())
    assert told(observer.look(at(130))) == [
        ("Disrupt", "abandoned", "Underutilized"),
        ("Drain", "abandoned", "Disrupted"),
    ]


def test_the_taint_of_v1beta1_counts_and_a_foreign_node_does_not() -> None:
    observer = Observer(since=NOW)
    observer.changed(None, machine("old", "karpenter.sh/disruption=disrupting:NoSchedule"))
    foreign = node("other", pool="", taints=[taint("karpenter.sh/disrupted:NoSchedule")])
    stories(observer, foreign, None)
    (found,) = observer.look(at(5))
    assert found.draft.objects == ("Node/old.node",)
    assert found.draft.kind is Kind.DRAIN


def test_records_have_the_shape_that_others_rely_on() -> None:
    observer, log = Observer(since=NOW), DecisionLog()
    stories(observer, DELETED, None)
    lower = claim("odd", true("Launched", 1), true("DisruptionReason", 3, "not a word"))
    stories(observer, lower)
    observer.changed(None, event("FailedScheduling", POD, "no place", 3, type="Warning"))
    records = [log.add(each.at, each.draft) for each in observer.look(at(4))]

    assert len({each.id for each in records}) == len(records) > 5
    for each in records:
        VALIDATOR.validate(json.loads(encoded(each)))
    again, other = Observer(since=NOW), DecisionLog()
    stories(again, DELETED, None)
    ids = [other.add(each.at, each.draft).id for each in again.look(at(4))]
    assert set(ids) <= {each.id for each in records}


def _changes() -> list[Callable[[Observer], None]]:
    """What happens between two looks, each step on its own."""
    happened: list[tuple[Resource | None, ...]] = [
        (*LIFE, GOING, DELETED),
        (claim("general-y"), claim("general-y", true("Launched", 2)), None),
        (machine(), machine("general-x", "karpenter.sh/disrupted:NoSchedule"), None),
        *(
            (event("DisruptionTerminating", each, f"Disrupting {each.kind}: Empty", 160),)
            for each in (machine(), RUNNING)
        ),
        *(
            (event("SpotInterrupted", each, "Spot interruption warning", 150, type="Warning"),)
            for each in (machine(), RUNNING)
        ),
        *(
            (event("FailedDraining", machine(), f"{count} pods wait", 150 + count),)
            for count in range(3)
        ),
        (event("FailedScheduling", POD, "no place", 3, type="Warning"),),
    ]
    return [partial(_tell, each) for each in happened]


def _tell(versions: tuple[Resource | None, ...], observer: Observer) -> None:
    stories(observer, *versions)


CHANGES = _changes()


@given(st.permutations(CHANGES))
def test_the_order_of_arrival_changes_nothing(changes: list[Callable[[Observer], None]]) -> None:
    expected, other = Observer(since=NOW), Observer(since=NOW)
    for each in CHANGES:
        each(expected)
    for each in changes:
        each(other)

    found = other.look(at(200))
    assert found == expected.look(at(200))
    assert len({each.key for each in found}) == len(found)
    for each in changes:
        each(other)
    assert not other.look(at(210))
    assert {each.draft.outcome for each in found} >= {Outcome.BEGUN, Outcome.DONE}
