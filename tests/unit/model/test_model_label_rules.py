"""Which label keys and values are well formed, and which keys a user may use in which place."""

import pytest

from karpenter.admission.constraints import keys_of
from karpenter.api.node_classes import ec2_labels, kwok_labels
from karpenter.model import labels
from karpenter.model.label_rules import (
    Place,
    label_key_problem,
    label_value_problem,
    restricted_reason,
)


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "team",
        "Team_1.x-y",
        "example.com/team",
        "a.b-c.d/X",
        "0/0",
        f"{'a' * 253}/{'b' * 63}",
    ],
)
def test_well_formed_keys(key: str) -> None:
    assert label_key_problem(key) is None


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        pytest.param("", "must not be empty", id="empty"),
        pytest.param("???", "starts and ends with a letter or digit", id="punctuation"),
        pytest.param("a/b/c", "at most one '/'", id="two slashes"),
        pytest.param("/a", "must have a prefix", id="an empty prefix"),
        pytest.param("example.com/", "must have a name", id="an empty name"),
        pytest.param("Example.com/a", "lower case", id="an upper case prefix"),
        pytest.param("a..b/c", "must have a prefix", id="an empty part in the prefix"),
        pytest.param("-a/c", "must have a prefix", id="a prefix that starts with a dash"),
        pytest.param("-a", "starts and ends", id="a name that starts with a dash"),
        pytest.param("a.", "starts and ends", id="a name that ends with a dot"),
        pytest.param("a b", "only letters", id="a blank"),
        pytest.param("a\n", "only letters", id="a line break"),
        pytest.param("é", "only letters", id="a letter with an accent"),
        pytest.param("a" * 64, "at most 63", id="a name that is too long"),
        pytest.param("a" * 254 + "/b", "at most 253", id="a prefix that is too long"),
    ],
)
def test_malformed_keys(key: str, problem: str) -> None:
    assert problem in (label_key_problem(key) or "")


@pytest.mark.parametrize("value", ["", "a", "A-1_b.c", "0", "a" * 63])
def test_well_formed_values(value: str) -> None:
    assert label_value_problem(value) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("hi there", "only letters", id="a blank"),
        pytest.param("-a", "starts and ends", id="a leading dash"),
        pytest.param("a/b", "only letters", id="a slash"),
        pytest.param("a" * 64, "at most 63", id="too long"),
        pytest.param("a\n", "only letters", id="a line break"),
    ],
)
def test_malformed_values(value: str, problem: str) -> None:
    assert problem in (label_value_problem(value) or "")


