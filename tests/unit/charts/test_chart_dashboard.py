"""The dashboard in the chart: off unless asked for, and then read-only, with a token and by name."""

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from charts import MAIN, render
from helpers.helm import Helm
from helpers.rights import INSTALL, documents

Json = dict[str, Any]
NAME = "karpenter-dashboard"
COMMANDS = Path(__file__).resolve().parents[2] / "surfaces" / "commands.txt"
ON = "dashboard.enabled=true"
BESIDE = "controller.dashboard.enabled=true"
EVERYTHING = (
    ON,
    "dashboard.port=9000",
    "dashboard.allowedHosts={karpenter.example.com}",
    "dashboard.tokenSecret=ours",
    "dashboard.tlsSecret=ours-tls",
    "dashboard.namespaces={shop,payments}",
    "dashboard.redact=true",
    "dashboard.extraArgs={--set=PREFERENCE_POLICY=Ignore}",
    "dashboard.serviceAccount.annotations.role=reader",
    "dashboard.resources.requests.cpu=100m",
    "settings.clusterName=demo",
    "networkPolicy.enabled=true",
)


def rendered(helm: Helm, *settings: str) -> dict[tuple[str, str], Json]:
    """The objects of the chart by kind and name."""
    found = render(helm.program, MAIN, *settings)
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod_of(objects: dict[tuple[str, str], Json], name: str = NAME) -> Json:
    """The template of a Deployment's pods."""
    template: Json = objects["Deployment", name]["spec"]["template"]
    return template


def options_of(objects: dict[tuple[str, str], Json]) -> list[str]:
    """The arguments of the dashboard."""
    (container,) = pod_of(objects)["spec"]["containers"]
    command, *options = container["args"]
    assert command == "dashboard"
    return [str(option) for option in options]


def test_nothing_of_it_is_there_by_default(helm: Helm) -> None:
    assert [name for _, name in rendered(helm) if "dashboard" in name] == []


def test_everything_it_needs_is_there_when_it_is_on(helm: Helm) -> None:
    objects = rendered(helm, ON)

    kinds = {kind for kind, name in objects if name.startswith(NAME)}
    assert kinds == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Secret", "Service", "Deployment")
    }
    assert options_of(objects) == [
        "--host=0.0.0.0",
        "--port=8765",
        "--token-file=/etc/karpenter-dashboard/token/token",
        f"--allow-host={NAME}",
        f"--allow-host={NAME}.kube-system.svc",
    ]
    token = b64decode(objects["Secret", f"{NAME}-token"]["data"]["token"]).decode()
    assert len(token) >= 32
    assert token.isalnum()
    spec = pod_of(objects)["spec"]
    assert spec["serviceAccountName"] == NAME
    (volume,) = spec["volumes"]
    assert volume["secret"] == {"secretName": f"{NAME}-token"}
    # The server refuses other names than those it was told, and the address of a pod is one
    for probe in ("livenessProbe", "readinessProbe"):
        request = spec["containers"][0][probe]["httpGet"]
        assert request["path"] == "/healthz"
        assert request["httpHeaders"] == [{"name": "Host", "value": "localhost"}]


def test_every_value_arrives(helm: Helm) -> None:
    objects = rendered(helm, *EVERYTHING)

    assert options_of(objects)[1:] == [
        "--port=9000",
        "--token-file=/etc/karpenter-dashboard/token/token",
        f"--allow-host={NAME}",
        f"--allow-host={NAME}.kube-system.svc",
        "--allow-host=karpenter.example.com",
        "--tls-cert=/etc/karpenter-dashboard/tls/tls.crt",
        "--tls-key=/etc/karpenter-dashboard/tls/tls.key",
        "--namespaces=shop,payments",
        "--redact",
        "--set=PREFERENCE_POLICY=Ignore",
    ]
    assert ("Secret", f"{NAME}-token") not in objects
    spec = pod_of(objects)["spec"]
    assert [each["secret"]["secretName"] for each in spec["volumes"]] == ["ours", "ours-tls"]
    (container,) = spec["containers"]
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "CLOUD_PROVIDER": "aws",
        "CLUSTER_NAME": "demo",
    }
    assert container["resources"] == {"requests": {"cpu": "100m"}}
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    account = objects["ServiceAccount", NAME]["metadata"]
    assert account["annotations"] == {"role": "reader"}
    policy = objects["NetworkPolicy", NAME]["spec"]
    assert policy["ingress"] == [{"ports": [{"port": 9000, "protocol": "TCP"}]}]
    assert policy["egress"] == objects["NetworkPolicy", "karpenter"]["spec"]["egress"]


