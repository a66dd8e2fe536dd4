"""Mistyped fields of Kubernetes' own kinds are refused as an API server would; good ones pass."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.cluster_texts import pool, text_of
from helpers.commands import Ran, run
from helpers.seeds import SEEDS, each_entry
from karpenter.inquiry.core_kinds import CoreKinds

EXAMPLES = Path(__file__).parents[3] / "examples"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web
    image: web
"""
SET = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: web}]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan_of(text: str, *args: str) -> Ran:
    Path("in.yaml").write_text(text, "utf-8")
    return run("plan", "in.yaml", *args)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            POD + "  nodeSelecter: {disk: ssd}\n",
            'in.yaml:8: Pod/web unknown field "spec.nodeSelecter"; did you mean "nodeSelector"?',
            id="a selector",
        ),
        pytest.param(
            POD + "    resources:\n      request: {cpu: 1}\n",
            'in.yaml:9: Pod/web unknown field "spec.containers[0].resources.request";'
            ' did you mean "requests"?',
            id="requests",
        ),
        pytest.param(
            POD + "  tolerations:\n  - key: a\n    operator: exist\n",
            'in.yaml:10: Pod/web spec.tolerations[0].operator: Unsupported value: "exist":'
            ' supported values: "Equal", "Exists"',
            id="an operator",
        ),
        pytest.param(
            SET + "      topologySpreadConstraints:\n"
            "      - maxSkew: 1\n"
            "        topologyKey: zone\n"
            "        whenUnsatisfiable: Never\n"
            "        labelSelector: {}\n",
            "in.yaml:13: Deployment/web spec.template.spec.topologySpreadConstraints[0]"
            '.whenUnsatisfiable: Unsupported value: "Never"',
            id="a spread",
        ),
        pytest.param(
            "apiVersion: policy/v1\n"
            "kind: PodDisruptionBudget\n"
            "metadata: {name: web}\n"
            "spec:\n"
            "  maxUnavailble: 1\n",
            'in.yaml:5: PodDisruptionBudget/web unknown field "spec.maxUnavailble";'
            ' did you mean "maxUnavailable"?',
            id="a budget",
        ),
        pytest.param(
            SET.replace("  selector: {matchLabels: {app: web}}\n", ""),
            "in.yaml:4: Deployment/web spec.selector: Required value",
            id="no selector",
        ),
        pytest.param(
            SET.replace("spec:\n", "spec:\n  Replicas: 3\n", 1),
            'in.yaml:5: Deployment/web unknown field "spec.Replicas"; did you mean "replicas"?',
            id="case",
        ),
        pytest.param(
            POD + "  setHostnameAsFQDN: ja\n",
            'in.yaml:8: Pod/web spec.setHostnameAsFQDN: Invalid value: "ja": must be true or false',
            id="a type",
        ),
        pytest.param(
            "apiVersion: batch/v1\n"
            "kind: CronJob\n"
            "metadata: {name: report}\n"
            "spec:\n"
            '  schedul: "0 0 * * *"\n'
            "  jobTemplate: {spec: {template: {spec: {restartPolicy: Never,"
            " containers: [{name: c, image: c}]}}}}\n",
            'in.yaml:5: CronJob/report unknown field "spec.schedul"; did you mean "schedule"?',
            id="a kind without effect",
        ),
    ],
)
def test_a_mistyped_field_is_named_with_its_place_and_nothing_is_planned(
    text: str, said: str
) -> None:
    ran = plan_of(text)

    assert (2, "") == (ran.code, ran.out)
    assert f"error: {said}" in ran.err


def test_everything_wrong_is_listed_at_once() -> None:
    ran = plan_of(POD + "  nodeSelecter: {}\n  tolerations: [{key: a, operator: exist}]\n")

    assert "nodeSelecter" in ran.err
    assert "tolerations[0].operator" in ran.err
    assert "nothing is planned: 2 problems above" in ran.err


