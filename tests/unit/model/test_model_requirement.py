"""One requirement is a set of label values; the eight operators are ways to write one."""

from random import Random

import pytest

from karpenter.api.karpenter import NodeRequirement
from karpenter.model.requirement import (
    Requirement,
    RequirementError,
    parse_integer,
    requirement,
)

LARGEST = 2**63 - 1
SMALLEST = -(2**63)


def req(text: str, min_values: int | None = None) -> Requirement:
    """Read ``"In a b"`` or ``"Gt 1"`` as a requirement on the key ``k``."""
    operator, *values = text.split()
    return requirement("k", operator, values, min_values)


def bounded(gte: int | None = None, lte: int | None = None, *excluded: str) -> Requirement:
    return Requirement("k", complement=True, values=frozenset(excluded), gte=gte, lte=lte)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("In a b", Requirement("k", False, frozenset({"a", "b"})), id="In"),
        pytest.param("NotIn a b", Requirement("k", True, frozenset({"a", "b"})), id="NotIn"),
        pytest.param("Exists", Requirement("k", True), id="Exists"),
        pytest.param("DoesNotExist", Requirement("k", False), id="DoesNotExist"),
        pytest.param("Gt 1", bounded(gte=2), id="Gt"),
        pytest.param("Gte 1", bounded(gte=1), id="Gte"),
        pytest.param("Lt 1", bounded(lte=0), id="Lt"),
        pytest.param("Lte 1", bounded(lte=1), id="Lte"),
        pytest.param("In", Requirement("k", False), id="an empty In is DoesNotExist"),
        pytest.param("NotIn", Requirement("k", True), id="an empty NotIn is Exists"),
        pytest.param("Exists a", Requirement("k", True), id="Exists ignores values"),
        pytest.param(f"Gt {LARGEST}", Requirement("k", False), id="Gt the largest integer"),
        pytest.param(f"Gte {LARGEST}", bounded(gte=LARGEST), id="Gte the largest integer"),
        pytest.param(f"Lt {SMALLEST}", Requirement("k", False), id="Lt the smallest integer"),
        pytest.param("Gt +007", bounded(gte=8), id="integers may have a sign and zeros"),
        pytest.param("Gt -3", bounded(gte=-2), id="integers may be negative"),
    ],
)
def test_every_operator_is_a_set(text: str, expected: Requirement) -> None:
    assert expected == req(text)


@pytest.mark.parametrize(
    ("operator", "values", "reason"),
    [
        pytest.param("Gt", [], "k Gt needs exactly one integer", id="Gt without a value"),
        pytest.param("Gt", ["1", "2"], "exactly one integer", id="Gt with two values"),
        pytest.param("Lt", ["a"], "exactly one integer", id="Lt a word"),
        pytest.param("Lte", ["1.5"], "exactly one integer", id="Lte a fraction"),
        pytest.param("Gte", [str(LARGEST + 1)], "exactly one integer", id="more than 64 bits"),
        pytest.param("in", ["a"], "operator 'in' of k is unknown; use one of In", id="lower case"),
        pytest.param("", [], "unknown", id="no operator"),
    ],
)
def test_senseless_requirements_are_refused(operator: str, values: list[str], reason: str) -> None:
    with pytest.raises(RequirementError, match=reason):
        requirement("k", operator, values)


@pytest.mark.parametrize(
    ("expected", "operator"),
    [
        (req("In a"), "In"),
        (req("NotIn a"), "NotIn"),
        (req("Exists"), "Exists"),
        (req("DoesNotExist"), "DoesNotExist"),
        (bounded(gte=1, lte=5), "Exists"),
        (bounded(1, 5, "3"), "NotIn"),
    ],
    ids=str,
)
def test_the_operator_is_derived_from_the_set(expected: Requirement, operator: str) -> None:
    assert operator == expected.operator


def test_keys_get_their_stable_spelling() -> None:
    built = requirement("failure-domain.beta.kubernetes.io/zone", "In", ["z2"])

    assert requirement("topology.kubernetes.io/zone", "In", ["z2"]) == built


