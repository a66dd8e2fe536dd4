"""Decision records: their shape, their ids, and how many are kept."""

import json
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from structlog.testing import capture_logs

from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import ObjectMeta
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import (
    LONGEST_LINE,
    LONGEST_TEXT,
    DecisionRecord,
    Draft,
    Kind,
    Outcome,
    Severity,
    Source,
    decoded,
    encoded,
    recorded,
)
from karpenter.decision_log.warning_events import seen_event
from karpenter.kube.events import NORMAL, WARNING, Event
from karpenter.model import labels
from karpenter.telemetry import recording_logger

AT = datetime(2026, 11, 16, 20, 15, 9, 120_999, tzinfo=UTC)
SCHEMA = json.loads(
    resources.files("karpenter.report").joinpath("decision.schema.json").read_text("utf-8")
)
VALIDATOR = Draft202012Validator(SCHEMA)


def draft(number: int = 0, **changes: Any) -> Draft:
    values: dict[str, Any] = {
        "kind": Kind.DISRUPT,
        "outcome": Outcome.BEGUN,
        "reason": "Underutilized",
        "text": f"decision {number}",
    }
    return Draft(**(values | changes))


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
drafts = st.builds(
    Draft,
    kind=st.sampled_from(Kind),
    outcome=st.sampled_from(Outcome),
    reason=st.sampled_from(("Underutilized", "Drifted")),
    text=names,
    objects=st.lists(names.map(lambda name: f"Node/a{name}".replace("\n", " ")), max_size=3).map(
        tuple
    ),
    node_pools=st.lists(names, max_size=2).map(tuple),
    pods=st.integers(0, 10**6),
    savings_hourly=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    is_estimate=st.booleans(),
    command=st.sampled_from(("", "0b1c")),
    detail=st.dictionaries(names, st.integers() | names, max_size=3),
)


@given(drafts)
def test_a_record_is_valid_by_its_schema_and_read_back_as_it_was(made: Draft) -> None:
    record = recorded(made, "7f3c-1", AT)
    line = encoded(record)

    VALIDATOR.validate(json.loads(line))
    assert record == decoded(line)
    assert b"\n" not in line


def test_a_record_has_the_fields_that_the_specification_names() -> None:
    made = draft(
        text="general-light goes: 1 pod fits on general-full, saves $0.1086/h",
        objects=("Node/general-light", "NodeClaim/general-light"),
        node_pools=("general",),
        pods=1,
        savings_hourly=0.1086,
        command="0b1c",
    )

    assert {
        "id": "7f3c-812",
        "at": "2026-11-16T20:15:09.120Z",
        "kind": "Disrupt",
        "source": "controller",
        "reason": "Underutilized",
        "severity": "info",
        "outcome": "begun",
        "text": "general-light goes: 1 pod fits on general-full, saves $0.1086/h",
        "objects": ["Node/general-light", "NodeClaim/general-light"],
        "nodePools": ["general"],
        "pods": 1,
        "savingsHourly": 0.1086,
        "isEstimate": False,
        "command": "0b1c",
        "detail": {},
    } == json.loads(encoded(recorded(made, "7f3c-812", AT)))


def test_schema_and_enumerations_agree() -> None:
    for field, values in (
        ("kind", Kind),
        ("outcome", Outcome),
        ("severity", Severity),
        ("source", Source),
    ):
        assert [each.value for each in values] == SCHEMA["properties"][field]["enum"]


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({}, "info"),
        ({"kind": Kind.INTERRUPT}, "warning"),
        ({"kind": Kind.LIMIT}, "warning"),
        ({"kind": Kind.REPAIR, "outcome": Outcome.DONE}, "warning"),
        ({"kind": Kind.CONFIG, "outcome": Outcome.FAILED}, "info"),
        ({"outcome": Outcome.FAILED, "command": "0b1c"}, "warning"),
        ({"kind": Kind.INTERRUPT, "severity": Severity.INFO}, "info"),
    ],
)
def test_severity(changes: dict[str, Any], severity: str) -> None:
    assert severity == recorded(draft(**changes), "1", AT).severity


def test_one_call_writes_the_line_and_the_record() -> None:
    log, lines = recording_logger()
    decisions = DecisionLog(epoch="7f3c")

    decisions.decide(AT, log.info, "launched nodeclaim", draft(1), zone="a")

    assert [{"level": "info", "message": "launched nodeclaim", "zone": "a"}] == lines
    assert [("7f3c-1", "decision 1")] == [(each.id, each.text) for each in decisions.newest()]


def test_a_line_below_the_level_of_the_log_has_a_record_all_the_same() -> None:
    log, lines = recording_logger("info")
    decisions = DecisionLog()

    decisions.decide(AT, log.debug, "command succeeded", draft())

    assert ([], 1) == (lines, len(decisions))


