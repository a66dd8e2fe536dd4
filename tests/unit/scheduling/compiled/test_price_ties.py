"""Of two offerings at one price, the one whose price somebody has told comes first."""

from dataclasses import replace

from helpers.builders import instance_type
from karpenter.cloud.types import InstanceType
from karpenter.scheduling.compiled.offerings import OfferingIndex


def guessed(kind: InstanceType) -> InstanceType:
    ways = (replace(each, is_estimate=True) for each in kind.offerings)
    return kind.with_offerings(tuple(ways))


def test_a_price_that_nobody_has_told_wins_no_tie() -> None:
    # larger, and so the better of the two at the same price were both known
    guess = guessed(instance_type("a-guess", cpu="8", price=0.4))
    known = instance_type("known", cpu="4", price=0.4)

    universe = OfferingIndex((guess, known))

    first = universe.type_names[universe.type_of[universe.cheapest_bit(universe.all_bits)]]
    assert "known" == first


def test_a_lower_estimate_still_is_the_cheapest() -> None:
    guess = guessed(instance_type("a-guess", cpu="8", price=0.3))
    known = instance_type("known", cpu="4", price=0.4)

    universe = OfferingIndex((guess, known))

    first = universe.type_names[universe.type_of[universe.cheapest_bit(universe.all_bits)]]
    assert "a-guess" == first
