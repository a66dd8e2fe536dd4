"""Marks offerings, subnets and reservations as unavailable from the errors of a fleet."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes.ec2 import EC2NodeClass
from karpenter.cloud.aws.launch.errors import NO_ADDRESSES, SERVICE_LINKED_ROLE, FleetError
from karpenter.cloud.aws.launch.fleet import reservation_of
from karpenter.cloud.aws.launch.template_data import ReservationChoice
from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.cloud.aws.network.subnets import Subnets
from karpenter.cloud.aws.types.capacity import EFA
from karpenter.cloud.aws.types.reservations import CapacityReservations
from karpenter.cloud.aws.types.unavailable import Place, UnavailableOfferings
from karpenter.cloud.types import InstanceType
from karpenter.model import labels
from karpenter.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Asked:
    """What a fleet request asked for."""

    types: tuple[InstanceType, ...]  # with only the offerings that were meant
    capacity_type: str
    tenancy: str = "default"
    group: str = ""  # a placement group
    partition: str = ""

    def reservation(self, instance_type: str, zone: str) -> ReservationChoice | None:
        """The reservation a type draws on in a zone."""
        for kind in self.types:
            for offering in kind.offerings:
                if kind.name == instance_type and offering.zone == zone:
                    return reservation_of(offering)
        return None

    def efa_count(self, instance_type: str, claim: NodeClaim, node_class: EC2NodeClass) -> int:
        """How many EFA interfaces an instance has: those asked for by pods or by its class."""
        is_requested = bool(Resources.from_wire(claim.spec.resources.requests)[EFA])
        if not is_requested and not node_class.spec.network_interfaces:
            return 0
        return next((kind.capacity[EFA] for kind in self.types if kind.name == instance_type), 0)


class Shortages:
    """Records shortages in the caches that launches consult."""

    def __init__(
        self,
        unavailable: UnavailableOfferings,
        subnets: Subnets,
        reservations: CapacityReservations,
        metrics: AwsMetrics,
        zone_id_of: Callable[[str], str],
        report_missing_role: Callable[[NodeClaim], None],
    ) -> None:
        """Write to the caches that launches read.

        Args:
            unavailable: offerings.
            subnets: addresses.
            reservations: places in reservations.
            metrics: where errors are counted.
            zone_id_of: the id of a zone by its name.
            report_missing_role: called with the claim when the service-linked role for spot does
                not exist.
        """
        self._unavailable = unavailable
        self._subnets = subnets
        self._reservations = reservations
        self._metrics = metrics
        self._zone_id_of = zone_id_of
        self._report_missing_role = report_missing_role

    def took(self, reservation_id: str) -> None:
        """Take note that an instance was launched into a reservation."""
        self._reservations.launched(reservation_id)

    def note(self, errors: Sequence[FleetError], asked: Asked, claim: NodeClaim) -> None:
        """Record the errors of a fleet, also of one that launched some instances."""
        for error in errors:
            self._metrics.launch_failures.labels(
                error.zone, self._zone_id_of(error.zone), asked.capacity_type, error.reason
            ).inc()
            if error.code == SERVICE_LINKED_ROLE:
                self._unavailable.mark_capacity_type(labels.SPOT)
                self._report_missing_role(claim)
            elif error.is_capacity:
                self._note_capacity(error, asked)

    def _note_capacity(self, error: FleetError, asked: Asked) -> None:
        if error.code == NO_ADDRESSES and error.subnet_id:
            self._unavailable.mark_subnet(error.subnet_id)
            self._subnets.exhaust(error.subnet_id)
        if asked.capacity_type == labels.RESERVED:
            reservation = asked.reservation(error.instance_type, error.zone)
            if reservation is not None and not error.is_spread_limit:
                self._reservations.exhaust(reservation.id)
            return
        for place in _places(error, asked):
            self._unavailable.mark(place)


def _places(error: FleetError, asked: Asked) -> Iterable[Place]:
    if not error.zone:
        return
    if asked.group and error.is_spread_limit:
        # the group is full in this zone, whatever the type
        for kind in asked.types:
            yield Place(kind.name, error.zone, asked.capacity_type, asked.group)
    elif error.instance_type:
        yield Place(
            error.instance_type, error.zone, asked.capacity_type, asked.group, asked.partition
        )
