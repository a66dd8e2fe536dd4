"""Discovery tells clients what is served, in the order and the words they expect."""

from typing import Any

import pytest

from karpenter.admission.schemas.crds import builtin_crds
from karpenter_sandbox.kinds.served import (
    ServedResource,
    builtin_resources,
    crd_resources,
    version_info,
)
from karpenter_sandbox.server.discovery import (
    aggregated_discovery,
    api_group,
    api_groups,
    api_resources,
    api_versions,
    version_rank,
    wants_aggregated,
)

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def named(resources: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in resources if entry["name"] == name)


def test_every_kind_the_cluster_needs_is_served() -> None:
    served = {f"{r.api_version}/{r.kind}" for r in builtin_resources()}

    assert served >= {
        *(f"v1/{kind}" for kind in ("Pod", "Node", "Namespace", "ConfigMap", "Secret", "Service")),
        *(f"v1/{kind}" for kind in ("Event", "PersistentVolume", "PersistentVolumeClaim")),
        *(f"apps/v1/{kind}" for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
        "batch/v1/Job",
        "batch/v1/CronJob",
        "autoscaling/v1/HorizontalPodAutoscaler",
        "autoscaling/v2/HorizontalPodAutoscaler",
        "policy/v1/PodDisruptionBudget",
        "coordination.k8s.io/v1/Lease",
        "storage.k8s.io/v1/StorageClass",
        "storage.k8s.io/v1/CSINode",
        "storage.k8s.io/v1/VolumeAttachment",
        "scheduling.k8s.io/v1/PriorityClass",
        "rbac.authorization.k8s.io/v1/ClusterRole",
        "apiextensions.k8s.io/v1/CustomResourceDefinition",
        "resource.k8s.io/v1/ResourceClaim",
        "authorization.k8s.io/v1/SelfSubjectAccessReview",
    }


def test_a_resource_list_names_resources_and_their_parts() -> None:
    document = api_resources(builtin_resources(), "", "v1")

    assert document is not None
    assert "v1" == document["groupVersion"]
    pods = named(document["resources"], "pods")
    assert {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",
    } == pods
    assert {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    } == named(document["resources"], "pods/eviction")


def test_the_core_group_has_a_document_of_its_own() -> None:
    assert ["v1"] == api_versions("127.0.0.1:1")["versions"]
    assert "" not in [group["name"] for group in api_groups(builtin_resources())["groups"]]


def test_groups_prefer_their_best_version() -> None:
    group = api_group(builtin_resources(), "autoscaling")

    assert group is not None
    assert ["v2", "v1"] == [version["version"] for version in group["versions"]]
    assert "autoscaling/v2" == group["preferredVersion"]["groupVersion"]


def test_what_is_not_served_has_no_document() -> None:
    assert api_group(builtin_resources(), "nope.io") is None
    assert api_resources(builtin_resources(), "apps", "v1beta1") is None


@pytest.mark.parametrize(
    ("crd", "expected"),
    [
        pytest.param(
            "nodepools.karpenter.sh",
            ("NodePool", False, (), ("karpenter",), {"status", "scale"}),
            id="a CRD with scale",
        ),
        pytest.param(
            "ec2nodeclasses.karpenter.k8s.aws",
            ("EC2NodeClass", False, ("ec2nc", "ec2ncs"), ("karpenter",), {"status"}),
            id="a CRD with short names",
        ),
    ],
)
def test_crds_are_served_by_their_names(crd: str, expected: tuple[object, ...]) -> None:
    resources = crd_resources(builtin_crds()[crd])

    first = next(resource for resource in resources if resource.version == "v1")
    parts = {part.name for part in first.subresources}
    actual = (first.kind, first.namespaced, first.short_names, first.categories, parts)
    assert expected == actual


def test_versions_that_are_not_served_are_left_out() -> None:
    crd = {
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": True}, {"name": "v2", "served": False}],
        }
    }

    (resource,) = crd_resources(crd)

    assert ("v1", "foo", True) == (resource.version, resource.singular, resource.namespaced)


def test_aggregated_discovery_tells_everything_at_once() -> None:
    resources = [*builtin_resources(), *crd_resources(builtin_crds()["nodepools.karpenter.sh"])]

    core = aggregated_discovery(resources, legacy=True)
    others = aggregated_discovery(resources, legacy=False)

    assert [None] == [group["metadata"].get("name") for group in core["items"]]
    karpenter = next(g for g in others["items"] if g["metadata"].get("name") == "karpenter.sh")
    version = karpenter["versions"][0]
    assert ("v1", "Current") == (version["version"], version["freshness"])
    (pool,) = version["resources"]
    assert "Cluster" == pool["scope"]
    assert {"group": "karpenter.sh", "version": "v1", "kind": "NodePool"} == pool["responseKind"]
    scale = next(part for part in pool["subresources"] if part["subresource"] == "scale")
    assert {"group": "autoscaling", "version": "v1", "kind": "Scale"} == scale["responseKind"]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(AGGREGATED, True, id="aggregated"),
        pytest.param(f"{AGGREGATED},application/json", True, id="aggregated first"),
        pytest.param(f"application/json,{AGGREGATED}", False, id="plain first"),
        pytest.param(
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
            False,
            id="a version that is gone",
        ),
        pytest.param(f"application/cbor;x=y, {AGGREGATED}", True, id="after a format we lack"),
        pytest.param("", False, id="nothing asked"),
        pytest.param("*/*", False, id="anything"),
    ],
)
def test_asking_for_aggregated_discovery(accept: str, expected: bool) -> None:
    assert expected == wants_aggregated(accept)


def test_versions_in_the_order_clients_prefer() -> None:
    versions = ["v1alpha1", "v2beta1", "v1", "foo", "v10", "v2", "v1beta2", "v11alpha2"]

    ordered = sorted(versions, key=version_rank, reverse=True)

    assert ["v10", "v2", "v1", "v2beta1", "v1beta2", "v11alpha2", "v1alpha1", "foo"] == ordered


def test_the_version_names_the_release() -> None:
    info = version_info()

    assert info["gitVersion"].startswith(f"v{info['major']}.{info['minor']}.")


def test_resources_come_sorted_whatever_the_order_of_crds() -> None:
    def resource(plural: str) -> ServedResource:
        return ServedResource("x.io", "v1", plural.title(), plural, plural, True, ("get",))

    document = api_resources([resource("b"), resource("a")], "x.io", "v1")

    assert document is not None
    assert ["a", "b"] == [entry["name"] for entry in document["resources"]]