POOL_LABEL = Place.NODE_POOL_LABEL
POOL = Place.NODE_POOL_REQUIREMENT
CLAIM = Place.NODE_CLAIM_REQUIREMENT
OVERLAY = Place.NODE_OVERLAY_REQUIREMENT
V1 = {POOL_LABEL, POOL, CLAIM, OVERLAY}
V1BETA1 = {
    Place.V1BETA1_NODE_POOL_LABEL,
    Place.V1BETA1_NODE_POOL_REQUIREMENT,
    Place.V1BETA1_NODE_CLAIM_REQUIREMENT,
}
BETA_CLAIM = Place.V1BETA1_NODE_CLAIM_REQUIREMENT
ALPHA = {Place.PROVISIONER_LABEL, Place.PROVISIONER_REQUIREMENT}
PODS = {Place.POD}
EVERYWHERE = set(Place)


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        pytest.param(labels.CAPACITY_TYPE, EVERYWHERE, id="capacity type"),
        pytest.param(
            labels.NODEPOOL, {CLAIM, OVERLAY, BETA_CLAIM} | PODS, id="nodepool only where it is set"
        ),
        pytest.param("karpenter.sh/foo", set(), id="another key of karpenter.sh"),
        pytest.param("sub.karpenter.sh/foo", set(), id="a key below karpenter.sh"),
        pytest.param(labels.HOSTNAME, set(), id="hostname"),
        pytest.param(labels.INITIALIZED, set(), id="a label Karpenter sets"),
        pytest.param(labels.PROVISIONER_NAME, set(), id="the owner label of the alpha API"),
        pytest.param(labels.EMPTINESS_TIMESTAMP, set(), id="the emptiness timestamp"),
        pytest.param(ec2_labels.INSTANCE_FAMILY, EVERYWHERE, id="a well-known AWS key"),
        pytest.param(ec2_labels.ZONE_ID, EVERYWHERE, id="the AWS zone id"),
        *(
            pytest.param(key, EVERYWHERE - {OVERLAY}, id=f"launch fact {key}")
            for key in (
                ec2_labels.INSTANCE_TENANCY,
                ec2_labels.CAPACITY_RESERVATION_ID,
                ec2_labels.CAPACITY_RESERVATION_TYPE,
                ec2_labels.CAPACITY_RESERVATION_INTERRUPTIBLE,
                ec2_labels.PLACEMENT_GROUP_ID,
                ec2_labels.PLACEMENT_GROUP_PARTITION,
            )
        ),
        pytest.param("karpenter.k8s.aws/foo", PODS, id="another key of karpenter.k8s.aws"),
        pytest.param("x.karpenter.k8s.aws/foo", PODS, id="a key below karpenter.k8s.aws"),
        pytest.param(
            ec2_labels.NODE_CLASS, {CLAIM, BETA_CLAIM} | PODS, id="node class only on claims"
        ),
        pytest.param(
            ec2_labels.INSTANCE_PODS, PODS | ALPHA, id="a well-known key of the alpha API"
        ),
        pytest.param("kubernetes.io/foo", V1 | PODS, id="kubernetes.io is free only in v1"),
        pytest.param("apps.kubernetes.io/foo", V1 | PODS, id="below kubernetes.io"),
        pytest.param("k8s.io/foo", V1 | PODS, id="k8s.io is free only in v1"),
        pytest.param("x.k8s.io/foo", V1 | PODS, id="below k8s.io"),
        pytest.param("node.kubernetes.io/foo", EVERYWHERE, id="node.kubernetes.io"),
        pytest.param("a.node-restriction.kubernetes.io/x", EVERYWHERE, id="node restriction"),
        pytest.param("kops.k8s.io/instancegroup", EVERYWHERE, id="kops"),
        pytest.param(labels.ARCH, EVERYWHERE, id="a well-known key of Kubernetes"),
        pytest.param("beta.kubernetes.io/arch", EVERYWHERE, id="an alias of a well-known key"),
        pytest.param("notkarpenter.sh/x", EVERYWHERE, id="a domain that only ends alike"),
        pytest.param("karpenter.sh", EVERYWHERE, id="a name without a domain"),
        pytest.param("example.com/team", EVERYWHERE, id="a domain of one's own"),
    ],
)
def test_where_a_key_may_be_used(key: str, allowed: set[Place]) -> None:
    actual = {
        place
        for place in Place
        if restricted_reason(key, place=place, provider=keys_of("aws")) is None
    }

    assert allowed == actual


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        pytest.param(kwok_labels.INSTANCE_SIZE, EVERYWHERE, id="a well-known KWOK key"),
        pytest.param(
            kwok_labels.NODE_CLASS, {CLAIM, BETA_CLAIM} | PODS, id="node class only on claims"
        ),
        pytest.param("karpenter.kwok.sh/foo", PODS, id="another key of karpenter.kwok.sh"),
        pytest.param("karpenter.k8s.aws/foo", EVERYWHERE, id="a key of a provider not in use"),
    ],
)
def test_the_provider_decides_which_domain_is_its_own(key: str, allowed: set[Place]) -> None:
    actual = {
        place
        for place in Place
        if restricted_reason(key, place=place, provider=keys_of("kwok")) is None
    }

    assert allowed == actual


def test_the_reason_names_the_key_the_domain_and_the_place() -> None:
    reason = restricted_reason("sub.karpenter.sh/foo", place=POOL)

    assert reason == (
        "label domain karpenter.sh is restricted for a NodePool requirement; use a well-known"
        " label or one of your own domain instead of sub.karpenter.sh/foo"
    )


def test_a_single_refused_key_is_named_with_its_place() -> None:
    reason = restricted_reason(labels.HOSTNAME, place=POOL_LABEL)

    assert reason == "label kubernetes.io/hostname may not be used as a NodePool label; remove it"
