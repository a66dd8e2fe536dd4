"""A metric family as it is declared: the one description that code, reference and tests share."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from karpenter.telemetry import exposition

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
SUMMARY: Final = "summary"


class Detail(StrEnum):
    """Whether series are per object or per pool; the value of ``METRICS_DETAIL``."""

    OBJECT = "object"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class Family:
    """One family: a gauge that is written as lines, or a metric of the Prometheus client."""

    name: str
    meaning: str
    labels: str = ""  # separated by blanks
    kind: str = GAUGE
    series: int = 1  # for each set of label values
    per: str = ""  # the object that has such a set, where labels do not name it
    only: Detail | None = None  # the detail that has it; both if none is named

    @classmethod
    def of_pools(cls, name: str, meaning: str, labels: str) -> "Family":
        """A gauge that sums objects up, for when there are no series for single objects."""
        return cls(name, meaning, labels, only=Detail.POOL)

    def text(self, samples: Iterable[str]) -> str:
        """The lines of a gauge; each sample is its labels in braces, a blank and its value."""
        return exposition.gauge(self.name, self.meaning, samples)

    def pieces(self, samples: Iterable[str]) -> Iterator[str]:
        """The lines of a gauge with very many samples, in pieces that yield to other tasks."""
        return exposition.gauge_pieces(self.name, self.meaning, samples)
