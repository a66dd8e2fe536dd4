"""The charts on a cluster: install, upgrade, roll back, uninstall, and what they refuse.

Each test runs on a sandbox and, in the slower tier, on a real control plane. The pods of the chart
are simulated in both.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from helpers.charted import Charted, charted_control_plane, charted_sandbox
from helpers.helm import CRDS, MAIN, NAMESPACE, Helm, Json

pytestmark = pytest.mark.usefixtures("kubectl")

WAIT: Final = ("--wait", "--timeout", "120s")
POOL: Final = MAIN.parents[1] / "examples" / "v1" / "nodepool-kwok.yaml"
CLAIM: Final = """\
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata:
  name: one
  finalizers: [karpenter.sh/termination]
spec:
  nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
  requirements: []
"""
OTHER: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: karpenter, namespace: PLACE, labels: {app.kubernetes.io/name: karpenter}}
spec:
  replicas: 0
  selector: {matchLabels: {app: theirs}}
  template:
    metadata: {labels: {app: theirs}}
    spec:
      containers:
      - name: controller
        image: registry.example/karpenter/controller:1.14.0
        env: [{name: LEADER_ELECTION_NAME, value: LEASE}]
"""


@pytest.fixture(scope="module", params=["sandbox", pytest.param("real", marks=pytest.mark.slow)])
def place(
    request: pytest.FixtureRequest, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Charted]:
    folder = tmp_path_factory.mktemp("charted")
    if request.param == "sandbox":
        running = charted_sandbox(folder, helm)
    else:
        request.getfixturevalue("control_plane_programs")
        running = charted_control_plane(folder, helm)
    with running as cluster:
        yield cluster


@pytest.fixture
def cluster(place: Charted) -> Iterator[Charted]:
    """The cluster with nothing installed."""
    place.clean()
    yield place
    place.clean()


def printed_crds() -> str:
    command = [sys.executable, "-m", "karpenter", "crds"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def identities(cluster: Charted, kind: str) -> dict[str, tuple[str, int]]:
    """What tells an object from another one of its name, and from itself when it is changed."""
    return {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["metadata"].get("generation", 0))
        for each in cluster.items(kind)
    }


def ready(cluster: Charted, name: str = "karpenter", namespace: str = NAMESPACE) -> int:
    """How many replicas are ready in the end: helm waits for all but ``maxUnavailable`` of them."""
    cluster("rollout", "status", f"deployment/{name}", "-n", namespace, "--timeout=120s")
    status: Json = cluster.get("deployment", name, namespace)["status"]
    return int(status.get("readyReplicas", 0))


@pytest.mark.case("OPS-2")
@pytest.mark.row("S0-16", "S2-49", "S2-54", "S2-79")
def test_install_upgrade_roll_back_and_uninstall(cluster: Charted) -> None:
    helm = cluster.helm
    for _ in range(2):  # the second time over what is there
        helm("upgrade", "--install", "karpenter-crd", CRDS, *WAIT)
        helm("upgrade", "--install", "karpenter", MAIN, "--set", "settings.clusterName=demo", *WAIT)
    assert 2 == ready(cluster)
    leases = (
        "get",
        "role",
        "karpenter",
        "-n",
        NAMESPACE,
        "-o",
        "jsonpath={.rules[1].resourceNames[0]}",
    )
    assert "karpenter-leader-election" == cluster(*leases)

    helm("upgrade", "karpenter", MAIN, "--reuse-values", "--set", "replicas=1", *WAIT)
    assert 1 == cluster.get("deployment", "karpenter")["spec"]["replicas"]
    assert set() == cluster.names("poddisruptionbudgets")
    helm("rollback", "karpenter", *WAIT)
    assert 2 == ready(cluster)
    assert {"karpenter"} == cluster.names("poddisruptionbudgets")

    helm("uninstall", "karpenter", "--wait")
    assert set() == cluster.names("deployments") & {"karpenter"}
    rights = cluster.names("clusterroles") | cluster.names("clusterrolebindings")
    assert set() == {name for name in rights if name.startswith("karpenter")}


@pytest.mark.row("S2-49")
def test_a_package_is_installed_in_a_namespace_of_its_own(cluster: Charted, tmp_path: Path) -> None:
    """As it comes from a registry: one file, with the CRDs that it brings."""
    cluster.helm("package", MAIN, "--destination", tmp_path)
    (package,) = tmp_path.iterdir()
    place = ("--namespace", "nodes", "--create-namespace")

    cluster.helm("upgrade", "--install", "karpenter", package, *place, *WAIT)

    assert 2 == ready(cluster, namespace="nodes")
    assert {"nodepools.karpenter.sh", "nodeclaims.karpenter.sh"} <= cluster.names("crd")
    subjects = [
        each["subjects"]
        for each in cluster.items("clusterrolebindings", "-l", "app.kubernetes.io/name=karpenter")
    ]
    assert {("karpenter", "nodes")} == {(each["name"], each["namespace"]) for (each,) in subjects}


