"""The API server's promise for ``karpenter.k8s.aws/v1beta1`` EC2NodeClass.

The older version has fewer fields, a required family, a role for life and a wider hop limit; what
it shares with v1 is checked here as well, since a write is judged by the version it names.
"""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from _pytest.mark.structures import ParameterSet

from karpenter.admission.engine import Admitted, CompiledVersion, builtin
from unit.api.crd_walk import (
    crd_version,
    declared_fields,
    rule_messages,
    undescribed,
    used_fields,
)
from unit.api.ec2nodeclass_specs import ABSENT, TAGS, VOLUME_TYPES, ebs, tagged, without_absent

V1BETA1 = crd_version("ec2nodeclasses.karpenter.k8s.aws", "v1beta1")
FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022")
PROFILE = {"role": ABSENT, "instanceProfile": "profile"}
DEFAULT_METADATA_OPTIONS = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}


def kind() -> CompiledVersion:
    compiled = builtin("karpenter.k8s.aws/v1beta1", "EC2NodeClass")
    assert compiled is not None
    return compiled


def node_class(spec: dict[str, Any]) -> dict[str, Any]:
    """A small valid class with fields of its spec replaced, or left out when ABSENT."""
    fields = {
        "amiFamily": "AL2",
        "role": "KarpenterNodeRole-demo",
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        **spec,
    }
    return {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": without_absent(fields),
    }


def admit(spec: dict[str, Any], old: dict[str, Any] | None = None) -> Admitted:
    return kind().admit(node_class(spec), old=None if old is None else node_class(old))


def ami(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"amiSelectorTerms": list(terms)}


ACCEPTED = [
    pytest.param({}, id="smallest-class"),
    *(pytest.param({"amiFamily": family}, id=f"family-{family}") for family in FAMILIES),
    pytest.param({"amiFamily": "Custom", **ami({"id": "ami-1"})}, id="custom-with-ami-terms"),
    pytest.param(PROFILE, id="instance-profile-instead-of-role"),
    # selectors
    pytest.param({"subnetSelectorTerms": [{"id": "subnet-1"}] * 30}, id="thirty-subnets-by-id"),
    pytest.param(
        {"subnetSelectorTerms": [{"id": "subnet-1", **TAGS}, TAGS]},
        id="subnet-id-with-tags-beside-a-clean-term",
    ),
    *(
        pytest.param({field: tagged(20)}, id=f"twenty-tags-in-{field}")
        for field in ("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms")
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"id": "sg-abc123"}, {"name": "default"}, TAGS]},
        marks=pytest.mark.row("S2-68"),
        id="three-security-group-terms-or-ed",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"id": "sg-1", "name": "a"}, TAGS]},
        id="security-group-id-with-name-beside-a-clean-term",
    ),
    pytest.param({"securityGroupSelectorTerms": [TAGS] * 30}, id="thirty-security-group-terms"),
    pytest.param(ami(), id="no-ami-terms"),
    pytest.param(
        ami({"id": "ami-1"}, {"name": "image", "owner": "self"}, {"owner": "amazon", **TAGS}),
        id="images-by-id-name-and-tags",
    ),
    pytest.param(ami(*[{"id": "ami-1"}] * 30), id="thirty-ami-terms"),
    # the rest
    pytest.param({"userData": "echo hello", "context": "reserved"}, id="user-data-and-context"),
    pytest.param({"tags": {"Name": "foo", "team": ""}}, id="name-tag-and-empty-value"),
    pytest.param(
        {"tags": {"karpenter.sh/provisioner-name": "x"}}, id="tag-karpenter.sh/provisioner-name"
    ),
    pytest.param(
        {
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": {
                        "deleteOnTermination": True,
                        "encrypted": True,
                        "iops": 3000,
                        "kmsKeyID": "key",
                        "snapshotID": "snap-1",
                        "throughput": 125,
                        "volumeSize": "100Gi",
                        "volumeType": "gp3",
                    },
                },
                {"rootVolume": False},
            ]
        },
        id="every-field-of-a-disk",
    ),
    pytest.param({"blockDeviceMappings": [{"deviceName": "/dev/xvdb"}] * 50}, id="fifty-disks"),
    *(
        pytest.param(ebs(volumeSize=text), id=f"volume-size-{text}")
        for text in ("1Gi", "59000Gi", "1G", "64000G", "1Ti", "17Ti", "58Ti", "1T", "64T")
    ),
    *(
        pytest.param(ebs(volumeSize="1Gi", volumeType=volume_type), id=f"volume-type-{volume_type}")
        for volume_type in VOLUME_TYPES
    ),
    pytest.param({"instanceStorePolicy": "RAID0"}, id="raid0"),
    pytest.param(
        {"detailedMonitoring": True, "associatePublicIPAddress": False}, id="monitoring-and-address"
    ),
    pytest.param(
        {
            "metadataOptions": {
                "httpEndpoint": "disabled",
                "httpProtocolIPv6": "enabled",
                "httpPutResponseHopLimit": 64,
                "httpTokens": "optional",
            }
        },
        id="every-metadata-option-changed",
    ),
    pytest.param({"metadataOptions": {"httpPutResponseHopLimit": 1}}, id="smallest-hop-limit"),
]

