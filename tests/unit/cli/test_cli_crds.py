"""``karpenter crds`` prints the definitions of the kinds that are asked for."""

import json
from typing import Any

import pytest
import yaml

from helpers.commands import run

CURRENT = [
    "capacitybuffers.autoscaling.x-k8s.io",
    "commitments.cost.karpenter.sh",
    "ec2nodeclasses.karpenter.k8s.aws",
    "kwoknodeclasses.karpenter.kwok.sh",
    "nodeclaims.karpenter.sh",
    "nodeoverlays.karpenter.sh",
    "nodepools.karpenter.sh",
]
LEGACY = ["awsnodetemplates.karpenter.k8s.aws", "provisioners.karpenter.sh"]


def printed(*args: str) -> list[str]:
    ran = run("crds", *args)
    assert ran.code == 0, ran.err
    definitions = list(yaml.safe_load_all(ran.out))
    assert {"CustomResourceDefinition"} == {definition["kind"] for definition in definitions}
    return [definition["metadata"]["name"] for definition in definitions]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param([], CURRENT, id="all current kinds"),
        pytest.param(["--legacy"], sorted(CURRENT + LEGACY), id="and the alpha kinds"),
        pytest.param(["NodePool"], ["nodepools.karpenter.sh"], id="by kind"),
        pytest.param(["nodepools"], ["nodepools.karpenter.sh"], id="by plural"),
        pytest.param(["nodepool"], ["nodepools.karpenter.sh"], id="by singular"),
        pytest.param(["ec2nc"], ["ec2nodeclasses.karpenter.k8s.aws"], id="by short name"),
        pytest.param(["EC2NC"], ["ec2nodeclasses.karpenter.k8s.aws"], id="in capitals"),
        pytest.param(["nodepools.karpenter.sh"], ["nodepools.karpenter.sh"], id="by full name"),
        pytest.param(
            ["nodepool", "cb", "NodePools"],
            ["nodepools.karpenter.sh", "capacitybuffers.autoscaling.x-k8s.io"],
            id="in the order asked for, each once",
        ),
        pytest.param(
            ["Provisioner"], ["provisioners.karpenter.sh"], id="an alpha kind asked for by name"
        ),
    ],
)
def test_which_are_printed(args: list[str], expected: list[str]) -> None:
    assert expected == printed(*args)


def test_as_json() -> None:
    one = json.loads(run("crds", "nodepool", "-o", "json").out)
    many = json.loads(run("crds", "-o", "json").out)

    assert one["metadata"]["name"] == "nodepools.karpenter.sh"
    assert ("List", len(CURRENT)) == (many["kind"], len(many["items"]))
    assert one in many["items"]


def test_an_unknown_kind_is_answered_with_the_known_ones() -> None:
    ran = run("crds", "nodepool", "nodepol")

    assert (2, "") == (ran.code, ran.out)
    known = (
        "AWSNodeTemplate, CapacityBuffer, Commitment, EC2NodeClass, KWOKNodeClass, NodeClaim, NodeOverlay, "
        "NodePool, Provisioner"
    )
    expected = f'error: no kind "nodepol": did you mean NodePool? the kinds are {known}'
    assert [expected] == ran.errors


def test_a_kind_like_none_is_not_guessed() -> None:
    ran = run("crds", "xyzzy")

    assert ran.code == 2
    assert 'error: no kind "xyzzy": the kinds are ' in ran.err


def test_old_versions_refuse_objects_unless_a_webhook_converts_them() -> None:
    def schema(*args: str) -> dict[str, Any]:
        crd = json.loads(run("crds", "nodepool", "-o", "json", *args).out)
        old: dict[str, Any] = crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]
        return old

    refusing = schema()["x-kubernetes-validations"]
    converted = schema("--conversion-webhook", "karpenter/karpenter")

    assert ["false"] == [rule["rule"] for rule in refusing]
    assert "'karpenter convert FILE'" in refusing[0]["message"]
    assert (
        "kubelet"
        in converted["properties"]["spec"]["properties"]["template"]["properties"]["spec"][
            "properties"
        ]
    )


@pytest.mark.parametrize("given", ["karpenter", "a/b/c", "/karpenter", "Karpenter/x", "a/1b", ""])
def test_a_webhook_is_named_by_namespace_and_service(given: str) -> None:
    ran = run("crds", "--conversion-webhook", given)

    assert (2, "") == (ran.code, ran.out)
    assert f'"{given}" is not the NAMESPACE/SERVICE of a webhook' in ran.err
