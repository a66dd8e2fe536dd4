"""The API server's promise for EC2NodeClasses of ``karpenter.k8s.aws``, v1 and v1beta1.

The older version has fewer fields, a required family, a role for life and a wider hop limit; what
it shares with v1 is checked for both, since a write is judged by the version it names. Every field
has an object that is accepted and every rule one that is refused at the right place; two tests at
the end watch over that completeness.
"""

from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from helpers.crd_cases import named_tables, values_of
from karpenter.admission.schemas.engine import Admitted, CompiledVersion, builtin
from unit.api.crds.cases.ec2nodeclass_accepted import ACCEPTED
from unit.api.crds.cases.ec2nodeclass_refused import REFUSED_BY_RULE, REFUSED_BY_SCHEMA
from unit.api.crds.cases.ec2nodeclass_specs import (
    ABSENT,
    ALIAS,
    PROFILE,
    TAGS,
    alias,
    old_ami,
    without_absent,
)
from unit.api.crds.crd_walk import (
    crd_version,
    declared_fields,
    rule_messages,
    undescribed,
    used_fields,
)

CRD = "ec2nodeclasses.karpenter.k8s.aws"
SMALL: dict[str, dict[str, Any]] = {
    "v1": {"amiSelectorTerms": [ALIAS]},
    "v1beta1": {"amiFamily": "AL2"},
}
DEFAULT_METADATA_OPTIONS: dict[str, dict[str, Any]] = {
    version: {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": hop_limit,
        "httpTokens": "required",
    }
    for version, hop_limit in (("v1", 1), ("v1beta1", 2))
}
ACCEPTED_UPDATES = {
    "v1": [
        pytest.param({"role": "a"}, {"role": "b"}, id="role-changed"),
        pytest.param(
            {"role": "a"}, {"role": ABSENT, "instanceProfile": "p"}, id="role-to-instance-profile"
        ),
        pytest.param(
            {"role": ABSENT, "instanceProfile": "p"}, {"role": "a"}, id="instance-profile-to-role"
        ),
        pytest.param(
            {"role": ABSENT, "instanceProfile": "p"},
            {"role": ABSENT, "instanceProfile": "q"},
            id="instance-profile-changed",
        ),
        pytest.param({}, alias("bottlerocket@latest"), id="alias-changed"),
    ],
    "v1beta1": [
        pytest.param({}, {"userData": "echo hello"}, id="role-kept"),
        pytest.param(
            PROFILE, {**PROFILE, "instanceProfile": "other"}, id="instance-profile-changed"
        ),
        pytest.param({}, {"amiFamily": "Bottlerocket"}, id="family-changed"),
    ],
}
REFUSED_UPDATES: dict[str, list[ParameterSet]] = {
    "v1": [],
    "v1beta1": [
        pytest.param(
            {"role": "a"}, {"role": "b"}, "spec.role", "cannot be changed", id="role-changed"
        ),
        pytest.param(
            {}, PROFILE, "spec", "between role and instanceProfile", id="role-to-instance-profile"
        ),
        pytest.param(
            PROFILE, {}, "spec", "between role and instanceProfile", id="instance-profile-to-role"
        ),
    ],
}
DEFAULTED = {
    "v1": [
        pytest.param({}, DEFAULT_METADATA_OPTIONS["v1"], id="aws-16-absent"),
        pytest.param({"metadataOptions": {}}, DEFAULT_METADATA_OPTIONS["v1"], id="empty"),
        pytest.param(
            {"metadataOptions": {"httpTokens": "optional"}},
            {**DEFAULT_METADATA_OPTIONS["v1"], "httpTokens": "optional"},
            id="aws-16-tokens-optional",
        ),
        pytest.param(
            {"metadataOptions": {"httpPutResponseHopLimit": 2}},
            {**DEFAULT_METADATA_OPTIONS["v1"], "httpPutResponseHopLimit": 2},
            id="hop-limit-kept",
        ),
    ],
    "v1beta1": [
        pytest.param({}, DEFAULT_METADATA_OPTIONS["v1beta1"], id="absent"),
        pytest.param({"metadataOptions": {}}, DEFAULT_METADATA_OPTIONS["v1beta1"], id="empty"),
        pytest.param(
            {"metadataOptions": {"httpPutResponseHopLimit": 1}},
            {**DEFAULT_METADATA_OPTIONS["v1beta1"], "httpPutResponseHopLimit": 1},
            id="hop-limit-kept",
        ),
    ],
}


def kind(version: str) -> CompiledVersion:
    compiled = builtin(f"karpenter.k8s.aws/{version}", "EC2NodeClass")
    assert compiled is not None
    return compiled


