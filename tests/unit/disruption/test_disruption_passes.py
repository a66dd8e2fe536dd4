"""What a pass knows about a cluster, and what it sees once commands have begun."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from helpers.builders import FACTS_F, NOW, pod, unmanaged_node
from helpers.disruption import catalogue_of, context_of, found_by, going, only, planned, snapshot
from helpers.disruption_objects import machine, pod_on, pool
from karpenter.api.karpenter import (
    NodeClassReference,
    NodeOverlay,
    NodeOverlaySpec,
    NodeRequirement,
)
from karpenter.api.meta import ObjectMeta
from karpenter.disruption.candidates import Blocked, Candidate, Kind
from karpenter.disruption.context import DisruptionContext, DisruptionSettings
from karpenter.disruption.forecast import DisruptionForecast
from karpenter.model import labels as keys
from karpenter.scheduling.provisioning import PassSettings
from karpenter.state.eviction_cost import POD_DELETION_COST
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot

NOT_READY: Final = pool(conditions=[])


def passing(cluster: Snapshot, facts: Any = FACTS_F, **planning: bool) -> DisruptionContext:
    settings = DisruptionSettings(PassSettings(**planning))  # type: ignore[arg-type]
    return DisruptionContext(cluster, catalogue_of({}), facts, settings, now=NOW)


@pytest.mark.parametrize(
    "world",
    [
        pytest.param({"pods": [pod("waits")]}, id="with a pod that waits"),
        pytest.param({}, id="with nobody who waits"),
    ],
)
def test_a_plan_without_any_pool_that_is_ready(world: dict[str, Any]) -> None:
    plan = planned(machine("n1"), machine("n2", pod_on("p")), pools=[NOT_READY], **world)

    assert ["n1"] == going(plan)
    assert [("n2", "no dynamic node pool is ready")] == [(b.node, b.detail) for b in plan.blocked]


def test_a_plan_without_a_pool_that_is_ready_while_a_machine_is_on_its_way_out() -> None:
    leaving = machine("n1", pod_on("p"), deleted=NOW)

    plan = planned(leaving, machine("n2"), pools=[NOT_READY])

    assert ["n2"] == going(plan)


def test_every_machine_is_a_candidate_or_blocked() -> None:
    nodes = [machine("n2"), machine("n1", annotations={keys.DO_NOT_DISRUPT: "true"})]
    view = context_of(*nodes)

    assert ["n2"] == [each.name for each in view.candidates(Kind.GRACEFUL)]
    assert ["n1"] == list(view.blocked(Kind.GRACEFUL))
    assert ["n1", "n2"] == list(view.standing(Kind.EVENTUAL))


@pytest.mark.parametrize(
    ("served", "is_ours"),
    [
        pytest.param((), False, id="a provider that names no kind serves none"),
        pytest.param((("other.sh", "Other"),), True, id="one of its kinds"),
        pytest.param((("other.sh", "Another"),), False, id="another kind"),
        pytest.param((("another.sh", "Other"),), False, id="of another group"),
    ],
)
def test_whose_machines_are_ours(served: tuple[tuple[str, str], ...], is_ours: bool) -> None:
    view = passing(snapshot(), replace(FACTS_F, node_classes=served))

    assert is_ours == view.is_ours(NodeClassReference(group="other.sh", kind="Other", name="x"))


@pytest.mark.parametrize(
    ("wanted", "is_gate_on", "price"),
    [
        pytest.param(pool(), True, 9.0, id="what a user says about prices"),
        pytest.param(NOT_READY, True, 9.0, id="counts for a pool that is not ready too"),
        pytest.param(pool(), False, 0.4, id="with the gate"),
        pytest.param(NOT_READY, False, 0.4, id="and for neither without it"),
    ],
)
def test_the_price_of_a_machine_under_an_overlay(
    wanted: Any, is_gate_on: bool, price: float
) -> None:
    overlay = NodeOverlay(
        metadata=ObjectMeta(name="mine"),
        spec=NodeOverlaySpec(
            requirements=(NodeRequirement(keys.INSTANCE_TYPE, "In", ("s4",)),), price="9"
        ),
    )
    cluster = replace(snapshot(machine("n1"), pools=[wanted]), node_overlays={"mine": overlay})

    (found,) = passing(cluster, overlays=is_gate_on).candidates(Kind.GRACEFUL)

    assert price == pytest.approx(found.price)


@pytest.mark.case("V15-D45")
@pytest.mark.parametrize(("is_ours", "cost"), [(False, 3.0), (True, 2.0)])
def test_what_we_wrote_ourselves_does_not_count_for_a_pool(is_ours: bool, cost: float) -> None:
    dear = machine("n1", pod_on("p", annotations={POD_DELETION_COST: "134217728"}))

    view = passing(snapshot(dear), deletion_cost_is_ours=is_ours)

    assert cost == view.totals("np")[1]


def outlook_of(*nodes: StateNode, **world: Any) -> DisruptionForecast:
    return DisruptionForecast(
        snapshot(*nodes, **world), catalogue_of({}), FACTS_F, DisruptionSettings(), now=NOW
    )


@pytest.mark.case("DIS-120")
def test_a_machine_whose_command_has_begun_is_in_progress() -> None:
    nodes = [machine("n1", pod_on("p")), unmanaged_node("other")]
    outlook = outlook_of(*nodes)

    outlook.begin(only(found_by("single", *nodes)))

    standing = outlook.context().standing(Kind.GRACEFUL)["n1"]
    assert isinstance(standing, Blocked)
    assert "DisruptionInProgress" == standing.why


@pytest.mark.case("DIS-101")
def test_machines_that_are_to_take_pods_wait_for_them() -> None:
    outlook = outlook_of(machine("n1"), machine("n2"), pods=[pod("waits", cpu="3")])

    before, now = outlook.before.standing(Kind.GRACEFUL), outlook.context().standing(Kind.GRACEFUL)

    assert isinstance(before["n1"], Candidate)
    assert isinstance(now["n1"], Blocked)
    assert ("Nominated", Candidate) == (now["n1"].why, type(now["n2"]))
    assert NOW + timedelta(seconds=20) == outlook.context().snapshot.nodes[0].nominated_until