def test_alike_objects_are_all_named() -> None:
    ran = plan_of("---\n".join(POD.replace("web}", f"web-{n}}}") + "  x: 1\n" for n in range(3)))

    assert 3 == ran.err.count('unknown field "spec.x"')


def test_a_newer_field_of_an_object_that_a_server_has_stored_is_pointed_out_once() -> None:
    stored = POD.replace("name: web}", "name: web-N, uid: uN}") + "  newInThisVersion: {a: 1}\n"
    ran = plan_of(
        "---\n".join(stored.replace("-N", f"-{n}").replace("uN", f"u{n}") for n in range(3))
    )

    assert 0 == ran.code
    assert 1 == ran.err.count("warning: ")
    assert 'warning: in.yaml:8: Pod/web-0 spec.newInThisVersion: unknown field "spec' in ran.err


def test_a_stored_pod_with_a_toleration_that_cannot_be_is_refused() -> None:
    stored = POD.replace("name: web}", "name: web, uid: u}")
    ran = plan_of(stored + "  tolerations: [{key: a, operator: exist}]\n")

    assert 2 == ran.code
    assert 'tolerations[0].operator: Unsupported value: "exist"' in ran.err


def test_kinds_without_effect_are_counted_in_one_line() -> None:
    cron = (
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: report-%s}\n"
        'spec: {schedule: "0 0 * * *", jobTemplate: {spec: {template: {spec: '
        "{restartPolicy: Never, containers: [{name: c, image: c}]}}}}}\n"
    )
    ran = plan_of("---\n".join(cron % n for n in range(3)))

    assert 0 == ran.code
    assert ran.err == (
        "warning: in.yaml:2: CronJob/report-0 is ignored: its Jobs are made when their time"
        " comes, and no plan knows which (and 2 more of it)\n"
    )


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ("NodeOverlai=true", "no feature gate is called NodeOverlai; did you mean NodeOverlay?"),
        ("nodeoverlay=true", "no feature gate is called nodeoverlay; did you mean NodeOverlay?"),
        ("Zebra=true", "no feature gate is called Zebra; there are "),
    ],
)
def test_a_feature_gate_that_does_not_exist_is_refused(gates: str, said: str) -> None:
    ran = plan_of(text_of(pool()), "--set", f"FEATURE_GATES={gates}")

    assert (2, "") == (ran.code, ran.out)
    assert f"--set: FEATURE_GATES: {said}" in ran.err


def judged(obj: dict[str, Any]) -> list[str]:
    said = CoreKinds().findings(obj)
    return [*map(str, said.errors), *map(str, said.warnings)]


@pytest.mark.parametrize("entry", each_entry())
def test_manifests_that_a_server_takes_pass(entry: dict[str, Any]) -> None:
    name = entry["file"]
    if str(entry["claimed"]) != "accept" or name.startswith("bad-"):
        return
    for obj in yaml.safe_load_all((SEEDS / name).read_text("utf-8")):
        if isinstance(obj, dict) and "kind" in obj:
            assert [] == judged(obj)


@pytest.mark.parametrize(
    "file",
    [pytest.param(f, id=f.relative_to(EXAMPLES).as_posix()) for f in EXAMPLES.rglob("*.yaml")],
)
def test_examples_of_the_project_pass(file: Path) -> None:
    for obj in yaml.safe_load_all(file.read_text("utf-8")):
        if isinstance(obj, dict) and "kind" in obj:
            assert [] == judged(obj)


def test_what_clusters_dump_passes() -> None:
    dumped = yaml.safe_load(DUMP)

    assert [] == [said for obj in dumped for said in judged(obj)]


