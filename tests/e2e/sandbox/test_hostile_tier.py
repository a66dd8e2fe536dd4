"""Objects made to do harm, on a real control plane: whatever it takes, ordinary pods are served.

A seeded generator replaces values in objects of every kind that the controllers follow. Those that
the API server accepts stay while ordinary pods arrive, and while the controller restarts. How long
ordinary pods wait, with and without them, is printed. Asserted is that they are served by one
process within one term, and that the log names every object that was set aside, once.
"""

import json
import random
import statistics
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from control_plane.cluster import RefusedError
from helpers.hostile_objects import Json, hostile
from helpers.real_cluster import Controller, RealCluster, controller, real_cluster, until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

SEED: Final = 13
TRIED: Final = 800
PATIENCE: Final = 240.0  # for what takes a few seconds, on a busy machine
WHEN: Final = "2026-03-01T10:00:00Z"
GATES: Final = (
    "NodeOverlay=true,NodeRepair=true,StaticCapacity=true,CapacityBuffer=true,"
    "PodDeletionCostManagement=true"
)
# Of everything that a gate or a setting adds, so that it is followed
ROLES: Final = (
    "karpenter-capacity-buffer",
    "karpenter-devices",
    "karpenter-node-overlay",
    "karpenter-node-repair-kwok",
    "karpenter-pod-deletion-cost",
)
DEPTH: Final = 3000

_CLASS: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
_CONDITION: Final = {
    "type": "Ready",
    "status": "False",
    "reason": "Odd",
    "message": "odd",
    "lastTransitionTime": WHEN,
}


def pod_spec(**more: Any) -> Json:
    container = {
        "name": "app",
        "image": "pause",
        "ports": [{"containerPort": 80}],
        "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}, "limits": {"memory": "1Gi"}},
    }
    match = {"matchLabels": {"app": "hostile"}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": match,
    }
    wish = {"weight": 5, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": match}}
    return {
        "containers": [container],
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"hostile": "yes"},
        "tolerations": [
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
        ],
        "topologySpreadConstraints": [spread],
        "affinity": {
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}
        },
        **more,
    }


def template() -> Json:
    labels = {"app": "hostile"}
    return {"metadata": {"labels": labels, "creationTimestamp": WHEN}, "spec": pod_spec()}


def workload(kind: str, **spec: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "labels": {"a": "b"},
            "annotations": {"karpenter.sh/do-not-disrupt": "1h"},
            "namespace": "default",
        },
        "spec": {
            "selector": {"matchLabels": {"app": "hostile"}},
            "template": template(),
            "minReadySeconds": 5,
            **spec,
        },
    }


def described(api_version: str, kind: str, *, namespaced: bool = False, **parts: Any) -> Json:
    place = {"namespace": "default"} if namespaced else {}
    metadata = {"labels": {"a": "b"}, "annotations": {"c": "d"}, **place}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def samples() -> list[Json]:
    """Sound objects of what the controllers follow."""
    requirement = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    claim = {"nodeClassRef": _CLASS, "requirements": [requirement], "expireAfter": "720h"}
    heartbeat = {**_CONDITION, "lastHeartbeatTime": WHEN}
    ill = {**heartbeat, "type": "KWOKUnhealthy", "status": "True"}
    gib = {"storage": "1Gi"}
    started = {"phase": "Running", "startTime": WHEN, "conditions": [_CONDITION]}
    return [
        described("v1", "Pod", namespaced=True, spec=pod_spec()),
        described("v1", "Pod", namespaced=True, spec=pod_spec(nodeName="nowhere"), status=started),
        described("v1", "PodTemplate", namespaced=True, template=template()),
        workload("Deployment", replicas=0, progressDeadlineSeconds=600, revisionHistoryLimit=1),
        workload("ReplicaSet", replicas=0),
        workload("StatefulSet", replicas=0, serviceName="x"),
        workload("DaemonSet"),
        described(
            "v1",
            "Node",
            spec={
                "providerID": "kwok://x",
                "taints": [{"key": "t", "effect": "NoSchedule", "timeAdded": WHEN}],
            },
            status={
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                "conditions": [heartbeat, ill],
            },
        ),
        described(
            "v1",
            "Service",
            namespaced=True,
            spec={"selector": {"app": "hostile"}, "ports": [{"port": 80, "targetPort": 80}]},
        ),
        described(
            "policy/v1",
            "PodDisruptionBudget",
            namespaced=True,
            spec={"maxUnavailable": 1, "selector": {"matchLabels": {"app": "hostile"}}},
            status={
                "disruptionsAllowed": 1,
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
                "disruptedPods": {"x": WHEN},
                "conditions": [_CONDITION],
            },
        ),
        described(
            "v1",
            "PersistentVolumeClaim",
            namespaced=True,
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": gib}},
        ),
        described(
            "v1",
            "PersistentVolume",
            spec={
                "accessModes": ["ReadWriteOnce"],
                "capacity": gib,
                "csi": {"driver": "x.example", "volumeHandle": "v"},
            },
        ),
        described(
            "storage.k8s.io/v1", "StorageClass", provisioner="x.example", parameters={"a": "b"}
        ),
        described(
            "storage.k8s.io/v1",
            "CSINode",
            spec={"drivers": [{"name": "x.example", "nodeID": "n", "allocatable": {"count": 5}}]},
        ),
        described(
            "karpenter.sh/v1",
            "NodePool",
            spec={
                "template": {
                    "metadata": {"labels": {"hostile": "pool"}},
                    "spec": {**claim, "taints": [{"key": "hostile", "effect": "NoSchedule"}]},
                },
                "disruption": {
                    "consolidateAfter": "30s",
                    "budgets": [{"nodes": "10%", "schedule": "0 0 * * *", "duration": "8h"}],
                },
                "limits": {"cpu": "100"},
                "weight": 1,
            },
        ),
        described(
            "karpenter.sh/v1",
            "NodeClaim",
            # Of another provider: the controllers would wait for the launch of one of their own
            spec={
                **claim,
                "nodeClassRef": {**_CLASS, "group": "other.example", "kind": "Other"},
                "terminationGracePeriod": "30m",
                "resources": {"requests": {"cpu": "1"}},
            },
            status={"lastPodEventTime": WHEN, "conditions": [_CONDITION]},
        ),
        described(
            "karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", spec={"nodeRegistrationDelay": "1s"}
        ),
        described(
            "karpenter.sh/v1alpha1",
            "NodeOverlay",
            spec={"requirements": [requirement], "priceAdjustment": "+0.1%", "weight": 1},
        ),
        described(
            "resource.k8s.io/v1",
            "ResourceSlice",
            spec={
                "driver": "x.example",
                "nodeName": "nowhere",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "d", "capacity": {"memory": {"value": "1Gi"}}}],
            },
        ),
    ]


