"""The sandbox's scheduler says of every pod what a real kube-scheduler says of it.

Each scenario is put before both: the real one through its API, ours as a plain cluster in memory.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from control_plane.cluster import ControlPlane
from helpers.placing import expression, labelled, node_affinity, pinned_to, required, spread, term
from helpers.scheduler_bench import ZONE, Bench, node, pod, taint

Json = dict[str, Any]

_SECONDS: Final = 60.0
_WEB: Final = {"app": "web"}
_PODS: Final = "/api/v1/namespaces/default/pods"
_CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
_PRIORITIES: Final = {"high": 1000, "never": 1000}


@dataclass(frozen=True)
class Scenario:
    """Nodes, pods on them, and the pod that wants a place."""

    nodes: list[Json]
    wanting: Json
    running: dict[str, list[Json]] = field(default_factory=dict)
    claims: list[Json] = field(default_factory=list)


def of_class(name: str, obj: Json) -> Json:
    """A pod of a priority class."""
    return {**obj, "spec": {**obj["spec"], "priorityClassName": name}}


def on_port(obj: Json) -> Json:
    """A pod that takes a port of its node."""
    (container,) = obj["spec"]["containers"]
    ports = [{"containerPort": 80, "hostPort": 8080}]
    return {**obj, "spec": {**obj["spec"], "containers": [{**container, "ports": ports}]}}


def spreading(name: str, **more: Any) -> Json:
    constraint = spread(ZONE, selector=labelled(app="web"), **more)
    return pod(name, labels=_WEB, topologySpreadConstraints=[constraint])


def claiming(name: str, claim: str) -> Json:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    return pod(name, volumes=[volume])


def claim(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "storageClassName": "nowhere",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


FAR: Final = required("podAntiAffinity", term(labelled(app="web")))
GPUS: Final = {"nvidia.com/gpu": "2"}

SCENARIOS: Final = {
    "no nodes": Scenario([], pod("p")),
    "cpu": Scenario([node("a", cpu="2")], pod("p", cpu="3")),
    "memory": Scenario([node("a", memory="1Gi")], pod("p", memory="1025Mi")),
    "cpu and memory": Scenario(
        [node("a", cpu="1", memory="1Gi"), node("b", cpu="1")], pod("p", cpu="2", memory="2Gi")
    ),
    "storage": Scenario(
        [node("a", more={"ephemeral-storage": "1Gi"})],
        pod("p", requests={"ephemeral-storage": "2Gi"}),
    ),
    "devices": Scenario([node("a", more={"nvidia.com/gpu": "1"})], pod("p", requests=GPUS)),
    "no pods allowed": Scenario([node("a", pods="0")], pod("p")),
    "too many pods": Scenario([node("a", pods="1")], pod("p"), {"a": [pod("r")]}),
    "a taint": Scenario(
        [node("a", taints=[taint("gpu", "yes")]), node("b", cpu="1")], pod("p", cpu="2")
    ),
    "a cordon": Scenario([node("a", unschedulable=True)], pod("p")),
    "a node selector": Scenario([node("a"), node("b")], pod("p", nodeSelector={"disk": "ssd"})),
    "a node affinity": Scenario(
        [node("a", labels={"disk": "hdd"})],
        pod("p", affinity=node_affinity([expression("disk", "NotIn", "hdd")])),
    ),
    "a daemon's full node": Scenario(
        [node("a", cpu="1"), node("b"), node("c")], pod("p", cpu="2", affinity=pinned_to("a"))
    ),
    "a daemon's missing node": Scenario([node("a"), node("b")], pod("p", affinity=pinned_to("z"))),
    "a missing topology label": Scenario([node("a")], spreading("p")),
    "a full zone": Scenario(
        [node("a", zone="a"), node("b", zone="b", pods="1")],
        spreading("p"),
        {"a": [spreading("r1"), spreading("r2")], "b": [spreading("r3")]},
    ),
    "too few zones": Scenario(
        [node("a", zone="a"), node("b", zone="b")],
        spreading("p", minDomains=3),
        {"a": [spreading("r1")], "b": [spreading("r2")]},
    ),
    "nobody near": Scenario(
        [node("a")], pod("p", affinity=required("podAffinity", term(labelled(app="db"))))
    ),
    "somebody near": Scenario([node("a")], pod("p", affinity=FAR), {"a": [pod("r", labels=_WEB)]}),
    "near somebody": Scenario([node("a")], pod("p", labels=_WEB), {"a": [pod("r", affinity=FAR)]}),
    "a port": Scenario([node("a")], on_port(pod("p")), {"a": [on_port(pod("r"))]}),
    "nobody to preempt": Scenario(
        [node("a"), node("b"), node("c", taints=[taint("x")])],
        pod("p", cpu="2"),
        {"a": [pod("r1", cpu="4")], "b": [pod("r2", cpu="3")]},
    ),
    "nobody lesser to preempt": Scenario(
        [node("a", cpu="2")],
        of_class("high", pod("p", cpu="1")),
        {"a": [of_class("high", pod("r", cpu="2"))]},
    ),
    "too few to preempt": Scenario(
        [node("a", cpu="2")],
        of_class("high", pod("p", cpu="2")),
        {"a": [pod("r1", cpu="500m"), of_class("high", pod("r2", cpu="1"))]},
    ),
    "never preempting": Scenario(
        [node("a", cpu="2")], of_class("never", pod("p", cpu="3", preemptionPolicy="Never"))
    ),
    "many reasons": Scenario(
        [
            node("a", cpu="1"),
            node("b", cpu="1", memory="1Mi"),
            node("c", taints=[taint("x")]),
            node("d", unschedulable=True),
        ],
        pod("p", cpu="2", memory="1Gi"),
    ),
    "a missing claim": Scenario([node("a"), node("b")], claiming("p", "data")),
    "an unbound claim": Scenario([node("a")], claiming("p", "data"), claims=[claim("data")]),
    "one place": Scenario([node("a"), node("b", cpu="1")], pod("p", cpu="2")),
}


class Real:
    """The API of a real control plane, as far as scenarios need it."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self._plane = control_plane

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        kind = "merge-patch+json" if method == "PATCH" else "json"
        request = urllib.request.Request(
            f"{self._plane.url}{path}",
            json.dumps(body).encode() if body is not None else None,
            {
                "Authorization": f"Bearer {self._plane.token}",
                "Content-Type": f"application/{kind}",
            },
            method=method,
        )
        with urllib.request.urlopen(request, context=self._plane.tls, timeout=_SECONDS) as answer:
            found: Json = json.loads(answer.read())
            return found

    def items(self, path: str) -> list[Json]:
        found: list[Json] = self.call("GET", path)["items"]
        return found

    def add_priority(self, name: str, value: int) -> None:
        body = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name == "never" else "PreemptLowerPriority",
        }
        try:
            self.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise

    def answer(self, scenario: Scenario) -> str:
        """Where the scheduler puts the pod, or what it says of it."""
        for obj in scenario.nodes:
            self.call("POST", "/api/v1/nodes", {**obj, "spec": {}})
        until(lambda: not any(found["spec"].get("taints") for found in self.items("/api/v1/nodes")))
        for name, pods in scenario.running.items():
            for obj in pods:
                self.call("POST", _PODS, _sent(obj, nodeName=name))
        for obj in scenario.nodes:
            if obj["spec"]:
                path = f"/api/v1/nodes/{obj['metadata']['name']}"
                self.call("PATCH", path, {"spec": obj["spec"]})
        for obj in scenario.claims:
            self.call("POST", _CLAIMS, obj)
        time.sleep(1)  # the scheduler's watches lag behind, and it reports no position
        self.call("POST", _PODS, _sent(scenario.wanting))
        path = f"{_PODS}/{scenario.wanting['metadata']['name']}"
        until(lambda: bool(_verdict(self.call("GET", path))))
        return _verdict(self.call("GET", path))

    def clear(self) -> None:
        """Delete all objects of a scenario."""
        for path in (_PODS, _CLAIMS, "/api/v1/nodes"):
            for found in self.items(path):
                name = found["metadata"]["name"]
                if path == _CLAIMS:
                    self.call("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}})
                self.call("DELETE", f"{path}/{name}?gracePeriodSeconds=0")
            until(lambda path=path: not self.items(path))  # type: ignore[misc]


def until(holds: Callable[[], bool]) -> None:
    """Wait for something to hold."""
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.1)


