"""Machines that fell back to on-demand, and their replacement by spot.

A machine of a pool with a wait for that goes back to spot alone, once enough types that fit have
been on sale for the whole wait. Before that no consolidation may replace it by what could be
launched on spot: a fallback that returned too early would fall back again.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from karpenter.disruption.candidates import Candidate
from karpenter.disruption.commands import Command
from karpenter.disruption.methods.replacements import (
    Option,
    Refused,
    cheaper_than,
    narrowed_to,
    on_spot,
    unknown_price,
)
from karpenter.model import labels
from karpenter.scheduling.plan import PlannedClaim
from karpenter.scheduling.spot.fallback import LEAST_TYPES, Return, return_of


def returns_of(candidates: Iterable[Candidate]) -> list[Return]:
    """When machines among these may return to spot, of those that fell back and wait for that."""
    found = (return_of(each.claim, each.node_pool) for each in candidates)
    return [each for each in found if each is not None]


def returned(option: Option, candidate: Candidate, back: Return) -> Option | Refused:
    """What may replace a machine that is due, on spot alone."""
    universe = option.template.universe
    pinned = on_spot(option)
    if isinstance(pinned, Refused):
        return pinned
    bits = 0
    for index in pinned.types:
        if universe.type_names[index] in back.types:
            bits |= universe.type_bits[index]
    kept = narrowed_to(pinned, bits)
    if isinstance(kept, Refused):
        return kept
    if len(kept.types) < LEAST_TYPES:
        detail = (
            f"it returns to spot only with {LEAST_TYPES} instance types that hold its pods and have"
            f" been on sale for the whole time, and there are {len(kept.types)}"
        )
        return Refused(detail, is_silent=True)
    return cheaper_than(kept, candidate.price, unknown_price([candidate]))


def off_spot(option: Option, back: Return) -> Option | Refused:
    """What may replace a machine that is not due: anything but spot."""
    spot = option.template.universe.with_value(labels.CAPACITY_TYPE, labels.SPOT)
    if not option.wanted & spot:
        return option
    if not option.wanted & ~spot:
        return Refused(back.in_words(), is_silent=True)
    return narrowed_to(option, ~spot)


def _may_be_spot(claim: PlannedClaim) -> bool:
    return claim.requirements[labels.CAPACITY_TYPE].has(labels.SPOT)


def is_return(command: Command) -> bool:
    """Whether a command takes a machine that fell back to spot again."""
    return bool(returns_of(command.candidates)) and any(map(_may_be_spot, command.replacements))


def early_return(command: Command, candidates: Sequence[Candidate], now: datetime) -> str:
    """Why a command may not replace machines that fell back by spot; empty if it may.

    ``candidates`` are its machines as they are now.
    """
    on_spot_types = {
        name
        for claim in command.replacements
        if _may_be_spot(claim)
        for name in claim.instance_types
    }
    for back in returns_of(candidates) if on_spot_types else ():
        if not back.is_due(now):
            return back.in_words()
        if not on_spot_types <= back.types:
            return f"{min(on_spot_types - back.types)} has not been on sale on spot all the time"
    return ""
