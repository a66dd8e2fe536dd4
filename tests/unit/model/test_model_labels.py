"""Label keys: their stable spelling, and who knows them."""

import pytest

from karpenter.admission.constraints import keys_of
from karpenter.api.node_classes import ec2_labels, kwok_labels
from karpenter.model import labels
from karpenter.model.label_rules import label_key_problem


@pytest.mark.parametrize(
    ("key", "stable"),
    [
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
        ("topology.ebs.csi.aws.com/zone", "topology.kubernetes.io/zone"),
        ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("example.com/zone", "example.com/zone"),
    ],
)
def test_older_spellings_mean_the_stable_key(key: str, stable: str) -> None:
    assert stable == labels.normalise(key)


@pytest.mark.parametrize(
    ("provider", "known", "unknown"),
    [
        pytest.param("aws", ec2_labels.INSTANCE_FAMILY, kwok_labels.INSTANCE_SIZE, id="aws"),
        pytest.param("kwok", kwok_labels.INSTANCE_SIZE, ec2_labels.INSTANCE_FAMILY, id="kwok"),
        pytest.param("other", labels.ZONE, ec2_labels.INSTANCE_FAMILY, id="any other provider"),
    ],
)
def test_each_provider_adds_its_own_well_known_keys(
    provider: str, known: str, unknown: str
) -> None:
    keys = keys_of(provider).well_known

    assert keys >= labels.CORE_WELL_KNOWN
    assert known in keys
    assert unknown not in keys


@pytest.mark.parametrize(
    ("provider", "count"), [("core", 8), ("kwok", 8 + 4 + 1), ("aws", 8 + 22 + 6 + 1)]
)
def test_the_well_known_lists_are_complete(provider: str, count: int) -> None:
    assert count == len(keys_of(provider).well_known)


def test_node_classes_and_hostnames_are_not_well_known() -> None:
    for key in (ec2_labels.NODE_CLASS, kwok_labels.NODE_CLASS, labels.HOSTNAME):
        assert key not in (labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN) | (
            labels.CORE_WELL_KNOWN | kwok_labels.WELL_KNOWN
        )


def test_every_key_in_the_registry_is_a_valid_key() -> None:
    not_keys = {
        labels.READINESS_PREFIX,
        ec2_labels.CLUSTER_TAG_PREFIX,
        ec2_labels.EKS_CLUSTER_NAME_TAG,
    }
    keys = {
        value
        for module in (labels, ec2_labels, kwok_labels)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and value not in not_keys
    }

    assert len(keys) > 80
    assert [key for key in sorted(keys) if label_key_problem(key)] == []


@pytest.mark.parametrize(
    ("key", "domain", "name"),
    [
        ("kubernetes.io/os", "kubernetes.io", "os"),
        ("plain", "", "plain"),
        ("karpenter.sh/", "karpenter.sh", ""),
    ],
)
def test_a_key_has_a_domain_and_a_name(key: str, domain: str, name: str) -> None:
    assert (domain, name) == (labels.domain_of(key), labels.name_of(key))
