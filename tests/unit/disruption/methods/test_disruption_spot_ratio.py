"""Methods of disruption beside spot ratios: no move takes a pool or a workload further from its."""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from helpers.builders import NOW, condition, owner
from helpers.disruption import context_of, found_by, going, only
from helpers.disruption_objects import machine, pod_on, pods_on, pool
from karpenter.api.karpenter import NodePool
from karpenter.api.pods import Pod
from karpenter.disruption import commands
from karpenter.disruption.candidates import Candidate, Why
from karpenter.disruption.commands import Finding
from karpenter.disruption.simulation import Answer, Simulation
from karpenter.disruption.validation import validated
from karpenter.model import labels as keys
from karpenter.scheduling.spot.annotations import ON_DEMAND_BASE, SPOT_PERCENTAGE

SPOT: Final = keys.SPOT
DRIFTED: Final = (condition("Drifted", at=NOW),)


def with_ratio(percent: str = "50") -> NodePool:
    return pool(annotations={SPOT_PERCENTAGE: percent, ON_DEMAND_BASE: "0"})


def base_pod(name: str, annotations: Mapping[str, str] | None = None, cpu: str = "500m") -> Pod:
    held = {ON_DEMAND_BASE: "1", SPOT_PERCENTAGE: "100"} if annotations is None else annotations
    return pod_on(name, annotations=held, owners=[owner("ReplicaSet", "api")], cpu=cpu)


def why(finding: Finding) -> dict[str, Why]:
    return {name: verdict.why for name, verdict in finding.verdicts.items()}


def test_an_empty_node_stays_where_the_ratio_needs_it() -> None:
    machines = [machine("od"), machine("busy", *pods_on(7, "a"), capacity_type=SPOT)]

    finding = found_by(commands.EMPTY, *machines, pools=[with_ratio()])

    assert [] == going(finding)
    assert {"od": Why.SPOT_RATIO} == why(finding)
    assert not finding.is_constrained  # the next pass need not come early for it
    assert "3.9 of 3.9 cpu of NodePool np would be spot, and its ratio allows 50%" in (
        finding.verdicts["od"].detail
    )


def test_as_many_empty_nodes_go_as_the_ratio_allows() -> None:
    machines = [
        *(machine(f"od-{n}") for n in range(3)),
        machine("busy", *pods_on(7, "a"), capacity_type=SPOT),
    ]

    finding = found_by(commands.EMPTY, *machines, pools=[with_ratio()])

    assert ["od-0", "od-1"] == going(finding)
    assert {"od-2": Why.SPOT_RATIO} == why(finding)


def test_an_empty_spot_node_goes_from_a_pool_whose_ratio_is_broken() -> None:
    machines = [machine("spot", capacity_type=SPOT), machine("s", pod_on("a"), capacity_type=SPOT)]

    assert ["spot"] == going(found_by(commands.EMPTY, *machines, pools=[with_ratio("10")]))


def test_empty_nodes_are_looked_at_again_before_they_go() -> None:
    busy = machine("busy", *pods_on(7, "a"), capacity_type=SPOT)
    command = only(
        found_by(commands.EMPTY, machine("od-0"), machine("od-1"), busy, pools=[with_ratio()])
    )

    result = validated(command, context_of(machine("od-0"), busy, pools=[with_ratio()]))

    assert ["od-0"] == list(command.names)
    assert result.command is None
    assert "its ratio allows 50%" in result.detail


def test_drift_leaves_the_share_of_a_pool_as_it_is() -> None:
    drifted = machine("od", pod_on("a"), claim_conditions=DRIFTED)
    room = machine("spot", capacity_type=SPOT, claim_annotations={})

    finding = found_by(commands.DRIFT, drifted, room, pools=[with_ratio()])

    assert {"od": Why.SPOT_RATIO} == why(finding)


def test_drift_replaces_spot_beyond_the_ratio_by_on_demand() -> None:
    drifted = machine("spot", pod_on("a"), capacity_type=SPOT, claim_conditions=DRIFTED)

    command = only(found_by(commands.DRIFT, drifted, pools=[with_ratio("0")]))

    (replacement,) = command.replacements
    assert not replacement.requirements[keys.CAPACITY_TYPE].has(SPOT)


@pytest.mark.parametrize("method", [commands.SINGLE, commands.MULTI])
def test_consolidation_does_not_take_a_pool_beyond_its_ratio(method: str) -> None:
    crowd = [
        machine("od-0", pod_on("a", cpu="1")),
        machine("od-1", pod_on("b", cpu="1")),
        machine("spot", *pods_on(1, "c", cpu="3"), capacity_type=SPOT, instance_type="s8"),
    ]

    assert going(found_by(method, *crowd))  # without a ratio
    finding = found_by(method, *crowd, pools=[with_ratio("50")])

    assert [] == going(finding)
    if method == commands.SINGLE:
        assert {Why.SPOT_RATIO} == set(why(finding).values()) - {Why.UNCONSOLIDATABLE}


@pytest.mark.case("OPT-56")
def test_a_base_pod_is_not_moved_to_spot() -> None:
    od = machine("od", base_pod("base"), instance_type="s1")
    room = machine("spot", pod_on("a", cpu="2500m"), capacity_type=SPOT)

    finding = found_by(commands.SINGLE, od, room)

    assert Why.SPOT_RATIO is why(finding)["od"]
    assert "the workload of default/base" in finding.verdicts["od"].detail
    free = machine("od", base_pod("base", {}), instance_type="s1")
    assert ["od"] == going(found_by(commands.SINGLE, free, room))


def test_a_base_pod_moves_to_a_node_that_is_not_spot() -> None:
    od = machine("od", base_pod("base"))
    room = machine("other", pod_on("a"))

    assert 1 == len(going(found_by(commands.SINGLE, od, room)))


def test_a_pod_beyond_what_the_workload_needs_may_move_to_spot() -> None:
    od = machine("od", base_pod("young"))
    other = machine("other", base_pod("base", cpu="3500m"))
    room = machine("spot", pod_on("a"), capacity_type=SPOT)

    assert ["young"] == [
        pod.removeprefix("default/")
        for pods in only(found_by(commands.SINGLE, od, other, room)).placements.values()
        for pod in pods
    ]


def test_a_broken_ratio_blocks_no_move_that_leaves_it_as_it_is() -> None:
    dear = machine("dear", pod_on("a"), capacity_type=SPOT, instance_type="s16")
    room = machine("room", pod_on("b"), capacity_type=SPOT)

    assert ["dear"] == going(found_by(commands.SINGLE, dear, room, pools=[with_ratio("0")]))


def test_without_ratios_nothing_is_simulated_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    simulate = Simulation.consolidating

    def counted(self: Simulation, candidates: Sequence[Candidate]) -> Answer:
        asked.append(True)
        return simulate(self, candidates)

    monkeypatch.setattr(Simulation, "consolidating", counted)

    found_by(commands.SINGLE, machine("od", *pods_on(7, "a")))

    assert 1 == len(asked)
