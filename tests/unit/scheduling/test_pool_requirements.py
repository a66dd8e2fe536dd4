"""The algebra of requirements as a pool, a pod and the claim made for both show it."""

import pytest

from helpers.builders import (
    CORES,
    SPECIAL,
    expression,
    instance_type,
    ladder,
    min_values,
    node_pool,
    pod,
    unmanaged_node,
)
from helpers.solver import solved
from karpenter.api.karpenter import NodeRequirement
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.model import labels as keys
from karpenter.scheduling.plan import Why


def k(operator: str, *values: str) -> NodeSelectorRequirement:
    return expression("k", operator, *values)


def entry(operator: str, *values: str, at_least: int | None = None) -> NodeRequirement:
    return NodeRequirement(key="k", operator=operator, values=values, min_values=at_least)


@pytest.mark.parametrize(
    ("pool", "wanted", "entries"),
    [
        pytest.param(
            [k("Exists")], [k("In", "A")], [entry("In", "A")], id="SCH-23 Exists and In make In"
        ),
        pytest.param(
            [k("In", "A", "B")],
            [k("NotIn", "A")],
            [entry("In", "B")],
            id="SCH-24 NotIn takes values away",
        ),
        pytest.param(
            [k("NotIn", "A")],
            [k("NotIn", "1", "2")],
            [entry("NotIn", "1", "2", "A")],
            id="SCH-25 what is excluded adds up",
        ),
        pytest.param(
            [k("In", "1", "9")],
            [k("Lt", "9")],
            [entry("In", "1")],
            id="SCH-27 a list within bounds has no bounds",
        ),
        pytest.param(
            [k("NotIn", "1", "2")],
            [k("Gt", "1")],
            [entry("Gte", "2")],
            id="SCH-28 a bound is written without what is excluded",
        ),
        pytest.param(
            [k("Gt", "1")],
            [k("Lt", "9")],
            [entry("Gte", "2"), entry("Lte", "8")],
            id="SCH-29 two bounds are two entries",
        ),
        pytest.param(
            [k("Gt", "4")], [k("Gte", "5")], [entry("Gte", "5")], id="SCH-31 equal bounds are one"
        ),
        pytest.param(
            [k("Gt", "5")],
            [k("Gte", "5")],
            [entry("Gte", "6")],
            id="SCH-32 the tighter bound counts",
        ),
    ],
)
def test_claims_state_what_pool_and_pod_have_in_common(
    pool: list[NodeSelectorRequirement],
    wanted: list[NodeSelectorRequirement],
    entries: list[NodeRequirement],
) -> None:
    answer = solved([pod(required=[wanted])], pools=[node_pool(requirements=pool)])

    assert entries == answer.only.requirements["k"].to_wire()


@pytest.mark.case("SCH-28")
def test_a_bound_keeps_excluding_what_lies_within_it() -> None:
    answer = solved(
        [pod(required=[[k("Gt", "1")]])], pools=[node_pool(requirements=[k("NotIn", "1", "2")])]
    )

    assert frozenset({"2"}) == answer.only.requirements["k"].values


@pytest.mark.case("SCH-33")
def test_the_larger_of_two_min_values_counts() -> None:
    wanted = [min_values(2, "k", "In", "A", "B"), min_values(1, "k", "Exists")]
    types = [instance_type(f"of-{value}", labels={"k": value}) for value in "AB"]

    answer = solved([pod()], pools=[node_pool(requirements=wanted)], types=types)

    assert [entry("In", "A", "B", at_least=2)] == answer.only.requirements["k"].to_wire()


@pytest.mark.parametrize(
    ("pool", "wanted"),
    [
        pytest.param([k("In", "A")], k("Gt", "1"), id="SCH-26 a word is in no bounds"),
        pytest.param([k("Gt", "9")], k("Lt", "1"), id="SCH-30 bounds that cross leave nothing"),
        pytest.param([k("Gte", "0")], k("In", "A"), id="SCH-34 a word is not at least zero"),
        pytest.param([k("Gte", "0")], k("In", "-1"), id="SCH-34 minus one is not at least zero"),
        pytest.param([k("Exists")], k("DoesNotExist"), id="SCH-40 a label cannot be and not be"),
        pytest.param([k("In", "A")], k("NotIn", "A"), id="SCH-41 the only value is excluded"),
    ],
)
def test_nothing_in_common_is_a_conflict(
    pool: list[NodeSelectorRequirement], wanted: NodeSelectorRequirement
) -> None:
    answer = solved([pod("p", required=[[wanted]])], pools=[node_pool(requirements=pool)])

    assert {"p": {Why.REQUIREMENT_CONFLICT}} == answer.unplaced


@pytest.mark.case("SCH-35")
@pytest.mark.parametrize(
    ("held", "label"),
    [
        pytest.param(k("Lt", "1"), "0", id="the only integer below one"),
        pytest.param(k("DoesNotExist"), None, id="a label that must not be is not"),
        pytest.param(k("NotIn", "0", "1"), "2", id="an integer that is not excluded"),
    ],
)
def test_a_label_is_made_up_where_any_will_do(
    held: NodeSelectorRequirement, label: str | None
) -> None:
    answer = solved([pod()], pools=[node_pool(requirements=[held])])

    assert label == answer.only.labels.get("k")