REFUSED_BY_RULE = [
    pytest.param(
        {"instanceProfile": "profile"}, "spec", "either a role", id="role-and-instance-profile"
    ),
    pytest.param({"role": ABSENT}, "spec", "either a role", id="neither-role-nor-instance-profile"),
    pytest.param({"role": ""}, "spec.role", "name an IAM role", id="empty-role"),
    pytest.param(
        {**PROFILE, "instanceProfile": ""},
        "spec.instanceProfile",
        "name an instance profile",
        id="empty-instance-profile",
    ),
    pytest.param(
        {"amiFamily": "Custom"}, "spec", "needs amiSelectorTerms", id="custom-without-ami-terms"
    ),
    pytest.param(
        {"amiFamily": "Custom", **ami()},
        "spec",
        "needs amiSelectorTerms",
        id="custom-with-empty-ami-terms",
    ),
    # selectors
    pytest.param(
        {"subnetSelectorTerms": [{}]},
        "spec.subnetSelectorTerms[0]",
        "needs tags or an id",
        id="subnet-term-without-fields",
    ),
    pytest.param(
        {"subnetSelectorTerms": [{"id": "subnet-1", **TAGS}]},
        "spec.subnetSelectorTerms",
        "cannot have tags",
        id="subnet-id-with-tags",
    ),
    *(
        pytest.param(
            {field: [{"tags": tags}]},
            f"spec.{field}[0].tags",
            "a key and a value",
            id=f"tag-without-{missing}-in-{field}",
        )
        for field in ("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms")
        for tags, missing in (({"": "x"}, "key"), ({"x": ""}, "value"))
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{}]},
        "spec.securityGroupSelectorTerms[0]",
        "needs tags, an id or a name",
        id="security-group-term-without-fields",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"id": "sg-1", **TAGS}]},
        "spec.securityGroupSelectorTerms",
        "with an id cannot",
        marks=pytest.mark.row("S2-68"),
        id="security-group-id-with-tags",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"name": "a", **TAGS}]},
        "spec.securityGroupSelectorTerms",
        "with a name cannot",
        marks=pytest.mark.row("S2-68"),
        id="security-group-name-with-tags",
    ),
    pytest.param(
        ami({"owner": "self"}),
        "spec.amiSelectorTerms[0]",
        "an owner alone is not enough",
        id="owner-alone",
    ),
    *(
        pytest.param(
            ami({"id": "ami-2"}, {"id": "ami-1", **other}),
            "spec.amiSelectorTerms[1]",
            "with an id cannot",
            id=f"image-id-with-{next(iter(other))}",
        )
        for other in (TAGS, {"name": "a"}, {"owner": "self"})
    ),
    # tags
    pytest.param({"tags": {"": "x"}}, "spec.tags", "write a key", id="tag-without-key"),
    pytest.param(
        {"tags": {"kubernetes.io/cluster/x": "owned"}},
        "spec.tags",
        "kubernetes.io/cluster",
        id="cluster-tag",
    ),
    *(
        pytest.param({"tags": {key: "x"}}, "spec.tags", key, id=f"tag-{key}")
        for key in (
            "eks:eks-cluster-name",
            "karpenter.sh/nodepool",
            "karpenter.sh/nodeclaim",
            "karpenter.sh/managed-by",
            "karpenter.k8s.aws/ec2nodeclass",
        )
    ),
    # disks
    pytest.param(
        ebs(volumeType="gp3"),
        "spec.blockDeviceMappings[0].ebs",
        "a snapshotID or a volumeSize",
        id="neither-size-nor-snapshot",
    ),
    pytest.param(
        {"blockDeviceMappings": [{"rootVolume": True}, {"rootVolume": True}]},
        "spec.blockDeviceMappings",
        "only one disk",
        id="two-root-volumes",
    ),
    *(
        pytest.param(
            ebs(volumeSize=text),
            "spec.blockDeviceMappings[0].ebs.volumeSize",
            "write a size",
            id=f"volume-size-{text}",
        )
        for text in ("0Gi", "59001Gi", "64001G", "18Ti", "49Ti", "59Ti", "65T", "100", "100Mi")
    ),
]

