"""The chart's values for decision records and notifications, as the program reads them."""

import pytest

from helpers.helm import Helm, all_of_kind, container, environment, of_kind, pod_spec
from karpenter.notifications.config import parse_config

SINK = {"name": "platform", "type": "slack", "urlFile": "/etc/karpenter/notifications/slack"}
CONFIG = {"sinks": [{**SINK, "match": {"kinds": ["Disrupt"]}, "template": "{{ text }}"}]}


def test_without_them_nothing_is_mounted(helm: Helm) -> None:
    rendered = helm.template()

    assert [] == all_of_kind(rendered, "ConfigMap")
    assert {"DECISION_LOG", "NOTIFICATIONS_CONFIG"}.isdisjoint(environment(rendered))
    assert "volumes" not in pod_spec(rendered)
    assert "volumeMounts" not in container(rendered)


def test_the_configuration_arrives_where_the_controller_looks_for_it(helm: Helm) -> None:
    rendered = helm.template(
        {"notifications.config": CONFIG, "notifications.existingSecret": "addresses"}
    )
    config, spec = of_kind(rendered, "ConfigMap"), pod_spec(rendered)

    (name, text), *_ = config["data"].items()
    assert ["platform"] == [sink.name for sink in parse_config(text.encode(), name).sinks]
    assert environment(rendered)["NOTIFICATIONS_CONFIG"].endswith(f"/{name}")
    volumes = {each["name"]: each for each in spec["volumes"]}
    mounts = {each["mountPath"]: each for each in container(rendered)["volumeMounts"]}
    folder = environment(rendered)["NOTIFICATIONS_CONFIG"].removesuffix(f"/{name}")
    assert config["metadata"]["name"] == volumes[mounts[folder]["name"]]["configMap"]["name"]
    secrets = volumes[mounts["/etc/karpenter/notifications"]["name"]]["secret"]
    assert "addresses" == secrets["secretName"]
    assert all(mount["readOnly"] for mount in mounts.values())


def test_volumes_of_ones_own_stay_beside_them(helm: Helm) -> None:
    own = {"name": "logs", "emptyDir": {}}
    mount = {"name": "logs", "mountPath": "/var/log/karpenter"}
    rendered = helm.template(
        {
            "extraVolumes": [own],
            "controller.extraVolumeMounts": [mount],
            "settings.decisionLog": "/var/log/karpenter/decisions",
            "notifications.config": CONFIG,
        }
    )

    assert "/var/log/karpenter/decisions" == environment(rendered)["DECISION_LOG"]
    assert own in pod_spec(rendered)["volumes"]
    assert mount in container(rendered)["volumeMounts"]
    assert 2 == len(pod_spec(rendered)["volumes"])


@pytest.mark.parametrize("values", [{"notifications.config": "text"}, {"notifications.sinks": []}])
def test_other_values_are_refused(helm: Helm, values: dict[str, object]) -> None:
    assert "notifications" in helm.refusal(values)
