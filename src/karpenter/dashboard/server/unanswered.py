"""What a home answers that can plan nothing: what it is, and the decisions it knows."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from karpenter.dashboard.contract import About, Costs, Records, WhatIfAnswer, WhatIfRequest
from karpenter.dashboard.questions import NoAnswerError
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.record import DecisionRecord


class WithoutPlans:
    """Answers from the decision log alone."""

    def __init__(self, about: About, decisions: DecisionLog) -> None:
        """Answer for a home."""
        self._about = about
        self._log = decisions

    async def plan(self) -> Mapping[str, Any]:
        """There is no plan."""
        raise _nothing_planned()

    async def explain(self, kind: str, namespace: str, name: str) -> Mapping[str, Any]:
        """There is no explanation."""
        raise _nothing_planned()

    async def what_if(self, request: WhatIfRequest) -> WhatIfAnswer:
        """There is no plan."""
        raise _nothing_planned()

    async def costs(
        self, since: datetime | None, until: datetime | None, by: Sequence[str]
    ) -> Costs:
        """There are no tables of costs."""
        raise _nothing_planned()

    async def decisions(
        self,
        *,
        before: str = "",
        limit: int = 50,
        kind: str = "",
        node_pool: str = "",
        text: str = "",
    ) -> Records:
        """The records that were asked for, the newest first."""
        found: list[DecisionRecord] = []
        for record in _after(before, self._log.newest()):
            if not _is_meant(record, kind, node_pool, text.casefold()):
                continue
            if len(found) == limit:
                return _page(found, has_more=True)
            found.append(record)
        return _page(found, has_more=False)

    async def about(self) -> About:
        """What this home is."""
        return msgspec.structs.replace(self._about)


def _nothing_planned() -> NoAnswerError:
    return NoAnswerError("nothing is planned here; ask karpenter plan or karpenter explain")


def _after(before: str, records: Iterable[DecisionRecord]) -> Iterable[DecisionRecord]:
    found = iter(records)
    if before:
        for record in found:
            if record.id == before:
                break
    return found


def _is_meant(record: DecisionRecord, kind: str, node_pool: str, text: str) -> bool:
    return (
        (not kind or record.kind == kind)
        and (not node_pool or node_pool in record.node_pools)
        and (not text or any(text in each.casefold() for each in (record.text, *record.objects)))
    )


def _page(found: Sequence[DecisionRecord], *, has_more: bool) -> Records:
    records = [msgspec.to_builtins(each) for each in found]
    return Records(records=records, before=found[-1].id if has_more else None)
