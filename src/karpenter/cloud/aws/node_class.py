"""Puts together what looks after node classes and learns from their nodes."""

from karpenter.cloud.aws.dry_runs import LaunchRehearsal
from karpenter.cloud.aws.memory_discovery import MemoryDiscovery
from karpenter.cloud.aws.node_class_controller import NodeClassController
from karpenter.cloud.aws.node_class_status import Discovery, StatusSteps
from karpenter.cloud.aws.parts import Parts
from karpenter.cloud.aws.validation import Validation


def node_class_controller(parts: Parts) -> NodeClassController:
    """Make what looks after node classes."""
    base = parts.base
    discovery = Discovery(
        subnets=parts.subnets,
        security_groups=parts.security_groups,
        images=parts.images,
        profiles=parts.profiles,
        reservations=parts.reservations,
        groups=parts.groups,
        version=parts.version,
    )
    rehearsal = LaunchRehearsal(
        base.calls,
        parts.view,
        parts.types,
        parts.templates,
        parts.cluster,
        parts.groups,
        uses_reservations=base.chooses_reservations,
    )
    return NodeClassController(
        parts.view,
        base.clock,
        parts.recorder,
        StatusSteps(discovery, base.clock, uses_reservations=base.chooses_reservations),
        Validation(
            base.clock, base.settings, parts.types, rehearsal, parts.cluster.load_service_cidr
        ),
        parts.profiles,
        parts.templates,
        base.telemetry,
        uses_reservations=base.chooses_reservations,
        is_isolated=base.settings.isolated_vpc,
        ca_bundle=lambda: parts.cluster.ca_bundle,
    )


def memory_discovery(parts: Parts) -> MemoryDiscovery:
    """Make what learns from nodes."""
    return MemoryDiscovery(parts.view, parts.types)
