"""``karpenter record`` on a real API server, with the rights of its role and no others."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from control_plane.access import service_account_kubeconfig
from control_plane.cluster import control_plane
from e2e.real_control_plane.test_real_disruption import deployment
from helpers.real_cluster import RealCluster, Request, run_kubectl, until
from helpers.recorded import told
from helpers.rights import INSTALL
from karpenter.api.meta import group_of
from karpenter.kube.kinds import resource_of
from karpenter.simulate.record.kinds import RECORDED
from karpenter.simulate.record.segments import PATTERN

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl", "control_plane_programs")]

NAMESPACE = "kube-system"
ACCOUNT = "karpenter-record"
WRITES = ("create", "update", "patch", "delete", "deletecollection")
PATIENCE = 60.0


@pytest.fixture
def cluster(kubectl: str, control_plane_programs: None, tmp_path: Path) -> Iterator[RealCluster]:
    with control_plane(tmp_path, audits=True) as plane:
        found = RealCluster(plane)
        found.install()
        found("apply", "-f", str(INSTALL / "rbac-record.yaml"))
        yield found


def is_allowed(cluster: RealCluster, verb: str, group: str, resource: str) -> bool:
    """Whether the API server would let the recorder do something."""
    spec = {
        "user": f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}",
        "groups": ["system:serviceaccounts", "system:authenticated"],
        "resourceAttributes": {
            "verb": verb,
            "group": group,
            "resource": resource,
            "namespace": "default",
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = cluster.plane.send("POST", path, {"spec": spec})
    return bool(answer["status"]["allowed"])


@pytest.mark.case("SIM-45")
def test_it_records_with_its_role_and_may_do_nothing_else(
    cluster: RealCluster, tmp_path: Path
) -> None:
    reader = service_account_kubeconfig(cluster.plane, NAMESPACE, ACCOUNT)
    folder = tmp_path / "recording"
    command = [sys.executable, "-m", "karpenter", "record", "-o", str(folder)]
    process = subprocess.Popen(
        command, env={**os.environ, "KUBECONFIG": str(reader)}, stderr=subprocess.PIPE, text=True
    )
    try:
        until(lambda: bool([*folder.glob(PATTERN)]), "a segment", seconds=PATIENCE)
        cluster("apply", "-f", "-", given=json.dumps(deployment("web", 2)))
        cluster("scale", "deployment", "web", "--replicas=3")
        until(lambda: scales(folder)[-1:] == [3], "the scale is on the disk", seconds=PATIENCE)
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()

    assert 0 == process.returncode, said
    assert "not recorded" not in said
    assert 3 == scales(folder)[-1]
    assert [] == told(folder).gaps
    asked = [each for each in requests(cluster) if each.account == ACCOUNT]
    assert {"list", "watch"} == {each.verb for each in asked if each.resource[0] != "/"}
    assert [] == [each for each in asked if each.status == 403]
    for each in RECORDED:
        place = (group_of(each.model), resource_of(each.model).plural)
        assert is_allowed(cluster, "watch", *place)
        assert not any(is_allowed(cluster, verb, *place) for verb in WRITES), place
    for verb in ("get", "list", "watch", *WRITES):
        assert not is_allowed(cluster, verb, "", "secrets")
        assert not is_allowed(cluster, verb, "", "configmaps")
    for refused in (
        ["get", "secrets"],
        ["scale", "deployment", "web", "--replicas=0"],
        ["delete", "deployment", "web"],
    ):
        with pytest.raises(AssertionError, match="forbidden"):
            run_kubectl(reader, *refused)


def scales(folder: Path) -> list[int]:
    """How many replicas there were, one after the other."""
    changes = [each for each in told(folder).changes if each.key[:1] == ("Deployment",)]
    return [c.after["spec"]["replicas"] for c in changes if c.after and c.key[2] == "web"]


def requests(cluster: RealCluster) -> list[Request]:
    """What the API server was asked."""
    lines = cluster.plane.audit_log.read_text("utf-8").splitlines()
    return [Request.read(json.loads(line)) for line in lines]
