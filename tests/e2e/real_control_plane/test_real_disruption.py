"""Nodes go on a real control plane: empty, drifted, half used, expired, held by a budget, or not.

One control plane and one controller serve all of these tests; each has a pool and a Deployment of
its own, and nothing of one pool concerns another. What the controller decided is read from its log,
what it did from the API server's audit log, and what came of it with ``kubectl``.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from helpers.autoscaler import deployment_of
from helpers.real_cluster import ACCOUNT, Controller, RealCluster, controller, real_cluster, until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

PATIENCE: Final = 180.0  # for anything that should take a few seconds, on a busy machine
LIFETIME: Final = timedelta(seconds=40)
LONG_ENOUGH: Final = timedelta(seconds=40)  # three passes of disruption and a validation
ANY_NUMBER: Final = [{"nodes": "100%"}]
POOL_LABEL: Final = "karpenter.sh/nodepool"
TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
DISRUPTED: Final = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
SMALL, LARGE = "c-4x-amd64-linux", "c-8x-amd64-linux"

Json = dict[str, Any]


@dataclass(frozen=True)
class Installation:
    """A cluster with a controller that is at work."""

    cluster: RealCluster
    controller: Controller

    def apply(self, *objects: Json) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.cluster("apply", "-f", "-", given=json.dumps(listed))

    def pool(self, name: str) -> "Pool":
        return Pool(self, name)


@dataclass(frozen=True)
class Pool:
    """A pool with a Deployment of the same name, and the nodes that come of them."""

    installation: Installation
    name: str

    @property
    def cluster(self) -> RealCluster:
        return self.installation.cluster

    @property
    def nodes(self) -> dict[str, Json]:
        found = self.cluster.items("nodes", "-l", f"{POOL_LABEL}={self.name}")
        return {node["metadata"]["name"]: node for node in found}

    @property
    def claims(self) -> dict[str, Json]:
        found = self.cluster.items("nodeclaims", "-l", f"{POOL_LABEL}={self.name}")
        return {claim["metadata"]["name"]: claim for claim in found}

    @property
    def types(self) -> list[str]:
        return sorted(node["metadata"]["labels"][TYPE_LABEL] for node in self.nodes.values())

    def running(self) -> list[str]:
        """The nodes of the pods that run and stay, one for each pod."""
        pods = self.cluster.items("pods", "-l", f"app={self.name}")
        return sorted(
            pod["spec"]["nodeName"]
            for pod in pods
            if pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        )

    def until_running(self, replicas: int) -> None:
        until(lambda: replicas == len(self.running()), f"{replicas} pods run", seconds=PATIENCE)

    def until_gone(self, name: str) -> None:
        until(lambda: name not in self.nodes, f"node {name} is gone", seconds=PATIENCE)
        until(
            lambda: name not in map(node_of, self.claims.values()),
            f"the claim of node {name} is gone",
            seconds=PATIENCE,
        )

    def scale(self, replicas: int) -> None:
        self.cluster("scale", "deployment", self.name, f"--replicas={replicas}")

    def change(self, **spec: Any) -> None:
        body = json.dumps({"spec": spec})
        self.cluster("patch", "nodepool", self.name, "--type=merge", "-p", body)

    def holds(self, kind: str) -> datetime | None:
        """Since when a condition holds for the only claim, if it does."""
        (claim,) = self.claims.values()
        for condition in claim.get("status", {}).get("conditions", ()):
            if condition["type"] == kind and condition["status"] == "True":
                return datetime.fromisoformat(condition["lastTransitionTime"])
        return None

    def events(self, kind: str, reason: str) -> list[str]:
        """The events of this pool's objects and nodes."""
        names = {self.name, *self.nodes, *self.claims}
        return [
            event["message"]
            for event in self.cluster.items("events")
            if (event["involvedObject"]["kind"], event["reason"]) == (kind, reason)
            and event["involvedObject"]["name"] in names
        ]

    def decisions(self, node: str) -> list[tuple[str, str, int]]:
        """Reason, decision and number of replacements of every command that took a node."""
        return [
            (line["reason"], line["decision"], line["replacement-node-count"])
            for line in self.installation.controller.lines("disrupting node(s)")
            if node in [each["Node"] for each in line["disrupted-nodes"]]
        ]

    def deleted_at(self, claim: str) -> datetime:
        """When the controller first asked for a claim to be deleted."""
        return min(
            request.received
            for request in self.cluster.audit()
            if (request.account, request.verb, request.resource, request.name)
            == (ACCOUNT, "delete", "nodeclaims", claim)
        )


