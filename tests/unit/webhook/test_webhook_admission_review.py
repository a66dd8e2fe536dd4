"""AdmissionReview in and out: what alpha kinds lack is patched in, what they break is named."""

import base64
import json
from typing import Any

import pytest

from karpenter.webhook.admission_review import defaulted, validated
from karpenter.webhook.reviews import ReviewError

PROVISIONER: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "default"},
    "spec": {"providerRef": {"name": "default"}},
}
TEMPLATE: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1alpha1",
    "kind": "AWSNodeTemplate",
    "metadata": {"name": "default"},
    "spec": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}},
}


def review(obj: Any, operation: str = "CREATE", old: Any = None) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "7", "operation": operation, "object": obj, "oldObject": old},
    }


def with_spec(obj: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {**obj, "spec": {**obj["spec"], **fields}}


def patch_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    response = answer["response"]
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    found: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return found


def test_defaults_come_as_a_json_patch() -> None:
    answer = defaulted(review(PROVISIONER), "early", "aws")

    (change,) = patch_of(answer)
    assert (change["op"], change["path"]) == ("add", "/spec/requirements")
    keys = [each["key"] for each in change["value"]]
    assert keys == ["kubernetes.io/arch", "karpenter.sh/capacity-type"]
    assert answer["response"]["uid"] == "7"


def test_written_requirements_are_kept_in_the_patch() -> None:
    written = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
    given = with_spec(PROVISIONER, requirements=[written])

    (change,) = patch_of(defaulted(review(given), "early", "aws"))

    assert change["value"][0] == written
    assert [each["key"] for each in change["value"][1:]] == ["karpenter.sh/capacity-type"]


def test_what_is_complete_gets_no_patch() -> None:
    (change,) = patch_of(defaulted(review(PROVISIONER), "late", "aws"))
    complete = with_spec(PROVISIONER, requirements=change["value"])

    assert defaulted(review(complete), "late", "aws")["response"] == {"uid": "7", "allowed": True}


def test_a_provisioner_without_a_class_gets_that_of_its_cloud() -> None:
    bare = {**PROVISIONER, "spec": {"labels": {"a": "b"}}}

    changes = {each["path"]: each for each in patch_of(defaulted(review(bare), "late", "kwok"))}
    aws = {each["path"] for each in patch_of(defaulted(review(bare), "late", "aws"))}

    assert changes["/spec/providerRef"]["value"] == {"name": "default"}
    assert "/spec/providerRef" not in aws


@pytest.mark.parametrize(
    "obj", [TEMPLATE, {**PROVISIONER, "spec": None}, {**PROVISIONER, "kind": "NodePool"}, None, "x"]
)
def test_other_objects_are_let_through_as_they_are(obj: Any) -> None:
    assert defaulted(review(obj), "late", "aws")["response"] == {"uid": "7", "allowed": True}


@pytest.mark.case("OPS-30")
@pytest.mark.parametrize(
    ("bad", "field"),
    [
        pytest.param(with_spec(PROVISIONER, weight=101), "spec.weight", id="OPS-30 weight"),
        pytest.param(
            with_spec(PROVISIONER, ttlSecondsAfterEmpty=30, consolidation={"enabled": True}),
            "spec.ttlSecondsAfterEmpty",
            id="two ways to go",
        ),
        pytest.param(
            with_spec(TEMPLATE, amiFamily="Debian"), "spec.amiFamily", id="AWSNodeTemplate"
        ),
    ],
)
def test_an_invalid_object_is_refused_with_its_field(bad: dict[str, Any], field: str) -> None:
    response = validated(review(bad), "aws")["response"]

    assert response["allowed"] is False
    status = response["status"]
    assert status["code"] == 400
    assert status["message"].startswith(f"{field}: ")
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]


def test_a_valid_object_is_allowed() -> None:
    assert validated(review(PROVISIONER), "aws")["response"]["allowed"] is True
    assert validated(review(TEMPLATE), "aws")["response"]["allowed"] is True


def test_an_update_that_keeps_a_bad_spec_is_allowed_and_one_that_changes_it_is_not() -> None:
    bad = with_spec(PROVISIONER, weight=101)
    unmarked = {**bad, "metadata": {"name": "default", "finalizers": []}}

    kept = validated(review(unmarked, "UPDATE", bad), "aws")["response"]
    changed = validated(review(with_spec(bad, weight=102), "UPDATE", bad), "aws")["response"]

    assert kept["allowed"] is True
    assert changed["allowed"] is False


def test_deletion_is_not_looked_at() -> None:
    assert validated(review(None, "DELETE", PROVISIONER), "aws")["response"]["allowed"] is True


def test_what_is_no_review_cannot_be_answered() -> None:
    with pytest.raises(ReviewError, match="AdmissionReview"):
        validated({"kind": "Provisioner"}, "aws")
