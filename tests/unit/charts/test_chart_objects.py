"""The objects that the chart renders: where pods run and as whom, and what stands around them."""

from pathlib import Path

import pytest

import charts
from chart_values import read as read_values
from helpers.helm import (
    CRDS,
    MAIN,
    NAMESPACE,
    Helm,
    Json,
    all_of_kind,
    container,
    of_kind,
    pod_spec,
    read,
)
from karpenter import __version__
from karpenter.admission.schemas.crds import builtin_crds, stored_only

RULES = charts.MONITORING / "rules.yaml"
DASHBOARDS = charts.MONITORING / "dashboards"
AWS = {"settings.clusterName": "demo"}
SELECTOR = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}


@pytest.mark.case("OPS-1")
@pytest.mark.parametrize("chart", [MAIN, CRDS], ids=lambda chart: chart.name)
def test_lint_has_no_warning(helm: Helm, chart: Path) -> None:
    said = helm("lint", "--strict", chart)

    assert "[WARNING]" not in said
    assert "1 chart(s) linted, 0 chart(s) failed" in said


@pytest.mark.row("S2-47")
def test_the_version_is_shown(helm: Helm) -> None:
    (about,) = read(helm("show", "chart", MAIN))

    assert (__version__, __version__) == (about["version"], about["appVersion"])
    assert f"karpenter:{__version__}" == container(helm.template())["image"]


@pytest.mark.row("S2-54")
def test_values_are_shown(helm: Helm) -> None:
    assert (MAIN / "values.yaml").read_text("utf-8").strip() == helm("show", "values", MAIN).strip()


@pytest.mark.row("S2-15")
@pytest.mark.parametrize(("values", "unless"), [({}, "ScheduleAnyway"), (AWS, "DoNotSchedule")])
def test_two_pods_keep_apart_and_off_their_own_nodes(helm: Helm, values: Json, unless: str) -> None:
    rendered = helm.template(values)
    spec = pod_spec(rendered)

    assert 2 == of_kind(rendered, "Deployment")["spec"]["replicas"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    expression = {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
    terms = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert [{"matchExpressions": [expression]}] == terms
    assert [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": SELECTOR}}
    ] == spec["affinity"]["podAntiAffinity"][required]
    assert [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": unless,
            "labelSelector": {"matchLabels": SELECTOR},
        }
    ] == spec["topologySpreadConstraints"]
    assert {"kubernetes.io/os": "linux"} == spec["nodeSelector"]


def test_selectors_that_are_given_stay(helm: Helm) -> None:
    theirs = {"labelSelector": {"matchLabels": {"app": "other"}}}
    term = {"topologyKey": "kubernetes.io/hostname", **theirs}
    given = {
        "affinity": {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": term},
                    {"weight": 2, "podAffinityTerm": {"topologyKey": "zone"}},
                ]
            }
        },
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", **theirs}
        ],
    }
    spec = pod_spec(helm.template(given))

    assert given["topologySpreadConstraints"] == spec["topologySpreadConstraints"]
    preferred = spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [term, {"topologyKey": "zone", "labelSelector": {"matchLabels": SELECTOR}}] == [
        each["podAffinityTerm"] for each in preferred
    ]


@pytest.mark.case("OPS-16")
def test_the_pod_asks_for_nothing_that_is_restricted(helm: Helm) -> None:
    rendered = helm.template()

    assert {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "capabilities": {"drop": ["ALL"]},
    } == container(rendered)["securityContext"]
    spec = pod_spec(rendered)
    assert "RuntimeDefault" == spec["securityContext"]["seccompProfile"]["type"]
    assert 40 == spec["terminationGracePeriodSeconds"]
    assert "system-cluster-critical" == spec["priorityClassName"]
    assert spec["automountServiceAccountToken"] is True
    assert of_kind(rendered, "ServiceAccount")["automountServiceAccountToken"] is False
    assert "hostNetwork" not in spec


@pytest.mark.row("S2-76")
def test_labels_and_the_name_of_the_container_fit_the_usual_commands(helm: Helm) -> None:
    rendered = helm.template({"podLabels": {"team": "platform"}})
    template = of_kind(rendered, "Deployment")["spec"]["template"]

    assert "controller" == container(rendered)["name"]
    assert {**SELECTOR, "team": "platform"} == template["metadata"]["labels"]
    assert ["controller"] == container(rendered)["args"]


def test_probes_ask_where_health_is_served(helm: Helm) -> None:
    found = container(helm.template({"controller.healthProbe.port": 9091}))

    ports = {port["name"]: port["containerPort"] for port in found["ports"]}
    assert {"http-metrics": 8080, "http": 9091} == ports
    assert {"path": "/healthz", "port": "http"} == found["livenessProbe"]["httpGet"]
    assert {"path": "/readyz", "port": "http"} == found["readinessProbe"]["httpGet"]


