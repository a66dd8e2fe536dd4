"""The smallest part of what went wrong that breaks the same."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from karpenter.simulate.shrink import Budget, smallest


@given(st.sets(st.integers(0, 59), max_size=4))
def test_what_is_needed_is_left_and_nothing_else(needed: set[int]) -> None:
    found = smallest(range(60), lambda part: needed <= set(part), Budget(2000))

    assert sorted(needed) == found


def test_a_budget_ends_the_search_with_what_was_found() -> None:
    asked = 0

    def breaks(part: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        return {3, 50} <= set(part)

    found = smallest(range(60), breaks, Budget(8))

    assert asked <= 8
    assert {3, 50} <= set(found)


def test_what_breaks_by_itself_needs_nothing() -> None:
    assert [] == smallest(range(60), lambda part: True, Budget(5))
