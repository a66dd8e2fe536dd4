"""A key nobody knows is answered with the one that was probably meant."""

import pytest

from karpenter.api.node_classes import ec2_labels
from karpenter.model import labels
from karpenter.model.suggestions import closest_label, edit_distance, nearest_key

KNOWN = labels.CORE_WELL_KNOWN | ec2_labels.WELL_KNOWN


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        pytest.param(
            "node.kubernetes.io/instnace-type", labels.INSTANCE_TYPE, id="letters swapped"
        ),
        pytest.param("node.kubernetes.io/instance-typ", labels.INSTANCE_TYPE, id="a letter lost"),
        pytest.param("topology.kubernetes.io/zones", labels.ZONE, id="a letter too much"),
        pytest.param("karpentar.sh/capacity-type", labels.CAPACITY_TYPE, id="a wrong letter"),
        pytest.param(
            "karpenter.k8s.aws/instance-famlly", ec2_labels.INSTANCE_FAMILY, id="wrong again"
        ),
        pytest.param("kubernetes.io/arhc", labels.ARCH, id="a short name, one slip"),
        pytest.param("kubernetes.io/id", None, id="a short name, two slips: another word"),
        pytest.param("kubernetes.io/os", None, id="a known key needs no correction"),
        pytest.param("example.com/instance-type", None, id="another domain is no typing mistake"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_nearest_key(key: str, meant: str | None) -> None:
    assert meant == nearest_key(key, KNOWN)


def test_the_nearest_of_several_wins_and_ties_go_by_the_alphabet() -> None:
    assert nearest_key("abcdeg", ["abcdxy", "abcdef"]) == "abcdef"
    assert nearest_key("abcdex", ["abcdeb", "abcdea"]) == "abcdea"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        pytest.param("zone", labels.ZONE, id="SCH-43 the name alone"),
        pytest.param("node.io/zone", labels.ZONE, id="SCH-43 a wrong domain"),
        pytest.param("karpenter/nodepool", labels.NODEPOOL, id="SCH-43 half a domain"),
        pytest.param("deployment", None, id="SCH-44 nothing like it is known"),
        pytest.param("karpenter.sh/instance-cpu", ec2_labels.INSTANCE_CPU, id="the wrong domain"),
        pytest.param("example.com/gpu-name", ec2_labels.INSTANCE_GPU_NAME, id="the end of a name"),
        pytest.param("instance-type", labels.INSTANCE_TYPE, id="a name without its domain"),
        pytest.param("topology.kubernetes.io", labels.ZONE, id="contained in the shortest"),
        pytest.param("node.kubernetes.io/instnace-type", labels.INSTANCE_TYPE, id="misspelt"),
        pytest.param("", None, id="an empty key"),
        pytest.param("example.com/", None, id="an empty name"),
    ],
)
def test_closest_label(key: str, meant: str | None) -> None:
    assert meant == closest_label(key, KNOWN)


def test_a_label_of_the_pool_can_be_the_one_that_was_meant() -> None:
    assert closest_label("team", {"example.com/team", labels.ZONE}) == "example.com/team"


def test_the_same_name_beats_a_shorter_key_that_only_ends_alike() -> None:
    assert closest_label("zone", {"a/my-zone", "example.com/zone"}) == "example.com/zone"


@pytest.mark.parametrize(
    ("left", "right", "limit", "distance"),
    [
        ("abc", "abc", 2, 0),
        ("abc", "acb", 2, 1),
        ("abc", "ab", 2, 1),
        ("abc", "abcd", 2, 1),
        ("abc", "axc", 2, 1),
        ("ca", "abc", 3, 3),
        ("", "ab", 2, 2),
        ("abcdef", "uvwxyz", 2, 3),
        ("a", "abcdef", 2, 3),
    ],
)
def test_edit_distance_counts_slips_up_to_its_limit(
    left: str, right: str, limit: int, distance: int
) -> None:
    assert distance == edit_distance(left, right, limit=limit)
