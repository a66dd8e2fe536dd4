"""Metrics of voluntary disruption and of notifications."""

from karpenter.telemetry.families import SCORES, Families

_DECISION = "decision reason consolidation_type"
_MOVE = "decision nodepool policy"


class DecisionMetrics:
    """Metrics of disruption decisions."""

    def __init__(self, make: Families) -> None:
        self.voluntary_disruption_decisions_total = make.counter(
            "karpenter_voluntary_disruption_decisions_total",
            "Voluntary disruption commands that were executed.",
            _DECISION,
        )
        self.voluntary_disruption_decisions_by_nodepool_total = make.counter(
            "karpenter_voluntary_disruption_decisions_by_nodepool_total",
            "Voluntary disruption commands that were executed, by NodePool.",
            f"nodepool {_DECISION}",
        )
        self.voluntary_disruption_decision_evaluation_duration_seconds = make.histogram(
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
            "Duration of the search for disruption candidates.",
            "reason consolidation_type",
        )
        self.voluntary_disruption_eligible_nodes = make.gauge(
            "karpenter_voluntary_disruption_eligible_nodes",
            "Nodes that could be disrupted, by reason.",
            "reason",
        )
        self.voluntary_disruption_consolidation_timeouts_total = make.counter(
            "karpenter_voluntary_disruption_consolidation_timeouts_total",
            "Consolidation searches that reached their time limit.",
            "consolidation_type",
        )
        for kind in (
            "multi",
            "single",
            "rebalance",
        ):  # from 0 on, so that increase() sees the first one
            self.voluntary_disruption_consolidation_timeouts_total.labels(kind)
        self.voluntary_disruption_failed_validations_total = make.counter(
            "karpenter_voluntary_disruption_failed_validations_total",
            "Disruption commands that were invalid when validated before execution.",
            "consolidation_type",
        )
        self.voluntary_disruption_queue_failures_total = make.counter(
            "karpenter_voluntary_disruption_queue_failures_total",
            "Disruption commands that failed.",
            _DECISION,
        )
        self.voluntary_disruption_terminate_first_decisions_total = make.counter(
            "karpenter_voluntary_disruption_terminate_first_decisions_total",
            "Disruption commands that delete a node before its replacement exists.",
            "nodepool reason terminate_first_reason",
        )
        self.disruption_blocked_nodes = make.gauge(
            "karpenter_disruption_blocked_nodes",
            "Nodes that no graceful disruption may take now, by the first reason.",
            "nodepool reason",
        )
        self.disruption_blocked_savings = make.gauge(
            "karpenter_disruption_blocked_savings",
            "What those of them cost an hour that hold no pods to move, in dollars.",
            "reason",
        )
        self._add_rebalance(make)
        self.notifications_total = make.counter(
            "karpenter_notifications_total",
            "Decisions matched by a sink of notifications, by outcome: sent, failed, dropped or suppressed.",
            "sink outcome",
        )
        self.consolidation_score = make.histogram(
            "karpenter_consolidation_score",
            "Scores that balanced consolidation gave to the moves it evaluated.",
            _MOVE,
            buckets=SCORES,
        )
        self.consolidation_moves_total = make.counter(
            "karpenter_consolidation_moves_total",
            "Moves that balanced consolidation evaluated.",
            _MOVE,
        )

    def _add_rebalance(self, make: Families) -> None:
        self.rebalance_savings_hourly = make.gauge(
            "karpenter_rebalance_savings_hourly",
            "What the last search of rebalancing found to save an hour, in dollars; previews count.",
        )
        self.rebalance_pods = make.gauge(
            "karpenter_rebalance_pods",
            "Pods that would have to move for that.",
        )
        self.rebalance_pods_moved_total = make.counter(
            "karpenter_rebalance_pods_moved_total",
            "Pods on nodes that rebalancing has replaced.",
        )
        self.rebalance_refusals_total = make.counter(
            "karpenter_rebalance_refusals_total",
            "Sets of nodes that rebalancing looked at and left, by the first reason.",
            "reason",
        )
        self.cluster_lower_bound_hourly = make.gauge(
            "karpenter_cluster_lower_bound_hourly",
            "With rebalancing: what no set of nodes for all pods can cost less than, in dollars an hour.",
        )
