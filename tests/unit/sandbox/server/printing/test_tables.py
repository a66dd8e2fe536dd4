"""Tables show what ``kubectl get`` shows; the cells below are those of a real API server."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from karpenter.admission.schemas.crds import builtin_crds
from karpenter_sandbox.kinds.served import builtin_resources
from karpenter_sandbox.server.printing.parts import human_duration
from karpenter_sandbox.server.printing.tables import IncludeError, table, wants_table

JsonObject = dict[str, Any]
NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
CREATED = "2026-06-01T11:59:00Z"
HOUR_AGO = "2026-06-01T11:00:00Z"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j:2"}],
        "nodeSelector": {"x": "y"},
    },
}
SELECTOR = {"matchLabels": {"a": "b"}}


def obj(**parts: Any) -> JsonObject:
    metadata = {"name": "x", "creationTimestamp": CREATED, **parts.pop("metadata", {})}
    return {"metadata": metadata, **parts}


def cells(kind: str, shown: JsonObject) -> list[Any]:
    rendered = table([shown], api_version="", kind=kind, now=NOW)
    row: list[Any] = rendered["rows"][0]["cells"]
    return row


def names(kind: str, *, wide: bool = True) -> list[str]:
    rendered = table([], api_version="", kind=kind, now=NOW)
    shown = [c for c in rendered["columnDefinitions"] if wide or not c["priority"]]
    return [column["name"].upper() for column in shown]


def pod(status: JsonObject | None = None, **parts: Any) -> JsonObject:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], **parts.pop("spec", {})}
    return obj(spec=spec, status={"phase": "Running", **(status or {})}, **parts)


def container(name: str, *, restarts: int = 0, last: str | None = None, **state: Any) -> JsonObject:
    status: JsonObject = {"name": name, "restartCount": restarts, **state}
    if last is not None:
        status["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": last}}
    return status


def running(name: str, **more: Any) -> JsonObject:
    return container(name, ready=True, state={"running": {}}, **more)


def waiting(name: str, reason: str, **more: Any) -> JsonObject:
    return container(name, state={"waiting": {"reason": reason}}, **more)


def ended(name: str, code: int = 0, **more: Any) -> JsonObject:
    return container(name, state={"terminated": {"exitCode": code, **more}})


def holds(condition: str) -> JsonObject:
    return {"conditions": [{"type": condition, "status": "True"}]}


INIT = {
    "initContainers": [
        {"name": "i1"},
        {"name": "i2", "restartPolicy": "Always"},
        {"name": "i3"},
    ]
}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(pod({"phase": "Pending"}), ["0/2", "Pending", "0"], id="pending"),
        pytest.param(
            pod(
                {
                    "phase": "Pending",
                    "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
                }
            ),
            ["0/2", "SchedulingGated", "0"],
            id="gated",
        ),
        pytest.param(
            pod({"containerStatuses": [running("a", restarts=2, last=HOUR_AGO), running("b")]}),
            ["2/2", "Running", "2 (60m ago)"],
            id="running, restarted",
        ),
        pytest.param(
            pod(
                {"containerStatuses": [waiting("a", "CrashLoopBackOff", restarts=3), running("b")]}
            ),
            ["1/2", "CrashLoopBackOff", "3"],
            id="crashing",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Succeeded",
                    "containerStatuses": [
                        ended("a", reason="Completed"),
                        ended("b", reason="Completed"),
                    ],
                }
            ),
            ["0/2", "Completed", "0"],
            id="completed",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Failed",
                    "containerStatuses": [ended("a", reason="Completed"), ended("b", 3)],
                }
            ),
            ["0/2", "ExitCode:3", "0"],
            id="one of two failed",
        ),
        pytest.param(
            pod({"phase": "Failed", "containerStatuses": [ended("a", 137, signal=9)]}),
            ["0/2", "Signal:9", "0"],
            id="killed",
        ),
        pytest.param(
            pod(
                {
                    **holds("Ready"),
                    "containerStatuses": [ended("a", reason="Completed"), running("b")],
                }
            ),
            ["1/2", "Running", "0"],
            id="half done but ready",
        ),
        pytest.param(
            pod({"containerStatuses": [ended("a", reason="Completed"), running("b")]}),
            ["1/2", "NotReady", "0"],
            id="half done and not ready",
        ),
        pytest.param(
            pod({"phase": "Failed", "reason": "Evicted"}), ["0/2", "Evicted", "0"], id="evicted"
        ),
        pytest.param(
            pod(
                {"phase": "Pending", "initContainerStatuses": [running("i1")]},
                spec=INIT,
            ),
            ["0/3", "Init:0/3", "0"],
            id="first init container runs",
        ),
        pytest.param(
            pod(
                {
                    "phase": "Pending",
                    "initContainerStatuses": [
                        ended("i1"),
                        running("i2", started=True, restarts=1, last=HOUR_AGO),
                        waiting("i3", "ErrImagePull"),
                    ],
                },
                spec=INIT,
            ),
            ["1/3", "Init:ErrImagePull", "1 (60m ago)"],
            id="third init container has no image",
        ),
        pytest.param(
            pod(
                {"phase": "Pending", "initContainerStatuses": [ended("i1", 2)]},
                spec=INIT,
            ),
            ["0/3", "Init:ExitCode:2", "0"],
            id="init container failed",
        ),
        pytest.param(
            pod(
                {
                    **holds("Initialized"),
                    "initContainerStatuses": [
                        ended("i1"),
                        running("i2", started=True, restarts=1, last=HOUR_AGO),
                        ended("i3"),
                    ],
                    "containerStatuses": [running("a"), running("b")],
                },
                spec=INIT,
            ),
            ["3/3", "Running", "1 (60m ago)"],
            id="a sidecar counts",
        ),
        pytest.param(
            pod(metadata={"deletionTimestamp": CREATED}),
            ["0/2", "Terminating", "0"],
            id="being deleted",
        ),
        pytest.param(
            pod({"phase": "Succeeded"}, metadata={"deletionTimestamp": CREATED}),
            ["0/2", "Succeeded", "0"],
            id="deleted after its end",
        ),
        pytest.param(
            pod({"reason": "NodeLost"}, metadata={"deletionTimestamp": CREATED}),
            ["0/2", "Unknown", "0"],
            id="its node is lost",
        ),
    ],
)
def test_pods(shown: JsonObject, expected: list[str]) -> None:
    row = cells("Pod", shown)

    assert ["x", *expected, "60s"] == row[:5]


def test_pods_in_wide_output() -> None:
    gates = [{"conditionType": "x/y"}, {"conditionType": "x/z"}]
    shown = pod(
        {**holds("x/y"), "podIPs": [{"ip": "10.0.0.9"}], "nominatedNodeName": "n2"},
        spec={"nodeName": "n1", "readinessGates": gates},
    )

    assert ["10.0.0.9", "n1", "n2", "1/2"] == cells("Pod", shown)[5:]
    assert ["<none>"] * 4 == cells("Pod", pod())[5:]
    assert ["NAME", "READY", "STATUS", "RESTARTS", "AGE"] == names("Pod", wide=False)
    assert ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"] == names("Pod")[5:]


def test_rows_of_finished_pods_say_so() -> None:
    rendered = table([pod({"phase": "Failed"}), pod()], api_version="v1", kind="Pod", now=NOW)

    failed, alive = rendered["rows"]
    assert [("Completed", "Failed")] == [(c["type"], c["reason"]) for c in failed["conditions"]]
    assert "conditions" not in alive


NODE_INFO = {
    "kubeletVersion": "v1.35",
    "osImage": "os",
    "kernelVersion": "5",
    "containerRuntimeVersion": "c://1",
}
METRICS = [
    {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}},
    {"type": "Pods", "pods": {"target": {"averageValue": "100"}}},
    {"type": "External", "external": {"target": {"value": "10"}}},
]


@pytest.mark.parametrize(
    ("kind", "shown", "expected"),
    [
        pytest.param(
            "Node",
            obj(
                metadata={"labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}},
                spec={"unschedulable": True},
                status={
                    **holds("Ready"),
                    "nodeInfo": NODE_INFO,
                    "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
                },
            ),
            "x Ready,SchedulingDisabled a,b 60s v1.35 1.2.3.4 <none> os 5 c://1",
            id="a cordoned node",
        ),
        pytest.param(
            "Node",
            obj(status={"conditions": [{"type": "Ready", "status": "Unknown"}]}),
            "x NotReady <none> 60s  <none> <none> <unknown> <unknown> <unknown>",
            id="a node that is silent",
        ),
        pytest.param(
            "Node",
            obj(),
            "x Unknown <none> 60s  <none> <none> <unknown> <unknown> <unknown>",
            id="a node that never spoke",
        ),
        pytest.param(
            "Deployment",
            obj(
                spec={
                    "replicas": 3,
                    "selector": {
                        "matchLabels": {"a": "b"},
                        "matchExpressions": [
                            {"key": "z", "operator": "In", "values": ["q", "p"]},
                            {"key": "y", "operator": "Exists"},
                            {"key": "x", "operator": "DoesNotExist"},
                            {"key": "w", "operator": "NotIn", "values": ["1"]},
                        ],
                    },
                    "template": TEMPLATE,
                },
                status={"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
            ),
            ["x", "1/3", 2, 1, "60s", "c,d", "i:1,j:2", "a=b,w notin (1),!x,y,z in (p,q)"],
            id="a deployment on its way",
        ),
        pytest.param(
            "ReplicaSet",
            obj(
                spec={"replicas": 2, "selector": SELECTOR, "template": TEMPLATE},
                status={"replicas": 2, "readyReplicas": 1},
            ),
            ["x", 2, 2, 1, "60s", "c,d", "i:1,j:2", "a=b"],
            id="a replica set",
        ),
        pytest.param(
            "ReplicationController",
            obj(spec={"replicas": 2, "template": TEMPLATE}),
            ["x", 2, 0, 0, "60s", "c,d", "i:1,j:2", "<none>"],
            id="a replication controller",
        ),
        pytest.param(
            "StatefulSet",
            obj(spec={"replicas": 2, "template": TEMPLATE}, status={"readyReplicas": 1}),
            ["x", "1/2", "60s", "c,d", "i:1,j:2"],
            id="a stateful set",
        ),
        pytest.param(
            "DaemonSet",
            obj(
                spec={"selector": SELECTOR, "template": TEMPLATE},
                status={
                    "desiredNumberScheduled": 5,
                    "currentNumberScheduled": 4,
                    "numberReady": 3,
                    "updatedNumberScheduled": 2,
                    "numberAvailable": 1,
                },
            ),
            ["x", 5, 4, 3, 2, 1, "x=y", "60s", "c,d", "i:1,j:2", "a=b"],
            id="a daemon set",
        ),
        pytest.param(
            "ControllerRevision",
            obj(
                metadata={
                    "ownerReferences": [
                        {
                            "apiVersion": "apps/v1",
                            "kind": "StatefulSet",
                            "name": "s",
                            "controller": True,
                        }
                    ]
                },
                revision=3,
            ),
            ["x", "statefulset.apps/s", 3, "60s"],
            id="a controller revision",
        ),
        pytest.param(
            "Job",
            obj(spec={"completions": 3}, status={"succeeded": 1, "startTime": HOUR_AGO}),
            ["x", "Running", "1/3", "60m", "60s", "", "", "<none>"],
            id="a job that runs",
        ),
        pytest.param(
            "Job",
            obj(
                spec={"parallelism": 3},
                status={
                    **holds("Complete"),
                    "startTime": HOUR_AGO,
                    "completionTime": "2026-06-01T11:00:30Z",
                },
            ),
            ["x", "Complete", "0/1 of 3", "30s", "60s", "", "", "<none>"],
            id="a job that is done",
        ),
        pytest.param(
            "Job",
            obj(metadata={"deletionTimestamp": CREATED}, status=holds("Suspended")),
            ["x", "Terminating", "0/1", "", "60s", "", "", "<none>"],
            id="a job that goes",
        ),
        pytest.param(
            "CronJob",
            obj(
                spec={"schedule": "* * * * *", "suspend": False, "timeZone": "Etc/UTC"},
                status={"active": [{}], "lastScheduleTime": HOUR_AGO},
            ),
            ["x", "* * * * *", "Etc/UTC", "False", 1, "60m", "60s", "", "", "<none>"],
            id="a cron job",
        ),
        pytest.param(
            "HorizontalPodAutoscaler",
            obj(
                spec={
                    "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                    "maxReplicas": 5,
                    "metrics": METRICS,
                },
                status={
                    "currentReplicas": 2,
                    "currentMetrics": [
                        {"type": "Resource", "resource": {"current": {"averageUtilization": 70}}}
                    ],
                },
            ),
            [
                "x",
                "Deployment/d",
                "cpu: 70%/50%, <unknown>/100 + 1 more...",
                "<unset>",
                5,
                2,
                "60s",
            ],
            id="an autoscaler with three metrics",
        ),
        pytest.param(
            "HorizontalPodAutoscaler",
            obj(
                spec={
                    "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                    "minReplicas": 2,
                    "maxReplicas": 5,
                    "targetCPUUtilizationPercentage": 80,
                },
                status={"currentReplicas": 1, "currentCPUUtilizationPercentage": 33},
            ),
            ["x", "Deployment/d", "cpu: 33%/80%", "2", 5, 1, "60s"],
            id="an autoscaler of the first version",
        ),
        pytest.param(
            "PodDisruptionBudget",
            obj(spec={"minAvailable": "50%"}, status={"disruptionsAllowed": 3}),
            ["x", "50%", "N/A", 3, "60s"],
            id="a budget",
        ),
        pytest.param(
            "Event",
            obj(
                involvedObject={"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"},
                type="Normal",
                reason="R",
                message=" hello \n",
                firstTimestamp=HOUR_AGO,
                lastTimestamp=CREATED,
                count=4,
                source={"component": "kubelet", "host": "n1"},
            ),
            [
                "60s",
                "Normal",
                "R",
                "pod/p",
                "spec.containers{a}",
                "kubelet, n1",
                "hello",
                "60m",
                4,
                "x",
            ],
            id="an event",
        ),
        pytest.param(
            "Event",
            obj(
                regarding={"kind": "Node", "name": "n"},
                type="Warning",
                reason="R",
                note="hi",
                eventTime=HOUR_AGO,
                reportingController="karpenter",
                series={"count": 7, "lastObservedTime": CREATED},
            ),
            ["60s", "Warning", "R", "node/n", "", "karpenter", "hi", "60m", 7, "x"],
            id="an event of the newer API",
        ),
        pytest.param(
            "PersistentVolume",
            obj(
                spec={
                    "capacity": {"storage": "10Gi"},
                    "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                    "claimRef": {"namespace": "ns", "name": "c"},
                    "storageClassName": "sc",
                    "persistentVolumeReclaimPolicy": "Retain",
                },
                status={"phase": "Bound"},
            ),
            "x 10Gi RWO,RWX Retain Bound ns/c sc <unset>  60s <unset>",
            id="a volume",
        ),
        pytest.param(
            "PersistentVolumeClaim",
            obj(spec={"accessModes": ["ReadWriteOnce"]}, status={"phase": "Pending"}),
            "x Pending     <unset> 60s <unset>",
            id="a claim that waits",
        ),
        pytest.param(
            "PersistentVolumeClaim",
            obj(
                spec={"volumeName": "pv", "storageClassName": "sc", "volumeMode": "Filesystem"},
                status={
                    "phase": "Bound",
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOncePod"],
                },
            ),
            "x Bound pv 1Gi RWOP sc <unset> 60s Filesystem",
            id="a claim that is bound",
        ),
        pytest.param(
            "StorageClass",
            obj(
                metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                provisioner="p",
                volumeBindingMode="WaitForFirstConsumer",
            ),
            ["x (default)", "p", "Delete", "WaitForFirstConsumer", False, "60s"],
            id="the default storage class",
        ),
        pytest.param(
            "VolumeAttachment",
            obj(
                spec={"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
                status={"attached": True},
            ),
            ["x", "a", "pv", "n", True, "60s"],
            id="an attachment",
        ),
        pytest.param("CSINode", obj(spec={"drivers": [{}]}), ["x", 1, "60s"], id="a CSI node"),
        pytest.param(
            "CSIDriver",
            obj(spec={"attachRequired": False, "tokenRequests": [{"audience": "a"}]}),
            ["x", False, False, False, "a", False, "<none>", "60s"],
            id="a CSI driver",
        ),
        pytest.param(
            "Service",
            obj(
                spec={
                    "type": "NodePort",
                    "clusterIPs": ["10.0.0.1"],
                    "externalIPs": ["9.9.9.9"],
                    "selector": {"b": "1", "a": "2"},
                    "ports": [
                        {"port": 80, "nodePort": 30080, "protocol": "TCP"},
                        {"port": 81, "protocol": "UDP"},
                    ],
                }
            ),
            "x NodePort 10.0.0.1 9.9.9.9 80:30080/TCP,81/UDP 60s a=2,b=1",
            id="a service on node ports",
        ),
        pytest.param(
            "Service",
            obj(
                spec={"type": "LoadBalancer"},
                status={"loadBalancer": {"ingress": [{"hostname": "h.io"}, {"ip": "1.1.1.1"}]}},
            ),
            "x LoadBalancer <none> 1.1.1.1,h.io <none> 60s <none>",
            id="a service behind a balancer",
        ),
        pytest.param(
            "Service",
            obj(spec={"type": "LoadBalancer"}),
            "x LoadBalancer <none> <pending> <none> 60s <none>",
            id="a service that waits for a balancer",
        ),
        pytest.param(
            "Service",
            obj(spec={"type": "ExternalName", "externalName": "foo.bar"}),
            "x ExternalName <none> foo.bar <none> 60s <none>",
            id="a service by another name",
        ),
        pytest.param(
            "Endpoints",
            obj(
                subsets=[
                    {
                        "addresses": [{"ip": "10.1.1.1"}, {"ip": "fd00::1"}],
                        "ports": [{"port": 80}, {"port": 81}],
                    }
                ]
            ),
            ["x", "10.1.1.1:80,[fd00::1]:80,10.1.1.1:81 + 1 more...", "60s"],
            id="endpoints",
        ),
        pytest.param("Endpoints", obj(), "x <none> 60s", id="no endpoints"),
        pytest.param(
            "EndpointSlice",
            obj(
                addressType="IPv4",
                endpoints=[{"addresses": [f"10.1.1.{i}"]} for i in range(4)],
                ports=[{"port": 80}, {"name": "b"}],
            ),
            ["x", "IPv4", "80,b", "10.1.1.0,10.1.1.1,10.1.1.2 + 1 more...", "60s"],
            id="an endpoint slice",
        ),
        pytest.param(
            "Ingress",
            obj(spec={"rules": [{"host": h} for h in "abcd"], "tls": [{}]}),
            ["x", "<none>", "a,b,c + 1 more...", "", "80, 443", "60s"],
            id="an ingress",
        ),
        pytest.param(
            "IngressClass",
            obj(
                spec={"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}}
            ),
            "x c K.g/n 60s",
            id="an ingress class",
        ),
        pytest.param(
            "NetworkPolicy", obj(spec={"podSelector": SELECTOR}), "x a=b 60s", id="a policy"
        ),
        pytest.param(
            "Namespace", obj(status={"phase": "Active"}), "x Active 60s", id="a namespace"
        ),
        pytest.param(
            "Lease", obj(spec={"holderIdentity": "me"}), "x me 60s", id="a lease with a holder"
        ),
        pytest.param(
            "ConfigMap", obj(data={"a": "b"}, binaryData={"c": ""}), ["x", 2, "60s"], id="settings"
        ),
        pytest.param(
            "Secret", obj(type="Opaque", data={"a": "b"}), ["x", "Opaque", 1, "60s"], id="a secret"
        ),
        pytest.param("ServiceAccount", obj(), "x 60s", id="an identity"),
        pytest.param(
            "ResourceQuota",
            obj(
                status={
                    "hard": {"pods": "4", "cpu": "2", "limits.cpu": "3"},
                    "used": {"cpu": "1"},
                }
            ),
            ["x", "cpu: 1/2, pods: 0/4", "limits.cpu: 0/3", "60s"],
            id="a quota",
        ),
        pytest.param(
            "PriorityClass",
            obj(value=100, preemptionPolicy="Never"),
            ["x", 100, False, "60s", "Never"],
            id="a priority",
        ),
        pytest.param(
            "RoleBinding",
            obj(
                roleRef={"kind": "Role", "name": "r"},
                subjects=[
                    {"kind": "User", "name": "u"},
                    {"kind": "Group", "name": "g"},
                    {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
                ],
            ),
            "x Role/r 60s u g n/s",
            id="a role binding",
        ),
        pytest.param("Role", obj(), ["x", CREATED], id="a kind without columns of its own"),
        pytest.param(
            "ResourceClaim",
            obj(status={"allocation": {}, "reservedFor": [{}]}),
            "x allocated,reserved 60s",
            id="a device claim in use",
        ),
        pytest.param("ResourceClaim", obj(), "x pending 60s", id="a device claim that waits"),
        pytest.param(
            "ResourceSlice",
            obj(spec={"nodeName": "n", "driver": "d", "pool": {"name": "p"}}),
            "x n d p 60s",
            id="devices of a node",
        ),
        pytest.param(
            "IPAddress",
            obj(spec={"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}),
            "x services/n/s",
            id="an address",
        ),
        pytest.param(
            "CertificateSigningRequest",
            obj(spec={"signerName": "s", "username": "u"}, status=holds("Approved")),
            "x 60s s u <none> Approved",
            id="a certificate request",
        ),
        pytest.param(
            "FlowSchema",
            obj(spec={"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5}),
            ["x", "p", 5, "<none>", "60s", "?"],
            id="a flow schema",
        ),
        pytest.param("APIService", obj(), "x Local Unknown 60s", id="an API service"),
    ],
)
def test_cells(kind: str, shown: JsonObject, expected: str | list[Any]) -> None:
    row = cells(kind, shown)

    assert (expected.split(" ") if isinstance(expected, str) else expected) == row


@pytest.mark.parametrize("kind", sorted({r.kind for r in builtin_resources() if "list" in r.verbs}))
def test_every_row_fits_its_columns(kind: str) -> None:
    rendered = table([obj()], api_version="", kind=kind, now=NOW)

    assert len(rendered["columnDefinitions"]) == len(rendered["rows"][0]["cells"])


def columns_of(crd: str, version: str = "v1") -> list[JsonObject]:
    versions = builtin_crds()[crd]["spec"]["versions"]
    found: list[JsonObject] = next(
        v.get("additionalPrinterColumns", []) for v in versions if v["name"] == version
    )
    return found


@pytest.mark.parametrize(
    ("crd", "version", "narrow", "wide"),
    [
        pytest.param(
            "nodepools.karpenter.sh",
            "v1",
            "NAME NODECLASS NODES READY AGE",
            "WEIGHT CPU MEMORY",
            id="nodepools",
        ),
        pytest.param(
            "nodeclaims.karpenter.sh",
            "v1",
            "NAME TYPE CAPACITY ZONE NODE READY AGE",
            "IMAGEID ID NODEPOOL NODECLASS DRIFTED",
            id="nodeclaims",
        ),
        pytest.param(
            "ec2nodeclasses.karpenter.k8s.aws",
            "v1",
            "NAME READY AGE",
            "ROLE",
            id="ec2nodeclasses",
        ),
        pytest.param(
            "kwoknodeclasses.karpenter.kwok.sh", "v1alpha1", "NAME READY AGE", "", id="kwok"
        ),
    ],
)
def test_columns_of_custom_resources(crd: str, version: str, narrow: str, wide: str) -> None:
    rendered = table(
        [], api_version="", kind="X", now=NOW, printer_columns=columns_of(crd, version)
    )

    shown = rendered["columnDefinitions"]
    assert narrow.split() == [c["name"].upper() for c in shown if not c["priority"]]
    assert wide.split() == [c["name"].upper() for c in shown if c["priority"]]


def test_cells_of_custom_resources() -> None:
    pool = obj(
        spec={"weight": 10, "template": {"spec": {"nodeClassRef": {"name": "default"}}}},
        status={**holds("Ready"), "nodes": 2, "resources": {"cpu": "8"}},
    )

    rendered = table(
        [pool],
        api_version="karpenter.sh/v1",
        kind="NodePool",
        now=NOW,
        printer_columns=columns_of("nodepools.karpenter.sh"),
    )

    by_name = dict(
        zip(
            [column["name"].upper() for column in rendered["columnDefinitions"]],
            rendered["rows"][0]["cells"],
            strict=True,
        )
    )
    assert {
        "NAME": "x",
        "NODECLASS": "default",
        "NODES": 2,
        "READY": "True",
        "AGE": "60s",
        "WEIGHT": 10,
        "CPU": "8",
        "MEMORY": None,
    } == by_name


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        pytest.param("string", "a", "a", id="text"),
        pytest.param("string", {"a": [1]}, '{"a":[1]}', id="an object as text"),
        pytest.param("string", True, "true", id="a boolean as text"),
        pytest.param("string", None, "", id="null as text"),
        pytest.param("integer", 3, 3, id="a number"),
        pytest.param("integer", 3.7, 3, id="a fraction as a whole number"),
        pytest.param("integer", "3", None, id="text is no number"),
        pytest.param("integer", True, None, id="a boolean is no number"),
        pytest.param("number", 3, 3.0, id="a whole number as a fraction"),
        pytest.param("boolean", False, False, id="a boolean"),
        pytest.param("boolean", "no", None, id="text is no boolean"),
        pytest.param("date", HOUR_AGO, "60m", id="a time"),
        pytest.param("date", "soon", "<invalid>", id="text is no time"),
        pytest.param("date", 5, None, id="a number is no time"),
    ],
)
def test_types_of_custom_columns(kind: str, value: object, cell: object) -> None:
    column = {"name": "C", "type": kind, "jsonPath": ".v"}

    rendered = table([obj(v=value)], api_version="", kind="X", now=NOW, printer_columns=[column])

    assert [["x", cell]] == [row["cells"] for row in rendered["rows"]]


def test_custom_resources_without_columns_show_their_age() -> None:
    rendered = table([obj()], api_version="", kind="X", now=NOW, printer_columns=[])

    assert ["Name", "Age"] == [column["name"] for column in rendered["columnDefinitions"]]
    assert ["x", "60s"] == rendered["rows"][0]["cells"]


def test_a_broken_path_leaves_its_column_empty() -> None:
    column = {"name": "C", "type": "string", "jsonPath": ".a[["}

    rendered = table([obj()], api_version="", kind="X", now=NOW, printer_columns=[column])

    assert ["x", None] == rendered["rows"][0]["cells"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        pytest.param("None", None, id="nothing"),
        pytest.param("Object", obj(data={"a": "b"}), id="the object"),
        pytest.param(
            "Metadata",
            {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj()["metadata"],
            },
            id="its metadata",
        ),
    ],
)
def test_what_goes_along_with_a_row(include: str, expected: object) -> None:
    rendered = table(
        [obj(data={"a": "b"})],
        api_version="v1",
        kind="ConfigMap",
        now=NOW,
        include_object=include,
    )

    assert expected == rendered["rows"][0]["object"]


def test_nothing_else_can_be_included() -> None:
    with pytest.raises(IncludeError, match='includeObject: Invalid value: "All"'):
        table([], api_version="v1", kind="Pod", now=NOW, include_object="All")


def test_a_list_keeps_its_metadata_and_an_object_lends_its_version() -> None:
    metadata = {"resourceVersion": "7", "continue": "c", "remainingItemCount": 3}
    shown = obj(metadata={"resourceVersion": "5"})

    of_list = table([shown], api_version="v1", kind="Pod", now=NOW, list_metadata=metadata)
    of_object = table([shown], api_version="v1", kind="Pod", now=NOW)

    assert metadata == of_list["metadata"]
    assert {"resourceVersion": "5"} == of_object["metadata"]


def test_watches_tell_their_columns_once() -> None:
    rendered = table([obj()], api_version="v1", kind="Pod", now=NOW, headers=False)

    assert rendered["columnDefinitions"] is None


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(TABLE, True, id="a table"),
        pytest.param(f"{TABLE},application/json", True, id="a table first"),
        pytest.param(f"application/json,{TABLE}", False, id="plain first"),
        pytest.param("application/json;as=Table;v=v2;g=meta.k8s.io", False, id="no such version"),
        pytest.param(
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", False, id="else"
        ),
        pytest.param("", False, id="nothing asked"),
    ],
)
def test_asking_for_a_table(accept: str, expected: bool) -> None:
    assert expected == wants_table(accept)


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        pytest.param(timedelta(seconds=-5), "<invalid>", id="in the future"),
        pytest.param(timedelta(seconds=-1), "0s", id="almost now"),
        pytest.param(timedelta(seconds=119), "119s", id="seconds"),
        pytest.param(timedelta(seconds=120), "2m", id="two minutes"),
        pytest.param(timedelta(minutes=9, seconds=59), "9m59s", id="minutes and seconds"),
        pytest.param(timedelta(minutes=179, seconds=59), "179m", id="minutes"),
        pytest.param(timedelta(hours=3), "3h", id="three hours"),
        pytest.param(timedelta(hours=7, minutes=5), "7h5m", id="hours and minutes"),
        pytest.param(timedelta(hours=47), "47h", id="hours"),
        pytest.param(timedelta(days=2), "2d", id="two days"),
        pytest.param(timedelta(days=7, hours=23), "7d23h", id="days and hours"),
        pytest.param(timedelta(days=729), "729d", id="days"),
        pytest.param(timedelta(days=731), "2y1d", id="years and days"),
        pytest.param(timedelta(days=365 * 9), "9y", id="years"),
    ],
)
def test_durations_as_people_read_them(duration: timedelta, expected: str) -> None:
    assert expected == human_duration(duration)
