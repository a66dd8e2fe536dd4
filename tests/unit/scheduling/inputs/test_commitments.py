"""Commitments that are not counted on, each with the reason, and what the others mean."""

from datetime import timedelta

import msgspec
import pytest

from helpers.builders import (
    NOW,
    book_of,
    priced_type,
    reserved_instances,
    savings_plan,
)
from karpenter.api.karpenter import Commitment, NodeRequirement
from karpenter.model import labels as keys
from karpenter.scheduling.inputs.commitments import (
    declared_over,
    read_commitments,
    unmatched,
)

L = priced_type("l", 8, 0.36)
A_DAY = timedelta(days=1)


def changed(commitment: Commitment, **spec: object) -> Commitment:
    return msgspec.structs.replace(
        commitment, spec=msgspec.structs.replace(commitment.spec, **spec)
    )


def problem_of(commitment: Commitment) -> tuple[str, str]:
    terms, refused = read_commitments([commitment], now=NOW)
    assert [] == terms
    (only,) = refused
    return only.reason, only.detail


@pytest.mark.case("OPT-52")
def test_one_that_has_expired_covers_nothing() -> None:
    past = savings_plan("plan", "1", expires=NOW - A_DAY)

    assert ("Expired", "it expired at 2026-07-31T12:00:00Z") == problem_of(past)


@pytest.mark.case("OPT-52")
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"hourly": "much"}, "spec.hourly"),
        ({"instances": 3}, "exactly one quantity"),
        ({"hourly": None}, "exactly one quantity"),
        ({"share": "0%"}, "spec.share"),
        ({"share": "120%"}, "spec.share"),
        ({"discount": "100%"}, "spec.discount"),
        ({"rates": {"l": "1"}}, "exclude each other"),
        ({"discount": None}, "needs discount or rates"),
        ({"type": "ReservedInstance"}, "a SavingsPlan states hourly"),
        (
            {"requirements": (NodeRequirement(keys.CAPACITY_TYPE, "In", (keys.SPOT,)),)},
            "on-demand machines alone",
        ),
        (
            {
                "requirements": (
                    NodeRequirement(keys.ARCH, "In", ("amd64",)),
                    NodeRequirement(keys.ARCH, "In", ("arm64",)),
                )
            },
            "those on kubernetes.io/arch contradict each other",
        ),
    ],
)
def test_one_that_was_stored_without_the_rules_is_left_out(
    spec: dict[str, object], said: str
) -> None:
    reason, detail = problem_of(changed(savings_plan("plan", "1"), **spec))

    assert "Invalid" == reason
    assert said in detail


def test_one_that_nothing_matches_is_pointed_out() -> None:
    book = book_of([savings_plan("plan", "1", types=["nobody-sells-it"])], [L])

    (only,) = unmatched(book)

    assert ("plan", "NoMatchingOfferings") == (only.name, only.reason)


def test_rates_of_unknown_types_are_pointed_out_and_the_others_count() -> None:
    book = book_of([savings_plan("plan", "1", rates={"l": "0.2", "q9.huge": "3"})], [L])

    (only,) = unmatched(book)

    assert "UnknownInstanceTypes" == only.reason
    assert "q9.huge" in only.detail
    assert 1 == book.matched["plan"]


def test_one_that_is_declared_wins_over_one_that_the_cloud_reports() -> None:
    read = [savings_plan("sp-1", "4"), reserved_instances("ri-1", instances=2)]
    own = savings_plan("sp-1", "4", share="50%")

    found = declared_over({"sp-1": own}, read)

    assert ["ri-1", "sp-1"] == sorted(found)
    assert "50%" == found["sp-1"].spec.share
