"""Demands on a node that contradict one another are met by no node at all."""

import pytest

from helpers.builders import expression, managed_node, node_pool, pod, unmanaged_node
from helpers.solver import claim_value, solved
from karpenter.api.pods import Pod
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.model import labels as keys
from karpenter.scheduling.plan import Why


def k(operator: str, *values: str) -> NodeSelectorRequirement:
    return expression("k", operator, *values)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(
            pod("p", node_selector={"k": "a"}, required=[[k("In", "b")]]),
            id="the selector and a term name different values",
        ),
        pytest.param(
            pod("p", node_selector={"k": "a"}, required=[[k("NotIn", "a")]]),
            id="a term excludes the selector's value",
        ),
        pytest.param(
            pod("p", node_selector={"k": "a"}, required=[[k("DoesNotExist")]]),
            id="a term excludes the selector's label",
        ),
        pytest.param(
            pod("p", required=[[k("Exists"), k("DoesNotExist")]]), id="a label that is and is not"
        ),
        pytest.param(pod("p", required=[[k("Gt", "5"), k("Lt", "3")]]), id="bounds that cross"),
        pytest.param(
            pod("p", required=[[k("In", "a"), k("Gt", "3")]]), id="a value outside the bounds"
        ),
        pytest.param(
            pod(
                "p",
                node_selector={"failure-domain.beta.kubernetes.io/zone": "z1", keys.ZONE: "z2"},
            ),
            id="two spellings of one label",
        ),
    ],
)
def test_a_pod_that_contradicts_itself_goes_nowhere(wanted: Pod) -> None:
    answer = solved([wanted], nodes=[unmanaged_node("n", zone="")])

    assert {"p": {Why.REQUIREMENT_CONFLICT}} == answer.unplaced
    assert "contradicts" in answer.details("p")[0]


def test_demands_that_all_allow_the_label_to_be_absent_agree() -> None:
    wanted = pod("p", required=[[k("NotIn", "a"), k("DoesNotExist"), k("NotIn", "b")]])

    answer = solved([wanted], nodes=[managed_node("n")])

    assert {"n": ["p"]} == answer.existing


def test_an_alternative_that_contradicts_itself_is_passed_over() -> None:
    wanted = pod("p", required=[[k("In", "a"), k("In", "b")], [k("In", "b")]])

    answer = solved([wanted], pools=[node_pool(requirements=[k("In", "a", "b")])])

    assert "b" == claim_value(answer.only, "k")


@pytest.mark.parametrize(
    "preference",
    [
        pytest.param([k("In", "a")], id="contradicts the selector"),
        pytest.param([expression(keys.ZONE, "Gt", "x")], id="compares with no number"),
        pytest.param([expression(keys.ZONE, "Near", "z1")], id="has an unknown operator"),
    ],
)
def test_a_preference_that_makes_no_sense_is_given_up_and_nothing_else(
    preference: list[NodeSelectorRequirement],
) -> None:
    wanted = pod("p", node_selector={"k": "b"}, preferred=[(1, preference)])

    answer = solved([wanted], pools=[node_pool(requirements=[k("In", "a", "b")])])

    assert "b" == claim_value(answer.only, "k")
