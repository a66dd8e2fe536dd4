"""ConversionReview in and out: every object converted, or one sentence with its name and field."""

import copy
from typing import Any

import pytest

from karpenter.webhook.conversion_review import converted, pools_needed
from karpenter.webhook.reviews import ReviewError

CORE = "karpenter.sh"
AWS = "karpenter.k8s.aws"
OLD_POOL: dict[str, Any] = {
    "apiVersion": f"{CORE}/v1beta1",
    "kind": "NodePool",
    "metadata": {"name": "old", "uid": "1", "generation": 3, "labels": {"team": "a"}},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {
                    "apiVersion": f"{AWS}/v1beta1",
                    "kind": "EC2NodeClass",
                    "name": "default",
                },
                "kubelet": {"maxPods": 20},
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
                ],
            }
        },
        "disruption": {"expireAfter": "700h", "consolidationPolicy": "WhenUnderutilized"},
    },
}
OLD_CLAIM: dict[str, Any] = {
    "apiVersion": f"{CORE}/v1beta1",
    "kind": "NodeClaim",
    "metadata": {"name": "claim", "labels": {"karpenter.sh/nodepool": "old"}},
    "spec": {"nodeClassRef": {"name": "default"}},
}
OLD_CLASS: dict[str, Any] = {
    "apiVersion": f"{AWS}/v1beta1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {"amiFamily": "AL2", "role": "nodes"},
}


def review(*objects: Any, to: str = f"{CORE}/v1") -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "42", "desiredAPIVersion": to, "objects": list(objects)},
    }


def message_of(answer: dict[str, Any]) -> str:
    response = answer["response"]
    assert response["result"]["status"] == "Failure"
    assert response["convertedObjects"] == []
    text: str = response["result"]["message"]
    return text


def changed(obj: dict[str, Any], value: object, *path: str) -> dict[str, Any]:
    result = copy.deepcopy(obj)
    holder = result
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return result


def test_the_answer_repeats_the_uid_and_keeps_order_and_metadata() -> None:
    second = changed(OLD_POOL, "other", "metadata", "name")

    answer = converted(review(OLD_POOL, second), CORE)

    assert answer["kind"] == "ConversionReview"
    response = answer["response"]
    assert (response["uid"], response["result"]) == ("42", {"status": "Success"})
    assert [each["metadata"]["name"] for each in response["convertedObjects"]] == ["old", "other"]
    first = response["convertedObjects"][0]
    assert first["apiVersion"] == f"{CORE}/v1"
    assert first["spec"]["template"]["spec"]["expireAfter"] == "700h"
    assert first["metadata"]["uid"] == "1"
    assert first["metadata"]["labels"] == {"team": "a"}


@pytest.mark.parametrize(
    ("obj", "group"),
    [
        pytest.param(OLD_POOL, CORE, id="NodePool"),
        pytest.param(OLD_CLAIM, CORE, id="NodeClaim"),
    ],
)
def test_a_round_trip_through_v1_gives_the_same_object(obj: dict[str, Any], group: str) -> None:
    (up,) = converted(review(obj, to=f"{group}/v1"), group)["response"]["convertedObjects"]

    (down,) = converted(review(up, to=f"{group}/v1beta1"), group)["response"]["convertedObjects"]

    assert down == obj


def test_a_node_class_keeps_its_family_over_a_round_trip() -> None:
    (up,) = converted(review(OLD_CLASS, to=f"{AWS}/v1"), AWS)["response"]["convertedObjects"]
    (down,) = converted(review(up, to=f"{AWS}/v1beta1"), AWS)["response"]["convertedObjects"]

    assert up["spec"]["amiSelectorTerms"] == [{"alias": "al2@latest"}]
    assert down["spec"]["amiFamily"] == "AL2"
    assert "amiSelectorTerms" not in down["spec"]


def test_an_object_of_the_wanted_version_comes_back_as_it_is() -> None:
    answer = converted(review(OLD_POOL, to=f"{CORE}/v1beta1"), CORE)

    assert answer["response"]["convertedObjects"] == [OLD_POOL]


def test_the_input_is_not_changed() -> None:
    given = review(OLD_POOL, OLD_CLAIM)
    before = copy.deepcopy(given)

    converted(given, CORE)

    assert given == before


def test_claims_take_the_expiry_of_their_pool_and_720h_without_one() -> None:
    given = review(
        OLD_CLAIM, changed(OLD_CLAIM, "gone", "metadata", "labels", "karpenter.sh/nodepool")
    )

    assert pools_needed(given) == {"old", "gone"}
    answer = converted(given, CORE, {"old": "24h"}.get)

    found = [each["spec"]["expireAfter"] for each in answer["response"]["convertedObjects"]]
    assert found == ["24h", "720h"]


