"""Launches an instance for a claim: from what it may become to the instance it became."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from karpenter.api.ec2 import EC2NodeClass, SubnetStatus
from karpenter.api.karpenter import NodeClaim
from karpenter.clock import Clock
from karpenter.cloud.aws.blueprints import Boot, blueprints
from karpenter.cloud.aws.cluster_facts import ClusterFacts
from karpenter.cloud.aws.errors import RETRYABLE, AwsError
from karpenter.cloud.aws.families import family_of
from karpenter.cloud.aws.filters import Wanted, launchable
from karpenter.cloud.aws.fleet import (
    FLEXIBLE_ENOUGH,
    Fulfilled,
    TemplateUse,
    capacity_type_of,
    fleet_request,
    of_capacity_type,
    partition_of,
    tenancy_of,
)
from karpenter.cloud.aws.fleets import FleetAsk, Fleets, FleetShare
from karpenter.cloud.aws.instance_record import InstanceRecord
from karpenter.cloud.aws.kubelet import TypeKubelet
from karpenter.cloud.aws.launch_errors import (
    TEMPLATE_NOT_FOUND,
    FleetError,
    error_of_call,
    error_of_fleet,
)
from karpenter.cloud.aws.launch_templates import LaunchTemplates
from karpenter.cloud.aws.placement_groups import PlacementGroup
from karpenter.cloud.aws.shortages import Asked, Shortages
from karpenter.cloud.aws.subnets import SubnetChoice, Subnets
from karpenter.cloud.aws.tags import launch_tags
from karpenter.cloud.aws.user_data.inputs import UserDataError
from karpenter.cloud.aws.user_data.render import LONGEST
from karpenter.cloud.provider import CreateError
from karpenter.cloud.types import InstanceType
from karpenter.model import labels

_REMEMBERED: Final = 8  # results of the filters
_ALMOST_FULL: Final = 0.9  # of the user data EC2 takes

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a claim may become."""

    types: Sequence[InstanceType]
    kubelet_on: Callable[[str], TypeKubelet]  # by the name of a type
    group: PlacementGroup | None = None


@dataclass(frozen=True, slots=True)
class _Prepared:
    asked: Asked
    uses: tuple[TemplateUse, ...]
    choices: tuple[SubnetChoice, ...]
    tags: Mapping[str, str]
    request: Mapping[str, object]


