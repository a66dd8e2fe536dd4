"""Every family boots with what the cluster, the claim and the user say, merged as documented."""

import email
import tomllib
from typing import Any

import pytest
import yaml

from karpenter.api.nodes import Taint
from karpenter.cloud.aws.images.families import FAMILIES
from karpenter.cloud.aws.images.user_data.bottlerocket import toml_text
from karpenter.cloud.aws.images.user_data.inputs import (
    BootInputs,
    UserDataError,
    boot_labels,
    boot_taints,
)
from karpenter.cloud.aws.images.user_data.render import render
from karpenter.cloud.provider import NodeClassNotReadyError
from karpenter.model import labels

LABELS = {"karpenter.sh/capacity-type": "spot", "team": "blue"}
TAINTS = (
    Taint(key="dedicated", value="gpu", effect="NoSchedule"),
    Taint(key="karpenter.sh/unregistered", effect="NoExecute"),
)
KUBELET: dict[str, Any] = {
    "maxPods": 58,
    "podsPerCore": 4,
    "systemReserved": {"memory": "100Mi", "cpu": "100m"},
    "kubeReserved": {"cpu": "120m"},
    "evictionHard": {"memory.available": "5%"},
    "evictionSoft": {"nodefs.available": "10%"},
    "evictionSoftGracePeriod": {"nodefs.available": "2m"},
    "evictionMaxPodGracePeriod": 60,
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "cpuCFSQuota": False,
}
FLAGS = (
    '--node-labels="karpenter.sh/capacity-type=spot,team=blue"'
    ' --register-with-taints="dedicated=gpu:NoSchedule,karpenter.sh/unregistered:NoExecute"'
    " --max-pods=58 --pods-per-core=4"
    ' --system-reserved="cpu=100m,memory=100Mi" --kube-reserved="cpu=120m"'
    ' --eviction-hard="memory.available<5%" --eviction-soft="nodefs.available<10%"'
    ' --eviction-soft-grace-period="nodefs.available=2m" --eviction-max-pod-grace-period=60'
    " --image-gc-high-threshold=85 --image-gc-low-threshold=80 --cpu-cfs-quota=false"
)
ARCHIVE = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/cloud-config; charset="us-ascii"

