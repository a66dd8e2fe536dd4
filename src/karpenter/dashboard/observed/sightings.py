"""Sightings: what was seen to happen, from whatever source; of several about one thing one counts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, TypeAlias

from karpenter.decision_log.record import Draft, Kind, Outcome, Source

Key: TypeAlias = tuple[str, ...]

_CAMEL: Final = re.compile(r"[A-Z][A-Za-z0-9]*", re.ASCII)
_NO_REASON: Final = "Seen"  # where others give none, or one that is no word
_STEPS: Final = {kind: place for place, kind in enumerate(Kind)}


@dataclass(frozen=True, slots=True)
class Sighting:
    """One thing that was seen to happen."""

    at: datetime
    until: datetime  # when it was last seen to happen; events are repeated
    key: Key  # equal for all sightings of the same thing
    rank: int  # of sightings with one key the one with the least rank is recorded
    draft: Draft


def seen(
    key: Key,
    at: datetime,
    kind: Kind,
    outcome: Outcome,
    reason: str,
    text: str,
    *,
    objects: Iterable[str],
    pool: str,
    rank: int = 0,
    until: datetime | None = None,
    **more: Any,
) -> Sighting:
    """A sighting whose record says "seen"; ``more`` are further fields of the draft."""
    draft = Draft(
        kind,
        outcome,
        reason if is_word(reason) else _NO_REASON,
        f"seen: {text}",
        objects=tuple(objects),
        node_pools=(pool,) if pool else (),
        source=Source.OBSERVED,
        identity=key,
        **more,
    )
    return Sighting(at, until or at, key, rank, draft)


def is_word(text: str) -> bool:
    """Whether a text is one CamelCase word, as reasons and kinds are."""
    return _CAMEL.fullmatch(text) is not None


def distinct(sightings: Iterable[Sighting]) -> list[Sighting]:
    """One sighting of each thing, in the order in which things happened.

    The result depends only on which sightings there are, not on their order.
    """
    best: dict[Key, Sighting] = {}
    for each in sightings:
        known = best.get(each.key)
        if known is None:
            best[each.key] = each
            continue
        chosen = min(known, each, key=_preference)
        best[each.key] = replace(chosen, until=max(known.until, each.until))
    return sorted(best.values(), key=_moment)


def _preference(sighting: Sighting) -> tuple[Any, ...]:
    draft = sighting.draft
    return sighting.rank, sighting.at, draft.text, draft.objects, draft.node_pools


def _moment(sighting: Sighting) -> tuple[Any, ...]:
    # Kubernetes writes whole seconds, so that several steps of a machine have one time
    return sighting.at, _STEPS[sighting.draft.kind], sighting.key