class Launcher:
    """Launches instances."""

    def __init__(
        self,
        region: str,
        clock: Clock,
        cluster: ClusterFacts,
        templates: LaunchTemplates,
        subnets: Subnets,
        fleets: Fleets,
        shortages: Shortages,
        *,
        chooses_reservations: bool,
    ) -> None:
        self._region = region
        self._clock = clock
        self._cluster = cluster
        self._templates = templates
        self._subnets = subnets
        self._fleets = fleets
        self._shortages = shortages
        self._chooses_reservations = chooses_reservations
        self._attempts: dict[str, int] = {}  # claim uid -> launches that were refused
        self._filtered: deque[tuple[Sequence[InstanceType], Wanted, Sequence[InstanceType]]] = (
            deque(maxlen=_REMEMBERED)
        )

    async def launch(
        self,
        claim: NodeClaim,
        node_class: EC2NodeClass,
        candidates: Candidates,
        wanted: Wanted,
        subnets: Sequence[SubnetStatus],
    ) -> InstanceRecord:
        """Launch an instance.

        Args:
            claim: what it is for.
            node_class: what it is launched with.
            candidates: what it may become.
            wanted: what the claim asks for.
            subnets: where it may be.

        Raises:
            InsufficientCapacityError, NodeClassNotReadyError, CreateError
        """
        for is_last in (False, True):
            prepared = await self._prepare(claim, node_class, candidates, wanted, subnets)
            share = await self._ask(claim, prepared, is_last=is_last)
            if share is not None:
                return self._settle(claim, node_class, prepared, share)
        raise AssertionError("the last attempt always ends")

    async def _prepare(
        self,
        claim: NodeClaim,
        node_class: EC2NodeClass,
        candidates: Candidates,
        wanted: Wanted,
        subnets: Sequence[SubnetStatus],
    ) -> _Prepared:
        types = await self._launchable(candidates.types, wanted)
        capacity_type = capacity_type_of(types, wanted)
        types = of_capacity_type(types, capacity_type)
        _warn_if_inflexible(claim, types, capacity_type, wanted)
        group = "" if candidates.group is None else candidates.group.id
        asked = Asked(
            types=tuple(types),
            capacity_type=capacity_type,
            tenancy=tenancy_of(wanted),
            group=group,
            partition=partition_of(wanted) if group else "",
        )
        tags = self._tags(claim, node_class)
        boot = await self._boot(claim, node_class, asked, tags)
        kubelets = {kind.name: candidates.kubelet_on(kind.name) for kind in types}
        uses = await self._templates_of(boot, types, kubelets)
        choices = self._subnets.choose(subnets, types, capacity_type)
        try:
            request = fleet_request(
                uses,
                {choice.zone: choice.subnet_id for choice in choices},
                capacity_type=capacity_type,
                tags=tags,
                context=_context(claim, node_class),
                is_price_overlaid=labels.PRICE_OVERLAY_APPLIED in claim.metadata.annotations,
            )
        except CreateError:
            self._subnets.release(choices)
            raise
        return _Prepared(asked, uses, choices, tags, request)

    async def _launchable(
        self, types: Sequence[InstanceType], wanted: Wanted
    ) -> Sequence[InstanceType]:
        """What the filters leave; claims that ask for the same of the same types share the work."""
        for known_types, known_wanted, left in self._filtered:
            if known_types is types and known_wanted == wanted:
                return left
        # thousands of offerings are looked at, which takes longer than others should wait
        left = await asyncio.to_thread(launchable, types, wanted)
        self._filtered.append((types, wanted, left))
        return left

    async def _boot(
        self, claim: NodeClaim, node_class: EC2NodeClass, asked: Asked, tags: Mapping[str, str]
    ) -> Boot:
        cluster = self._cluster
        cidr = cluster.service_cidr
        if not cidr and family_of(node_class).name == "AL2023":
            try:
                cidr = await cluster.load_service_cidr()
            except AwsError as error:
                log.warning("service network not found", error=str(error))
        return Boot(
            region=self._region,
            cluster_name=cluster.name,
            endpoint=cluster.endpoint,
            ca_bundle=cluster.ca_bundle,
            cluster_dns=cluster.dns_address,
            service_cidr=cidr,
            claim=claim,
            node_class=node_class,
            tags=tags,
            capacity_type=asked.capacity_type,
            tenancy=asked.tenancy,
            placement_group=asked.group,
            partition=asked.partition,
            chooses_reservations=self._chooses_reservations,
        )

    async def _templates_of(
        self,
        boot: Boot,
        types: Sequence[InstanceType],
        kubelets: Mapping[str, TypeKubelet],
    ) -> tuple[TemplateUse, ...]:
        if not boot.node_class.status.security_groups:
            name = boot.node_class.metadata.name
            raise CreateError("NoSecurityGroups", f"EC2NodeClass {name} has no security groups")
        try:
            planned = blueprints(boot, types, kubelets)
        except UserDataError as error:
            raise CreateError("LaunchFailed", str(error)) from error
        uses = []
        for blueprint, users in planned:
            _warn_about_user_data(boot, blueprint.user_data, blueprint.ignored_settings)
            try:
                name = await self._templates.ensure(blueprint)
            except AwsError as error:
                raise error_of_call(error) from error
            uses.append(TemplateUse(name, blueprint.image_id, users))
        return tuple(uses)

    async def _ask(
        self, claim: NodeClaim, prepared: _Prepared, *, is_last: bool
    ) -> FleetShare | None:
        """Ask for the instance; nothing when a template has vanished and another try is worth it."""
        uid = claim.metadata.uid
        ask = FleetAsk(prepared.request, claim.metadata.name, uid, self._attempts.get(uid, 0))
        try:
            share = await self._fleets.launch(ask)
        except AwsError as error:
            self._subnets.release(prepared.choices)
            if not isinstance(error, RETRYABLE):
                self._attempts[uid] = ask.attempt + 1
            if error.code == TEMPLATE_NOT_FOUND and not is_last:
                self._templates.forget([use.name for use in prepared.uses])
                return None
            raise error_of_call(error) from error
        self._shortages.note(share.errors, prepared.asked, claim)
        if share.instance is None and not is_last and _is_template_missing(share.errors):
            self._subnets.release(prepared.choices)
            self._attempts[uid] = ask.attempt + 1
            self._templates.forget([use.name for use in prepared.uses])
            return None
        return share

    def _settle(
        self, claim: NodeClaim, node_class: EC2NodeClass, prepared: _Prepared, share: FleetShare
    ) -> InstanceRecord:
        instance = share.instance
        if instance is None:
            self._subnets.release(prepared.choices)
            self._attempts[claim.metadata.uid] = self._attempts.get(claim.metadata.uid, 0) + 1
            raise error_of_fleet(share.errors)
        self._attempts.pop(claim.metadata.uid, None)
        self._subnets.release(prepared.choices, used={instance.subnet_id})
        return self._record(claim, node_class, prepared, instance)

    def _record(
        self,
        claim: NodeClaim,
        node_class: EC2NodeClass,
        prepared: _Prepared,
        instance: Fulfilled,
    ) -> InstanceRecord:
        asked = prepared.asked
        zones = {choice.subnet_id: choice.zone for choice in prepared.choices}
        zone = instance.zone or zones.get(instance.subnet_id, "")
        reservation = asked.reservation(instance.instance_type, zone)
        if reservation is not None:
            self._shortages.took(reservation.id)
        return InstanceRecord(
            id=instance.instance_id,
            instance_type=instance.instance_type,
            zone=zone,
            image_id=instance.image_id,
            launched_at=self._clock.now(),
            tags={**prepared.tags, labels.NODECLAIM_TAG: claim.metadata.name},
            security_groups=frozenset(each.id for each in node_class.status.security_groups),
            subnet_id=instance.subnet_id,
            capacity_type=asked.capacity_type,
            reservation_id="" if reservation is None else reservation.id,
            reservation_type="" if reservation is None else reservation.type,
            is_interruptible=reservation is not None and reservation.is_interruptible,
            tenancy=asked.tenancy,
            placement_group=asked.group,
            partition=asked.partition,
            efa_count=asked.efa_count(instance.instance_type, claim),
        )

    def _tags(self, claim: NodeClaim, node_class: EC2NodeClass) -> dict[str, str]:
        pool = claim.metadata.labels.get(labels.NODEPOOL, "")
        return launch_tags(node_class, cluster=self._cluster.name, pool=pool)


def _context(claim: NodeClaim, node_class: EC2NodeClass) -> str:
    relaxed = claim.metadata.annotations.get(labels.MIN_VALUES_RELAXED) == "true"
    return "" if relaxed else node_class.spec.context


def _is_template_missing(errors: Iterable[FleetError]) -> bool:
    return any(error.code == TEMPLATE_NOT_FOUND for error in errors)


def _warn_if_inflexible(
    claim: NodeClaim, types: Sequence[InstanceType], capacity_type: str, wanted: Wanted
) -> None:
    is_fallback = capacity_type == labels.ON_DEMAND and wanted.allows(labels.SPOT)
    if is_fallback and len(types) < FLEXIBLE_ENOUGH:
        log.warning(
            "spot is allowed and sold out; more instance types would give it a better chance",
            NodeClaim={"name": claim.metadata.name},
            types=len(types),
        )


def _warn_about_user_data(boot: Boot, text: str, ignored: Sequence[str]) -> None:
    name = boot.node_class.metadata.name
    size = len(text.encode())
    if size >= _ALMOST_FULL * LONGEST:
        log.warning("user data is close to what EC2 takes", node_class=name, bytes=size)
    if ignored:
        log.warning("settings in user data are not known", node_class=name, settings=list(ignored))
