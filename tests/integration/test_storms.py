"""Whatever goes wrong for ten minutes, the cluster is as it should be some time later."""

import pytest

from integration.chaos import ridden_out
from karpenter.clock import run_virtual

SEEDS = range(200)
SAMPLE = range(1000, 1001)


def judged(seed: int) -> str:
    """What is wrong after the storm of a seed, and how to see it again; nothing if all is well."""
    wrong = run_virtual(ridden_out(seed), seed=str(seed))
    if not wrong:
        return ""
    replay = f"PYTHONPATH=tests .venv/bin/python tests/integration/chaos.py {seed}"
    return "\n".join([*wrong, f"replay it with: {replay}"])


@pytest.mark.storm
@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_passes_without_a_trace(seed: int) -> None:
    assert "" == judged(seed)


@pytest.mark.parametrize("seed", SAMPLE)
def test_a_few_storms_pass_without_a_trace(seed: int) -> None:
    assert "" == judged(seed)