def node_of(claim: Json) -> str:
    """The name of a claim's node; empty for one that has none, or no status at all so far."""
    return str(claim.get("status", {}).get("nodeName", ""))


@pytest.fixture(scope="module")
def installation(
    kubectl: str, control_plane_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with real_cluster(tmp_path_factory.mktemp("disruption")) as cluster:
        # On a busy machine the scheduler may take a while for all pods
        settings = {"BATCH_IDLE_DURATION": "3s"}
        with controller(cluster, cluster.account(), **settings) as process:
            process.until_leading(seconds=PATIENCE)
            found = Installation(cluster, process)
            found.apply(node_class())
            yield found
            assert 0 == process.stop()
            assert [] == [line for line in process.lines() if line["level"] == "ERROR"]


@contextmanager
def started(
    installation: Installation,
    name: str,
    replicas: int,
    *besides: Json,
    types: tuple[str, ...] = (SMALL,),
    expire_after: str = "Never",
    **disruption: Any,
) -> Iterator[Pool]:
    """A pool whose pods run; everything of it is gone afterwards."""
    pool = installation.pool(name)
    found = node_pool(name, types=types, expire_after=expire_after, **disruption)
    installation.apply(found, deployment(name, replicas), *besides)
    try:
        pool.until_running(replicas)
        yield pool
    finally:
        for each in besides:
            kind, of = each["kind"], each["metadata"]["name"]
            installation.cluster("delete", kind, of, "--ignore-not-found")
        # In the foreground: no pod may wait for a pool that is gone
        installation.cluster("delete", "deployment", name, "--cascade=foreground", "--timeout=60s")
        installation.cluster("delete", "nodepool", name, "--wait=false")
        until(lambda: not pool.nodes and not pool.claims, "the pool is gone", seconds=PATIENCE)


def node_class() -> Json:
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        "spec": {},
    }


def requirements(*types: str) -> list[Json]:
    """What a pool asks for that makes these types on demand."""
    return [
        {"key": TYPE_LABEL, "operator": "In", "values": list(types)},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]


def node_pool(name: str, *, types: tuple[str, ...], expire_after: str, **disruption: Any) -> Json:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": reference,
                    "requirements": requirements(*types),
                    "expireAfter": expire_after,
                }
            },
            "disruption": {"consolidateAfter": "0s", "budgets": ANY_NUMBER, **disruption},
        },
    }


def deployment(name: str, replicas: int) -> Json:
    container = {
        "name": "a",
        "image": "example.com/a:v1",
        "resources": {"requests": {"cpu": "1"}},
    }
    return deployment_of(name, replicas, [container], nodeSelector={POOL_LABEL: name})


