"""What values become: the environment of the controller, read as the controller reads it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from chart_values import read as read_values
from helpers.helm import (
    MAIN,
    Helm,
    Json,
    container,
    environment,
    of_kind,
    pod_spec,
    read,
    role_names,
)
from karpenter.cloud.aws.settings import AwsSettings
from karpenter.cloud.aws.settings import read_settings as read_aws_settings
from karpenter.settings import DEFAULT_GATES, SettingError, Settings, from_environment

UPSTREAM: Final = Path(__file__).with_name("karpenter-v1.14-values.yaml")
VALUES: Final = {value.name: value for value in read_values(MAIN / "values.yaml")}
BOOLEANS: Final = {
    name.removeprefix("settings."): value.text.startswith("AWS:")
    for name, value in VALUES.items()
    if name.startswith("settings.") and isinstance(value.default, bool)
}
VARIABLES: Final = {
    "ignoreDRARequests": "IGNORE_DRA_REQUESTS",
    "isolatedVPC": "ISOLATED_VPC",
}
AWS: Final = {"settings.clusterName": "demo"}


def variable_of(name: str) -> str:
    """The environment variable of a setting: words in upper case."""
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in name)
    return VARIABLES.get(name, words.upper())


def read_both(rendered: list[Json]) -> tuple[Settings, AwsSettings]:
    """What the program makes of an environment."""
    found = environment(rendered)
    return from_environment(found), read_aws_settings(found)


def test_defaults_are_those_of_the_program(helm: Helm) -> None:
    found = environment(helm.template())

    assert replace(Settings(), leader_election_namespace="kube-system") == from_environment(found)
    assert "kwok" == found["CLOUD_PROVIDER"]
    assert "" not in found.values()


def test_defaults_on_aws_are_those_of_the_program(helm: Helm) -> None:
    settings, aws = read_both(helm.template(AWS))

    assert replace(Settings(), leader_election_namespace="kube-system") == settings
    assert AwsSettings("demo") == aws


@pytest.mark.case("OPS-3")
@pytest.mark.parametrize("name", ["", "demo"])
def test_the_values_of_karpenters_own_chart_are_taken(helm: Helm, name: str) -> None:
    rendered = read(
        helm("template", "karpenter", MAIN, "-f", UPSTREAM, "--set", f"settings.clusterName={name}")
    )
    found = environment(rendered)

    assert ("aws" if name else "kwok") == found["CLOUD_PROVIDER"]
    assert DEFAULT_GATES == from_environment(found).feature_gates.gates
    assert 40 == pod_spec(rendered)["terminationGracePeriodSeconds"]
    assert "karpenter" == of_kind(rendered, "PodDisruptionBudget")["metadata"]["name"]
    image = container(rendered)["image"]
    assert image.startswith("registry.example/karpenter/controller:1.14.0@sha256:0123")


@pytest.mark.case("OPS-3")
@pytest.mark.row("S2-51", "S2-53")
def test_the_flags_of_getting_started_arrive(helm: Helm) -> None:
    given = {
        "settings.clusterName": "demo",
        "settings.interruptionQueue": "demo-queue",
        "controller.resources.requests": {"cpu": 1, "memory": "1Gi"},
        "controller.resources.limits": {"cpu": 1, "memory": "1Gi"},
    }
    rendered = helm.template(given)
    _, aws = read_both(rendered)

    assert AwsSettings("demo", interruption_queue="demo-queue") == aws
    assert {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1Gi"}} == (
        container(rendered)["resources"]
    )
    filled = [each for each in container(rendered)["env"] if "valueFrom" in each]
    assert ["MEMORY_LIMIT"] == [each["name"] for each in filled]
    assert "limits.memory" == filled[0]["valueFrom"]["resourceFieldRef"]["resource"]


@pytest.mark.case("OPS-3")
def test_the_values_of_terraform_users_arrive(helm: Helm) -> None:
    """As modules for EKS write them: nodes of their own, the host's DNS, an endpoint, no zone."""
    given = {
        "nodeSelector": {"karpenter.sh/controller": "true"},
        "dnsPolicy": "Default",
        "settings": {
            "clusterName": "demo",
            "clusterEndpoint": "https://api.demo.example",
            "interruptionQueue": "demo",
            "eksControlPlane": True,
            "vmMemoryOverheadPercent": "0.05",
            "reservedENIs": 1,
        },
        "topologySpreadConstraints": [],
    }
    rendered = helm.template(given)
    _, aws = read_both(rendered)

    assert aws == AwsSettings(
        "demo",
        cluster_endpoint="https://api.demo.example",
        interruption_queue="demo",
        eks_control_plane=True,
        vm_memory_overhead_percent=0.05,
        reserved_enis=1,
    )
    spec = pod_spec(rendered)
    assert ("Default", "true") == (
        spec["dnsPolicy"],
        spec["nodeSelector"]["karpenter.sh/controller"],
    )
    assert "topologySpreadConstraints" not in spec


