"""The seed manifests, unaltered, on a real API server with the CRDs and roles of the installation.

``kubectl apply`` takes what is good, a v1beta1 object is refused with a sentence that names
``karpenter convert``, what that makes of it is taken, and Provisioners end in nodes of the kwok
provider.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from real_cluster import RealCluster, controller, real_cluster, until
from seeds import SEEDS, entries, load, needs_seeds

pytestmark = [
    pytest.mark.slow,
    needs_seeds,
    pytest.mark.usefixtures("kubectl", "control_plane_programs"),
]

PATIENCE = 300.0  # for a busy machine; a quiet one takes a tenth of it
CONVERT = ("--node-role", "nodes", "--default-node-class", "default")
LEGACY_ROLES = ("karpenter-legacy-kinds",)
OLD = ("karpenter.sh/v1beta1", "karpenter.k8s.aws/v1beta1")
# Alpha kinds are checked by their schema alone where no webhook runs; what the index refuses them
# for is then said by the Provisioner itself
ALPHA = ("karpenter.sh/v1alpha5", "karpenter.k8s.aws/v1alpha1")
# What of the last v1beta1 schema cannot be converted either, and the field that says so
INCONVERTIBLE = {
    "bad-s002-nodepool-full-semantics.yaml": "spec.limits.resources",
    "s002-nodepool-ttl.yaml": "spec.template",
    "s002-nodepool-limits.yaml": "spec.template",
}
NO_SUCH_KIND = {
    "bad-s002-ec2nodeclass.yaml": 'no matches for kind "EC2NodeClass"',
    "s002-eksctl-clusterconfig.yaml": 'no matches for kind "ClusterConfig"',
    "s003-eksctl-clusterconfig.yaml": 'no matches for kind "ClusterConfig"',
    "bad-s002-pod-do-not-disrupt-bool.yaml": "annotations",
}
# Excerpts that name no provider, and pools that ask for what the simulated machines have
POOLS = ("s003-provisioner-default.yaml", "s001-provisioner-labels.yaml")
WORKLOADS = (
    "s002-deployment-graceful-shutdown.yaml",
    "s002-deployment-workload-my-team.yaml",
    "s002-pdb-my-app.yaml",
    "s002-pod-do-not-disrupt.yaml",
)
PODS = 203


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("real"), audits=False, legacy=True) as made:
        yield made


def run(command: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE, **kwargs
    )


def apply(cluster: RealCluster, file: str, *, given: str | None = None, dry: bool = False) -> Any:
    """Apply a file, or what is given, and return how it went."""
    program = shutil.which("kubectl")
    assert program is not None
    options = ["--dry-run=server"] if dry else []
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    return run([program, "apply", *options, "-f", file], input=given, env=environment)


def test_every_file_is_taken_or_refused_with_the_reason(cluster: RealCluster) -> None:
    wrong = {}
    for entry in entries():
        name = entry["file"]
        done = apply(cluster, str(SEEDS / name), dry=True)
        words = refusal_of(entry)
        if words is None and done.returncode != 0:
            wrong[name] = done.stderr
        elif words is not None and (done.returncode == 0 or not re.search(words, done.stderr)):
            wrong[name] = f"not refused with {words}: {done.stdout}{done.stderr}"

    assert {} == wrong


def refusal_of(entry: dict[str, Any]) -> str | None:
    """What kubectl must say, or nothing where the API server takes the file."""
    name = entry["file"]
    if entry["parse"] == "error":
        return "error"
    if name in NO_SUCH_KIND:
        return re.escape(NO_SUCH_KIND[name])
    versions = {obj.get("apiVersion", "") for obj in load(name)}
    if not all(versions):
        return "apiVersion not set"
    if versions & set(OLD):
        return "is not served here.*karpenter convert"
    return None if entry["claimed"] == "accept" or versions & set(ALPHA) else "invalid"


def test_what_convert_makes_of_a_file_is_stored(cluster: RealCluster) -> None:
    wrong = {}
    for entry in entries():
        name = entry["file"]
        if entry["parse"] == "error" or not {o.get("apiVersion") for o in load(name)} & set(OLD):
            continue
        converted = run([sys.executable, "-m", "karpenter", "convert", *CONVERT, str(SEEDS / name)])
        if name in INCONVERTIBLE:
            if INCONVERTIBLE[name] not in converted.stderr or converted.stdout:
                wrong[name] = converted.stderr
            continue
        made = list(yaml.safe_load_all(converted.stdout))
        done = apply(cluster, "-", given=converted.stdout)
        stored = {
            each["metadata"]["name"]
            for kind in {each["kind"] for each in made}
            for each in cluster.items(kind)
        }
        if done.returncode or not made or not {o["metadata"]["name"] for o in made} <= stored:
            wrong[name] = done.stderr
    cluster("delete", "nodepools,ec2nodeclasses", "--all", "--wait=false")

    assert {} == wrong


def test_provisioners_end_in_nodes_for_the_workloads_of_the_seeds(cluster: RealCluster) -> None:
    with controller(cluster, cluster.account(roles=LEGACY_ROLES)) as process:
        process.until_leading()
        cluster("apply", "-f", "-", given=yaml.safe_dump(KWOK_CLASS))
        for name in (*POOLS, *WORKLOADS):
            cluster("apply", "-f", str(SEEDS / name))
        until(lambda: placed(cluster) == PODS, f"{PODS} pods have nodes", seconds=PATIENCE)
        nodes = cluster.items("nodes")
        assert 0 == process.stop()

    of_team = [n for n in nodes if n["metadata"]["labels"].get("billing-team") == "my-team"]
    assert of_team
    assert {"default", "foo-provisioner"} >= {
        node["metadata"]["labels"]["karpenter.sh/nodepool"] for node in nodes
    }


KWOK_CLASS = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
    "spec": {},
}


def placed(cluster: RealCluster) -> int:
    """How many pods of the default namespace run on a node."""
    pods = cluster.items("pods", "--field-selector=metadata.namespace=default")
    return sum(pod["status"].get("phase") in {"Running", "Succeeded"} for pod in pods)
