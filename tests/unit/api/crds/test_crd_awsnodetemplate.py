"""The API server's promise for ``karpenter.k8s.aws/v1alpha1`` AWSNodeTemplate.

The schema judges types, enumerations and shapes alone; which fields exclude or need each other is
judged by the legacy rules, so objects those rules refuse are accepted here.
"""

from typing import Any

import pytest

from karpenter.admission.schemas.engine import CompiledVersion, builtin
from unit.api.crds.cases.ec2nodeclass_specs import (
    EVERY_EBS_FIELD,
    REFUSED_METADATA_OPTIONS,
    VOLUME_TYPES,
    ebs,
)
from unit.api.crds.crd_walk import (
    crd_version,
    declared_fields,
    rule_messages,
    undescribed,
    used_fields,
)

V1ALPHA1 = crd_version("awsnodetemplates.karpenter.k8s.aws", "v1alpha1")
EVERYTHING: dict[str, Any] = {
    "subnetSelector": {"Name": "foo-private-subnet"},
    "securityGroupSelector": {"aws-ids": "sg-1,sg-2"},
    "amiSelector": {"aws::name": "a,b", "aws::owners": "self"},
    "amiFamily": "Bottlerocket",
    "userData": "[settings]",
    "tags": {"team": "web"},
    "instanceProfile": "profile",
    "launchTemplate": "my-template",
    "blockDeviceMappings": [
        {
            "deviceName": "/dev/xvda",
            "ebs": EVERY_EBS_FIELD,
        }
    ],
    "metadataOptions": {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 2,
        "httpTokens": "required",
    },
    "detailedMonitoring": True,
    "context": "reserved",
}


def kind() -> CompiledVersion:
    compiled = builtin("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate")
    assert compiled is not None
    return compiled


def template(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "foo-template"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="selectors-are-demanded-by-the-legacy-rules"),
        pytest.param({"subnetSelector": {"Name": "foo"}}, id="subnets-alone"),
        pytest.param(EVERYTHING, id="every-field"),
        *(
            pytest.param({"amiFamily": family}, id=f"family-{family}")
            for family in ("AL2", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Custom")
        ),
        *(
            pytest.param(ebs(volumeType=volume_type), id=f"volume-type-{volume_type}")
            for volume_type in VOLUME_TYPES
        ),
        *(
            pytest.param(ebs(volumeSize=volume_size), id=f"volume-size-{volume_size!r}")
            for volume_size in ("100Gi", "1.5Ti", "64T", "1e10", "+20G", ".5Ti", 1073741824)
        ),
        *(
            pytest.param({"metadataOptions": {option: value}}, id=f"{option}-{value}")
            for option, value in (
                ("httpEndpoint", "disabled"),
                ("httpProtocolIPv6", "enabled"),
                ("httpPutResponseHopLimit", 1),
                ("httpPutResponseHopLimit", 64),
                ("httpTokens", "optional"),
            )
        ),
    ],
)
def test_accepted_unchanged(spec: dict[str, Any]) -> None:
    admitted = kind().admit(template(spec))

    assert ([], [], template(spec)) == (admitted.errors, admitted.pruned, admitted.object)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({"subnetSelector": ["subnet-1"]}, "spec.subnetSelector", id="selector-list"),
        pytest.param({"subnetSelector": {"a": 1}}, "spec.subnetSelector.a", id="number-in-subnets"),
        pytest.param(
            {"securityGroupSelector": {"a": True}},
            "spec.securityGroupSelector.a",
            id="boolean-in-security-groups",
        ),
        pytest.param({"amiSelector": {"a": ["b"]}}, "spec.amiSelector.a", id="list-in-images"),
        pytest.param({"amiFamily": "AL2023"}, "spec.amiFamily", id="al2023-came-later"),
        pytest.param({"amiFamily": "al2"}, "spec.amiFamily", id="family-in-lower-case"),
        pytest.param({"userData": {"a": "b"}}, "spec.userData", id="user-data-as-a-map"),
        pytest.param({"tags": {"a": 1}}, "spec.tags.a", id="tag-that-is-a-number"),
        pytest.param({"instanceProfile": 1}, "spec.instanceProfile", id="profile-as-a-number"),
        pytest.param({"launchTemplate": {}}, "spec.launchTemplate", id="launch-template-as-a-map"),
        pytest.param({"detailedMonitoring": "x"}, "spec.detailedMonitoring", id="monitoring-text"),
        pytest.param({"context": 1}, "spec.context", id="context-as-a-number"),
        pytest.param(
            {"blockDeviceMappings": [{"ebs": {}}]},
            "spec.blockDeviceMappings[0].deviceName",
            id="disk-without-device-name",
        ),
        pytest.param(
            {"blockDeviceMappings": [{"deviceName": "/dev/xvda"}]},
            "spec.blockDeviceMappings[0].ebs",
            id="disk-without-volume",
        ),
        pytest.param(ebs(iops=2**63), "spec.blockDeviceMappings[0].ebs.iops", id="huge-iops"),
        pytest.param(
            ebs(throughput=2**63),
            "spec.blockDeviceMappings[0].ebs.throughput",
            id="huge-throughput",
        ),
        pytest.param(
            ebs(volumeType="gp4"),
            "spec.blockDeviceMappings[0].ebs.volumeType",
            id="unknown-volume-type",
        ),
        *(
            pytest.param(
                ebs(volumeSize=volume_size),
                "spec.blockDeviceMappings[0].ebs.volumeSize",
                id=f"volume-size-{volume_size!r}",
            )
            for volume_size in ("", "big", "100GiB", "1 Gi", True, {"Gi": 1})
        ),
        *REFUSED_METADATA_OPTIONS,
        pytest.param(
            {"metadataOptions": {"httpPutResponseHopLimit": "2"}},
            "spec.metadataOptions.httpPutResponseHopLimit",
            id="httpPutResponseHopLimit-2",
        ),
    ],
)
def test_refused(spec: dict[str, Any], path: str) -> None:
    errors = kind().admit(template(spec)).errors

    assert {path} == {error.field for error in errors}


def test_a_template_without_spec_is_refused() -> None:
    without_spec = {name: value for name, value in template({}).items() if name != "spec"}

    errors = kind().admit(without_spec).errors

    assert [error.field for error in errors] == ["spec"]


def test_unknown_fields_are_dropped_and_named() -> None:
    admitted = kind().admit(template({"role": "a", "subnetSelector": {"Name": "foo"}}))

    assert template({"subnetSelector": {"Name": "foo"}}) == admitted.object
    assert admitted.pruned == [("spec", "role")]


def test_kubectl_shows_the_age_alone() -> None:
    assert [column["name"] for column in V1ALPHA1["additionalPrinterColumns"]] == ["Age"]


def test_the_warning_names_the_kind_to_use() -> None:
    assert "use a karpenter.k8s.aws/v1 EC2NodeClass" in (kind().deprecation or "")


def test_every_field_has_a_description() -> None:
    assert undescribed(V1ALPHA1) == []


def test_there_are_no_rules_beside_the_legacy_ones() -> None:
    assert set() == rule_messages(V1ALPHA1)


def test_every_field_has_an_accepting_case() -> None:
    assert set() == declared_fields(V1ALPHA1) - set(used_fields(EVERYTHING))
