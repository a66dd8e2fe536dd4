"""Asks EC2 whether a launch with a node class would be allowed, without launching anything.

Only the launch template is real: a dry run has to name one that exists.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import ObjectMeta
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.cluster_view import NODE_CLASS_KIND, ClusterView
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import (
    AwsDryRunPassed,
    AwsError,
    AwsServerError,
    AwsThrottledError,
    AwsUnauthorizedError,
    AwsUnreachableError,
)
from karpenter.cloud.aws.ec2.tags import launch_tags, tag_list
from karpenter.cloud.aws.images.user_data.inputs import UserDataError
from karpenter.cloud.aws.launch.blueprints import Boot, blueprints
from karpenter.cloud.aws.launch.template_data import Blueprint, network_interfaces
from karpenter.cloud.aws.launch.templates import LaunchTemplates
from karpenter.cloud.aws.network.cluster import ClusterFacts
from karpenter.cloud.aws.network.placement_groups import PlacementGroups
from karpenter.cloud.aws.node_class.typical_launch import NO_POOL, TypicalLaunch, typical_launch
from karpenter.cloud.aws.node_class.validation import TryAgainError, Verdict
from karpenter.cloud.aws.types.instance_types import InstanceTypes
from karpenter.model import labels
from karpenter.model.conditions import FALSE

_BUSY: Final = (AwsThrottledError, AwsServerError, AwsUnreachableError)


class LaunchRehearsal:
    """Rehearses launches."""

    def __init__(
        self,
        calls: Calls,
        view: ClusterView,
        types: InstanceTypes,
        templates: LaunchTemplates,
        cluster: ClusterFacts,
        groups: PlacementGroups,
        *,
        uses_reservations: bool = True,
    ) -> None:
        self._calls = calls
        self._view = view
        self._types = types
        self._templates = templates
        self._cluster = cluster
        self._groups = groups
        self._uses_reservations = uses_reservations

    async def judge(self, node_class: EC2NodeClass) -> Verdict:
        """Try everything a launch does, without launching."""
        listed = await self._types.list(node_class)
        # more than a thousand types are checked, which would block the event loop
        launch = await asyncio.to_thread(
            typical_launch,
            node_class,
            listed,
            self._pools(node_class.metadata.name),
            lambda name: self._types.can_use(node_class, name),
        )
        tags = launch_tags(node_class, cluster=self._cluster.name, pool=launch.pool)
        try:
            blueprint = self._blueprint(node_class, tags, launch)
            rehearsal = _Rehearsal(
                await self._template(blueprint), launch, tags, blueprint, _by_id(node_class, launch)
            )
            await self._rehearse_fleet(rehearsal)
            await self._rehearse_instances(rehearsal)
        except UserDataError as error:
            return Verdict(FALSE, "UserDataInvalid", str(error))
        except _BUSY as error:
            raise TryAgainError from error
        except _RefusedError as error:
            return error.verdict
        return Verdict()

    def _blueprint(
        self, node_class: EC2NodeClass, tags: dict[str, str], launch: TypicalLaunch
    ) -> Blueprint:
        group = self._groups.known(node_class)
        boot = Boot(
            cluster=self._cluster,
            region=self._calls.region,
            claim=NodeClaim(metadata=ObjectMeta(name=NO_POOL)),
            node_class=node_class,
            tags=tags,
            capacity_type=labels.ON_DEMAND,
            tenancy=launch.tenancy,
            placement_group="" if group is None else group.id,
            chooses_reservations=self._uses_reservations,
        )
        kind = launch.kind
        kubelets = {kind.name: self._types.kubelet_on(node_class, kind.name)}
        blueprint, _ = blueprints(boot, [kind], kubelets)[0]
        return blueprint

    async def _template(self, blueprint: Blueprint) -> str:
        try:
            return await self._templates.ensure(blueprint)
        except AwsUnauthorizedError as error:
            raise _RefusedError("CreateLaunchTemplateAuthCheckFailed", error) from error
        except AwsError as error:
            raise _too_large(error) from error

    async def _rehearse_fleet(self, rehearsal: "_Rehearsal") -> None:
        overrides = [
            {"InstanceType": rehearsal.launch.kind.name, "SubnetId": subnet}
            for subnet in rehearsal.subnets
        ]
        specification = {"LaunchTemplateName": rehearsal.template, "Version": "$Latest"}
        try:
            await self._calls.call(
                "ec2",
                "CreateFleet",
                retries=False,
                DryRun=True,
                Type="instant",
                LaunchTemplateConfigs=[
                    {"LaunchTemplateSpecification": specification, "Overrides": overrides}
                ],
                TargetCapacitySpecification={
                    "DefaultTargetCapacityType": labels.ON_DEMAND,
                    "TotalTargetCapacity": 1,
                },
                TagSpecifications=_tagged(("instance", "volume", "fleet"), rehearsal.tags),
            )
        except AwsDryRunPassed:
            return
        except AwsUnauthorizedError as error:
            raise _RefusedError("CreateFleetAuthCheckFailed", error) from error

    async def _rehearse_instances(self, rehearsal: "_Rehearsal") -> None:
        """Try each subnet until one passes; else raise the first error, or one of a busy EC2."""
        errors: list[AwsError] = []
        for subnet in rehearsal.subnets:
            try:
                await self._calls.call(
                    "ec2",
                    "RunInstances",
                    retries=False,
                    DryRun=True,
                    MinCount=1,
                    MaxCount=1,
                    InstanceType=rehearsal.launch.kind.name,
                    LaunchTemplate={
                        "LaunchTemplateName": rehearsal.template,
                        "Version": "$Latest",
                    },
                    NetworkInterfaces=[
                        {**each, "SubnetId": subnet}
                        for each in network_interfaces(rehearsal.blueprint)
                    ],
                    TagSpecifications=_tagged(
                        ("instance", "volume", "network-interface"), rehearsal.tags
                    ),
                )
            except AwsDryRunPassed:
                return
            except AwsError as error:
                errors.append(error)
            else:
                return
        errors.sort(key=lambda each: not isinstance(each, _BUSY))
        if errors:
            raise _refusal(errors[0], rehearsal.blueprint.node_class) from errors[0]

    def _pools(self, name: str) -> Sequence[NodePool]:
        found = []
        for pool in self._view.pools.list():
            reference = pool.spec.template.spec.node_class_ref
            is_going = pool.metadata.deletion_timestamp is not None
            if reference.kind == NODE_CLASS_KIND and reference.name == name and not is_going:
                found.append(pool)
        return found


class _RefusedError(Exception):
    def __init__(self, reason: str, error: AwsError, *, is_kept: bool = True) -> None:
        super().__init__(reason)
        self.verdict = Verdict(FALSE, reason, str(error), is_kept)


@dataclass(frozen=True, slots=True)
class _Rehearsal:
    template: str
    launch: TypicalLaunch
    tags: dict[str, str]
    blueprint: Blueprint
    subnets: tuple[str, ...]


def _by_id(node_class: EC2NodeClass, launch: TypicalLaunch) -> tuple[str, ...]:
    """The subnets, those first where the type can be had.

    Sorted by id: their order in the status changes with every address that is taken.
    """
    ordered = sorted(
        node_class.status.subnets, key=lambda each: (each.zone not in launch.zones, each.id)
    )
    return tuple(each.id for each in ordered)


def _tagged(kinds: Iterable[str], tags: dict[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tag_list(tags)} for kind in kinds]


def _refusal(error: AwsError, node_class: EC2NodeClass) -> Exception:
    if isinstance(error, AwsUnauthorizedError):
        return _RefusedError("RunInstancesAuthCheckFailed", error)
    message = error.message.lower()
    if error.code == "InvalidParameterValue" and "iam instance profile" in message:
        if node_class.spec.instance_profile:
            return _RefusedError("InstanceProfileNotFound", error, is_kept=False)
        return TryAgainError()  # IAM needs a while to make a new profile known to EC2
    return _too_large(error)


def _too_large(error: AwsError) -> Exception:
    if "User data is limited to" in error.message:
        return _RefusedError("UserDataSizeLimitExceeded", error)
    return error
