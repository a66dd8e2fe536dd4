"""The panels of the Grafana dashboards: expressions, units, and what each panel tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_CLUSTER: Final = 'cluster=~"$cluster"'
_JOB: Final = f'{_CLUSTER},job=~"$job"'  # for metrics that other programs have too
_POOL: Final = f'{_CLUSTER},nodepool=~"$nodepool"'
_PLACE: Final = f'{_POOL},zone=~"$zone",capacity_type=~"$capacity_type"'
_WINDOW: Final = "[$__rate_interval]"
_HOUR: Final = "[1h]"

_DOLLARS: Final = "currencyUSD"
_COUNT: Final = "short"
_SHARE: Final = "percentunit"
_SECONDS: Final = "s"
_RATE: Final = "ops"
_BYTES: Final = "bytes"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel."""

    title: str
    description: str
    unit: str
    queries: Mapping[str, str]  # legend -> expression
    kind: str = "timeseries"
    is_stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A titled row of panels of the same width."""

    title: str
    panels: Sequence[Panel]


def _nodes(by: str = "") -> str:
    """How many nodes there are, whatever the detail."""
    grouped = f" by ({by})" if by else ""
    sums = f"sum{grouped} (karpenter_nodepools_nodes{{{_PLACE}}})"
    return f"{sums} or count{grouped} (karpenter_nodes_current_lifetime_seconds{{{_PLACE}}})"


def _requested(resource: str) -> str:
    """The share of a resource of nodes that pods ask for, by pool, whatever the detail."""

    def share(prefix: str) -> str:
        held = f'{_PLACE},resource_type="{resource}"'
        asked = f"sum by (nodepool) ({prefix}_total_pod_requests{{{held}}})"
        return f"{asked} / sum by (nodepool) ({prefix}_allocatable{{{held}}})"

    return f"{share('karpenter_nodepools_nodes')} or {share('karpenter_nodes')}"


def _quantile(quantile: float, metric: str, held: str, by: str = "") -> str:
    grouped = f"{by}, le" if by else "le"
    rate = f"sum by ({grouped}) (rate({metric}_bucket{{{held}}}{_WINDOW}))"
    return f"histogram_quantile({quantile}, {rate})"


def _increase(metric: str, held: str, by: str, window: str = _HOUR) -> str:
    return f"sum by ({by}) (increase({metric}{{{held}}}{window}))"


def _rate(metric: str, held: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{held}}}{_WINDOW}))"


CAPACITY: Final = (
    Row(
        "Now",
        (
            Panel(
                "Cost",
                "What the machines of the chosen pools cost an hour, at current prices.",
                _DOLLARS,
                {"an hour": f"sum(karpenter_nodepools_cost_total{{{_POOL}}})"},
                kind="stat",
            ),
            Panel("Nodes", "Nodes that exist.", _COUNT, {"nodes": _nodes()}, kind="stat"),
            Panel(
                "Pods without a place",
                "Pods for which planning found no place in its latest pass.",
                _COUNT,
                {"pods": f"sum(karpenter_scheduler_unschedulable_pods_count{{{_CLUSTER}}})"},
                kind="stat",
            ),
            Panel(
                "Savings that are held back",
                "What nodes without pods to move cost an hour that something keeps from being removed.",
                _DOLLARS,
                {"an hour": f"sum(karpenter_disruption_blocked_savings{{{_CLUSTER}}})"},
                kind="stat",
            ),
        ),
    ),
    Row(
        "Cost",
        (
            Panel(
                "Cost by pool",
                "What the machines of each pool cost an hour.",
                _DOLLARS,
                {"{{nodepool}}": f"sum by (nodepool) (karpenter_nodepools_cost_total{{{_POOL}}})"},
                is_stacked=True,
            ),
            Panel(
                "Machines without a known price",
                "Machines whose price could not be found, and which the cost therefore lacks, in an hour.",
                _COUNT,
                {
                    "{{nodepool}}": _increase(
                        "karpenter_nodepools_cost_tracker_errors_total", _POOL, "nodepool"
                    )
                },
            ),
        ),
    ),
    Row(
        "Nodes",
        tuple(
            Panel(
                f"Nodes by {words}",
                f"Nodes that exist, by {words}.",
                _COUNT,
                {f"{{{{{label}}}}}": _nodes(label)},
                is_stacked=True,
            )
            for label, words in (
                ("nodepool", "pool"),
                ("zone", "zone"),
                ("capacity_type", "capacity type"),
            )
        ),
    ),
    Row(
        "Use",
        (
            Panel(
                "Use of limits",
                "The part of a pool's limit that is used; at 1 the pool creates no more nodes.",
                _SHARE,
                {
                    "{{nodepool}} {{resource_type}}": (
                        f"max by (nodepool, resource_type) (karpenter_nodepools_usage{{{_POOL}}})"
                        " / max by (nodepool, resource_type)"
                        f" (karpenter_nodepools_limit{{{_POOL}}})"
                    )
                },
            ),
            Panel(
                "CPU that pods ask for",
                "The part of the allocatable CPU of each pool's nodes that pods on them request.",
                _SHARE,
                {"{{nodepool}}": _requested("cpu")},
            ),
            Panel(
                "Memory that pods ask for",
                "The part of the allocatable memory of each pool's nodes that pods on them request.",
                _SHARE,
                {"{{nodepool}}": _requested("memory")},
            ),
        ),
    ),
    Row(
        "Pods",
        (
            Panel(
                "Pods by phase",
                "Pods in the chosen places; those without a node have no pool, zone or capacity type.",
                _COUNT,
                {
                    "{{phase}}": (
                        f"sum by (phase) (karpenter_nodepools_pods{{{_PLACE}}})"
                        f" or sum by (phase) (karpenter_pods_state{{{_PLACE}}})"
                    )
                },
                is_stacked=True,
            ),
            Panel(
                "Use of the whole cluster",
                "The part of what all nodes have, of any pool or none, that pods request, in percent.",
                "percent",
                {
                    "{{resource_type}}": (
                        "max by (resource_type)"
                        f" (karpenter_cluster_utilization_percent{{{_CLUSTER}}})"
                    )
                },
            ),
        ),
    ),
)

DECISIONS: Final = (
    Row(
        "Provisioning",
        (
            Panel(
                "Claims created",
                "NodeClaims created in an hour, by what they were created for.",
                _COUNT,
                {"{{reason}}": _increase("karpenter_nodeclaims_created_total", _POOL, "reason")},
                is_stacked=True,
            ),
            Panel(
                "Pods that wait, by zone",
                "Pending pods by the zone they can go to: flexible if there are several, none if there is none.",
                _COUNT,
                {
                    "{{zone}}": (
                        "sum by (zone) (karpenter_scheduler_pending_pods_by_effective_zone_count"
                        f"{{{_CLUSTER}}})"
                    )
                },
            ),
            Panel(
                "Time until a pod is ready",
                "From the creation of a pod until it is ready, over ten minutes.",
                _SECONDS,
                {
                    "p50": "max(karpenter_pods_startup_duration_seconds"
                    f'{{{_CLUSTER},quantile="0.5"}})',
                    "p99": "max(karpenter_pods_startup_duration_seconds"
                    f'{{{_CLUSTER},quantile="0.99"}})',
                },
            ),
        ),
    ),
    Row(
        "Launches",
        (
            Panel(
                "Failed launches",
                "Launches that failed in an hour, by kind of error.",
                _COUNT,
                {
                    "{{error}}": _increase(
                        "karpenter_cloudprovider_errors_total",
                        f'{_POOL},method="Create"',
                        "error",
                    )
                },
            ),
            Panel(
                "Time until the first decision",
                "From seeing a pod wait until the first decision about it.",
                _SECONDS,
                {
                    "p50": _quantile(
                        0.5, "karpenter_pods_scheduling_decision_duration_seconds", _CLUSTER
                    ),
                    "p99": _quantile(
                        0.99, "karpenter_pods_scheduling_decision_duration_seconds", _CLUSTER
                    ),
                },
            ),
        ),
    ),
    Row(
        "Disruption",
        (
            Panel(
                "Decisions",
                "Decisions to disrupt that were carried out in an hour.",
                _COUNT,
                {
                    "{{reason}} {{decision}}": _increase(
                        "karpenter_voluntary_disruption_decisions_by_nodepool_total",
                        _POOL,
                        "reason, decision",
                    )
                },
                is_stacked=True,
            ),
            Panel(
                "Nodes disrupted",
                "Claims that were made to go in an hour, voluntarily or not, by reason.",
                _COUNT,
                {
                    "{{reason}}": _increase(
                        "karpenter_nodeclaims_disrupted_total",
                        f'{_POOL},capacity_type=~"$capacity_type"',
                        "reason",
                    )
                },
                is_stacked=True,
            ),
            Panel(
                "Notices from the cloud",
                "Messages about interruptions that were read in an hour, by kind.",
                _COUNT,
                {
                    "{{message_type}}": _increase(
                        "karpenter_interruption_received_messages_total", _CLUSTER, "message_type"
                    )
                },
            ),
        ),
    ),
    Row(
        "What is in the way",
        (
            Panel(
                "Nodes that are kept",
                "Nodes that neither emptiness nor consolidation may take now, by the first reason.",
                _COUNT,
                {
                    "{{reason}}": (
                        f"sum by (reason) (karpenter_disruption_blocked_nodes{{{_POOL}}})"
                    )
                },
                is_stacked=True,
            ),
            Panel(
                "Savings that are held back",
                "What those of them cost an hour that hold no pods to move.",
                _DOLLARS,
                {
                    "{{reason}}": (
                        f"sum by (reason) (karpenter_disruption_blocked_savings{{{_CLUSTER}}})"
                    )
                },
                is_stacked=True,
            ),
            Panel(
                "What budgets allow",
                "How many nodes of a pool may be disrupted at once for any reason, at the strictest.",
                _COUNT,
                {
                    "{{nodepool}}": (
                        f"min by (nodepool) (karpenter_nodepools_allowed_disruptions{{{_POOL}}})"
                    )
                },
            ),
        ),
    ),
    Row(
        "Churn",
        (
            Panel(
                "Nodes that came and went",
                "Nodes that registered, and nodes that were removed, in an hour.",
                _COUNT,
                {
                    "came": f'sum(increase(karpenter_nodes_created_total{{{_POOL},zone=~"$zone"}}[1h]))',
                    "went": (
                        f'sum(increase(karpenter_nodes_terminated_total{{{_POOL},zone=~"$zone"}}[1h]))'
                    ),
                },
            ),
            Panel(
                "Time to remove a node",
                "From the deletion of a node until it is gone, over ten minutes: pods that are slow to leave.",
                _SECONDS,
                {
                    "{{nodepool}} p99": (
                        "max by (nodepool) (karpenter_nodes_termination_duration_seconds"
                        f'{{{_POOL},quantile="0.99"}})'
                    )
                },
            ),
            Panel(
                "Decisions that were given up",
                "Decisions of consolidation that no longer held when looked at again, in an hour.",
                _COUNT,
                {
                    "{{consolidation_type}}": _increase(
                        "karpenter_voluntary_disruption_failed_validations_total",
                        _CLUSTER,
                        "consolidation_type",
                    )
                },
            ),
        ),
    ),
)

CONTROLLER: Final = (
    Row(
        "State",
        (
            Panel(
                "Leaders",
                "Replicas that lead; there should be one.",
                _COUNT,
                {"leaders": f"sum(leader_election_master_status{{{_JOB}}})"},
                kind="stat",
            ),
            Panel(
                "Synced",
                "Whether the controller knows everything that decisions depend on, 1 or 0.",
                _COUNT,
                {"synced": f"max(karpenter_cluster_state_synced{{{_CLUSTER}}})"},
                kind="stat",
            ),
            Panel(
                "Objects set aside",
                "Objects that cannot be read and are not acted on.",
                _COUNT,
                {"{{kind}}": f"sum by (kind) (karpenter_objects_set_aside{{{_CLUSTER}}})"},
                kind="stat",
            ),
            Panel(
                "Version",
                "Replicas by version.",
                _COUNT,
                {"{{version}}": f"count by (version) (karpenter_build_info{{{_CLUSTER}}})"},
                kind="stat",
            ),
        ),
    ),
    Row(
        "Loops",
        (
            Panel(
                "Time to plan",
                "How long simulations of scheduling take.",
                _SECONDS,
                {
                    "{{controller}} p99": _quantile(
                        0.99,
                        "karpenter_scheduler_scheduling_duration_seconds",
                        _CLUSTER,
                        "controller",
                    )
                },
            ),
            Panel(
                "Time to look for disruption",
                "How long methods of disruption search.",
                _SECONDS,
                {
                    "{{reason}} p99": _quantile(
                        0.99,
                        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
                        _CLUSTER,
                        "reason",
                    )
                },
            ),
            Panel(
                "Time to reconcile",
                "How long reconciles of each controller take.",
                _SECONDS,
                {
                    "{{controller}} p99": _quantile(
                        0.99, "controller_runtime_reconcile_time_seconds", _JOB, "controller"
                    )
                },
            ),
        ),
    ),
    Row(
        "Queues",
        (
            Panel(
                "Keys that wait",
                "Keys in the work queue of each controller.",
                _COUNT,
                {"{{name}}": f"max by (name) (workqueue_depth{{{_JOB}}})"},
            ),
            Panel(
                "Time in the queue",
                "How long keys wait before a controller takes them.",
                _SECONDS,
                {"{{name}} p99": _quantile(0.99, "workqueue_queue_duration_seconds", _JOB, "name")},
            ),
            Panel(
                "Failed reconciles",
                "Reconciles that ended in an error, by controller.",
                _RATE,
                {
                    "{{controller}}": _rate(
                        "controller_runtime_reconcile_errors_total", _JOB, "controller"
                    )
                },
            ),
        ),
    ),
    Row(
        "Calls",
        (
            Panel(
                "Requests to the API server",
                "Requests by the code of the answer; 429 is throttling, or a PodDisruptionBudget that"
                " refuses an eviction.",
                _RATE,
                {"{{code}}": _rate("rest_client_requests_total", _JOB, "code")},
            ),
            Panel(
                "Time of the API server",
                "How long requests to the API server take.",
                _SECONDS,
                {
                    "{{verb}} p99": _quantile(
                        0.99, "client_go_request_duration_seconds", _JOB, "verb"
                    )
                },
            ),
            Panel(
                "Failed calls of the cloud",
                "Calls of the cloud provider that failed.",
                _RATE,
                {
                    "{{method}} {{error}}": _rate(
                        "karpenter_cloudprovider_errors_total", _CLUSTER, "method, error"
                    )
                },
            ),
            Panel(
                "Time of the cloud",
                "How long calls of the cloud provider take.",
                _SECONDS,
                {
                    "{{method}} p99": _quantile(
                        0.99, "karpenter_cloudprovider_duration_seconds", _CLUSTER, "method"
                    )
                },
            ),
        ),
    ),
    Row(
        "Process",
        (
            Panel(
                "Memory",
                "Resident memory of each replica.",
                _BYTES,
                {"{{instance}}": f"max by (instance) (process_resident_memory_bytes{{{_JOB}}})"},
            ),
            Panel(
                "Processor",
                "Processor time that each replica uses, in cores.",
                _COUNT,
                {"{{instance}}": _rate("process_cpu_seconds_total", _JOB, "instance")},
            ),
            Panel(
                "Controllers begun anew",
                "How often a controller ended by an error and was begun anew, in an hour.",
                _COUNT,
                {
                    "{{controller}}": _increase(
                        "karpenter_controllers_failures_total", _CLUSTER, "controller"
                    )
                },
            ),
        ),
    ),
)
