"""The requirement algebra agrees with plain sets over a finite universe of label values."""

from dataclasses import dataclass
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.model.requirement import Requirement, requirement
from karpenter.model.requirements import Requirements

QUICK = settings(max_examples=80, deadline=None)

INTEGERS = [str(number) for number in range(-3, 13)]
UNIVERSE = frozenset({"", "a", "b", "A", "1a", "+3", "007", "9" * 30, *INTEGERS})
NUMBERS = {"+3": 3, "007": 7, **{text: int(text) for text in INTEGERS}}


@dataclass(frozen=True)
class Written:
    """A requirement as a user writes it, and the values it plainly means."""

    operator: str
    values: tuple[str, ...]
    min_values: int | None = None

    def build(self, key: str = "k") -> Requirement:
        return requirement(key, self.operator, self.values, self.min_values)

    @property
    def meaning(self) -> frozenset[str]:
        match self.operator:
            case "In":
                return frozenset(self.values)
            case "NotIn":
                return UNIVERSE - set(self.values)
            case "Exists":
                return UNIVERSE
            case "DoesNotExist":
                return frozenset()
        lowest, highest = interval([self])
        return frozenset(value for value, n in NUMBERS.items() if lowest <= n <= highest)

    @property
    def is_concrete(self) -> bool:
        return self.operator in {"In", "DoesNotExist"}

    @property
    def allows_absence(self) -> bool:
        """As the API words it: an In or NotIn without values is DoesNotExist or Exists."""
        if self.operator == "In":
            return not self.values
        return self.operator == "DoesNotExist" or (self.operator == "NotIn" and bool(self.values))


def interval(parts: list[Written]) -> tuple[int, int]:
    """The tightest bounds written, found by looking rather than by the algebra."""
    lowest, highest = -(2**63), 2**63 - 1
    for part in parts:
        match part.operator, part.values:
            case "Gt", (limit,):
                lowest = max(lowest, int(limit) + 1)
            case "Gte", (limit,):
                lowest = max(lowest, int(limit))
            case "Lt", (limit,):
                highest = min(highest, int(limit) - 1)
            case "Lte", (limit,):
                highest = min(highest, int(limit))
    return lowest, highest


counts = st.none() | st.integers(1, 5)
written = st.one_of(
    st.builds(
        Written,
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(sorted(UNIVERSE)), max_size=4).map(tuple),
        counts,
    ),
    st.builds(Written, st.sampled_from(["Exists", "DoesNotExist"]), st.just(()), counts),
    st.builds(
        Written,
        st.sampled_from(["Gt", "Lt", "Gte", "Lte"]),
        st.tuples(st.sampled_from(INTEGERS)),
        counts,
    ),
)
several = st.lists(written, min_size=1, max_size=5)
collections = st.dictionaries(st.sampled_from(["k", "l", "m"]), written, max_size=3)


def members(held: Requirement) -> frozenset[str]:
    return frozenset(value for value in UNIVERSE if held.has(value))


def combine(parts: list[Written]) -> Requirement:
    (combined,) = Requirements(part.build() for part in parts)
    return combined


@QUICK
@given(several)
def test_narrowing_is_set_intersection(parts: list[Written]) -> None:
    expected = frozenset.intersection(*(part.meaning for part in parts))

    assert expected == members(combine(parts))


@QUICK
@given(several)
def test_min_values_is_the_largest_asked_for(parts: list[Written]) -> None:
    asked = [part.min_values for part in parts if part.min_values is not None]

    assert max(asked, default=None) == combine(parts).min_values


@QUICK
@given(several, st.randoms(use_true_random=False))
def test_the_order_of_narrowing_does_not_matter(parts: list[Written], random: Random) -> None:
    shuffled = random.sample(parts, len(parts))

    assert combine(parts) == combine(shuffled)


@QUICK
@given(several, several, several)
def test_intersection_is_associative(
    first: list[Written], second: list[Written], third: list[Written]
) -> None:
    a, b, c = combine(first), combine(second), combine(third)

    assert a.intersection(b).intersection(c) == a.intersection(b.intersection(c))


@QUICK
@given(several)
def test_intersection_is_idempotent(parts: list[Written]) -> None:
    held = combine(parts)

    assert held == held.intersection(held)


@QUICK
@given(several, several)
def test_has_intersection_agrees_with_sets(left: list[Written], right: list[Written]) -> None:
    both = [*left, *right]
    shared = frozenset.intersection(*(part.meaning for part in both))
    lowest, highest = interval(both)
    # between two complements only the bounds are looked at, as documented
    expected = bool(shared) if any(part.is_concrete for part in both) else lowest <= highest

    actual = combine(left).has_intersection(combine(right))

    assert expected is actual


@QUICK
@given(several)
def test_writing_and_reading_is_stable(parts: list[Written]) -> None:
    entries = Requirements([combine(parts)]).to_wire()

    read = Requirements.from_wire(entries)

    assert entries == read.to_wire()
    assert members(combine(parts)) <= members(read["k"])


@QUICK
@given(several)
def test_only_exclusions_within_bounds_are_lost_on_the_wire(parts: list[Written]) -> None:
    held = combine(parts)
    is_bounded = held.gte is not None or held.lte is not None

    read = Requirements.from_wire(held.to_wire())["k"]

    assert (held == read) is not (is_bounded and bool(held.values))


@QUICK
@given(several, st.randoms(use_true_random=False))
def test_any_finds_a_member_wherever_there_is_one(parts: list[Written], random: Random) -> None:
    held = combine(parts)

    for chosen in (held.any(), held.any(random.randrange)):
        assert held.has(chosen) is not is_exhausted(held)


def is_exhausted(held: Requirement) -> bool:
    if not held.complement:
        return not held.values
    if held.lte is None:
        return False
    lowest = min(0, held.lte) if held.gte is None else held.gte
    return all(str(number) in held.values for number in range(lowest, held.lte + 1))


@QUICK
@given(collections, collections, st.sets(st.sampled_from(["k", "l", "m"])))
def test_compatibility_agrees_with_its_definition(
    node: dict[str, Written], pod: dict[str, Written], known: set[str]
) -> None:
    def go_together(key: str) -> bool:
        held, wanted = node[key], pod[key]
        if held.allows_absence and wanted.allows_absence:
            return True
        if held.is_concrete or wanted.is_concrete:
            return bool(held.meaning & wanted.meaning)
        lowest, highest = interval([held, wanted])
        return lowest <= highest

    shared = all(go_together(key) for key in node.keys() & pod.keys())
    defined = all(
        wanted.allows_absence for key, wanted in pod.items() if key not in node.keys() | known
    )
    a = Requirements(part.build(key) for key, part in node.items())
    b = Requirements(part.build(key) for key, part in pod.items())

    assert shared is a.intersects(b)
    assert (shared and defined) is a.is_compatible(b, frozenset(known))