@pytest.mark.row("S0-17", "S2-37", "S2-50")
def test_the_service_account_has_its_name_and_role(helm: Helm) -> None:
    role = {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/karpenter"}
    rendered = helm.template({**AWS, "serviceAccount.annotations": role})
    account = of_kind(rendered, "ServiceAccount")

    assert ("karpenter", role) == (account["metadata"]["name"], account["metadata"]["annotations"])
    assert "karpenter" == pod_spec(rendered)["serviceAccountName"]
    other = helm.template({"serviceAccount": {"create": False, "name": "shared"}})
    assert [] == all_of_kind(other, "ServiceAccount")
    assert "shared" == pod_spec(other)["serviceAccountName"]
    subjects = [each["subjects"] for each in other if "roleRef" in each]
    assert {("shared", NAMESPACE)} == {(each["name"], each["namespace"]) for (each,) in subjects}


@pytest.mark.case("OPS-15")
def test_a_single_replica_has_no_disruption_budget(helm: Helm) -> None:
    assert [] == all_of_kind(helm.template({"replicas": 1}), "PodDisruptionBudget")
    assert [] == all_of_kind(
        helm.template({"podDisruptionBudget.enabled": False}), "PodDisruptionBudget"
    )
    budget = of_kind(helm.template(), "PodDisruptionBudget")
    assert {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}} == budget["spec"]


@pytest.mark.case("OPS-19")
def test_a_network_policy_lists_ports_and_nothing_else(helm: Helm) -> None:
    extra = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    assert [] == all_of_kind(helm.template(), "NetworkPolicy")
    policy = of_kind(
        helm.template({"networkPolicy": {"enabled": True, "extraEgress": [extra]}}), "NetworkPolicy"
    )["spec"]

    assert {"Ingress", "Egress"} == set(policy["policyTypes"])
    assert {"matchLabels": SELECTOR} == policy["podSelector"]
    assert [{"ports": [tcp(8080), tcp(8081)]}] == policy["ingress"]
    assert [
        {"ports": [{"port": 53, "protocol": "UDP"}, tcp(53)]},
        {"ports": [tcp(443), tcp(6443)]},
        extra,
    ] == policy["egress"]


@pytest.mark.case("OPS-19")
def test_on_aws_the_network_policy_lets_credentials_be_fetched(helm: Helm) -> None:
    rendered = helm.template({**AWS, "networkPolicy.enabled": True})

    assert {
        "to": [
            {"ipBlock": {"cidr": "169.254.169.254/32"}},
            {"ipBlock": {"cidr": "169.254.170.23/32"}},
        ],
        "ports": [tcp(80)],
    } == of_kind(rendered, "NetworkPolicy")["spec"]["egress"][-1]


def tcp(port: int) -> Json:
    return {"port": port, "protocol": "TCP"}


