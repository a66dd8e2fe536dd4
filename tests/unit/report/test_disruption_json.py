"""The ``disruption`` part of a plan keeps its contract: every field, every reason, every node."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any, Unpack

import jsonschema_rs
import pytest

from helpers.builders import READY, condition
from helpers.disruption import DisruptionInputs, planned
from helpers.disruption_objects import LONG_AGO, kind, machine, on_demand, pod_on, pool
from karpenter.cloud.provider import REBOOT_NODE, RepairPolicy
from karpenter.cloud.repair import RepairPolicies
from karpenter.disruption import commands
from karpenter.disruption.candidates import Why
from karpenter.disruption.commands import Decision
from karpenter.disruption.context import DisruptionSettings
from karpenter.report.disruption import disruption_document
from karpenter.report.provisioning import plan_schema
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
                commands.REBALANCE,
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


def document(
    *nodes: StateNode, with_repair: bool = False, **world: Unpack[DisruptionInputs]
) -> Any:
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


def test_what_a_replacement_saves_that_nobody_sells_is_unknown() -> None:
    sold_out = [kind("s4", 4, ways=[on_demand(0.4, available=False)])]
    drifted = machine("n1", claim_conditions=[condition("Drifted")])

    made = document(drifted, pools=[pool(replicas=1)], types=sold_out)

    (command,) = made["commands"]
    assert [None] == [claim["launch"] for claim in command["replacements"]]
    assert command["savingsHourly"] is None


def test_an_estimate_of_a_part_is_no_mark_of_what_nobody_knows() -> None:
    guessed = replace(on_demand(0.4), is_estimate=True)

    made = document(machine("n1"), machine("n2", zone="z9"), types=[kind("s4", 4, ways=[guessed])])

    (command,) = made["commands"]
    assert command["savingsHourly"] is None
    assert "isEstimate" not in command


def test_a_restart_saves_nothing_whatever_the_node_costs() -> None:
    hung, soon = condition("BadNode", reason="Hung", at=LONG_AGO), timedelta(minutes=30)
    restart = RepairPolicy("BadNode", "True", soon, "Hung", action=REBOOT_NODE)
    policies = RepairPolicies([restart, RepairPolicy("BadNode", "True", soon)])

    made = document(
        machine("n1", pod_on("a"), zone="z9", node_conditions=[READY, hung]),
        *(machine(f"well-{n}", pod_on(f"w-{n}", cpu="4")) for n in range(9)),
        policies=policies,
        settings=DisruptionSettings(repair=True),
    )

    assert ("reboot", 0.0) == tuple(made["commands"][0][k] for k in ("decision", "savingsHourly"))


def test_budgets_are_what_is_left_for_each_reason() -> None:
    world: DisruptionInputs = {"pools": [pool(budgets=["1"])]}

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
