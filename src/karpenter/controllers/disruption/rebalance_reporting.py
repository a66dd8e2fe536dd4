"""Reports of rebalancing: what a search found and refused, and what it would do in a preview."""

from typing import Any, Final

from karpenter.api.karpenter import NodePool
from karpenter.controllers.context import Context
from karpenter.controllers.disruption.command_drafts import sentence
from karpenter.disruption.commands import Command, Finding
from karpenter.disruption.rebalance.refusals import moved_pods
from karpenter.kube.events import NORMAL, Event

PREVIEW: Final = "RebalancePreview"
_DEDUPE_SECONDS: Final = 3600.0


class RebalanceReporter:
    """Reports what rebalancing finds."""

    def __init__(self, context: Context, log: Any) -> None:
        self._context = context
        self._log = log
        self._shown = ""  # what the last preview said

    def report(self, finding: Finding) -> None:
        """Report a search, whether or not what it found is carried out."""
        metrics = self._context.metrics
        found = (*finding.commands, *finding.previews)
        metrics.rebalance_savings_hourly.set(sum(command.savings for command in found))
        metrics.rebalance_pods.set(sum(map(moved_pods, found)))
        for refused in finding.refused:
            metrics.rebalance_refusals_total.labels(refused.partition(":")[0]).inc()
        for command in finding.previews:
            self._show(command)
        if not finding.previews:
            self._shown = ""

    def _show(self, command: Command) -> None:
        said = f"rebalancing is in preview, or this would happen: {sentence(command)}"
        for name in sorted({candidate.pool for candidate in command.candidates}):
            pool = self._context.mirror(NodePool).get(name)
            if pool is not None:
                dedupe = (pool.metadata.uid, said)
                event = Event(pool, NORMAL, PREVIEW, said, dedupe, _DEDUPE_SECONDS)
                self._context.recorder.publish(event)
        if said != self._shown:
            self._shown = said
            self._log.info(
                "rebalance preview",
                **{
                    "disrupted-node-count": len(command.candidates),
                    "replacement-node-count": len(command.replacements),
                    "pod-count": moved_pods(command),
                    "savings-hourly": round(command.savings, 6),
                },
            )
