"""What the server fills in and refuses for Kubernetes' own kinds, in its own words."""

from typing import Any

import pytest

from helpers.server import MERGE, Cluster, cluster, config_map, deployment, manifest, pod

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONTAINER: dict[str, Any] = {"name": "main", "image": "nginx:1"}


@pytest.fixture
def api() -> Cluster:
    return cluster()


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER], **spec}}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
    return manifest("apps/v1", kind, "web", spec=whole)


class TestDefaults:
    def test_a_pod_is_complete(self, api: Cluster) -> None:
        created = api.create(pod())

        assert {
            "containers": [
                {
                    "name": "main",
                    "image": "nginx:1",
                    "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "resources": {},
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "enableServiceLinks": True,
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{trouble}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for trouble in ("not-ready", "unreachable")
            ],
        } == created["spec"]
        assert {"phase": "Pending", "qosClass": "BestEffort"} == created["status"]
        assert 1 == created["metadata"]["generation"]

    @pytest.mark.parametrize(
        ("image", "policy"),
        [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1", "IfNotPresent"),
            ("registry:5000/nginx", "Always"),
            ("registry:5000/nginx:2", "IfNotPresent"),
            ("nginx@sha256:abc", "IfNotPresent"),
        ],
    )
    def test_images_that_may_change_are_pulled_always(
        self, api: Cluster, image: str, policy: str
    ) -> None:
        created = api.create(pod(containers=[{"name": "a", "image": image}]))

        assert policy == created["spec"]["containers"][0]["imagePullPolicy"]

    @pytest.mark.parametrize(
        ("resources", "quality"),
        [
            ({}, "BestEffort"),
            ({"requests": {"cpu": "1"}}, "Burstable"),
            ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
            (
                {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}},
                "Guaranteed",
            ),
            ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
            ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
        ],
    )
    def test_the_quality_of_service(
        self, api: Cluster, resources: dict[str, Any], quality: str
    ) -> None:
        created = api.create(pod(containers=[CONTAINER | {"resources": resources}]))

        assert quality == created["status"]["qosClass"]

    def test_a_limit_without_a_request_is_also_a_request(self, api: Cluster) -> None:
        made = pod(containers=[CONTAINER | {"resources": {"limits": {"cpu": "0.5"}}}])

        resources = api.create(made)["spec"]["containers"][0]["resources"]

        assert {"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}} == resources

    def test_probes_ports_and_volumes_are_complete(self, api: Cluster) -> None:
        container = CONTAINER | {
            "ports": [{"containerPort": 80}],
            "readinessProbe": {"httpGet": {"port": 80}},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        }
        volumes = [{"name": "a"}, {"name": "b", "configMap": {"name": "c"}}]

        spec = api.create(pod(containers=[container], volumes=volumes))["spec"]

        found = spec["containers"][0]
        assert "TCP" == found["ports"][0]["protocol"]
        assert {
            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        } == found["readinessProbe"]
        assert "v1" == found["env"][0]["valueFrom"]["fieldRef"]["apiVersion"]
        assert [
            {"name": "a", "emptyDir": {}},
            {"name": "b", "configMap": {"name": "c", "defaultMode": 420}},
        ] == spec["volumes"]

    def test_a_deployment_is_complete(self, api: Cluster) -> None:
        spec = api.create(deployment())["spec"]

        assert (1, 10, 600) == (
            spec["replicas"],
            spec["revisionHistoryLimit"],
            spec["progressDeadlineSeconds"],
        )
        assert {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
        } == spec["strategy"]
        assert "Always" == spec["template"]["spec"]["restartPolicy"]
        assert "enableServiceLinks" not in spec["template"]["spec"]

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            pytest.param(workload("ReplicaSet"), {"replicas": 1}, id="ReplicaSet"),
            pytest.param(
                workload("DaemonSet"),
                {
                    "revisionHistoryLimit": 10,
                    "updateStrategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                    },
                },
                id="DaemonSet",
            ),
            pytest.param(
                workload("StatefulSet"),
                {
                    "replicas": 1,
                    "podManagementPolicy": "OrderedReady",
                    "persistentVolumeClaimRetentionPolicy": {
                        "whenDeleted": "Retain",
                        "whenScaled": "Retain",
                    },
                },
                id="StatefulSet",
            ),
            pytest.param(
                manifest(
                    "batch/v1", "Job", "j", spec={"template": template(restartPolicy="Never")}
                ),
                {"parallelism": 1, "completions": 1, "backoffLimit": 6, "suspend": False},
                id="Job",
            ),
            pytest.param(
                manifest(
                    "v1",
                    "PersistentVolumeClaim",
                    "data",
                    spec={
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                ),
                {"volumeMode": "Filesystem"},
                id="PersistentVolumeClaim",
            ),
        ],
    )
    def test_other_kinds_are_complete(
        self, api: Cluster, body: dict[str, Any], expected: dict[str, Any]
    ) -> None:
        spec = api.create(body)["spec"]

        assert expected == {name: spec.get(name) for name in expected}

    def test_a_job_finds_its_pods_by_its_identity(self, api: Cluster) -> None:
        job = manifest("batch/v1", "Job", "j", spec={"template": template(restartPolicy="Never")})

        created = api.create(job)

        uid = created["metadata"]["uid"]
        assert {"batch.kubernetes.io/controller-uid": uid} == (
            created["spec"]["selector"]["matchLabels"]
        )
        assert {
            "app": "web",
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": "j",
            "controller-uid": uid,
            "job-name": "j",
        } == created["spec"]["template"]["metadata"]["labels"]

    def test_a_namespace_knows_its_name_and_phase(self, api: Cluster) -> None:
        created = api.create(manifest("v1", "Namespace", "team", namespace=None))

        assert {"kubernetes.io/metadata.name": "team"} == created["metadata"]["labels"]
        assert {"phase": "Active"} == created["status"]

    def test_text_in_a_secret_is_encoded(self, api: Cluster) -> None:
        created = api.create(manifest("v1", "Secret", "s", stringData={"a": "b"}))

        assert ({"a": "Yg=="}, "Opaque") == (created["data"], created["type"])
        assert "stringData" not in created

    def test_an_applied_default_is_not_a_change(self, api: Cluster) -> None:
        first = api.create(deployment())
        body = deployment()
        body["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"]

        second = api.call("PUT", f"{DEPLOYMENTS}/web", body)

        assert first["metadata"]["generation"] == second.body["metadata"]["generation"]
        assert first["spec"] == second.body["spec"]


