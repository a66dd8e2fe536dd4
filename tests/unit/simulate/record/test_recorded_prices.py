"""Prices of a recording: what is written of them, and how they are played again."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.simulated import scenario, simulated, small_pool, steps
from karpenter.clock import run_virtual, running_clock
from karpenter.cloud.kwok.catalogue import built_in, load
from karpenter.cloud.types import InstanceType
from karpenter.simulate.engine.price_moves import told
from karpenter.simulate.record.prices import (
    EVERY,
    MOVES,
    TYPES,
    NotAskedError,
    PriceBook,
    PricesError,
    beside,
    follow_prices,
)
from karpenter.simulate.scenario.models import PriceFile, Scenario

T = 1_900_000_000.0
FEW = built_in()[:2]
SERIES = PriceFile(csv=MOVES, time="time", offering="offering", price="price")


def dearer(types: Sequence[InstanceType], factor: float) -> list[InstanceType]:
    """The first type at other prices on the spot market, the others as they were."""
    ways = tuple(
        replace(way, price=way.price * factor) if way.capacity_type == "spot" else way
        for way in types[0].offerings
    )
    return [types[0].with_offerings(ways), *types[1:]]


def test_what_is_sold_is_written_once_and_then_every_price_that_moves(tmp_path: Path) -> None:
    book = PriceBook(tmp_path)
    assert book.fields() == {}
    book.take((), T)
    book.take(FEW, T)
    book.take(FEW, T + 300)
    assert book.fields() == {"provider": {"instanceTypes": TYPES}}
    book.take(dearer(FEW, 2), T + 600)
    book.take(dearer(FEW, 2), T + 900)

    sold = load((tmp_path / TYPES).read_bytes(), TYPES)
    assert [each.name for each in sold] == [each.name for each in FEW]
    moves = told(SERIES, (tmp_path / MOVES).read_bytes())
    spot = [way for way in FEW[0].offerings if way.capacity_type == "spot"]
    assert {(each.at, each.offering) for each in moves} == {
        (T + 600, f"{FEW[0].name}/{way.zone}/spot") for way in spot
    }
    assert book.fields()["prices"] == [
        {"series": {"csv": MOVES, "time": "time", "offering": "offering", "price": "price"}}
    ]


def test_a_recording_goes_on_from_the_prices_that_it_knows(tmp_path: Path) -> None:
    PriceBook(tmp_path).take(FEW, T)
    PriceBook(tmp_path).take(dearer(FEW, 2), T + 300)
    file = tmp_path / MOVES
    whole = file.read_bytes()
    file.write_bytes(whole + b"2030-01-0")  # as a crash leaves it

    book = PriceBook(tmp_path)
    book.take(dearer(FEW, 2), T + 600)
    assert file.read_bytes() == whole
    book.take(FEW, T + 900)
    assert len(told(SERIES, file.read_bytes())) == 2 * len(told(SERIES, whole))


def test_files_that_no_recorder_wrote_are_refused(tmp_path: Path) -> None:
    (tmp_path / TYPES).write_text("{}")
    with pytest.raises(PricesError, match=r"cannot be continued: types\.json"):
        PriceBook(tmp_path)


def test_prices_are_asked_for_again_and_again_also_after_a_failure(tmp_path: Path) -> None:
    said: list[str] = []
    answers = [FEW, None, None, dearer(FEW, 3)]

    async def asked() -> Sequence[InstanceType]:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if found is None:
            raise NotAskedError("the cloud does not answer")
        return found

    async def story() -> None:
        clock = running_clock()
        work = clock.sleep(5 * EVERY)
        await beside(work, follow_prices(asked, PriceBook(tmp_path), clock, said.append))
        assert len(asyncio.all_tasks()) == 1

    run_virtual(story(), seed="1")

    assert said == ["no prices are recorded at the moment: the cloud does not answer"]
    moves = told(SERIES, (tmp_path / MOVES).read_bytes())
    assert len({each.at for each in moves}) == 1


def test_recorded_prices_hold_from_their_time_of_day_on() -> None:
    wanted = scenario(
        start="2030-01-07T00:00:00Z",
        workloads=[steps("web", ("0", 1))],
        prices=[{"series": {"csv": "p.csv", "time": "t", "offering": "o", "price": "p"}}],
    )
    (kind,) = {each.instance_type for each in simulated(wanted_without(), small_pool())[0].machines}
    lines = ["t,o,p"]
    for zone in "abcd":
        place = f"{kind}/test-zone-{zone}/spot"
        lines += [f"2030-01-06T23:00:00Z,{place},0.001", f"2030-01-07T00:30:00Z,{place},0.002"]
    lines.append("2030-01-07T00:10:00Z,nobody/sells/this,7")
    watched, _ = simulated(wanted, small_pool(), files={"p.csv": "\n".join(lines).encode()})

    assert {(each.at, each.price) for each in watched.prices} == {(0.0, 0.001), (1800.0, 0.002)}


def wanted_without() -> Scenario:
    return scenario(until="2m", workloads=[steps("web", ("0", 1))])