def known() -> Iterator[Json]:
    """What did harm once."""
    for grace in (100_000_000_000, 2**63 - 1):
        spec = pod_spec(nodeName="nowhere", terminationGracePeriodSeconds=grace)
        yield described("v1", "Pod", namespaced=True, spec=spec)
    for moment in ("0000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00"):
        dated = workload("Deployment", replicas=0)
        dated["spec"]["template"]["metadata"]["creationTimestamp"] = moment
        yield dated
        beats = {**_CONDITION, "lastHeartbeatTime": moment, "lastTransitionTime": moment}
        ill = {**beats, "type": "KWOKUnhealthy", "status": "True"}
        yield described("v1", "Node", status={"conditions": [beats, ill]})


def nested() -> tuple[str, bytes]:
    """A Service with managedFields beyond Python's recursion limit, and the path to create it."""
    made = described("v1", "Service", namespaced=True, spec={"ports": [{"port": 80}]})
    made["metadata"]["name"] = "nested"
    made["metadata"]["managedFields"] = [
        {
            "manager": "somebody",
            "operation": "Update",
            "apiVersion": "v1",
            "time": WHEN,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:deep": {}},
        }
    ]
    depths = '{"f:x":' * DEPTH + "{}" + "}" * DEPTH
    return path_of(made), json.dumps(made).replace('{"f:deep": {}}', depths).encode()


