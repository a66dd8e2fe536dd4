"""The webhook in both charts: off unless asked for, and then with everything it needs."""

from typing import Any

import pytest

from charts import CRDS, MAIN, render
from helpers.helm import Helm

Json = dict[str, Any]


def rendered(helm: Helm, *settings: str) -> dict[tuple[str, str], Json]:
    found = render(helm.program, MAIN, *settings)
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def environment(objects: dict[tuple[str, str], Json]) -> dict[str, str]:
    pod = objects["Deployment", "karpenter"]["spec"]["template"]["spec"]
    return {each["name"]: each.get("value", "") for each in pod["containers"][0]["env"]}


def test_nothing_of_it_is_there_by_default(helm: Helm) -> None:
    objects = rendered(helm)

    assert [name for _, name in objects if "webhook" in name] == []
    assert [name for name in environment(objects) if "WEBHOOK" in name] == []


def test_everything_is_there_when_it_is_on(helm: Helm) -> None:
    objects = rendered(helm, "webhook.enabled=true", "webhook.port=9443")

    service = objects["Service", "karpenter-webhook"]["spec"]
    assert service["publishNotReadyAddresses"] is True
    assert [(each["port"], each["targetPort"]) for each in service["ports"]] == [(443, 9443)]
    assert "data" not in objects["Secret", "karpenter-webhook-cert"]
    found = environment(objects)
    assert (found["WEBHOOK_PORT"], found["KARPENTER_SERVICE"], found["WEBHOOK_CERTIFICATES"]) == (
        "9443",
        "karpenter-webhook",
        "own",
    )
    for kind, name in (
        ("MutatingWebhookConfiguration", "defaulting.webhook.karpenter.sh"),
        ("ValidatingWebhookConfiguration", "validation.webhook.karpenter.sh"),
    ):
        (webhook,) = objects[kind, name]["webhooks"]
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 5)


def test_cert_manager_takes_the_place_of_the_secret_and_of_the_rights(helm: Helm) -> None:
    objects = rendered(helm, "webhook.enabled=true", "webhook.certManager.enabled=true")

    assert ("Secret", "karpenter-webhook-cert") not in objects
    assert ("ClusterRole", "karpenter-webhook") not in objects
    certificate = objects["Certificate", "karpenter-webhook"]["spec"]
    assert certificate["secretName"] == "karpenter-webhook-cert"
    assert certificate["dnsNames"] == ["karpenter-webhook.kube-system.svc"]
    (rule,) = objects["Role", "karpenter-webhook"]["rules"]
    assert rule["verbs"] == ["get"]
    configuration = objects["ValidatingWebhookConfiguration", "validation.webhook.karpenter.sh"]
    assert configuration["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "kube-system/karpenter-webhook"
    }
    assert environment(objects)["WEBHOOK_CERTIFICATES"] == "external"


def test_a_network_policy_lets_the_api_server_in(helm: Helm) -> None:
    objects = rendered(helm, "webhook.enabled=true", "networkPolicy.enabled=true")

    (ingress,) = objects["NetworkPolicy", "karpenter"]["spec"]["ingress"]
    assert 8443 in [each["port"] for each in ingress["ports"]]


@pytest.mark.parametrize("is_on", [False, True])
def test_definitions_convert_only_when_they_are_told_to(helm: Helm, is_on: bool) -> None:
    settings = ("webhook.enabled=true", "webhook.namespace=nodes") if is_on else ()
    crds = {each["metadata"]["name"]: each for each in render(helm.program, CRDS, *settings)}

    services = {
        name: crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
        for name, crd in crds.items()
        if "conversion" in crd["spec"]
    }
    wanted = {
        "nodepools.karpenter.sh": "/convert/karpenter.sh",
        "nodeclaims.karpenter.sh": "/convert/karpenter.sh",
        "ec2nodeclasses.karpenter.k8s.aws": "/convert/karpenter.k8s.aws",
    }
    assert {name: each["path"] for name, each in services.items()} == (wanted if is_on else {})
    assert {each["namespace"] for each in services.values()} == ({"nodes"} if is_on else set())