@pytest.mark.parametrize("to", [f"{CORE}/v1beta1", f"{AWS}/v1", "v1", None])
def test_no_pool_is_asked_for_on_any_other_way(to: str) -> None:
    assert pools_needed(review(OLD_CLAIM, "nonsense", {"kind": "NodeClaim"}, to=to)) == set()


@pytest.mark.case("OPS-28")
@pytest.mark.parametrize(
    ("bad", "named"),
    [
        pytest.param(changed(OLD_POOL, "Pod", "kind"), 'Pod "old": kind: ', id="unknown kind"),
        pytest.param(changed(OLD_CLASS, f"{CORE}/v1", "apiVersion"), "kind: ", id="other group"),
        pytest.param(
            changed(OLD_POOL, f"{CORE}/v1alpha5", "apiVersion"),
            'NodePool "old": apiVersion: ',
            id="wrong version",
        ),
        pytest.param(
            changed(OLD_POOL, [], "spec", "template"),
            'NodePool "old": spec.template: must be an object',
            id="list for an object",
        ),
        pytest.param(
            changed(OLD_POOL, "default", "spec", "template", "spec", "nodeClassRef"),
            'NodePool "old": spec.template.spec.nodeClassRef: must be an object',
            id="text for a reference",
        ),
        pytest.param(
            changed(OLD_POOL, [{"nodes": "1"}, 7], "spec", "disruption", "budgets"),
            'NodePool "old": spec.disruption.budgets[1]: must be an object',
            id="number in a list",
        ),
        pytest.param(
            changed(OLD_CLAIM, 5, "spec"), 'NodeClaim "claim": spec: ', id="number for a spec"
        ),
        pytest.param(
            changed(OLD_POOL, "x", "metadata"), "request.objects[1]: metadata: ", id="no metadata"
        ),
        pytest.param("nonsense", "request.objects[1]: is no object", id="no object"),
        pytest.param(None, "request.objects[1]: is no object", id="null"),
    ],
)
def test_one_bad_object_fails_the_review_with_its_name_and_field(bad: Any, named: str) -> None:
    message = message_of(converted(review(OLD_POOL, bad), CORE))

    assert message.startswith(named) or named in message
    assert "\n" not in message


@pytest.mark.case("OPS-28")
def test_a_broken_node_class_is_named_too() -> None:
    bad = changed(OLD_CLASS, [{"ebs": "10Gi"}], "spec", "blockDeviceMappings")

    message = message_of(converted(review(bad, to=f"{AWS}/v1"), AWS))

    assert message == ('EC2NodeClass "default": spec.blockDeviceMappings[0].ebs: must be an object')


@pytest.mark.case("OPS-28")
@pytest.mark.parametrize("to", [f"{CORE}/v2", f"{AWS}/v1", "v1", 7, None])
def test_a_version_that_is_not_served_is_refused(to: Any) -> None:
    message = message_of(converted(review(OLD_POOL, to=to), CORE))

    assert message.startswith("request.desiredAPIVersion: ")
    assert f"{CORE}/v1 or {CORE}/v1beta1" in message


@pytest.mark.case("OPS-28")
def test_a_thousand_objects_are_converted_in_one_review() -> None:
    pools = [changed(OLD_POOL, f"pool-{number}", "metadata", "name") for number in range(1000)]

    answer = converted(review(*pools), CORE)

    found = [each["metadata"]["name"] for each in answer["response"]["convertedObjects"]]
    assert found == [f"pool-{number}" for number in range(1000)]


def test_a_review_without_a_list_is_a_failure() -> None:
    given = review()
    given["request"]["objects"] = {"a": 1}

    assert message_of(converted(given, CORE)).startswith("request.objects: ")


def test_names_cannot_tear_the_message_apart() -> None:
    bad = changed(changed(OLD_POOL, "a\nb\x1b[2J", "metadata", "name"), 1, "spec")

    message = message_of(converted(review(bad), CORE))

    assert message.isprintable()


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (None, "null"),
        ([], "a list"),
        ({}, "ConversionReview"),
        ({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "ConversionReview"}, "v1beta1"),
        ({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}, "request"),
        (
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "ConversionReview",
                "request": {"uid": ""},
            },
            "request.uid",
        ),
    ],
)
def test_what_is_no_review_cannot_be_answered(body: Any, named: str) -> None:
    with pytest.raises(ReviewError, match=named):
        converted(body, CORE)
