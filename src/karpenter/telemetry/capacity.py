"""Metrics of node claims, nodes, pools and the cloud."""

from typing import Final, Protocol

from karpenter.api.karpenter import NodeClaim
from karpenter.model import durations
from karpenter.telemetry.families import LIFETIMES, Families, doubling

DISRUPTED: Final = "reason nodepool capacity_type consolidation_policy termination_mode"


class CapacityMetrics:
    """Metrics of NodeClaims, nodes and NodePools.

    Gauges that only mirror the cluster are not here: they are read from it when scraped.
    """

    def __init__(self, make: Families) -> None:
        self.nodeclaims_created_total = make.counter(
            "karpenter_nodeclaims_created_total",
            "NodeClaims created, by the reason for their creation.",
            "reason nodepool min_values_relaxed",
        )
        self.nodeclaims_terminated_total = make.counter(
            "karpenter_nodeclaims_terminated_total",
            "NodeClaims that were terminated.",
            "nodepool capacity_type zone",
        )
        self.nodeclaims_disrupted_total = make.counter(
            "karpenter_nodeclaims_disrupted_total",
            "NodeClaims that were disrupted, by reason.",
            DISRUPTED,
        )
        self.nodeclaims_unhealthy_disrupted_total = make.counter(
            "karpenter_nodeclaims_unhealthy_disrupted_total",
            "NodeClaims that were disrupted because their node was unhealthy.",
            "condition nodepool capacity_type image_id termination_mode",
        )
        self.nodeclaims_instance_termination_duration_seconds = make.histogram(
            "karpenter_nodeclaims_instance_termination_duration_seconds",
            "Time from the request to terminate an instance until it was gone.",
            "nodepool",
            buckets=doubling(1, 11),
        )
        self.nodeclaims_termination_duration_seconds = make.histogram(
            "karpenter_nodeclaims_termination_duration_seconds",
            "Time from the deletion of a NodeClaim until it was gone.",
            "nodepool",
            buckets=doubling(1, 12),
        )
        self.nodes_created_total = make.counter(
            "karpenter_nodes_created_total", "Nodes that registered.", "nodepool zone"
        )
        self.nodes_terminated_total = make.counter(
            "karpenter_nodes_terminated_total", "Nodes that were terminated.", "nodepool zone"
        )
        self.nodes_drained_total = make.counter(
            "karpenter_nodes_drained_total", "Nodes that were drained.", "nodepool"
        )
        self.nodes_termination_duration_seconds = make.summary(
            "karpenter_nodes_termination_duration_seconds",
            "Time from the deletion of a node until it was gone.",
            "nodepool",
        )
        self.nodes_lifetime_duration_seconds = make.histogram(
            "karpenter_nodes_lifetime_duration_seconds",
            "Age of nodes when they were removed.",
            "nodepool",
            buckets=LIFETIMES,
        )
        self.nodes_reboots_total = make.counter(
            "karpenter_nodes_reboots_total", "Reboots of nodes, by outcome.", "result"
        )
        self.nodes_reboot_duration_seconds = make.histogram(
            "karpenter_nodes_reboot_duration_seconds",
            "Time from the request of a reboot to its outcome.",
            "result",
            buckets=doubling(10, 8),
        )
        self.nodes_reboot_recovery_duration_seconds = make.histogram(
            "karpenter_nodes_reboot_recovery_duration_seconds",
            "Time from the boot of a node until it was healthy.",
            buckets=doubling(10, 8),
        )
        self.nodepools_cost_tracker_errors_total = make.counter(
            "karpenter_nodepools_cost_tracker_errors_total",
            "Nodes whose price could not be found.",
            "nodepool",
        )
        self.nodepools_allowed_disruptions = make.gauge(
            "karpenter_nodepools_allowed_disruptions",
            "Nodes of a NodePool that its budgets allow to be disrupted at once.",
            "nodepool reason",
        )
        self.nodepools_nodes_consuming_budgets = make.gauge(
            "karpenter_nodepools_nodes_consuming_budgets",
            "Nodes of a NodePool that count towards its budgets.",
            "nodepool reason",
        )
        self.cloudprovider_duration_seconds = make.histogram(
            "karpenter_cloudprovider_duration_seconds",
            "Duration of calls to the cloud provider.",
            "controller method provider",
        )
        self.cloudprovider_errors_total = make.counter(
            "karpenter_cloudprovider_errors_total",
            "Calls to the cloud provider that failed, by error.",
            "controller method provider error nodepool",
        )


class CloudCall(Protocol):
    """The labels of a call to the cloud provider."""

    @property
    def controller(self) -> str: ...

    @property
    def method(self) -> str: ...

    @property
    def provider(self) -> str: ...


class CloudCalls:
    """Counts and times calls to the cloud."""

    def __init__(self, metrics: CapacityMetrics) -> None:
        self._metrics: Final = metrics

    def duration(self, call: CloudCall, seconds: float) -> None:
        """Note that a call has ended, well or not."""
        self._metrics.cloudprovider_duration_seconds.labels(
            controller=call.controller, method=call.method, provider=call.provider
        ).observe(seconds)

    def error(self, call: CloudCall, error: str, nodepool: str) -> None:
        """Note that a call has failed."""
        self._metrics.cloudprovider_errors_total.labels(
            controller=call.controller,
            method=call.method,
            provider=call.provider,
            error=error,
            nodepool=nodepool,
        ).inc()


def termination_mode(claim: NodeClaim) -> str:
    """How much time pods have once the claim is deleted: no bound, some, or none."""
    text = claim.spec.termination_grace_period
    if text is None:
        return "graceful"
    return "eventual" if durations.is_positive(text) else "forceful"
