"""The names, scope and versions of every custom resource definition."""

from typing import Any

import pytest

from helpers.crd_cases import versions_of
from karpenter.admission.schemas.crds import builtin_crds

BOTH = [("v1", True, True), ("v1beta1", True, False)]  # name, whether served, whether stored
STATUS: dict[str, Any] = {"status": {}}


def only(version: str) -> list[tuple[str, bool, bool]]:
    return [(version, True, True)]


@pytest.mark.parametrize(
    ("kind", "plural", "group", "versions", "more"),
    [
        ("NodePool", "nodepools", "karpenter.sh", BOTH, {}),
        ("NodeClaim", "nodeclaims", "karpenter.sh", BOTH, {}),
        (
            "NodeOverlay",
            "nodeoverlays",
            "karpenter.sh",
            only("v1alpha1"),
            {"shortNames": ["overlays"]},
        ),
        ("Commitment", "commitments", "cost.karpenter.sh", only("v1alpha1"), {}),
        ("Provisioner", "provisioners", "karpenter.sh", only("v1alpha5"), {}),
        (
            "EC2NodeClass",
            "ec2nodeclasses",
            "karpenter.k8s.aws",
            BOTH,
            {"shortNames": ["ec2nc", "ec2ncs"]},
        ),
        ("AWSNodeTemplate", "awsnodetemplates", "karpenter.k8s.aws", only("v1alpha1"), {}),
        (
            "KWOKNodeClass",
            "kwoknodeclasses",
            "karpenter.kwok.sh",
            only("v1alpha1"),
            {"shortNames": ["kwoknc", "kwokncs"]},
        ),
        (
            "CapacityBuffer",
            "capacitybuffers",
            "autoscaling.x-k8s.io",
            only("v1beta1"),
            {"shortNames": ["cb"], "categories": ["autoscaling"]},
        ),
    ],
)
def test_names_versions_and_scope(
    kind: str,
    plural: str,
    group: str,
    versions: list[tuple[str, bool, bool]],
    more: dict[str, list[str]],
) -> None:
    crd = f"{plural}.{group}"
    spec = builtin_crds()[crd]["spec"]
    scope = "Namespaced" if kind == "CapacityBuffer" else "Cluster"

    assert (spec["group"], spec["scope"]) == (group, scope)
    assert spec["names"] == {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "categories": ["karpenter"],
        **more,
    }
    assert versions_of(crd) == versions


@pytest.mark.parametrize("kind", sorted(set(builtin_crds()) - {"nodepools.karpenter.sh"}))
def test_only_a_pool_has_more_than_a_status(kind: str) -> None:
    versions = builtin_crds()[kind]["spec"]["versions"]

    assert [version["subresources"] for version in versions] == [STATUS] * len(versions)
