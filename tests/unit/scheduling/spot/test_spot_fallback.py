"""What is kept on claims that fell back to on-demand, and how long they wait."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec
import pytest

from helpers.builders import NOW, node_claim, node_pool, offering, pod, priced_type
from helpers.solver import solved
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.cloud.types import InstanceType
from karpenter.controllers.lifecycle.launch import with_fallback
from karpenter.model import labels as keys
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.scheduling.spot.fallback import (
    MOST_TYPES,
    RETURN_TO_SPOT,
    OnSale,
    failed_return,
    followed,
    invalid_return,
    on_sale_of,
    return_of,
    return_wait,
    types_on_sale,
)

MINUTE: Final = timedelta(minutes=1)


def names(count: int) -> list[str]:
    return [f"t{number:02}" for number in range(count)]


def waiting(text: str = "30m") -> NodePool:
    made = node_pool()
    metadata = msgspec.structs.replace(made.metadata, annotations={RETURN_TO_SPOT: text})
    return msgspec.structs.replace(made, metadata=metadata)


def fallen(held: Mapping[str, str | None] | None = None) -> NodeClaim:
    given = {keys.FELL_BACK: "2026-01-01T00:00:00Z", **(held or {})}
    annotations = {key: text for key, text in given.items() if text is not None}
    return node_claim("n", annotations=annotations)


def test_what_is_sold_out_for_a_moment_drops_off() -> None:
    first = followed(None, names(17), NOW)
    assert first is not None
    second = followed(first, [*names(16), "new"], NOW + MINUTE)
    third = followed(second, [*names(17), "new"], NOW + 2 * MINUTE)

    assert OnSale(NOW, tuple(names(16))) == second == third


def test_counting_begins_anew_where_too_few_are_left() -> None:
    first = followed(None, names(15), NOW)

    assert OnSale(NOW + MINUTE, tuple(names(30)[1:])) == followed(
        first, names(30)[1:], NOW + MINUTE
    )
    assert followed(first, names(14), NOW + MINUTE) is None
    assert followed(None, names(14), NOW) is None


def test_what_is_noted_is_read_again_and_bounded() -> None:
    noted = followed(None, names(90), NOW)
    assert noted is not None

    assert MOST_TYPES == len(noted.types)
    assert noted == on_sale_of({keys.SPOT_ON_SALE: noted.text()})
    assert len(noted.text()) < 1000
    assert on_sale_of({keys.SPOT_ON_SALE: "yesterday a,b"}) is None
    assert on_sale_of({}) is None


@pytest.mark.case("OPT-57")
@pytest.mark.parametrize(
    ("failures", "minutes"), [(None, 30), ("1", 60), ("2", 120), ("9", 360), ("junk", 30)]
)
def test_each_failure_doubles_the_wait_up_to_six_hours(failures: str | None, minutes: int) -> None:
    noted = OnSale(NOW, tuple(names(15))).text()
    claim = fallen({keys.SPOT_ON_SALE: noted, keys.RETURN_FAILED: failures})

    back = return_of(claim, waiting())

    assert back is not None
    assert NOW + minutes * MINUTE == back.due
    assert not back.is_due(NOW + minutes * MINUTE - timedelta(seconds=1))
    assert back.is_due(NOW + minutes * MINUTE)


def test_a_wait_longer_than_six_hours_is_kept() -> None:
    back = return_of(fallen({keys.RETURN_FAILED: "3"}), waiting("8h"))

    assert back is not None
    assert timedelta(hours=8) == back.wait
    assert back.due is None
    assert "once 15 instance types that fit have been on sale for 8h" in back.in_words()


def test_a_failed_return_begins_to_count_anew() -> None:
    held = {keys.RETURN_FAILED: "1", keys.SPOT_ON_SALE: "x"}

    assert {keys.RETURN_FAILED: "2", keys.SPOT_ON_SALE: None} == failed_return(held)


def test_only_claims_that_fell_back_in_pools_that_ask_return() -> None:
    assert return_of(node_claim("n"), waiting()) is None
    assert return_of(fallen(), node_pool()) is None
    assert return_of(fallen(), waiting("Never")) is None


@pytest.mark.parametrize(("text", "is_read"), [("30m", True), ("Never", True), ("soon", False)])
def test_a_wait_that_cannot_be_read_is_named(text: str, is_read: bool) -> None:
    said = invalid_return(waiting(text))

    assert is_read is not bool(said)
    assert all(f"{text!r} is neither a duration such as 30m nor Never" in each for each in said)
    assert (text == "30m") is (return_wait(waiting(text)) is not None)


def sold(name: str, cpu: int, *, spot: float = 0.1, available: bool = True) -> InstanceType:
    ways = [
        offering("z1", keys.ON_DEMAND, 1.0),
        offering("z1", keys.SPOT, spot, available=available),
    ]
    return priced_type(name, cpu, ways=ways)


def test_types_on_sale_are_those_that_fit_and_can_be_bought() -> None:
    types = [
        sold("small", 1),
        sold("dear", 4, spot=0.5),
        sold("cheap", 4, spot=0.2),
        sold("gone", 4, available=False),
    ]
    needs = Resources(cpu=2000)

    assert ["cheap", "dear"] == types_on_sale(types, Requirements(), needs)


def planned(pool: NodePool, *types: InstanceType, **selector: str) -> Mapping[str, str]:
    wanted = pod(cpu="2", memory="1Gi", node_selector=selector)
    return solved([wanted], pools=[pool], types=types).only.annotations


def test_a_plan_notes_what_spot_would_cost_sold_out_or_not() -> None:
    assert "0.1" == planned(waiting(), sold("a", 4, available=False))[keys.SPOT_PRICE]
    assert "0.1" == planned(waiting(), sold("a", 4))[keys.SPOT_PRICE]


def test_nothing_is_noted_where_spot_is_not_asked_for_or_not_cheaper() -> None:
    gone = sold("a", 4, available=False)
    assert keys.SPOT_PRICE not in planned(node_pool(), gone)
    assert keys.SPOT_PRICE not in planned(waiting("Never"), gone)
    assert keys.SPOT_PRICE not in planned(waiting(), sold("a", 4, spot=2.0))
    assert keys.SPOT_PRICE not in planned(waiting(), gone, **{keys.CAPACITY_TYPE: keys.ON_DEMAND})
    small = sold("b", 1, available=False)
    dear = sold("a", 4, spot=2.0)
    assert keys.SPOT_PRICE not in planned(waiting(), small, dear)


def test_a_claim_kept_off_spot_by_a_ratio_has_not_fallen_back() -> None:
    made = waiting()
    held = {**made.metadata.annotations, "cost.karpenter.sh/spot-percentage": "0"}
    metadata = msgspec.structs.replace(made.metadata, annotations=held)

    found = planned(msgspec.structs.replace(made, metadata=metadata), sold("a", 4))

    assert keys.SPOT_PRICE not in found


@pytest.mark.parametrize("how", [keys.ON_DEMAND, keys.SPOT, keys.RESERVED])
def test_a_launch_is_stamped_only_if_it_fell_back(how: str) -> None:
    claim = node_claim("n", capacity_type=how, annotations={keys.SPOT_PRICE: "0.1"})

    stamped = with_fallback(claim, NOW)

    assert (how == keys.ON_DEMAND) is (keys.FELL_BACK in stamped.metadata.annotations)
    assert stamped == with_fallback(stamped, NOW + MINUTE)
    assert with_fallback(node_claim("n"), NOW) == node_claim("n")
