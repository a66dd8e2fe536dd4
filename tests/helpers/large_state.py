"""The state of a large cluster, without the time that running one takes.

Objects are put into the mirrors as if the API server had sent them; counters and histograms are used
once for everything that a few weeks of such a cluster would make them count.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import product
from typing import Any, Final

from prometheus_client import Counter, Gauge, Histogram

from helpers.builders import NOW, MachineOptions, condition, node, node_claim, node_pool, pod
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Condition, Resource
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.controllers.context import Context
from karpenter.telemetry import Metrics
from karpenter.telemetry.family import COUNTER, GAUGE, HISTOGRAM, Family
from karpenter.telemetry.summaries import Summary

POOLS: Final = tuple(f"pool-{number}" for number in range(5))
ZONES: Final = tuple(f"us-west-2{letter}" for letter in "abc")
CAPACITY_TYPES: Final = ("on-demand", "spot")
INSTANCE_TYPES: Final = 1000
CONDITIONS_OF_CLAIMS: Final = (
    *("Launched", "Registered", "Initialized", "Ready", "Consolidatable", "Drifted"),
    *("ConsistentStateFound", "DisruptionReason"),
)
CONDITIONS_OF_NODES: Final = (
    *("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
)
_CORE_CONTROLLERS: Final = (
    *("disruption", "disruption.queue", "eviction-queue", "instance.garbagecollection"),
    *("legacy.bridge", "node.emptiness", "node.hydration", "node.termination"),
    *("nodeclaim.consistency", "nodeclaim.disruption", "nodeclaim.expiration"),
    *("nodeclaim.garbagecollection", "nodeclaim.hydration", "nodeclaim.lifecycle"),
    *("nodeclaim.podevents", "nodeclaim.reboot", "nodepool.counter", "nodepool.hash"),
    *("nodepool.readiness", "nodepool.registrationhealth", "nodepool.validation"),
    *("provisioner", "provisioner.trigger.node", "provisioner.trigger.pod"),
    *("state.pricing", "state.sync"),
)
_AWS_CONTROLLERS: Final = (
    *("nodeclass", "nodeclaim.tagging", "interruption", "nodeclaim.capacityreservation"),
    *("providers.pricing", "providers.instancetype", "providers.version"),
    *("providers.ssm.invalidation", "instanceprofile.garbagecollection", "cloudprovider.metrics"),
)
# Controllers that run periodically without a key, and the queue metrics that they export
_LOOPS: Final = frozenset(
    {
        *("disruption", "instance.garbagecollection", "nodeclaim.garbagecollection"),
        *("provisioner", "state.sync", *_AWS_CONTROLLERS[2:]),
    }
)
_OF_WORK: Final = frozenset(
    {
        "workqueue_work_duration_seconds",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
    }
)
_READ_KINDS: Final = (
    *("Pod", "Node", "NodeClaim", "NodePool", "EC2NodeClass", "DaemonSet", "PersistentVolume"),
    *("PersistentVolumeClaim", "StorageClass", "CSINode", "VolumeAttachment", "ReplicaSet"),
    *("Deployment", "StatefulSet", "Namespace", "PodDisruptionBudget", "Service"),
)
_WRITES: Final = (
    *(("POST", "NodeClaim"), ("PATCH", "NodeClaim"), ("DELETE", "NodeClaim"), ("PATCH", "Node")),
    *(("DELETE", "Node"), ("POST", "Pod"), ("DELETE", "Pod"), ("PATCH", "NodePool")),
    *(("PATCH", "EC2NodeClass"), ("POST", "Event"), ("PATCH", "Event")),
)
_CLOUD_CALLS: Final = (
    *(("nodeclaim.lifecycle", "Create"), ("nodeclaim.lifecycle", "Delete")),
    *(("nodeclaim.lifecycle", "Get"), ("nodeclaim.garbagecollection", "List")),
    *(("instance.garbagecollection", "List"), ("instance.garbagecollection", "Delete")),
    *(("nodeclaim.disruption", "IsDrifted"), ("nodeclaim.disruption", "GetInstanceTypes")),
    *(("provisioner", "GetInstanceTypes"), ("disruption", "GetInstanceTypes")),
    *(("state.pricing", "GetInstanceTypes"), ("node.termination", "Get")),
)
_AWS_CALLS: Final = (
    *("CreateFleet", "DescribeInstances", "TerminateInstances", "DescribeSubnets", "CreateTags"),
    *("DescribeSecurityGroups", "DescribeImages", "DescribeInstanceTypes", "GetParameter"),
    *("DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "GetProducts"),
    *("CreateLaunchTemplate", "DescribeLaunchTemplates", "DeleteLaunchTemplate", "ReceiveMessage"),
    *("DeleteMessage", "DescribeCluster", "GetInstanceProfile", "DescribeCapacityReservations"),
)
_METHODS: Final = (("empty", "empty"), ("underutilized", "multi"), ("underutilized", "single"))
_CODES: Final = ("200", "201", "404", "409", "429")
# Values of labels that occur in every combination
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "nodepool": POOLS,
    "karpenter_sh_nodepool": POOLS,
    "zone": ZONES,
    "capacity_type": CAPACITY_TYPES,
    "controller": (*_CORE_CONTROLLERS, *_AWS_CONTROLLERS),
    "reason": ("empty", "underutilized", "drifted", "expired", "spot_interrupted"),
    "decision": ("delete", "replace"),
    "result": ("success", "error", "requeue", "requeue_after"),
    "consolidation_type": ("empty", "multi", "single"),
    "dynamic_resources": ("true", "false"),
    "code": _CODES,
    "method": ("GET", "POST", "PATCH", "DELETE"),
    "kind": ("NodeClaim", "NodePool"),
    "image_id": ("ami-1", "ami-2"),
    "batcher": ("create_fleet", "describe_instances", "terminate_instances"),
    "message_type": ("spot_interrupted", "rebalance_recommendation", "scheduled_change"),
}


def put_machines(world: Context, *, nodes: int, pods: int) -> None:
    """Fill the mirrors with machines and pods; every hundredth pod waits for a node."""
    for obj in (*map(node_pool, POOLS), *_machines(nodes), *_pods(pods, nodes)):
        _put(world, obj)


def use_everything(metrics: Metrics, aws: AwsMetrics) -> None:
    """Create every series that a large cluster has, in all metrics of the Prometheus client."""
    for family in (*metrics.declared, *aws.declared):
        metric: Any = _collector(metrics, family)
        for values in _combinations(family):
            series = metric.labels(**values) if values else metric
            match metric:
                case Counter():
                    series.inc()
                case Gauge():
                    series.set(1)
                case Histogram() | Summary():
                    series.observe(1.0)


def _collector(metrics: Metrics, family: Family) -> object:
    name = family.name.removesuffix("_total") if family.kind == COUNTER else family.name
    assert family.kind in {COUNTER, GAUGE, HISTOGRAM, "summary"}
    return metrics.registry._names_to_collectors[name]


def _combinations(family: Family) -> Iterator[dict[str, str]]:
    names = family.labels.split()
    for tied in _tied(family.name):
        some = {name: value for name, value in tied.items() if name in names}
        free = [name for name in names if name not in some]
        for values in product(*(_VALUES.get(name, ("a",)) for name in free)):
            yield {**dict(zip(free, values, strict=True)), **some}


def _tied(name: str) -> Iterable[dict[str, str]]:
    """The values of labels that do not occur in every combination."""
    prefix = name.partition("status_condition")[0].partition("termination")[0]
    if name.startswith("operator_") and "status_condition" in name:
        return _transitions(prefix, with_reason=name.endswith("_total"))
    if name == "client_go_request_duration_seconds":
        reads = [{"verb": "GET", "kind": kind} for kind in _READ_KINDS]
        writes = [{"verb": verb, "kind": kind} for verb, kind in _WRITES]
        return reads + writes
    if name == "karpenter_cloudprovider_duration_seconds":
        return [{"controller": who, "method": what} for who, what in _CLOUD_CALLS]
    if name == "karpenter_cloudprovider_errors_total":
        kinds = ("InsufficientCapacityError", "unknown")
        return [{"controller": "c", "method": "Create", "error": kind} for kind in kinds]
    if name.startswith("aws_sdk_go_"):
        return [{"service": "ec2", "action": call, "code": "200"} for call in _AWS_CALLS]
    if name.startswith("workqueue_"):
        without_queue: frozenset[str] = frozenset() if name in _OF_WORK else _LOOPS
        names = [who for who in _VALUES["controller"] if who not in without_queue]
        return [{"controller": who, "name": who} for who in names]
    if "voluntary_disruption" in name and "failed" not in name and "timeouts" not in name:
        methods = (*_METHODS, ("drifted", ""))
        return [{"reason": why, "consolidation_type": how} for why, how in methods]
    if name.startswith("karpenter_scheduler_"):
        return [{"controller": who} for who in ("provisioner", "disruption")]
    if name.startswith("karpenter_nodes_reboot"):
        return [{"result": each} for each in ("succeeded", "recovery_timeout")]
    return [{}]


def _transitions(prefix: str, *, with_reason: bool) -> Iterator[dict[str, str]]:
    types = {
        "operator_node_": ("Ready",),
        "operator_nodepool_": ("Ready", "NodeClassReady", "ValidationSucceeded"),
    }.get(prefix, CONDITIONS_OF_CLAIMS[:6])
    for kind in types:
        moved = {"status": "True", "reason": kind} if with_reason else {"status": "Unknown"}
        yield {"type": kind, **moved, **({} if with_reason else {"to_status": "True"})}


def _machines(count: int) -> Iterator[Resource]:
    for number in range(count):
        options = MachineOptions(
            pool=POOLS[number % len(POOLS)],
            zone=ZONES[number % len(ZONES)],
            capacity_type=CAPACITY_TYPES[number % len(CAPACITY_TYPES)],
            instance_type=f"type-{number % INSTANCE_TYPES}",
            resources={"ephemeral-storage": "100Gi"},
            created=NOW - timedelta(minutes=number),
        )
        of_node: MachineOptions = {**options, "conditions": _true(CONDITIONS_OF_NODES)}
        of_claim: MachineOptions = {**options, "conditions": _true(CONDITIONS_OF_CLAIMS)}
        yield node(f"node-{number}", **of_node)
        yield node_claim(f"node-{number}", **of_claim)


def _pods(count: int, nodes: int) -> Iterator[Pod]:
    for number in range(count):
        where = "" if number % 100 == 0 else f"node-{number % nodes}"
        yield pod(f"pod-{number}", cpu="100m", memory="64Mi", node_name=where, created=NOW)


def _true(kinds: Iterable[str]) -> list[Condition]:
    return [condition(kind, reason=kind, at=NOW) for kind in kinds]


def _put(world: Context, obj: Resource) -> None:
    match obj:
        case Pod() | Node() | NodeClaim() | NodePool():
            world.mirror(type(obj)).put(obj)