REFUSED_BY_SCHEMA = [
    pytest.param({"amiFamily": ABSENT}, "spec.amiFamily", id="no-family"),
    pytest.param({"amiFamily": "Windows2025"}, "spec.amiFamily", id="windows2025-came-later"),
    pytest.param({"subnetSelectorTerms": ABSENT}, "spec.subnetSelectorTerms", id="no-subnets"),
    pytest.param({"subnetSelectorTerms": []}, "spec.subnetSelectorTerms", id="empty-subnets"),
    pytest.param(
        {"subnetSelectorTerms": [TAGS] * 31}, "spec.subnetSelectorTerms", id="31-subnet-terms"
    ),
    pytest.param(
        {"subnetSelectorTerms": [{"id": "0a1b"}]},
        "spec.subnetSelectorTerms[0].id",
        id="subnet-id-without-prefix",
    ),
    *(
        pytest.param({field: tagged(21)}, f"spec.{field}[0].tags", id=f"21-tags-in-{field}")
        for field in ("subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms")
    ),
    pytest.param(
        {"securityGroupSelectorTerms": ABSENT},
        "spec.securityGroupSelectorTerms",
        id="no-security-groups",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": []},
        "spec.securityGroupSelectorTerms",
        id="empty-security-groups",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [TAGS] * 31},
        "spec.securityGroupSelectorTerms",
        id="31-security-group-terms",
    ),
    pytest.param(
        {"securityGroupSelectorTerms": [{"id": "abc-123"}]},
        "spec.securityGroupSelectorTerms[0].id",
        id="security-group-id-without-prefix",
    ),
    pytest.param(ami(*[{"id": "ami-1"}] * 31), "spec.amiSelectorTerms", id="31-ami-terms"),
    pytest.param(
        ami({"id": "image-1"}), "spec.amiSelectorTerms[0].id", id="image-id-without-prefix"
    ),
    pytest.param(
        {"amiSelectorTerms": {"tags": {"a": "b"}}}, "spec.amiSelectorTerms", id="images-as-a-map"
    ),
    pytest.param(
        {"blockDeviceMappings": [{"deviceName": "/dev/xvdb"}] * 51},
        "spec.blockDeviceMappings",
        id="51-disks",
    ),
    pytest.param(
        ebs(volumeSize="1Gi", volumeType="gp4"),
        "spec.blockDeviceMappings[0].ebs.volumeType",
        id="unknown-volume-type",
    ),
    pytest.param(
        ebs(volumeSize="1Gi", iops=2**63),
        "spec.blockDeviceMappings[0].ebs.iops",
        id="iops-beyond-64-bits",
    ),
    pytest.param(
        ebs(volumeSize="1Gi", throughput=2**63),
        "spec.blockDeviceMappings[0].ebs.throughput",
        id="throughput-beyond-64-bits",
    ),
    pytest.param(
        ebs(volumeSize="1" * 33), "spec.blockDeviceMappings[0].ebs.volumeSize", id="endless-size"
    ),
    pytest.param({"instanceStorePolicy": "RAID1"}, "spec.instanceStorePolicy", id="raid1"),
    *(
        pytest.param(
            {"metadataOptions": {option: value}},
            f"spec.metadataOptions.{option}",
            id=f"{option}-{value}",
        )
        for option, value in (
            ("httpEndpoint", "on"),
            ("httpProtocolIPv6", "on"),
            ("httpPutResponseHopLimit", 0),
            ("httpPutResponseHopLimit", 65),
            ("httpTokens", "none"),
        )
    ),
]

ACCEPTED_UPDATES = [
    pytest.param({}, {"userData": "echo hello"}, id="role-kept"),
    pytest.param(PROFILE, {**PROFILE, "instanceProfile": "other"}, id="instance-profile-changed"),
    pytest.param({}, {"amiFamily": "Bottlerocket"}, id="family-changed"),
]

REFUSED_UPDATES = [
    pytest.param({"role": "a"}, {"role": "b"}, "spec.role", "cannot be changed", id="role-changed"),
    pytest.param(
        {}, PROFILE, "spec", "between role and instanceProfile", id="role-to-instance-profile"
    ),
    pytest.param(
        PROFILE, {}, "spec", "between role and instanceProfile", id="instance-profile-to-role"
    ),
]


@pytest.mark.parametrize("spec", ACCEPTED)
def test_accepted(spec: dict[str, Any]) -> None:
    admitted = admit(spec)

    assert (admitted.errors, admitted.pruned) == ([], [])