def test_a_provider_may_rewrite_values_of_a_key() -> None:
    rewrites = {"kubernetes.io/arch": {"": "0", "x86": "amd64"}}

    built = requirement("beta.kubernetes.io/arch", "In", ["", "x86", "arm64"], rewrites=rewrites)

    assert frozenset({"0", "amd64", "arm64"}) == built.values


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(req("Exists"), req("In A"), req("In A"), id="SCH-23 Exists and In"),
        pytest.param(req("In A B"), req("NotIn A"), req("In B"), id="SCH-24 In and NotIn"),
        pytest.param(req("NotIn A"), req("NotIn 1 2"), req("NotIn 1 2 A"), id="SCH-25 NotIn twice"),
        pytest.param(
            req("In A"), req("Gt 1"), req("DoesNotExist"), id="SCH-26 a word has no bounds"
        ),
        pytest.param(
            req("In 1 9"), req("Lt 9"), req("In 1"), id="SCH-27 concrete sets lose bounds"
        ),
        pytest.param(
            req("NotIn 1 2"), req("Gt 1"), bounded(2, None, "2"), id="SCH-28 exclusions are pruned"
        ),
        pytest.param(req("Gt 1"), req("Lt 9"), bounded(2, 8), id="SCH-29 both bounds"),
        pytest.param(req("Gt 9"), req("Lt 1"), req("DoesNotExist"), id="SCH-30 bounds cross"),
        pytest.param(req("Gt 4"), req("Gte 5"), bounded(5), id="SCH-31 the same bound twice"),
        pytest.param(req("Gt 5"), req("Gte 5"), bounded(6), id="SCH-32 the tighter bound"),
        pytest.param(req("Lt 5"), req("Lte 5"), bounded(None, 4), id="the tighter upper bound"),
        pytest.param(
            req("In A B", 2), req("Exists", 1), req("In A B", 2), id="SCH-33 the larger minValues"
        ),
        pytest.param(
            req("Gt 9", 3), req("Lt 1"), req("DoesNotExist", 3), id="crossed bounds keep minValues"
        ),
        pytest.param(req("In A"), req("In B"), req("DoesNotExist"), id="nothing in common"),
        pytest.param(req("In A"), req("DoesNotExist"), req("DoesNotExist"), id="absence wins"),
        pytest.param(req("NotIn A"), req("Lt 9"), bounded(None, 8), id="a word is out of bounds"),
        pytest.param(
            bounded(2, 2), req("NotIn 2"), bounded(2, 2, "2"), id="an empty interval is not noticed"
        ),
    ],
)
def test_intersection(left: Requirement, right: Requirement, expected: Requirement) -> None:
    assert expected == left.intersection(right)
    assert expected == right.intersection(left)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        pytest.param(req("In A B"), req("In B C"), True, id="a value in common"),
        pytest.param(req("In A"), req("In B"), False, id="no value in common"),
        pytest.param(req("In A"), req("NotIn A"), False, id="the only value is excluded"),
        pytest.param(req("In A B"), req("NotIn A"), True, id="one value is left"),
        pytest.param(req("In A"), req("DoesNotExist"), False, id="nothing is in nothing"),
        pytest.param(req("Exists"), req("DoesNotExist"), False, id="presence and absence"),
        pytest.param(req("In 1 9"), req("Gt 8"), True, id="one value within the bounds"),
        pytest.param(req("In 1 A"), req("Gt 8"), False, id="no value within the bounds"),
        pytest.param(req("Gt 1"), req("Lt 9"), True, id="bounds overlap"),
        pytest.param(req("Gt 9"), req("Lt 1"), False, id="bounds cross"),
        pytest.param(req("Gt 1"), req("Lt 2"), False, id="no integer between the bounds"),
        pytest.param(req("NotIn A"), req("NotIn B"), True, id="two complements always meet"),
        pytest.param(
            bounded(2, 2), req("NotIn 2"), True, id="even if the only integer is excluded"
        ),
    ],
)
def test_has_intersection(left: Requirement, right: Requirement, expected: bool) -> None:
    assert expected is left.has_intersection(right)
    assert expected is right.has_intersection(left)


@pytest.mark.parametrize(
    ("held", "value", "expected"),
    [
        pytest.param(req("Gte 0"), "A", False, id="SCH-34 a word is outside any bound"),
        pytest.param(req("Gte 0"), "-1", False, id="SCH-34 below the bound"),
        pytest.param(req("Gte 0"), "0", True, id="on the lower bound"),
        pytest.param(req("Lte 9"), "9", True, id="on the upper bound"),
        pytest.param(req("Lte 9"), "10", False, id="above the bound"),
        pytest.param(req("Gte 0"), "1_0", False, id="digit groups are not Go's integers"),
        pytest.param(req("Gte 0"), " 1", False, id="blanks are not Go's integers"),
        pytest.param(req("Gte 0"), str(2**63), False, id="more than 64 bits is no integer"),
        pytest.param(req("Gte 5"), "+007", True, id="sign and zeros are fine"),
        pytest.param(req("In a"), "a", True, id="in a concrete set"),
        pytest.param(req("In a"), "b", False, id="not in a concrete set"),
        pytest.param(req("NotIn a"), "a", False, id="excluded"),
        pytest.param(req("NotIn a"), "b", True, id="not excluded"),
        pytest.param(req("Exists"), "", True, id="an empty value exists"),
        pytest.param(req("DoesNotExist"), "", False, id="absence has no value"),
    ],
)
def test_has(held: Requirement, value: str, expected: bool) -> None:
    assert expected is held.has(value)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+12", 12),
        (str(LARGEST), LARGEST),
        (str(SMALLEST), SMALLEST),
        (str(LARGEST + 1), None),
        (str(SMALLEST - 1), None),
        ("", None),
        ("+", None),
        ("1.0", None),
        ("0x1", None),
        ("1 ", None),
        ("\u0661", None),
        ("9" * 5000, None),
    ],
    ids=repr,
)
def test_integers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert number == parse_integer(text)


