"""Metrics of voluntary disruption."""

from karpenter.telemetry.families import SCORES, Families

_DECISION = "decision reason consolidation_type"
_MOVE = "decision nodepool policy"


class DecisionMetrics:
    """Metrics of disruption decisions."""

    def __init__(self, make: Families) -> None:
        self.voluntary_disruption_decisions_total = make.counter(
            "karpenter_voluntary_disruption_decisions_total",
            "Decisions to disrupt that were carried out.",
            _DECISION,
        )
        self.voluntary_disruption_decisions_by_nodepool_total = make.counter(
            "karpenter_voluntary_disruption_decisions_by_nodepool_total",
            "Decisions to disrupt that were carried out, by pool.",
            f"nodepool {_DECISION}",
        )
        self.voluntary_disruption_decision_evaluation_duration_seconds = make.histogram(
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
            "How long looking for something to disrupt took.",
            "reason consolidation_type",
        )
        self.voluntary_disruption_eligible_nodes = make.gauge(
            "karpenter_voluntary_disruption_eligible_nodes",
            "Nodes that could be disrupted, by reason.",
            "reason",
        )
        self.voluntary_disruption_consolidation_timeouts_total = make.counter(
            "karpenter_voluntary_disruption_consolidation_timeouts_total",
            "Searches for consolidation that ran out of time.",
            "consolidation_type",
        )
        for kind in ("multi", "single"):  # from 0 on, so that increase() sees the first one
            self.voluntary_disruption_consolidation_timeouts_total.labels(kind)
        self.voluntary_disruption_failed_validations_total = make.counter(
            "karpenter_voluntary_disruption_failed_validations_total",
            "Decisions that no longer held when they were looked at again.",
            "consolidation_type",
        )
        self.voluntary_disruption_queue_failures_total = make.counter(
            "karpenter_voluntary_disruption_queue_failures_total",
            "Decisions that could not be carried out.",
            _DECISION,
        )
        self.voluntary_disruption_terminate_first_decisions_total = make.counter(
            "karpenter_voluntary_disruption_terminate_first_decisions_total",
            "Decisions to let a node go before its replacement exists.",
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
        self.consolidation_score = make.histogram(
            "karpenter_consolidation_score",
            "How balanced consolidation scored the moves it weighed.",
            _MOVE,
            buckets=SCORES,
        )
        self.consolidation_moves_total = make.counter(
            "karpenter_consolidation_moves_total",
            "Moves that balanced consolidation weighed.",
            _MOVE,
        )
