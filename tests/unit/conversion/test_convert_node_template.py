"""An AWSNodeTemplate becomes the EC2NodeClass that launches the same machines, row by row."""

from typing import Any

import pytest

from karpenter.admission.errors import ErrorKind, FieldError
from karpenter.conversion.draft import Draft
from karpenter.conversion.node_template import (
    NodeDefaults,
    node_class_of_provider,
    node_class_of_template,
)

SELECTORS = {
    "subnetSelector": {"karpenter.sh/discovery": "c"},
    "securityGroupSelector": {"karpenter.sh/discovery": "c"},
}
ROLE = NodeDefaults(role="R")


def template(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "t"},
        "spec": {**SELECTORS, **spec},
    }


def spec_of(draft: Draft) -> dict[str, Any]:
    assert draft.object is not None
    spec: dict[str, Any] = draft.object["spec"]
    return spec


def ids(*values: str) -> list[dict[str, Any]]:
    return [{"id": value} for value in values]


def tags(*choices: dict[str, str]) -> list[dict[str, Any]]:
    return [{"tags": choice} for choice in choices]


def test_a_small_template_becomes_a_class_of_the_same_name() -> None:
    draft = node_class_of_template(template(), ROLE)

    expected = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "t"},
        "spec": {
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "c"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "c"}}],
            "amiSelectorTerms": [{"alias": "al2@latest"}],
            "role": "R",
            "metadataOptions": {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 2,
                "httpTokens": "required",
            },
        },
    }
    assert expected == draft.object
    assert not draft.errors


@pytest.mark.parametrize(
    ("selector", "terms"),
    [
        pytest.param(
            {"aws-ids": "subnet-1, subnet-2"},
            ids("subnet-1", "subnet-2"),
            id="ids become one term each",
        ),
        pytest.param(
            {"aws::ids": "subnet-1,subnet-1"}, ids("subnet-1"), id="a repeated id is said once"
        ),
        pytest.param(
            {"Name": "a", "env": "x"},
            tags({"Name": "a", "env": "x"}),
            id="tags become one term and the key Name stays a tag",
        ),
        pytest.param(
            {"b": "2,1", "a": " x , y "},
            tags(
                {"a": "x", "b": "2"},
                {"a": "x", "b": "1"},
                {"a": "y", "b": "2"},
                {"a": "y", "b": "1"},
            ),
            id="commas become one term per combination with sorted keys and trimmed blanks",
        ),
        pytest.param({"a": "*"}, tags({"a": "*"}), id="a star still means any value"),
        pytest.param({"a": "x,,"}, tags({"a": "x"}), id="nothing between commas is no value"),
        pytest.param({"a": " "}, tags({"a": ""}), id="a blank value is left for v1 to refuse"),
    ],
)
@pytest.mark.parametrize("field", ["subnetSelector", "securityGroupSelector"])
def test_selectors(field: str, selector: dict[str, str], terms: list[dict[str, Any]]) -> None:
    draft = node_class_of_template(template(**{field: selector}), ROLE)

    assert terms == spec_of(draft)[f"{field}Terms"]
    assert not draft.errors


def test_ids_beside_tags_are_refused() -> None:
    selector = {"aws-ids": "subnet-1", "env": "x"}

    draft = node_class_of_template(template(subnetSelector=selector), ROLE)

    assert [error.path for error in draft.errors] == [("spec", "subnetSelector", "env")]


def test_combinations_beyond_what_v1_takes_are_counted_but_never_built() -> None:
    selector = {str(key): ",".join(map(str, range(10))) for key in range(12)}

    draft = node_class_of_template(template(subnetSelector=selector), ROLE)

    expected = FieldError(
        ErrorKind.TOO_MANY,
        ("spec", "subnetSelector"),
        "stands for 1000000000000 combinations of values, and v1 takes 30 terms at most; "
        "select by fewer values",
    )
    assert [expected] == list(draft.errors)
    assert len(spec_of(draft)["subnetSelectorTerms"]) == 30


@pytest.mark.parametrize(
    ("selector", "terms", "dropped"),
    [
        pytest.param(
            {"aws-ids": "ami-1,ami-2"}, ids("ami-1", "ami-2"), [], id="ids become one term each"
        ),
        pytest.param({"env": "x"}, tags({"env": "x"}), [], id="tags become a term"),
        pytest.param(
            {"aws::owners": "self,1", "aws::name": "n1,n2", "env": "x,y"},
            [
                {"owner": owner, "name": name, "tags": {"env": env}}
                for owner in ("self", "1")
                for name in ("n1", "n2")
                for env in ("x", "y")
            ],
            [],
            id="owners, names and tags multiply",
        ),
        pytest.param(
            {"aws::ids": "ami-1", "aws::owners": "self", "aws::name": "n", "env": "x"},
            ids("ami-1"),
            ["aws::owners", "aws::name", "env"],
            id="beside ids everything else is dropped with a warning",
        ),
    ],
)
def test_image_selectors(
    selector: dict[str, str], terms: list[dict[str, Any]], dropped: list[str]
) -> None:
    draft = node_class_of_template(template(amiSelector=selector), ROLE)

    assert terms == spec_of(draft)["amiSelectorTerms"]
    assert [("spec", "amiSelector", key) for key in dropped] == [w.path for w in draft.warnings]
    assert spec_of(draft)["amiFamily"] == "AL2"


