"""Deletes instance profiles that nothing names any more."""

from typing import Final

import structlog

from karpenter.api.node_classes import ec2_labels
from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.ec2.errors import AwsUnauthorizedError
from karpenter.cloud.aws.housekeeping.rounds import Rounds
from karpenter.cloud.aws.node_class.instance_profiles import InstanceProfiles
from karpenter.telemetry import Metrics

PERIOD: Final = 1800.0

log = structlog.get_logger(__name__)


class ProfileGarbage(Rounds):
    """Compares the profiles there are with those in use."""

    name = "instanceprofile.garbagecollection"

    def __init__(
        self, clock: Clock, metrics: Metrics, view: ClusterView, profiles: InstanceProfiles
    ) -> None:
        super().__init__(clock, metrics)
        self._view = view
        self._profiles = profiles

    async def step(self) -> float:
        """Delete what is not in use."""
        await self._view.synced()
        used = {each.status.instance_profile for each in self._view.node_classes.list()}
        for claim in self._view.claims.list():
            used.add(claim.metadata.annotations.get(ec2_labels.INSTANCE_PROFILE_NAME, ""))
        try:
            deleted = await self._profiles.collect_garbage(used - {""})
        except AwsUnauthorizedError as error:
            # an immediate retry would not help
            log.warning("unused instance profiles are not deleted", error=str(error))
            return PERIOD
        for name in deleted:
            log.info("instance profile deleted", name=name)
        return PERIOD