def node_class(version: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A small valid class with fields of its spec replaced, or left out when ABSENT."""
    fields = {
        "role": "KarpenterNodeRole-demo",
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        **SMALL[version],
        **spec,
    }
    return {
        "apiVersion": f"karpenter.k8s.aws/{version}",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": without_absent(fields),
    }


def admit(version: str, spec: dict[str, Any], old: dict[str, Any] | None = None) -> Admitted:
    stored = None if old is None else node_class(version, old)
    return kind(version).admit(node_class(version, spec), old=stored)


@pytest.mark.parametrize(("version", "spec"), named_tables(ACCEPTED))
def test_accepted(version: str, spec: dict[str, Any]) -> None:
    admitted = admit(version, spec)

    assert (admitted.errors, admitted.pruned) == ([], [])


@pytest.mark.parametrize(("version", "spec", "path", "words"), named_tables(REFUSED_BY_RULE))
def test_refused_by_a_rule(version: str, spec: dict[str, Any], path: str, words: str) -> None:
    errors = admit(version, spec).errors

    assert {path} == {error.field for error in errors}
    assert any(words in error.detail for error in errors)


@pytest.mark.parametrize(("version", "spec", "path"), named_tables(REFUSED_BY_SCHEMA))
def test_refused_by_the_schema(version: str, spec: dict[str, Any], path: str) -> None:
    assert path in [error.field for error in admit(version, spec).errors]


@pytest.mark.row("S2-68")
@pytest.mark.parametrize(
    ("version", "name"),
    [
        pytest.param("v1", "default", id="v1"),
        pytest.param("v1beta1", "default-security-group", id="v1beta1"),
    ],
)
def test_one_term_with_id_name_and_tags_breaks_both_exclusions(version: str, name: str) -> None:
    mixed = {"id": "sg-1", "name": name, **TAGS}

    errors = admit(version, {"securityGroupSelectorTerms": [mixed]}).errors

    assert [error.field for error in errors] == ["spec.securityGroupSelectorTerms"] * 2


def test_a_class_without_spec_is_refused() -> None:
    without_spec = {name: value for name, value in node_class("v1", {}).items() if name != "spec"}

    errors = kind("v1").admit(without_spec).errors

    assert "spec" in [error.field for error in errors]


@pytest.mark.parametrize(("version", "old", "new"), named_tables(ACCEPTED_UPDATES))
def test_update_accepted(version: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    assert admit(version, new, old).errors == []


@pytest.mark.parametrize(("version", "old", "new", "path", "words"), named_tables(REFUSED_UPDATES))
def test_update_refused(
    version: str, old: dict[str, Any], new: dict[str, Any], path: str, words: str
) -> None:
    errors = admit(version, new, old).errors

    assert [path] == [error.field for error in errors]
    assert words in errors[0].detail


@pytest.mark.parametrize(("version", "given", "stored"), named_tables(DEFAULTED))
def test_metadata_options_default_one_by_one(
    version: str, given: dict[str, Any], stored: dict[str, Any]
) -> None:
    assert stored == admit(version, given).object["spec"]["metadataOptions"]


def test_nothing_else_is_defaulted() -> None:
    expected = node_class("v1", {"metadataOptions": DEFAULT_METADATA_OPTIONS["v1"]})

    assert expected == admit("v1", {}).object


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        pytest.param("v1", {"kubelet": {"maxPods": 20}}, id="v1"),
        pytest.param("v1beta1", {}, id="v1beta1"),
    ],
)
def test_applying_the_stored_object_again_changes_nothing(
    version: str, spec: dict[str, Any]
) -> None:
    stored = admit(version, spec).object

    again = kind(version).admit(stored, old=stored)

    assert (stored, [], []) == (again.object, again.errors, again.pruned)


def test_unknown_fields_are_dropped_and_named() -> None:
    admitted = admit("v1", {"colour": "red", "amiSelectorTerms": [{**ALIAS, "size": "big"}]})

    assert node_class("v1", {"metadataOptions": DEFAULT_METADATA_OPTIONS["v1"]}) == admitted.object
    assert {("spec", "colour"), ("spec", "amiSelectorTerms", 0, "size")} == set(admitted.pruned)


def test_unknown_kubelet_fields_are_kept_at_any_depth() -> None:
    kubelet = {"maxPods": "vcpus * 4", "memorySwap": {"swapBehavior": "NoSwap"}, "odd": [{"a": 1}]}

    admitted = admit("v1", {"kubelet": kubelet})

    assert (kubelet, []) == (admitted.object["spec"]["kubelet"], admitted.pruned)


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
    admitted = admit("v1beta1", {field: value})

    assert [("spec", field)] == admitted.pruned
    assert field not in admitted.object["spec"]


@pytest.mark.parametrize("field", ["alias", "ssmParameter"])
def test_a_term_with_nothing_but_a_later_field_is_refused(field: str) -> None:
    errors = admit("v1beta1", old_ami({field: "al2023@latest"})).errors

    assert [error.field for error in errors] == ["spec.amiSelectorTerms[0]"]


@pytest.mark.parametrize("version", SMALL)
def test_kubectl_shows_ready_and_age_and_the_role_when_wide(version: str) -> None:
    columns = crd_version(CRD, version)["additionalPrinterColumns"]

    assert [
        (column["name"], column["jsonPath"], column.get("priority", 0)) for column in columns
    ] == [
        ("Ready", '.status.conditions[?(@.type=="Ready")].status', 0),
        ("Age", ".metadata.creationTimestamp", 0),
        ("Role", ".spec.role", 1),
    ]


def test_v1_is_not_deprecated() -> None:
    assert kind("v1").deprecation is None


def test_the_warning_names_the_version_to_use() -> None:
    assert "use karpenter.k8s.aws/v1 " in (kind("v1beta1").deprecation or "")


@pytest.mark.parametrize("version", SMALL)
def test_every_field_has_a_description(version: str) -> None:
    assert undescribed(crd_version(CRD, version)) == []


@pytest.mark.parametrize("version", SMALL)
def test_every_rule_has_a_refusing_case(version: str) -> None:
    creations = [admit(version, spec) for spec, *_ in values_of(REFUSED_BY_RULE[version])]
    updates = [admit(version, new, old) for old, new, *_ in values_of(REFUSED_UPDATES[version])]

    seen = {error.detail for admitted in creations + updates for error in admitted.errors}

    assert set() == rule_messages(crd_version(CRD, version)) - seen


@pytest.mark.parametrize("version", SMALL)
def test_every_field_has_an_accepting_case(version: str) -> None:
    used = {
        path
        for (spec,) in values_of(ACCEPTED[version])
        for path in used_fields(node_class(version, spec)["spec"])
    }

    assert set() == declared_fields(crd_version(CRD, version)) - used
