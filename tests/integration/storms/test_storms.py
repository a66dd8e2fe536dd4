"""Whatever goes wrong for ten minutes, the cluster is as it should be some time later."""

import pytest

from helpers.storms import judged
from integration.storms.chaos import ridden_out

SEEDS = range(200)
SAMPLE = range(1000, 1001)


@pytest.mark.storm
@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_passes_without_a_trace(seed: int) -> None:
    assert "" == judged(ridden_out, seed, "chaos.py")


@pytest.mark.case("DASH-25")
@pytest.mark.parametrize("seed", SAMPLE)
def test_a_few_storms_pass_without_a_trace(seed: int) -> None:
    assert "" == judged(ridden_out, seed, "chaos.py")
