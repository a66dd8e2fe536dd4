"""What can be scraped about pods, nodes and pools is what the cluster holds at that moment."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers.autoscaler import (
    FAKE_FACTS,
    Bench,
    FakeCloud,
    JsonObject,
    bench,
    kwok_pool,
    run_in_background,
)
from helpers.cluster_texts import class_ref
from helpers.clusters import in_virtual_time
from karpenter.api.pods import Container, Pod, PodSpec, ResourceRequirements
from karpenter.clock import running_clock
from karpenter.cloud.provider import CloudError
from karpenter.cloud.types import InstanceType, Offering
from karpenter.controllers.controllers import observability_controllers
from karpenter.controllers.observability.node_gauges import pod_limits
from karpenter.controllers.observability.pool_gauges import prices_of
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.model import labels
from karpenter.model.requirements import Requirements
from karpenter.model.resources import Resources
from karpenter.settings import Settings

Labels = Mapping[str, str]
NODE_LABELS = {
    "karpenter.sh/nodepool": "general",
    "karpenter.sh/capacity-type": "spot",
    "topology.kubernetes.io/zone": "zone-a",
    "node.kubernetes.io/instance-type": "large",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "karpenter.sh/registered": "true",
    "karpenter.sh/initialized": "true",
}


def offering(price: float, zone: str = "zone-a") -> Offering:
    return Offering(
        Requirements.from_labels({labels.ZONE: zone, labels.CAPACITY_TYPE: "spot"}), price
    )


def machine(name: str, *offerings: Offering) -> InstanceType:
    return InstanceType(name, Requirements(), offerings, Resources(cpu=4000))


def node(name: str = "n1", **allocatable: str) -> JsonObject:
    size = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**NODE_LABELS, "kubernetes.io/hostname": name}},
        "spec": {"providerID": f"fake://{name}"},
        "status": {"capacity": size, "allocatable": {**size, **allocatable}},
    }


def claim(name: str, kind: str = "large", machine: bool = True) -> JsonObject:
    held = {**NODE_LABELS, "node.kubernetes.io/instance-type": kind}
    reference = class_ref()
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "labels": held},
        "spec": {"nodeClassRef": reference, "requirements": [], "expireAfter": "Never"},
        "status": {"providerID": f"fake://{name}", "conditions": []} if machine else {},
    }


def pod(
    name: str = "p1", node_name: str = "", *, daemon: bool = False, **status: Any
) -> JsonObject:
    kind = "DaemonSet" if daemon else "ReplicaSet"
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "rs", "uid": "u", "controller": True}
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]},
        "spec": {
            "containers": [{"name": "app", "image": "pause", "resources": resources}],
            **({"nodeName": node_name} if node_name else {}),
        },
        "status": {"phase": "Running" if node_name else "Pending", **status},
    }


READY: JsonObject = {"conditions": [{"type": "Ready", "status": "True"}]}


class Scrape:
    """Everything that can be scraped at one moment."""

    def __init__(self, at_work: Bench) -> None:
        text = at_work.world.metrics.exposition().decode()
        self._families = {each.name: each for each in text_string_to_metric_families(text)}

    def samples(self, family: str) -> list[tuple[Labels, float]]:
        found = self._families.get(family)
        return [(each.labels, each.value) for each in found.samples] if found else []

    def amounts(self, family: str, label: str = "resource_type") -> dict[str, float]:
        return {held[label]: value for held, value in self.samples(family)}

    def has(self, family: str) -> bool:
        return family in self._families


@asynccontextmanager
async def observed(
    *objects: JsonObject,
    planned: PlannedPods | None = None,
    settings: Settings | None = None,
    types: tuple[InstanceType, ...] = (),
) -> AsyncIterator[Bench]:
    """A bench on which everything that observes runs."""
    cloud = FakeCloud(facts=FAKE_FACTS, types=types)
    async with bench(settings=settings, cloud=cloud) as at_work:
        await at_work.put(*objects)
        task = run_in_background(observability_controllers(at_work.world, planned))
        try:
            await at_work.clock.sleep(1)
            yield at_work
        finally:
            task.cancel()


class TestNodes:
    @in_virtual_time
    async def test_sizes_and_requests_of_a_node(self) -> None:
        objects = (node(cpu="3900m"), pod("a", "n1"), pod("b", "n1", daemon=True))
        async with observed(*objects) as at_work:
            scrape = Scrape(at_work)

        memory = 8 * 2**30
        expected = {
            "allocatable": {"cpu": 3.9, "memory": memory, "pods": 110},
            "total_pod_requests": {"cpu": 1, "memory": 2 * 2**30, "pods": 2},
            "total_pod_limits": {"cpu": 2, "memory": 0, "pods": 0},
            "total_daemon_requests": {"cpu": 0.5, "memory": 2**30, "pods": 1},
            "total_daemon_limits": {"cpu": 1, "memory": 0, "pods": 0},
            "system_overhead": {"cpu": 0.1, "memory": 0, "pods": 0},
        }
        found = {name: scrape.amounts(f"karpenter_nodes_{name}") for name in expected}
        assert expected == found

    @in_virtual_time
    async def test_a_node_carries_its_well_known_labels(self) -> None:
        async with observed(node()) as at_work:
            ((held, age),) = Scrape(at_work).samples("karpenter_nodes_current_lifetime_seconds")

        expected = {
            "nodepool": "general",
            "capacity_type": "spot",
            "zone": "zone-a",
            "region": "",
            "instance_type": "large",
            "arch": "amd64",
            "os": "linux",
            "windows_build": "",
            "node_name": "n1",
            "phase": "",
            "managed": "true",
        }
        assert expected == held
        assert 0 < age < 10

    @in_virtual_time
    async def test_utilization_is_of_all_nodes_together(self) -> None:
        objects = (node("n1"), node("n2"), pod("a", "n1"), pod("b", "n2"))
        async with observed(*objects) as at_work:
            found = Scrape(at_work).amounts("karpenter_cluster_utilization_percent")

        assert {"cpu": 12.5, "memory": 12.5, "pods": 100 / 110} == pytest.approx(found)

    @in_virtual_time
    async def test_a_change_is_seen_at_once_and_a_node_that_is_gone_is_not(self) -> None:
        async with observed(node(), pod("a", "n1")) as at_work:
            before = Scrape(at_work).amounts("karpenter_nodes_total_pod_requests")
            await at_work.client.delete("v1", "Pod", "default", "a", grace_period=0)
            await at_work.settle()
            between = Scrape(at_work).amounts("karpenter_nodes_total_pod_requests")
            await at_work.client.delete("v1", "Node", None, "n1")
            await at_work.settle()
            after = Scrape(at_work)

        assert (0.5, 0) == (before["cpu"], between["cpu"])
        assert [] == after.samples("karpenter_nodes_allocatable")


class TestPods:
    @in_virtual_time
    async def test_where_a_pod_is(self) -> None:
        async with observed(node(), pod("a", "n1", **READY), pod("b")) as at_work:
            found = Scrape(at_work).samples("karpenter_pods_state")

        owner = "/apis/apps/v1/namespaces/default/replicasets/rs"
        common = {"namespace": "default", "owner": owner}
        bound = {
            **common,
            "name": "a",
            "node": "n1",
            "scheduled": "true",
            "nodepool": "general",
            "zone": "zone-a",
            "arch": "amd64",
            "capacity_type": "spot",
            "instance_type": "large",
            "phase": "Running",
            "ready": "true",
            "managed": "true",
        }
        nowhere = dict.fromkeys(
            ("node", "nodepool", "zone", "arch", "capacity_type", "instance_type"), ""
        )
        waiting = {
            **common,
            **nowhere,
            "name": "b",
            "scheduled": "false",
            "phase": "Pending",
            "ready": "false",
            "managed": "false",
        }
        assert [(bound, 1), (waiting, 1)] == found

    @in_virtual_time
    async def test_how_long_a_pod_waits(self) -> None:
        planned = PlannedPods()
        async with observed(planned=planned) as at_work:
            stored = await at_work.put(pod("b"))
            await at_work.clock.sleep(10)
            planned.see(stored["metadata"]["uid"], at_work.clock.now())
            await at_work.clock.sleep(5)
            undecided = Scrape(at_work)
            planned.decide(stored["metadata"]["uid"], at_work.clock.now(), is_placed=True)
            await at_work.clock.sleep(3)
            placed = Scrape(at_work)

        def wait(scrape: Scrape, name: str) -> dict[str, int]:
            found = scrape.samples(f"karpenter_pods_{name}_time_seconds")
            return {held.get("dynamic_resources", "-"): round(value) for held, value in found}

        assert [{"-": 15}, {"false": 15}, {"-": 5}, {}, {}] == [
            wait(undecided, name)
            for name in (
                "unstarted",
                "unbound",
                "provisioning_scheduling_undecided",
                "provisioning_unstarted",
                "provisioning_unbound",
            )
        ]
        assert [{}, {"-": 3}, {"false": 3}] == [
            wait(placed, name)
            for name in (
                "provisioning_scheduling_undecided",
                "provisioning_unstarted",
                "provisioning_unbound",
            )
        ]

    @in_virtual_time
    async def test_how_long_a_pod_took(self) -> None:
        planned = PlannedPods()
        async with observed(node(), planned=planned) as at_work:
            stored = await at_work.put(pod("b"))
            began = running_clock().now()
            await at_work.clock.sleep(2)
            planned.see(stored["metadata"]["uid"], began)
            planned.decide(stored["metadata"]["uid"], at_work.clock.now(), is_placed=True)
            await at_work.clock.sleep(4)
            await at_work.client.bind("default", "b", "n1")
            await at_work.settle()
            await at_work.clock.sleep(3)
            ready = {"phase": "Running", **READY}
            await at_work.change(
                "v1", "Pod", "b", {"status": ready}, namespace="default", subresource="status"
            )
            scrape = Scrape(at_work)

        def took(name: str) -> int:
            family = scrape._families[f"karpenter_pods_{name}_duration_seconds"]
            return round(sum(s.value for s in family.samples if s.name.endswith("_sum")))

        found = [
            took(name)
            for name in ("bound", "provisioning_bound", "startup", "provisioning_startup")
        ]
        assert [6, 4, 9, 7] == found

    @in_virtual_time
    async def test_pods_that_ran_before_are_not_measured(self) -> None:
        async with observed(node(), pod("a", "n1", **READY)) as at_work:
            found = Scrape(at_work).samples("karpenter_pods_bound_duration_seconds")
            started = Scrape(at_work).samples("karpenter_pods_startup_duration_seconds")

        assert [] == found
        assert 0 == started[-1][1]


class TestPools:
    @in_virtual_time
    async def test_limits_and_usage(self) -> None:
        pool = kwok_pool("general", limits={"cpu": "100", "memory": "1Gi"})
        pool["status"] = {"resources": {"cpu": "2500m", "nodes": "3"}}
        async with observed(pool) as at_work:
            scrape = Scrape(at_work)

        assert {"cpu": 100, "memory": 2**30} == scrape.amounts("karpenter_nodepools_limit")
        assert {"cpu": 2.5, "nodes": 3} == scrape.amounts("karpenter_nodepools_usage")
        assert {"general": 3} == {
            held["nodepool"]: value
            for held, value in scrape.samples("karpenter_nodepools_usage")
            if held["resource_type"] == "nodes"
        }

    @in_virtual_time
    async def test_what_a_pool_costs(self) -> None:
        objects = (
            kwok_pool("general"),
            claim("a"),
            claim("b"),
            claim("unlaunched", machine=False),
            claim("unknown", kind="odd"),
        )
        async with observed(*objects, types=(machine("large", offering(0.5)),)) as at_work:
            first, second = Scrape(at_work), Scrape(at_work)
            calls = at_work.cloud.calls_of("instance_types")
            await at_work.change(
                "karpenter.sh/v1", "NodePool", "general", {"status": {"nodes": 2}},
                subresource="status",
            )  # fmt: skip
            await at_work.clock.sleep(1)
            unchanged = at_work.cloud.calls_of("instance_types")
            await at_work.clock.sleep(3600)
            later = at_work.cloud.calls_of("instance_types")

        assert {"general": 1.0} == first.amounts("karpenter_nodepools_cost_total", "nodepool")
        errors = "karpenter_nodepools_cost_tracker_errors"
        assert [({"nodepool": "general"}, 1)] == second.samples(errors)
        assert (["general"], ["general"], ["general"] * 2) == (calls, unchanged, later)

    @in_virtual_time
    async def test_prices_that_cannot_be_told_yet_are_asked_for_when_the_class_is_ready(
        self,
    ) -> None:
        async with observed(kwok_pool("general"), claim("a")) as at_work:
            cloud = at_work.cloud
            cloud.types = (machine("large", offering(0.5)),)
            cloud.failures["instance_types"] = [CloudError("no subnets found")]
            spec = {"spec": {"weight": 3}}
            await at_work.change("karpenter.sh/v1", "NodePool", "general", spec)
            await at_work.clock.sleep(600)
            asked = len(cloud.calls_of("instance_types"))
            status = {"status": {"conditions": [condition("NodeClassReady", "True")]}}
            await at_work.change(
                "karpenter.sh/v1", "NodePool", "general", status, subresource="status"
            )
            await at_work.clock.sleep(1)

            assert asked + 1 == len(cloud.calls_of("instance_types"))
            costs = Scrape(at_work).amounts("karpenter_nodepools_cost_total", "nodepool")
            assert {"general": 0.5} == costs
            assert [] == [line for line in at_work.lines if line["level"] == "error"]

    @in_virtual_time
    async def test_prices_of_a_pool_of_another_provider_are_not_asked_for(self) -> None:
        other = {"group": "example.com", "kind": "Other", "name": "default"}
        foreign = kwok_pool("theirs", template={"nodeClassRef": other})
        async with observed(foreign) as at_work:
            await at_work.clock.sleep(4000)

            assert [] == at_work.cloud.calls_of("instance_types")

    def test_the_cheapest_of_equal_offerings_counts(self) -> None:
        types = (machine("large", offering(0.5), offering(0.4), offering(0.9, "zone-b")),)

        expected = {("large", "spot", "zone-a"): 0.4, ("large", "spot", "zone-b"): 0.9}
        assert expected == prices_of(types)


@in_virtual_time
async def test_without_observability_only_the_state_and_costs_are_told() -> None:
    settings = replace(Settings(), disable_cluster_state_observability=True)
    objects = (node(), pod("a", "n1"), kwok_pool("general"), claim("n1"))
    async with observed(*objects, settings=settings) as at_work:
        scrape = Scrape(at_work)
        await at_work.change(
            "karpenter.sh/v1", "NodeClaim", "n1",
            {"status": {"conditions": [condition("Ready", "True")]}}, subresource="status",
        )  # fmt: skip
        said = at_work.events.heard

    absent = ("karpenter_nodes_allocatable", "karpenter_pods_state", "karpenter_nodepools_limit")
    assert not any(map(scrape.has, absent))
    assert [({}, 1)] == scrape.samples("karpenter_cluster_state_node_count")
    assert scrape.has("karpenter_nodepools_cost_total")
    assert [] == said


class TestSync:
    @in_virtual_time
    async def test_a_complete_state(self) -> None:
        async with observed(node()) as at_work:
            scrape = Scrape(at_work)

        found = [
            scrape.samples(f"karpenter_cluster_state_{name}")
            for name in ("node_count", "synced", "unsynced_time_seconds")
        ]
        assert [[({}, 1)], [({}, 1)], [({}, 0)]] == found

    @in_virtual_time
    async def test_one_unlaunched_claim_makes_it_incomplete_and_later_an_error(self) -> None:
        async with observed() as at_work:
            await at_work.put(claim("slow", machine=False))
            await at_work.clock.sleep(29)
            early = [*at_work.lines]
            await at_work.clock.sleep(26)
            scrape = Scrape(at_work)
            late = [line for line in at_work.lines if line["level"] == "error"]

        assert [] == [line for line in early if line["level"] == "error"]
        expected = "cluster is waiting on sync for extended duration"
        assert [expected] * 3 == [line["message"] for line in late]
        assert ["slow"] == late[0]["NodeClaims"]
        assert [({}, 0)] == scrape.samples("karpenter_cluster_state_synced")
        ((_, seconds),) = scrape.samples("karpenter_cluster_state_unsynced_time_seconds")
        assert 53 <= seconds <= 55

    @in_virtual_time
    async def test_when_all_is_known_again_nothing_is_said(self) -> None:
        async with observed() as at_work:
            await at_work.put(claim("slow", machine=False))
            await at_work.clock.sleep(33)
            patch = {"status": {"providerID": "fake://slow", "conditions": []}}
            await at_work.change(
                "karpenter.sh/v1", "NodeClaim", "slow", patch, subresource="status"
            )
            await at_work.clock.sleep(120)
            scrape = Scrape(at_work)

        assert 1 == len([line for line in at_work.lines if line["level"] == "error"])
        assert [({}, 1)] == scrape.samples("karpenter_cluster_state_synced")


def condition(kind: str, status: str) -> JsonObject:
    return {
        "type": kind,
        "status": status,
        "reason": kind,
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        pytest.param(["1", "2"], [], 3000, id="containers add up"),
        pytest.param(["1"], [("4", "")], 4000, id="the init phase may need more"),
        pytest.param(["1"], [("1", "Always"), ("1", "")], 2000, id="a sidecar runs beside them"),
        pytest.param(["1"], [("1", "Always"), ("3", "")], 4000, id="also beside the init phase"),
    ],
)
def test_limits_of_a_pod(containers: list[str], init: list[tuple[str, str]], expected: int) -> None:
    def container(cpu: str, restart: str = "") -> Container:
        resources = ResourceRequirements(limits={"cpu": cpu})
        return Container(name=cpu, restart_policy=restart, resources=resources)

    spec = PodSpec(
        containers=tuple(container(cpu) for cpu in containers),
        init_containers=tuple(container(cpu, restart) for cpu, restart in init),
    )

    assert Resources(cpu=expected) == pod_limits(Pod(spec=spec))