def closed_budget(name: str) -> Json:
    """A budget of pods that lets none of them go."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}},
    }


def test_an_empty_node_goes(installation: Installation) -> None:
    with started(installation, "empty", 1) as pool:
        (node,) = pool.nodes

        pool.scale(0)
        pool.until_gone(node)

        assert [("empty", "delete", 0)] == pool.decisions(node)


def test_a_drifted_node_goes_when_its_replacement_stands(installation: Installation) -> None:
    with started(installation, "drift", 2) as pool:
        (node,), (claim,) = pool.nodes, pool.claims

        pool.change(template={"metadata": {"labels": {"example.com/step": "2"}}})
        pool.until_gone(node)
        pool.until_running(2)

        ((name, replacement),) = pool.nodes.items()
        assert "2" == replacement["metadata"]["labels"]["example.com/step"]
        assert [("drifted", "replace", 1)] == pool.decisions(node)
        initialized = pool.holds("Initialized")
        assert initialized is not None
        # Times of conditions are truncated to the second
        assert initialized <= pool.deleted_at(claim)
        assert [] == pool.decisions(name)


def test_a_half_used_node_makes_way_for_a_cheaper_one(installation: Installation) -> None:
    # Only large ones at first, so that a burst of pods in two parts makes one node all the same
    with started(installation, "half", 6, types=(LARGE,)) as pool:
        (node,) = pool.nodes

        pool.change(template={"spec": {"requirements": requirements(SMALL, LARGE)}})
        pool.scale(2)
        pool.until_gone(node)
        pool.until_running(2)

        assert [SMALL] == pool.types
        assert [("underutilized", "replace", 1)] == pool.decisions(node)


def test_an_expired_node_goes_on_time_and_its_pod_finds_another(installation: Installation) -> None:
    lifetime = f"{LIFETIME.seconds}s"
    with started(installation, "expire", 1, expire_after=lifetime) as pool:
        (node,) = pool.running()
        (claim,) = [claim for claim in pool.claims.values() if node_of(claim) == node]
        name = claim["metadata"]["name"]

        pool.until_gone(node)
        until(lambda: [node] != pool.running() != [], "its pod runs elsewhere", seconds=PATIENCE)

        born = datetime.fromisoformat(claim["metadata"]["creationTimestamp"])
        assert born + LIFETIME <= pool.deleted_at(name)
        expired = installation.controller.lines("deleting expired nodeclaim")
        assert name in [line["NodeClaim"]["name"] for line in expired]
        assert [] == pool.decisions(node)


def test_a_budget_of_pods_holds_a_drain_until_it_opens(installation: Installation) -> None:
    with started(installation, "held", 1, closed_budget("held")) as pool:
        (node,) = pool.nodes

        installation.cluster("delete", "node", node, "--wait=false")
        until(lambda: bool(pool.events("Node", "FailedDraining")), "it is told", seconds=PATIENCE)

        assert DISRUPTED in pool.nodes[node]["spec"]["taints"]
        assert [node] == pool.running()
        tried = [
            request.status
            for request in pool.cluster.audit()
            if (request.account, request.resource) == (ACCOUNT, "pods/eviction")
            and request.name.startswith("held-")
        ]
        assert {429} == set(tried)

        installation.cluster("delete", "pdb", "held")
        pool.until_gone(node)
        until(lambda: [node] != pool.running() != [], "its pod runs elsewhere", seconds=PATIENCE)


def test_a_budget_of_no_nodes_keeps_an_empty_one_until_it_opens(installation: Installation) -> None:
    with started(installation, "closed", 1, budgets=[{"nodes": "0"}]) as pool:
        (node,) = pool.nodes

        pool.scale(0)
        until(lambda: pool.holds("Consolidatable") is not None, "at rest", seconds=PATIENCE)
        until(
            lambda: any("Empty" in text for text in pool.events("NodePool", "DisruptionBlocked")),
            "the pool is told",
            seconds=PATIENCE,
        )
        since = datetime.now().astimezone()
        until(
            lambda: datetime.now().astimezone() - since > LONG_ENOUGH or node not in pool.nodes,
            "a while passes",
            seconds=PATIENCE,
        )
        assert {node} == pool.nodes.keys()
        assert [] == pool.decisions(node)
        assert DISRUPTED not in pool.nodes[node]["spec"].get("taints", ())

        pool.change(disruption={"budgets": ANY_NUMBER})
        pool.until_gone(node)

        assert [("empty", "delete", 0)] == pool.decisions(node)
