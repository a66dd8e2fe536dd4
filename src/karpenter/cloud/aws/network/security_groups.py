"""Security groups of node classes."""

from datetime import timedelta
from typing import Final

from karpenter.api.node_classes.ec2 import EC2NodeClass, SecurityGroupStatus
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.tags import equals, queries

_PAGE: Final = 500
_LIFETIME: Final = timedelta(minutes=1)


class SecurityGroups:
    """The security groups of a region, as node classes select them."""

    def __init__(self, calls: Calls, clock: Clock) -> None:
        self._calls = calls
        self._found: TtlCache[tuple[str, int], tuple[SecurityGroupStatus, ...]] = TtlCache(
            clock, _LIFETIME.total_seconds()
        )

    async def list(self, node_class: EC2NodeClass) -> tuple[SecurityGroupStatus, ...]:
        """The groups a node class selects, each once, by id."""
        key = (node_class.metadata.uid, node_class.metadata.generation)
        known = self._found.get(key)
        if known is not None:
            return known
        terms = node_class.spec.security_group_selector_terms
        asked = queries("group-id", terms)
        names = [term.name for term in terms if term.name and not term.id]
        if names:
            asked.append([equals("group-name", names)])
        found: dict[str, str] = {}
        for filters in asked:
            for entry in await self._calls.pages(
                "ec2", "DescribeSecurityGroups", "SecurityGroups", Filters=filters, MaxResults=_PAGE
            ):
                found[entry["GroupId"]] = entry.get("GroupName", "")
        groups = tuple(SecurityGroupStatus(id=key, name=found[key]) for key in sorted(found))
        return self._found.put(key, groups)
