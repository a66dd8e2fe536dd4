"""Masks of places with room name every place that has room, and few that have none."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import pod
from helpers.solver import question
from karpenter.scheduling.compiled.pod_classes import PodClass
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.packing.room import RoomIndex

QUICK = settings(max_examples=50, deadline=None)

millicores = st.integers(1, 500)


def classes_asking_for(amounts: Sequence[int]) -> list[PodClass]:
    """Classes that differ in the millicores they need."""
    return CompiledProblem(
        question(pod(f"p-{amount}", cpu=f"{amount}m") for amount in amounts)
    ).classes


def steps_over(places: Sequence[int], classes: Sequence[PodClass]) -> RoomIndex:
    """Masks over places with so many millicores and no end of anything else."""

    def having(name: str, amount: int) -> int:
        return sum(1 << n for n, left in enumerate(places) if left >= amount or name != "cpu")

    return RoomIndex(classes, having)


def with_room(places: Sequence[int], amount: int) -> list[int]:
    return [number for number, left in enumerate(places) if left >= amount]


def named(mask: int, places: Sequence[int]) -> list[int]:
    return [number for number in range(len(places)) if mask >> number & 1]


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        pytest.param(100, [0, 1, 2], id="a small pod may go anywhere"),
        pytest.param(600, [0, 1], id="a larger one not to the smallest place"),
        pytest.param(4000, [0], id="the largest only where it just fits"),
    ],
)
def test_places_before_anything_is_placed(amount: int, expected: list[int]) -> None:
    places = [4000, 2000, 500]
    classes = classes_asking_for([100, 600, 4000])
    (asking,) = (c for c in classes if c.requests.cpu == amount)

    found = steps_over(places, classes).perhaps(asking)

    assert expected == named(found, places)


@given(
    st.sets(millicores, min_size=1, max_size=20),
    st.lists(st.integers(0, 600), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), millicores), max_size=20),
)
@QUICK
def test_masks_equal_a_plain_comparison_as_places_fill_up(
    amounts: set[int], places: list[int], taken: list[tuple[int, int]]
) -> None:
    classes = classes_asking_for(sorted(amounts))
    steps = steps_over(places, classes)
    left = list(places)
    for number, amount in taken:
        if number < len(left):
            before, left[number] = left[number], left[number] - amount
            steps.lower(number, "cpu", left[number], before)

    for pod_class in classes:
        found = steps.perhaps(pod_class)

        assert with_room(left, pod_class.requests.cpu) == named(found, left)


def test_with_very_many_amounts_a_place_too_many_is_named_but_none_too_few() -> None:
    places = list(range(0, 1000, 7))
    classes = classes_asking_for(range(1, 1000))
    steps = steps_over(places, classes)

    missing = [
        (pod_class.requests.cpu, set(with_room(places, pod_class.requests.cpu)) - set(found))
        for pod_class in classes
        if (found := named(steps.perhaps(pod_class), places))
    ]

    assert [] == [entry for entry in missing if entry[1]]
