"""Why each machine that a plan leaves alone stays: the one reason that is told of several."""

from dataclasses import replace
from typing import Final

import msgspec
import pytest

from helpers.builders import FACTS_F, NOW, condition, node_claim, owner
from helpers.disruption import catalogue_of, planned, snapshot
from helpers.disruption_objects import LONG_AGO, ON_DEMAND_ONLY, machine, pod_on, pool
from karpenter.api.karpenter import NodePool
from karpenter.api.meta import OwnerReference
from karpenter.disruption.context import DisruptionSettings
from karpenter.disruption.plan import DisruptionPlan, plan_disruption
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

DRIFTED: Final = condition("Drifted", at=LONG_AGO)
NOWHERE: Final = {keys.ZONE: "z9"}
PROTECTED: Final = {keys.DO_NOT_DISRUPT: "true"}
FIXED: Final = pool(replicas=1, limits={"nodes": "1"})


def why(plan: DisruptionPlan) -> tuple[str, str, bool]:
    """The reason of the only machine that stays, what is said of it, and whether users hear."""
    (verdict,) = plan.blocked
    return verdict.why, verdict.detail, verdict.has_event


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        pytest.param(
            machine("n1", pod_on("p", node_selector=NOWHERE), claim_conditions=[DRIFTED]),
            pool(),
            ("Unschedulable", "no place for default/p", True),
            id="DIS-226 drift goes before consolidation",
        ),
        pytest.param(
            machine("n1", pod_on("p"), claim_conditions=[DRIFTED]),
            FIXED,
            ("Unschedulable", "its NodePool has as many nodes as limits.nodes allows", True),
            id="V15-D39 drift of a static pool too",
        ),
        pytest.param(
            machine(
                "n1",
                pod_on("p", annotations=PROTECTED),
                pod_on("q", node_selector=NOWHERE),
                claim_conditions=[DRIFTED],
                grace_period="1h",
            ),
            pool(),
            ("Unschedulable", "no place for default/q", True),
            id="DIS-108 and before pods that a deadline ends",
        ),
        pytest.param(
            machine("n1", pod_on("p", annotations=PROTECTED), claim_conditions=[DRIFTED]),
            pool(),
            (
                "PodDoNotDisrupt",
                "pod default/p has the annotation karpenter.sh/do-not-disrupt",
                True,
            ),
            id="DIS-107 but not before pods that nothing ends",
        ),
        pytest.param(
            machine("n1", pod_on("p", node_selector=NOWHERE)),
            pool(),
            ("Unconsolidatable", "no place for default/p", True),
            id="DIS-173 consolidation",
        ),
    ],
)
def test_the_one_reason(
    found: StateNode, wanted: NodePool, expected: tuple[str, str, bool]
) -> None:
    assert expected == why(planned(found, pools=[wanted]))


def owned(found: StateNode, *owners: OwnerReference) -> StateNode:
    assert found.node_claim is not None
    metadata = msgspec.structs.replace(found.node_claim.metadata, owner_references=owners)
    return replace(found, node_claim=msgspec.structs.replace(found.node_claim, metadata=metadata))


@pytest.mark.parametrize(
    ("owners", "wanted", "reason"),
    [
        pytest.param(
            [owner("NodePool", "np"), owner("Other", "np")],
            pool(deleted=NOW, after="Never"),
            "Deleting",
            id="DIS-285 a claim of a pool that is being deleted goes with it",
        ),
        pytest.param(
            [owner("NodePool", "np")],
            pool(after="Never"),
            "Unconsolidatable",
            id="a pool that stays takes nobody with it",
        ),
        pytest.param(
            [owner("NodePool", "other")],
            pool(deleted=NOW, after="Never"),
            "Unconsolidatable",
            id="DIS-285 nor does a claim go that another pool owns",
        ),
        pytest.param(
            [owner("Other", "np")],
            pool(deleted=NOW, after="Never"),
            "Unconsolidatable",
            id="DIS-285 or something else of that name",
        ),
        pytest.param(
            [], pool(deleted=NOW, after="Never"), "Unconsolidatable", id="DIS-285 or nobody at all"
        ),
    ],
)
def test_who_goes_with_its_pool(
    owners: list[OwnerReference], wanted: NodePool, reason: str
) -> None:
    plan = planned(owned(machine("n1", pod_on("p")), *owners), pools=[wanted])

    assert reason == why(plan)[0]
    assert (reason != "Deleting") == why(plan)[2]


def test_a_node_without_a_claim_does_not_go_with_its_pool() -> None:
    bare = replace(machine("n1"), node_claim=None)

    assert "NotManaged" == why(planned(bare, pools=[pool(deleted=NOW)]))[0]


@pytest.mark.case("DIS-282")
def test_before_every_claim_has_launched_nothing_is_decided() -> None:
    plan = planned(machine("n1"), unlaunched=[node_claim("young", provider_id="")])

    detail = "nothing is decided about it before every NodeClaim has launched"
    assert ("NotEvaluated", detail, False) == why(plan)


def test_a_plan_that_is_long_enough_says_so_of_the_others() -> None:
    nodes = [
        machine(name, pod_on(name, cpu="3"), claim_conditions=[DRIFTED]) for name in ("a", "b")
    ]

    plan = plan_disruption(
        snapshot(*nodes, pools=[pool(requirements=ON_DEMAND_ONLY)]),
        catalogue_of({}),
        FACTS_F,
        DisruptionSettings(),
        now=NOW,
        most=1,
    )

    assert ("NotEvaluated", "the plan ended before its turn came", False) == why(plan)


@pytest.mark.case("DIS-136")
def test_a_plan_tells_of_closed_budgets() -> None:
    plan = planned(machine("n1"), pools=[pool(budgets=["0"])])

    assert [("NodePool/np", "DisruptionBlocked")] == [(e.target, e.reason) for e in plan.events]


def test_a_plan_is_told_by_name() -> None:
    nodes = [machine(f"{name}1", pod_on(name, node_selector=NOWHERE), pool=name) for name in "cab"]

    plan = planned(*nodes, pools=[pool(name) for name in "bca"])

    assert ["a", "b", "c"] == list(plan.budgets)
    assert ["a1", "b1", "c1"] == [verdict.node for verdict in plan.blocked]
