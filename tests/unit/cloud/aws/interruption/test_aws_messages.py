"""Messages of the interruption queue are read by kind; what is unknown does no harm."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from karpenter.cloud.aws.interruption.messages import Message, MessageError, parse

TIME = datetime(2030, 1, 1, tzinfo=UTC)


def body(source: str, detail_type: str, detail: Any, version: str = "0") -> str:
    return json.dumps(
        {
            "version": version,
            "id": "1",
            "source": source,
            "detail-type": detail_type,
            "time": "2030-01-01T00:00:00Z",
            "detail": detail,
        }
    )


def ec2(detail_type: str, **detail: Any) -> str:
    return body("aws.ec2", detail_type, {"instance-id": "i-1", **detail})


def state(name: str) -> str:
    return ec2("EC2 Instance State-change Notification", state=name)


def health(service: str, category: str, *ids: str) -> str:
    detail = {
        "service": service,
        "eventTypeCategory": category,
        "affectedEntities": [{"entityValue": each} for each in ids],
    }
    return body("aws.health", "AWS Health Event", detail)


@pytest.mark.parametrize(
    ("text", "kind", "ids"),
    [
        pytest.param(
            ec2("EC2 Spot Instance Interruption Warning"),
            "spot_interrupted",
            ("i-1",),
            id="AWS-120 spot warning",
        ),
        pytest.param(
            ec2("EC2 Instance Rebalance Recommendation"),
            "rebalance_recommendation",
            ("i-1",),
            id="AWS-121 rebalance",
        ),
        pytest.param(
            health("EC2", "scheduledChange", "i-1", "i-2"),
            "scheduled_change",
            ("i-1", "i-2"),
            id="AWS-122 health event with two instances",
        ),
        pytest.param(
            health("EC2", "issue", "i-1"), "no_op", (), id="AWS-122 health event of an issue"
        ),
        pytest.param(
            health("RDS", "scheduledChange", "db"), "no_op", (), id="health of something else"
        ),
        pytest.param(state("running"), "no_op", (), id="AWS-123 running"),
        pytest.param(state("stopping"), "instance_stopped", ("i-1",), id="stopping"),
        pytest.param(state("stopped"), "instance_stopped", ("i-1",), id="stopped"),
        pytest.param(state("shutting-down"), "instance_terminated", ("i-1",), id="shutting down"),
        pytest.param(state("terminated"), "instance_terminated", ("i-1",), id="terminated"),
        pytest.param(
            state("Stopped"), "instance_terminated", ("i-1",), id="odd case is taken for the worst"
        ),
        pytest.param(
            ec2("EC2 Capacity Reservation Instance Interruption Warning"),
            "capacity_reservation_interrupted",
            ("i-1",),
            id="AWS-129 reservation",
        ),
        pytest.param(ec2("Something New"), "no_op", (), id="unknown detail-type"),
        pytest.param(
            body("aws.ec2", "EC2 Spot Instance Interruption Warning", {}, version="1"),
            "no_op",
            (),
            id="another version",
        ),
        pytest.param(
            body("aws.ec2", "EC2 Spot Instance Interruption Warning", {"instance-id": 7}),
            "no_op",
            (),
            id="an id that is none",
        ),
    ],
)
def test_kinds(text: str, kind: str, ids: tuple[str, ...]) -> None:
    message = parse(text)

    assert Message(kind, ids, TIME) == message


def test_an_empty_body_is_no_news() -> None:
    assert Message("no_op") == parse(" \n")


@pytest.mark.case("AWS-124")
@pytest.mark.parametrize("text", ["nonsense", "[]", '"text"', '{"time": "yesterday"}', "{"])
def test_text_that_is_no_event_is_an_error(text: str) -> None:
    with pytest.raises(MessageError):
        parse(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(["aws.ec2", "aws.health", "other"]),
    st.sampled_from(
        [
            "EC2 Spot Instance Interruption Warning",
            "EC2 Instance State-change Notification",
            "AWS Health Event",
        ]
    ),
    st.dictionaries(
        st.sampled_from(
            ["instance-id", "state", "service", "eventTypeCategory", "affectedEntities"]
        ),
        json_values,
    ),
)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # of a busy machine
def test_whatever_the_detail_is_reading_it_ends_well(
    source: str, detail_type: str, detail: dict[str, Any]
) -> None:
    message = parse(body(source, detail_type, detail))

    assert all(isinstance(each, str) and each for each in message.instance_ids)