@pytest.mark.parametrize(
    ("family", "alias"),
    [
        pytest.param(None, "al2@latest", id="no family means AL2"),
        pytest.param("AL2", "al2@latest", id="AL2"),
        pytest.param("Bottlerocket", "bottlerocket@latest", id="Bottlerocket"),
        pytest.param("Windows2019", "windows2019@latest", id="Windows2019"),
        pytest.param("Windows2022", "windows2022@latest", id="Windows2022"),
        pytest.param("AL2023", "al2023@latest", id="AL2023, which the last releases knew"),
    ],
)
def test_a_family_without_selector_becomes_an_alias(family: str | None, alias: str) -> None:
    draft = node_class_of_template(template(amiFamily=family), ROLE)

    assert [{"alias": alias}] == spec_of(draft)["amiSelectorTerms"]
    assert "amiFamily" not in spec_of(draft)


@pytest.mark.parametrize("family", ["AL2", "Bottlerocket", "Windows2022", "Custom"])
def test_a_family_with_selector_is_kept(family: str) -> None:
    draft = node_class_of_template(template(amiFamily=family, amiSelector={"a": "b"}), ROLE)

    assert family == spec_of(draft)["amiFamily"]
    assert tags({"a": "b"}) == spec_of(draft)["amiSelectorTerms"]


def test_the_end_of_al2_is_pointed_out() -> None:
    draft = node_class_of_template(template(), ROLE)

    assert [warning.path for warning in draft.warnings] == [("spec", "amiFamily")]
    assert "UnsupportedAlias" in draft.warnings[0].message


def test_ubuntu_is_written_as_al2_and_marked() -> None:
    draft = node_class_of_template(template(amiFamily="Ubuntu"), ROLE)

    spec = spec_of(draft)
    assert draft.object is not None
    marks = draft.object["metadata"]["annotations"]
    assert marks == {
        "compatibility.karpenter.k8s.aws/v1beta1-ubuntu": (
            "amiFamily,blockDeviceMappings,incompatible"
        )
    }
    assert spec["amiFamily"] == "AL2"
    assert ids("ami-placeholder") == spec["amiSelectorTerms"]
    assert spec["blockDeviceMappings"][0]["deviceName"] == "/dev/sda1"
    assert len(draft.warnings) == 2


def test_an_unknown_family_is_refused() -> None:
    draft = node_class_of_template(template(amiFamily="Debian"), ROLE)

    assert [error.path for error in draft.errors] == [("spec", "amiFamily")]
    assert draft.errors[0].kind is ErrorKind.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("spec", "defaults", "expected"),
    [
        pytest.param(
            {"instanceProfile": "own"},
            NodeDefaults(role="R", instance_profile="P"),
            {"instanceProfile": "own"},
            id="the manifest's own profile wins",
        ),
        pytest.param(
            {},
            NodeDefaults(role="R", instance_profile="P"),
            {"instanceProfile": "P"},
            id="then the profile of the command line",
        ),
        pytest.param(
            {}, NodeDefaults(role="R"), {"role": "R"}, id="then the role of the command line"
        ),
        pytest.param(
            {}, NodeDefaults(), {"role": "${KARPENTER_NODE_ROLE}"}, id="else a placeholder"
        ),
    ],
)
def test_defaults_of_the_nodes(
    spec: dict[str, Any], defaults: NodeDefaults, expected: dict[str, Any]
) -> None:
    draft = node_class_of_template(template(**spec), defaults)

    actual = {
        key: spec_of(draft)[key] for key in ("role", "instanceProfile") if key in spec_of(draft)
    }
    assert expected == actual


def test_the_placeholder_role_comes_with_a_warning() -> None:
    draft = node_class_of_template(template(amiFamily="Bottlerocket"), NodeDefaults())

    assert [warning.path for warning in draft.warnings] == [("spec", "instanceProfile")]
    assert "--node-role" in draft.warnings[0].message


@pytest.mark.row("S2-94")
def test_a_launch_template_cannot_be_converted_and_the_error_names_what_replaces_it() -> None:
    draft = node_class_of_template(template(launchTemplate="mine"), ROLE)

    assert draft.object is None
    assert [error.path for error in draft.errors] == [("spec", "launchTemplate")]
    for field in (
        "securityGroupSelectorTerms",
        "amiFamily",
        "amiSelectorTerms",
        "userData",
        "blockDeviceMappings",
        "metadataOptions",
        "role",
        "instanceProfile",
    ):
        assert field in draft.errors[0].detail


