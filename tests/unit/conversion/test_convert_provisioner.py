"""A Provisioner becomes the NodePool that behaves the same, row by row."""

from typing import Any

import pytest

from karpenter.admission.errors import ErrorKind
from karpenter.admission.legacy.provisioner import EMPTINESS_EXCLUDES_CONSOLIDATION
from karpenter.conversion.placement import Assignment, Carrier, KnownClass, User, assign
from karpenter.conversion.provisioner import (
    ClassSource,
    class_source,
    kubelet_of,
    node_pool_of,
)


def provisioner(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "p"},
        "spec": spec,
    }


def node_pool(**spec: Any) -> dict[str, Any]:
    draft = node_pool_of(provisioner(**spec), "k", ClassSource(name="k"))
    assert draft.object is not None
    return draft.object


def test_an_empty_provisioner_becomes_a_pool_that_leaves_nodes_alone() -> None:
    expected = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "k",
                    },
                    "requirements": [],
                    "expireAfter": "Never",
                }
            },
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        },
    }
    assert expected == node_pool()


def test_metadata_keeps_what_is_the_authors() -> None:
    written = {
        "name": "p",
        "namespace": "default",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["e"],
        "uid": "1",
        "ownerReferences": [],
    }

    draft = node_pool_of(
        {**provisioner(), "metadata": written, "status": {"resources": {"cpu": "1"}}},
        "k",
        ClassSource(name="k"),
    )

    assert draft.object is not None
    assert draft.object["metadata"] == {
        "name": "p",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["e"],
    }
    assert "status" not in draft.object


