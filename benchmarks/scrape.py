"""How long a scrape of a large cluster takes, and how large it is.

The mirrors hold 1,000 nodes and 10,000 pods of 5 pools, and every counter and histogram has the series
that weeks of such a cluster give it. Measured is the processor for one scrape, once after everything
has changed and once after nothing has, with either ``METRICS_DETAIL``.
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.controllers.controllers import observability_controllers
from karpenter.settings import Settings
from karpenter.telemetry.family import Detail

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # the state of a large cluster is a helper of the tests
from helpers.autoscaler import FAKE_FACTS, FakeCloud, bench, run_in_background  # noqa: E402
from helpers.large_state import put_machines, use_everything  # noqa: E402

NODES, PODS = 1000, 10_000
MOST_SECONDS = 0.5  # of the processor, for a scrape with the detail pool
MOST_SERIES = 5000
MOST_BYTES = 10**6


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one detail, in seconds of the processor, series and bytes."""

    detail: str
    first: float
    again: float
    series: int
    size: int

    @property
    def is_enough(self) -> bool:
        """Whether the promises, which are about the detail pool, are kept."""
        is_small = self.series < MOST_SERIES and self.size < MOST_BYTES
        return self.detail != Detail.POOL or (is_small and self.again < MOST_SECONDS)


def main() -> int:
    parser = options("Measure scrapes of a large cluster.", smoke="a small cluster")
    arguments = parser.parse_args()
    size = (10, 100) if arguments.smoke else (NODES, PODS)
    figures = [asyncio.run(_measure(detail, *size)) for detail in Detail]
    if arguments.json:
        print(json.dumps([asdict(each) for each in figures], indent=2))
    else:
        _show(figures)
    return 0 if arguments.smoke or all(each.is_enough for each in figures) else 1


async def _measure(detail: Detail, nodes: int, pods: int) -> Figures:
    settings = Settings(metrics_detail=detail.value)
    async with bench(settings=settings, cloud=FakeCloud(facts=FAKE_FACTS)) as at_work:
        metrics = at_work.world.metrics
        put_machines(at_work.world, nodes=nodes, pods=pods)
        task = run_in_background(observability_controllers(at_work.world))
        try:
            await asyncio.sleep(1.0)
            use_everything(metrics, AwsMetrics(metrics.registry, metrics.detail))
            seconds = []
            for _ in range(2):
                began = time.process_time()
                body = metrics.exposition()
                seconds.append(time.process_time() - began)
        finally:
            task.cancel()
    series = sum(not line.startswith(b"#") for line in body.splitlines())
    first, again = seconds
    return Figures(detail.value, first, again, series, len(body))


def _show(figures: list[Figures]) -> None:
    table = Table("detail", "first scrape", "the next", "series", "size")
    for each in figures:
        table.add_row(
            each.detail,
            f"{each.first:.2f} s",
            f"{each.again:.2f} s",
            f"{each.series:,}",
            f"{each.size / 10**6:.1f} MB",
        )
    Console().print(table)


if __name__ == "__main__":
    raise SystemExit(main())
