"""What the legacy webhook accepts and refuses on a v1alpha1 AWSNodeTemplate."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.admission.legacy.webhook import legacy_findings
from unit.admission.rule_cases import json_values, refused, rendered, seed

SELECTOR = {"karpenter.sh/discovery": "demo"}
SELECTORS = {"subnetSelector": SELECTOR, "securityGroupSelector": SELECTOR}


def template(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def places(**spec: Any) -> list[str]:
    """The refused places below ``spec`` of a template that is otherwise fine."""
    found = refused(legacy_findings(template(**{**SELECTORS, **spec})))
    return [place.removeprefix("spec.") for place in found]


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        pytest.param(SELECTORS, [], id="both-selectors"),
        pytest.param({"subnetSelector": SELECTOR, "launchTemplate": "lt"}, [], id="own-template"),
        pytest.param({"subnetSelector": SELECTOR}, ["securityGroupSelector"], id="no-groups"),
        pytest.param({"securityGroupSelector": SELECTOR}, ["subnetSelector"], id="no-subnets"),
        pytest.param({"launchTemplate": "lt"}, ["subnetSelector"], id="own-template-no-subnets"),
        pytest.param({}, ["subnetSelector", "securityGroupSelector"], id="neither"),
        pytest.param(
            {"subnetSelector": {}, "securityGroupSelector": {}},
            ["subnetSelector", "securityGroupSelector"],
            id="empty-selectors-would-match-everything",
        ),
    ],
)
def test_required_selectors(spec: dict[str, Any], missing: list[str]) -> None:
    assert [f"spec.{field}" for field in missing] == refused(legacy_findings(template(**spec)))


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        pytest.param(
            "s001-awsnodetemplate-subnetselector", ["securityGroupSelector"], id="no-groups"
        ),
        pytest.param(
            "s001-awsnodetemplate-tags", ["subnetSelector", "securityGroupSelector"], id="neither"
        ),
    ],
)
def test_the_seed_templates(name: str, missing: list[str]) -> None:
    (manifest,) = seed(name)

    assert [f"spec.{field}" for field in missing] == refused(legacy_findings(manifest))


def test_the_template_of_the_combined_seed_is_accepted() -> None:
    manifest, _ = seed("bad-s001-combined-ttl-and-consolidation")

    assert rendered(legacy_findings(manifest)) == []


@pytest.mark.parametrize(
    ("field", "prefix"),
    [
        pytest.param("subnetSelector", "subnet", id="subnets"),
        pytest.param("securityGroupSelector", "sg", id="security-groups"),
        pytest.param("amiSelector", "ami", id="images"),
    ],
)
@pytest.mark.parametrize("ids", ["aws-ids", "aws::ids"])
class TestSelectors:
    """The three selectors obey the same rules."""

    def test_tags_are_accepted(self, field: str, prefix: str, ids: str) -> None:
        assert places(**{field: {"Name": "a,b", "team": "*"}}) == []

    def test_ids_are_accepted(self, field: str, prefix: str, ids: str) -> None:
        assert places(**{field: {ids: f"{prefix}-1, {prefix}-0a1b2c"}}) == []

    def test_ids_of_another_kind_are_refused(self, field: str, prefix: str, ids: str) -> None:
        place = f"{field}.{ids}" if ids == "aws-ids" else f"{field}[{ids}]"

        assert [place] == places(**{field: {ids: f"{prefix}-1,vpc-1"}})

    def test_an_id_without_its_number_is_refused(self, field: str, prefix: str, ids: str) -> None:
        place = f"{field}.{ids}" if ids == "aws-ids" else f"{field}[{ids}]"

        assert [place] == places(**{field: {ids: f"{prefix}-"}})

    def test_ids_exclude_tags(self, field: str, prefix: str, ids: str) -> None:
        place = f"{field}.{ids}" if ids == "aws-ids" else f"{field}[{ids}]"

        assert [place] == places(**{field: {ids: f"{prefix}-1", "team": "a"}})

    def test_an_empty_value_is_refused(self, field: str, prefix: str, ids: str) -> None:
        assert [f"{field}.team"] == places(**{field: {"team": ""}})

    def test_an_empty_key_is_refused(self, field: str, prefix: str, ids: str) -> None:
        assert [f"{field}[]"] == places(**{field: {"": "a"}})


def test_the_two_spellings_of_ids_exclude_each_other() -> None:
    assert places(subnetSelector={"aws-ids": "subnet-1", "aws::ids": "subnet-2"}) == [
        "subnetSelector.aws-ids"
    ]


def test_images_may_be_chosen_by_name_and_owner() -> None:
    assert places(amiSelector={"aws::name": "a,b", "aws::owners": "self,amazon", "t": "x"}) == []


@pytest.mark.parametrize("family", ["AL2", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022"])
def test_an_ami_family_is_accepted(family: str) -> None:
    assert places(amiFamily=family) == []


@pytest.mark.parametrize("family", ["AL2023", "Windows2025", "al2", "Debian"])
def test_an_unknown_ami_family_is_refused(family: str) -> None:
    assert places(amiFamily=family) == ["amiFamily"]


@pytest.mark.parametrize(
    ("selector", "refused_places"),
    [
        pytest.param({"amiSelector": {"team": "a"}}, [], id="with-a-selector"),
        pytest.param({}, ["amiSelector"], id="without"),
        pytest.param({"amiSelector": {}}, ["amiSelector"], id="with-an-empty-one"),
    ],
)
def test_custom_images_need_a_selector(selector: dict[str, Any], refused_places: list[str]) -> None:
    assert refused_places == places(amiFamily="Custom", **selector)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("securityGroupSelector", SELECTOR),
        ("metadataOptions", {"httpTokens": "required"}),
        ("amiFamily", "AL2"),
        ("instanceProfile", "profile"),
        ("blockDeviceMappings", [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "9Gi"}}]),
        ("userData", "echo"),
        ("amiSelector", {"team": "a"}),
    ],
)
def test_a_launch_template_excludes(field: str, value: object) -> None:
    spec = {"subnetSelector": SELECTOR, "launchTemplate": "lt"}

    assert refused(legacy_findings(template(**spec, **{field: value}))) == [f"spec.{field}"]


def test_a_launch_template_goes_with_the_rest() -> None:
    spec = {
        "subnetSelector": SELECTOR,
        "launchTemplate": "lt",
        "tags": {"team": "a"},
        "context": "x",
        "detailedMonitoring": True,
    }

    assert rendered(legacy_findings(template(**spec))) == []


@pytest.mark.parametrize(
    ("key", "place"),
    [
        pytest.param("karpenter.template", None, id="a-key-of-the-user"),
        pytest.param("Name", None, id="the-name-tag"),
        pytest.param("kubernetes.io/clusters", None, id="a-key-that-only-looks-like-a-cluster"),
        pytest.param("", "tags", id="an-empty-key"),
        pytest.param(
            "kubernetes.io/cluster/demo", "tags[kubernetes.io/cluster/demo]", id="cluster"
        ),
        pytest.param(
            "karpenter.sh/provisioner-name", "tags[karpenter.sh/provisioner-name]", id="owner"
        ),
        pytest.param("karpenter.sh/managed-by", "tags[karpenter.sh/managed-by]", id="managed-by"),
    ],
)
def test_tags(key: str, place: str | None) -> None:
    assert ([place] if place else []) == places(tags={key: "x"})


@pytest.mark.parametrize(
    ("device", "place"),
    [
        pytest.param({"deviceName": "a", "ebs": {"volumeSize": "1G"}}, None, id="the-smallest"),
        pytest.param({"deviceName": "a", "ebs": {"volumeSize": "64T"}}, None, id="the-largest"),
        pytest.param({"deviceName": "a", "ebs": {"volumeSize": "100Gi"}}, None, id="in-gibibytes"),
        pytest.param({"deviceName": "a", "ebs": {"volumeSize": 10**10}}, None, id="in-bytes"),
        pytest.param({"deviceName": "a", "ebs": {"snapshotID": "snap-1"}}, None, id="a-snapshot"),
        pytest.param({"deviceName": "a", "ebs": {"volumeSize": "999M"}}, "ebs.volumeSize", id="small"),
        pytest.param({"deviceName": "a", "ebs": {"volumeSize": "64Ti"}}, "ebs.volumeSize", id="large"),
        pytest.param({"deviceName": "a", "ebs": {"volumeSize": "big"}}, "ebs.volumeSize", id="a-word"),
        pytest.param({"deviceName": "a", "ebs": {}}, "ebs.volumeSize", id="neither-size-nor-snapshot"),
        pytest.param({"deviceName": "a"}, "ebs", id="no-volume"),
        pytest.param({"ebs": {"volumeSize": "9G"}}, "deviceName", id="no-device-name"),
        pytest.param({"deviceName": "", "ebs": {"volumeSize": "9G"}}, "deviceName", id="empty-name"),
        pytest.param(
            {"deviceName": "a", "ebs": {"volumeSize": "9G", "volumeType": "floppy"}},
            "ebs.volumeType",
            id="an-unknown-volume-type",
        ),
    ],
)  # fmt: skip
def test_block_devices(device: dict[str, Any], place: str | None) -> None:
    expected = [f"blockDeviceMappings[0].{place}"] if place else []

    assert expected == places(blockDeviceMappings=[device])


@pytest.mark.parametrize("kind", ["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"])
def test_volume_types(kind: str) -> None:
    device = {"deviceName": "a", "ebs": {"volumeSize": "9G", "volumeType": kind}}

    assert places(blockDeviceMappings=[device]) == []


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("httpEndpoint", ["enabled", "disabled"], "on"),
        ("httpProtocolIPv6", ["enabled", "disabled"], "on"),
        ("httpTokens", ["required", "optional"], "enabled"),
        ("httpPutResponseHopLimit", [1, 64], 0),
        ("httpPutResponseHopLimit", [2], 65),
    ],
)
def test_metadata_options(field: str, good: list[object], bad: object) -> None:
    for choice in good:
        assert places(metadataOptions={field: choice}) == []
    assert places(metadataOptions={field: bad}) == [f"metadataOptions.{field}"]


def test_a_template_without_a_spec_lacks_its_selectors() -> None:
    obj = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate"}

    assert refused(legacy_findings(obj)) == ["spec.subnetSelector", "spec.securityGroupSelector"]


def test_other_kinds_have_no_findings() -> None:
    obj = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": {"tags": {"": ""}}}

    assert rendered(legacy_findings(obj)) == []


FIELDS = st.sampled_from(
    [
        *("subnetSelector", "securityGroupSelector", "amiSelector", "amiFamily", "userData"),
        *("tags", "instanceProfile", "launchTemplate", "blockDeviceMappings", "deviceName"),
        *("ebs", "volumeSize", "snapshotID", "volumeType", "metadataOptions", "httpTokens"),
        *("httpPutResponseHopLimit", "aws-ids", "aws::ids", "context"),
    ]
)


@settings(deadline=None)
@given(st.dictionaries(FIELDS, json_values(FIELDS), max_size=6) | json_values(FIELDS))
def test_no_spec_is_odd_enough_to_raise(spec: Any) -> None:
    findings = legacy_findings({**template(), "spec": spec})

    assert all(line and "\n" not in line for line in rendered(findings))
