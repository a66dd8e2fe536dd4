"""The stability level of each metric's name and labels; for Karpenter's metrics, its own levels.

``stable``: kept within a major version. ``beta``: changed only with a release that has both.
``alpha``: may change with any release. Metrics of the runtime are named by the libraries of others.
"""

from typing import Final

STABLE: Final = frozenset(
    {
        "karpenter_build_info",
        "karpenter_nodeclaims_created_total",
        "karpenter_nodeclaims_terminated_total",
        "karpenter_nodes_created_total",
        "karpenter_nodes_terminated_total",
        "karpenter_pods_startup_duration_seconds",
        "karpenter_nodepools_limit",
        "karpenter_nodepools_usage",
        "karpenter_nodepools_allowed_disruptions",
        "karpenter_voluntary_disruption_decisions_total",
        "karpenter_scheduler_scheduling_duration_seconds",
        "karpenter_cluster_state_node_count",
        "karpenter_cluster_state_synced",
        "karpenter_cluster_state_unsynced_time_seconds",
    }
)
BETA: Final = frozenset(
    {
        "karpenter_nodes_reboots_total",
        "karpenter_nodes_reboot_duration_seconds",
        "karpenter_nodes_reboot_recovery_duration_seconds",
        "karpenter_nodeclaims_instance_termination_duration_seconds",
        "karpenter_nodeclaims_termination_duration_seconds",
        "karpenter_nodes_termination_duration_seconds",
        "karpenter_nodes_allocatable",
        "karpenter_nodes_total_pod_requests",
        "karpenter_nodes_total_pod_limits",
        "karpenter_nodes_total_daemon_requests",
        "karpenter_nodes_total_daemon_limits",
        "karpenter_nodes_system_overhead",
        "karpenter_pods_state",
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
        "karpenter_voluntary_disruption_eligible_nodes",
        "karpenter_voluntary_disruption_consolidation_timeouts_total",
        "karpenter_voluntary_disruption_queue_failures_total",
        "karpenter_scheduler_queue_depth",
        "karpenter_cloudprovider_duration_seconds",
        "karpenter_cloudprovider_errors_total",
    }
)
_OWN: Final = ("karpenter_", "operator_")


def stability(name: str) -> str:
    """The stability level of a metric; those of libraries have none."""
    if name in STABLE:
        return "stable"
    if name in BETA:
        return "beta"
    return "alpha" if name.startswith(_OWN) else "library"
