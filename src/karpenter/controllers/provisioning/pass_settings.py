"""The settings of the controller as the planner takes them."""

from karpenter.scheduling.problem import Options
from karpenter.scheduling.provisioning import PassSettings
from karpenter.scheduling.scheduler_config import parse_scheduler_config
from karpenter.settings import Settings


def pass_settings(settings: Settings) -> PassSettings:
    """Settings that shape a pass.

    Raises:
        SchedulerConfigError: the scheduler configuration cannot be read.
    """
    gates = settings.feature_gates
    return PassSettings(
        options=Options(
            respect_preferences=settings.preference_policy == "Respect",
            best_effort_min_values=settings.min_values_policy == "BestEffort",
            ignore_device_claims=settings.ignore_dra_requests,
            reserved_capacity=gates["ReservedCapacity"],
        ),
        overlays=gates["NodeOverlay"],
        buffers=gates["CapacityBuffer"],
        static=gates["StaticCapacity"],
        default_constraints=parse_scheduler_config(settings.scheduler_config),
    )
