"""Metrics of pods and of the scheduling simulation."""

from karpenter.telemetry.capacity import DISRUPTED
from karpenter.telemetry.families import Families


class WorkloadMetrics:
    """Metrics of pods."""

    def __init__(self, make: Families) -> None:
        self.pods_startup_duration_seconds = make.summary(
            "karpenter_pods_startup_duration_seconds",
            "How long pods took from their creation until they were ready.",
        )
        self.pods_bound_duration_seconds = make.histogram(
            "karpenter_pods_bound_duration_seconds",
            "How long pods took from their creation until they had a node.",
            "dynamic_resources",
        )
        self.pods_provisioning_bound_duration_seconds = make.histogram(
            "karpenter_pods_provisioning_bound_duration_seconds",
            "How long pods took to have a node after a place for them was found.",
            "dynamic_resources",
        )
        self.pods_provisioning_startup_duration_seconds = make.histogram(
            "karpenter_pods_provisioning_startup_duration_seconds",
            "How long pods took to be ready after a place for them was found.",
        )
        self.pods_scheduling_decision_duration_seconds = make.histogram(
            "karpenter_pods_scheduling_decision_duration_seconds",
            "How long pods waited from being seen until the first decision about them.",
        )
        self.pods_disruption_initiated_total = make.counter(
            "karpenter_pods_disruption_initiated_total",
            "Pods on nodes that were made to go.",
            DISRUPTED,
        )
        self.pods_eviction_requests_total = make.counter(
            "karpenter_pods_eviction_requests_total", "Evictions asked for, by answer.", "code"
        )
        self.pods_drained_total = make.counter(
            "karpenter_pods_drained_total", "Pods that were drained, by reason.", "reason"
        )
        self.pod_deletion_cost_nodes_with_pending_annotation_writes = make.gauge(
            "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes",
            "Nodes whose pods have yet to be told their deletion cost.",
            "nodepool",
        )
        self.pod_deletion_cost_pod_annotation_writes_total = make.counter(
            "karpenter_pod_deletion_cost_pod_annotation_writes_total",
            "Writes of pod deletion costs, by outcome.",
            "result",
        )
        self._add_scheduler(make)

    def _add_scheduler(self, make: Families) -> None:
        self.scheduler_scheduling_duration_seconds = make.histogram(
            "karpenter_scheduler_scheduling_duration_seconds",
            "How long simulations of scheduling took.",
            "controller",
        )
        self.scheduler_queue_depth = make.gauge(
            "karpenter_scheduler_queue_depth",
            "Pods that a running simulation has yet to place.",
            "controller scheduling_id",
        )
        self.scheduler_unfinished_work_seconds = make.gauge(
            "karpenter_scheduler_unfinished_work_seconds",
            "How long a running simulation has been at work.",
            "controller scheduling_id",
        )
        self.scheduler_ignored_pods_count = make.gauge(
            "karpenter_scheduler_ignored_pods_count", "Pods that scheduling passes over."
        )
        self.scheduler_unschedulable_pods_count = make.gauge(
            "karpenter_scheduler_unschedulable_pods_count",
            "Pods for which there is no place.",
            "controller",
        )
        self.scheduler_pending_pods_by_effective_zone_count = make.gauge(
            "karpenter_scheduler_pending_pods_by_effective_zone_count",
            "Pending pods by the zone they can go to.",
            "controller zone",
        )
