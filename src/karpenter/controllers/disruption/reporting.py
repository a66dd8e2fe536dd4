"""Reports of a disruption pass: events, log lines and metrics.

A log line is also written when a node begins to match a repair policy, and when it no longer does.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Resource
from karpenter.api.nodes import Node
from karpenter.cloud.repair import RepairMatch, RepairMatches, RepairPolicies
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context
from karpenter.controllers.disruption import command_drafts
from karpenter.controllers.disruption import events as reports
from karpenter.controllers.disruption.metrics import BlockedGauges, snake_case
from karpenter.controllers.disruption.planner import DisruptionPass
from karpenter.controllers.disruption.rebalance_reporting import RebalanceReporter
from karpenter.controllers.provisioning.reporting import paced
from karpenter.controllers.termination.events import protection
from karpenter.disruption import budgets, commands
from karpenter.disruption.blocked_nodes import beyond_budgets
from karpenter.disruption.budgets import Allowance, budget_value
from karpenter.disruption.candidates import Blocked, Kind
from karpenter.disruption.commands import Command, Finding
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.events import announced, announced_command
from karpenter.disruption.methods.balanced import BALANCED
from karpenter.disruption.validation import Validation
from karpenter.kube.events import Event
from karpenter.model.conditions import timestamp
from karpenter.scheduling.provisioning import Announcement
from karpenter.state.snapshot import Snapshot

_KINDS: Final[dict[str, type[Resource]]] = {
    "Node": Node,
    "NodeClaim": NodeClaim,
    "NodePool": NodePool,
}
REASON_OF: Final = {
    commands.REPAIR: budgets.UNHEALTHY,
    commands.EMPTY: budgets.EMPTY,
    commands.STATIC_DRIFT: budgets.DRIFTED,
    commands.DRIFT: budgets.DRIFTED,
    commands.MULTI: budgets.UNDERUTILIZED,
    commands.SINGLE: budgets.UNDERUTILIZED,
    commands.REBALANCE: budgets.UNDERUTILIZED,
}


class FindingReporter:
    """Reports passes."""

    def __init__(self, context: Context, log: Any) -> None:
        self._context = context
        self._log = log
        self._complaints: dict[str, str] = {}  # pool -> what is wrong with its budgets
        self._eligible: dict[str, int] = {}  # method -> how many machines are eligible for it
        self._protected: dict[str, str] = {}  # pod uid -> last event about its protection
        self._gauged: set[str] = set()  # pools that have gauges
        self._blocked = BlockedGauges(context.metrics)
        self._rebalance = RebalanceReporter(context, log)

    def report_budgets(self) -> None:
        """Log budgets that cannot be parsed, once for each problem."""
        now = self._context.clock.now()
        found: dict[str, str] = {}
        for pool in self._context.mirror(NodePool).list():
            for number, budget in enumerate(pool.spec.disruption.budgets):
                try:
                    budget_value(budget, 1, now=now)
                except ValueError as error:
                    name = pool.metadata.name
                    found.setdefault(name, f"spec.disruption.budgets[{number}]: {error}")
        for name, problem in sorted(found.items()):
            if self._complaints.get(name) != problem:
                self._context.decide(
                    self._log.error,
                    "invalid budget",
                    drafts.invalid_budget(name, problem),
                    NodePool={"name": name},
                    error=problem,
                )
        self._complaints = found

    async def report_blocked(self, disruption_pass: DisruptionPass) -> None:
        """Report machines that no method may disrupt, and protected pods."""
        view = disruption_pass.view
        self._blocked.pass_began(
            disruption_pass.blocked, (each.name for each in view.snapshot.nodes)
        )
        async for verdict in paced(view.blocked(Kind.GRACEFUL).values()):
            self._report_blocked_machine(verdict, view.snapshot)
        self._report_protection(disruption_pass)

    def measure_budgets(self, allowances: Iterable[Allowance]) -> None:
        """Show what budgets allow now, and what uses them up, for every pool and reason."""
        metrics = self._context.metrics
        pools: set[str] = set()
        for found in allowances:
            pools.add(found.node_pool)
            facts = {"nodepool": found.node_pool, "reason": found.reason.lower()}
            metrics.nodepools_allowed_disruptions.labels(**facts).set(found.allowed)
            metrics.nodepools_nodes_consuming_budgets.labels(**facts).set(found.disrupting)
        for pool in self._gauged - pools:
            for reason in budgets.REASONS:
                metrics.nodepools_allowed_disruptions.remove(pool, reason.lower())
                metrics.nodepools_nodes_consuming_budgets.remove(pool, reason.lower())
        self._gauged = pools

    def report_idle(self, methods: Iterable[str]) -> None:
        """Report that methods have no eligible machine."""
        for method in methods:
            self._measure_eligible(method, 0)

    async def report(self, finding: Finding, view: DisruptionContext, seconds: float) -> None:
        """Report what a method found."""
        metrics, reason = self._context.metrics, REASON_OF[finding.method]
        metrics.voluntary_disruption_decision_evaluation_duration_seconds.labels(
            reason=reason.lower(), consolidation_type=finding.consolidation_type
        ).observe(seconds)
        self._measure_eligible(finding.method, finding.eligible)
        if finding.has_timed_out:
            metrics.voluntary_disruption_consolidation_timeouts_total.labels(
                consolidation_type=finding.consolidation_type
            ).inc()
        self._count_scores(finding)
        if finding.method == commands.REBALANCE:
            self._rebalance.report(finding)
        kept = list(beyond_budgets(view, finding.verdicts.values()))
        self._blocked.method_ended(finding.method, kept)
        for announcement in finding.events:
            self._announce(announcement)
        # Multi-node verdicts are reported only if it decided: else single-node repeats them all
        if finding.method != commands.MULTI or finding.commands:
            async for verdict in paced(finding.verdicts.values()):
                self._report_blocked_machine(verdict, view.snapshot)
        for command in finding.commands:
            for announcement in announced_command(command):
                self._announce(announcement)

    def report_check(self, command: Command, outcome: Validation) -> None:
        """Report the outcome of a decision's validation."""
        if outcome.lost:
            self._context.metrics.voluntary_disruption_failed_validations_total.labels(
                consolidation_type=command.consolidation_type
            ).inc(len(outcome.lost))
        if outcome.command is not None:
            return
        problem = f"{outcome.failure}: {outcome.detail}"
        self._context.decide(
            self._log.debug,
            "abandoned command",
            command_drafts.abandoned(command, "", problem),
            reason=command.reason.lower(),
            error=problem,
        )
        if command.method in (commands.SINGLE, commands.REBALANCE):
            self._publish(*reports.rejected(command, outcome.failure, outcome.detail))

    def _measure_eligible(self, method: str, count: int) -> None:
        self._eligible[method] = count
        reason = REASON_OF[method]
        gauge = self._context.metrics.voluntary_disruption_eligible_nodes
        gauge.labels(reason=reason.lower()).set(self._eligible_for(reason))

    def _eligible_for(self, reason: str) -> int:
        """How many machines are eligible for a reason.

        The two drift methods have disjoint candidates, so their counts are added; the two
        consolidation methods have the same ones.
        """
        of_each = [count for method, count in self._eligible.items() if REASON_OF[method] == reason]
        return max(of_each) if reason == budgets.UNDERUTILIZED else sum(of_each)

    def _count_scores(self, finding: Finding) -> None:
        metrics = self._context.metrics
        for score in finding.scores:
            facts = {
                "decision": "approved" if score.is_approved else "rejected",
                "nodepool": score.node_pool,
                "policy": snake_case(BALANCED),
            }
            metrics.consolidation_score.labels(**facts).observe(score.value)
            metrics.consolidation_moves_total.labels(**facts).inc()

    def _report_protection(self, disruption_pass: DisruptionPass) -> None:
        """Publish once what a do-not-disrupt annotation with another value than "true" does."""
        protected: dict[str, str] = {}
        for pod in disruption_pass.protected:
            note = protection(pod, now=disruption_pass.view.now)
            if note is not None:
                protected[pod.metadata.uid] = said = f"{note.reason} {note.message}"
                if self._protected.get(pod.metadata.uid) != said:
                    self._publish(note)
        self._protected = protected

    def _report_blocked_machine(self, verdict: Blocked, snapshot: Snapshot) -> None:
        for announcement in announced(verdict, snapshot):
            self._announce(announcement)

    def _announce(self, announcement: Announcement) -> None:
        kind, _, name = announcement.target.partition("/")
        target = self._context.mirror(_KINDS[kind]).get(name)
        if target is not None:
            self._publish(reports.announced(announcement, target))

    def _publish(self, *events: Event) -> None:
        for event in events:
            self._context.recorder.publish(event)


class RepairNotes:
    """Logs when a node begins or ceases to match a repair policy; heartbeats do not count."""

    def __init__(self, context: Context, policies: RepairPolicies, log: Any) -> None:
        self._log = log
        self._matches = RepairMatches(policies)
        self._end: Callable[[], None] = context.mirror(Node).on_change(self._notice)

    def end(self) -> None:
        """Stop following nodes."""
        self._end()

    def _notice(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._matches.forget(old.metadata.name)
            return
        name = new.metadata.name
        before = self._matches.matches(name)
        if not self._matches.observe(new):
            return
        after = self._matches.matches(name)
        for match in after:
            if match not in before:
                self._log.debug("matched repair policy", Node={"name": name}, **_facts(match))
        if before and not after:
            self._log.debug("no longer matches any repair policy", Node={"name": name})


def _facts(match: RepairMatch) -> dict[str, Any]:
    policy, condition = match.policy, match.condition
    return {
        "condition": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "reason-regex": policy.reason_regex,
        "fallback": match.is_fallback,
        "action": policy.action,
        "eligible-at": timestamp(match.eligible_at()),
        "termination-grace-period": policy.termination_grace_period,
    }