@pytest.mark.case("OPS-12")
@pytest.mark.row("S2-77", "S2-79")
def test_uninstalling_both_leaves_crds_pools_claims_and_nodes(cluster: Charted) -> None:
    cluster.helm("install", "karpenter-crd", CRDS, *WAIT)
    cluster.helm("install", "karpenter", MAIN, *WAIT)
    cluster("apply", "-f", str(POOL))
    cluster("apply", "-f", "-", given=CLAIM)
    kinds = ("nodepools", "nodeclaims", "nodes", "crd")
    before = {kind: identities(cluster, kind).keys() for kind in kinds}

    cluster.helm("uninstall", "karpenter", "--wait")
    cluster.helm("uninstall", "karpenter-crd", "--wait")

    assert {} == cluster.releases()
    assert before == {kind: identities(cluster, kind).keys() for kind in kinds}
    assert {"one"} == cluster.names("nodeclaims")
    cluster("patch", "nodeclaim", "one", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


@pytest.mark.case("OPS-13")
@pytest.mark.row("S2-77", "S2-78")
def test_crds_that_are_there_are_taken_over_and_objects_stay(cluster: Charted) -> None:
    cluster("apply", "--server-side", "-f", "-", given=printed_crds())
    cluster("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
    cluster("apply", "-f", str(POOL))
    pools, crds = identities(cluster, "nodepools"), identities(cluster, "crd")

    refused = cluster.helm.run("upgrade", "--install", "karpenter-crd", CRDS, *WAIT)
    assert 0 != refused.code
    assert "invalid ownership metadata" in refused.err
    cluster.helm("upgrade", "--install", "karpenter-crd", CRDS, "--take-ownership", *WAIT)

    assert (pools, crds) == (identities(cluster, "nodepools"), identities(cluster, "crd"))
    owners = {
        each["metadata"]["annotations"].get("meta.helm.sh/release-name")
        for each in cluster.items("crd", "-l", "app.kubernetes.io/managed-by=Helm")
    }
    assert {"karpenter-crd"} == owners


@pytest.mark.case("OPS-15")
def test_notes_say_that_two_replicas_do_not_fit_on_one_node(cluster: Charted) -> None:
    first, second = sorted(cluster.names("nodes"))
    cluster("cordon", second)

    said = cluster.helm("upgrade", "--install", "karpenter", MAIN)
    assert (
        "WARNING: 2 replicas want a node each, and there is 1 node that Karpenter does not manage:"
        " install with --set replicas=1, or add nodes." in said
    )
    said = cluster.helm("upgrade", "--install", "karpenter", MAIN, "--set", "replicas=1", *WAIT)
    assert "WARNING" not in said
    assert 1 == ready(cluster)
    assert set() == cluster.names("poddisruptionbudgets")
    assert {first} == {
        each["spec"]["nodeName"]
        for each in cluster.items("pods", "-n", NAMESPACE)
        if "karpenter" in each["metadata"]["name"]
    }


@pytest.mark.parametrize(
    ("place_of", "lease", "is_refused"),
    [
        pytest.param(NAMESPACE, "karpenter-leader-election", False, id="OPS-47 the same lease"),
        pytest.param(NAMESPACE, "other", True, id="OPS-47 another lease"),
        pytest.param("default", "karpenter-leader-election", True, id="OPS-47 another namespace"),
    ],
)
def test_a_second_lease_is_refused_while_there_is_another_karpenter(
    cluster: Charted, place_of: str, lease: str, is_refused: bool
) -> None:
    cluster("apply", "-f", "-", given=OTHER.replace("PLACE", place_of).replace("LEASE", lease))
    install = ("upgrade", "--install", "karpenter-py", MAIN, *WAIT)
    said = cluster.helm.run(*install)

    assert is_refused == (said.code != 0), said.err
    if is_refused:
        told = f"the Deployment {place_of}/karpenter with the lease {lease}, and both would act at once"
        assert told in said.err
        cluster.helm(*install, "--set", "migration.separateLease=true")
    assert 2 == ready(cluster, "karpenter-py")
    again = ("--set", f"migration.separateLease={str(is_refused).lower()}")
    cluster.helm(*install, *again)  # it does not refuse itself
