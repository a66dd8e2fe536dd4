"""Writes ``docs/reference/metrics.md`` from the declarations of all metrics.

Run without arguments to write the page; a test compares the page with what would be written, and
other tests look up there what dashboards and alerts name.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from karpenter.cloud.aws.housekeeping.offering_gauges import OFFERING_FAMILIES
from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.cloud.aws.types.labels import FACTS
from karpenter.controllers.observability.condition_gauges import OF_ALL_KINDS, condition_families
from karpenter.controllers.observability.condition_sums import CONDITION_SUM_FAMILIES, SUMMED_KINDS
from karpenter.controllers.observability.node_gauges import (
    NODE_FAMILIES,
    NODE_LABELS,
    UTILIZATION,
    well_known_names,
)
from karpenter.controllers.observability.node_sums import NODE_SUM_FAMILIES
from karpenter.controllers.observability.pod_gauges import POD_FAMILIES
from karpenter.controllers.observability.pod_sums import POD_SUM_FAMILIES
from karpenter.controllers.observability.pool_gauges import POOL_FAMILIES
from karpenter.controllers.observability.sync_watch import SYNC_FAMILIES
from karpenter.model import labels
from karpenter.telemetry import Metrics
from karpenter.telemetry.exposition import label_name
from karpenter.telemetry.family import COUNTER, GAUGE, HISTOGRAM, SUMMARY, Detail, Family
from karpenter.telemetry.stability import stability

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "metrics.md"

_MACHINE: Final = ("karpenter.k8s.aws/ec2nodeclass", labels.NODEPOOL)
# Kinds whose conditions are followed, with the labels of objects that their metrics carry
KINDS: Final = {
    "NodeClaim": _MACHINE,
    "NodePool": (),
    "Node": (*_MACHINE, labels.INITIALIZED),
    "CapacityBuffer": (),
}
_HEAD: Final = """# Metrics

<!-- written by tools/metrics_reference.py from the declarations in the code -->

Every metric with its kind, its labels, how far it can be relied on, and how many series it has. *Series* are those for
one set of label values, or for one object where that is named; a histogram counts its buckets, sum and count, and with
`METRICS_DETAIL=pool` has nine series at most. *Detail* says which `METRICS_DETAIL` has the metric; without a word, both
do. How to scrape and what to choose stands under [Monitoring](../monitoring.md).

| stability | promise |
| --- | --- |
| stable | name and labels are kept within a major version |
| beta | a change comes with a release that has both |
| alpha | may change with any release |
| library | named by the libraries that controllers are commonly written with |
"""
_SECTIONS: Final = (
    ("Pools", ("karpenter_nodepools_",)),
    ("Nodes and claims", ("karpenter_nodes_", "karpenter_nodeclaims_", "karpenter_cluster_")),
    ("Pods and scheduling", ("karpenter_pods_", "karpenter_pod_", "karpenter_scheduler_")),
    (
        "Disruption and interruption",
        (
            "karpenter_voluntary_",
            "karpenter_disruption_",
            "karpenter_consolidation_",
            "karpenter_interruption_",
        ),
    ),
    ("The cloud", ("karpenter_cloudprovider_", "karpenter_ec2nodeclasses_", "aws_sdk_go_")),
    ("Conditions of objects", ("operator_",)),
    ("The controller", ("",)),
)


def families() -> list[Family]:
    """Every metric, as the detail ``object`` has it, and the sums of the detail ``pool``."""
    metrics = Metrics()
    found: list[Family] = []
    for kind, keys in KINDS.items():
        names = tuple(map(label_name, keys))
        metrics.transitions.of(kind, names)
        only = Detail.OBJECT if kind in SUMMED_KINDS else None
        found += condition_families(f"operator_{kind.lower()}_", names, only)
    found += [*metrics.declared, *AwsMetrics().declared, *OF_ALL_KINDS]
    found += [*POOL_FAMILIES, *SYNC_FAMILIES, *POD_FAMILIES, *POD_SUM_FAMILIES, UTILIZATION]
    found += [*NODE_SUM_FAMILIES, *CONDITION_SUM_FAMILIES, *OFFERING_FAMILIES]
    found += map(_with_node_labels, NODE_FAMILIES)
    found += _of_the_process()
    return found


def series_names(family: Family) -> dict[str, frozenset[str]]:
    """The names under which the series of a family are found, with their labels."""
    held = frozenset(family.labels.split())
    name = family.name
    match family.kind:
        case "histogram":
            return {f"{name}_bucket": held | {"le"}, f"{name}_sum": held, f"{name}_count": held}
        case "summary":
            return {name: held | {"quantile"}, f"{name}_sum": held, f"{name}_count": held}
    return {name: held}


def page() -> str:
    """The page as it would be written."""
    left = {family.name: family for family in families()}
    named = ", ".join(f"`{name}`" for name in _node_labels())
    about = "the last part of every well-known label of nodes, here those on AWS, and three more"
    parts = [f"{_HEAD}\n*Node labels* are {about}: {named}.\n"]
    for title, prefixes in _SECTIONS:
        some = [left.pop(name) for name in sorted(left) if name.startswith(prefixes)]
        parts.append(f"\n## {title}\n\n" + "".join(_rows(some)))
    return "".join(parts)


def _rows(some: Iterable[Family]) -> Iterator[str]:
    yield "| metric | kind | labels | stability | series | detail | meaning |\n"
    yield "| --- | --- | --- | --- | --- | --- | --- |\n"
    for family in some:
        names = family.labels.split()
        is_of_node = "node_name" in names
        own = [name for name in names if not is_of_node or name not in _node_labels()]
        held = ", ".join([*(["node labels"] * is_of_node), *(f"`{name}`" for name in own)])
        series = f"{family.series} per {family.per}" if family.per else f"{family.series}"
        detail = f"`{family.only.value}`" if family.only is not None else ""
        cells = (f"`{family.name}`", family.kind, held, stability(family.name), series, detail)
        yield f"| {' | '.join(cells)} | {family.meaning} |\n"


def _node_labels() -> list[str]:
    return [*well_known_names(FACTS.well_known_labels), *NODE_LABELS.split()]


def _with_node_labels(family: Family) -> Family:
    held = " ".join(dict.fromkeys([*_node_labels(), *family.labels.split()]))
    return replace(family, labels=held)


def _of_the_process() -> Iterator[Family]:
    """Memory, processor time and garbage collection, as the client for Python exports them."""
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    kinds = {"counter": COUNTER, "gauge": GAUGE, "histogram": HISTOGRAM, "summary": SUMMARY}
    for family in registry.collect():
        suffix = "_total" if family.type == "counter" else ""
        held = " ".join(sorted({name for sample in family.samples for name in sample.labels}))
        meaning = family.documentation.rstrip(".") + "."
        yield Family(f"{family.name}{suffix}", meaning, held, kinds[family.type])


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