@pytest.mark.parametrize(("spec", "path", "words"), REFUSED_BY_RULE)
def test_refused_by_a_rule(spec: dict[str, Any], path: str, words: str) -> None:
    errors = admit(spec).errors

    assert {path} == {error.field for error in errors}
    assert any(words in error.detail for error in errors)


@pytest.mark.parametrize(("spec", "path"), REFUSED_BY_SCHEMA)
def test_refused_by_the_schema(spec: dict[str, Any], path: str) -> None:
    assert path in [error.field for error in admit(spec).errors]


@pytest.mark.parametrize(("old", "new"), ACCEPTED_UPDATES)
def test_update_accepted(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert admit(new, old).errors == []


@pytest.mark.parametrize(("old", "new", "path", "words"), REFUSED_UPDATES)
def test_update_refused(old: dict[str, Any], new: dict[str, Any], path: str, words: str) -> None:
    errors = admit(new, old).errors

    assert [path] == [error.field for error in errors]
    assert words in errors[0].detail


@pytest.mark.row("S2-68")
def test_one_term_with_id_name_and_tags_breaks_both_exclusions() -> None:
    mixed = {"id": "sg-1", "name": "default-security-group", **TAGS}

    errors = admit({"securityGroupSelectorTerms": [mixed]}).errors

    assert [error.field for error in errors] == ["spec.securityGroupSelectorTerms"] * 2


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param({}, DEFAULT_METADATA_OPTIONS, id="absent"),
        pytest.param({"metadataOptions": {}}, DEFAULT_METADATA_OPTIONS, id="empty"),
        pytest.param(
            {"metadataOptions": {"httpPutResponseHopLimit": 1}},
            {**DEFAULT_METADATA_OPTIONS, "httpPutResponseHopLimit": 1},
            id="hop-limit-kept",
        ),
    ],
)
def test_metadata_options_default_one_by_one(given: dict[str, Any], stored: dict[str, Any]) -> None:
    assert stored == admit(given).object["spec"]["metadataOptions"]


def test_applying_the_stored_object_again_changes_nothing() -> None:
    stored = admit({}).object

    again = kind().admit(stored, old=stored)

    assert (stored, [], []) == (again.object, again.errors, again.pruned)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("kubelet", {"maxPods": 20}, id="kubelet"),
        pytest.param("capacityReservationSelectorTerms", [{"id": "cr-1"}], id="reservations"),
        pytest.param("placementGroupSelector", {"name": "group"}, id="placement-group"),
        pytest.param("ipPrefixCount", 1, id="prefix-count"),
        pytest.param("networkInterfaces", [], id="network-interfaces"),
        pytest.param("connectionTracking", {"udpTimeout": 30}, id="connection-tracking"),
        pytest.param("cpuOptions", {"nestedVirtualization": "enabled"}, id="cpu-options"),
    ],
)
def test_fields_that_came_with_v1_are_unknown(field: str, value: object) -> None:
    admitted = admit({field: value})

    assert [("spec", field)] == admitted.pruned
    assert field not in admitted.object["spec"]


@pytest.mark.parametrize("field", ["alias", "ssmParameter"])
def test_a_term_with_nothing_but_a_later_field_is_refused(field: str) -> None:
    errors = admit(ami({field: "al2023@latest"})).errors

    assert [error.field for error in errors] == ["spec.amiSelectorTerms[0]"]


def test_kubectl_shows_ready_and_age_and_the_role_when_wide() -> None:
    columns = V1BETA1["additionalPrinterColumns"]

    assert [(column["name"], column.get("priority", 0)) for column in columns] == [
        ("Ready", 0),
        ("Age", 0),
        ("Role", 1),
    ]


def test_the_warning_names_the_version_to_use() -> None:
    assert "use karpenter.k8s.aws/v1 " in (kind().deprecation or "")


def test_every_field_has_a_description() -> None:
    assert undescribed(V1BETA1) == []


def test_every_rule_has_a_refusing_case() -> None:
    creations = [admit(*values(case)[:1]) for case in REFUSED_BY_RULE]
    updates = [admit(new, old) for old, new, *_ in map(values, REFUSED_UPDATES)]

    seen = {error.detail for admitted in creations + updates for error in admitted.errors}

    assert set() == rule_messages(V1BETA1) - seen


def test_every_field_has_an_accepting_case() -> None:
    used = {
        path for case in ACCEPTED for path in used_fields(node_class(*values(case)[:1])["spec"])
    }

    assert set() == declared_fields(V1BETA1) - used


def values(case: ParameterSet) -> Sequence[dict[str, Any]]:
    return cast("Sequence[dict[str, Any]]", case.values)
