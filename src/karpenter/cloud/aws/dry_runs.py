"""Asks EC2 whether a launch with a node class would be allowed, without launching anything.

Only the launch template is real: a dry run has to name one that exists.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from karpenter.api.ec2 import EC2NodeClass
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import ObjectMeta
from karpenter.cloud.aws.blueprints import Boot, blueprints
from karpenter.cloud.aws.calls import Calls
from karpenter.cloud.aws.cluster_facts import ClusterFacts
from karpenter.cloud.aws.errors import (
    AwsDryRunPassed,
    AwsError,
    AwsServerError,
    AwsThrottledError,
    AwsUnauthorizedError,
    AwsUnreachableError,
)
from karpenter.cloud.aws.families import family_of
from karpenter.cloud.aws.images import images_by_type
from karpenter.cloud.aws.instance_types import InstanceTypes
from karpenter.cloud.aws.launch_templates import LaunchTemplates
from karpenter.cloud.aws.placement_groups import PlacementGroups
from karpenter.cloud.aws.tags import launch_tags, tag_list
from karpenter.cloud.aws.user_data.inputs import UserDataError
from karpenter.cloud.aws.validation import TryAgainError, Verdict
from karpenter.cloud.aws.view import NODE_CLASS_KIND, ClusterView
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.model.conditions import FALSE
from karpenter.model.requirements import Requirements

_BUSY: Final = (AwsThrottledError, AwsServerError, AwsUnreachableError)
_USUAL_TYPES: Final = ("m5.large", "m6g.large")
_DEDICATED: Final = "dedicated"
_DEFAULT: Final = "default"
_NO_POOL: Final = "validation"  # the tag of a pool must have a value


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
        pools = self._pools(node_class.metadata.name)
        listed = await self._types.list(node_class)
        # more than a thousand types are looked at, which takes longer than others should wait
        kind = await asyncio.to_thread(typical_type, node_class, listed, pools)
        pool = pools[0].metadata.name if pools else _NO_POOL
        tags = launch_tags(node_class, cluster=self._cluster.name, pool=pool)
        boot = self._boot(node_class, tags, pools)
        try:
            name = await self._template(boot, kind)
            await self._rehearse_fleet(name, kind, node_class, tags)
            await self._rehearse_instances(name, kind, node_class, tags)
        except UserDataError as error:
            return Verdict(FALSE, "UserDataInvalid", str(error))
        except _BUSY as error:
            raise TryAgainError from error
        except _RefusedError as error:
            return error.verdict
        return Verdict()

    async def _template(self, boot: Boot, kind: InstanceType) -> str:
        kubelets = {kind.name: self._types.kubelet_on(boot.node_class, kind.name)}
        one_offering = kind.with_offerings(kind.offerings[:1])
        blueprint, _ = blueprints(boot, [one_offering], kubelets)[0]
        try:
            return await self._templates.ensure(blueprint)
        except AwsUnauthorizedError as error:
            raise _RefusedError("CreateLaunchTemplateAuthCheckFailed", error) from error
        except AwsError as error:
            raise _too_large(error) from error

    async def _rehearse_fleet(
        self, template: str, kind: InstanceType, node_class: EC2NodeClass, tags: dict[str, str]
    ) -> None:
        overrides = [
            {"InstanceType": kind.name, "SubnetId": subnet.id}
            for subnet in node_class.status.subnets
        ]
        specification = {"LaunchTemplateName": template, "Version": "$Latest"}
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
                TagSpecifications=_tagged(("instance", "volume", "fleet"), tags),
            )
        except AwsDryRunPassed:
            return
        except AwsUnauthorizedError as error:
            raise _RefusedError("CreateFleetAuthCheckFailed", error) from error

    async def _rehearse_instances(
        self, template: str, kind: InstanceType, node_class: EC2NodeClass, tags: dict[str, str]
    ) -> None:
        """One subnet that works is enough; if none does, the first says why."""
        first: AwsError | None = None
        for subnet in node_class.status.subnets:
            try:
                await self._calls.call(
                    "ec2",
                    "RunInstances",
                    retries=False,
                    DryRun=True,
                    MinCount=1,
                    MaxCount=1,
                    InstanceType=kind.name,
                    LaunchTemplate={"LaunchTemplateName": template, "Version": "$Latest"},
                    NetworkInterfaces=[_interface(subnet.id, node_class)],
                    TagSpecifications=_tagged(("instance", "volume"), tags),
                )
            except AwsDryRunPassed:
                return
            except AwsError as error:
                first = first or error
            else:
                return
        if first is not None:
            raise _refusal(first, node_class) from first

    def _boot(
        self, node_class: EC2NodeClass, tags: dict[str, str], pools: Iterable[NodePool]
    ) -> Boot:
        group = self._groups.known(node_class)
        return Boot(
            region=self._calls.region,
            cluster_name=self._cluster.name,
            endpoint=self._cluster.endpoint,
            ca_bundle=self._cluster.ca_bundle,
            cluster_dns=self._cluster.dns_address,
            service_cidr=self._cluster.service_cidr,
            claim=NodeClaim(metadata=ObjectMeta(name=_NO_POOL)),
            node_class=node_class,
            tags=tags,
            capacity_type=labels.ON_DEMAND,
            tenancy=_DEDICATED if any(map(_allows_dedicated, pools)) else _DEFAULT,
            placement_group="" if group is None else group.id,
            chooses_reservations=self._uses_reservations,
        )

    def _pools(self, name: str) -> Sequence[NodePool]:
        found = []
        for pool in self._view.pools.list():
            reference = pool.spec.template.spec.node_class_ref
            if reference.kind == NODE_CLASS_KIND and reference.name == name:
                found.append(pool)
        return sorted(found, key=lambda pool: pool.metadata.name)


class _RefusedError(Exception):
    def __init__(self, reason: str, error: AwsError, *, is_kept: bool = True) -> None:
        super().__init__(reason)
        self.verdict = Verdict(FALSE, reason, str(error), is_kept)


def typical_type(
    node_class: EC2NodeClass, types: Sequence[InstanceType], pools: Iterable[NodePool]
) -> InstanceType:
    """A type that launches of the class are likely to use, the plainest there is."""
    wanted = [_pool_requirements(pool) for pool in pools]
    if wanted and not family_of(node_class).is_windows:
        fitting = [
            kind
            for kind in types
            if any(kind.requirements.conflict(each) is None for each in wanted)
        ]
        booting = _with_image(node_class, fitting)
        plain = [kind for kind in booting if not _has_devices(kind)]
        for kind in plain or booting:
            return kind
    by_name = {kind.name: kind for kind in _with_image(node_class, types)}
    for name in _USUAL_TYPES:
        if name in by_name:
            return by_name[name]
    return next(iter(by_name.values()), types[0])


def _with_image(node_class: EC2NodeClass, types: Iterable[InstanceType]) -> list[InstanceType]:
    grouped = images_by_type(node_class.status.amis, types)
    return sorted(
        (kind for kinds in grouped.values() for kind in kinds if kind.offerings),
        key=lambda kind: (min(each.price for each in kind.offerings), kind.name),
    )


def _has_devices(kind: InstanceType) -> bool:
    keys = (labels.INSTANCE_GPU_COUNT, labels.INSTANCE_ACCELERATOR_COUNT)
    return any(kind.requirements[key].values for key in keys)


def _pool_requirements(pool: NodePool) -> Requirements:
    template = pool.spec.template
    return Requirements.from_wire(template.spec.requirements) & Requirements.from_labels(
        template.metadata.labels
    )


def _allows_dedicated(pool: NodePool) -> bool:
    return _pool_requirements(pool)[labels.INSTANCE_TENANCY].has(_DEDICATED)


def _interface(subnet_id: str, node_class: EC2NodeClass) -> dict[str, Any]:
    groups = [group.id for group in node_class.status.security_groups]
    return {"DeviceIndex": 0, "SubnetId": subnet_id, "Groups": groups}


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
