"""Whether two decisions are the same, whatever names and order they came in."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from parity.deciding import decide
from parity.peer import Peer
from parity.problems import Json, Problem

# Runs of the peer, and whether ties among spread domains are left to chance in them; further ones
# only while no answer is ours
RUNS: Final = ((1, False), (4, False), (24, True))
_SPARE: Final = "default/capacity-buffer-"


@dataclass(frozen=True)
class Difference:
    """A problem that the two sides decide differently."""

    problem: Problem
    ours: Json
    theirs: tuple[Json, ...]


def normal(answer: Json) -> str:
    """A decision as a text that equal decisions share.

    Why a pod has no place is told in other words; pods that stand for spare room have no names.
    """
    return json.dumps(
        {
            "claims": _claims(answer["claims"]),
            "existing": {
                node: kept for node, pods in answer["existing"].items() if (kept := _real(pods))
            },
            "failed": _real(answer["failed"]),
            "deferred": _real(answer["deferred"]),
            "method": answer.get("method", ""),
            "commands": sorted(
                (
                    {**each, "replacements": _claims(each["replacements"])}
                    for each in answer.get("commands", ())
                ),
                key=json.dumps,
            ),
        },
        sort_keys=True,
    )


def compare(
    problem: Problem, peer: Peer, decided: Callable[[Problem], Json] = decide
) -> Difference | None:
    """Decide on both sides; None when the peer decides like us in any of its runs."""
    ours = decided(problem)
    wanted = normal(ours)
    theirs: list[Json] = []
    for runs, loose in RUNS:
        theirs += peer.answers(problem, runs, loose=loose)
        if any(normal(each) == wanted for each in theirs):
            return None
    distinct = {normal(each): each for each in theirs}
    return Difference(problem, ours, tuple(distinct.values()))


def _claims(claims: Iterable[Json]) -> list[Any]:
    return sorted(({**each, "pods": _real(each["pods"])} for each in claims), key=json.dumps)


def _real(pods: Iterable[str]) -> list[str]:
    return sorted(pod for pod in pods if not pod.startswith(_SPARE))
