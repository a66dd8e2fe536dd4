"""minValues counts the distinct values that instance types offer and the claim still allows."""

import pytest

from karpenter.model.min_values import Shortfall, lowered, shortfalls
from karpenter.model.requirement import Requirement, requirement
from karpenter.model.requirements import Requirements

TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"


def instance_type(name: str, *zones: str) -> Requirements:
    return Requirements([requirement(TYPE, "In", [name]), requirement(ZONE, "In", zones)])


TYPES = [instance_type("i1", "z1", "z2"), instance_type("i2", "z2", "z3")]


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        pytest.param([requirement(TYPE, "Exists", min_values=2)], [], id="enough types"),
        pytest.param(
            [requirement(TYPE, "Exists", min_values=3)],
            [Shortfall(TYPE, 3, 2)],
            id="SCH-129 one type short",
        ),
        pytest.param([requirement(ZONE, "Exists", min_values=3)], [], id="zones count once each"),
        pytest.param(
            [requirement(ZONE, "In", ["z1"], 3)],
            [Shortfall(ZONE, 3, 1)],
            id="V15-S07 values the claim no longer allows do not count",
        ),
        pytest.param(
            [requirement(ZONE, "Exists", min_values=3), requirement(ZONE, "In", ["z1", "z2"])],
            [Shortfall(ZONE, 3, 2)],
            id="the claim's current requirement counts",
        ),
        pytest.param(
            [requirement(TYPE, "Exists", min_values=1), requirement(TYPE, "In", ["i1", "x"], 2)],
            [Shortfall(TYPE, 2, 1)],
            id="SCH-126 the larger minValues is enforced",
        ),
        pytest.param(
            [requirement("size", "Exists", min_values=1)],
            [Shortfall("size", 1, 0)],
            id="a key no type advertises",
        ),
        pytest.param([requirement(TYPE, "In", ["x"])], [], id="no minValues, nothing to reach"),
        pytest.param(
            [requirement(ZONE, "Exists", min_values=9), requirement(TYPE, "Exists", min_values=9)],
            [Shortfall(TYPE, 9, 2), Shortfall(ZONE, 9, 3)],
            id="every unmet key, sorted",
        ),
    ],
)
def test_shortfalls(wanted: list[Requirement], missing: list[Shortfall]) -> None:
    assert missing == shortfalls(Requirements(wanted), TYPES)


def test_an_open_requirement_of_a_type_advertises_no_value() -> None:
    types = [Requirements([requirement("k", "NotIn", ["a", "b"])])]

    missing = shortfalls(Requirements([requirement("k", "Exists", min_values=1)]), types)

    assert [Shortfall("k", 1, 0)] == missing


def test_a_shortfall_is_readable() -> None:
    text = str(Shortfall("k", 3, 1))

    assert text == "minValues of k asks for 3 distinct values, 1 left"


@pytest.mark.case("SCH-129")
@pytest.mark.parametrize(
    ("found", "left"),
    [
        pytest.param(1, 1, id="what there is remains as the minimum"),
        pytest.param(0, None, id="where there is nothing no minimum remains"),
    ],
)
def test_a_minimum_is_lowered_to_what_was_found(found: int, left: int | None) -> None:
    claim = Requirements([requirement(ZONE, "NotIn", ["z9"], 3), requirement(TYPE, "Exists")])

    content = lowered(claim, [Shortfall(ZONE, 3, found)])

    assert Requirements([requirement(ZONE, "NotIn", ["z9"], left), claim[TYPE]]) == content
