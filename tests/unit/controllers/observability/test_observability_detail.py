"""With METRICS_DETAIL=pool a large cluster is told in sums: few series, and the same figures."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from msgspec.structs import replace
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from helpers.autoscaler import FAKE_FACTS, Bench, FakeCloud, bench, run_in_background
from helpers.builders import condition, node, node_claim, node_pool, pod
from helpers.clusters import in_virtual_time
from helpers.large_state import put_machines, use_everything
from helpers.pages import text_of
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import Resource
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod
from karpenter.cloud.aws.housekeeping.offering_gauges import OFFERING_FAMILIES
from karpenter.cloud.aws.metrics import AwsMetrics
from karpenter.controllers.controllers import observability_controllers
from karpenter.controllers.observability.condition_sums import CONDITION_SUM_FAMILIES
from karpenter.controllers.observability.node_sums import NODE_SUM_FAMILIES
from karpenter.controllers.observability.pod_sums import POD_SUM_FAMILIES
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.settings import Settings
from karpenter.telemetry.families import DURATIONS, doubling, thinned
from karpenter.telemetry.family import Detail

# By zone and capacity type, reserved among them; the offerings of AWS need an account to be listed
OFFERING_SUMS = 2 * 3 * 3
SUMS = {family.name for family in (*NODE_SUM_FAMILIES, *POD_SUM_FAMILIES, *CONDITION_SUM_FAMILIES)}
Labels = Mapping[str, str]


@asynccontextmanager
async def observed(
    detail: str, *objects: Resource, planned: PlannedPods | None = None
) -> AsyncIterator[Bench]:
    """A bench on which everything that observes runs, with objects in its mirrors."""
    cloud = FakeCloud(facts=FAKE_FACTS)
    async with bench(settings=Settings(metrics_detail=detail), cloud=cloud) as at_work:
        for obj in objects:
            match obj:
                case Pod() | Node() | NodeClaim() | NodePool():
                    at_work.world.mirror(type(obj)).put(obj)
        task = run_in_background(observability_controllers(at_work.world, planned))
        try:
            await at_work.clock.sleep(1)
            yield at_work
        finally:
            task.cancel()


def scraped(at_work: Bench) -> dict[str, Metric]:
    text = at_work.world.metrics.exposition().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def amounts(family: Metric, *names: str) -> dict[tuple[str, ...], float]:
    """Values by those labels."""
    return {tuple(each.labels[name] for name in names): each.value for each in family.samples}


def series(body: bytes) -> list[str]:
    return [line for line in body.decode().splitlines() if not line.startswith("#")]


async def of_a_thousand_nodes(detail: str) -> bytes:
    async with observed(detail) as at_work:
        metrics = at_work.world.metrics
        put_machines(at_work.world, nodes=1000, pods=10_000)
        use_everything(metrics, AwsMetrics(metrics.registry, metrics.detail))
        return metrics.exposition()


def documented(column: int) -> int:
    """The number of series that the page on monitoring states."""
    (row,) = re.findall(r"^\| 1,000 nodes.*$", text_of("docs/monitoring.md"), re.MULTILINE)
    (count,) = re.findall(r"([\d,]+) series", row.split("|")[column + 1])
    return int(count.replace(",", ""))


@pytest.mark.case("OPS-32")
@in_virtual_time
async def test_a_thousand_nodes_with_every_object_are_as_many_series_as_documented() -> None:
    body = await of_a_thousand_nodes("object")

    assert pytest.approx(documented(1), rel=0.01) == len(series(body))


@pytest.mark.case("OPS-32")
@in_virtual_time
async def test_a_thousand_nodes_are_fewer_than_five_thousand_series_and_a_megabyte() -> None:
    body = await of_a_thousand_nodes("pool")

    assert pytest.approx(documented(2), rel=0.01) == len(series(body)) + OFFERING_SUMS
    assert {1000.0} == {
        sum(each.value for each in family.samples)
        for family in text_string_to_metric_families(body.decode())
        if family.name == "karpenter_nodepools_nodes"
    }
    assert len(series(body)) + OFFERING_SUMS < 5000
    assert len(body) < 1_000_000


@in_virtual_time
async def test_more_pods_and_nodes_do_not_mean_more_series() -> None:
    counts = []
    for nodes in (60, 120):
        async with observed("pool") as at_work:
            put_machines(at_work.world, nodes=nodes, pods=10 * nodes)
            counts.append(len(series(at_work.world.metrics.exposition())))

    assert counts[0] == counts[1]


@in_virtual_time
async def test_no_series_names_a_pod_or_a_node() -> None:
    async with observed("pool") as at_work:
        put_machines(at_work.world, nodes=30, pods=300)
        text = at_work.world.metrics.exposition().decode()

    assert 'nodepool="pool-0"' in text
    assert "node-1" not in text
    assert "pod-1" not in text


@in_virtual_time
async def test_without_it_there_are_the_series_of_every_object_and_no_sums() -> None:
    async with observed("object") as at_work:
        put_machines(at_work.world, nodes=30, pods=300)
        found = scraped(at_work)

    assert 300 == len(found["karpenter_pods_state"].samples)
    assert 30 == len(found["karpenter_nodes_current_lifetime_seconds"].samples)
    assert 30 * 5 == len(found["operator_node_status_condition_count"].samples)
    assert set() == SUMS & found.keys()


@in_virtual_time
async def test_sums_are_those_of_the_nodes() -> None:
    place = {"pool": "a", "zone": "z1", "capacity_type": "spot"}
    objects = [
        node_pool("a"),
        node("n1", pool="a", zone="z1", capacity_type="spot", cpu="4", memory="8Gi"),
        node("n2", pool="a", zone="z1", capacity_type="spot", cpu="2", memory="4Gi"),
        node("n3", pool="a", zone="z2", capacity_type="on-demand", cpu="8"),
        node("n4", pool="", zone="z1", cpu="1"),
        pod("p1", node_name="n1", cpu="500m"),
        pod("p2", node_name="n2", cpu="1", limits={"cpu": "2"}),
    ]
    async with observed("pool", *objects) as at_work:
        found = scraped(at_work)

    where = ("nodepool", "zone", "capacity_type")
    assert {
        ("a", "z1", "spot"): 2,
        ("a", "z2", "on-demand"): 1,
        ("", "z1", "on-demand"): 1,
    } == amounts(found["karpenter_nodepools_nodes"], *where)
    here = tuple(place.values())
    cpu = (*here, "cpu")
    by = (*where, "resource_type")
    assert 6 == amounts(found["karpenter_nodepools_nodes_allocatable"], *by)[cpu]
    assert 1.5 == amounts(found["karpenter_nodepools_nodes_total_pod_requests"], *by)[cpu]
    assert 2 == amounts(found["karpenter_nodepools_nodes_total_pod_limits"], *by)[cpu]
    assert (
        12 * 2**30 == amounts(found["karpenter_nodepools_nodes_allocatable"], *by)[*here, "memory"]
    )
    assert {("cpu",): 100 * 1.5 / 15} == {
        key: value
        for key, value in amounts(
            found["karpenter_cluster_utilization_percent"], "resource_type"
        ).items()
        if key == ("cpu",)
    }
    assert {(*here, "Running"): 2} == amounts(found["karpenter_nodepools_pods"], *where, "phase")


@in_virtual_time
async def test_a_node_that_changes_changes_the_sums() -> None:
    async with observed("pool", node("n1", pool="a", cpu="4")) as at_work:
        before = scraped(at_work)
        changed = node("n1", pool="b", cpu="8")
        metadata = replace(changed.metadata, resource_version="2")
        assert at_work.world.mirror(Node).put(replace(changed, metadata=metadata))
        after = scraped(at_work)

    by = ("nodepool", "resource_type")
    family = "karpenter_nodepools_nodes_allocatable"
    assert 4 == amounts(before[family], *by)["a", "cpu"]
    assert 8 == amounts(after[family], *by)["b", "cpu"]
    assert ("a", "cpu") not in amounts(after[family], *by)


@in_virtual_time
async def test_pods_that_wait_are_counted_with_the_longest_wait() -> None:
    async with observed("pool") as at_work:
        now = at_work.clock.now()
        planned = PlannedPods()
    objects = [
        pod("bound", node_name="n1", phase="Pending", created=now - timedelta(seconds=30)),
        pod("old", created=now - timedelta(seconds=90)),
        pod("new", created=now - timedelta(seconds=10)),
    ]
    planned.see(objects[1].metadata.uid, now - timedelta(seconds=20))
    async with observed("pool", *objects, planned=planned) as at_work:
        passed = (at_work.clock.now() - now).total_seconds()
        found = scraped(at_work)

    counts = amounts(found["karpenter_pods_waiting"], "state")
    assert {("unstarted",): 3, ("unbound",): 2, ("undecided",): 1} == counts
    longest = amounts(found["karpenter_pods_waiting_longest_seconds"], "state")
    assert pytest.approx(90 + passed) == longest["unbound",]
    assert pytest.approx(90 + passed) == longest["unstarted",]
    assert pytest.approx(20 + passed) == longest["undecided",]


@in_virtual_time
async def test_conditions_and_deletions_are_counted_by_pool() -> None:
    async with observed("pool") as at_work:
        now = at_work.clock.now()
    launched = condition("Launched", at=now - timedelta(minutes=20))
    waiting = condition("Registered", "Unknown", at=now - timedelta(minutes=20))
    young = condition("Registered", "Unknown", at=now - timedelta(minutes=1))
    objects = [
        node_pool("a"),
        node_claim("c1", pool="a", conditions=[launched, waiting]),
        node_claim("c2", pool="a", conditions=[launched, young]),
        node_claim("c3", pool="b", conditions=[launched], deleted=now - timedelta(hours=2)),
    ]
    async with observed("pool", *objects) as at_work:
        passed = (at_work.clock.now() - now).total_seconds()
        found = scraped(at_work)

    by = ("kind", "nodepool", "type", "status")
    counted = amounts(found["karpenter_nodepools_conditions"], *by)
    assert 2 == counted["NodeClaim", "a", "Registered", "Unknown"]
    assert 1 == counted["NodeClaim", "b", "Launched", "True"]
    longest = amounts(found["karpenter_nodepools_conditions_longest_seconds"], *by)
    assert pytest.approx(1200 + passed) == longest["NodeClaim", "a", "Registered", "Unknown"]
    going = amounts(found["karpenter_nodepools_terminating"], "kind", "nodepool")
    assert {("NodeClaim", "b"): 1} == going
    since = amounts(found["karpenter_nodepools_terminating_longest_seconds"], "kind", "nodepool")
    assert {("NodeClaim", "b"): pytest.approx(7200 + passed)} == since
    # Pools are few, and keep the series that dashboards of pools read
    of_pools = found["operator_nodepool_status_condition_count"].samples
    assert {"a"} == {each.labels["name"] for each in of_pools}
    assert "operator_nodeclaim_status_condition_count" not in found


def test_histograms_have_some_of_the_buckets_they_have_otherwise() -> None:
    for buckets in (DURATIONS, doubling(1, 11), doubling(0.5, 15)):
        fewer = thinned(buckets)

        assert 6 == len(fewer)
        assert set(fewer) <= set(buckets)
        assert sorted(fewer) == list(fewer)
    assert doubling(1, 4) == thinned(doubling(1, 4))
    # KarpenterLoopSlow asks whether planning takes longer than that
    assert 30.0 in thinned(DURATIONS)


def test_sums_are_only_in_the_detail_pool_and_bear_no_name_of_an_object() -> None:
    sums = [each for each in OFFERING_FAMILIES if each.only is Detail.POOL]
    for family in (*NODE_SUM_FAMILIES, *POD_SUM_FAMILIES, *CONDITION_SUM_FAMILIES, *sums):
        assert family.only is Detail.POOL
        assert set() == {"name", "node", "node_name", "instance_type"} & set(family.labels.split())
