"""The printed CRDs on a real API server: an old manifest is refused whole, never stored in part."""

import subprocess
from collections.abc import Iterator

import pytest

from control_plane.cluster import ControlPlane
from control_plane.cluster import control_plane as running
from helpers.real_cluster import RealCluster

pytestmark = pytest.mark.slow

OLD_POOL = """\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: old}
spec:
  template:
    spec:
      nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: default}
      kubelet: {maxPods: 20}
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
  disruption: {expireAfter: 720h, consolidationPolicy: WhenUnderutilized}
"""
OLD_CLASS = """\
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: old}
spec: {amiFamily: AL2, role: nodes}
"""
NEW_POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: new}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: kubernetes.io/os, operator: In, values: [linux]}]
"""


@pytest.fixture(scope="module")
def untouched(
    control_plane_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane without the CRDs of other tests, which would still serve v1beta1."""
    with running(tmp_path_factory.mktemp("crds")) as cluster:
        yield cluster


def applied(cluster: RealCluster, manifest: str) -> subprocess.CompletedProcess[str]:
    command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), "apply", "-f", "-"]
    return subprocess.run(command, input=manifest, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("kind", "group", "manifest"),
    [
        pytest.param("nodepools", "karpenter.sh", OLD_POOL, id="NodePool"),
        pytest.param("ec2nodeclasses", "karpenter.k8s.aws", OLD_CLASS, id="EC2NodeClass"),
    ],
)
def test_a_v1beta1_object_is_refused_with_the_way_out(
    kubectl: str, untouched: ControlPlane, kind: str, group: str, manifest: str
) -> None:
    cluster = RealCluster(untouched)
    cluster.install()

    done = applied(cluster, manifest)

    assert done.returncode != 0
    assert f"{group}/v1beta1 is not served here" in done.stderr
    assert "karpenter convert" in done.stderr
    assert "old" not in cluster.names(kind)


def test_a_v1_object_is_neither_refused_nor_overwritten_through_v1beta1(
    kubectl: str, untouched: ControlPlane
) -> None:
    cluster = RealCluster(untouched)
    cluster.install()
    assert applied(cluster, NEW_POOL).returncode == 0

    done = applied(cluster, OLD_POOL.replace("name: old", "name: new"))

    assert done.returncode != 0
    (pool,) = [each for each in cluster.items("nodepools") if each["metadata"]["name"] == "new"]
    assert pool["spec"]["template"]["spec"]["nodeClassRef"]["group"] == "karpenter.k8s.aws"