@pytest.mark.case("OPS-3")
def test_every_setting_of_the_core_arrives_with_its_meaning(helm: Helm) -> None:
    constraint = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    spread = {"podTopologySpread": {"defaultConstraints": [constraint]}}
    given = {
        "logLevel": "debug",
        "logOutputPaths": ["stdout", "/dev/null"],
        "logErrorOutputPaths": ["stdout"],
        "controller.metrics.port": 9090,
        "controller.healthProbe.port": 9091,
        "settings.leaderElectionName": "other",
        "settings.batchMaxDuration": "30s",
        "settings.batchIdleDuration": "2s",
        "settings.preferencePolicy": "Ignore",
        "settings.minValuesPolicy": "BestEffort",
        "settings.metricsDetail": "pool",
        "settings.schedulerConfig": spread,
        "controller.env": [{"name": "KUBE_CLIENT_QPS", "value": "50"}],
    }
    found = from_environment(environment(helm.template(given)))

    assert found == Settings(
        log_level="debug",
        log_output_paths="stdout,/dev/null",
        log_error_output_paths="stdout",
        metrics_port=9090,
        health_probe_port=9091,
        leader_election_name="other",
        leader_election_namespace="kube-system",
        batch_max_duration=timedelta(seconds=30),
        batch_idle_duration=timedelta(seconds=2),
        preference_policy="Ignore",
        min_values_policy="BestEffort",
        metrics_detail="pool",
        scheduler_config=found.scheduler_config,
        kube_client_qps=50,
    )
    assert [spread] == read(found.scheduler_config)


@pytest.mark.parametrize("is_on", [False, True])
@pytest.mark.case("OPS-6")
def test_false_is_a_value(helm: Helm, is_on: bool) -> None:
    given = {f"settings.{name}": is_on for name in BOOLEANS}
    found = environment(helm.template({**AWS, **given}))

    text = "true" if is_on else "false"
    assert {"ignoreDRARequests", "isolatedVPC", "disableDryRun", "earlyBinding"} <= BOOLEANS.keys()
    assert dict.fromkeys(map(variable_of, BOOLEANS), text) == {
        variable_of(name): found[variable_of(name)] for name in BOOLEANS
    }


def test_settings_of_aws_are_left_out_elsewhere(helm: Helm) -> None:
    found = environment(helm.template({"settings.provider": "kwok", **AWS}))

    ours = {variable_of(name) for name, is_of_aws in BOOLEANS.items() if is_of_aws}
    assert set() == (ours | {"CLUSTER_NAME", "RESERVED_ENIS", "AWS_FEATURE_GATES"}) & found.keys()


@pytest.mark.case("OPS-7")
def test_a_gate_that_is_set_is_the_only_one_that_is_rendered(helm: Helm) -> None:
    found = environment(helm.template({"settings.featureGates": {"nodeOverlay": True}}))

    assert "NodeOverlay=true" == found["FEATURE_GATES"]
    assert {**DEFAULT_GATES, "NodeOverlay": True} == from_environment(found).feature_gates.gates


def test_a_gate_may_be_switched_off(helm: Helm) -> None:
    found = environment(helm.template({"settings.featureGates": {"reservedCapacity": False}}))

    assert {**DEFAULT_GATES, "ReservedCapacity": False} == from_environment(
        found
    ).feature_gates.gates


def test_all_gates_may_be_on(helm: Helm) -> None:
    gates = {name[0].lower() + name[1:]: True for name in DEFAULT_GATES}
    found = environment(helm.template({"settings.featureGates": gates}))

    assert dict.fromkeys(DEFAULT_GATES, True) == from_environment(found).feature_gates.gates


def test_a_gate_of_aws_is_a_gate_of_aws(helm: Helm) -> None:
    rendered = helm.template({**AWS, "settings.awsFeatureGates": {"nodeClassCEL": True}})

    assert replace(AwsSettings("demo"), node_class_cel=True) == read_both(rendered)[1]


@pytest.mark.case("OPS-8")
def test_the_provider_aws_needs_the_name_of_the_cluster(helm: Helm) -> None:
    said = helm.refusal({"settings.provider": "aws"})

    assert "settings.clusterName is missing" in said
    assert 1 == len([line for line in said.splitlines() if line.startswith("Error")])
    assert "kwok" == environment(helm.template({"settings.provider": "kwok"}))["CLOUD_PROVIDER"]


