"""The settings of the controller as planners take them.

Planners read no settings, feature gates or environment; this module converts settings to planner
inputs, for the controllers and the command line alike.
"""

from collections.abc import Mapping
from dataclasses import replace

from karpenter.disruption.context import DisruptionSettings
from karpenter.disruption.rebalance.settings import RebalanceMode, RebalanceSettings
from karpenter.scheduling.inputs.scheduler_config import parse_scheduler_config
from karpenter.scheduling.problem import CostOptions, Options, PackingMode
from karpenter.scheduling.provisioning import PassSettings
from karpenter.scheduling.spot.risk import Place, Seen, SpotRisk
from karpenter.settings import Settings
from karpenter.state.nodes import nomination_window


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
            cost=CostOptions(
                packing=PackingMode(settings.packing),
                budget=settings.packing_budget.total_seconds(),
                node_cost=settings.packing_node_cost,
                min_types=settings.packing_min_types.on_demand,
                min_spot_types=settings.packing_min_types.spot,
                price_slack=settings.packing_price_slack.percent / 100,
                risk=SpotRisk(cost) if (cost := settings.spot_interruption_cost) > 0 else None,
            ),
        ),
        overlays=gates["NodeOverlay"],
        buffers=gates["CapacityBuffer"],
        static=gates["StaticCapacity"],
        commitments=gates["Commitments"],
        deletion_cost_is_ours=gates["PodDeletionCostManagement"],
        default_constraints=parse_scheduler_config(settings.scheduler_config),
    )


def with_spot_seen(settings: PassSettings, seen: Mapping[Place, Seen]) -> PassSettings:
    """The settings with what was seen of interruptions until now, where these have a price."""
    cost = settings.options.cost
    if cost.risk is None:
        return settings
    risk = SpotRisk(cost.risk.cost, dict(seen))
    return replace(settings, options=replace(settings.options, cost=replace(cost, risk=risk)))


def disruption_settings(settings: Settings) -> DisruptionSettings:
    """Settings that shape disruption.

    Raises:
        SchedulerConfigError: the scheduler configuration cannot be read.
    """
    gates = settings.feature_gates
    return DisruptionSettings(
        planning=pass_settings(settings),
        spot_to_spot=gates["SpotToSpotConsolidation"],
        repair=gates["NodeRepair"] and not settings.legacy_node_repair,
        legacy_repair=gates["NodeRepair"] and settings.legacy_node_repair,
        terminate_first_drift=gates["TerminateFirstDrift"],
        terminate_first_repair=gates["TerminateFirstRepair"],
        rebalance=RebalanceSettings(
            mode=RebalanceMode(settings.rebalance),
            moves=settings.rebalance_moves.percent / 100,
            payback=settings.rebalance_payback,
            pod_cost=settings.rebalance_pod_cost,
            cooldown=settings.rebalance_cooldown,
            binds_pods=settings.early_binding,
        ),
        nomination=nomination_window(settings.batch_max_duration),
    )
