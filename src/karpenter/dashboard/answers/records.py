"""Pages of decision records, the newest first."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from karpenter.dashboard.contract import Records
from karpenter.decision_log.record import DecisionRecord

MOST: Final = 200


def page_of(
    records: Iterable[DecisionRecord],
    *,
    before: str = "",
    limit: int = 50,
    kind: str = "",
    node_pool: str = "",
    text: str = "",
) -> Records:
    """The records that are asked for.

    Args:
        records: all that are kept, the newest first.
        before: the id that the page before ended with; one that is not kept any more ends the list.
        limit: how many at most, and no more than 200.
        kind: of the records; empty for all.
        node_pool: one that they are about; empty for all.
        text: what their sentence or objects contain, in any case.
    """
    most = max(1, min(limit, MOST))
    searched = text.casefold()
    meant = (
        each
        for each in _after(before, records)
        if (not kind or each.kind == kind)
        and (not node_pool or node_pool in each.node_pools)
        and (not searched or _contains(each, searched))
    )
    found = list(islice(meant, most + 1))
    shown = found[:most]
    return Records(
        records=[msgspec.to_builtins(each) for each in shown],
        before=shown[-1].id if len(found) > most else None,
    )


def _after(before: str, records: Iterable[DecisionRecord]) -> Iterator[DecisionRecord]:
    found = iter(records)
    if before:
        for each in found:
            if each.id == before:
                break
    return found


def _contains(record: DecisionRecord, text: str) -> bool:
    return any(text in each.casefold() for each in (record.text, *record.objects))
