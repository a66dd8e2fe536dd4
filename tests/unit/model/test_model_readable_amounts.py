"""Amounts for people have few digits, and never claim more than there is."""

import pytest

from karpenter.model.quantity import units
from karpenter.model.resources import readable_amount


@pytest.mark.parametrize(
    ("name", "amount", "shown"),
    [
        pytest.param("cpu", 4000, "4", id="whole cpus"),
        pytest.param("cpu", 500, "0.5", id="half a cpu"),
        pytest.param("cpu", 255_900, "255.9", id="many cpus"),
        pytest.param("cpu", 1, "0.001", id="a thousandth"),
        pytest.param("cpu", 0, "0", id="none"),
        pytest.param("cpu", -1500, "-1.5", id="overdrawn"),
        pytest.param("cpu", 100_000, "100", id="zeroes that count"),
        pytest.param("cpu", 10**12, "1G", id="absurdly many"),
        pytest.param("memory", units("8182Mi"), "8182Mi", id="few digits stay exact"),
        pytest.param("memory", units("2Gi"), "2Gi", id="a round size"),
        pytest.param("memory", units("2097142Mi"), "1.99Ti", id="many digits are rounded down"),
        pytest.param("memory", 123_456_789, "117.73Mi", id="odd bytes"),
        pytest.param("memory", 10**30, "1e30", id="beyond all units"),
        pytest.param("memory", 0, "0", id="no memory"),
        pytest.param("pods", 110, "110", id="a count"),
        pytest.param("example.com/gpu", 8, "8", id="devices"),
    ],
)
def test_an_amount_for_people(name: str, amount: int, shown: str) -> None:
    assert shown == readable_amount(name, amount)
