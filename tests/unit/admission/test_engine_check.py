"""One entry checks any object: the project's kinds, Kubernetes' kinds, and what is neither."""

import copy
from typing import Any

import pytest

from helpers.crd_cases import replaced
from helpers.small_objects import POOL, PROVISIONER
from karpenter.admission.check import Checked, check

WEIGHED = replaced(PROVISIONER, "spec.weight", 10)
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}


def changed(obj: dict[str, Any], *path: str, value: object) -> dict[str, Any]:
    """A copy of ``obj`` with one field set."""
    result = copy.deepcopy(obj)
    parent = result
    for name in path[:-1]:
        parent = parent.setdefault(name, {})
    parent[path[-1]] = value
    return result


def errors(checked: Checked) -> list[str]:
    return [str(error) for error in checked.errors]


def warnings(checked: Checked) -> list[str]:
    return [warning.message for warning in checked.warnings]


@pytest.mark.parametrize("obj", [POOL, WEIGHED, POD], ids=lambda obj: str(obj["kind"]))
def test_a_good_object_has_no_errors_and_is_not_changed(obj: dict[str, Any]) -> None:
    given = copy.deepcopy(obj)

    checked = check(given)

    assert ([], obj) == (checked.errors, given)


def test_defaults_are_filled_in() -> None:
    stored = check(POOL).object

    assert stored["spec"]["template"]["spec"]["expireAfter"] == "720h"


def test_an_error_of_the_schema_is_found() -> None:
    expected = [
        "spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1"
    ]

    assert expected == errors(check(changed(POOL, "spec", "weight", value=0)))


def test_a_change_that_a_rule_forbids_is_found_only_with_the_old_object() -> None:
    path = ("spec", "template", "spec", "nodeClassRef", "group")
    new = changed(POOL, *path, value="example.com")

    found = [error.field for error in check(new, POOL).errors]

    assert (errors(check(new)), any("nodeClassRef" in field for field in found)) == ([], True)


def test_an_error_of_the_controllers_is_found() -> None:
    taint = {"key": "example.com/a", "effect": "NoSchedule"}
    obj = changed(POOL, "spec", "template", "spec", "taints", value=[taint, taint])

    assert [error.field for error in check(obj).errors] == ["spec.template.spec.taints[1]"]


def test_the_controllers_do_not_judge_an_object_without_its_shape() -> None:
    taint = {"key": "example.com/a", "effect": "NoSchedule"}
    obj = changed(POOL, "spec", "template", "spec", "taints", value=[taint, taint])
    obj["spec"]["weight"] = "ten"

    assert [error.field for error in check(obj).errors] == ["spec.weight"]


def test_a_field_that_a_rule_refused_is_not_refused_again_by_the_controllers() -> None:
    requirement = {"key": "karpenter.sh/other", "operator": "In", "values": ["a"]}
    obj = changed(POOL, "spec", "template", "spec", "requirements", value=[requirement])

    fields = [error.field for error in check(obj).errors]

    assert len(set(fields)) == len(fields) > 0


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(
            ("spec", "wieght"),
            'unknown field "spec.wieght"; did you mean "weight"?',
            id="a slip",
        ),
        pytest.param(
            ("spec", "template", "metadata", "billing-team"),
            'unknown field "spec.template.metadata.billing-team"',
            id="something else",
        ),
    ],
)
def test_an_unknown_field_is_dropped_with_a_warning(path: tuple[str, ...], expected: str) -> None:
    obj = changed(POOL, *path, value={"a": 1})

    checked = check(obj)

    assert ([], [expected], path) == (
        checked.errors,
        warnings(checked),
        checked.warnings[0].path,
    )


def test_fields_inside_a_value_of_the_wrong_type_are_not_warned_about() -> None:
    checked = check(changed(POOL, "spec", "weight", value={"a": 1}))

    assert ([e.field for e in checked.errors], checked.warnings) == (["spec.weight"], [])


def test_a_provisioner_is_stored_with_the_defaults_of_its_webhook() -> None:
    keys = [item["key"] for item in check(WEIGHED).object["spec"]["requirements"]]

    assert "kubernetes.io/arch" in keys


def test_an_error_of_the_legacy_webhook_is_found() -> None:
    obj = changed(WEIGHED, "spec", "providerRef", value=None)

    assert [error.field for error in check(obj).errors] == ["spec.providerRef"]


def test_rules_of_a_cloud_apply_to_that_cloud_only() -> None:
    obj = changed(WEIGHED, "spec", "providerRef", value=None)
    obj["spec"]["provider"] = {}

    assert (bool(check(obj).errors), check(obj, provider="kwok").errors) == (True, [])


def test_an_old_version_is_accepted_with_a_warning() -> None:
    assert check(WEIGHED).warnings[0].path == ("apiVersion",)


@pytest.mark.parametrize(
    ("obj", "complaint"),
    [
        pytest.param(
            changed(POD, "metadata", "annotations", value={"karpenter.sh/do-not-disrupt": True}),
            "metadata.annotations[karpenter.sh/do-not-disrupt]: Invalid value: true: must be a"
            " string, not boolean; write it in quotes",
            id="metadata, once",
        ),
        pytest.param(
            changed(POD, "spec", "nodeSelector", value={"a": 1}),
            "spec.nodeSelector.a: Invalid value: expected a string, got a whole number;"
            " write it in quotes",
            id="a field that is read",
        ),
    ],
)
def test_an_error_in_a_kubernetes_object(obj: dict[str, Any], complaint: str) -> None:
    assert [complaint] == errors(check(obj))


@pytest.mark.parametrize(
    ("api_version", "kind", "complaint"),
    [
        pytest.param(
            "compute.k8s.aws/v1beta1",
            "EC2NodeClass",
            'no matches for kind "EC2NodeClass" in version "compute.k8s.aws/v1beta1";'
            ' did you mean version "karpenter.k8s.aws/v1beta1"?',
            id="a group that does not exist",
        ),
        pytest.param(
            "karpenter.sh/v2",
            "NodePool",
            'no matches for kind "NodePool" in version "karpenter.sh/v2";'
            ' did you mean version "karpenter.sh/v1"?',
            id="a version that does not exist",
        ),
        pytest.param(
            "karpenter.sh/v1",
            "NodePol",
            'no matches for kind "NodePol" in version "karpenter.sh/v1";'
            ' did you mean kind "NodePool"?',
            id="a slip in the kind",
        ),
        pytest.param(
            "karpneter.sh/v1",
            "Nodepool",
            'no matches for kind "Nodepool" in version "karpneter.sh/v1";'
            ' did you mean kind "NodePool" in version "karpenter.sh/v1"?',
            id="slips in both",
        ),
        pytest.param(
            "eksctl.io/v1alpha5",
            "ClusterConfig",
            'no matches for kind "ClusterConfig" in version "eksctl.io/v1alpha5"',
            id="something else",
        ),
    ],
)
def test_a_kind_that_does_not_exist(api_version: str, kind: str, complaint: str) -> None:
    checked = check({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}})

    assert [complaint] == [error.detail for error in checked.errors]


@pytest.mark.parametrize("missing", ["apiVersion", "kind"])
def test_a_missing_kind_or_version_is_named(missing: str) -> None:
    obj = {key: value for key, value in POD.items() if key != missing}

    assert [missing] == [error.field for error in check(obj).errors]