def path_of(obj: Json) -> str:
    """Where objects like this one are made."""
    version = obj["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    kind = obj["kind"].lower()
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    namespace = obj["metadata"].get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


class Tier:
    """A cluster into which harm is put."""

    def __init__(self, cluster: RealCluster) -> None:
        self.cluster = cluster
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def is_sound(self, obj: Json) -> bool:
        """Whether the server would take an object as it is."""
        named = {**obj, "metadata": {**obj["metadata"], "name": "sound"}}
        try:
            self.cluster.plane.send("POST", f"{path_of(obj)}?dryRun=All", named)
        except RefusedError as error:
            print(error)
            return False
        return True

    def put(self, obj: Json) -> bool:
        """Create an object, and say whether the server took it; its status too, if it has one."""
        send, path = self.cluster.plane.send, path_of(obj)
        try:
            made = send("POST", path, obj)
        except (RefusedError, urllib.error.URLError):  # an oversized body is cut off
            self.refused[obj["kind"]] += 1
            return False
        self.accepted[obj["kind"]] += 1
        one = f"{path}/{made['metadata']['name']}"
        if "status" in obj:
            try:
                send("PUT", f"{one}/status", {**made, "status": obj["status"]})
            except (RefusedError, urllib.error.URLError):
                self.refused[f"{obj['kind']}/status"] += 1
            else:
                self.accepted[f"{obj['kind']}/status"] += 1
        if obj["spec"].get("nodeName") == "nowhere" if "spec" in obj else False:
            send("DELETE", one)  # terminating for its whole grace period: no kubelet ends it
        return True

    def put_raw(self, path: str, body: bytes) -> None:
        """Create an object from raw JSON."""
        plane = self.cluster.plane
        headers = {"Authorization": f"Bearer {plane.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{plane.url}{path}", data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30, context=plane.tls):
                self.accepted["nested"] += 1
        except urllib.error.HTTPError as error:
            with error:
                self.refused["nested"] += 1

    def serve(self, process: Controller, name: str) -> tuple[float, float]:
        """Create ordinary pods; return the seconds until they run and the controller's CPU seconds.

        Wall time depends on the load of the machine; CPU time is the more reliable figure.
        """
        container = {
            "name": "app",
            "image": "pause",
            "resources": {"requests": {"cpu": "1", "memory": "100Mi"}},
        }
        labels = {"ordinary": name}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        body = {
            "metadata": {"name": name},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        pods = f"/api/v1/namespaces/default/pods?labelSelector=ordinary%3D{name}"

        def is_served() -> bool:
            found: list[Json] = self.cluster.plane.send("GET", pods)["items"]
            return 3 == len([pod for pod in found if pod["status"].get("phase") == "Running"])

        began, thought = time.monotonic(), processor_seconds(process)
        self.cluster.plane.send("POST", "/apis/apps/v1/namespaces/default/deployments", body)
        until(is_served, f"the pods of {name} run", seconds=PATIENCE)
        return time.monotonic() - began, processor_seconds(process) - thought


def processor_seconds(process: Controller) -> float:
    with urllib.request.urlopen(process.metrics_url, timeout=30) as answer:
        text = answer.read().decode()
    (line,) = [each for each in text.splitlines() if each.startswith("process_cpu_seconds_total ")]
    return float(line.split()[1])


def is_well(process: Controller) -> None:
    """Assert that one process has led all the time, and that no guard caught an error."""
    assert process.process.poll() is None, process.text[-3000:]
    assert 1 == len(process.lines("became leader"))
    assert [] == process.lines("controller failed")
    assert [] == process.lines("object could not be processed")
    panicked = [line for line in process.lines("reconcile failed") if "stacktrace" in line]
    assert [] == panicked
    named = [
        (line["kind"], line["namespace"], line["name"])
        for line in process.lines("object set aside")
    ]
    assert len(named) == len(set(named))


def typical(served: list[tuple[float, float]]) -> tuple[float, float]:
    """The medians of the waiting times and of the CPU times."""
    waited, thought = zip(*served, strict=True)
    return statistics.median(waited), statistics.median(thought)


def ratio(served: list[tuple[float, float]], usual: list[tuple[float, float]]) -> str:
    """How much longer than usual things took, in words."""
    (waited, thought), (before, usually) = typical(served), typical(usual)
    return f"{waited / before:.2f} of the time, {thought / usually:.2f} of the processor"


def test_whatever_the_server_takes_ordinary_pods_are_served(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Any,
    capsys: Any,
) -> None:
    # The server sends a warning header for each odd value
    monkeypatch.setattr("http.client._MAXHEADERS", 10_000)
    rng = random.Random(SEED)
    with real_cluster(tmp_path_factory.mktemp("hostile"), audits=False) as cluster:
        tier = Tier(cluster)
        settings = {
            "FEATURE_GATES": GATES,
            "IGNORE_DRA_REQUESTS": "false",
        }
        account = cluster.account(roles=ROLES)
        default = described("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", spec={})
        pool = described(
            "karpenter.sh/v1",
            "NodePool",
            spec={
                "template": {
                    "spec": {"nodeClassRef": _CLASS, "requirements": [], "expireAfter": "Never"}
                }
            },
        )
        for obj in (default, pool):
            obj["metadata"]["name"] = "default"
            assert tier.put(obj)
        with controller(cluster, account, "first", **settings) as process:
            process.until_leading()
            tier.serve(process, "warm")
            before = [tier.serve(process, f"before-{number}") for number in range(5)]
            for number, obj in enumerate(known()):
                obj["metadata"]["name"] = f"known-{number}"
                tier.put(obj)
            tier.put_raw(*nested())
            sound = samples()
            assert [] == [obj["kind"] for obj in sound if not tier.is_sound(obj)]
            for number in range(TRIED):
                tier.put(hostile(rng, rng.choice(sound), name=f"hostile-{number}"))
            after = [tier.serve(process, f"after-{number}") for number in range(5)]
            is_well(process)
            assert 0 == process.stop()
        with controller(cluster, account, "second", **settings) as process:
            process.until_leading()
            again = [tier.serve(process, f"again-{number}") for number in range(5)]
            is_well(process)
            aside = len(process.lines("object set aside"))
            assert 0 == process.stop()
    taken, turned_away = sum(tier.accepted.values()), sum(tier.refused.values())
    figures = {
        "accepted": taken,
        "refused": turned_away,
        "set aside": aside,
        "usual seconds": round(typical(before)[0], 2),
        "ratio with harm": ratio(after, before),
        "ratio after a restart": ratio(again, before),
    }
    record_property("hostile", json.dumps(figures))
    with capsys.disabled():
        print(f"\nhostile tier: {json.dumps(figures)} {dict(tier.accepted)}")
    assert taken > TRIED / 8
