"""The page on installing, followed on a real control plane as people would copy its commands."""

from pathlib import Path

import pytest

from control_plane.access import service_account_kubeconfig
from helpers import pages
from helpers.charted import NODES, Charted, charted_control_plane
from helpers.helm import NAMESPACE, Helm, environment, read
from helpers.real_cluster import Controller
from helpers.shell import PATIENCE, Shell, wait_for

pytestmark = pytest.mark.slow


class Installing:
    """Follows the page on installing, command by command."""

    def __init__(self, terminal: Shell) -> None:
        self._terminal = terminal
        everything = [shown for shown in pages.commands() if shown.page == pages.INSTALLING]
        # The page has other install commands for AWS
        self._on_eks = [shown for shown in everything if "settings.clusterName=" in shown.name]
        self._rest = [shown for shown in everything if shown not in self._on_eks]

    def until(self, beginning: str) -> str:
        """Follow the page to the end of the next command with this beginning; what that prints."""
        while True:
            shown = self._rest.pop(0)
            printed = self._terminal.follow(shown, REPOSITORY="registry.example/karpenter")
            if shown.name.startswith(beginning):
                return printed

    def begin_on_eks(self) -> None:
        """Install as readers on AWS do."""
        for shown in self._on_eks:
            self._terminal.follow(shown, REPOSITORY="registry.example/karpenter")

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be followed."""
        return not self._rest


@pytest.mark.case("OPS-2")
@pytest.mark.row("S0-16", "S2-77", "S2-79")
def test_a_cluster_is_installed_as_the_page_says(
    kubectl: str, control_plane_programs: None, helm: Helm, tmp_path: Path
) -> None:
    """The pods of the chart are simulated; beside them its controller runs, with their rights and environment."""
    (tmp_path / "plane").mkdir()
    with charted_control_plane(tmp_path / "plane", helm) as cluster:
        terminal = Shell(tmp_path, helm.program)
        terminal.environment["KUBECONFIG"] = str(cluster.kubeconfig)
        page = Installing(terminal)
        page.until("kubectl get deployment karpenter")
        assert cluster.plane is not None
        account = service_account_kubeconfig(cluster.plane, NAMESPACE, "karpenter")
        settings = environment(read(terminal.type("helm get manifest karpenter -n kube-system")))
        ports = {"METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}
        controller = Controller(account, tmp_path / "controller.log", {**settings, **ports})
        try:
            controller.until_leading(seconds=PATIENCE)
            page.until("kubectl get nodeclaims,nodes")
            wait_for(lambda: _running(cluster) == 20, "20 pods that run")
            claims = cluster.names("nodeclaims")
            assert claims

            page.until("kubectl annotate")
            assert claims == cluster.names("nodeclaims"), "nodes stay while the release changes"

            page.until("kubectl wait --for=delete nodeclaims")
            assert set() == cluster.names("nodeclaims")
            assert {*NODES} == cluster.names("nodes")
            terminal.type("kubectl apply -f examples/v1/nodepool-kwok.yaml")
            wait_for(lambda: _running(cluster) == 20, "20 pods that run again")
            assert 0 == controller.stop()
        finally:
            controller.process.kill()
            controller.process.wait()
        page.until("helm uninstall")
        claims = cluster.names("nodeclaims")
        held = page.until("kubectl get nodeclaims,nodes,ec2nodeclasses").split()
        assert {f"NodeClaim/{name}" for name in claims} == {
            each for each in held if each.startswith("NodeClaim/")
        }
        assert len([each for each in held if each.startswith("Node/")]) == len(claims) > 0
        page.until("xargs")
        assert page.is_over
        terminal.type("kubectl delete nodeclaims,nodepools --all --timeout=60s")
        assert "" == terminal.type("kubectl get nodeclaims,nodepools -o name")
        page.begin_on_eks()
        settings = environment(read(terminal.type("helm get manifest karpenter -n kube-system")))
        assert ("aws", "my-cluster") == (settings["CLOUD_PROVIDER"], settings["CLUSTER_NAME"])


def _running(cluster: Charted) -> int:
    """How many pods run that ask for as much as the page lets them."""
    return len(
        [
            pod
            for pod in cluster.items("pods", "-l", "app=inflate")
            if pod["status"].get("phase") == "Running"
            and pod["spec"]["containers"][0]["resources"].get("requests") == {"cpu": "1"}
        ]
    )
