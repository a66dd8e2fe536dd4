"""Which requirements the legacy webhook appended to a Provisioner."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter.admission.legacy.webhook import Profile, default_legacy
from unit.admission.rule_cases import json_values, seed

OS = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
ARCH = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
CAPACITY = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
CATEGORY = {
    "key": "karpenter.k8s.aws/instance-category",
    "operator": "In",
    "values": ["c", "m", "r"],
}
GENERATION = {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]}
LATE = [OS, ARCH, CAPACITY, CATEGORY, GENERATION]


def provisioner(*requirements: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "default"},
        "spec": {"providerRef": {"name": "default"}, "requirements": list(requirements), **spec},
    }


def requirement(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def added(obj: dict[str, Any], profile: Profile = "late") -> list[dict[str, Any]]:
    """What was appended; what the user wrote must still stand in front of it."""
    written = obj["spec"].get("requirements") or []
    result: list[dict[str, Any]] = default_legacy(obj, profile)["spec"]["requirements"]
    assert written == result[: len(written)]
    return result[len(written) :]


@pytest.mark.parametrize(
    ("key", "values", "expected"),
    [
        pytest.param("team", ["a"], LATE, id="an-unrelated-key-changes-nothing"),
        pytest.param("kubernetes.io/os", ["windows"], LATE[1:], id="os-given"),
        pytest.param(
            "kubernetes.io/arch", ["arm64"], [OS, CAPACITY, CATEGORY, GENERATION], id="arch-given"
        ),
        pytest.param(
            "beta.kubernetes.io/arch",
            ["arm64"],
            [OS, CAPACITY, CATEGORY, GENERATION],
            id="arch-given-by-its-old-name",
        ),
        pytest.param(
            "karpenter.sh/capacity-type",
            ["spot"],
            [OS, ARCH, CATEGORY, GENERATION],
            id="capacity-type-given",
        ),
        pytest.param("node.kubernetes.io/instance-type", ["m5.large"], LATE[:3], id="type-given"),
        pytest.param("karpenter.k8s.aws/instance-family", ["t3"], LATE[:3], id="family-given"),
        pytest.param("karpenter.k8s.aws/instance-category", ["t"], LATE[:3], id="category-given"),
        pytest.param(
            "karpenter.k8s.aws/instance-generation", ["1"], LATE[:3], id="generation-given"
        ),
        pytest.param("karpenter.k8s.aws/instance-size", ["large"], LATE, id="a-size-is-no-choice"),
    ],
)
def test_the_late_profile(key: str, values: list[str], expected: list[dict[str, Any]]) -> None:
    assert expected == added(provisioner(requirement(key, *values)))


def test_without_a_capacity_type_it_is_stored_as_on_demand() -> None:
    (manifest,) = seed("s001-provisioner-providerref")

    assert CAPACITY in default_legacy(manifest)["spec"]["requirements"]


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        pytest.param([], [ARCH, CAPACITY], id="nothing-given"),
        pytest.param([requirement("kubernetes.io/arch", "arm64")], [CAPACITY], id="arch-given"),
        pytest.param([requirement("karpenter.sh/capacity-type", "spot")], [ARCH], id="type-given"),
    ],
)
def test_the_early_profile_adds_only_arch_and_capacity_type(
    requirements: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> None:
    assert expected == added(provisioner(*requirements), "early")


def test_the_early_seed_gets_the_architecture_only() -> None:
    (manifest,) = seed("s003-provisioner-default")

    assert added(manifest, "early") == [ARCH]


def test_the_seed_with_every_requirement_gets_the_operating_system_only() -> None:
    (manifest,) = seed("s001-provisioner-requirements")

    assert added(manifest) == [OS]


def test_a_label_constrains_like_a_requirement() -> None:
    obj = provisioner(
        labels={"kubernetes.io/arch": "arm64", "karpenter.k8s.aws/instance-family": "t4g"}
    )

    assert added(obj) == [OS, CAPACITY]


def test_only_aws_chooses_instance_categories() -> None:
    result = default_legacy(provisioner(), provider="kwok")

    assert LATE[:3] == result["spec"]["requirements"]


@pytest.mark.parametrize(
    "spec", [pytest.param({}, id="absent"), pytest.param({"requirements": None}, id="null")]
)
def test_missing_requirements_become_the_defaults(spec: dict[str, Any]) -> None:
    obj = {**provisioner(), "spec": spec}

    assert added(obj) == LATE


def test_the_given_object_is_not_changed() -> None:
    obj = provisioner(requirement("team", "a"))

    default_legacy(obj)

    assert obj == provisioner(requirement("team", "a"))


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(
            {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {}}, id="a-node-pool"
        ),
        pytest.param(
            {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "spec": {}},
            id="a-node-template",
        ),
        pytest.param({**provisioner(), "spec": "odd"}, id="a-spec-that-is-text"),
        pytest.param(provisioner(requirements="odd"), id="requirements-that-are-text"),
    ],
)
def test_left_as_it_is(obj: dict[str, Any]) -> None:
    assert obj == default_legacy(obj)


FIELDS = st.sampled_from(
    [
        *("requirements", "labels", "key", "operator", "values", "kubernetes.io/os"),
        *("kubernetes.io/arch", "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"),
    ]
)


@settings(deadline=None)
@given(
    st.dictionaries(FIELDS, json_values(FIELDS), max_size=4) | json_values(FIELDS),
    st.sampled_from(["early", "late"]),
)
def test_defaulting_twice_is_defaulting_once(spec: Any, profile: Profile) -> None:
    once = default_legacy({**provisioner(), "spec": spec}, profile)

    # text, because odd specs hold NaN, which equals nothing
    assert repr(once) == repr(default_legacy(once, profile))
