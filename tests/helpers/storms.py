"""Storms of a seed: what is wrong after one, and how to see it again."""

import sys
from collections.abc import Callable, Coroutine
from typing import Any

from karpenter.clock import run_virtual
from karpenter.telemetry.logs import quiet_logger, take_over

Storm = Callable[[int], Coroutine[Any, Any, list[str]]]


def judged(storm: Storm, seed: int, program: str) -> str:
    """What is wrong after the storm of a seed, and how to see it again; nothing if all is well."""
    wrong = run_virtual(storm(seed), seed=str(seed))
    if not wrong:
        return ""
    replay = f"PYTHONPATH=tests .venv/bin/python tests/integration/{program} {seed}"
    return "\n".join([*wrong, f"replay it with: {replay}"])


def replay(storm: Storm) -> int:
    """Go through the storm of the seed on the command line once more."""
    take_over(quiet_logger())
    wrong = run_virtual(storm(int(sys.argv[1])), seed=sys.argv[1])
    print("\n".join(wrong) or "nothing is wrong")
    return bool(wrong)
