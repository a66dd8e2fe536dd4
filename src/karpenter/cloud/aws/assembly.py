"""Wires the parts of the AWS provider together, and holds no logic of its own."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from karpenter.api.karpenter import NodeClaim
from karpenter.clock import Clock
from karpenter.cloud.aws.cluster_view import ClusterView
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.images.images import Images
from karpenter.cloud.aws.images.parameters import Parameters
from karpenter.cloud.aws.instances.instances import Instances
from karpenter.cloud.aws.interruption.claims import ClaimDeletions
from karpenter.cloud.aws.launch.fleet import Fleets
from karpenter.cloud.aws.launch.launch import Launcher
from karpenter.cloud.aws.launch.shortages import Shortages
from karpenter.cloud.aws.launch.templates import LaunchTemplates
from karpenter.cloud.aws.metrics import AwsMetrics, disruption_counter
from karpenter.cloud.aws.network.cluster import ClusterFacts
from karpenter.cloud.aws.network.placement_groups import PlacementGroups
from karpenter.cloud.aws.network.security_groups import SecurityGroups
from karpenter.cloud.aws.network.subnets import Subnets
from karpenter.cloud.aws.network.versions import KubernetesVersion, VersionSource
from karpenter.cloud.aws.network.zonal_shift import ZonalShifts
from karpenter.cloud.aws.node_class.instance_profiles import InstanceProfiles
from karpenter.cloud.aws.prices.commitments import AccountCommitments
from karpenter.cloud.aws.prices.pricing import Pricing
from karpenter.cloud.aws.settings import RESERVED_CAPACITY, AwsSettings
from karpenter.cloud.aws.types.instance_types import InstanceTypes
from karpenter.cloud.aws.types.reservations import CapacityReservations
from karpenter.cloud.aws.types.unavailable import UnavailableOfferings
from karpenter.decision_log.log import DecisionLog
from karpenter.decision_log.warning_events import observing
from karpenter.kube.client import Kube
from karpenter.kube.events import WARNING, Event, Recorder
from karpenter.settings import Settings
from karpenter.telemetry import Metrics

NODE_OVERLAY = "NodeOverlay"


_LONG_POLL_SECONDS: Final = 20


@dataclass(frozen=True, slots=True)
class Foundation:
    """The dependencies that all parts share."""

    calls: Calls
    kube: Kube
    clock: Clock
    rng: random.Random
    core: Settings
    settings: AwsSettings
    metrics: AwsMetrics
    version_source: VersionSource
    telemetry: Metrics = field(default_factory=Metrics)  # of the process
    decisions: DecisionLog = field(default_factory=DecisionLog)  # of the process
    is_simulated: bool = False  # whether a simulation answers instead of AWS

    @property
    def long_poll_seconds(self) -> int:
        """How long a read of the queue waits for messages; a simulation waits in real time."""
        return 0 if self.is_simulated else _LONG_POLL_SECONDS

    @property
    def chooses_reservations(self) -> bool:
        """Whether capacity reservations are used."""
        return self.core.feature_gates[RESERVED_CAPACITY]


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one provider."""

    base: Foundation
    view: ClusterView
    recorder: Recorder
    cluster: ClusterFacts
    version: KubernetesVersion
    shifts: ZonalShifts
    unavailable: UnavailableOfferings
    subnets: Subnets
    security_groups: SecurityGroups
    parameters: Parameters
    images: Images
    profiles: InstanceProfiles
    reservations: CapacityReservations
    groups: PlacementGroups
    pricing: Pricing
    commitments: AccountCommitments
    types: InstanceTypes
    instances: Instances
    templates: LaunchTemplates
    fleets: Fleets
    launcher: Launcher
    claim_deletions: ClaimDeletions


def assemble(base: Foundation) -> Parts:
    """Make the parts of a provider."""
    calls, clock, settings = base.calls, base.clock, base.settings
    name = settings.cluster_name
    view = ClusterView(
        base.kube,
        clock,
        base.rng,
        observer=base.telemetry,
        sees_overlays=base.core.feature_gates[NODE_OVERLAY],
    )
    recorder = Recorder(base.kube, clock, rng=base.rng, observer=observing(base.decisions, clock))
    cluster = ClusterFacts(calls, base.kube, settings)
    version = KubernetesVersion(base.version_source, clock)
    shifts = ZonalShifts(
        calls, clock, name, view=view, recorder=recorder, is_enabled=settings.enable_zonal_shift
    )
    unavailable = UnavailableOfferings(clock)
    subnets = Subnets(calls, clock, settings.subnet_refresh_interval)
    parameters = Parameters(calls, clock)
    reservations = CapacityReservations(calls, clock)
    groups = PlacementGroups(calls, clock)
    pricing = Pricing(
        calls, clock, is_isolated=settings.isolated_vpc, is_simulated=base.is_simulated
    )
    types = InstanceTypes(
        calls,
        clock,
        settings,
        pricing=pricing,
        unavailable=unavailable,
        reservations=reservations,
        groups=groups,
        uses_reservations=base.chooses_reservations,
        shifted_zone_ids=shifts.shifted,
        supplied_prices=view.supplied_prices,
    )
    zone_id_of = _zone_ids(view)
    templates = LaunchTemplates(calls, clock, name, base.metrics.userdata_bytes)
    fleets = Fleets(calls, clock, base.metrics.observe_batch)
    shortages = Shortages(
        unavailable, subnets, reservations, base.metrics, zone_id_of, _role_warning(recorder)
    )
    return Parts(
        base=base,
        view=view,
        recorder=recorder,
        cluster=cluster,
        version=version,
        shifts=shifts,
        unavailable=unavailable,
        subnets=subnets,
        security_groups=SecurityGroups(calls, clock),
        parameters=parameters,
        images=Images(calls, parameters, version, clock, settings.ami_refresh_interval),
        profiles=InstanceProfiles(calls, clock, base.rng, name),
        reservations=reservations,
        groups=groups,
        pricing=pricing,
        commitments=AccountCommitments(calls, is_enabled=settings.aws_commitments),
        types=types,
        instances=Instances(
            calls,
            clock,
            name,
            chooses_reservations=base.chooses_reservations,
            is_shifted=lambda zone: shifts.is_shifted(zone_id_of(zone)),
            observe=base.metrics.observe_batch,
        ),
        templates=templates,
        fleets=fleets,
        launcher=Launcher(
            calls.region,
            clock,
            cluster,
            templates,
            subnets,
            fleets,
            shortages,
            chooses_reservations=base.chooses_reservations,
        ),
        claim_deletions=ClaimDeletions(
            view, clock, recorder, base.decisions, disruption_counter(base.telemetry)
        ),
    )


def _zone_ids(view: ClusterView) -> Callable[[str], str]:
    """Zone ids by name, from the subnets that node classes have found."""

    def zone_id_of(zone: str) -> str:
        for node_class in view.node_classes.list():
            for subnet in node_class.status.subnets:
                if subnet.zone == zone:
                    return subnet.zone_id
        return ""

    return zone_id_of


def _role_warning(recorder: Recorder) -> Callable[[NodeClaim], None]:
    def report_missing_role(claim: NodeClaim) -> None:
        recorder.publish(
            Event(
                claim,
                WARNING,
                "SpotServiceLinkedRoleCreationFailure",
                "Attempted to launch a spot instance but failed due to"
                ' "AuthFailure.ServiceLinkedRoleCreationNotPermitted":'
                " spot instances need the service-linked role AWSServiceRoleForEC2Spot; create it"
                " with: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
                dedupe=("service-linked-role",),
            )
        )

    return report_missing_role