@pytest.mark.parametrize(
    ("spec", "path", "expected"),
    [
        pytest.param(
            {"labels": {"a": "b"}},
            ("template", "metadata", "labels"),
            {"a": "b"},
            id="labels go to the template",
        ),
        pytest.param(
            {"annotations": {"a": "b"}},
            ("template", "metadata", "annotations"),
            {"a": "b"},
            id="annotations go to the template",
        ),
        pytest.param(
            {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            ("template", "spec", "taints"),
            [{"key": "a", "effect": "NoSchedule"}],
            id="taints go to the template",
        ),
        pytest.param(
            {"startupTaints": [{"key": "a", "effect": "NoSchedule"}]},
            ("template", "spec", "startupTaints"),
            [{"key": "a", "effect": "NoSchedule"}],
            id="startup taints go to the template",
        ),
        pytest.param(
            {"requirements": [{"key": "a", "operator": "Exists"}]},
            ("template", "spec", "requirements"),
            [{"key": "a", "operator": "Exists"}],
            id="requirements go to the template",
        ),
        pytest.param(
            {"requirements": None},
            ("template", "spec", "requirements"),
            [],
            id="no requirements are an empty list",
        ),
        pytest.param(
            {"ttlSecondsUntilExpired": 2592000},
            ("template", "spec", "expireAfter"),
            "2592000s",
            id="the expiry becomes a duration in seconds",
        ),
        pytest.param(
            {},
            ("template", "spec", "expireAfter"),
            "Never",
            id="no expiry stays none",
            marks=pytest.mark.row("S0-26"),
        ),
        pytest.param(
            {"limits": {"resources": {"cpu": 100, "memory": "1000Gi", "nvidia.com/gpu": 2}}},
            ("limits",),
            {"cpu": "100", "memory": "1000Gi", "nvidia.com/gpu": "2"},
            id="limits are flattened and written as text",
        ),
        pytest.param({"weight": 10}, ("weight",), 10, id="the weight stays"),
    ],
)
def test_fields(spec: dict[str, Any], path: tuple[str, ...], expected: object) -> None:
    value: Any = node_pool(**spec)["spec"]
    for key in path:
        value = value[key]

    assert expected == value


@pytest.mark.parametrize(
    ("spec", "policy", "wait"),
    [
        pytest.param({}, "WhenEmpty", "Never", id="nothing set removes nothing"),
        pytest.param(
            {"consolidation": {"enabled": False}},
            "WhenEmpty",
            "Never",
            id="consolidation switched off removes nothing",
        ),
        pytest.param(
            {"ttlSecondsAfterEmpty": 30}, "WhenEmpty", "30s", id="empty nodes go after their TTL"
        ),
        pytest.param(
            {"ttlSecondsAfterEmpty": 0, "consolidation": {"enabled": False}},
            "WhenEmpty",
            "0s",
            id="empty nodes go at once",
        ),
        pytest.param(
            {"consolidation": {"enabled": True}},
            "WhenEmptyOrUnderutilized",
            "0s",
            id="consolidation stays on",
        ),
    ],
)
def test_emptiness_and_consolidation(spec: dict[str, Any], policy: str, wait: str) -> None:
    expected = {"consolidationPolicy": policy, "consolidateAfter": wait}

    assert expected == node_pool(**spec)["spec"]["disruption"]


@pytest.mark.parametrize(
    ("spec", "path", "detail"),
    [
        pytest.param(
            {"ttlSecondsAfterEmpty": 30, "consolidation": {"enabled": True}},
            ("spec", "ttlSecondsAfterEmpty"),
            EMPTINESS_EXCLUDES_CONSOLIDATION,
            id="a TTL for empty nodes beside consolidation",
        ),
        pytest.param(
            {"ttlSecondsAfterEmpty": -1},
            ("spec", "ttlSecondsAfterEmpty"),
            "must not be negative",
            id="a negative TTL for empty nodes",
        ),
        pytest.param(
            {"ttlSecondsUntilExpired": -1},
            ("spec", "ttlSecondsUntilExpired"),
            "must not be negative",
            id="a negative expiry",
        ),
        pytest.param(
            {"requirements": [{"key": "karpenter.k8s.aws/instance-pods", "operator": "Exists"}]},
            ("spec", "requirements", 0, "key"),
            "karpenter.k8s.aws/instance-pods has no meaning in v1; limit pods with maxPods or "
            "podsPerCore of the kubelet, or choose instance types",
            id="a requirement on the pod count",
        ),
    ],
)
def test_what_cannot_be_converted(
    spec: dict[str, Any], path: tuple[str | int, ...], detail: str
) -> None:
    draft = node_pool_of(provisioner(**spec), "k", ClassSource(name="k"))

    assert [(path, detail)] == [(error.path, error.detail) for error in draft.errors]


def test_an_inline_provider_is_kept_in_an_annotation() -> None:
    provider = {"subnetSelector": {"b": "c"}, "amiFamily": "AL2"}
    legacy = provisioner(provider=provider)

    draft = node_pool_of(legacy, "p", class_source(legacy, None))

    assert draft.object is not None
    assert draft.object["metadata"]["annotations"] == {
        "compatibility.karpenter.sh/provider": '{"amiFamily":"AL2","subnetSelector":{"b":"c"}}'
    }


@pytest.mark.parametrize(
    ("spec", "default", "name"),
    [
        pytest.param(
            {"providerRef": {"name": "t", "kind": "AWSNodeTemplate", "apiVersion": "x/v1"}},
            None,
            "t",
            id="a reference names the class, whatever its kind and version",
        ),
        pytest.param({}, "d", "d", id="without either the default class is used"),
        pytest.param({"provider": {}}, "d", "d", id="for an empty provider too"),
        pytest.param({"provider": {"kind": "AWS"}}, "d", "d", id="even when it says its kind"),
        pytest.param({"providerRef": {"name": "t"}}, "d", "t", id="a reference wins over it"),
    ],
)
def test_the_class_by_name(spec: dict[str, Any], default: str | None, name: str) -> None:
    source = class_source(provisioner(**spec), default)

    assert name == source.name
    assert not source.errors


def test_the_class_from_an_inline_provider() -> None:
    provider = {"subnetSelector": {"a": "b"}}

    source = class_source(provisioner(provider=provider), "d")

    assert source.name is None
    assert provider == source.provider


@pytest.mark.parametrize(
    ("spec", "kind", "path", "hint"),
    [
        pytest.param(
            {},
            ErrorKind.REQUIRED,
            ("spec", "providerRef"),
            "--default-node-class",
            id="neither is set",
        ),
        pytest.param(
            {"provider": {}},
            ErrorKind.REQUIRED,
            ("spec", "provider"),
            "--default-node-class",
            id="the provider is empty",
        ),
        pytest.param(
            {"provider": {"amiFamily": "AL2"}, "providerRef": {"name": "t"}},
            ErrorKind.FORBIDDEN,
            ("spec", "provider"),
            "exclude each other",
            id="both are set",
        ),
        pytest.param(
            {"providerRef": {}},
            ErrorKind.REQUIRED,
            ("spec", "providerRef", "name"),
            "name",
            id="the reference has no name",
        ),
    ],
)
def test_no_class_can_be_found_when(
    spec: dict[str, Any], kind: ErrorKind, path: tuple[str, ...], hint: str
) -> None:
    source = class_source(provisioner(**spec), None)

    assert [(kind, path)] == [(error.kind, error.path) for error in source.errors]
    assert hint in source.errors[0].detail


@pytest.mark.row("S1-23")
def test_the_container_runtime_is_dropped_with_a_warning() -> None:
    kubelet = kubelet_of(
        provisioner(kubeletConfiguration={"containerRuntime": "containerd", "maxPods": 20})
    )

    assert kubelet.settings == {"maxPods": 20}
    assert [warning.path for warning in kubelet.warnings] == [
        ("spec", "kubeletConfiguration", "containerRuntime")
    ]
    assert not kubelet.errors


@pytest.mark.parametrize("runtime", ["dockerd", "rkt"])
def test_another_container_runtime_is_an_error(runtime: str) -> None:
    kubelet = kubelet_of(provisioner(kubeletConfiguration={"containerRuntime": runtime}))

    assert [error.path for error in kubelet.errors] == [
        ("spec", "kubeletConfiguration", "containerRuntime")
    ]


def test_reserved_amounts_are_written_as_text() -> None:
    kubelet = kubelet_of(
        provisioner(kubeletConfiguration={"systemReserved": {"cpu": 1, "memory": "1Gi"}})
    )

    assert kubelet.settings == {"systemReserved": {"cpu": "1", "memory": "1Gi"}}


A, B = {"maxPods": 1}, {"maxPods": 2}


@pytest.mark.parametrize(
    ("users", "known", "expected"),
    [
        pytest.param(
            [User(0, "a", "k", A)],
            {"k": KnownClass()},
            {0: Assignment("k", Carrier.CLASS)},
            id="a single Provisioner gives its settings to the class",
        ),
        pytest.param(
            [User(0, "b", "k", B), User(1, "a", "k", A)],
            {"k": KnownClass()},
            {1: Assignment("k", Carrier.CLASS), 0: Assignment("k-b", Carrier.COPY)},
            id="of two the first by name keeps the class",
        ),
        pytest.param(
            [User(0, "a", "k", A), User(1, "b", "k", A)],
            {"k": KnownClass()},
            {0: Assignment("k", Carrier.CLASS), 1: Assignment("k", Carrier.NOTHING)},
            id="equal settings share the class",
        ),
        pytest.param(
            [User(0, "a", "k", None), User(1, "b", "k", B), User(2, "c", "k", B)],
            {"k": KnownClass()},
            {
                0: Assignment("k", Carrier.NOTHING),
                1: Assignment("k-b", Carrier.COPY),
                2: Assignment("k-b", Carrier.NOTHING),
            },
            id="no settings are settings of their own and a copy is shared",
        ),
        pytest.param(
            [User(0, "a", "k", A), User(1, "b", "k", None)],
            {"k": KnownClass(B, is_settled=True)},
            {0: Assignment("k-a", Carrier.COPY), 1: Assignment("k", Carrier.NOTHING)},
            id="a class with settings of its own keeps them",
        ),
        pytest.param(
            [User(0, "a", "k", A), User(1, "b", "k", None)],
            {},
            {0: Assignment("k", Carrier.ANNOTATION), 1: Assignment("k", Carrier.NOTHING)},
            id="when the class is not at hand the NodePool carries them",
        ),
    ],
)
def test_kubelet_settings_find_a_place(
    users: list[User], known: dict[str, KnownClass], expected: dict[int, Assignment]
) -> None:
    assert expected == assign(users, known)
