"""Single-node consolidation: one machine is deleted, or replaced by a cheaper one.

Machines are ordered by savings per disruption cost, but pools take turns (round-robin), so that a
large pool does not delay a small one. Pools that an earlier search did not reach before its
deadline come first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest

from karpenter.disruption.budgets import UNDERUTILIZED
from karpenter.disruption.candidates import Blocked, Candidate, Why
from karpenter.disruption.commands import SINGLE, Command, Finding, Score
from karpenter.disruption.methods.balanced import LEAST_SCORE, best_score
from karpenter.disruption.methods.consolidation import Consolidation, is_balanced
from karpenter.disruption.methods.replacements import Refused


@dataclass(slots=True)
class _Search:
    """The state of a search."""

    verdicts: dict[str, Blocked]
    scores: list[Score] = field(default_factory=list)
    is_constrained: bool = False
    has_timed_out: bool = False
    seen: set[str] = field(default_factory=set)  # pools
    command: Command | None = None


def find_single(consolidation: Consolidation) -> Finding:
    """Search for the first machine, in order, that can be deleted or replaced."""
    view = consolidation.view
    has_time = view.timer(SINGLE)
    budgets = view.remaining(UNDERUTILIZED)
    search = _Search(dict(consolidation.verdicts))
    ordered = in_turns(consolidation.candidates, view.memory.unseen_pools)
    for position, candidate in enumerate(ordered):
        if not has_time():
            search.has_timed_out = True
            for late in ordered[position:]:
                detail = "the search ended before its turn came"
                search.verdicts[late.name] = Blocked(late.name, Why.NOT_EVALUATED, detail, False)
            break
        search.seen.add(candidate.pool)
        if budgets[candidate.pool] <= 0:
            search.is_constrained = True
            search.verdicts[candidate.name] = over_budget(candidate)
            continue
        found = _judged(consolidation, candidate, search)
        if isinstance(found, Command):
            search.command = found
            break
        search.verdicts[candidate.name] = Blocked(
            candidate.name,
            found.why,
            found.detail,
            has_event=not found.is_silent,
            event_message=found.event_message,
        )
    pools = {candidate.pool for candidate in ordered}
    return Finding(
        SINGLE,
        (search.command,) if search.command else (),
        eligible=len(ordered),
        verdicts=search.verdicts,
        scores=tuple(search.scores),
        events=tuple(view.closed_budgets(UNDERUTILIZED)) if ordered else (),
        is_constrained=search.is_constrained,
        has_timed_out=search.has_timed_out,
        unseen_pools=frozenset(pools - search.seen) if search.has_timed_out else frozenset(),
    )


def in_turns(candidates: Iterable[Candidate], first: Iterable[str] = ()) -> list[Candidate]:
    """Interleave pools, those in ``first`` before the others; the order within a pool is kept."""
    early = frozenset(first)
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_pool.setdefault(candidate.pool, []).append(candidate)
    pools: Sequence[list[Candidate]] = [
        by_pool[pool] for pool in sorted(by_pool, key=lambda pool: (pool not in early, pool))
    ]
    rounds = zip_longest(*pools)
    return [candidate for candidate in chain.from_iterable(rounds) if candidate is not None]


def over_budget(candidate: Candidate) -> Blocked:
    """A machine that stays because its pool's budgets are used up."""
    detail = f"the budgets of NodePool {candidate.pool} allow no more disruptions now"
    return Blocked(candidate.name, Why.BUDGET, detail, has_event=False)


def _judged(
    consolidation: Consolidation, candidate: Candidate, search: _Search
) -> Command | Refused:
    if is_balanced(candidate):
        best = best_score(consolidation.view, candidate)
        if not best.is_approved:
            search.scores.append(best)
            detail = f"even removing it would score {best.value:.2f}, below {LEAST_SCORE:.2f}"
            if candidate.known_price is None:
                detail += ", because its price is unknown"
            return Refused(detail, is_silent=True)
    command = consolidation.command(SINGLE, [candidate])
    if isinstance(command, Refused):
        return command
    judged, scores = consolidation.judged(command)
    search.scores += scores
    return judged
