"""Collections of requirements: narrowing, compatibility with a reason, and the wire."""

import pytest

from karpenter.api.karpenter import NodeRequirement
from karpenter.api.node_classes import ec2_labels
from karpenter.api.selectors import NodeSelectorRequirement
from karpenter.model import labels
from karpenter.model.requirement import RequirementError, requirement
from karpenter.model.requirements import Incompatibility, Requirements

WELL_KNOWN = labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN
NOTHING = Requirements()


def reqs(*texts: str) -> Requirements:
    """Read ``"zone In a b"`` lines; ``zone`` stands for the topology label."""
    built = []
    for text in texts:
        key, operator, *values = text.split()
        built.append(requirement(labels.ZONE if key == "zone" else key, operator, values))
    return Requirements(built)


def test_a_key_nobody_mentions_may_have_any_value() -> None:
    assert requirement("k", "Exists") == NOTHING["k"]
    assert NOTHING.get("k") is None


def test_requirements_for_the_same_key_are_intersected() -> None:
    narrowed = reqs("k In a b", "other Exists", "k NotIn a")

    assert requirement("k", "In", ["b"]) == narrowed["k"]
    assert list(narrowed.keys()) == ["k", "other"]
    assert len(narrowed) == 2


def test_narrowing_leaves_the_original_as_it_was() -> None:
    original = reqs("k In a b")

    narrowed = original & reqs("k In b", "x Exists")

    assert reqs("k In b", "x Exists") == narrowed
    assert reqs("k In a b") == original


def test_labels_become_requirements() -> None:
    labelled = Requirements.from_labels({"a": "1", "failure-domain.beta.kubernetes.io/zone": "z2"})

    assert reqs("a In 1", "zone In z2") == labelled


def test_entries_of_pods_and_pools_are_read() -> None:
    read = Requirements.from_wire(
        [
            NodeRequirement(key="k", operator="In", values=("a", "b"), min_values=2),
            NodeSelectorRequirement(key="k", operator="NotIn", values=("c",)),
            NodeSelectorRequirement(key="n", operator="Gt", values=("1",)),
        ]
    )

    assert Requirements([requirement("k", "In", ["a", "b"], 2), requirement("n", "Gt", ["1"])]) == (
        read
    )


def test_a_senseless_entry_is_refused() -> None:
    with pytest.raises(RequirementError, match="n Gt needs exactly one integer"):
        Requirements.from_wire([NodeSelectorRequirement(key="n", operator="Gt", values=("a",))])


def test_entries_are_written_sorted_by_key() -> None:
    written = reqs("z In b a", "a Exists", "m Gt 1", "m Lt 9").to_wire()

    assert [
        NodeRequirement(key="a", operator="Exists"),
        NodeRequirement(key="m", operator="Gte", values=("2",)),
        NodeRequirement(key="m", operator="Lte", values=("8",)),
        NodeRequirement(key="z", operator="In", values=("a", "b")),
    ] == written


