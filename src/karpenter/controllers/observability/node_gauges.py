"""Gauges about nodes: their size, what pods request of them, and the utilization of the cluster.

The series of a machine are computed when the machine changes, and cached until then.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.controllers.context import Context
from karpenter.model import labels
from karpenter.model.resources import CPU, NO_RESOURCES, Resources, total
from karpenter.state.nodes import StateNode
from karpenter.state.pods import is_daemon
from karpenter.telemetry.exposition import label_text, number, snake_case
from karpenter.telemetry.family import Detail, Family

_NODES_AT_A_TIME: Final = 20  # with all their pods
# What there is to know about the resources of a node, in the order of ``figures_of``
FIGURES: Final[Mapping[str, str]] = {
    "allocatable": "Allocatable resources of a node.",
    "total_pod_requests": "Requests of the pods on a node, including daemon pods.",
    "total_pod_limits": "Limits of the pods on a node, including daemon pods.",
    "total_daemon_requests": "Requests of the daemon pods on a node.",
    "total_daemon_limits": "Limits of the daemon pods on a node.",
    "system_overhead": "Resources that a node reserves for the system.",
}
# Every node has these, and one for each well-known label of the core and of its provider
NODE_LABELS: Final = "node_name phase managed"
_OF_RESOURCES: Final = tuple(
    Family(
        f"karpenter_nodes_{name}",
        meaning,
        f"{NODE_LABELS} resource_type",
        per="node and resource",
        only=Detail.OBJECT,
    )
    for name, meaning in FIGURES.items()
)
_AGE: Final = Family(
    "karpenter_nodes_current_lifetime_seconds",
    "Age of a node.",
    NODE_LABELS,
    per="node",
    only=Detail.OBJECT,
)
UTILIZATION: Final = Family(
    "karpenter_cluster_utilization_percent",
    "Share of the allocatable resources of all nodes that pods request.",
    "resource_type",
)
NODE_FAMILIES: Final = (*_OF_RESOURCES, _AGE)


@dataclass(frozen=True, slots=True)
class _NodeSeries:
    """The series of one machine."""

    machine: StateNode
    node: Node
    labels: str
    amounts: tuple[tuple[tuple[str, str], ...], ...]  # for each gauge: resource type, value
    allocatable: Resources
    requested: Resources


class NodeGauges:
    """The source of the gauges about nodes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._keys: Final = well_known_names(context.cloud.facts.well_known_labels)
        self._series_of: dict[str, _NodeSeries] = {}  # by name of the node

    def lines(self) -> Iterable[str]:
        """All gauges, each with all its nodes."""
        found: dict[str, _NodeSeries] = {}
        for count, machine in enumerate(self._context.state.snapshot().nodes, start=1):
            if machine.node is not None:
                found[machine.node.metadata.name] = self._about(machine, machine.node)
            if count % _NODES_AT_A_TIME == 0:
                yield ""
        self._series_of, series = found, found.values()
        for position, family in enumerate(_OF_RESOURCES):
            yield from family.pieces(_amounts(series, position))
        yield from _AGE.pieces(self._ages(series))
        yield UTILIZATION.text(
            utilization(
                total(each.allocatable for each in series), total(each.requested for each in series)
            )
        )

    def _about(self, machine: StateNode, node: Node) -> _NodeSeries:
        """The cached series of a machine, computed again if it has changed."""
        series = self._series_of.get(node.metadata.name)
        if series is None or series.machine is not machine:
            return self._export(machine, node)
        return series

    def _export(self, machine: StateNode, node: Node) -> _NodeSeries:
        held = node.metadata.labels
        series = {name: held.get(key, "") for name, key in self._keys.items()}
        series |= {
            "node_name": node.metadata.name,
            "phase": node.status.phase,
            "managed": "true" if labels.NODEPOOL in held else "false",
        }
        vectors = figures_of(machine, node)
        names = dict.fromkeys(name for vector in vectors for name, _ in vector.items())
        amounts = tuple(
            tuple((snake_case(name), value_of(name, vector[name])) for name in names)
            for vector in vectors
        )
        return _NodeSeries(
            machine, node, label_text(series), amounts, vectors[0], machine.requested
        )

    def _ages(self, series: Iterable[_NodeSeries]) -> Iterator[str]:
        now = self._context.clock.now()
        for each in series:
            born = each.node.metadata.creation_timestamp
            if born is not None:
                yield f"{{{each.labels}}} {number((now - born).total_seconds())}"


def well_known_names(of_provider: Collection[str]) -> Mapping[str, str]:
    """The labels that stand for the well-known labels of nodes: name -> Kubernetes key."""
    keys = sorted(labels.CORE_WELL_KNOWN | frozenset(of_provider))
    return {snake_case(key): key for key in keys}


def figures_of(machine: StateNode, node: Node) -> tuple[Resources, ...]:
    """The resources of a machine, one vector for each of ``FIGURES``."""
    allocatable = Resources.from_wire(node.status.allocatable)
    daemons = tuple(pod for pod in machine.pods if is_daemon(pod))
    return (
        allocatable,
        machine.requested,
        total(pod_limits(pod) for pod in machine.pods),
        machine.requested_by_daemons,
        total(pod_limits(pod) for pod in daemons),
        Resources.from_wire(node.status.capacity) - allocatable,
    )


def pod_limits(pod: Pod) -> Resources:
    """The most a pod may use: its containers and sidecars, or its init phase if that is more."""
    running = total(Resources.from_wire(each.resources.limits) for each in pod.spec.containers)
    beside = NO_RESOURCES
    peak = NO_RESOURCES
    for container in pod.spec.init_containers:
        limits = Resources.from_wire(container.resources.limits)
        if container.restart_policy == "Always":
            beside += limits
            peak = peak.highest(beside)
        else:
            peak = peak.highest(beside + limits)
    return (running + beside).highest(peak)


def _amounts(series: Iterable[_NodeSeries], position: int) -> Iterator[str]:
    for each in series:
        for resource, value in each.amounts[position]:
            yield f'{{{each.labels},resource_type="{resource}"}} {value}'


def utilization(allocatable: Resources, requested: Resources) -> Iterator[str]:
    """The samples of the utilization of the cluster."""
    for name, amount in allocatable.items():
        percent = 100 * requested[name] / amount
        yield f'{{resource_type="{snake_case(name)}"}} {number(percent)}'


def value_of(name: str, amount: int) -> str:
    """An amount of a resource as it is shown: CPU in cores, the rest in base units."""
    return number(amount / 1000) if name == CPU else str(amount)
