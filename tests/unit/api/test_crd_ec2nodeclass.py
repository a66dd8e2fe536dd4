"""The API server's promise for ``karpenter.k8s.aws/v1`` EC2NodeClass.

Every field has an object that is accepted and every rule one that is refused at the right place;
two tests at the end watch over that completeness.
"""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from _pytest.mark.structures import ParameterSet

from karpenter.admission.crds import builtin_crds
from karpenter.admission.engine import Admitted, CompiledVersion, builtin
from unit.api.crd_walk import (
    crd_version,
    declared_fields,
    rule_messages,
    undescribed,
    used_fields,
)
from unit.api.ec2nodeclass_accepted import ACCEPTED
from unit.api.ec2nodeclass_refused import REFUSED_BY_RULE, REFUSED_BY_SCHEMA
from unit.api.ec2nodeclass_specs import ABSENT, ALIAS, TAGS, alias, without_absent

V1 = crd_version("ec2nodeclasses.karpenter.k8s.aws", "v1")
DEFAULT_METADATA_OPTIONS = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 1,
    "httpTokens": "required",
}


def kind() -> CompiledVersion:
    compiled = builtin("karpenter.k8s.aws/v1", "EC2NodeClass")
    assert compiled is not None
    return compiled


def node_class(spec: dict[str, Any]) -> dict[str, Any]:
    """A small valid class with fields of its spec replaced, or left out when ABSENT."""
    fields = {
        "role": "KarpenterNodeRole-demo",
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        "amiSelectorTerms": [ALIAS],
        **spec,
    }
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": without_absent(fields),
    }


def admit(spec: dict[str, Any], old: dict[str, Any] | None = None) -> Admitted:
    return kind().admit(node_class(spec), old=None if old is None else node_class(old))


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


@pytest.mark.row("S2-68")
def test_one_term_with_id_name_and_tags_breaks_both_exclusions() -> None:
    mixed = {"id": "sg-1", "name": "default", **TAGS}

    errors = admit({"securityGroupSelectorTerms": [mixed]}).errors

    assert [error.field for error in errors] == ["spec.securityGroupSelectorTerms"] * 2


def test_a_class_without_spec_is_refused() -> None:
    without_spec = {name: value for name, value in node_class({}).items() if name != "spec"}

    errors = kind().admit(without_spec).errors

    assert "spec" in [error.field for error in errors]


@pytest.mark.parametrize(
    ("old", "new"),
    [
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
)
def test_everything_in_v1_can_be_changed(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert admit(new, old).errors == []


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param({}, DEFAULT_METADATA_OPTIONS, id="aws-16-absent"),
        pytest.param({"metadataOptions": {}}, DEFAULT_METADATA_OPTIONS, id="empty"),
        pytest.param(
            {"metadataOptions": {"httpTokens": "optional"}},
            {**DEFAULT_METADATA_OPTIONS, "httpTokens": "optional"},
            id="aws-16-tokens-optional",
        ),
        pytest.param(
            {"metadataOptions": {"httpPutResponseHopLimit": 2}},
            {**DEFAULT_METADATA_OPTIONS, "httpPutResponseHopLimit": 2},
            id="hop-limit-kept",
        ),
    ],
)
def test_metadata_options_default_one_by_one(given: dict[str, Any], stored: dict[str, Any]) -> None:
    assert stored == admit(given).object["spec"]["metadataOptions"]


def test_nothing_else_is_defaulted() -> None:
    expected = node_class({"metadataOptions": DEFAULT_METADATA_OPTIONS})

    assert expected == admit({}).object


def test_applying_the_stored_object_again_changes_nothing() -> None:
    stored = admit({"kubelet": {"maxPods": 20}}).object

    again = kind().admit(stored, old=stored)

    assert (stored, [], []) == (again.object, again.errors, again.pruned)


def test_unknown_fields_are_dropped_and_named() -> None:
    admitted = admit({"colour": "red", "amiSelectorTerms": [{**ALIAS, "size": "big"}]})

    assert node_class({"metadataOptions": DEFAULT_METADATA_OPTIONS}) == admitted.object
    assert {("spec", "colour"), ("spec", "amiSelectorTerms", 0, "size")} == set(admitted.pruned)


def test_unknown_kubelet_fields_are_kept_at_any_depth() -> None:
    kubelet = {"maxPods": "vcpus * 4", "memorySwap": {"swapBehavior": "NoSwap"}, "odd": [{"a": 1}]}

    admitted = admit({"kubelet": kubelet})

    assert (kubelet, []) == (admitted.object["spec"]["kubelet"], admitted.pruned)


def test_names_scope_and_subresources() -> None:
    crd = builtin_crds()["ec2nodeclasses.karpenter.k8s.aws"]["spec"]

    assert (crd["group"], crd["scope"]) == ("karpenter.k8s.aws", "Cluster")
    assert crd["names"] == {
        "kind": "EC2NodeClass",
        "listKind": "EC2NodeClassList",
        "plural": "ec2nodeclasses",
        "singular": "ec2nodeclass",
        "shortNames": ["ec2nc", "ec2ncs"],
        "categories": ["karpenter"],
    }
    assert [
        (version["name"], version["served"], version["storage"]) for version in crd["versions"]
    ] == [("v1", True, True), ("v1beta1", True, False)]
    assert [version["subresources"] for version in crd["versions"]] == [{"status": {}}] * 2


def test_kubectl_shows_ready_and_age_and_the_role_when_wide() -> None:
    columns = V1["additionalPrinterColumns"]

    assert [
        (column["name"], column["jsonPath"], column.get("priority", 0)) for column in columns
    ] == [
        ("Ready", '.status.conditions[?(@.type=="Ready")].status', 0),
        ("Age", ".metadata.creationTimestamp", 0),
        ("Role", ".spec.role", 1),
    ]


def test_v1_is_not_deprecated() -> None:
    assert kind().deprecation is None


def test_every_field_has_a_description() -> None:
    assert undescribed(V1) == []


def test_every_rule_has_a_refusing_case() -> None:
    seen = {error.detail for spec in specs(REFUSED_BY_RULE) for error in admit(spec).errors}

    assert set() == rule_messages(V1) - seen


def test_every_field_has_an_accepting_case() -> None:
    used = {path for spec in specs(ACCEPTED) for path in used_fields(node_class(spec)["spec"])}

    assert set() == declared_fields(V1) - used


def specs(cases: Sequence[ParameterSet]) -> list[dict[str, Any]]:
    return [cast("dict[str, Any]", case.values[0]) for case in cases]