@pytest.mark.parametrize(
    ("node", "pod", "allow_undefined", "compatible"),
    [
        pytest.param(
            NOTHING, reqs("zone In a"), WELL_KNOWN, True, id="SCH-36 well-known is allowed"
        ),
        pytest.param(NOTHING, reqs("zone In a"), frozenset(), False, id="SCH-36 strict"),
        pytest.param(
            NOTHING, reqs("c Exists"), WELL_KNOWN, False, id="SCH-37 a custom key must be"
        ),
        pytest.param(NOTHING, reqs("c In x"), WELL_KNOWN, False, id="a custom In must be defined"),
        pytest.param(NOTHING, reqs("c Gt 1"), WELL_KNOWN, False, id="a custom Gt must be defined"),
        pytest.param(NOTHING, reqs("c Lt 1"), WELL_KNOWN, False, id="a custom Lt must be defined"),
        pytest.param(
            NOTHING, reqs("c NotIn x"), WELL_KNOWN, True, id="SCH-38 NotIn allows absence"
        ),
        pytest.param(NOTHING, reqs("c DoesNotExist"), WELL_KNOWN, True, id="SCH-38 absence"),
        pytest.param(reqs("k DoesNotExist"), reqs("k NotIn x"), frozenset(), True, id="SCH-39"),
        pytest.param(reqs("k DoesNotExist"), reqs("k DoesNotExist"), frozenset(), True, id="both"),
        pytest.param(reqs("k Exists"), reqs("k DoesNotExist"), frozenset(), False, id="SCH-40"),
        pytest.param(reqs("k In A"), reqs("k NotIn A"), frozenset(), False, id="SCH-41"),
        pytest.param(reqs("k In A"), reqs("k In A B"), frozenset(), True, id="a value in common"),
        pytest.param(reqs("k In A"), reqs("k In B"), frozenset(), False, id="nothing in common"),
        pytest.param(reqs("k In A"), NOTHING, frozenset(), True, id="the pod does not care"),
        pytest.param(
            reqs("zone In a"), reqs("zone In b"), WELL_KNOWN, False, id="well-known may conflict"
        ),
        pytest.param(
            reqs("k NotIn x"), reqs("k DoesNotExist"), frozenset(), True, id="excluded or absent"
        ),
        pytest.param(
            reqs("k DoesNotExist"), reqs("k Exists"), frozenset(), False, id="absent but needed"
        ),
    ],
)
def test_compatibility(
    node: Requirements, pod: Requirements, allow_undefined: frozenset[str], compatible: bool
) -> None:
    assert compatible is node.is_compatible(pod, allow_undefined)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(reqs("a In 1"), reqs("b In 1"), True, id="undefined keys are fine"),
        pytest.param(reqs("a In 1"), reqs("a In 2"), False, id="a key of both must agree"),
        pytest.param(reqs("a In 1"), reqs("a Exists"), True, id="a key of both agrees"),
        pytest.param(reqs("a DoesNotExist"), reqs("a NotIn 1"), True, id="both allow absence"),
        pytest.param(reqs("a DoesNotExist"), reqs("a Gt 1"), False, id="a bound needs a value"),
        pytest.param(NOTHING, NOTHING, True, id="nothing and nothing"),
    ],
)
def test_intersects_looks_only_at_shared_keys(
    left: Requirements, right: Requirements, expected: bool
) -> None:
    assert expected is left.intersects(right)
    assert expected is right.intersects(left)


def why(
    node: Requirements, pod: Requirements, allow: frozenset[str] = frozenset()
) -> Incompatibility:
    reason = node.incompatibility(pod, allow)
    assert reason is not None
    return reason


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        pytest.param("node.io/zone", labels.ZONE, id="SCH-43 a wrong domain"),
        pytest.param("karpenter/nodepool", labels.NODEPOOL, id="SCH-43 half a domain"),
        pytest.param("deployment", None, id="SCH-44 nothing like it"),
        pytest.param("team", "example.com/team", id="a label of the pool"),
    ],
)
def test_an_undefined_label_comes_with_a_hint(key: str, hint: str | None) -> None:
    reason = why(reqs("example.com/team In a"), reqs(f"{key} Exists"), WELL_KNOWN)

    assert (key, None, hint) == (reason.key, reason.own, reason.hint)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        pytest.param(
            why(NOTHING, reqs("node.io/zone In a"), WELL_KNOWN),
            "label node.io/zone has no known values; did you mean topology.kubernetes.io/zone?",
            id="undefined with a hint",
        ),
        pytest.param(
            why(NOTHING, reqs("deployment In a"), WELL_KNOWN),
            "label deployment has no known values",
            id="undefined without a hint",
        ),
        pytest.param(
            why(reqs("k In a"), reqs("k In b c")),
            "k In [b c] conflicts with k In [a]",
            id="both sides of a conflict",
        ),
    ],
)
def test_reasons_are_readable(reason: Incompatibility, text: str) -> None:
    assert text == str(reason)


def test_an_undefined_label_is_reported_before_a_conflict() -> None:
    reason = why(reqs("k In a"), reqs("k In b", "x Exists"))

    assert reason.key == "x"


def test_a_conflict_has_no_hint() -> None:
    assert why(reqs("k In a"), reqs("k In b")).hint is None


def test_equal_collections_are_equal_in_any_order() -> None:
    left, right = reqs("a In 1", "b Exists"), reqs("b Exists", "a In 1")

    assert left == right
    assert hash(left) == hash(right)
    assert left != [*left]


def test_collections_are_printed_by_key() -> None:
    assert str(reqs("b Exists", "a In 1")) == "a In [1], b Exists"
    assert repr(reqs("a In 1")) == "Requirements(a In [1])"
