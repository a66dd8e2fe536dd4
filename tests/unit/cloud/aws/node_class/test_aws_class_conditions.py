"""The conditions of a node class, and what they add up to."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from helpers.aws_fakes import node_class
from karpenter.api.node_classes.ec2 import EC2NodeClass, SubnetStatus
from karpenter.clock import EPOCH
from karpenter.cloud.aws.node_class.conditions import (
    status_body,
    summed_up,
    with_condition,
    with_status,
)
from karpenter.model.conditions import FALSE, READY, TRUE, UNKNOWN, find

KINDS = ("SubnetsReady", "AMIsReady")


def having(**statuses: str) -> EC2NodeClass:
    found = node_class(generation=2)
    for kind, status in statuses.items():
        found = with_condition(found, kind, status, now=EPOCH)
    return found


def changed(found: EC2NodeClass) -> EC2NodeClass:
    """The same after an edit of its spec."""
    metadata = msgspec.structs.replace(found.metadata, generation=3)
    return msgspec.structs.replace(found, metadata=metadata)


@pytest.mark.parametrize(
    ("found", "status", "reason", "message"),
    [
        pytest.param(having(SubnetsReady=TRUE, AMIsReady=TRUE), TRUE, READY, "", id="all is well"),
        pytest.param(
            having(SubnetsReady=FALSE, AMIsReady=UNKNOWN),
            FALSE,
            "UnhealthyDependents",
            "SubnetsReady=False",
            id="one that is false decides",
        ),
        pytest.param(
            having(SubnetsReady=TRUE),
            UNKNOWN,
            "ReconcilingDependents",
            "AMIsReady=Unknown",
            id="one that was never set",
        ),
        pytest.param(
            changed(having(SubnetsReady=TRUE, AMIsReady=TRUE)),
            UNKNOWN,
            "ReconcilingDependents",
            "SubnetsReady=Unknown, AMIsReady=Unknown",
            id="AWS-31 what held before an edit does not count",
        ),
        pytest.param(
            changed(having(SubnetsReady=FALSE, AMIsReady=TRUE)),
            UNKNOWN,
            "ReconcilingDependents",
            "SubnetsReady=Unknown, AMIsReady=Unknown",
            id="nor does what did not hold",
        ),
    ],
)
def test_ready_is_the_sum(found: EC2NodeClass, status: str, reason: str, message: str) -> None:
    ready = find(summed_up(found, KINDS, now=EPOCH).status.conditions, READY)

    assert ready is not None
    assert (status, reason, message) == (ready.status, ready.reason, ready.message)
    assert found.metadata.generation == ready.observed_generation


def test_ready_is_listed_last() -> None:
    found = summed_up(having(SubnetsReady=TRUE), KINDS, now=EPOCH)
    again = with_condition(found, "AMIsReady", TRUE, now=EPOCH)

    expected = ["AMIsReady", "SubnetsReady", "Ready"]
    assert expected == [each.type for each in found.status.conditions]
    assert expected == [each.type for each in again.status.conditions]


def test_a_date_moves_only_with_the_status() -> None:
    later = EPOCH + timedelta(hours=1)
    found = having(SubnetsReady=FALSE)
    same = with_condition(found, "SubnetsReady", FALSE, "Other", now=later)
    other = with_condition(found, "SubnetsReady", TRUE, now=later)

    moments: list[Any] = [
        getattr(find(each.status.conditions, "SubnetsReady"), "last_transition_time", None)
        for each in (same, other)
    ]
    assert [EPOCH, later] == moments


def test_a_condition_that_stays_the_same_is_no_change() -> None:
    found = having(SubnetsReady=TRUE)

    assert with_condition(found, "SubnetsReady", TRUE, now=EPOCH) is found


def test_only_what_changed_is_written_and_what_is_empty_is_removed() -> None:
    before = with_status(
        having(SubnetsReady=TRUE), subnets=(SubnetStatus(id="subnet-1"),), instance_profile="one"
    )
    after = with_status(before, subnets=(), instance_profile="two")

    assert {"subnets": None, "instanceProfile": "two"} == status_body(before, after)
    assert {} == status_body(before, before)
