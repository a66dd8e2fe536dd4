"""Pods whose demands on their node no pool could ever meet stay out of a pass."""

import msgspec
import pytest

from helpers.builders import CORES, FACTS_F, Expressions, expression, pod
from helpers.solver import solved
from karpenter.api.pods import Affinity, NodeAffinity, Pod
from karpenter.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from karpenter.model import labels as keys
from karpenter.scheduling.inputs.ignored_pods import WhyIgnored
from karpenter.scheduling.inputs.pending_pods import take_in, why_refused
from karpenter.scheduling.inputs.storage import NO_STORAGE


def reasons(wanted: Pod) -> list[WhyIgnored]:
    return [ignored.why for ignored in take_in([wanted], NO_STORAGE, FACTS_F).ignored]


def requiring(*terms: Expressions) -> Pod:
    return pod(required=terms)


# Who stays away from managed nodes

NO_POOL = [expression(keys.NODEPOOL, "DoesNotExist")]


@pytest.mark.case("SCH-9")
@pytest.mark.parametrize(
    "staying_away",
    [
        pytest.param(requiring(NO_POOL), id="by requirement"),
        pytest.param(pod(preferred=[(1, NO_POOL)]), id="by a mere preference"),
        pytest.param(
            pod(preferred=[(1, [expression("a", "Exists")]), (5, NO_POOL)]),
            id="by the heaviest preference",
        ),
        pytest.param(
            pod(
                node_selector={keys.NODEPOOL: "a"},
                required=[[expression(keys.NODEPOOL, "In", "b")]],
            ),
            id="by naming pools that contradict one another",
        ),
        pytest.param(
            requiring([expression(keys.NODEPOOL, "DoesNotExist"), expression("k", "Gt", "a")]),
            id="even where its other demands make no sense",
        ),
    ],
)
def test_a_pod_that_stays_away_is_ignored_without_an_event(staying_away: Pod) -> None:
    ignored = why_refused(staying_away, NO_STORAGE, FACTS_F)

    assert ignored is not None
    assert WhyIgnored.OPTED_OUT == ignored.why
    assert ignored.is_refused
    assert not ignored.has_event


@pytest.mark.parametrize(
    "staying",
    [
        pytest.param(requiring([expression("a", "Exists")], NO_POOL), id="by a second alternative"),
        pytest.param(
            pod(preferred=[(5, [expression("a", "Exists")]), (1, NO_POOL)]),
            id="by a lighter preference",
        ),
        pytest.param(requiring([expression(keys.NODEPOOL, "NotIn", "a")]), id="but for one pool"),
        pytest.param(
            pod(preferred=[(1, [expression(keys.NODEPOOL, "Nonsense", "a")])]),
            id="by a preference that makes no sense",
        ),
    ],
)
def test_a_pod_does_not_stay_away(staying: Pod) -> None:
    assert [] == reasons(staying)


# Whose demands cannot be served


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        pytest.param(
            pod(node_selector={keys.HOSTNAME: "red"}),
            WhyIgnored.RESTRICTED_LABEL,
            id="SCH-10 selects a hostname",
        ),
        pytest.param(
            requiring([expression("karpenter.sh/foo", "In", "x")]),
            WhyIgnored.RESTRICTED_LABEL,
            id="SCH-11 requires a label of the restricted domain",
        ),
        pytest.param(
            pod(node_selector={keys.INITIALIZED: "true"}),
            WhyIgnored.RESTRICTED_LABEL,
            id="SCH-11 selects initialized nodes",
        ),
        pytest.param(
            pod(node_selector={"sub.karpenter.sh/foo": "x"}),
            WhyIgnored.RESTRICTED_LABEL,
            id="SCH-12 selects a label of a restricted sub-domain",
        ),
        pytest.param(
            requiring([expression(keys.ZONE, "Exists")], [expression(keys.HOSTNAME, "Exists")]),
            WhyIgnored.RESTRICTED_LABEL,
            id="SCH-10 a later alternative names a hostname",
        ),
        pytest.param(
            requiring([expression(CORES, "Gt", "-1")]),
            WhyIgnored.INVALID_REQUIREMENT,
            id="SCH-14 more than a negative number",
        ),
        pytest.param(
            requiring([expression(CORES, "Gt", "a")]),
            WhyIgnored.INVALID_REQUIREMENT,
            id="SCH-14 more than a word",
        ),
        pytest.param(
            requiring([expression(CORES, "Lte", "1", "2")]),
            WhyIgnored.INVALID_REQUIREMENT,
            id="SCH-14 two bounds at once",
        ),
        pytest.param(
            requiring([expression(CORES, "Gte", str(2**63))]),
            WhyIgnored.INVALID_REQUIREMENT,
            id="SCH-14 a number beyond 64 bits",
        ),
        pytest.param(
            requiring([expression(CORES, "Lt")]),
            WhyIgnored.INVALID_REQUIREMENT,
            id="SCH-14 no bound at all",
        ),
        pytest.param(
            requiring([expression(CORES, "In")]),
            WhyIgnored.INVALID_REQUIREMENT,
            id="one of no values",
        ),
        pytest.param(
            requiring([expression(CORES, "Above", "1")]),
            WhyIgnored.INVALID_REQUIREMENT,
            id="an unknown operator",
        ),
        pytest.param(
            pod(node_selector={"not a key": "x"}),
            WhyIgnored.INVALID_REQUIREMENT,
            id="a key that is none",
        ),
        pytest.param(
            pod(node_selector={"k": "not a value"}),
            WhyIgnored.INVALID_REQUIREMENT,
            id="a value that is none",
        ),
        pytest.param(
            pod(node_selector={keys.CAPACITY_TYPE: "spot-block"}),
            WhyIgnored.UNKNOWN_CAPACITY_TYPE,
            id="SCH-15 selects an unknown capacity type",
        ),
        pytest.param(
            requiring([expression(keys.CAPACITY_TYPE, "In", "spot-block")]),
            WhyIgnored.UNKNOWN_CAPACITY_TYPE,
            id="SCH-15 requires an unknown capacity type",
        ),
    ],
)
def test_a_pod_that_cannot_be_served_is_ignored_with_an_event(
    refused: Pod, why: WhyIgnored
) -> None:
    ignored = why_refused(refused, NO_STORAGE, FACTS_F)

    assert ignored is not None
    assert why == ignored.why
    assert ignored.is_refused
    assert ignored.has_event


