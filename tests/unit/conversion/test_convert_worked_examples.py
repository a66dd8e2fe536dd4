"""The manifests people copied from the first guides, each with what it becomes."""

from typing import Any

import pytest

from karpenter.admission.check import check
from karpenter.conversion.convert import Options, Result, convert_all
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read

DISCOVERY = {"karpenter.sh/discovery": "mz-karpenter"}
IMDS = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}

EVERY_FIELD = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  ttlSecondsUntilExpired: 2592000
  ttlSecondsAfterEmpty: 30
  taints:
    - {key: example.com/special-taint, effect: NoSchedule}
  labels:
    billing-team: my-team
  requirements:
    - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.2xlarge]}
    - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a, us-west-2b]}
    - {key: kubernetes.io/arch, operator: In, values: [arm64, amd64]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
  provider: {}
"""
SCALE_WALK = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  requirements:
    - key: karpenter.sh/capacity-type
      operator: In
      values: ["spot", "on-demand"]
  limits:
    resources:
      cpu: 100
  provider:
    subnetSelector:
      karpenter.sh/discovery: mz-karpenter
    securityGroupSelector:
      karpenter.sh/discovery: mz-karpenter
  ttlSecondsAfterEmpty: 30
  ttlSecondsUntilExpired: 1800
"""
BROKEN_REQUIREMENTS = """\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: foo-provisioner
spec:
  providerRef:
    name: foo-template
  requirements:
    - key: "topology.kubernetes.io/zone"
      operator: In
      values:
        - "us-west-2a", "us-west-2b"
"""
ELIDED_POOL = """\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
...
spec:
  limits:
    resources:
      cpu: ${CPU}
"""
NESTED_LIMITS_POOL = """\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      nodeClassRef:
        apiVersion: karpenter.k8s.aws/v1beta1
        kind: EC2NodeClass
        name: default
      requirements: []
  limits:
    resources:
      cpu: "1000"
  disruption:
    expireAfter: 720h
    consolidationPolicy: WhenUnderutilized
    consolidateAfter: 30s
"""
FLAT_LIMITS_POOL = NESTED_LIMITS_POOL.replace("    resources:\n      cpu", "    cpu")
MISTAKEN_GROUP = """\
apiVersion: compute.k8s.aws/v1beta1
kind: EC2NodeClass
metadata:
  name: default
spec:
  amiFamily: AL2
  role: KarpenterNodeRole-demo
  subnetSelectorTerms:
    - tags: {karpenter.sh/discovery: demo}
  securityGroupSelectorTerms:
    - id: sg-abc123
  amiSelectorTerms:
    - tags: {karpenter.sh/discovery: demo}
  metadataOptions:
    {httpEndpoint: enabled, httpProtocolIPv6: disabled,
     httpPutResponseHopLimit: 2, httpTokens: required}
"""


def load(text: str) -> dict[str, Any]:
    (document,) = read(text.encode(), "file.yaml")
    return document.data


def convert(text: str, **options: Any) -> Result:
    (result,) = convert_all([load(text)], Options(**options)).results
    return result


def requirement(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def reference(name: str) -> dict[str, str]:
    return {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}


@pytest.mark.row("S0-23")
def test_the_first_complete_provisioner() -> None:
    result = convert(EVERY_FIELD, default_node_class="shared")

    expected = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "metadata": {"labels": {"billing-team": "my-team"}},
                "spec": {
                    "nodeClassRef": reference("shared"),
                    "requirements": [
                        requirement("node.kubernetes.io/instance-type", "m5.large", "m5.2xlarge"),
                        requirement("topology.kubernetes.io/zone", "us-west-2a", "us-west-2b"),
                        requirement("kubernetes.io/arch", "arm64", "amd64"),
                        requirement("karpenter.sh/capacity-type", "spot", "on-demand"),
                        requirement("kubernetes.io/os", "linux"),
                    ],
                    "taints": [{"key": "example.com/special-taint", "effect": "NoSchedule"}],
                    "expireAfter": "2592000s",
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
        },
    }
    assert [expected] == result.objects
    assert not result.warnings


@pytest.mark.row("S0-23")
def test_an_empty_provider_needs_a_node_class_from_the_command_line() -> None:
    result = convert(EVERY_FIELD)

    assert [("spec", "provider")] == [error.path for error in result.errors]
    assert "--default-node-class" in result.errors[0].detail


@pytest.mark.row("S0-26")
def test_without_a_ttl_nodes_never_expire() -> None:
    result = convert(
        EVERY_FIELD.replace("  ttlSecondsUntilExpired: 2592000\n", ""), default_node_class="d"
    )

    assert result.objects[0]["spec"]["template"]["spec"]["expireAfter"] == "Never"


@pytest.mark.row("S1-10")
def test_a_provider_reference_names_the_class_of_the_template() -> None:
    text = EVERY_FIELD.replace("provider: {}", "providerRef: {name: foo-template}")

    (pool,) = convert(text).objects

    assert reference("foo-template") == pool["spec"]["template"]["spec"]["nodeClassRef"]


@pytest.mark.row("S1-15")
def test_two_values_in_one_list_item_are_a_parse_error_with_its_line() -> None:
    with pytest.raises(ManifestError) as refusal:
        load(BROKEN_REQUIREMENTS)

    assert refusal.value.line == 12
    assert str(refusal.value).startswith("file.yaml:12")


@pytest.mark.row("S1-15")
def test_the_same_requirements_written_as_a_list_convert() -> None:
    mended = BROKEN_REQUIREMENTS.replace('"us-west-2a", ', '"us-west-2a"\n        - ')

    (pool,) = convert(mended, ignore_defaults=True).objects

    expected = [requirement("topology.kubernetes.io/zone", "us-west-2a", "us-west-2b")]
    assert expected == pool["spec"]["template"]["spec"]["requirements"]


@pytest.mark.row("S2-55")
def test_an_elision_is_a_parse_error() -> None:
    with pytest.raises(ManifestError, match=r"file\.yaml:3"):
        load(ELIDED_POOL)


@pytest.mark.row("S2-55")
def test_nested_limits_are_refused_with_the_way_out() -> None:
    result = convert(NESTED_LIMITS_POOL)

    assert [("spec", "limits", "resources")] == [error.path for error in result.errors]
    assert "limits.cpu" in result.errors[0].detail


@pytest.mark.row("S2-55")
def test_a_wait_beside_underutilization_was_refused_and_is_fine_in_v1() -> None:
    result = convert(FLAT_LIMITS_POOL)

    assert check(load(FLAT_LIMITS_POOL)).errors
    assert result.objects[0]["spec"]["disruption"] == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "30s",
    }
    assert result.objects[0]["spec"]["limits"] == {"cpu": "1000"}