def test_the_newest_records_are_kept_by_number() -> None:
    decisions = DecisionLog(most=3)
    for number in range(5):
        decisions.add(AT, draft(number))

    assert ["decision 4", "decision 3", "decision 2"] == [each.text for each in decisions.newest()]


def test_the_newest_records_are_kept_by_size() -> None:
    decisions = DecisionLog(most_bytes=4000)
    for number in range(50):
        decisions.add(AT, draft(number))

    kept = list(decisions.newest())
    assert "decision 49" == kept[0].text
    assert len(kept) < 20
    assert decisions.size == sum(len(encoded(each)) for each in kept) <= 4000


def test_by_default_20_000_records_or_32_mib_are_kept() -> None:
    decisions = DecisionLog()
    for number in range(20_001):
        decisions.add(AT, draft(number))
    assert 20_000 == len(decisions)

    for number in range(2_000):
        decisions.add(AT, draft(number, detail={"text": "x" * (LONGEST_LINE - 1000)}))
    assert len(decisions) < 20_000
    assert decisions.size <= 32 * 1024 * 1024


def test_detail_that_is_too_large_is_omitted_and_its_size_told() -> None:
    record = recorded(draft(detail={"names": ["x" * 100] * 1000}), "1", AT)

    kept = decoded(encoded(record))

    assert ["omittedBytes"] == list(kept.detail)
    assert len(encoded(record)) < LONGEST_LINE


def test_text_is_cut() -> None:
    text = recorded(draft(text="x" * 10_000), "1", AT).text

    assert LONGEST_TEXT == len(text)
    assert text.endswith("…")


def test_ids_of_two_processes_differ() -> None:
    one, two = DecisionLog().add(AT, draft()), DecisionLog().add(AT, draft())

    assert one.id != two.id


def test_a_decision_with_an_identity_has_one_id_in_every_process() -> None:
    made = draft(identity=("uid-of-a-claim",))
    one, two = DecisionLog(), DecisionLog()

    assert one.add(AT, made).id == two.add(AT, made).id


def test_a_decision_that_a_process_makes_again_is_another_one() -> None:
    made = draft(identity=("uid-of-a-claim",))
    decisions = DecisionLog()

    assert decisions.add(AT, made).id != decisions.add(AT, made).id


def test_decisions_about_one_object_for_two_reasons_have_two_ids() -> None:
    decisions = DecisionLog()
    spot = draft(identity=("uid",), reason="SpotInterrupted")
    stopped = draft(identity=("uid",), reason="InstanceStopping")

    assert decisions.add(AT, spot).id != decisions.add(AT, stopped).id


def test_a_follower_is_told_of_records_until_it_ends() -> None:
    decisions, told = DecisionLog(), list[DecisionRecord]()
    end = decisions.follow(lambda record, line: told.append(record))

    decisions.add(AT, draft(1))
    end()
    decisions.add(AT, draft(2))

    assert ["decision 1"] == [record.text for record in told]


def test_a_follower_that_fails_stops_neither_the_decision_nor_other_followers() -> None:
    decisions, told = DecisionLog(), list[bytes]()

    def failing(record: DecisionRecord, line: bytes) -> None:
        raise RuntimeError("no")

    decisions.follow(failing)
    decisions.follow(lambda record, line: told.append(line))
    with capture_logs() as lines:
        decisions.add(AT, draft())

    assert (1, 1) == (len(decisions), len(told))
    assert ["decision not passed on"] == [line["event"] for line in lines]


def test_claims_of_a_command() -> None:
    decisions = DecisionLog()
    decisions.tie("0b1c", ("one", "two"))
    decisions.untie(("two",))

    assert ["0b1c", "", ""] == [decisions.command_of(uid) for uid in ("one", "two", "three")]


def claim_event(reason: str, kind: str = WARNING) -> Event:
    metadata = ObjectMeta(name="a", uid="1", labels={labels.NODEPOOL: "general"})
    return Event(NodeClaim(metadata=metadata), kind, reason, "it is so")


def test_a_warning_event_is_something_seen() -> None:
    made = seen_event(claim_event("UnregisteredTaintMissing"))

    assert made is not None
    record = recorded(made, "1", AT)
    assert (Source.OBSERVED, Kind.REGISTER, "seen: it is so") == (
        record.source,
        record.kind,
        record.text,
    )
    assert (("NodeClaim/a",), ("general",)) == (record.objects, record.node_pools)
    assert record.savings_hourly is None


@pytest.mark.parametrize(
    "event",
    [claim_event("Registered", NORMAL), claim_event("FailedScheduling")],
    ids=["normal", "of a decision, which has a record"],
)
def test_other_events_make_no_record(event: Event) -> None:
    assert seen_event(event) is None
