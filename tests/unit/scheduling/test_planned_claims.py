"""What is written on a planned NodeClaim, and what it would cost."""

from dataclasses import replace

import msgspec
import pytest

from helpers.builders import (
    FACTS_F,
    NODE_CLASS,
    expression,
    instance_type,
    managed_node,
    node_pool,
    offering,
    pod,
)
from helpers.solver import TYPES_OF_F, launch_of, solved
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.model import labels as keys
from karpenter.model.requirement import requirement
from karpenter.model.resources import Resources
from karpenter.scheduling.problem import MOST_INSTANCE_TYPES
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION, node_pool_hash


@pytest.mark.case("SCH-115")
def test_a_claim_lists_its_types_and_names_its_pool() -> None:
    claim = solved([pod()]).only

    assert (
        requirement(keys.INSTANCE_TYPE, "In", TYPES_OF_F) == claim.requirements[keys.INSTANCE_TYPE]
    )
    assert requirement(keys.NODEPOOL, "In", ["np"]) == claim.requirements[keys.NODEPOOL]
    assert ("np", NODE_CLASS) == (claim.node_pool, claim.node_class_ref)
    assert "np" == claim.labels[keys.NODEPOOL]


def test_a_claim_says_nothing_about_the_name_of_its_host() -> None:
    elsewhere = expression(keys.HOSTNAME, "NotIn", "bad-host")
    moving = pod("p", required=[[elsewhere]], node_name="bad-host")

    claim = solved([moving], nodes=[managed_node("bad-host", pods=[moving], marked=True)]).only

    assert claim.requirements.get(keys.HOSTNAME) is None
    assert keys.HOSTNAME not in claim.labels


@pytest.mark.case("SCH-116")
def test_only_prices_of_what_the_pool_allows_are_compared() -> None:
    types = [
        instance_type(
            name,
            offerings=[
                offering("z1", keys.ON_DEMAND, on_demand),
                offering("z1", keys.SPOT, spot),
            ],
        )
        for name, on_demand, spot in (("t1", 1.0, 0.2), ("t2", 1.3, 0.1))
    ]
    on_demand_only = node_pool(requirements=[expression(keys.CAPACITY_TYPE, "In", keys.ON_DEMAND)])

    answer = solved([pod()], pools=[on_demand_only], types=types)

    assert ["t1"] == answer.types
    assert 1.0 == launch_of(answer.only).price
    assert ("t1", "t2") == answer.only.instance_types


@pytest.mark.case("SCH-117")
def test_the_cheapest_type_is_launched_whatever_its_size() -> None:
    types = [
        instance_type("medium", cpu="2", price=3.0),
        instance_type("sm", cpu="1", price=2.0),
        instance_type("lg", cpu="8", price=1.0),
    ]

    answer = solved([pod(cpu="10m")], types=types)

    assert ["lg"] == answer.types
    assert ("lg", "sm", "medium") == answer.only.instance_types


@pytest.mark.case("SCH-118")
@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(expression(keys.ARCH, "In", "arm64"), id="by architecture"),
        pytest.param(expression(keys.OS, "In", "ios"), id="by operating system"),
    ],
)
def test_a_pool_s_requirements_choose_the_types(wanted: NodeSelectorRequirement) -> None:
    claim = solved([pod()], pools=[node_pool(requirements=[wanted])]).only

    assert requirement(keys.INSTANCE_TYPE, "In", ["arm"]) == claim.requirements[keys.INSTANCE_TYPE]


@pytest.mark.case("SCH-119")
def test_a_claim_asks_for_accelerators() -> None:
    claim = solved([pod(requests={"acme/gpu-a": "1"})]).only

    assert (
        requirement(keys.INSTANCE_TYPE, "In", ["gpu-a"]) == claim.requirements[keys.INSTANCE_TYPE]
    )
    assert Resources(pods=1, others={"acme/gpu-a": 1}) == claim.requests


@pytest.mark.case("SCH-120")
def test_the_hash_is_that_of_the_pool_the_plan_was_made_with() -> None:
    planned_with = node_pool(labels={"version": "new"})
    outdated = msgspec.structs.replace(
        planned_with,
        metadata=msgspec.structs.replace(
            planned_with.metadata, annotations={keys.NODEPOOL_HASH: "of an earlier version"}
        ),
    )

    annotations = solved([pod()], pools=[outdated]).only.annotations

    assert node_pool_hash(planned_with) == annotations[keys.NODEPOOL_HASH]
    assert node_pool_hash(node_pool()) != annotations[keys.NODEPOOL_HASH]
    assert NODEPOOL_HASH_VERSION == annotations[keys.NODEPOOL_HASH_VERSION]


@pytest.mark.case("SCH-121")
@pytest.mark.parametrize(
    ("of_pool", "expected"),
    [
        pytest.param(None, "30s", id="the provider's default"),
        pytest.param("10s", "10s", id="the pool's own"),
    ],
)
def test_termination_grace_period(of_pool: str | None, expected: str) -> None:
    answer = solved(
        [pod()],
        pools=[node_pool(termination_grace_period=of_pool)],
        facts=replace(FACTS_F, default_termination_grace_period="30s"),
    )

    assert expected == answer.only.termination_grace_period


@pytest.mark.case("SCH-122")
def test_a_claim_lists_the_cheapest_types_only() -> None:
    types = [instance_type(f"t-{i:03}", price=float(700 - i)) for i in range(700)]

    claim = solved([pod()], types=types).only

    assert MOST_INSTANCE_TYPES == 600
    assert tuple(f"t-{i:03}" for i in range(699, 99, -1)) == claim.instance_types
    assert set(claim.instance_types) == claim.requirements[keys.INSTANCE_TYPE].values


@pytest.mark.case("SCH-123")
def test_annotations_of_the_template_are_copied() -> None:
    pool = node_pool(annotations={keys.DO_NOT_DISRUPT: "true"})

    claim = solved([pod()], pools=[pool]).only

    assert "true" == claim.annotations[keys.DO_NOT_DISRUPT]
