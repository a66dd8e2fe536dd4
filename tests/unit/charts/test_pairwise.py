"""Every two choices occur together in some combination, and there are few of these."""

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from helpers.pairwise import pairs_of, pairwise

CHOICES = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.integers(0, 3), min_size=1, unique=True), min_size=2
)


@given(CHOICES)
def test_every_two_choices_occur_together(choices: dict[str, list[int]]) -> None:
    rows = pairwise(choices)

    seen = {pair for row in rows for pair in pairs_of(row)}
    assert all(row.keys() == choices.keys() for row in rows)
    assert seen == {
        frozenset({(first, one), (second, two)})
        for first, second in combinations(choices, 2)
        for one, two in product(choices[first], choices[second])
    }


def test_there_are_few_combinations() -> None:
    rows = pairwise({f"value{number}": (False, True) for number in range(30)})

    assert len(rows) <= 16