def test_user_data_tags_monitoring_and_context_stay_where_they_are() -> None:
    same = {"userData": "x", "tags": {"a": "b"}, "detailedMonitoring": True, "context": "c"}

    draft = node_class_of_template(template(**same), ROLE)

    assert same == {key: spec_of(draft)[key] for key in same}


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        pytest.param("100Gi", "100Gi", id="whole Gi stay"),
        pytest.param("64T", "64T", id="the largest T stays"),
        pytest.param("2Ti", "2Ti", id="whole Ti stay"),
        pytest.param("18Ti", "18432Gi", id="a Ti size that Karpenter refuses becomes Gi"),
        pytest.param("102400Mi", "100Gi", id="Mi become Gi"),
        pytest.param("1.5Ti", "1536Gi", id="broken Ti become Gi"),
        pytest.param("100.5Gi", "101Gi", id="broken Gi are rounded up"),
        pytest.param(107374182400, "100Gi", id="bytes become Gi"),
        pytest.param("64000000M", "64000G", id="beyond the largest Gi it is G"),
    ],
)
def test_volume_sizes(size: object, expected: str) -> None:
    devices = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size, "encrypted": True}}]

    draft = node_class_of_template(template(blockDeviceMappings=devices), ROLE)

    assert spec_of(draft)["blockDeviceMappings"] == [
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": expected, "encrypted": True}}
    ]
    assert not draft.errors


@pytest.mark.parametrize("size", [100, "999M", "65T", "large"])
def test_a_volume_size_that_was_never_allowed_is_refused(size: object) -> None:
    devices = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}]

    draft = node_class_of_template(template(blockDeviceMappings=devices), ROLE)

    assert [error.path for error in draft.errors] == [
        ("spec", "blockDeviceMappings", 0, "ebs", "volumeSize")
    ]


@pytest.mark.parametrize(
    ("options", "hops", "tokens"),
    [
        pytest.param(None, 2, "required", id="absent options were 2 hops with tokens"),
        pytest.param({}, 1, "optional", id="empty options were EC2's own"),
        pytest.param(
            {"httpEndpoint": "enabled"}, 1, "optional", id="partial options were EC2's own"
        ),
        pytest.param({"httpTokens": "required"}, 1, "required", id="given tokens stay"),
        pytest.param({"httpPutResponseHopLimit": 3}, 3, "optional", id="given hops stay"),
    ],
)
def test_old_metadata_defaults_are_written_out(
    options: dict[str, Any] | None, hops: int, tokens: str
) -> None:
    draft = node_class_of_template(template(metadataOptions=options), ROLE)

    expected = {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": hops,
        "httpTokens": tokens,
    }
    assert expected == spec_of(draft)["metadataOptions"]


def test_metadata_keeps_what_is_the_authors() -> None:
    written = {
        "name": "t",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["e"],
        "uid": "1",
        "resourceVersion": "2",
        "generation": 3,
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "managedFields": [],
    }

    draft = node_class_of_template({**template(), "metadata": written}, ROLE)

    assert draft.object is not None
    assert draft.object["metadata"] == {
        "name": "t",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["e"],
    }


def test_an_inline_provider_becomes_a_class_named_after_its_provisioner() -> None:
    provider = {"apiVersion": "extensions.karpenter.sh/v1alpha1", "kind": "AWS", **SELECTORS}

    draft = node_class_of_provider(provider, "p", ("spec", "provider"), ROLE)

    assert draft.object is not None
    assert draft.object["metadata"] == {"name": "p"}
    assert spec_of(node_class_of_template(template(), ROLE)) == spec_of(draft)


def test_findings_in_an_inline_provider_name_its_fields() -> None:
    provider = {**SELECTORS, "amiFamily": "Debian"}

    draft = node_class_of_provider(provider, "p", ("spec", "provider"), ROLE)

    assert [error.path for error in draft.errors] == [("spec", "provider", "amiFamily")]


@pytest.mark.parametrize(
    ("produced", "written"),
    [
        pytest.param(
            ("spec", "subnetSelectorTerms", 0, "tags"), ("spec", "subnetSelector"), id="subnets"
        ),
        pytest.param(("spec", "amiSelectorTerms", 0), ("spec", "amiFamily"), id="an alias"),
        pytest.param(("spec", "tags", "a"), ("spec", "tags", "a"), id="tags"),
        pytest.param(("metadata", "name"), ("metadata", "name"), id="the name"),
    ],
)
def test_produced_fields_lead_back_to_the_template(
    produced: tuple[str | int, ...], written: tuple[str | int, ...]
) -> None:
    draft = node_class_of_template(template(), ROLE)

    assert written == draft.origins.of(produced).path
