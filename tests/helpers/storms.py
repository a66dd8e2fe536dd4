"""Seeded fault runs: what is wrong after one, and the command that replays it."""

import sys
from collections.abc import Callable, Coroutine
from typing import Any

from karpenter.clock import run_virtual
from karpenter.telemetry.logs import quiet_logger, take_over

Storm = Callable[[int], Coroutine[Any, Any, list[str]]]


def judged(storm: Storm, seed: int, program: str) -> str:
    """What is wrong after the run of a seed, with the command that replays it; empty if nothing."""
    wrong = run_virtual(storm(seed), seed=str(seed))
    if not wrong:
        return ""
    replay = f"PYTHONPATH=tests .venv/bin/python tests/integration/{program} {seed}"
    return "\n".join([*wrong, f"replay it with: {replay}"])


def replay(storm: Storm) -> int:
    """Replay the run of the seed on the command line."""
    take_over(quiet_logger())
    wrong = run_virtual(storm(int(sys.argv[1])), seed=sys.argv[1])
    print("\n".join(wrong) or "nothing is wrong")
    return bool(wrong)
