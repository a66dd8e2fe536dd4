"""Which node classes are admitted, case by case."""

from typing import Any

import pytest

from karpenter.admission.check import check

SUBNETS = [{"tags": {"karpenter.sh/discovery": "demo"}}]
USUAL = {
    "role": "NodeRole",
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": SUBNETS,
    "securityGroupSelectorTerms": SUBNETS,
}


def admitted(**spec: Any) -> tuple[list[str], dict[str, Any]]:
    """The errors, and the spec as it would be stored; a field given as None is left away."""
    body = {key: value for key, value in {**USUAL, **spec}.items() if value is not None}
    checked = check(
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default"},
            "spec": body,
        }
    )
    return [str(error) for error in checked.errors], checked.object["spec"]


def images(*terms: dict[str, Any], family: str | None = "AL2023") -> dict[str, Any]:
    return {"amiSelectorTerms": list(terms), "amiFamily": family}


def alias(text: str, family: str | None = None) -> dict[str, Any]:
    return images({"alias": text}, family=family)


def disk(**ebs: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]}


def interfaces(*pairs: tuple[int, int, str]) -> dict[str, Any]:
    return {
        "networkInterfaces": [
            {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}
            for card, device, kind in pairs
        ]
    }


def reservation(**term: Any) -> dict[str, Any]:
    return {"capacityReservationSelectorTerms": [term]}


ROOT = {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"volumeSize": "20Gi"}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"instanceProfile": "theirs"}, id="AWS-1 role and profile"),
        pytest.param({"role": None}, id="AWS-2 neither role nor profile"),
        pytest.param(images({"id": "ami-1"}, family=None), id="AWS-3 no family and no alias"),
        pytest.param(alias("al2023@latest", "AL2"), id="AWS-4 an alias of another family"),
        pytest.param(alias("windows2022@v1"), id="AWS-5 a version of Windows"),
        pytest.param(alias("ubuntu@latest"), id="AWS-5 an unknown family"),
        pytest.param(
            alias("bottlerocket@v1.20.4-1234567890"), id="AWS-5 an alias of 31 characters"
        ),
        pytest.param(
            images({"alias": "al2023@latest"}, {"id": "ami-1"}), id="AWS-6 alias and more"
        ),
        pytest.param(images({"owner": "self"}), id="AWS-7 an owner alone"),
        pytest.param(
            {"subnetSelectorTerms": [{"id": "subnet-1", "tags": {"a": "b"}}]},
            id="AWS-8 a subnet by id and tags",
        ),
        pytest.param(
            reservation(ownerID="123456789012"), id="AWS-9 an owner of reservations alone"
        ),
        pytest.param(reservation(id="cr_1"), id="AWS-9 a reservation with a wrong id"),
        pytest.param({"tags": {"kubernetes.io/cluster/x": "owned"}}, id="AWS-10 the cluster's tag"),
        pytest.param({"tags": {"karpenter.sh/nodepool": "x"}}, id="AWS-10 the pool's tag"),
        pytest.param({"tags": {"eks:eks-cluster-name": "x"}}, id="AWS-10 EKS's tag"),
        pytest.param({"blockDeviceMappings": [ROOT, ROOT]}, id="AWS-11 two root disks"),
        pytest.param(disk(volumeType="gp3"), id="AWS-12 a disk without a size"),
        pytest.param(
            disk(volumeSize="20Gi", volumeInitializationRate=100),
            id="AWS-12 a rate without snapshot",
        ),
        pytest.param(
            disk(snapshotID="snap-1", volumeInitializationRate=99), id="AWS-12 a rate of 99"
        ),
        pytest.param(
            disk(snapshotID="snap-1", volumeInitializationRate=301), id="AWS-12 one of 301"
        ),
        pytest.param(disk(volumeSize="59001Gi"), id="AWS-13 59001Gi"),
        pytest.param(disk(volumeSize="65T"), id="AWS-13 65T"),
        pytest.param(disk(volumeSize="18Ti"), id="AWS-13 18Ti"),
        pytest.param(interfaces((1, 0, "interface")), id="AWS-14 no first interface"),
        pytest.param(interfaces((0, 0, "efa-only")), id="AWS-14 a first interface for EFA alone"),
        pytest.param(
            interfaces((0, 0, "interface"), (0, 1, "efa-only"), (0, 2, "efa-only")),
            id="AWS-14 two for EFA alone on a card",
        ),
        pytest.param(
            interfaces((0, 0, "interface"), (0, 0, "interface")), id="AWS-14 a pair twice"
        ),
        pytest.param({"connectionTracking": {}}, id="AWS-15 empty connection tracking"),
        pytest.param({"connectionTracking": {"udpTimeout": 61}}, id="AWS-15 a timeout of 61"),
    ],
)
def test_rejected(spec: dict[str, Any]) -> None:
    errors, _ = admitted(**spec)

    assert errors


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="the usual"),
        pytest.param({"role": None, "instanceProfile": "theirs"}, id="AWS-1 a profile alone"),
        pytest.param(alias("al2023@latest", "Custom"), id="AWS-4 an alias with family Custom"),
        pytest.param(alias("bottlerocket@1.20.4"), id="AWS-5 a version of Bottlerocket"),
        pytest.param(alias("bottlerocket@v1.20.4"), id="AWS-5 the same with a v"),
        pytest.param(images({"owner": "self", "tags": {"a": "b"}}), id="AWS-7 an owner and tags"),
        pytest.param(
            {
                "subnetSelectorTerms": [
                    {"id": "subnet-1", "tags": {"a": "b"}},
                    {"tags": {"a": "b"}},
                ]
            },
            id="AWS-8 one term that is wrong beside one that is not",
        ),
        pytest.param(reservation(instanceMatchCriteria="open"), id="AWS-9 open reservations"),
        pytest.param({"tags": {"Name": "foo"}}, id="AWS-10 the tag Name"),
        pytest.param(disk(volumeSize="59000Gi"), id="AWS-13 59000Gi"),
        pytest.param(disk(volumeSize="64000G"), id="AWS-13 64000G"),
        pytest.param(disk(volumeSize="58Ti"), id="AWS-13 58Ti"),
        pytest.param(disk(volumeSize="64T"), id="AWS-13 64T"),
        pytest.param(interfaces((0, 0, "interface"), (0, 1, "efa-only")), id="AWS-14 one for EFA"),
        pytest.param({"connectionTracking": {"udpTimeout": 60}}, id="AWS-15 a timeout of 60"),
    ],
)
def test_accepted(spec: dict[str, Any]) -> None:
    errors, _ = admitted(**spec)

    assert [] == errors


@pytest.mark.case("AWS-16")
@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        pytest.param(None, "required", id="nothing said"),
        pytest.param({"httpTokens": "optional"}, "optional", id="one thing said"),
    ],
)
def test_metadata_options_are_filled_in(given: dict[str, str] | None, tokens: str) -> None:
    errors, stored = admitted(metadataOptions=given)

    assert [] == errors
    assert {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": tokens,
    } == stored["metadataOptions"]
