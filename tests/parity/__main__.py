"""``python -m parity 1..10000``: decide many problems on both sides and say what differs.

A seed or a range of seeds; ``--mix NAME`` keeps to one feature mix. Ends with 1 when a difference is
not explained; such a problem is made as small as possible and printed.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from parity import differences
from parity.comparing import Difference, compare
from parity.mixes import MIXES, problem_of
from parity.peer import Peer, PeerError, built, obstacle
from parity.problems import Problem
from parity.shrinking import shrunk

_SHARE = 50  # seeds that a process takes at a time


def main() -> int:
    """Compare what the command line names."""
    parser = argparse.ArgumentParser(prog="parity", description=__doc__.split("\n\n")[0])
    parser.add_argument("seeds", help="a seed, or a range such as 1..10000")
    parser.add_argument("--mix", choices=list(MIXES), default="", help="only this feature mix")
    chosen = parser.parse_args()
    reason = obstacle()
    if reason:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    try:
        built()
    except PeerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    seeds = _range(parser, chosen.seeds)
    began, counts, unexplained = time.monotonic(), Counter[str](), list[str]()
    shares = [(chosen.mix, seeds[at : at + _SHARE]) for at in range(0, len(seeds), _SHARE)]
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for number, found in enumerate(processes.map(_differing, shares)):
            for name, why in found:
                counts[why] += 1
                if not why:
                    unexplained.append(name)
                    print(f"unexplained: {name}", flush=True)
            done = min((number + 1) * _SHARE, len(seeds))
            if done % 1000 == 0 or done == len(seeds):
                print(f"{done} of {len(seeds)} in {time.monotonic() - began:.0f} s", flush=True)
    print(f"{len(seeds)} problems, {len(seeds) - counts.total()} decided alike")
    for known in differences.KNOWN:
        print(f"{counts[known.name]:6} {known.name}")
    print(f"{len(unexplained):6} unexplained")
    if unexplained:
        print(_smallest(unexplained[0]))
    return 1 if unexplained else 0


def _range(parser: argparse.ArgumentParser, text: str) -> Sequence[int]:
    first, _, last = text.partition("..")
    try:
        return range(int(first), int(last or first) + 1)
    except ValueError:
        parser.error(f"seeds must be a number or a range such as 1..10000, not {text!r}")


def _differing(share: tuple[str, Sequence[int]]) -> list[tuple[str, str]]:
    """The problems that differ, each with what explains it or nothing."""
    mix, seeds = share
    return [
        (found.problem.name, known.name if (known := differences.explained(found)) else "")
        for found in differing(mix, seeds)
    ]


def differing(mix: str, seeds: Sequence[int]) -> Iterator[Difference]:
    """The problems of some seeds that are decided differently."""
    with Peer() as peer:
        for seed in seeds:
            found = compare(problem_of(seed, mix), peer)
            if found is not None:
                yield found


def _smallest(name: str) -> str:
    mix, _, seed = name.partition(":")
    with Peer() as peer:

        def still(problem: Problem) -> bool:
            found = compare(problem, peer)
            return found is not None and differences.explained(found) is None

        problem = shrunk(problem_of(int(seed), mix), still)
        found = compare(problem, peer)
    if found is None:  # it was decided like that only now and then
        return f"{name} could not be made smaller"
    answers = {"ours": found.ours, "theirs": list(found.theirs)}
    return json.dumps({"problem": problem.wire(), **answers})


if __name__ == "__main__":
    sys.exit(main())
