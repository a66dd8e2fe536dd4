"""Metrics of pods and of the scheduling simulation."""

from karpenter.telemetry.capacity import DISRUPTED
from karpenter.telemetry.families import Families


class WorkloadMetrics:
    """Metrics of pods."""

    def __init__(self, make: Families) -> None:
        self.pods_startup_duration_seconds = make.summary(
            "karpenter_pods_startup_duration_seconds",
            "Time from the creation of a pod until it was ready.",
        )
        self.pods_bound_duration_seconds = make.histogram(
            "karpenter_pods_bound_duration_seconds",
            "Time from the creation of a pod until it was bound to a node.",
            "dynamic_resources",
        )
        self.pods_provisioning_bound_duration_seconds = make.histogram(
            "karpenter_pods_provisioning_bound_duration_seconds",
            "Time from the scheduling decision about a pod until it was bound to a node.",
            "dynamic_resources",
        )
        self.pods_provisioning_startup_duration_seconds = make.histogram(
            "karpenter_pods_provisioning_startup_duration_seconds",
            "Time from the scheduling decision about a pod until it was ready.",
        )
        self.pods_scheduling_decision_duration_seconds = make.histogram(
            "karpenter_pods_scheduling_decision_duration_seconds",
            "Time from the first observation of a pod until the first scheduling decision about it.",
        )
        self.pods_disruption_initiated_total = make.counter(
            "karpenter_pods_disruption_initiated_total",
            "Pods on nodes that were disrupted.",
            DISRUPTED,
        )
        self.pods_eviction_requests_total = make.counter(
            "karpenter_pods_eviction_requests_total", "Eviction requests, by response code.", "code"
        )
        self.pods_drained_total = make.counter(
            "karpenter_pods_drained_total", "Pods that were drained, by reason.", "reason"
        )
        self.pod_deletion_cost_nodes_with_pending_annotation_writes = make.gauge(
            "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes",
            "Nodes whose pods do not have their deletion cost yet.",
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
            "Duration of scheduling simulations.",
            "controller",
        )
        self.scheduler_queue_depth = make.gauge(
            "karpenter_scheduler_queue_depth",
            "Pods that the running scheduling simulation has not placed yet.",
            "controller scheduling_id",
        )
        self.scheduler_unfinished_work_seconds = make.gauge(
            "karpenter_scheduler_unfinished_work_seconds",
            "Time since the running scheduling simulation began.",
            "controller scheduling_id",
        )
        self.plan_cost_hourly = make.gauge(
            "karpenter_plan_cost_hourly",
            "With PACKING=cheapest: what the nodes of the last plan cost an hour, in dollars.",
        )
        self.plan_lower_bound_hourly = make.gauge(
            "karpenter_plan_lower_bound_hourly",
            "With PACKING=cheapest: the lower bound of what nodes for the pods of that plan cost.",
        )
        self.commitment_used_hourly = make.gauge(
            "karpenter_commitment_used_hourly",
            "With the gate Commitments: how much of each running machines use, in dollars per hour.",
            "commitment",
        )
        self.commitment_left_hourly = make.gauge(
            "karpenter_commitment_left_hourly",
            "With the gate Commitments: how much of each they leave unused, in dollars per hour.",
            "commitment",
        )
        self.packing_candidate_total = make.counter(
            "karpenter_packing_candidate_total",
            "With PACKING=cheapest: plans, by the candidate that was kept.",
            "candidate",
        )
        self.scheduler_ignored_pods_count = make.gauge(
            "karpenter_scheduler_ignored_pods_count", "Pods that scheduling ignores."
        )
        self.scheduler_unschedulable_pods_count = make.gauge(
            "karpenter_scheduler_unschedulable_pods_count",
            "Pods that cannot be scheduled.",
            "controller",
        )
        self.scheduler_pending_pods_by_effective_zone_count = make.gauge(
            "karpenter_scheduler_pending_pods_by_effective_zone_count",
            "Pending pods, by the zone they can run in.",
            "controller zone",
        )
