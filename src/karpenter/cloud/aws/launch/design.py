"""The part of a launch that precedes the choice of subnets, shared by equal claims.

Hundreds of equal claims may be launched at the same moment, and filtering thousands of offerings
and writing boot scripts would block the event loop. It is done once, in a thread.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.ec2.cache import IdentityKey
from karpenter.cloud.aws.ec2.tags import launch_tags
from karpenter.cloud.aws.images.user_data.inputs import UserDataError
from karpenter.cloud.aws.launch.blueprints import Boot, blueprints
from karpenter.cloud.aws.launch.filters import Wanted, launchable
from karpenter.cloud.aws.launch.fleet import (
    FleetRequest,
    TemplateUse,
    capacity_type_of,
    fleet_request,
    of_capacity_type,
    partition_of,
    sameness,
    tenancy_of,
)
from karpenter.cloud.aws.launch.shortages import Asked
from karpenter.cloud.aws.launch.template_data import Blueprint, template_name
from karpenter.cloud.aws.network.cluster import ClusterFacts
from karpenter.cloud.aws.network.placement_groups import PlacementGroup
from karpenter.cloud.aws.network.subnets import fewest_pods
from karpenter.cloud.aws.types.kubelet import TypeKubelet
from karpenter.cloud.provider import CreateError
from karpenter.cloud.types import InstanceType
from karpenter.model import labels


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a claim may become."""

    types: Sequence[InstanceType]
    kubelet_on: Callable[[str], TypeKubelet]  # by the name of a type
    group: PlacementGroup | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A launch template that may not exist yet, with the types that use it."""

    name: str
    blueprint: Blueprint
    users: tuple[InstanceType, ...]

    @property
    def use(self) -> TemplateUse:
        """The template as fleets ask for it."""
        return TemplateUse(self.name, self.blueprint.image_id, self.users)


@dataclass(frozen=True, slots=True)
class Design:
    """What equal claims are launched with."""

    asked: Asked
    tags: Mapping[str, str]
    templates: tuple[Template, ...]
    addresses: Mapping[str, int]  # what an instance will take of those of a subnet, by zone
    context: str
    is_price_overlaid: bool
    _requests: dict[tuple[tuple[str, str], ...], FleetRequest] = field(default_factory=dict)

    def request(self, subnets: Mapping[str, str]) -> FleetRequest:
        """The request for one instance in the chosen subnet of each zone.

        Raises:
            CreateError: no type can be launched into any of the subnets.
        """
        key = tuple(sorted(subnets.items()))
        known = self._requests.get(key)
        if known is None:
            parameters = fleet_request(
                [each.use for each in self.templates],
                subnets,
                capacity_type=self.asked.capacity_type,
                tags=self.tags,
                context=self.context,
                is_price_overlaid=self.is_price_overlaid,
            )
            known = self._requests[key] = FleetRequest(parameters, sameness(parameters))
        return known


@dataclass(frozen=True, slots=True)
class Task:
    """The inputs of a design."""

    claim: NodeClaim
    node_class: EC2NodeClass
    candidates: Candidates
    wanted: Wanted
    cluster: ClusterFacts
    region: str
    chooses_reservations: bool

    @property
    def likeness(self) -> Hashable:
        """The cache key of a design; the claim's name is not part of it."""
        metadata, cluster = self.claim.metadata, self.cluster
        return (
            msgspec.json.encode(
                [self.claim.spec, metadata.labels, metadata.annotations], order="deterministic"
            ),
            IdentityKey(self.node_class),
            IdentityKey(self.candidates.types),
            self.candidates.group,
            self.wanted.is_best_effort,
            (cluster.endpoint, cluster.ca_bundle, cluster.dns_address, cluster.service_cidr),
        )


def designed(task: Task) -> Design:
    """Compute a design.

    Raises:
        InsufficientCapacityError, NodeClassNotReadyError, CreateError
        CloudError: no image runs on any of the types.
        KubeletError: an expression of the class fails on a type.
    """
    claim, node_class, wanted = task.claim, task.node_class, task.wanted
    types = launchable(task.candidates.types, wanted)
    capacity_type = capacity_type_of(types, wanted)
    types = of_capacity_type(types, capacity_type)
    group = "" if task.candidates.group is None else task.candidates.group.id
    asked = Asked(
        types=tuple(types),
        capacity_type=capacity_type,
        tenancy=tenancy_of(wanted),
        group=group,
        partition=partition_of(wanted) if group else "",
    )
    if not node_class.status.security_groups:
        name = node_class.metadata.name
        raise CreateError("NoSecurityGroups", f"EC2NodeClass {name} has no security groups")
    pool = claim.metadata.labels.get(labels.NODEPOOL, "")
    tags = launch_tags(node_class, cluster=task.cluster.name, pool=pool)
    kubelets = {kind.name: task.candidates.kubelet_on(kind.name) for kind in types}
    try:
        planned = blueprints(_boot(task, asked, tags), types, kubelets)
    except UserDataError as error:
        raise CreateError("LaunchFailed", str(error)) from error
    return Design(
        asked,
        tags,
        tuple(Template(template_name(each), each, users) for each, users in planned),
        fewest_pods(types, capacity_type),
        _context(claim, node_class),
        labels.PRICE_OVERLAY_APPLIED in claim.metadata.annotations,
    )


def _boot(task: Task, asked: Asked, tags: Mapping[str, str]) -> Boot:
    return Boot(
        cluster=task.cluster,
        region=task.region,
        claim=task.claim,
        node_class=task.node_class,
        tags=tags,
        capacity_type=asked.capacity_type,
        tenancy=asked.tenancy,
        placement_group=asked.group,
        partition=asked.partition,
        chooses_reservations=task.chooses_reservations,
    )


def _context(claim: NodeClaim, node_class: EC2NodeClass) -> str:
    relaxed = claim.metadata.annotations.get(labels.MIN_VALUES_RELAXED) == "true"
    return "" if relaxed else node_class.spec.context
