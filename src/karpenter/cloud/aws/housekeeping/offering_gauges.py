"""Shows what is sold, for how much, and whether it can be had."""

from typing import Final

from karpenter.clock import Clock
from karpenter.cloud.aws.housekeeping.rounds import Rounds
from karpenter.cloud.aws.instance_types import InstanceTypes
from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.cloud.aws.view import ClusterView
from karpenter.cloud.types import InstanceType
from karpenter.model import labels

PERIOD: Final = 60.0
_MIB: Final = 2**20


class OfferingGauges(Rounds):
    """Sets the gauges of instance types."""

    name = "cloudprovider.metrics"

    def __init__(
        self,
        clock: Clock,
        view: ClusterView,
        types: InstanceTypes,
        metrics: AwsMetrics,
        *,
        shows_reserved: bool,
    ) -> None:
        super().__init__(clock)
        self._view = view
        self._types = types
        self._metrics = metrics
        self._shows_reserved = shows_reserved
        self._shown: dict[str, tuple[InstanceType, ...]] = {}  # class -> what the gauges show

    async def step(self) -> float:
        """Show what has changed."""
        await self._view.synced()
        for facts in () if self._shown else self._types.catalogue.facts:
            self._metrics.cpu_cores.labels(facts.name).set(facts.vcpus)
            self._metrics.memory_bytes.labels(facts.name).set(facts.memory_mib * _MIB)
        for node_class in self._view.node_classes.list():
            name = node_class.metadata.name
            if not node_class.status.subnets:
                continue
            types = await self._types.list(node_class)
            if self._shown.get(name) is not types:
                self._show(types)
                self._shown[name] = types
        return PERIOD

    def _show(self, types: tuple[InstanceType, ...]) -> None:
        for kind in types:
            for offering in kind.offerings:
                place = (kind.name, offering.capacity_type, offering.zone)
                self._metrics.offering_available.labels(*place).set(offering.is_launchable)
                self._metrics.offering_price.labels(*place).set(offering.price)
                if self._shows_reserved and not offering.is_reserved:
                    # a series that is always there lets alerts tell "none" from "not known"
                    reserved = (kind.name, labels.RESERVED, offering.zone)
                    if not any(o.is_reserved and o.zone == offering.zone for o in kind.offerings):
                        self._metrics.offering_available.labels(*reserved).set(0)