@pytest.mark.parametrize(
    ("wanted", "unplaced"),
    [
        pytest.param(
            expression(keys.ZONE, "In", "z1"), {}, id="SCH-36 a well-known label is known"
        ),
        pytest.param(
            k("Exists"), {"p": {Why.UNDEFINED_LABEL}}, id="SCH-37 a custom label must be defined"
        ),
        pytest.param(k("NotIn", "x"), {}, id="SCH-38 NotIn is content with no label"),
        pytest.param(k("DoesNotExist"), {}, id="SCH-38 DoesNotExist is content with no label"),
    ],
)
def test_what_a_silent_pool_admits(
    wanted: NodeSelectorRequirement, unplaced: dict[str, set[Why]]
) -> None:
    answer = solved([pod("p", required=[[wanted]])])

    assert unplaced == answer.unplaced


@pytest.mark.case("SCH-36")
def test_a_machine_must_have_even_a_well_known_label() -> None:
    unlabelled = unmanaged_node("unlabelled", zone="")

    answer = solved([pod(node_selector={keys.ZONE: "z1"})], nodes=[unlabelled])

    assert {} == answer.existing
    assert ["z1"] == answer.zones


@pytest.mark.parametrize(
    ("wanted", "existing"),
    [
        pytest.param(k("In", "x"), {}, id="SCH-37 a machine without the label has no value"),
        pytest.param(k("Exists"), {}, id="SCH-37 nor any"),
        pytest.param(k("NotIn", "x"), {"n": ["p"]}, id="SCH-38 but none that is excluded"),
        pytest.param(k("DoesNotExist"), {"n": ["p"]}, id="SCH-38 and none at all"),
    ],
)
def test_what_a_machine_without_the_label_admits(
    wanted: NodeSelectorRequirement, existing: dict[str, list[str]]
) -> None:
    machines = [unmanaged_node("a", labels={"k": "x"}, slots=0), unmanaged_node("n")]

    answer = solved([pod("p", required=[[wanted]])], nodes=machines)

    assert existing == answer.existing


@pytest.mark.case("SCH-39")
def test_a_label_that_is_never_there_goes_with_not_in() -> None:
    answer = solved(
        [pod("p", required=[[k("NotIn", "x")]])],
        pools=[node_pool(requirements=[k("DoesNotExist")])],
    )

    assert ["p"] == answer.placed
    assert "k" not in answer.only.labels


@pytest.mark.case("SCH-42")
def test_old_spellings_of_labels_mean_the_new_ones() -> None:
    answer = solved([pod(node_selector={"failure-domain.beta.kubernetes.io/zone": "z2"})])

    assert ["z2"] == answer.zones
    assert frozenset({"z2"}) == answer.only.requirements[keys.ZONE].values


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        pytest.param(
            "zone",
            f"the pool gives its nodes no label zone; did you mean {keys.ZONE}?",
            id="SCH-43 a name without its domain",
        ),
        pytest.param(
            "node.io/zone",
            f"the pool gives its nodes no label node.io/zone; did you mean {keys.ZONE}?",
            id="SCH-43 a name with another domain",
        ),
        pytest.param(
            "karpenter/nodepool",
            f"the pool gives its nodes no label karpenter/nodepool; did you mean {keys.NODEPOOL}?",
            id="SCH-43 half a domain",
        ),
        pytest.param(
            "core", f"the pool gives its nodes no label core; did you mean {CORES}?", id="a slip"
        ),
        pytest.param(
            "deployment",
            "the pool gives its nodes no label deployment",
            id="SCH-44 nothing is like it",
        ),
    ],
)
def test_an_undefined_label_comes_with_a_hint(asked: str, detail: str) -> None:
    answer = solved([pod("p", node_selector={asked: "x"})])

    assert [detail] == answer.details("p")


@pytest.mark.case("SCH-38")
@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param([k("Exists"), k("NotIn", "x")], id="Exists and NotIn"),
        pytest.param([k("NotIn", "x"), k("Exists")], id="the other way round"),
        pytest.param([k("Gt", "5"), k("NotIn", "7")], id="a bound and NotIn"),
    ],
)
def test_a_label_that_must_be_there_is_not_found_on_a_machine_without_it(
    wanted: list[NodeSelectorRequirement],
) -> None:
    answer = solved([pod("p", required=[wanted])], nodes=[unmanaged_node("n")])

    assert {} == answer.existing
    assert answer.only.labels["k"] not in ("x", "7")


@pytest.mark.case("SCH-59")
def test_a_label_that_must_be_there_is_not_found_on_a_type_without_it() -> None:
    wanted = [expression(SPECIAL, "Exists"), expression(SPECIAL, "NotIn", "rare")]

    answer = solved([pod("p", required=[wanted])], types=ladder(5))

    assert ("it-4",) == answer.only.instance_types