def test_names_may_be_templates(helm: Helm) -> None:
    given = {"global": {"cluster": "demo"}, "settings.clusterName": "{{ .Values.global.cluster }}"}

    assert "demo" == environment(helm.template(given))["CLUSTER_NAME"]


@pytest.mark.parametrize(
    ("values", "path"),
    [
        pytest.param(
            {"settings.ignoreDRArequests": False}, "ignoreDRArequests", id="OPS-4 misspelt"
        ),
        pytest.param({"replicas": "2"}, "/replicas", id="OPS-4 text for a number"),
        pytest.param({"replica": 2}, "'replica'", id="OPS-4 unknown at the root"),
        pytest.param(
            {"settings.featureGates.nodeOverlays": True}, "nodeOverlays", id="OPS-4 a gate"
        ),
        pytest.param(
            {"settings.featureGates.nodeOverlay": "on"}, "/nodeOverlay", id="OPS-4 no boolean"
        ),
        pytest.param(
            {"settings.preferencePolicy": "Maybe"}, "/preferencePolicy", id="OPS-4 no choice"
        ),
        pytest.param({"controller.metrics.port": 0}, "/port", id="OPS-4 no port"),
    ],
)
def test_values_that_cannot_be_right_are_refused_by_name(
    helm: Helm, values: Json, path: str
) -> None:
    said = helm.refusal(values)

    assert "values don't meet the specifications of the schema" in said
    assert path in said


@pytest.mark.row("S2-52")
def test_an_impossible_log_level_is_refused_by_chart_and_program(helm: Helm) -> None:
    assert "/logLevel" in helm.refusal({"logLevel": "loud"})
    assert "debug" == environment(helm.template({"logLevel": "debug"}))["LOG_LEVEL"]
    around = {"controller.env": [{"name": "LOG_FORMAT", "value": "loud"}]}
    with pytest.raises(SettingError, match="LOG_FORMAT"):
        from_environment(environment(helm.template(around)))
    with pytest.raises(SettingError, match="LOG_LEVEL: 'loud' is none of the choices"):
        from_environment({"LOG_LEVEL": "loud"})


@pytest.mark.case("OPS-5")
def test_the_chart_may_be_a_dependency(helm: Helm, tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "karpenter").symlink_to(MAIN)
    (tmp_path / "Chart.yaml").write_text(
        "apiVersion: v2\nname: platform\nversion: 1.0.0\ndependencies:\n"
        "- {name: karpenter, version: '*', repository: 'file://charts/karpenter', condition: karpenter.enabled}\n"
    )
    (tmp_path / "values.yaml").write_text(
        "global: {region: north}\nkarpenter: {enabled: true, replicas: 3, global: {}}\n"
    )
    rendered = read(helm("template", "platform", tmp_path))
    assert 3 == of_kind(rendered, "Deployment")["spec"]["replicas"]
    assert "platform-karpenter" == of_kind(rendered, "Deployment")["metadata"]["name"]
    assert [] == read(helm("template", "platform", tmp_path, "--set", "karpenter.enabled=false"))


@pytest.mark.case("OPS-18")
@pytest.mark.parametrize(
    ("values", "role"),
    [
        ({"settings.ignoreDRARequests": False}, "devices"),
        ({"rbac.devices": True}, "devices"),
        ({"controller.dashboard.enabled": True}, "dashboard-kinds"),
        ({"rbac.earlyBinding": True}, "early-binding"),
        ({"rbac.legacyKinds": True}, "legacy-kinds"),
        ({"settings.featureGates.nodeOverlay": True}, "node-overlay"),
        ({"settings.featureGates.capacityBuffer": True}, "capacity-buffer"),
        ({"settings.featureGates.podDeletionCostManagement": True}, "pod-deletion-cost"),
        ({"settings.featureGates.nodeRepair": True}, "node-repair-kwok"),
    ],
)
def test_an_optional_role_is_there_when_it_is_wanted(helm: Helm, values: Json, role: str) -> None:
    default = {"karpenter", "karpenter-core"}

    assert default == role_names(helm.template())
    assert default | {f"karpenter-{role}"} == role_names(helm.template(values))
    assert set() == role_names(helm.template({**values, "rbac.create": False}))


def test_roles_of_the_provider_are_those_of_the_one_that_is_used(helm: Helm) -> None:
    legacy: dict[str, Any] = {
        **AWS,
        "rbac.legacyKinds": True,
        "settings.featureGates.nodeRepair": True,
    }

    assert {"karpenter-core", "karpenter-aws"} == role_names(helm.template(AWS))
    assert {"karpenter-core"} == role_names(helm.template({"settings.provider": "machines"}))
    assert {
        *("karpenter-core", "karpenter-aws"),
        *("karpenter-legacy-kinds", "karpenter-aws-legacy-kinds"),
    } == role_names(helm.template(legacy))
