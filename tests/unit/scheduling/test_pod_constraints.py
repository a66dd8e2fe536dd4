"""What a pod asks of its node against what pools and types can give."""

import pytest

from helpers.builders import (
    CORES,
    SIZE,
    SPECIAL,
    expression,
    ladder,
    node_pool,
    pod,
)
from helpers.solver import Setting, launch_of, solved
from karpenter.api.pods import Pod
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.model import labels as keys
from karpenter.scheduling.plan import Why

LADDER = ladder(5)


def k(operator: str, *values: str) -> NodeSelectorRequirement:
    return expression("k", operator, *values)


def zone(operator: str, *values: str) -> NodeSelectorRequirement:
    return expression(keys.ZONE, operator, *values)


def asking(*wanted: NodeSelectorRequirement) -> Pod:
    return pod("p", required=[wanted])


def selecting(**wanted: str) -> Pod:
    return pod("p", node_selector=wanted)


def pool_with(*requirements: NodeSelectorRequirement) -> Setting:
    return Setting(pools=[node_pool(requirements=requirements)])


LABELLED = Setting(pools=[node_pool(labels={"k": "v"})])


@pytest.mark.parametrize(
    ("wanted", "setting", "why"),
    [
        pytest.param(
            selecting(k="w"),
            LABELLED,
            Why.REQUIREMENT_CONFLICT,
            id="SCH-46 the pool's label has another value",
        ),
        pytest.param(
            selecting(k="v"), Setting(), Why.UNDEFINED_LABEL, id="SCH-47 no pool defines the label"
        ),
        pytest.param(
            asking(k("Exists")),
            Setting(),
            Why.UNDEFINED_LABEL,
            id="SCH-52 a label must exist that no pool defines",
        ),
        pytest.param(
            asking(zone("In", "z2")),
            pool_with(zone("In", "z1")),
            Why.REQUIREMENT_CONFLICT,
            id="SCH-53 the pool is in another zone",
        ),
        pytest.param(
            asking(zone("NotIn", "z1", "z2", "z3")),
            Setting(),
            Why.NO_OFFERING,
            id="SCH-55 every zone is excluded",
        ),
        pytest.param(
            pod("p", node_selector={keys.CAPACITY_TYPE: keys.SPOT, keys.ZONE: "z3"}),
            Setting(),
            Why.NO_OFFERING,
            id="SCH-56 zone and capacity type exist, but not together",
        ),
        pytest.param(
            pod("p", node_selector={SIZE: "large", keys.INSTANCE_TYPE: "it-0"}),
            Setting(types=LADDER),
            Why.NO_OFFERING,
            id="SCH-60 the type is not of that size",
        ),
        pytest.param(
            pod("p", node_selector={keys.OS: "ios"}),
            pool_with(expression(keys.ARCH, "In", "amd64")),
            Why.NO_OFFERING,
            id="SCH-61 no type has both architecture and system",
        ),
        pytest.param(
            asking(zone("In", "nope"), zone("Exists")),
            Setting(),
            Why.NO_OFFERING,
            id="SCH-64 the zone does not exist, though a zone does",
        ),
    ],
)
def test_a_pod_that_asks_too_much_is_told_why(wanted: Pod, setting: Setting, why: Why) -> None:
    answer = solved([wanted], **setting)

    assert {"p": {why}} == answer.unplaced


@pytest.mark.parametrize(
    ("wanted", "setting", "label"),
    [
        pytest.param(pod(), LABELLED, "v", id="SCH-45 a node has its pool's label"),
        pytest.param(
            asking(k("Exists")),
            pool_with(k("In", "v")),
            "v",
            id="SCH-52 a label must exist that the pool defines",
        ),
        pytest.param(
            asking(k("NotIn", "v")),
            Setting(),
            "0",
            id="SCH-50 NotIn yields a label of some integer",
        ),
        pytest.param(asking(k("NotIn", "0")), Setting(), "1", id="SCH-50 another one if excluded"),
        pytest.param(asking(k("DoesNotExist")), Setting(), None, id="SCH-51 no label is made"),
    ],
)
def test_the_custom_label_of_the_node(wanted: Pod, setting: Setting, label: str | None) -> None:
    answer = solved([wanted], **setting)

    assert label == answer.only.labels.get("k")


@pytest.mark.parametrize(
    ("other", "labels"),
    [
        pytest.param(k("NotIn", "b"), ["a"], id="SCH-48 pods that agree on a value share a node"),
        pytest.param(k("In", "b"), ["a", "b"], id="SCH-49 pods that do not agree need two"),
    ],
)
def test_pods_narrow_the_label_of_the_node_they_share(
    other: NodeSelectorRequirement, labels: list[str]
) -> None:
    wanted = [pod("one", required=[[k("In", "a")]]), pod("other", required=[[other]])]

    answer = solved(wanted, **pool_with(k("In", "a", "b")))

    assert labels == sorted(claim.labels["k"] for claim in answer.claims)
    assert ["one", "other"] == answer.placed


@pytest.mark.case("SCH-54")
def test_the_only_zone_left_is_used() -> None:
    answer = solved([asking(zone("NotIn", "z1", "z2", "x"))])

    launch = launch_of(answer.only)
    assert ("z3", keys.ON_DEMAND) == (launch.zone, launch.capacity_type)


@pytest.mark.case("SCH-57")
@pytest.mark.parametrize(
    ("requirement", "launched"),
    [
        pytest.param(expression(CORES, "Gt", "8"), "arm", id="more than eight cores"),
        pytest.param(expression(CORES, "Lte", "2"), "small", id="at most two cores"),
    ],
)
def test_pools_compare_numbers(requirement: NodeSelectorRequirement, launched: str) -> None:
    answer = solved([pod()], **pool_with(requirement))

    assert (launched,) == answer.only.instance_types
    assert [launched] == answer.types


@pytest.mark.parametrize(
    ("operator", "listed"),
    [
        pytest.param("Exists", {"it-4"}, id="SCH-58 only some types have the label"),
        pytest.param(
            "DoesNotExist",
            {"it-0", "it-1", "it-2", "it-3"},
            id="SCH-59 and the others have not",
        ),
    ],
)
def test_a_label_of_the_provider_that_not_every_type_has(operator: str, listed: set[str]) -> None:
    answer = solved([asking(expression(SPECIAL, operator))], types=LADDER)

    assert listed == set(answer.only.instance_types)


@pytest.mark.case("SCH-62")
def test_no_node_has_two_architectures() -> None:
    wanted = [pod(arch, node_selector={keys.ARCH: arch}) for arch in ("amd64", "arm64")]

    answer = solved(wanted)

    assert 2 == len(answer.claims)
    assert ("arm",) == answer.with_pod("arm64").instance_types
    assert "arm" not in answer.with_pod("amd64").instance_types


@pytest.mark.case("SCH-63")
def test_every_operator_of_a_pool_makes_its_label() -> None:
    requirements = [
        expression("t2", "In", "v"),
        expression("t3", "NotIn", "v"),
        expression("t4", "Lt", "4"),
        expression("t5", "Gt", "5"),
        expression("t6", "Exists"),
        expression("t7", "DoesNotExist"),
    ]

    labels = solved([pod()], **pool_with(*requirements)).only.labels

    assert "v" == labels["t2"]
    assert "v" != labels["t3"]
    assert 0 <= int(labels["t4"]) <= 3
    assert int(labels["t5"]) > 5
    assert labels["t6"].isdecimal()
    assert "t7" not in labels
