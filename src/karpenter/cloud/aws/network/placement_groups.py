"""Placement groups of node classes."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsNotFoundError
from karpenter.cloud.aws.ec2.tags import equals

PARTITION: Final = "partition"
_FRESH: Final = timedelta(minutes=1)
_KEPT: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    id: str
    name: str
    strategy: str
    partitions: int = 0

    @property
    def partition_numbers(self) -> tuple[str, ...]:
        """The partitions by number; none unless the strategy has them."""
        if self.strategy != PARTITION:
            return ()
        return tuple(str(number) for number in range(1, self.partitions + 1))


class PlacementGroups:
    """The placement groups of a region, as node classes select them."""

    def __init__(self, calls: Calls, clock: Clock) -> None:
        self._calls = calls
        self._fresh: TtlCache[tuple[str, str], PlacementGroup | None] = TtlCache(
            clock, _FRESH.total_seconds()
        )
        self._kept: TtlCache[tuple[str, str], PlacementGroup] = TtlCache(
            clock, _KEPT.total_seconds()
        )

    async def resolve(self, node_class: EC2NodeClass) -> PlacementGroup | None:
        """The group a node class asks for, or None when it asks for none or there is none.

        Raises:
            AwsError: a call to EC2 failed; ``known`` still has what was last found.
        """
        selector = node_class.spec.placement_group_selector
        if selector is None:
            return None
        key = (selector.id, selector.name)
        if key in self._fresh:
            return self._fresh.get(key)
        found = await self._find(*key)
        if found is None:
            self._kept.drop(key)
        else:
            self._kept.put(key, found)
        return self._fresh.put(key, found)

    def known(self, node_class: EC2NodeClass) -> PlacementGroup | None:
        """The group as it was last found, without a call."""
        selector = node_class.spec.placement_group_selector
        return None if selector is None else self._kept.get((selector.id, selector.name))

    async def _find(self, group_id: str, name: str) -> PlacementGroup | None:
        named: dict[str, Any] = {"GroupIds": [group_id]} if group_id else {"GroupNames": [name]}
        try:
            answer = await self._calls.call(
                "ec2",
                "DescribePlacementGroups",
                Filters=[equals("state", ["available"])],
                **named,
            )
        except AwsNotFoundError:
            return None
        for entry in answer.get("PlacementGroups", ()):
            return PlacementGroup(
                entry["GroupId"],
                entry.get("GroupName", ""),
                entry.get("Strategy", ""),
                entry.get("PartitionCount", 0),
            )
        return None
