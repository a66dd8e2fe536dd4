"""Two replicas on a real control plane while programs are restarted and killed under load.

Each disturbance happens while pods arrive; then all of them must run, each bound once, on machines of
which each has one claim. What was created and bound is read from the API server's audit log.
"""

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from helpers.autoscaler import deployment_of
from helpers.real_cluster import (
    ACCOUNT,
    Controller,
    Json,
    RealCluster,
    real_cluster,
    until,
)

APP: Final = "work"
PODS_ON_A_NODE: Final = 3
TYPE: Final = "c-4x-amd64-linux"
PATIENCE: Final = 600.0


@dataclass(frozen=True, slots=True)
class Convergence:
    """How one disturbance ended."""

    what: str
    pods: int  # that were asked for meanwhile, in all
    seconds: float  # from the disturbance until all of them ran


@dataclass(slots=True)
class Reliability:
    """A cluster with two replicas, one of which leads."""

    cluster: RealCluster
    kubeconfig: Path
    replicas: list[Controller] = field(default_factory=list)
    converged: list[Convergence] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self) -> Controller:
        """Start one more replica."""
        folder = self.cluster.plane.folder
        started = Controller(self.kubeconfig, folder / f"replica-{next(self._numbers)}.log", {})
        self.replicas.append(started)
        return started

    def until_led(self) -> Controller:
        """Wait for a leader among those that run, and return it."""
        until(lambda: bool(self._leading()), "one leads", seconds=PATIENCE)
        return self._leading()[0]

    def disturb(self, what: str, pods: int, disturbance: Callable[[], None]) -> None:
        """Scale up, disturb while claims are being created, and wait for convergence."""
        before = len(self.cluster.names("nodeclaims"))
        self.cluster("scale", "deployment", APP, f"--replicas={pods}")
        until(
            lambda: len(self.cluster.names("nodeclaims")) > before,
            f"claims are made\n{self.texts()}",
            seconds=PATIENCE,
        )
        began = time.monotonic()
        disturbance()
        until(lambda: self.running() == pods, f"{pods} pods run\n{self.texts()}", seconds=PATIENCE)
        self.converged.append(Convergence(what, pods, time.monotonic() - began))
        self.check(pods)

    def rolling_restart(self) -> None:
        """Replace one replica after the other, each as soon as the one before is at work."""
        for old in tuple(self.replicas):
            assert 0 == old.stop()
            self.replicas.remove(old)
            self.start()
            self.until_led()

    def kill_the_leader(self) -> None:
        """Kill the leader; another replica is started in its place."""
        leader = self.until_led()
        leader.process.kill()
        leader.process.wait()
        self.replicas.remove(leader)
        self.start()
        self.until_led()

    def running(self) -> int:
        """How many pods run.

        Readiness is not used: when the API server is away for long, the lifecycle controller marks
        nodes as lost and their pods as not ready, and kwok does not set these back.
        """
        time.sleep(1)  # polled slowly: listing a thousand pods loads the API server
        pods = self.cluster.plane.send("GET", "/api/v1/namespaces/default/pods")["items"]
        return sum(pod["status"].get("phase") == "Running" for pod in pods)

    def check(self, pods: int) -> None:
        """Nothing is lost, doubled or left over."""
        machines = self._machines()
        assert machines == self._claimed()
        assert len(machines) == len(set(machines))
        assert -(-pods // PODS_ON_A_NODE) == len(machines)
        bound = self._bound()
        assert [] == [name for name, times in bound.items() if times > 1]
        assert {p["metadata"]["name"] for p in self.cluster.items("pods")} <= bound.keys()
        assert [] == [each for each in self.replicas if each.process.poll() is not None]

    def end(self) -> None:
        """Let all pods go; no node and no claim may be left."""
        self.cluster("scale", "deployment", APP, "--replicas=0")
        until(lambda: not self._machines(), f"nodes go\n{self.texts()}", seconds=PATIENCE)
        until(lambda: not self.cluster.names("nodeclaims"), "claims go", seconds=PATIENCE)
        for each in self.replicas:
            assert 0 == each.stop()

    def claims_made(self) -> int:
        """How many claims were created in all."""
        return sum(
            (each.account, each.verb, each.resource, each.status)
            == (ACCOUNT, "create", "nodeclaims", 201)
            for each in self.cluster.audit('"nodeclaims"')
        )

    def texts(self) -> str:
        """The ends of what the replicas have said."""
        return "\n".join(each.text[-1500:] for each in self.replicas)

    def _leading(self) -> list[Controller]:
        """The replica that holds the lease, by what the replicas say of themselves."""
        found = [each for each in self.replicas if each.process.poll() is None]
        return [each for each in found if _leads(each)]

    def _machines(self) -> list[str]:
        return sorted(node["spec"]["providerID"] for node in self.cluster.items("nodes"))

    def _claimed(self) -> list[str]:
        claims = self.cluster.items("nodeclaims")
        return sorted(claim.get("status", {}).get("providerID", "") for claim in claims)

    def _bound(self) -> Counter[str]:
        return Counter(
            each.name
            for each in self.cluster.audit('"binding"')
            if each.resource == "pods/binding" and each.status == 201
        )


def _leads(replica: Controller) -> bool:
    terms = len(replica.lines("became leader"))
    return terms > len(replica.lines("lost the lease"))


@contextmanager
def reliability(folder: Path) -> Iterator[Reliability]:
    """A cluster with two replicas, for as long as a block runs."""
    with real_cluster(folder) as cluster:
        cluster("apply", "-f", "-", given=json.dumps(_objects()))
        run = Reliability(cluster, cluster.account())
        try:
            run.start()
            run.until_led()
            run.start()
            yield run
        finally:
            for each in run.replicas:
                if each.process.poll() is None:
                    each.process.kill()
                    each.process.wait()


def slow_pool(consolidate_after: str) -> list[Json]:
    """A pool of one type, so that the number of nodes is known, whose nodes take a while."""
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    one_type = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE]}
    spec = {"nodeClassRef": reference, "requirements": [one_type], "expireAfter": "Never"}
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": consolidate_after}
    return [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "default"},
            "spec": {
                "template": {"spec": spec},
                "disruption": {**disruption, "budgets": [{"nodes": "100%"}]},
            },
        },
        {
            "apiVersion": "karpenter.kwok.sh/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": "default"},
            "spec": {"nodeRegistrationDelay": "4s"},
        },
    ]


def _objects() -> Json:
    container: dict[str, Any] = {"name": "a", "image": "example.com/a:v1"}
    container["resources"] = {"requests": {"cpu": "1"}}
    items = [*slow_pool("0s"), deployment_of(APP, 0, [container])]
    return {"apiVersion": "v1", "kind": "List", "items": items}
