"""What was written for older releases means the same on EC2 as it did then."""

from typing import Any

import pytest

from karpenter.api.node_classes import ec2_labels
from karpenter.conversion.convert import Options, convert_all
from karpenter.model import labels

TAGS = {"karpenter.sh/discovery": "demo"}
SELECTORS = {"subnetSelector": TAGS, "securityGroupSelector": TAGS}
DISCOVERY = [{"tags": TAGS}]


def converted(*manifests: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What manifests become, by kind."""
    conversion = convert_all(manifests, Options(node_role="NodeRole"))
    assert not conversion.has_errors, conversion
    return {each["kind"]: each for result in conversion.results for each in result.objects}


@pytest.mark.case("AWS-133")
def test_names_and_owners_of_images_multiply() -> None:
    selector = {"aws::name": "a,b", "aws::owners": "1,amazon"}
    template = {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "old"},
        "spec": {**SELECTORS, "amiSelector": selector},
    }

    terms = converted(template)["EC2NodeClass"]["spec"]["amiSelectorTerms"]

    assert [("1", "a"), ("1", "b"), ("amazon", "a"), ("amazon", "b")] == sorted(
        (each["owner"], each["name"]) for each in terms
    )


@pytest.mark.case("AWS-134")
def test_an_inline_provider_becomes_a_class_and_defaults_are_written_out() -> None:
    provisioner = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "old"},
        "spec": {"provider": {**SELECTORS, "amiFamily": "Bottlerocket"}},
    }

    made = converted(provisioner)

    node_class, pool = made["EC2NodeClass"], made["NodePool"]
    assert "old" == node_class["metadata"]["name"] == pool["metadata"]["name"]
    assert (DISCOVERY, DISCOVERY) == (
        node_class["spec"]["subnetSelectorTerms"],
        node_class["spec"]["securityGroupSelectorTerms"],
    )
    spec = pool["spec"]["template"]["spec"]
    reference = {"group": ec2_labels.DOMAIN, "kind": "EC2NodeClass", "name": "old"}
    assert reference == spec["nodeClassRef"]
    assert {
        labels.OS: ("In", ["linux"]),
        labels.ARCH: ("In", ["amd64"]),
        labels.CAPACITY_TYPE: ("In", ["on-demand"]),
        ec2_labels.INSTANCE_CATEGORY: ("In", ["c", "m", "r"]),
        ec2_labels.INSTANCE_GENERATION: ("Gt", ["2"]),
    } == {each["key"]: (each["operator"], each["values"]) for each in spec["requirements"]}


@pytest.mark.case("AWS-135")
def test_ubuntu_without_images_gets_one_that_does_not_exist() -> None:
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "old"},
        "spec": {
            "amiFamily": "Ubuntu",
            "role": "NodeRole",
            "subnetSelectorTerms": DISCOVERY,
            "securityGroupSelectorTerms": DISCOVERY,
        },
    }

    made = converted(node_class)["EC2NodeClass"]

    assert ("AL2", [{"id": "ami-placeholder"}]) == (
        made["spec"]["amiFamily"],
        made["spec"]["amiSelectorTerms"],
    )
    assert "incompatible" in made["metadata"]["annotations"][ec2_labels.KEPT_UBUNTU]
