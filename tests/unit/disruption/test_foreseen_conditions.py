"""The conditions that a plan works out for claims that nobody has looked at yet."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from helpers.builders import NOW, condition
from helpers.disruption import catalogue_of, snapshot
from helpers.disruption_objects import LONG_AGO, TYPES, machine, pool
from karpenter.api.karpenter import NodePool
from karpenter.cloud.types import InstanceType
from karpenter.disruption.forecast import with_conditions
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

UNMARKED: Final = ("Consolidatable",)
ANOTHER: Final = {keys.NODEPOOL_HASH: "2", keys.NODEPOOL_HASH_VERSION: "v3"}
MADE_BEFORE: Final = {keys.NODEPOOL_HASH: "1", keys.NODEPOOL_HASH_VERSION: "v3"}


def foreseen(
    found: StateNode, wanted: NodePool | None = None, types: Sequence[InstanceType] = TYPES
) -> dict[str, tuple[str, str]]:
    """The status and reason of each condition that was added or was there."""
    before = snapshot(found, pools=[wanted or pool()])
    (after,) = with_conditions(before, catalogue_of({"types": types}), now=NOW).nodes
    assert after.node_claim is not None
    return {each.type: (each.status, each.reason) for each in after.node_claim.status.conditions}


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        pytest.param(
            machine("n1", without=UNMARKED), pool(), ("True", "Consolidatable"), id="at once"
        ),
        pytest.param(
            machine("n1", without=UNMARKED, last_pod_event=NOW),
            pool(after="30s"),
            None,
            id="DIS-162",
        ),
        pytest.param(machine("n1", without=UNMARKED), pool(after="Never"), None, id="DIS-161"),
        pytest.param(machine("n1", without=UNMARKED), pool(replicas=1), None, id="DIS-261"),
        pytest.param(
            machine("n1", without=UNMARKED, initialized=False), pool(), None, id="not initialized"
        ),
        pytest.param(
            machine("n1", without=UNMARKED, pool="gone"), pool(), None, id="DIS-105 no pool to ask"
        ),
        pytest.param(
            machine("n1", claim_conditions=[condition("Consolidatable", "False")]),
            pool(),
            ("False", ""),
            id="what stands counts as it stands",
        ),
    ],
)
def test_consolidatable(
    found: StateNode, wanted: NodePool, expected: tuple[str, str] | None
) -> None:
    assert expected == foreseen(found, wanted).get("Consolidatable")


@pytest.mark.parametrize(
    ("found", "types", "expected"),
    [
        pytest.param(
            machine("n1", claim_annotations=MADE_BEFORE), TYPES, "NodePoolDrifted", id="DIS-233"
        ),
        pytest.param(machine("n1", claim_annotations=ANOTHER), TYPES, "", id="no drift"),
        pytest.param(
            machine(
                "n1",
                claim_annotations=MADE_BEFORE,
                claim_conditions=[condition("Launched", "Unknown")],
            ),
            TYPES,
            "",
            id="DIS-247 what has not launched has not drifted",
        ),
        pytest.param(
            machine("n1", claim_annotations=MADE_BEFORE, without=["Launched"]),
            TYPES,
            "NodePoolDrifted",
            id="a claim with a machine has launched, said or not",
        ),
        pytest.param(
            machine("n1", instance_type="gone"),
            TYPES,
            "InstanceTypeNotFound",
            id="DIS-242 sold no more",
        ),
        pytest.param(
            machine("n1", instance_type="gone"), (), "", id="without a catalogue nobody can tell"
        ),
    ],
)
def test_drifted(found: StateNode, types: Sequence[InstanceType], expected: str) -> None:
    known = foreseen(found, pool(annotations=ANOTHER), types)

    assert (("True", expected) if expected else None) == known.get("Drifted")


def test_what_is_worked_out_is_of_now_and_comes_beside_what_stands() -> None:
    found = machine("n1", without=UNMARKED, last_pod_event=NOW - timedelta(hours=1))

    (after,) = with_conditions(snapshot(found), catalogue_of({}), now=NOW).nodes

    assert after.node_claim is not None
    assert {
        "Launched": LONG_AGO,
        "Registered": LONG_AGO,
        "Initialized": LONG_AGO,
        "Consolidatable": NOW,
    } == {each.type: each.last_transition_time for each in after.node_claim.status.conditions}


def test_a_machine_without_a_claim_has_no_conditions_to_work_out() -> None:
    found = replace(machine("n1"), node_claim=None)

    assert (found,) == with_conditions(snapshot(found), catalogue_of({}), now=NOW).nodes
