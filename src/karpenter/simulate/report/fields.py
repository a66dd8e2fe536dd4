"""Fields of a variant by their path, such as ``pods.pendingSeconds.p95``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure by which variants are compared."""

    path: str
    title: str
    unit: str  # dollars, seconds, share, bytes, or nothing for a number

    def of(self, variant: Mapping[str, Any]) -> float | None:
        """The figure of a variant; None where it has none."""
        found = at(variant, self.path)
        return float(found) if isinstance(found, int | float) else None


METRICS: Final = (
    Metric("cost.dollarHours", "cost", "dollars"),
    Metric("cost.lowerBound.dollarHours", "lower bound", "dollars"),
    Metric("cost.lowerBound.gap", "above the bound", "share"),
    Metric("cost.nodeHours", "node hours", ""),
    Metric("nodes.most", "most nodes at once", ""),
    Metric("nodes.created", "nodes created", ""),
    Metric("nodes.removed", "nodes removed", ""),
    Metric("nodes.shortLived", "nodes gone in 15 min", ""),
    Metric("utilisation.cpu.share", "cpu requested", "share"),
    Metric("utilisation.memory.share", "memory requested", "share"),
    Metric("pods.created", "pods created", ""),
    Metric("pods.pendingSeconds.p50", "pending, median", "seconds"),
    Metric("pods.pendingSeconds.p95", "pending, p95", "seconds"),
    Metric("pods.pendingSeconds.p99", "pending, p99", "seconds"),
    Metric("pods.pendingSeconds.max", "pending, longest", "seconds"),
    Metric("pods.neverFit", "pods that fit nowhere", ""),
    Metric("disruption.evictions", "evictions", ""),
    Metric("disruption.reEvictions", "evicted again in 30 min", ""),
    Metric("decisions.givenUp", "commands given up", ""),
    Metric("decisions.latencySeconds.p95", "pod to claim, p95", "seconds"),
)


def at(variant: Mapping[str, Any], path: str) -> Any:
    """A field of a variant; None where it has none."""
    found: Any = variant
    parts = path.split(".")
    for index, part in enumerate(parts):
        if not isinstance(found, Mapping):
            return None
        if part not in found:
            return found.get(".".join(parts[index:]))  # names of pools may have dots themselves
        found = found[part]
    return found
