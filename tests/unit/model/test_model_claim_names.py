"""What claims are called."""

import random

import pytest

from karpenter.controllers.provisioning.claim_bodies import draw_name
from karpenter.model.claim_names import SUFFIX_LENGTH, SUFFIX_LETTERS, planned_name


@pytest.mark.parametrize("pool", ["general", "p" * 57, "p" * 58, "p" * 200])
def test_a_planned_name_has_the_form_of_a_drawn_one(pool: str) -> None:
    planned, drawn = planned_name(pool, ("a", "b")), draw_name(pool, random.Random(1))

    assert planned[:-SUFFIX_LENGTH] == drawn[:-SUFFIX_LENGTH] == f"{pool}-"[:58]
    assert set(planned[-SUFFIX_LENGTH:] + drawn[-SUFFIX_LENGTH:]) <= set(SUFFIX_LETTERS)


def test_the_same_pods_of_the_same_pool_get_the_same_name_again() -> None:
    assert planned_name("general", ("a", "b")) == planned_name("general", ("a", "b"))
    others = [("general", ("b", "a")), ("general", ("a",)), ("generous", ("a", "b"))]
    assert 4 == len({planned_name("general", ("a", "b")), *(planned_name(*o) for o in others)})
