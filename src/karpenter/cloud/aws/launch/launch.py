"""Launches an instance for a claim: chooses offerings, ensures templates, requests a fleet."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass, SubnetStatus
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import Sharing
from karpenter.cloud.aws.ec2.errors import RETRYABLE, AwsError
from karpenter.cloud.aws.images.families import family_of
from karpenter.cloud.aws.images.user_data.render import LONGEST
from karpenter.cloud.aws.instances.record import InstanceRecord
from karpenter.cloud.aws.launch.design import Candidates, Design, Task, designed
from karpenter.cloud.aws.launch.errors import (
    TEMPLATE_NOT_FOUND,
    FleetError,
    error_of_call,
    error_of_fleet,
)
from karpenter.cloud.aws.launch.filters import Wanted
from karpenter.cloud.aws.launch.fleet import (
    FLEXIBLE_ENOUGH,
    FleetAsk,
    FleetRequest,
    Fleets,
    FleetShare,
    Fulfilled,
)
from karpenter.cloud.aws.launch.shortages import Shortages
from karpenter.cloud.aws.launch.template_data import Blueprint
from karpenter.cloud.aws.launch.templates import LaunchTemplates
from karpenter.cloud.aws.network.cluster import ClusterFacts
from karpenter.cloud.aws.network.subnets import SubnetChoice, Subnets
from karpenter.cloud.provider import CreateError
from karpenter.model import labels

_REMEMBERED: Final = 8  # designs
_MOST_ATTEMPTS: Final = 10_000  # claims whose refusals are counted, those refused last
_ALMOST_FULL: Final = 0.9  # of the user data EC2 takes

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
    design: Design
    choices: tuple[SubnetChoice, ...]
    request: FleetRequest


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
        self._designs: Sharing[Design] = Sharing(_REMEMBERED)

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
        task = Task(
            claim,
            node_class,
            candidates,
            wanted,
            self._cluster,
            self._region,
            self._chooses_reservations,
        )
        for is_last in (False, True):
            prepared = await self._prepare(task, subnets)
            share = await self._ask(claim, prepared, is_last=is_last)
            if share is not None:
                return self._settle(claim, node_class, prepared, share)
        raise AssertionError("the last attempt always ends")

    async def _prepare(self, task: Task, subnets: Sequence[SubnetStatus]) -> _Prepared:
        if family_of(task.node_class).name == "AL2023":
            await self._find_service_cidr()
        design = await self._designs.get(task.likeness, lambda: asyncio.to_thread(designed, task))
        _warn_if_inflexible(task.claim, design, task.wanted)
        for template in design.templates:
            _warn_about_user_data(task.node_class, template.blueprint)
            try:
                await self._templates.ensure(template.blueprint, template.name)
            except AwsError as error:
                raise error_of_call(error) from error
        choices = self._subnets.choose(subnets, design.addresses)
        try:
            request = design.request({choice.zone: choice.subnet_id for choice in choices})
        except CreateError:
            self._subnets.release(choices)
            raise
        return _Prepared(design, choices, request)

    async def _find_service_cidr(self) -> None:
        """Try to discover the service CIDR; a family that requires it reports its absence."""
        if self._cluster.service_cidr:
            return
        try:
            await self._cluster.load_service_cidr()
        except AwsError as error:
            log.warning("service network not found", error=str(error))

    async def _ask(
        self, claim: NodeClaim, prepared: _Prepared, *, is_last: bool
    ) -> FleetShare | None:
        """Request the instance; None when a template has been deleted and a retry is possible."""
        uid = claim.metadata.uid
        attempt = self._attempts.get(uid, 0)
        ask = FleetAsk(prepared.request, claim.metadata.name, uid, attempt)
        templates = [each.name for each in prepared.design.templates]
        try:
            with self._templates.in_use(templates):
                share = await self._fleets.launch(ask)
        except AwsError as error:
            self._subnets.release(prepared.choices)
            if not isinstance(error, RETRYABLE):
                self._refused(uid)
            if error.code == TEMPLATE_NOT_FOUND:
                self._templates.forget(templates)
                if not is_last:
                    return None
            raise error_of_call(error) from error
        self._shortages.note(share.errors, prepared.design.asked, claim)
        if _is_template_missing(share.errors):
            self._templates.forget(templates)
            if share.instance is None and not is_last:
                self._subnets.release(prepared.choices)
                self._refused(uid)
                return None
        return share

    def _refused(self, uid: str) -> None:
        """Count a refusal, so that the next attempt has another idempotency token."""
        attempts = self._attempts.pop(uid, 0)
        self._attempts[uid] = attempts + 1
        # bounded, because the deletion of a never-launched claim is not seen here
        while len(self._attempts) > _MOST_ATTEMPTS:
            del self._attempts[next(iter(self._attempts))]

    def _settle(
        self, claim: NodeClaim, node_class: EC2NodeClass, prepared: _Prepared, share: FleetShare
    ) -> InstanceRecord:
        instance = share.instance
        if instance is None:
            self._subnets.release(prepared.choices)
            self._refused(claim.metadata.uid)
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
        asked = prepared.design.asked
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
            tags={**prepared.design.tags, ec2_labels.NODECLAIM_TAG: claim.metadata.name},
            security_groups=frozenset(each.id for each in node_class.status.security_groups),
            subnet_id=instance.subnet_id,
            capacity_type=asked.capacity_type,
            reservation_id="" if reservation is None else reservation.id,
            reservation_type="" if reservation is None else reservation.type,
            is_interruptible=reservation is not None and reservation.is_interruptible,
            tenancy=asked.tenancy,
            placement_group=asked.group,
            partition=asked.partition,
            efa_count=asked.efa_count(instance.instance_type, claim, node_class),
        )


def _is_template_missing(errors: Iterable[FleetError]) -> bool:
    return any(error.code == TEMPLATE_NOT_FOUND for error in errors)


def _warn_if_inflexible(claim: NodeClaim, design: Design, wanted: Wanted) -> None:
    asked = design.asked
    is_fallback = asked.capacity_type == labels.ON_DEMAND and wanted.allows(labels.SPOT)
    if is_fallback and len(asked.types) < FLEXIBLE_ENOUGH:
        log.warning(
            "spot is allowed and sold out; more instance types would give it a better chance",
            NodeClaim={"name": claim.metadata.name},
            types=len(asked.types),
        )


def _warn_about_user_data(node_class: EC2NodeClass, blueprint: Blueprint) -> None:
    name, ignored = node_class.metadata.name, blueprint.ignored_settings
    size = len(blueprint.user_data.encode())
    if size >= _ALMOST_FULL * LONGEST:
        log.warning("user data is close to what EC2 takes", node_class=name, bytes=size)
    if ignored:
        log.warning("settings in user data are not known", node_class=name, settings=list(ignored))
