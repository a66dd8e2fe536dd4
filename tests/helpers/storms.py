"""Seeded fault runs: what is wrong in one, and the command that replays it."""

import math
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from karpenter.clock import run_virtual
from karpenter.telemetry.logs import quiet_logger, take_over

JsonObject = dict[str, Any]
Storm = Callable[[int], Coroutine[Any, Any, list[str]]]


def judged(storm: Storm, seed: int, program: str) -> str:
    """What is wrong after the run of a seed, with the command that replays it; empty if nothing."""
    wrong = run_virtual(storm(seed), seed=str(seed))
    if not wrong:
        return ""
    replay = f"PYTHONPATH=tests .venv/bin/python tests/integration/storms/{program} {seed}"
    return "\n".join([*wrong, f"replay it with: {replay}"])


def replay(storm: Storm) -> int:
    """Replay the run of the seed on the command line."""
    take_over(quiet_logger())
    wrong = run_virtual(storm(int(sys.argv[1])), seed=sys.argv[1])
    print("\n".join(wrong) or "nothing is wrong")
    return bool(wrong)


def one_unavailable(app: str) -> JsonObject:
    """A disruption budget that lets one pod of a workload be away."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}},
    }


def allowed_by_budget(pool: JsonObject, total: int) -> int:
    """How many of the nodes of a pool its only budget lets go at once."""
    (budget,) = pool["spec"]["disruption"]["budgets"]
    text = str(budget["nodes"])
    return math.ceil(int(text[:-1]) * total / 100) if text.endswith("%") else int(text)


def is_tainted(node: JsonObject) -> bool:
    """Whether disruption has closed a node."""
    taints = node["spec"].get("taints", ())
    return any(taint["key"] == "karpenter.sh/disrupted" for taint in taints)


def holds(obj: JsonObject, kind: str) -> bool:
    """Whether a condition of an object is true."""
    held = obj.get("status", {}).get("conditions", ())
    return any(each["type"] == kind and each["status"] == "True" for each in held)