class TestSurroundings:
    def test_a_new_node_takes_no_pods_yet(self, api: Cluster) -> None:
        node = manifest(
            "v1", "Node", "n1", namespace=None, status={"capacity": {"cpu": "4", "pods": "10"}}
        )

        created = api.create(node)

        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        assert [taint] == created["spec"]["taints"]
        assert {"cpu": "4", "pods": "10"} == created["status"]["allocatable"]

    def test_a_pod_has_the_priority_of_its_class(self, api: Cluster) -> None:
        api.create(
            manifest(
                "scheduling.k8s.io/v1",
                "PriorityClass",
                "high",
                namespace=None,
                value=1000,
                preemptionPolicy="Never",
            )
        )

        spec = api.create(pod(priorityClassName="high"))["spec"]

        assert (1000, "Never") == (spec["priority"], spec["preemptionPolicy"])

    def test_a_preemption_policy_that_is_not_that_of_its_class_is_refused(
        self, api: Cluster
    ) -> None:
        answer = api.call("POST", "/api/v1/namespaces/default/pods", pod(preemptionPolicy="Never"))

        assert 403 == answer.status
        told = "the string value of PreemptionPolicy (Never) must not be provided in pod spec"
        assert told in answer.body["message"]

    def test_system_priorities_need_no_class(self, api: Cluster) -> None:
        spec = api.create(pod(priorityClassName="system-node-critical"))["spec"]

        assert 2_000_001_000 == spec["priority"]

    def test_one_class_may_be_for_everybody(self, api: Cluster) -> None:
        api.create(
            manifest(
                "scheduling.k8s.io/v1",
                "PriorityClass",
                "usual",
                namespace=None,
                value=7,
                globalDefault=True,
            )
        )

        spec = api.create(pod())["spec"]

        assert (7, "usual") == (spec["priority"], spec["priorityClassName"])

    def test_a_class_that_is_not_there_is_refused(self, api: Cluster) -> None:
        answer = api.call("POST", PODS, pod(priorityClassName="nobody"))

        assert 403 == answer.status
        assert (
            'pods "web" is forbidden: no PriorityClass with name nobody was found' == answer.message
        )

    def test_a_priority_cannot_be_made_up(self, api: Cluster) -> None:
        answer = api.call("POST", PODS, pod(priority=9))

        assert 403 == answer.status
        assert "the integer value of priority (9) must not be provided in pod spec" in (
            answer.message
        )

    def test_a_pod_gets_the_token_of_its_account(self, api: Cluster) -> None:
        api.create(manifest("v1", "ServiceAccount", "default"))

        spec = api.create(pod())["spec"]

        mount = spec["containers"][0]["volumeMounts"][0]
        assert "/var/run/secrets/kubernetes.io/serviceaccount" == mount["mountPath"]
        assert [mount["name"]] == [volume["name"] for volume in spec["volumes"]]

    @pytest.mark.parametrize("place", ["pod", "account"])
    def test_unless_somebody_says_no(self, api: Cluster, place: str) -> None:
        no = {"automountServiceAccountToken": False}
        account, made = manifest("v1", "ServiceAccount", "default"), pod()
        if place == "account":
            account |= no
        else:
            made["spec"] |= no
        api.create(account)

        spec = api.create(made)["spec"]

        assert "volumes" not in spec

    def test_tolerations_of_a_pod_come_first(self, api: Cluster) -> None:
        own = {"operator": "Exists"}

        assert [own] == api.create(pod(tolerations=[own]))["spec"]["tolerations"]

    def test_a_gated_pod_says_that_it_waits(self, api: Cluster) -> None:
        created = api.create(pod(schedulingGates=[{"name": "example.com/wait"}]))

        assert "SchedulingGated" == created["status"]["conditions"][0]["reason"]

    def test_a_claim_gets_the_default_class(self, api: Cluster) -> None:
        default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
        for name, metadata in (("slow", {}), ("fast", default)):
            api.create(
                manifest(
                    "storage.k8s.io/v1",
                    "StorageClass",
                    name,
                    namespace=None,
                    metadata=metadata,
                    provisioner="example.com/disk",
                )
            )
        claim = manifest(
            "v1",
            "PersistentVolumeClaim",
            "data",
            spec={
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        )

        assert "fast" == api.create(claim)["spec"]["storageClassName"]

    def test_services_get_different_addresses_and_keep_them(self, api: Cluster) -> None:
        created = [
            api.create(manifest("v1", "Service", name, spec={"ports": [{"port": 80}]}))
            for name in ("a", "b")
        ]
        patch = {"spec": {"ports": [{"port": 81}]}}
        path = api.path_of(created[0])

        changed = api.call("PATCH", path, patch, content_type=MERGE).body

        first, second = (service["spec"]["clusterIP"] for service in created)
        assert first != second
        assert (first, [first]) == (changed["spec"]["clusterIP"], changed["spec"]["clusterIPs"])
        assert 80 == created[0]["spec"]["ports"][0]["targetPort"]

    def test_a_headless_service_has_none(self, api: Cluster) -> None:
        service = manifest("v1", "Service", "a", spec={"clusterIP": "None"})

        assert ["None"] == api.create(service)["spec"]["clusterIPs"]

    def test_a_taken_node_port_is_refused(self, api: Cluster) -> None:
        def service(name: str) -> dict[str, Any]:
            ports = [{"port": 80, "nodePort": 30080}]
            return manifest("v1", "Service", name, spec={"type": "NodePort", "ports": ports})

        api.create(service("a"))

        answer = api.call("POST", "/api/v1/namespaces/default/services", service("b"))

        assert 422 == answer.status
        assert (
            "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
            in answer.message
        )


REFUSED = [
    pytest.param(
        pod(containers=[]), "spec.containers: Required value", id="a pod without containers"
    ),
    pytest.param(
        pod(containers=[{"name": "a"}]),
        "spec.containers[0].image: Required value",
        id="a container without an image",
    ),
    pytest.param(
        pod(containers=[{"image": "a"}]),
        "spec.containers[0].name: Required value",
        id="a container without a name",
    ),
    pytest.param(
        pod(containers=[CONTAINER, CONTAINER]),
        'spec.containers[1].name: Duplicate value: "main"',
        id="two containers of one name",
    ),
    pytest.param(
        pod("Web"),
        'metadata.name: Invalid value: "Web": a lowercase RFC 1123 subdomain must consist of lower'
        " case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric"
        " character (e.g. 'example.com', regex used for validation is"
        " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        id="a name in upper case",
    ),
    pytest.param(
        pod(restartPolicy="Sometimes"),
        'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always",'
        ' "OnFailure", "Never"',
        id="another restart policy",
    ),
    pytest.param(
        pod(
            containers=[
                CONTAINER | {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
            ]
        ),
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to'
        " cpu limit of 1",
        id="a request above the limit",
    ),
    pytest.param(
        pod(containers=[CONTAINER | {"resources": {"requests": {"cpu": "-1"}}}]),
        'spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or'
        " equal to 0",
        id="a request for less than nothing",
    ),
    pytest.param(
        pod(containers=[CONTAINER | {"resources": {"requests": {"gpu": "1"}}}]),
        'spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard'
        " resource type or fully qualified",
        id="a resource nobody knows",
    ),
    pytest.param(
        pod(containers=[CONTAINER | {"volumeMounts": [{"name": "x", "mountPath": "/x"}]}]),
        'spec.containers[0].volumeMounts[0].name: Not found: "x"',
        id="a mount of no volume",
    ),
    pytest.param(
        pod(containers=[CONTAINER | {"ports": [{"containerPort": 99999}]}]),
        "spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and"
        " 65535, inclusive",
        id="a port that is too high",
    ),
    pytest.param(
        pod(tolerations=[{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]),
        "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when"
        " `tolerationSeconds` is set",
        id="seconds without NoExecute",
    ),
    pytest.param(
        pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "zone"}]),
        "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
        id="no skew at all",
    ),
    pytest.param(
        pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
                }
            }
        ),
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms: Required value: must have at least one node selector term",
        id="an affinity to nothing",
    ),
    pytest.param(
        pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
        ".topologyKey: Required value: can not be empty",
        id="an affinity without a topology",
    ),
    pytest.param(
        manifest("v1", "Pod", "web", metadata={"labels": {"a b": "c"}}, spec=pod()["spec"]),
        'metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters',
        id="a label with a blank",
    ),
    pytest.param(
        deployment(selector=None),
        "spec.selector: Required value",
        id="a deployment without a selector",
    ),
    pytest.param(
        deployment(selector={"matchLabels": {"app": "other"}}),
        'spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match'
        " template `labels`",
        id="a selector that does not match",
    ),
    pytest.param(
        deployment(replicas=-1),
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        id="fewer than no replicas",
    ),
    pytest.param(
        deployment(template=template(restartPolicy="Never")),
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        id="a deployment that does not restart",
    ),
    pytest.param(
        deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is"
        " 'Recreate'",
        id="two strategies",
    ),
    pytest.param(
        deployment(
            strategy={
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0},
            }
        ),
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge`"
        " is 0",
        id="an update that cannot begin",
    ),
    pytest.param(
        manifest("batch/v1", "Job", "j", spec={"template": template()}),
        'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        id="a job that never ends",
    ),
    pytest.param(
        manifest(
            "batch/v1",
            "CronJob",
            "c",
            spec={
                "schedule": "often",
                "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
            },
        ),
        'spec.schedule: Invalid value: "often": expected exactly 5 fields, found 1: [often]',
        id="a schedule nobody can read",
    ),
    pytest.param(
        manifest(
            "policy/v1",
            "PodDisruptionBudget",
            "p",
            spec={"minAvailable": 1, "maxUnavailable": 1, "selector": {}},
        ),
        "minAvailable and maxUnavailable cannot be both set",
        id="a budget with two limits",
    ),
    pytest.param(
        manifest("policy/v1", "PodDisruptionBudget", "p", spec={"minAvailable": "ten"}),
        'spec.minAvailable: Invalid value: "ten": a valid percent string must be a numeric string'
        " followed by an ending '%'",
        id="a share that is none",
    ),
    pytest.param(
        manifest("v1", "Service", "a", spec={}),
        "spec.ports: Required value",
        id="a service without ports",
    ),
    pytest.param(
        manifest("v1", "Service", "1a", spec={"ports": [{"port": 80}]}),
        'metadata.name: Invalid value: "1a": a DNS-1035 label must consist of lower case',
        id="a service that starts with a digit",
    ),
    pytest.param(
        manifest("v1", "ConfigMap", "a", data={"a/b": "c"}),
        'data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric',
        id="a key with a slash",
    ),
    pytest.param(
        manifest("v1", "PersistentVolumeClaim", "a", spec={}),
        "spec.accessModes: Required value: at least 1 access mode is required",
        id="a claim without access",
    ),
    pytest.param(
        manifest("storage.k8s.io/v1", "StorageClass", "a", namespace=None),
        "provisioner: Required value",
        id="a class without a provisioner",
    ),
    pytest.param(
        manifest("scheduling.k8s.io/v1", "PriorityClass", "a", namespace=None, value=2_000_000_000),
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000",
        id="a priority of the system",
    ),
    pytest.param(
        manifest("v1", "Namespace", "a.b", namespace=None),
        'metadata.name: Invalid value: "a.b": must not contain dots',
        id="a namespace with a dot",
    ),
    pytest.param(
        manifest("v1", "ConfigMap", "", namespace="default"),
        "metadata.name: Required value: name or generateName is required",
        id="an object without a name",
    ),
    pytest.param(
        manifest(
            "v1",
            "Node",
            "n",
            namespace=None,
            spec={"taints": [{"key": "a", "effect": "Sometimes"}]},
        ),
        'metadata.taints[0].effect: Unsupported value: "Sometimes": supported values: "NoSchedule",'
        ' "PreferNoSchedule", "NoExecute"',
        id="a taint without effect",
    ),
    pytest.param(
        manifest(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "h",
            spec={"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 3},
        ),
        "spec.maxReplicas: Invalid value: 0: must be greater than 0",
        id="an autoscaler without an end",
    ),
]


@pytest.mark.parametrize(("body", "problem"), REFUSED)
def test_what_is_refused(api: Cluster, body: dict[str, Any], problem: str) -> None:
    answer = api.call("POST", api.path_of(body, named=False), body)

    assert (422, "Invalid") == (answer.status, answer.body["reason"])
    assert problem in answer.message


class TestChanges:
    def test_the_selector_of_a_deployment_stays(self, api: Cluster) -> None:
        api.create(deployment())
        labels = {"app": "web", "more": "x"}
        patch = {
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}},
            }
        }

        answer = api.call("PATCH", f"{DEPLOYMENTS}/web", patch, content_type=MERGE)

        assert 422 == answer.status
        assert ("FieldValueInvalid", "spec.selector") == answer.causes[0][:2]
        assert "field is immutable" in answer.message

    def test_the_image_of_a_pod_may_change(self, api: Cluster) -> None:
        created = api.create(pod())
        containers = [created["spec"]["containers"][0] | {"image": "nginx:2"}]
        patch = {"spec": {"containers": containers}}

        answer = api.call("PATCH", f"{PODS}/web", patch, content_type=MERGE)

        assert (200, 2) == (answer.status, answer.body["metadata"]["generation"])

    @pytest.mark.parametrize(
        "patch",
        [
            pytest.param({"nodeName": "n1"}, id="its node"),
            pytest.param({"hostNetwork": True}, id="its network"),
            pytest.param({"nodeSelector": {"a": "b"}}, id="its node selector"),
        ],
    )
    def test_little_else_of_a_pod_may(self, api: Cluster, patch: dict[str, Any]) -> None:
        api.create(pod())

        answer = api.call("PATCH", f"{PODS}/web", {"spec": patch}, content_type=MERGE)

        assert 422 == answer.status
        assert "spec: Forbidden: pod updates may not change fields other than" in answer.message

    def test_containers_are_not_added_to_a_pod(self, api: Cluster) -> None:
        api.create(pod())
        patch = {"spec": {"containers": [CONTAINER, {"name": "b", "image": "c"}]}}

        answer = api.call("PATCH", f"{PODS}/web", patch, content_type=MERGE)

        assert "spec.containers: Forbidden: pod updates may not add or remove containers" in (
            answer.message
        )

    def test_a_gated_pod_may_be_narrowed_and_released(self, api: Cluster) -> None:
        api.create(pod(schedulingGates=[{"name": "example.com/wait"}]))
        path = f"{PODS}/web"

        narrowed = api.call(
            "PATCH", path, {"spec": {"nodeSelector": {"a": "b"}}}, content_type=MERGE
        )
        released = api.call("PATCH", path, {"spec": {"schedulingGates": []}}, content_type=MERGE)
        gated = api.call(
            "PATCH", path, {"spec": {"schedulingGates": [{"name": "new"}]}}, content_type=MERGE
        )

        assert [200, 200, 422] == [narrowed.status, released.status, gated.status]

    @pytest.mark.parametrize(
        ("mounted", "status"),
        [
            pytest.param("data", 201, id="what it claims"),
            pytest.param("scratch", 201, id="what its template has"),
            pytest.param("nobody", 422, id="nothing of the kind"),
        ],
    )
    def test_pods_of_a_stateful_set_may_mount(
        self, api: Cluster, mounted: str, status: int
    ) -> None:
        asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        mounting = {**CONTAINER, "volumeMounts": [{"name": mounted, "mountPath": "/data"}]}
        scratch = {"name": "scratch", "emptyDir": {}}
        body = workload(
            "StatefulSet",
            template=template(containers=[mounting], volumes=[scratch]),
            volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": asked}],
        )

        answer = api.call("POST", api.path_of(body, named=False), body)

        assert status == answer.status

    def test_a_stateful_set_names_what_may_change(self, api: Cluster) -> None:
        created = api.create(workload("StatefulSet", serviceName="a"))

        answer = api.call(
            "PATCH", api.path_of(created), {"spec": {"serviceName": "b"}}, content_type=MERGE
        )

        assert 422 == answer.status
        assert (
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas',"
            " 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit',"
            " 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
            in answer.message
        )

    def test_a_provider_id_is_given_once(self, api: Cluster) -> None:
        node = api.create(manifest("v1", "Node", "n1", namespace=None))
        path = api.path_of(node)

        first = api.call("PATCH", path, {"spec": {"providerID": "a://1"}}, content_type=MERGE)
        second = api.call("PATCH", path, {"spec": {"providerID": "a://2"}}, content_type=MERGE)

        assert [200, 422] == [first.status, second.status]
        assert "node updates may not change providerID except from" in second.message

    def test_an_immutable_map_stays_as_it_is(self, api: Cluster) -> None:
        created = api.create(config_map(a="1") | {"immutable": True})

        answer = api.call("PATCH", api.path_of(created), {"data": {"a": "2"}}, content_type=MERGE)

        assert "data: Forbidden: field is immutable when `immutable` is set" in answer.message

    def test_several_problems_come_in_brackets(self, api: Cluster) -> None:
        answer = api.call("POST", PODS, pod(containers=[{}]))

        assert answer.message.startswith('Pod "web" is invalid: [')
        assert 2 == len(answer.causes)