DUMP = """
- apiVersion: v1
  kind: Pod
  metadata:
    annotations: {kubernetes.io/config.seen: "2026-01-01T00:00:00Z"}
    creationTimestamp: "2026-01-01T00:00:00Z"
    generateName: web-7d4b9c-
    generation: 1
    labels: {app: web, pod-template-hash: 7d4b9c}
    managedFields:
    - {apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}, manager: kubelet,
       operation: Update, subresource: status, time: "2026-01-01T00:00:00Z"}
    name: web-7d4b9c-abcde
    namespace: default
    ownerReferences:
    - {apiVersion: apps/v1, blockOwnerDeletion: true, controller: true, kind: ReplicaSet,
       name: web-7d4b9c, uid: 4e1a}
    resourceVersion: "123"
    selfLink: /api/v1/pods/web
    uid: 9f2b
  spec:
    affinity:
      podAntiAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - podAffinityTerm:
            labelSelector: {matchLabels: {app: web}}
            matchLabelKeys: [pod-template-hash]
            mismatchLabelKeys: []
            namespaceSelector: {}
            topologyKey: kubernetes.io/hostname
          weight: 100
    containers:
    - name: web
      image: web
      imagePullPolicy: Always
      env: [{name: A, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}]
      livenessProbe: {grpc: {port: 1, service: ""}, terminationGracePeriodSeconds: 1}
      ports: [{containerPort: 80, protocol: TCP}]
      resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
      resources: {claims: [{name: gpu, request: one}], limits: {cpu: 1}, requests: {cpu: 500m}}
      restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]
      securityContext: {appArmorProfile: {type: RuntimeDefault}, procMount: Default}
      volumeDevices: [{devicePath: /dev/x, name: d}]
      volumeMounts: [{mountPath: /x, name: t, readOnly: true, recursiveReadOnly: Disabled}]
    dnsPolicy: ClusterFirst
    enableServiceLinks: true
    hostUsers: false
    hostnameOverride: web
    nodeName: a
    os: {name: linux}
    preemptionPolicy: PreemptLowerPriority
    priority: 0
    resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
    resources: {requests: {cpu: 1}}
    restartPolicy: Always
    schedulerName: default-scheduler
    schedulingGates: [{name: x}]
    securityContext: {supplementalGroupsPolicy: Merge, seLinuxChangePolicy: Recursive}
    setHostnameAsFQDN: false
    tolerations:
    - {effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists,
       tolerationSeconds: 300}
    topologySpreadConstraints:
    - {labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [a], maxSkew: 1, minDomains: 2,
       nodeAffinityPolicy: Honor, nodeTaintsPolicy: Ignore, topologyKey: zone,
       whenUnsatisfiable: DoNotSchedule}
    volumes:
    - name: t
      projected:
        defaultMode: 420
        sources:
        - serviceAccountToken: {expirationSeconds: 3607, path: token}
        - podCertificate: {keyType: ED25519, signerName: a.b/c, credentialBundlePath: x}
        - clusterTrustBundle: {name: a, path: b}
    - name: i
      image: {reference: a, pullPolicy: Always}
  status:
    conditions:
    - {lastProbeTime: null, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1,
       status: "True", type: Ready}
    containerStatuses:
    - allocatedResources: {cpu: 1}
      allocatedResourcesStatus: []
      containerID: containerd://1
      image: web
      imageID: web
      lastState: {terminated: {exitCode: 1, containerID: x, finishedAt: null, reason: Error}}
      name: web
      ready: true
      resources: {requests: {cpu: 1}}
      restartCount: 0
      started: true
      state: {running: {startedAt: "2026-01-01T00:00:00Z"}}
      stopSignal: SIGTERM
      user: {linux: {gid: 0, supplementalGroups: [0], uid: 0}}
      volumeMounts: [{mountPath: /x, name: t, readOnly: true, recursiveReadOnly: Disabled}]
    extendedResourceClaimStatus: {resourceClaimName: x, requestMappings: []}
    hostIP: 10.0.0.1
    hostIPs: [{ip: 10.0.0.1}]
    observedGeneration: 1
    phase: Running
    podIP: 10.0.0.2
    podIPs: [{ip: 10.0.0.2}]
    qosClass: Burstable
    resize: ""
    resourceClaimStatuses: [{name: gpu, resourceClaimName: gpu-1}]
    startTime: "2026-01-01T00:00:00Z"
- apiVersion: v1
  kind: Node
  metadata: {name: a, uid: n}
  spec: {podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24], providerID: "x://a", taints: []}
  status:
    addresses: [{address: a, type: Hostname}]
    allocatable: {cpu: "2", memory: 1Gi, pods: "10"}
    capacity: {cpu: "2", memory: 1Gi, pods: "10"}
    config: {}
    daemonEndpoints: {kubeletEndpoint: {Port: 10250}}
    declaredFeatures: [x]
    features: {supplementalGroupsPolicy: true}
    images: [{names: [a], sizeBytes: 1}]
    nodeInfo: {architecture: amd64, bootID: a, containerRuntimeVersion: c, kernelVersion: k,
      kubeProxyVersion: "", kubeletVersion: v1.35.0, machineID: m, operatingSystem: linux,
      osImage: o, systemUUID: u, swap: {capacity: 1}}
    runtimeHandlers: [{features: {recursiveReadOnlyMounts: true, userNamespaces: true}, name: ""}]
    volumesAttached: [{devicePath: "", name: x}]
    volumesInUse: [x]
- apiVersion: apps/v1
  kind: ReplicaSet
  metadata: {name: web-7d4b9c, uid: r}
  spec:
    replicas: 1
    selector: {matchLabels: {app: web}}
    template:
      metadata: {creationTimestamp: null, labels: {app: web}}
      spec: {containers: [{name: web, image: web, resources: {}}]}
  status: {availableReplicas: 1, fullyLabeledReplicas: 1, observedGeneration: 1, readyReplicas: 1,
    replicas: 1, terminatingReplicas: 0}
- apiVersion: batch/v1
  kind: Job
  metadata: {name: j, uid: j, labels: {batch.kubernetes.io/controller-uid: j}}
  spec:
    backoffLimit: 6
    completionMode: NonIndexed
    completions: 1
    manualSelector: false
    parallelism: 1
    podReplacementPolicy: TerminatingOrFailed
    selector: {matchLabels: {batch.kubernetes.io/controller-uid: j}}
    suspend: false
    template:
      metadata: {labels: {batch.kubernetes.io/controller-uid: j}}
      spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
  status: {ready: 0, succeeded: 1, terminating: 0, uncountedTerminatedPods: {}}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: web, uid: p}
  spec: {minAvailable: 50%, selector: {matchLabels: {app: web}}, unhealthyPodEvictionPolicy: AlwaysAllow}
  status: {currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0, expectedPods: 1,
    disruptedPods: {}, observedGeneration: 1, conditions: []}
"""


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        pytest.param(
            """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: fast, resources: {requests: {storage: 1Gi}}}
""",
            "spec.accessModes: Required value: at least 1 access mode is required",
            id="a claim for a volume",
        ),
        pytest.param(
            """\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec: {template: {spec: {containers: [{name: c}]}}}
""",
            "spec.selector: Required value",
            id="a ReplicaSet",
        ),
    ],
)
def test_what_is_missing_and_no_plan_needs_is_pointed_out(manifest: str, said: str) -> None:
    ran = plan_of(manifest)

    assert 0 == ran.code, ran.err
    assert f"{said}; an API server would refuse the object" in ran.err
    assert "error: " not in ran.err


def test_a_service_port_without_a_number_is_an_error_at_its_line() -> None:
    service = (
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports: [{name: http}]\n"
    )
    ran = plan_of(f"{text_of(pool())}\n---\n{service}")

    assert 2 == ran.code
    assert "Service/web spec.ports[0].port: Invalid value: 0: must be between 1 and" in ran.err