def _sent(obj: Json, **spec: Any) -> Json:
    """A pod without what only an API server may set."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "uid"}
    kept = {key: value for key, value in obj["spec"].items() if key != "priority"}
    (container,) = kept["containers"]
    requests = container["resources"]["requests"]
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    container = {**container, "resources": {"requests": requests, "limits": limits}}
    return {**obj, "metadata": metadata, "spec": {**kept, "containers": [container], **spec}}


def _verdict(obj: Json) -> str:
    if obj["spec"].get("nodeName"):
        return str(obj["spec"]["nodeName"])
    for condition in obj["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled":
            return str(condition.get("message", ""))
    return ""


def ours(scenario: Scenario) -> str:
    """What the sandbox's scheduler makes of a scenario."""

    def with_priority(obj: Json) -> Json:
        value = _PRIORITIES.get(obj["spec"].get("priorityClassName", ""), 0)
        return {**obj, "spec": {**obj["spec"], "priority": value}}

    bench = Bench(*scenario.nodes)
    for obj in scenario.claims:
        bench.shelf.claims["default", obj["metadata"]["name"]] = obj
    for name, pods in scenario.running.items():
        bench.run(*map(with_priority, pods), on=name)
    return bench.decide(with_priority(scenario.wanting))


@pytest.fixture(scope="module")
def real(control_plane: ControlPlane) -> Real:
    found = Real(control_plane)
    for name, value in _PRIORITIES.items():
        found.add_priority(name, value)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_both_schedulers_say_the_same(real: Real, name: str) -> None:
    scenario = SCENARIOS[name]
    try:
        expected = real.answer(scenario)
    finally:
        real.clear()

    assert expected == ours(scenario)