packages: [jq]
--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
From here on
--BOUNDARY--
"""


def inputs(**changes: Any) -> BootInputs:
    usual: dict[str, Any] = {
        "cluster_name": "demo",
        "endpoint": "https://demo.example",
        "ca_bundle": "Zm9v",
        "cluster_dns": "10.100.0.10",
        "service_cidr": "10.100.0.0/16",
        "kubelet": KUBELET,
        "labels": LABELS,
        "taints": TAINTS,
    }
    return BootInputs(**(usual | changes))


def boot(family: str, **changes: Any) -> str:
    return render(FAMILIES[family], inputs(**changes)).text


def parts(text: str) -> list[tuple[str, str]]:
    """Content type and body of each part, read by an independent parser."""
    message = email.message_from_string(text)
    assert message.is_multipart()
    found = []
    for part in message.get_payload():
        assert isinstance(part, email.message.Message)
        payload = part.get_payload()
        assert isinstance(payload, str)
        found.append((part.get_content_type(), payload))
    return found


@pytest.mark.case("AWS-105")
@pytest.mark.row("S2-28")
def test_al2_puts_the_users_script_first_and_its_own_last() -> None:
    text = boot("AL2", user_data="#!/bin/bash\necho mine\n")

    (first, mine), (second, ours) = parts(text)
    assert ("text/x-shellscript", "text/x-shellscript") == (first, second)
    assert "echo mine" in mine
    assert "--use-max-pods false" in ours
    assert f"--kubelet-extra-args '{FLAGS}'" in ours
    assert "\r" not in text


@pytest.mark.row("S1-22", "S1-24", "S1-25", "S1-27", "S1-29")
def test_al2_calls_the_bootstrap_script_with_arguments_in_order() -> None:
    ((_, ours),) = parts(boot("AL2", is_raid0=True))

    words = [line.removesuffix(" \\") for line in ours.splitlines()[2:]]
    assert [
        "/etc/eks/bootstrap.sh 'demo'",
        "--apiserver-endpoint 'https://demo.example'",
        "--b64-cluster-ca 'Zm9v'",
        "--dns-cluster-ip '10.100.0.10'",
        "--use-max-pods false",
        f"--kubelet-extra-args '{FLAGS}'",
        "--local-disks raid0",
    ] == words
    assert ours.startswith("#!/bin/bash -xe\n")
    assert "/var/log/user-data.log" in ours


@pytest.mark.parametrize(
    ("dns", "kubelet", "expected", "absent"),
    [
        pytest.param(
            "10.1.0.10",
            {"clusterDNS": ["10.0.1.100"]},
            "--dns-cluster-ip '10.0.1.100'",
            "--ip-family",
            id="the kubelet's own address goes before the cluster's",
        ),
        pytest.param(
            "fd00::a", {}, "--ip-family ipv6", "--use-max-pods", id="IPv6 is told by the address"
        ),
        pytest.param("", {}, "bootstrap.sh 'demo'", "--dns-cluster-ip", id="no address at all"),
    ],
)
def test_al2_addresses(dns: str, kubelet: dict[str, Any], expected: str, absent: str) -> None:
    text = boot("AL2", cluster_dns=dns, kubelet=kubelet)

    assert expected in text
    assert absent not in text


@pytest.mark.parametrize(
    ("dns", "services", "chosen", "expected"),
    [
        pytest.param("fd00::a", "fd00::/108", [], True, id="an IPv6 cluster"),
        pytest.param("10.100.0.10", "10.100.0.0/16", [], False, id="an IPv4 cluster"),
        pytest.param("", "fd00::/108", [], True, id="DNS under another name, IPv6"),
        pytest.param("", "10.100.0.0/16", [], False, id="DNS under another name, IPv4"),
        pytest.param("fd00::a", "", ["169.254.20.10"], True, id="a cache on the node, IPv6"),
        pytest.param("10.100.0.10", "", ["fd00::53"], False, id="a cache on the node, IPv4"),
        pytest.param("", "fd00::/108", ["169.254.20.10"], True, id="both of these, IPv6"),
        pytest.param("", "10.100.0.0/16", ["fd00::53"], False, id="both of these, IPv4"),
        pytest.param("", "", ["fd00::53"], True, id="nothing else is known"),
        pytest.param("", "", [], False, id="nothing is known"),
    ],
)
def test_ipv6_is_told_by_the_cluster_before_what_a_class_chose_for_dns(
    dns: str, services: str, chosen: list[str], expected: bool
) -> None:
    found = inputs(cluster_dns=dns, service_cidr=services, kubelet={"clusterDNS": chosen})

    assert expected == found.is_ipv6


@pytest.mark.case("AWS-106")
@pytest.mark.parametrize("family", ["AL2", "AL2023"])
def test_the_parts_of_an_archive_are_kept_in_order(family: str) -> None:
    found = parts(boot(family, user_data=ARCHIVE))

    assert ["text/cloud-config", "text/x-shellscript"] == [kind for kind, _ in found[:2]]
    assert "packages: [jq]" == found[0][1].strip()
    assert "From here on" in found[1][1]
    assert 3 == len(found)


@pytest.mark.case("AWS-106")
@pytest.mark.parametrize(
    ("user_data", "first"),
    [
        pytest.param("apiVersion: node.eks.aws/v1alpha1\n", "application/node.eks.aws", id="YAML"),
        pytest.param("#!/bin/bash\necho hi\n", "text/x-shellscript", id="a script"),
        pytest.param("key: [unclosed", "text/x-shellscript", id="what is no YAML either"),
        pytest.param("just words", "text/x-shellscript", id="YAML that is no mapping"),
    ],
)
def test_al2023_tells_configuration_from_scripts(user_data: str, first: str) -> None:
    found = parts(boot("AL2023", user_data=user_data))

    assert [first, "application/node.eks.aws"] == [kind for kind, _ in found]


@pytest.mark.case("AWS-23")
def test_al2023_passes_every_kubelet_setting_on() -> None:
    kubelet = {"registryPullQPS": 10, "clusterDNS": ["10.0.0.1", "10.0.0.2"], "maxPods": 29}
    ((_, text),) = parts(boot("AL2023", kubelet=kubelet, is_raid0=True))

    config = yaml.safe_load(text)
    assert "node.eks.aws/v1alpha1" == config["apiVersion"]
    assert {
        "name": "demo",
        "apiServerEndpoint": "https://demo.example",
        "certificateAuthority": "Zm9v",
        "cidr": "10.100.0.0/16",
    } == config["spec"]["cluster"]
    assert {
        "registryPullQPS": 10,
        "clusterDNS": ["10.0.0.1", "10.0.0.2"],
        "maxPods": 29,
        "registerWithTaints": [
            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
            {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
        ],
    } == config["spec"]["kubelet"]["config"]
    assert ['--node-labels="karpenter.sh/capacity-type=spot,team=blue"'] == config["spec"][
        "kubelet"
    ]["flags"]
    assert {"localStorage": {"strategy": "RAID0"}} == config["spec"]["instance"]
    assert text.startswith("#")


@pytest.mark.case("AWS-107")
def test_al2023_waits_for_the_service_network() -> None:
    with pytest.raises(NodeClassNotReadyError, match="service network"):
        boot("AL2023", service_cidr="")


@pytest.mark.parametrize(
    ("family", "user_data", "why"),
    [
        pytest.param("AL2", "Content-Type: text/plain\n\nhello", "multipart", id="one part only"),
        pytest.param("AL2", "MIME-Version: 1.0\n", "multipart", id="headers and nothing else"),
        pytest.param("AL2", "echo\n--//\n", "may begin with", id="the separator of parts"),
        pytest.param("Bottlerocket", "not = [toml", "must be TOML", id="AWS-108 bad TOML"),
        pytest.param("Bottlerocket", "settings = 3", "must be a table", id="AWS-108 no table"),
    ],
)
def test_user_data_that_cannot_be_merged_is_refused_in_one_sentence(
    family: str, user_data: str, why: str
) -> None:
    with pytest.raises(UserDataError, match=why):
        boot(family, user_data=user_data)


@pytest.mark.case("AWS-108")
def test_bottlerocket_keeps_what_is_the_users_and_overwrites_what_is_ours() -> None:
    mine = """
    [settings.kubernetes]
    cluster-name = "other"
    log-level = 4
    no-such-setting = true
    [settings.kubernetes.node-labels]
    team = "red"
    "example.com/kept" = "yes"
    [settings.kubernetes.node-taints]
    mine = ["x:NoSchedule"]
    [settings.host-containers.admin]
    enabled = true
    """
    rendered = render(FAMILIES["Bottlerocket"], inputs(user_data=mine))

    settings = tomllib.loads(rendered.text)["settings"]
    kubernetes = settings["kubernetes"]
    assert {"enabled": True} == settings["host-containers"]["admin"]
    assert ("settings.kubernetes.no-such-setting",) == rendered.ignored
    assert "no-such-setting" not in kubernetes
    assert {**LABELS, "example.com/kept": "yes"} == kubernetes["node-labels"]
    assert {
        "dedicated": ["gpu:NoSchedule"],
        "karpenter.sh/unregistered": [":NoExecute"],
    } == kubernetes["node-taints"]
    assert ("demo", 4, 58, "10.100.0.10") == (
        kubernetes["cluster-name"],
        kubernetes["log-level"],
        kubernetes["max-pods"],
        kubernetes["cluster-dns-ip"],
    )
    assert ("85", "80", False) == (
        kubernetes["image-gc-high-threshold-percent"],
        kubernetes["image-gc-low-threshold-percent"],
        kubernetes["cpu-cfs-quota-enforced"],
    )
    assert {"memory.available": "5%"} == kubernetes["eviction-hard"]


@pytest.mark.case("AWS-109")
@pytest.mark.parametrize(
    ("version", "has_directories"),
    [
        pytest.param("v1.45.0", True, id="before 1.46 directories are named"),
        pytest.param("1.46.0", False, id="from 1.46 on they are known"),
        pytest.param("v2.0.1", False, id="so they are in 2.0"),
        pytest.param("latest", False, id="and in the latest"),
        pytest.param("", True, id="nobody knows the version"),
        pytest.param("odd", True, id="nobody can read the version"),
    ],
)
def test_bottlerocket_mounts_instance_storage(version: str, has_directories: bool) -> None:
    text = boot("Bottlerocket", is_raid0=True, image_version=version)

    commands = tomllib.loads(text)["settings"]["bootstrap-commands"]
    mount = commands["000-mount-instance-storage"]
    assert ("always", True) == (mount["mode"], mount["essential"])
    assert ["apiclient", "ephemeral-storage", "init"] == mount["commands"][0]
    assert has_directories == ("/var/lib/kubelet" in mount["commands"][1])


@pytest.mark.case("AWS-110")
def test_windows_wraps_everything_in_powershell() -> None:
    text = boot("Windows2022", user_data="Write-Host hi\n")

    assert text.startswith("<powershell>\nWrite-Host hi\n")
    assert text.endswith("</powershell>\n")
    assert "-EKSClusterName 'demo' -APIServerEndpoint 'https://demo.example'" in text
    assert f"-Base64ClusterCA 'Zm9v' -KubeletExtraArgs '{FLAGS}' -DNSClusterIP" in text


@pytest.mark.case("AWS-111")
def test_a_custom_image_gets_exactly_what_the_user_wrote() -> None:
    mine = "anything\r\nat all\x00"

    assert mine == boot("Custom", user_data=mine)


@pytest.mark.case("AWS-112")
@pytest.mark.parametrize("family", ["AL2", "AL2023", "Bottlerocket", "Windows2022"])
def test_kubelets_do_not_label_themselves_in_reserved_domains(family: str) -> None:
    claimed = {
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "a",
        "node-restriction.kubernetes.io/x": "y",
        "x.k8s.io/y": "z",
        "topology.k8s.aws/zone-id": "usw2-az1",
        "team": "blue",
    }
    held = boot_labels(claimed, capacity_type="spot", syncs=False)
    text = boot(family, labels=held)

    assert {
        labels.CAPACITY_TYPE: "spot",
        labels.DO_NOT_SYNC_TAINTS: "true",
        "topology.k8s.aws/zone-id": "usw2-az1",
        "team": "blue",
    } == held
    assert "kubernetes.io/arch" not in text
    assert "do-not-sync-taints" in text


@pytest.mark.case("AWS-112")
def test_taints_of_custom_images_are_synced() -> None:
    assert labels.DO_NOT_SYNC_TAINTS not in boot_labels({}, capacity_type="spot", syncs=True)


def test_the_taint_that_keeps_pods_away_is_added_once() -> None:
    unregistered = Taint(key=labels.UNREGISTERED, effect="NoExecute")
    other = Taint(key="b", effect="NoSchedule")

    assert (other, unregistered) == boot_taints([other], [unregistered])
    assert (other, unregistered) == boot_taints([], [other])


@pytest.mark.parametrize(
    "document",
    [
        {"a": 1, "b": {"c": True, "d": {"e": "f"}}, "list": [1, 2.5, "x"]},
        {"a b": {'quote"d': 'va\\l"ue\n\t\x01'}},
        {"empty": {}},
        {"mixed": [["a", "b"], [{"k": "v"}]]},
    ],
)
def test_toml_is_read_back_as_it_was_written(document: dict[str, Any]) -> None:
    assert document == tomllib.loads(toml_text(document))
