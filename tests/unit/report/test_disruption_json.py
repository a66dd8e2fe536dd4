"""The ``disruption`` part of a plan keeps its contract: every field, every reason, every node."""

import json
from typing import Any, Unpack

import jsonschema_rs
import pytest

from disrupting import World, machine, planned, pod_on, pool
from karpenter.disruption import commands
from karpenter.disruption.candidates import Why
from karpenter.disruption.commands import Decision
from karpenter.report.disruption import disruption_document
from karpenter.report.schema import plan_schema
from karpenter.state.nodes import StateNode

SCHEMA = json.loads(plan_schema())
PARTS = SCHEMA["$defs"]["disruption"]["properties"]
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize(
    ("listed", "there_are"),
    [
        pytest.param(
            PARTS["blocked"]["items"]["properties"]["reason"]["enum"],
            [why.value for why in Why],
            id="reasons of nodes that stay",
        ),
        pytest.param(
            PARTS["commands"]["items"]["properties"]["decision"]["enum"],
            [decision.value for decision in Decision],
            id="decisions",
        ),
        pytest.param(
            PARTS["commands"]["items"]["properties"]["method"]["enum"],
            [
                commands.EMPTY,
                commands.STATIC_DRIFT,
                commands.DRIFT,
                commands.MULTI,
                commands.SINGLE,
                commands.EXPIRATION,
                commands.REPAIR,
                commands.STATIC,
            ],
            id="methods",
        ),
    ],
)
def test_the_schema_lists_exactly_what_there_is(listed: list[str], there_are: list[str]) -> None:
    assert sorted(there_are) == sorted(listed)


def document(*nodes: StateNode, with_repair: bool = False, **world: Unpack[World]) -> Any:
    """A plan as data, held against the schema."""
    made = disruption_document(planned(*nodes, **world), with_repair=with_repair)
    VALIDATOR.validate({"disruption": made})
    return json.loads(json.dumps(made, allow_nan=False))


def test_every_node_is_in_exactly_one_place() -> None:
    made = document(
        machine("n1"), machine("n2", pod_on("a", cpu="1")), machine("n3", pod_on("b", cpu="30"))
    )

    going = [name for command in made["commands"] for name in command["candidates"]]
    assert ["n1", "n2", "n3"] == sorted([*going, *(each["node"] for each in made["blocked"])])


def test_a_replacement_is_written_as_a_claim_that_would_be_created() -> None:
    made = document(machine("n1", pod_on("a", cpu="1"), instance_type="s32"))

    (command,) = made["commands"]
    (claim,) = command["replacements"]
    assert ("replace", "Underutilized") == (command["decision"], command["reason"])
    assert ["default/a"] == claim["pods"]
    assert claim["launch"]["price"] < 3.2
    assert pytest.approx(3.2 - claim["launch"]["price"]) == command["savingsHourly"]


def test_budgets_are_what_is_left_for_each_reason() -> None:
    world: World = {"pools": [pool(budgets=["1"])]}

    usual = document(machine("n1"), machine("n2"), **world)["budgets"]
    with_repair = document(machine("n1"), with_repair=True, **world)["budgets"]

    assert {"np": {"Empty": 1, "Drifted": 1, "Underutilized": 1}} == usual
    assert {"np": {**usual["np"], "Unhealthy": 1}} == with_repair


def test_events_have_an_object_a_type_and_a_sentence() -> None:
    (event, *_) = document(machine("n1"), pools=[pool(budgets=["0"])])["events"]

    assert {
        "object": "NodePool/np",
        "type": "Normal",
        "reason": "DisruptionBlocked",
        "message": "No allowed disruptions for disruption reason Empty due to blocking budget",
    } == event
