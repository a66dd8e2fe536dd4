"""The status of a node class: the subnets, groups, images and more that it selects.

Every step resolves one selector and returns the class with that part of its status up to date. A
step that fails raises and leaves its part as it was.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.api.times import earlier
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.errors import AwsError
from karpenter.cloud.aws.images.aliases import unsupported_alias
from karpenter.cloud.aws.images.families import alias_of
from karpenter.cloud.aws.images.images import Images
from karpenter.cloud.aws.network.placement_groups import PlacementGroups
from karpenter.cloud.aws.network.security_groups import SecurityGroups
from karpenter.cloud.aws.network.subnets import Subnets
from karpenter.cloud.aws.network.versions import KubernetesVersion
from karpenter.cloud.aws.node_class import conditions
from karpenter.cloud.aws.node_class.conditions import with_condition, with_status
from karpenter.cloud.aws.node_class.instance_profiles import InstanceProfiles, RoleMissingError
from karpenter.cloud.aws.types.reservations import CAPACITY_BLOCK, ENDS_EARLY, CapacityReservations
from karpenter.model.conditions import FALSE, TRUE

SOON: Final = timedelta(minutes=1).total_seconds()
LATER: Final = timedelta(minutes=5).total_seconds()
NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class StatusStep:
    """A node class after one step, and when to look again."""

    node_class: EC2NodeClass
    look_again_in: float = NEVER


StepFunction = Callable[[EC2NodeClass], Awaitable[StatusStep]]


@dataclass(frozen=True, slots=True)
class Discovery:
    """Everything that finds what node classes select."""

    subnets: Subnets
    security_groups: SecurityGroups
    images: Images
    profiles: InstanceProfiles
    reservations: CapacityReservations
    groups: PlacementGroups
    version: KubernetesVersion


class StatusSteps:
    """The steps, in the order they are made."""

    def __init__(self, discovery: Discovery, clock: Clock, *, uses_reservations: bool) -> None:
        self._discovery = discovery
        self._clock = clock
        self._uses_reservations = uses_reservations

    @property
    def all(self) -> tuple[StepFunction, ...]:
        """Every step."""
        return (
            self.images,
            *((self.reservations,) if self._uses_reservations else ()),
            self.placement_group,
            self.subnets,
            self.security_groups,
            self.instance_profile,
        )

    async def images(self, node_class: EC2NodeClass) -> StatusStep:
        """Find images."""
        alias = alias_of(node_class.spec)
        if alias is not None:
            problem = unsupported_alias(alias[0], await self._discovery.version.get())
            if problem is not None:
                cleared = with_status(node_class, amis=())
                # Depends on the class alone: retrying does not help until its spec changes
                return self._found(cleared, conditions.IMAGES, NEVER, "UnsupportedAlias", problem)
        found = await self._discovery.images.list(node_class)
        listed = with_status(node_class, amis=tuple(image.status for image in found))
        problem = "" if found else "amiSelectorTerms did not match any AMIs"
        return self._selected(listed, conditions.IMAGES, LATER, "AMINotFound", problem)

    async def reservations(self, node_class: EC2NodeClass) -> StatusStep:
        """Find capacity reservations; that there are none is fine."""
        found = await self._discovery.reservations.list(node_class)
        listed = with_status(node_class, capacity_reservations=found)
        now = self._clock.now()
        waits = [SOON]
        for each in found:
            if each.end_time is not None:
                early = ENDS_EARLY if each.reservation_type == CAPACITY_BLOCK else timedelta()
                left = [each.end_time - now, earlier(each.end_time, early) - now]
                waits += [wait.total_seconds() for wait in left if wait > timedelta()]
        return self._found(listed, conditions.RESERVATIONS, min(waits))

    async def placement_group(self, node_class: EC2NodeClass) -> StatusStep:
        """Find the placement group, if one is asked for."""
        kind = conditions.PLACEMENT_GROUP
        selector = node_class.spec.placement_group_selector
        if selector is None:
            return self._found(node_class, kind, NEVER)
        try:
            group = await self._discovery.groups.resolve(node_class)
        except AwsError as error:
            reason = "PlacementGroupResolutionFailed"
            return self._found(node_class, kind, SOON, reason, str(error))
        if group is None:
            message = f"there is no placement group {selector.id or selector.name}"
            return self._found(node_class, kind, SOON, "PlacementGroupNotFound", message)
        return self._found(node_class, kind, LATER)

    async def subnets(self, node_class: EC2NodeClass) -> StatusStep:
        """Find subnets."""
        found = await self._discovery.subnets.list(node_class)
        listed = with_status(node_class, subnets=tuple(subnet.status for subnet in found))
        problem = "" if found else "subnetSelectorTerms did not match any subnets"
        return self._selected(listed, conditions.SUBNETS, SOON, "SubnetsNotFound", problem)

    async def security_groups(self, node_class: EC2NodeClass) -> StatusStep:
        """Find security groups."""
        kind = conditions.SECURITY_GROUPS
        found = await self._discovery.security_groups.list(node_class)
        listed = with_status(node_class, security_groups=found)
        problem = "" if found else "securityGroupSelectorTerms did not match any security groups"
        return self._selected(listed, kind, LATER, "SecurityGroupsNotFound", problem)

    async def instance_profile(self, node_class: EC2NodeClass) -> StatusStep:
        """Find or make the instance profile."""
        kind = conditions.INSTANCE_PROFILE
        try:
            name = await self._discovery.profiles.ensure(node_class)
        except RoleMissingError as error:
            return self._found(node_class, kind, SOON, "RoleNotFound", str(error))
        listed = with_status(node_class, instance_profile=name)
        return self._found(listed, kind, NEVER)

    def _selected(
        self, listed: EC2NodeClass, kind: str, again: float, reason: str, problem: str
    ) -> StatusStep:
        """What selector terms matched; without a match they are tried again soon."""
        if problem:
            return self._found(listed, kind, SOON, reason, problem)
        return self._found(listed, kind, again)

    def _found(
        self, node_class: EC2NodeClass, kind: str, wait: float, reason: str = "", message: str = ""
    ) -> StatusStep:
        status = FALSE if reason else TRUE
        now = self._clock.now()
        return StatusStep(with_condition(node_class, kind, status, reason, message, now=now), wait)