@pytest.mark.row("S2-67")
def test_a_group_that_nobody_serves_is_refused_by_the_api_and_mended_by_the_converter() -> None:
    result = convert(MISTAKEN_GROUP)

    written = load(MISTAKEN_GROUP)
    assert 'no matches for kind "EC2NodeClass"' in check(written).errors[0].detail
    assert [{**written, "apiVersion": "karpenter.k8s.aws/v1"}] == result.objects
    assert [("apiVersion",)] == [warning.path for warning in result.warnings]


@pytest.mark.row("S3-08")
def test_the_provisioner_of_the_scale_walk() -> None:
    result = convert(SCALE_WALK, legacy_defaults="early", node_role="R")

    node_class, pool = result.objects
    expected_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2@latest"}],
            "role": "R",
            "subnetSelectorTerms": [{"tags": DISCOVERY}],
            "securityGroupSelectorTerms": [{"tags": DISCOVERY}],
            "metadataOptions": IMDS,
        },
    }
    expected_spec = {
        "template": {
            "spec": {
                "requirements": [
                    requirement("karpenter.sh/capacity-type", "spot", "on-demand"),
                    requirement("kubernetes.io/arch", "amd64"),
                ],
                "nodeClassRef": reference("default"),
                "expireAfter": "1800s",
            }
        },
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"},
        "limits": {"cpu": "100"},
    }
    assert expected_class == node_class
    assert ("default", expected_spec) == (pool["metadata"]["name"], pool["spec"])