def test_the_program_has_the_options_that_it_is_given(helm: Helm) -> None:
    known = set(COMMANDS.read_text("utf-8").splitlines())
    for option in options_of(rendered(helm, *EVERYTHING)):
        name, equals, _ = option.partition("=")
        assert f"karpenter dashboard {name}  {'value' if equals else 'flag'}" in known


def test_its_pods_are_not_those_of_the_controller(helm: Helm) -> None:
    objects = rendered(helm, ON, "networkPolicy.enabled=true")
    labels = {name: pod_of(objects, name)["metadata"]["labels"] for name in ("karpenter", NAME)}

    selectors = {
        name: each["spec"]["selector"]
        for (kind, name), each in objects.items()
        if kind == "Service"
    }
    assert selectors.keys() == labels.keys()
    for name, selector in selectors.items():
        other = ({*labels} - {name}).pop()
        assert selector.items() <= labels[name].items()
        assert not selector.items() <= labels[other].items()
    budget = objects["PodDisruptionBudget", "karpenter"]["spec"]["selector"]["matchLabels"]
    assert not budget.items() <= labels[NAME].items()


def test_it_asks_for_nothing_that_is_restricted(helm: Helm) -> None:
    objects = rendered(helm, ON)
    spec, controller = pod_of(objects)["spec"], pod_of(objects, "karpenter")["spec"]

    assert spec["securityContext"] == controller["securityContext"]
    (container,) = spec["containers"]
    context = container["securityContext"]
    assert context.items() <= controller["containers"][0]["securityContext"].items()
    assert context["readOnlyRootFilesystem"] is True


@pytest.mark.case("DASH-37")
def test_its_role_is_the_viewers_and_may_be_left_to_others(helm: Helm) -> None:
    (role,) = [each for each in documents(INSTALL / "rbac-viewer.yaml") if "rules" in each]
    assert rendered(helm, ON)["ClusterRole", NAME]["rules"] == role["rules"]

    without = rendered(helm, ON, "rbac.create=false")
    assert ("ClusterRole", NAME) not in without
    assert ("ServiceAccount", NAME) in without


def test_names_are_short_enough_for_labels(helm: Helm) -> None:
    objects = rendered(helm, ON, f"fullnameOverride={'x' * 70}", f"nameOverride={'y' * 70}")
    names = [name for kind, name in objects if kind == "Service"]
    assert all(len(name) <= 63 for name in names)
    (name,) = [name for name in names if name.endswith("-dashboard")]
    labels = pod_of(objects, name)["metadata"]["labels"]
    assert all(len(value) <= 63 for value in labels.values())


def controller_of(objects: dict[tuple[str, str], Json]) -> tuple[Json, Json]:
    """The pod of the controllers, and its container."""
    spec = pod_of(objects, "karpenter")["spec"]
    (container,) = spec["containers"]
    return spec, container


def test_the_controllers_serve_it_on_loopback_with_a_token_of_a_secret(helm: Helm) -> None:
    objects = rendered(helm, BESIDE, "controller.dashboard.port=9000")

    added = objects.keys() - rendered(helm).keys()
    name = "karpenter-dashboard-kinds"
    assert added == {
        ("Secret", "karpenter-controller-dashboard"),
        ("ClusterRole", name),
        ("ClusterRoleBinding", name),
    }
    token = b64decode(objects["Secret", "karpenter-controller-dashboard"]["data"]["token"]).decode()
    assert len(token) >= 32
    spec, container = controller_of(objects)
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["DASHBOARD_PORT"] == "9000"
    assert variables["DASHBOARD_TOKEN_FILE"] == "/etc/karpenter-dashboard/token/token"
    assert "DASHBOARD_HOST" not in variables
    assert container["volumeMounts"] == [
        {"name": "dashboard-token", "mountPath": "/etc/karpenter-dashboard/token", "readOnly": True}
    ]
    (volume,) = spec["volumes"]
    assert volume["secret"]["secretName"] == "karpenter-controller-dashboard"
    assert "Service" not in {kind for kind, _ in added}


def test_the_token_of_the_controllers_may_be_one_that_is_there_already(helm: Helm) -> None:
    objects = rendered(helm, BESIDE, "controller.dashboard.tokenSecret=ours", "rbac.create=false")

    spec, _ = controller_of(objects)
    assert spec["volumes"][0]["secret"]["secretName"] == "ours"
    assert objects.keys() == rendered(helm, "rbac.create=false").keys()


def test_both_dashboards_have_tokens_of_their_own(helm: Helm) -> None:
    objects = rendered(helm, ON, BESIDE)

    assert {name for kind, name in objects if kind == "Secret"} == {
        "karpenter-controller-dashboard",
        "karpenter-dashboard-token",
    }