@pytest.mark.parametrize(
    ("held", "chosen"),
    [
        pytest.param(req("Lt 1"), "0", id="SCH-35 the only integer"),
        pytest.param(req("DoesNotExist"), "", id="SCH-35 absence"),
        pytest.param(req("NotIn 0 1 2"), "3", id="SCH-35 an integer that is not excluded"),
        pytest.param(req("In b a"), "a", id="the first value"),
        pytest.param(req("Exists"), "0", id="integers start at zero"),
        pytest.param(req("Gt 5"), "6", id="or at the lower bound"),
        pytest.param(req("Lt -3"), "-4", id="or below zero when they must"),
        pytest.param(bounded(2, 4, "2", "3"), "4", id="what is left between the bounds"),
        pytest.param(bounded(2, 2, "2"), "", id="nothing is left between the bounds"),
        pytest.param(req("NotIn 00"), "0", id="excluded text that only looks like the integer"),
    ],
)
def test_any_takes_the_first_choice(held: Requirement, chosen: str) -> None:
    assert chosen == held.any()


@pytest.mark.parametrize(
    "held",
    [req("In a b c"), req("NotIn 1 2"), req("Exists"), req("Gt 5"), bounded(1, 9, "3", "4", "9")],
    ids=str,
)
def test_any_with_a_random_chooser_stays_in_the_set(held: Requirement) -> None:
    chosen = {held.any(Random(seed).randrange) for seed in range(50)}

    assert len(chosen) > 1
    assert all(held.has(value) for value in chosen)


def test_any_reaches_every_choice() -> None:
    held = bounded(1, 6, "2", "5")
    indices = iter(range(4))

    chosen = [held.any(lambda _choices: next(indices)) for _ in range(4)]

    assert chosen == ["1", "3", "4", "6"]


def entry(operator: str, *values: str, min_values: int | None = None) -> NodeRequirement:
    return NodeRequirement(key="k", operator=operator, values=values, min_values=min_values)


@pytest.mark.parametrize(
    ("held", "entries"),
    [
        pytest.param(req("In b a"), [entry("In", "a", "b")], id="values are sorted"),
        pytest.param(req("NotIn b a"), [entry("NotIn", "a", "b")], id="exclusions are sorted"),
        pytest.param(req("Exists"), [entry("Exists")], id="Exists"),
        pytest.param(req("DoesNotExist"), [entry("DoesNotExist")], id="DoesNotExist"),
        pytest.param(req("Gt 1"), [entry("Gte", "2")], id="Gt appears as Gte"),
        pytest.param(req("Lt 9"), [entry("Lte", "8")], id="Lt appears as Lte"),
        pytest.param(
            bounded(2, 8), [entry("Gte", "2"), entry("Lte", "8")], id="SCH-29 two entries"
        ),
        pytest.param(
            req("Gt 4").intersection(req("Gte 5")), [entry("Gte", "5")], id="SCH-31 a single entry"
        ),
        pytest.param(bounded(2, None, "3"), [entry("Gte", "2")], id="exclusions yield to bounds"),
        pytest.param(
            Requirement("k", gte=2, lte=8, min_values=3),
            [entry("Gte", "2", min_values=3), entry("Lte", "8", min_values=3)],
            id="minValues is copied on each",
        ),
        pytest.param(req("In a", 1), [entry("In", "a", min_values=1)], id="minValues on In"),
    ],
)
def test_wire_entries(held: Requirement, entries: list[NodeRequirement]) -> None:
    assert entries == held.to_wire()


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (req("In b a"), "k In [a b]"),
        (req("NotIn a"), "k NotIn [a]"),
        (req("Exists"), "k Exists"),
        (req("DoesNotExist"), "k DoesNotExist"),
        (bounded(2, 8), "k Exists >=2 <=8"),
        (bounded(2, None, "3"), "k NotIn [3] >=2"),
        (req("In a b", 2), "k In [a b] minValues 2"),
        (req("In a b c d e f g"), "k In [a b c d e and 2 others]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_printed_form(held: Requirement, text: str) -> None:
    assert text == str(held)


def test_equal_requirements_hash_alike() -> None:
    assert {req("In a b")} == {req("In b a"), req("In a b").intersection(req("Exists"))}


@pytest.mark.parametrize(
    ("left", "right", "optional"),
    [
        pytest.param("NotIn a", "NotIn b", True, id="what is merely excluded may be absent"),
        pytest.param("NotIn a", "Exists", False, id="Exists is not lost beside NotIn"),
        pytest.param("NotIn 7", "Gt 5", False, id="nor is a bound that needs a value"),
        pytest.param("In a", "NotIn a", True, id="no value left stands for no label"),
    ],
)
def test_absence_is_allowed_only_where_both_allow_it(left: str, right: str, optional: bool) -> None:
    assert optional == req(left).intersection(req(right)).allows_absence
    assert optional == req(right).intersection(req(left)).allows_absence


def test_exists_outlasts_further_narrowing() -> None:
    narrowed = req("Exists").intersection(req("NotIn a")).intersection(req("NotIn b"))

    assert not narrowed.allows_absence
    assert "k Exists NotIn [a b]" == str(narrowed)
    assert [
        NodeRequirement(key="k", operator="Exists"),
        NodeRequirement(key="k", operator="NotIn", values=("a", "b")),
    ] == narrowed.to_wire()
