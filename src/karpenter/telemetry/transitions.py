"""Metrics of status conditions and terminations: one family for each kind, and one for them all.

The family for all kinds is the older one; it is kept because dashboards still read it.
"""

from typing import Final

from karpenter.telemetry.families import Families, doubling

_BUCKETS: Final = doubling(0.5, 15)
_TYPE_AND_STATUS: Final = "type status"
_OF_ALL_KINDS: Final = "group kind"


class TransitionMetrics:
    """Transitions of conditions; their current state is read when scraped."""

    def __init__(self, make: Families, prefix: str, labels: str) -> None:
        """Declare a family.

        Args:
            make: declares metrics.
            prefix: how all names begin.
            labels: what every metric carries besides its own labels.
        """
        self.prefix: Final = prefix
        self.transitions_total = make.counter(
            f"{prefix}status_condition_transitions_total",
            "Transitions of a condition to a status.",
            f"{_TYPE_AND_STATUS} reason {labels}",
        )
        self.transition_seconds = make.histogram(
            f"{prefix}status_condition_transition_seconds",
            "Time a condition had a status before the status changed.",
            f"{_TYPE_AND_STATUS} to_status {labels}",
            buckets=_BUCKETS,
        )
        self.termination_duration_seconds = make.histogram(
            f"{prefix}termination_duration_seconds",
            "Time from the deletion of an object until it was gone.",
            labels,
            buckets=_BUCKETS,
        )


class TransitionFamilies:
    """The families of all kinds, declared when they are first asked for."""

    def __init__(self, make: Families) -> None:
        self._make = make
        self._by_kind: dict[str, TransitionMetrics] = {}
        self.of_all_kinds: Final = TransitionMetrics(make, "operator_", _OF_ALL_KINDS)

    def of(self, kind: str, labels: tuple[str, ...] = ()) -> TransitionMetrics:
        """The family of a kind, whose metrics carry ``labels`` besides their own."""
        name = kind.lower()
        if name not in self._by_kind:
            prefix = f"operator_{name}_"
            self._by_kind[name] = TransitionMetrics(self._make, prefix, " ".join(labels))
        return self._by_kind[name]
