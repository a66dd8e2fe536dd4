"""The metrics of a controller, in one registry for each instance.

An attribute is called as its metric without the prefix ``karpenter_``. Gauges that only mirror the
cluster are computed when they are scraped: collectors of the Prometheus client are registered,
and large families are given as ready lines, because most of their lines never change.
"""

import platform
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from karpenter import __version__
from karpenter.telemetry.capacity import CapacityMetrics
from karpenter.telemetry.decisions import DecisionMetrics
from karpenter.telemetry.families import Families
from karpenter.telemetry.family import Detail, Family
from karpenter.telemetry.runtime import RuntimeMetrics
from karpenter.telemetry.summaries import Monotonic
from karpenter.telemetry.transitions import TransitionFamilies
from karpenter.telemetry.workloads import WorkloadMetrics

# Text in the exposition format, each piece ending in a line break
Lines: TypeAlias = Callable[[], Iterable[str]]

_log: Final = structlog.get_logger(__name__)
_ARCHITECTURES: Final = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class _One:
    """A registry with a single family: the formatter of the client takes a registry only."""

    family: Metric

    def collect(self) -> Iterable[Metric]:
        return (self.family,)


class Metrics(CapacityMetrics, WorkloadMetrics, DecisionMetrics, RuntimeMetrics):
    """The metrics of one controller process, or of one simulated one."""

    def __init__(
        self,
        *,
        commit: str = "",
        monotonic: Monotonic = time.monotonic,
        with_process: bool = False,
        detail: str = Detail.OBJECT,
    ) -> None:
        """Declare all metrics.

        Args:
            commit: the revision this build was made of.
            monotonic: seconds that only grow, for what forgets old observations.
            with_process: also export memory, processor time and garbage collection; for real
                processes only, because simulated ones share theirs.
            detail: ``object`` or ``pool``: the latter has fewer buckets in histograms.
        """
        self.registry: Final = CollectorRegistry()
        self._lines: list[Lines] = []
        self.detail: Final = Detail(detail)
        self.declared: Final[list[Family]] = []  # everything in the registry
        make = Families(self.registry, monotonic, self.declared, self.detail)
        CapacityMetrics.__init__(self, make)
        WorkloadMetrics.__init__(self, make)
        DecisionMetrics.__init__(self, make)
        RuntimeMetrics.__init__(self, make)
        self.transitions: Final = TransitionFamilies(make)
        self.build_info = make.gauge(
            "karpenter_build_info",
            "Always 1; the labels name the version, the commit and the runtime.",
            "version goversion goarch commit",
        )
        machine = platform.machine()
        self.build_info.labels(
            version=__version__,
            goversion=f"python{platform.python_version()}",
            goarch=_ARCHITECTURES.get(machine, machine),
            commit=commit,
        ).set(1)
        if with_process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)

    def add_collector(self, collector: Collector) -> Callable[[], None]:
        """Call ``collector`` at every scrape, until the returned function is called."""
        self.registry.register(collector)
        return lambda: self.registry.unregister(collector)

    def add_lines(self, lines: Lines) -> Callable[[], None]:
        """Append what ``lines`` gives to every scrape, until the returned function is called."""
        self._lines.append(lines)
        return lambda: self._lines.remove(lines)

    def pieces(self) -> Iterator[bytes]:
        """Everything there is to scrape now, in the text format of Prometheus, in pieces.

        Each piece is consistent by itself, so other tasks may run in between.
        """
        for family in self.registry.collect():
            yield generate_latest(_One(family))
        for lines in list(self._lines):
            try:
                for piece in lines():
                    yield piece.encode()
            except Exception as error:  # noqa: BLE001 all other metrics are still exported
                _log.error("some metrics could not be worked out", error=error, exc_info=error)

    def exposition(self) -> bytes:
        """Everything there is to scrape now, in the text format of Prometheus."""
        return b"".join(self.pieces())
