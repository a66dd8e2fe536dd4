"""Validates node classes: whether launches with them can work, before one is needed.

The checks go from those without a call to those that call EC2; the first that fails ends them. A
verdict of EC2 is cached while neither the class nor what it resolves to changes.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

import msgspec

from karpenter.admission.kubelets.kubelet import KubeletReason, kubelet_problems
from karpenter.api.node_classes import ec2_labels
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.ec2.errors import AwsError, AwsServerError, AwsThrottledError
from karpenter.cloud.aws.images.families import FAMILIES, family_of
from karpenter.cloud.aws.node_class import conditions
from karpenter.cloud.aws.node_class.status import StatusStep
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.aws.types.instance_types import InstanceTypes
from karpenter.model import labels
from karpenter.model.conditions import FALSE, TRUE, UNKNOWN, status_of

AGAIN: Final = timedelta(minutes=10).total_seconds()
SOON: Final = 10.0
_VERDICT_LIFETIME: Final = timedelta(minutes=30)
_NEEDED: Final = (
    conditions.IMAGES,
    conditions.INSTANCE_PROFILE,
    conditions.SECURITY_GROUPS,
    conditions.SUBNETS,
)
_RESERVED_TAGS: Final = (
    ec2_labels.EKS_CLUSTER_NAME_TAG,
    labels.NODEPOOL,
    ec2_labels.NODECLAIM_TAG,
    ec2_labels.NODE_CLASS,
)
_RESERVED_TAG_PREFIX: Final = "kubernetes.io/cluster"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found: it passed, or why it did not."""

    status: str = TRUE
    reason: str = ""
    message: str = ""
    is_kept: bool = True  # whether it stays true until something changes

    @property
    def has_passed(self) -> bool:
        """Whether nothing was found."""
        return self.status == TRUE


class TryAgainError(Exception):
    """No verdict is possible now; the condition stays as it is."""

    def __init__(self, seconds: float = SOON) -> None:
        super().__init__(f"look again in {seconds} s")
        self.seconds = seconds


class DryRuns(Protocol):
    """Dry runs of launches."""

    async def judge(self, node_class: EC2NodeClass) -> Verdict:
        """Try everything a launch does, without launching.

        Raises:
            TryAgainError: EC2 is too busy for a verdict.
            AwsError: EC2 refused for a reason that is unrelated to the class.
        """


class Validation:
    """The checks of node classes."""

    def __init__(
        self,
        clock: Clock,
        settings: AwsSettings,
        types: InstanceTypes,
        dry_runs: DryRuns,
        service_cidr: Callable[[], Awaitable[str]],
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._types = types
        self._dry_runs = dry_runs
        self._service_cidr = service_cidr
        self._verdicts: TtlCache[tuple[str, bytes], Verdict] = TtlCache(
            clock, _VERDICT_LIFETIME.total_seconds()
        )

    async def step(self, node_class: EC2NodeClass) -> StatusStep:
        """Set the condition ``ValidationSucceeded``."""
        try:
            verdict = await self._judge(node_class)
        except TryAgainError as error:
            return StatusStep(node_class, error.seconds)
        changed = conditions.with_condition(
            node_class,
            conditions.VALIDATION,
            verdict.status,
            verdict.reason,
            verdict.message,
            now=self._clock.now(),
        )
        return StatusStep(changed, AGAIN)

    def forget(self, name: str) -> None:
        """Drop the verdicts about a node class that is gone."""
        for key in [key for key, _ in self._verdicts.items() if key[0] == name]:
            self._verdicts.drop(key)

    async def _judge(self, node_class: EC2NodeClass) -> Verdict:
        for check in (self._cidr, self._kubelet, self._dependencies, self._expressions, _tags):
            verdict = await check(node_class)
            if not verdict.has_passed:
                return verdict
        if self._settings.disable_dry_run:
            return Verdict()
        key = (node_class.metadata.name, _fingerprint(node_class))
        known = self._verdicts.get(key)
        if known is not None:
            return known
        verdict = await self._dry_runs.judge(node_class)
        return self._verdicts.put(key, verdict) if verdict.is_kept else verdict

    async def _cidr(self, node_class: EC2NodeClass) -> Verdict:
        if family_of(node_class) != FAMILIES["AL2023"]:
            return Verdict()
        try:
            await self._service_cidr()
        except (AwsServerError, AwsThrottledError) as error:
            raise TryAgainError from error
        except AwsError as error:
            message = f"the service addresses of the cluster cannot be found: {error}"
            return Verdict(FALSE, "ClusterCIDRResolutionFailed", message)
        return Verdict()

    async def _kubelet(self, node_class: EC2NodeClass) -> Verdict:
        problems = kubelet_problems(
            node_class.spec.kubelet,
            ("spec", "kubelet"),
            family=family_of(node_class).name,
            expressions=self._settings.node_class_cel,
        )
        for reason in KubeletReason:
            found = [str(each.error) for each in problems if each.reason == reason]
            if found:
                return Verdict(FALSE, str(reason), "; ".join(found))
        return Verdict()

    async def _dependencies(self, node_class: EC2NodeClass) -> Verdict:
        reason, known = "DependenciesNotReady", node_class.status.conditions
        for status in (FALSE, UNKNOWN):
            found = [kind for kind in _NEEDED if (status_of(known, kind) or UNKNOWN) == status]
            if found:
                return Verdict(status, reason, f"waiting for {', '.join(found)}")
        return Verdict()

    async def _expressions(self, node_class: EC2NodeClass) -> Verdict:
        if not self._types.catalogue.entries:
            raise TryAgainError
        problem = await self._types.kubelet_problem(node_class)
        if problem is not None:
            return Verdict(FALSE, "KubeletExpressionEvaluationFailed", problem)
        return Verdict()


async def _tags(node_class: EC2NodeClass) -> Verdict:
    found = sorted(
        key
        for key in node_class.spec.tags
        if key in _RESERVED_TAGS or key.startswith(_RESERVED_TAG_PREFIX)
    )
    if not found:
        return Verdict()
    return Verdict(FALSE, "TagValidationFailed", f"tags are Karpenter's own: {', '.join(found)}")


def _fingerprint(node_class: EC2NodeClass) -> bytes:
    """What a verdict depends on.

    Without conditions, which the verdict itself changes. Subnets are sorted by id, because the
    status lists them by free addresses, which change with every pod.
    """
    subnets = tuple(sorted(node_class.status.subnets, key=lambda each: each.id))
    status = msgspec.structs.replace(node_class.status, conditions=(), subnets=subnets)
    annotations = dict(node_class.metadata.annotations)
    return msgspec.json.encode([node_class.spec, status, annotations], order="deterministic")