@pytest.mark.case("SCH-13")
def test_fields_of_a_node_cannot_be_matched() -> None:
    by_name = NodeSelectorTerm(match_fields=(expression("metadata.name", "In", "n1"),))
    affinity = Affinity(
        node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=(by_name,)))
    )
    plain = pod()
    matching = msgspec.structs.replace(
        plain, spec=msgspec.structs.replace(plain.spec, affinity=affinity)
    )

    ignored = why_refused(matching, NO_STORAGE, FACTS_F)

    assert ignored is not None
    assert WhyIgnored.MATCH_FIELDS_UNSUPPORTED == ignored.why
    assert ignored.has_event


@pytest.mark.parametrize(
    ("refused", "detail"),
    [
        pytest.param(
            pod(node_selector={keys.HOSTNAME: "red"}),
            "node selector: label kubernetes.io/hostname may not be used as a pod's node"
            " constraint; remove it",
            id="a restricted label",
        ),
        pytest.param(
            requiring([expression(keys.ZONE, "Exists")], [expression(CORES, "Gt", "a")]),
            "required node affinity term 2: cores Gt needs exactly one integer that is not"
            " negative, not a",
            id="a bound that is no number",
        ),
        pytest.param(
            pod(node_selector={keys.CAPACITY_TYPE: "spot-block"}),
            "node selector: karpenter.sh/capacity-type spot-block is unknown;"
            " use one of on-demand, reserved, spot",
            id="an unknown capacity type",
        ),
    ],
)
def test_the_detail_says_what_is_wrong_where_and_what_to_do(refused: Pod, detail: str) -> None:
    ignored = why_refused(refused, NO_STORAGE, FACTS_F)

    assert ignored is not None
    assert detail == ignored.detail


@pytest.mark.parametrize(
    "served",
    [
        pytest.param(
            pod(node_selector={keys.NODEPOOL: "np"}), id="a well-known karpenter.sh label"
        ),
        pytest.param(
            pod(node_selector={"beta.kubernetes.io/arch": "amd64"}),
            id="an older spelling of a label",
        ),
        pytest.param(
            requiring([expression(keys.CAPACITY_TYPE, "NotIn", "spot-block")]),
            id="anything but an unknown capacity type",
        ),
        pytest.param(
            pod(preferred=[(1, [expression("karpenter.sh/foo", "Nonsense", "?")])]),
            id="a preference that makes no sense",
        ),
        pytest.param(requiring([expression(CORES, "Gte", "0")]), id="a bound of zero"),
    ],
)
def test_a_pod_can_be_served(served: Pod) -> None:
    assert [] == reasons(served)


@pytest.mark.case("SCH-15")
def test_one_known_capacity_type_is_enough() -> None:
    intake = take_in(
        [requiring([expression(keys.CAPACITY_TYPE, "In", "spot", "spot-block")])],
        NO_STORAGE,
        FACTS_F,
    )

    assert ["spot"] == solved(intake.pods).capacity_types


@pytest.mark.parametrize(
    "preference",
    [
        pytest.param(expression(keys.HOSTNAME, "In", "red"), id="SCH-16 for a hostname"),
        pytest.param(expression(CORES, "Gt", "a"), id="that makes no sense"),
    ],
)
def test_an_impossible_preference_is_given_up_and_nothing_else_is(
    preference: NodeSelectorRequirement,
) -> None:
    wishing = pod("p", node_selector={keys.ZONE: "z3"}, preferred=[(1, [preference])])

    intake = take_in([wishing], NO_STORAGE, FACTS_F)

    assert ["z3"] == solved(intake.pods).zones
