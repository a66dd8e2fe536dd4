"""Narrow cases of what may take the place of machines, and of where their pods may go."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from helpers.builders import NOW, READY, condition, reserved, unmanaged_node
from helpers.disruption import catalogue_of, context_of, found_by, going
from helpers.disruption_objects import (
    LONG_AGO,
    OD_POOL,
    ON_DEMAND_ONLY,
    kind,
    machine,
    on_demand,
    pod_on,
    pods_on,
    pool,
    reserved_on,
    spot,
)
from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.api.pods import PersistentVolumeClaimVolumeSource, Pod, Volume
from karpenter.api.storage import PersistentVolumeClaim, PersistentVolumeClaimSpec
from karpenter.cloud.provider import RepairPolicy
from karpenter.cloud.repair import RepairPolicies
from karpenter.disruption.commands import Finding
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.disruption.methods.replacements import Refused
from karpenter.disruption.plan import METHODS, Search
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

SPOT_TO_SPOT: Final = DisruptionSettings(spot_to_spot=True)
DRIFTED: Final = condition("Drifted", at=LONG_AGO)
BAD: Final = condition("BadNode", at=LONG_AGO)
POLICIES: Final = RepairPolicies([RepairPolicy("BadNode", "True", timedelta(0))])
FIRST: Final = DisruptionSettings(
    repair=True, terminate_first_drift=True, terminate_first_repair=True
)


@pytest.mark.case("DIS-180")
def test_a_type_that_is_dear_in_one_zone_may_be_the_only_one() -> None:
    types = [
        kind("now", 4, ways=[on_demand(1.0)]),
        kind("uneven", 4, ways=[on_demand(0.5), on_demand(2.0, "z2")]),
    ]
    nodes = machine("n1", pod_on("p", cpu="3"), instance_type="now", types=types)

    found = found_by("single", nodes, types=types, pools=[OD_POOL])

    assert [] == going(found)
    assert (
        "the cheapest replacement is uneven (on-demand, z1) at $0.5/h,"
        " but not in every zone it is sure to cost less than $1/h"
    ) == found.verdicts["n1"].detail


@pytest.mark.case("DIS-205")
def test_of_two_machines_of_a_type_the_cheaper_could_have_stayed() -> None:
    types = [
        kind("big", 8, ways=[on_demand(1.0, "z1"), on_demand(3.0, "z2")]),
        kind("mid", 8, ways=[on_demand(2.0, "z1"), on_demand(2.0, "z2")]),
    ]
    nodes = [
        machine(f"n{zone}", pod_on(f"p{zone}"), instance_type="big", zone=zone, types=types)
        for zone in ("z1", "z2")
    ]
    consolidation = Search(context_of(*nodes, types=types, pools=[OD_POOL])).consolidation

    together = consolidation.command("multi", consolidation.candidates)

    assert isinstance(together, Refused)
    assert together.detail.endswith("big (on-demand, z1) at $1/h, not below $1/h")


@pytest.mark.parametrize(
    ("ways", "detail"),
    [
        pytest.param(
            [spot(0.4, available=False), on_demand(0.1)],
            "no instance type that fits has spot capacity",
            id="DIS-195 spot is sold out",
        ),
        pytest.param(
            [spot(0.4), on_demand(1.0)],
            "the cheapest replacement is s4 (spot, z1) at $0.4/h, not below $0.4/h",
            id="DIS-178 spot costs the same",
        ),
        pytest.param(
            [spot(0.00001), on_demand(1.0)],
            "the cheapest replacement is s4 (spot, z1) at $0.00001/h, not below $0.00001/h",
            id="DIS-178 a price of next to nothing is written out",
        ),
    ],
)
def test_when_spot_does_not_replace_spot(ways: list[Any], detail: str) -> None:
    types = [kind("s4", 4, ways=ways)]
    nodes = machine("n1", pod_on("p"), capacity_type=keys.SPOT, types=types)

    found = found_by("single", nodes, types=types, settings=SPOT_TO_SPOT)

    assert ([], detail) == (going(found), found.verdicts["n1"].detail)


@pytest.mark.parametrize(
    ("wanted", "moves"),
    [
        pytest.param(
            pool("to", requirements=ON_DEMAND_ONLY, after="1h"),
            False,
            id="DIS-187 within the window of its pool",
        ),
        pytest.param(
            pool("to", requirements=ON_DEMAND_ONLY, after="0s"),
            True,
            id="DIS-188 a pool without a window",
        ),
        pytest.param(
            pool("to", requirements=ON_DEMAND_ONLY, after="Never"),
            True,
            id="DIS-188 a pool that never consolidates",
        ),
        pytest.param(
            pool("to", requirements=ON_DEMAND_ONLY, after="1h", replicas=1),
            True,
            id="DIS-187 a static pool",
        ),
        pytest.param(
            pool("to", requirements=ON_DEMAND_ONLY, after="1h", conditions=[]),
            True,
            id="DIS-187 a pool not ready",
        ),
        pytest.param(
            pool(
                "to",
                requirements=ON_DEMAND_ONLY,
                after="1h",
                conditions=[condition("Ready", "False"), condition("Other")],
            ),
            True,
            id="DIS-187 one that says it is not ready",
        ),
        pytest.param(pool("gone", after="1h"), True, id="DIS-187 a pool that is gone"),
    ],
)
def test_whether_a_machine_that_changed_just_now_takes_running_pods(
    wanted: NodePool, moves: bool
) -> None:
    source = machine("from", pod_on("p"))
    target = machine("to", *pods_on(2, "q"), pool="to", last_pod_event=NOW)

    found = found_by("single", source, target, pools=[OD_POOL, wanted], types=[kind("s4", 4)])

    assert moves == ("from" in going(found))


@pytest.mark.case("DIS-187")
def test_a_node_without_a_claim_has_no_window() -> None:
    target = replace(machine("to", *pods_on(2, "q"), last_pod_event=NOW), node_claim=None)
    slow = pool(after="1h", requirements=ON_DEMAND_ONLY)

    found = found_by("single", machine("from", pod_on("p")), target, pools=[slow])

    assert ["from"] == going(found)


LOST: Final = PersistentVolumeClaim(
    metadata=ObjectMeta(name="lost", namespace="default"),
    spec=PersistentVolumeClaimSpec(volume_name="nowhere"),
)


def without_its_volume(each: Pod) -> Pod:
    """A pod whose claim names a volume that does not exist, so that it fits nowhere."""
    data = Volume("data", PersistentVolumeClaimVolumeSource(claim_name="lost"))
    return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, volumes=(data,)))


def found_without_a_volume(method: str, *nodes: StateNode, **world: Any) -> Finding:
    view = context_of(*nodes, unmanaged_node("other"), **world)
    cluster = replace(view.snapshot, pvcs={"default/lost": LOST})
    return METHODS[method](
        Search(DisruptionContext(cluster, catalogue_of({}), view.facts, view.settings, now=NOW))
    )


@pytest.mark.case("DIS-173")
@pytest.mark.parametrize("method", ["single", "drift"])
def test_a_pod_whose_volume_is_lost_keeps_its_machine(method: str) -> None:
    nodes = [
        machine("a", without_its_volume(pod_on("p")), claim_conditions=[DRIFTED]),
        machine("b", *pods_on(2, "q"), claim_conditions=[DRIFTED]),
    ]

    found = found_without_a_volume(method, *nodes)

    assert ["b"] == going(found)
    assert "no place for default/p" == found.verdicts["a"].detail


@pytest.mark.parametrize("method", ["single", "drift"])
def test_a_pod_of_a_machine_on_its_way_out_whose_volume_is_lost_holds_up_everybody(
    method: str,
) -> None:
    leaving = machine("a", without_its_volume(pod_on("p")), deleted=NOW)
    nodes = machine("b", pod_on("q"), claim_conditions=[DRIFTED])

    found = found_without_a_volume(method, leaving, nodes)

    assert ([], "no place for default/p") == (going(found), found.verdicts["b"].detail)


@pytest.mark.case("DIS-174")
def test_a_waiting_pod_whose_volume_is_lost_holds_up_nobody() -> None:
    waits = without_its_volume(pod_on("p", node_name=""))

    assert ["b"] == going(found_without_a_volume("single", machine("b", pod_on("q")), pods=[waits]))


@pytest.mark.case("V15-D38")
@pytest.mark.parametrize(
    ("method", "said"),
    [
        pytest.param("drift", {"claim_conditions": [DRIFTED]}, id="drift"),
        pytest.param("repair", {"node_conditions": [READY, BAD]}, id="repair"),
    ],
)
def test_a_slot_that_is_given_back_must_be_enough_for_all_who_could_use_it(
    method: str, said: dict[str, list[Condition]]
) -> None:
    """One pod insists on the reservation; the other would make do with on-demand, but may not."""
    types = [kind("s4", 4, ways=[on_demand(1.0)], reservations=[reserved("r-1", 0)])]
    picky = pod_on("a", cpu="3", node_selector={keys.CAPACITY_TYPE: keys.RESERVED})
    shared = _reserved("n1", picky, pod_on("b", cpu="3"), said)
    alone = _reserved("n1", picky, None, said)

    decisions = [
        [
            command.decision
            for command in found_by(
                method, each, types=types, settings=FIRST, policies=POLICIES
            ).commands
        ]
        for each in (shared, alone)
    ]

    assert [[], ["terminate-first"]] == decisions


def _reserved(
    name: str, first: Pod, second: Pod | None, said: dict[str, list[Condition]]
) -> StateNode:
    pods = [first] if second is None else [first, second]
    return reserved_on(name, "r-1", *pods, instance_type="s8", **said)  # type: ignore[arg-type]


def test_whoever_finds_a_reservation_used_up_falls_back_on_demand() -> None:
    types = [kind("s4", 4, ways=[on_demand(1.0)], reservations=[reserved("r-1", 1)])]
    crowded = machine(
        "n1", *pods_on(2, "p", cpu="3"), instance_type="s8", claim_conditions=[DRIFTED]
    )

    (command,) = found_by("drift", crowded, types=types).commands

    allowed = [set(claim.requirements[keys.CAPACITY_TYPE].values) for claim in command.replacements]
    assert [False, True] == sorted(each == {"reserved"} for each in allowed)
    assert all("on-demand" in each for each in allowed if each != {"reserved"})
