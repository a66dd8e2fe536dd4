"""The control plane that tests compare with is a real one: RBAC holds, and kwok plays kubelets."""

import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from control_plane.access import service_account_kubeconfig, user_kubeconfig
from control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow

_READ_PODS: Final = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
_NODE: Final = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "kwok-node", "annotations": {"kwok.x-k8s.io/node": "fake"}},
    "spec": {"taints": [{"key": "kwok", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
_POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "kwok-pod"},
    "spec": {
        "nodeName": "kwok-node",
        "containers": [{"name": "main", "image": "nginx"}],
    },
}


def run(kubectl: str, kubeconfig: Path, command: str) -> str:
    """What kubectl says, errors included."""
    done = subprocess.run(
        [kubectl, *command.split()],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return f"{done.stdout}{done.stderr}".strip()


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane) -> Path:
    return service_account_kubeconfig(control_plane, "robots", "reader", [_READ_PODS])


@pytest.fixture(scope="module")
def person(control_plane: ControlPlane) -> Path:
    return user_kubeconfig(control_plane, "ann", [_READ_PODS], groups=["people"])


class TestAccess:
    @pytest.mark.parametrize(
        ("command", "said"),
        [
            pytest.param("auth can-i list pods -A", "yes", id="what the rules allow"),
            pytest.param("auth can-i delete pods -A", "no", id="a verb they do not allow"),
            pytest.param("auth can-i list services -A", "no", id="a resource they do not allow"),
        ],
    )
    @pytest.mark.parametrize("who", ["account", "person"])
    def test_may(
        self, request: pytest.FixtureRequest, kubectl: str, who: str, command: str, said: str
    ) -> None:
        kubeconfig: Path = request.getfixturevalue(who)

        answer = run(kubectl, kubeconfig, command)

        assert said == answer.splitlines()[-1]

    @pytest.mark.parametrize(
        ("who", "name"), [("account", "system:serviceaccount:robots:reader"), ("person", "ann")]
    )
    def test_is_known_by_name(
        self, request: pytest.FixtureRequest, kubectl: str, who: str, name: str
    ) -> None:
        kubeconfig: Path = request.getfixturevalue(who)

        answer = run(kubectl, kubeconfig, "auth whoami -o jsonpath={.status.userInfo.username}")

        assert name == answer


def test_kwok_plays_the_kubelet_of_nodes_that_are_annotated(
    kubectl: str, control_plane: ControlPlane
) -> None:
    control_plane.start_kwok()
    control_plane.send("POST", "/api/v1/nodes", _NODE)
    control_plane.send("POST", "/api/v1/namespaces/default/pods", _POD)
    kubeconfig = control_plane.kubeconfig

    ready = run(kubectl, kubeconfig, "wait --for=condition=Ready node/kwok-node --timeout=60s")
    running = run(kubectl, kubeconfig, "wait --for=condition=Ready pod/kwok-pod --timeout=60s")

    assert ("node/kwok-node condition met", "pod/kwok-pod condition met") == (ready, running)

    run(kubectl, kubeconfig, "delete node/kwok-node pod/kwok-pod --force")
