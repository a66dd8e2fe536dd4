"""Deletes instance profiles that nothing names any more."""

from typing import Final

import structlog

from karpenter.clock import Clock
from karpenter.cloud.aws.errors import AwsUnauthorizedError
from karpenter.cloud.aws.housekeeping.rounds import Rounds
from karpenter.cloud.aws.profiles import InstanceProfiles
from karpenter.cloud.aws.view import ClusterView
from karpenter.model.labels import AWS_INSTANCE_PROFILE_NAME
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
            used.add(claim.metadata.annotations.get(AWS_INSTANCE_PROFILE_NAME, ""))
        try:
            deleted = await self._profiles.collect_garbage(used - {""})
        except AwsUnauthorizedError as error:
            # nothing that another attempt a moment later would change
            log.warning("instance profiles nobody uses are left", error=str(error))
            return PERIOD
        for name in deleted:
            log.info("instance profile deleted", name=name)
        return PERIOD