def test_a_service_monitor_scrapes_the_service(helm: Helm) -> None:
    rendered = helm.template(
        {
            "serviceMonitor": {
                "enabled": True,
                "additionalLabels": {"release": "prometheus"},
                "endpointConfig": {"interval": "30s"},
                "relabelings": [{"action": "drop"}],
                "metricRelabelings": [{"action": "keep"}],
                "sampleLimit": 0,
            }
        }
    )
    monitor = of_kind(rendered, "ServiceMonitor")
    service = of_kind(rendered, "Service")

    assert "prometheus" == monitor["metadata"]["labels"]["release"]
    assert SELECTOR == monitor["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    assert SELECTOR.items() <= service["metadata"]["labels"].items()
    assert 0 == monitor["spec"]["sampleLimit"]
    assert [
        {
            "port": "http-metrics",
            "path": "/metrics",
            "interval": "30s",
            "relabelings": [{"action": "drop"}],
            "metricRelabelings": [{"action": "keep"}],
        }
    ] == monitor["spec"]["endpoints"]
    assert ["http-metrics"] == [port["name"] for port in service["spec"]["ports"]]


def test_alerts_and_dashboards_are_those_of_the_project(helm: Helm) -> None:
    given = {"prometheusRule.enabled": True, "grafanaDashboards.enabled": True}
    rendered = helm.template(given)
    maps = all_of_kind(rendered, "ConfigMap")
    written = {path.name: path.read_text("utf-8") for path in DASHBOARDS.glob("*.json")}

    assert [of_kind(rendered, "PrometheusRule")["spec"]] == read(RULES.read_text("utf-8"))
    assert len(written) >= 3
    assert written == {name: text for each in maps for name, text in each["data"].items()}
    assert {"1"} == {each["metadata"]["labels"]["grafana_dashboard"] for each in maps}
    assert set() == {"PrometheusRule", "ConfigMap"} & {each["kind"] for each in helm.template()}


def test_containers_beside_the_controller_get_its_mounts(helm: Helm) -> None:
    mounts = [{"name": "certificates", "mountPath": "/certificates"}]
    own = [{"name": "socket", "mountPath": "/socket"}]
    rendered = helm.template(
        {
            "extraVolumes": [
                {"name": "certificates", "emptyDir": {}},
                {"name": "socket", "emptyDir": {}},
            ],
            "initContainers": [{"name": "before", "image": "wait"}],
            "controller.extraVolumeMounts": mounts,
            "controller.sidecarContainer": [
                {"name": "proxy", "image": "proxy", "volumeMounts": own}
            ],
            "controller.sidecarVolumeMounts": [{"name": "socket", "mountPath": "/other"}],
            "controller.securityContext.seccompProfile": {
                "type": "Localhost",
                "localhostProfile": "p",
            },
        }
    )
    spec = pod_spec(rendered)

    controller, proxy = spec["containers"]
    assert mounts == controller["volumeMounts"]
    assert [*own, *mounts, {"name": "socket", "mountPath": "/other"}] == proxy["volumeMounts"]
    assert ["before"] == [each["name"] for each in spec["initContainers"]]
    assert "Localhost" == controller["securityContext"]["seccompProfile"]["type"]
    assert ["certificates", "socket"] == [each["name"] for each in spec["volumes"]]


def test_every_object_has_the_labels_and_annotations_that_are_asked_for(helm: Helm) -> None:
    given = {
        "additionalLabels": {"team": "platform"},
        "additionalAnnotations": {"contact": "platform@example.com"},
        "serviceMonitor.enabled": True,
        "networkPolicy.enabled": True,
        "rbac.legacyKinds": True,
        "service.annotations": {"scrape": "yes"},
        **AWS,
    }
    rendered = helm.template(given)
    said = [
        each["kind"]
        for each in rendered
        if each["metadata"]["labels"].get("team") != "platform"
        or each["metadata"]["annotations"].get("contact") != "platform@example.com"
    ]

    assert [] == said
    assert "yes" == of_kind(rendered, "Service")["metadata"]["annotations"]["scrape"]
    assert {"Deployment", "NetworkPolicy", "ServiceMonitor"} < {each["kind"] for each in rendered}


def test_rules_may_be_added_to_the_core_role(helm: Helm) -> None:
    rule = {"apiGroups": ["machines.example"], "resources": ["machineclasses"], "verbs": ["list"]}
    rendered = helm.template({"additionalClusterRoleRules": [rule]})
    rules = {
        each["metadata"]["name"]: each["rules"] for each in all_of_kind(rendered, "ClusterRole")
    }

    assert rule == rules["karpenter-core"][-1]


def test_names_follow_the_release(helm: Helm) -> None:
    def name(release: str, *flags: str) -> str:
        rendered = read(helm("template", release, MAIN, *flags))
        return str(of_kind(rendered, "Deployment")["metadata"]["name"])

    assert "karpenter-py" == name("karpenter-py")
    assert "nodes-karpenter" == name("nodes")
    assert "scaler" == name("nodes", "--set", "fullnameOverride=scaler")


@pytest.mark.row("S2-48", "S2-78")
def test_the_chart_of_crds_has_those_that_the_program_prints(helm: Helm) -> None:
    def specifications(objects: list[Json]) -> dict[str, Json]:
        return {each["metadata"]["name"]: each["spec"] for each in objects}

    expected = {
        name: dict(stored_only(each))["spec"] for name, each in builtin_crds(legacy=True).items()
    }
    every = helm.template({"legacyKinds": True}, chart=CRDS)
    usual = helm.template(chart=CRDS)

    assert expected == specifications(every)
    assert {name: expected[name] for name in builtin_crds(legacy=False)} == specifications(usual)
    kept = [each["metadata"]["annotations"]["helm.sh/resource-policy"] for each in every]
    assert ["keep"] * len(expected) == kept


def test_crds_may_be_annotated_and_are_kept_all_the_same(helm: Helm) -> None:
    given = {"additionalAnnotations": {"a": "b", "helm.sh/resource-policy": "delete"}}
    crds = helm.template({**given, "additionalLabels": {"c": "d"}}, chart=CRDS)

    assert {("b", "keep")} == {
        (
            each["metadata"]["annotations"]["a"],
            each["metadata"]["annotations"]["helm.sh/resource-policy"],
        )
        for each in crds
    }
    assert {"d"} == {each["metadata"]["labels"]["c"] for each in crds}


def test_every_value_of_the_chart_is_used() -> None:
    """A value that no template names would do nothing."""
    text = "".join(path.read_text("utf-8") for path in (MAIN / "templates").iterdir())
    gates = ("settings.featureGates.", "settings.awsFeatureGates.")
    unused = [
        value.name
        for value in read_values(MAIN / "values.yaml")
        if not value.name.startswith((*gates, "controller.securityContext."))
        and f".{value.place[-1]}" not in text
        and f'"{value.place[-1]}"' not in text
    ]

    assert [] == unused
