"""The instance types of node classes on a simulated account, for plans without a cluster.

The account's content comes from tables and knows nothing of the user's own account. Subnets, groups
and images that a class selects and the account lacks are assumed to exist, reservations and
placement groups to be absent; the result lists both, so that assumptions are not mistaken for
facts.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from karpenter.api.meta import ObjectMeta
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import (
    AMISelectorTerm,
    EC2NodeClass,
    EC2NodeClassSpec,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.images.images import Images
from karpenter.cloud.aws.images.parameters import Parameters
from karpenter.cloud.aws.network.placement_groups import PlacementGroups
from karpenter.cloud.aws.network.security_groups import SecurityGroups
from karpenter.cloud.aws.network.subnets import Subnets
from karpenter.cloud.aws.network.versions import KubernetesVersion
from karpenter.cloud.aws.node_class.conditions import with_status
from karpenter.cloud.aws.node_class.instance_profiles import InstanceProfiles
from karpenter.cloud.aws.node_class.status import Discovery, StatusSteps, StepFunction
from karpenter.cloud.aws.prices.pricing import Pricing
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.aws.simulated.account import KUBERNETES, NODE_ROLE
from karpenter.cloud.aws.simulated.table_account import TableAccount, table_catalogue
from karpenter.cloud.aws.types.instance_types import CatalogueSource, InstanceTypes
from karpenter.cloud.aws.types.kubelet import KubeletError, overruled
from karpenter.cloud.aws.types.reservations import CapacityReservations
from karpenter.cloud.aws.types.unavailable import UnavailableOfferings
from karpenter.cloud.provider import CloudError
from karpenter.cloud.types import InstanceType

_replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class FoundClass:
    """A node class, and what the account has of what it selects."""

    node_class: EC2NodeClass  # with a status to list types by
    assumed: tuple[str, ...] = ()  # what it selects and the account has not, in plain words
    left_out: tuple[str, ...] = ()  # what it selects and has to do without
    problem: str = ""  # why some types cannot be had, in one sentence

    @property
    def zones(self) -> tuple[str, ...]:
        """Where it has subnets."""
        return tuple(sorted({subnet.zone for subnet in self.node_class.status.subnets}))


class OfflineAws:
    """A simulated account that only lists the instance types of node classes."""

    def __init__(
        self,
        calls: Calls,
        clock: Clock,
        settings: AwsSettings,
        *,
        uses_reservations: bool,
        read: CatalogueSource = table_catalogue,
    ) -> None:
        """Ask an account.

        Args:
            calls: the account.
            clock: the clock of caches.
            settings: the settings of the provider.
            uses_reservations: the feature gate ReservedCapacity.
            read: how to find out what is sold.
        """
        reservations, groups = CapacityReservations(calls, clock), PlacementGroups(calls, clock)
        self._cluster = settings.cluster_name
        self._uses_reservations = uses_reservations
        self._pricing = Pricing(calls, clock, is_simulated=True)
        self._types = InstanceTypes(
            calls,
            clock,
            settings,
            pricing=self._pricing,
            unavailable=UnavailableOfferings(clock),
            reservations=reservations,
            groups=groups,
            uses_reservations=uses_reservations,
            read=read,
        )
        version = KubernetesVersion(_usual_version, clock)
        discovery = Discovery(
            subnets=Subnets(calls, clock),
            security_groups=SecurityGroups(calls, clock),
            images=Images(calls, Parameters(calls, clock), version, clock),
            profiles=InstanceProfiles(calls, clock, random.Random(0), self._cluster),  # noqa: S311
            reservations=reservations,
            groups=groups,
            version=version,
        )
        self._groups = groups
        self._steps = StatusSteps(discovery, clock, uses_reservations=uses_reservations)

    async def start(self) -> None:
        """Load instance types and prices.

        Raises:
            CloudError: the account does not answer.
        """
        await self._types.refresh()
        await self._pricing.refresh_spot()

    async def types(
        self, found: FoundClass, annotations: Mapping[str, str]
    ) -> tuple[InstanceType, ...]:
        """What a pool with these annotations can buy of a node class.

        Raises:
            CloudError: the account does not answer, or the annotations cannot be read.
        """
        try:
            return await self._types.list(overruled(found.node_class, annotations))
        except KubeletError as error:
            raise CloudError(str(error)) from error

    async def find(self, node_class: EC2NodeClass) -> FoundClass:
        """Resolve everything a node class selects.

        Raises:
            CloudError: the account does not answer.
        """
        # discovery caches by uid, which objects of manifests lack
        found = _known_as(node_class, node_class.metadata.name)
        assumed, left_out = [], []
        for noun, step in (
            ("subnets", self._steps.subnets),
            ("security groups", self._steps.security_groups),
            ("images", self._steps.images),
        ):
            if not _has(found, noun):  # a class that was read from a cluster has found them there
                found = await _taken(step, found)
            if not _has(found, noun):
                assumed.append(noun)
        if "subnets" in assumed:
            found = with_status(found, subnets=(await self._own(found)).status.subnets)
        if self._uses_reservations and found.spec.capacity_reservation_selector_terms:
            found = await _taken(self._steps.reservations, found)
            if not found.status.capacity_reservations:
                left_out.append("capacity reservations")
        is_placed = found.spec.placement_group_selector is not None
        if is_placed and await self._groups.resolve(found) is None:
            left_out.append("placement group")
        return FoundClass(
            found,
            tuple(assumed),
            tuple(left_out),
            problem=await self._types.kubelet_problem(found) or "",
        )

    async def _own(self, node_class: EC2NodeClass) -> EC2NodeClass:
        """The class as if it had selected the subnets of the account."""
        terms = (SubnetSelectorTerm(tags={ec2_labels.DISCOVERY_TAG: self._cluster}),)
        spec = _replace(node_class.spec, subnet_selector_terms=terms)
        return await _taken(self._steps.subnets, _known_as(_replace(node_class, spec=spec), ""))


async def offline_aws(
    clock: Clock,
    settings: AwsSettings,
    *,
    region: str,
    uses_reservations: bool,
) -> OfflineAws:
    """A simulated account in a region, with its catalogue loaded.

    Raises:
        SimulationMissingError: that region of AWS cannot be simulated.
        CloudError: the account does not say what it sells.
    """
    account = TableAccount(clock, cluster=settings.cluster_name, region=region)
    aws = OfflineAws(account, clock, settings, uses_reservations=uses_reservations)
    await aws.start()
    return aws


async def _usual_version() -> str:
    return KUBERNETES


def usual_class(name: str, cluster: str) -> EC2NodeClass:
    """A node class with nothing special about it, for pools whose own is not known."""
    tags = {ec2_labels.DISCOVERY_TAG: cluster}
    spec = EC2NodeClassSpec(
        role=NODE_ROLE,
        ami_selector_terms=(AMISelectorTerm(alias="al2023@latest"),),
        subnet_selector_terms=(SubnetSelectorTerm(tags=tags),),
        security_group_selector_terms=(SecurityGroupSelectorTerm(tags=tags),),
    )
    return EC2NodeClass(metadata=ObjectMeta(name=name), spec=spec)


def _known_as(node_class: EC2NodeClass, uid: str) -> EC2NodeClass:
    return _replace(node_class, metadata=_replace(node_class.metadata, uid=uid))


async def _taken(step: StepFunction, node_class: EC2NodeClass) -> EC2NodeClass:
    """A class after a step; a part the account cannot answer stays empty."""
    try:
        return (await step(node_class)).node_class
    except CloudError:
        return node_class


def _has(node_class: EC2NodeClass, noun: str) -> bool:
    status = node_class.status
    found = {
        "subnets": status.subnets,
        "security groups": status.security_groups,
        "images": status.amis,
    }
    return bool(found[noun])
