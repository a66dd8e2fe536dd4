"""The commands on the pages for users that need a cluster, as people would copy them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from control_plane.cluster import ControlPlane
from control_plane.cluster import control_plane as running
from helpers import pages
from helpers.shell import PATIENCE, Shell, wait_for

pytestmark = pytest.mark.slow

# In the order in which readers follow them; the first starts what the others are for
_ON_KWOK: Final = """\
docs/sandbox.md: karpenter sandbox --example
docs/sandbox.md: export KUBECONFIG=$PWD/karpenter.kubeconfig
docs/sandbox.md: kubectl scale deployment inflate --replicas=5
docs/sandbox.md: kubectl get nodeclaims,nodes,pods -o wide
docs/sandbox.md: kubectl scale deployment inflate --replicas=1
docs/sandbox.md: kubectl autoscale deployment inflate --min 1 --max 20 --cpu-percent 50
docs/sandbox.md: kubectl annotate hpa inflate sandbox.karpenter.sh/metric-total=400
docs/sandbox.md: kubectl logs -n karpenter -l app.kubernetes.io/name=karpenter -c controller -f
docs/providers.md: kubectl annotate kwoknodeclass default 'karpenter.kwok.sh/sold-out=*/*/spot'
""".splitlines()
_ON_AWS: Final = """\
docs/sandbox.md: karpenter sandbox --provider aws --example
docs/sandbox.md: export KUBECONFIG=$PWD/karpenter.kubeconfig
docs/sandbox.md: karpenter sandbox fault sold-out '*/*/spot'
docs/sandbox.md: kubectl scale deployment inflate --replicas=5
docs/sandbox.md: karpenter sandbox fault lost-zone us-west-2a
docs/sandbox.md: karpenter sandbox fault --list
docs/sandbox.md: karpenter sandbox fault --undo
docs/aws.md: kubectl --kubeconfig karpenter.kubeconfig get nodes
docs/aws.md: karpenter sandbox interrupt NODE
docs/aws.md: karpenter sandbox interrupt NODE --event scheduled-change
docs/aws.md: karpenter sandbox fault sold-out '*/*/spot'
""".splitlines()
_OBJECTS: Final = "nodepools,ec2nodeclasses,nodeclaims,nodes,deployments,replicasets,pods"
_PIPED: Final = f"docs/aws.md: kubectl get {_OBJECTS} -A -o yaml | karpenter plan --provider aws -"
_SAME_START: Final = "docs/aws.md: karpenter sandbox --provider aws --example"
_CONVERTED: Final = "kubectl get provisioners,awsnodetemplates -o yaml | karpenter convert -"
_ON_A_CLUSTER: Final = f"""\
docs/controller.md: karpenter crds | kubectl apply --server-side -f -
docs/controller.md: kubectl apply -f examples/install/rbac.yaml
docs/validation.md: kubectl get crd nodepools.karpenter.sh -o jsonpath='{{.status.storedVersions}}'
docs/aws.md: kubectl apply -f examples/install/rbac.yaml -f examples/install/rbac-aws.yaml
docs/plan.md: karpenter plan --with examples/v1/nodepool-kwok.yaml
docs/controller.md: kubectl apply -f examples/install/optional/early-binding.yaml
docs/legacy.md: karpenter crds --legacy | kubectl apply --server-side -f -
docs/legacy.md: kubectl apply -f examples/install/optional/legacy-kinds.yaml
docs/legacy.md: kubectl apply -f examples/install/optional/legacy-kinds-aws.yaml
docs/webhooks.md: kubectl apply -f examples/install/optional/webhook.yaml
docs/webhooks.md: karpenter crds --conversion-webhook kube-system/karpenter-webhook\
 | kubectl apply --server-side -f -
docs/webhooks.md: karpenter crds migrate --dry-run
docs/webhooks.md: karpenter crds migrate
docs/webhooks.md: kubectl patch crd nodepools.karpenter.sh nodeclaims.karpenter.sh\
 ec2nodeclasses.karpenter.k8s.aws --type=merge\
 -p '{{"spec":{{"conversion":{{"webhook":{{"clientConfig":{{"caBundle":null}}}}}}}}}}'
docs/webhooks.md: karpenter crds | kubectl apply --server-side -f -
docs/webhooks.md: kubectl delete -f examples/install/optional/webhook.yaml
docs/convert.md: {_CONVERTED}
docs/legacy.md: {_CONVERTED} --node-role NODE_ROLE > v1.yaml
docs/legacy.md: kubectl delete provisioners,awsnodetemplates --all --cascade=orphan
docs/legacy.md: kubectl apply -f v1.yaml
""".splitlines()
_CONTROLLER: Final = (
    "docs/controller.md: LEADER_ELECTION_NAMESPACE=kube-system karpenter controller"
)
_SHOWN: Final = {str(shown): shown for shown in pages.commands()}


def test_everything_that_is_said_to_be_run_here_is() -> None:
    reasons = (pages.ON_A_CLUSTER, pages.ON_A_SANDBOX)
    expected = {name for name, why in pages.RUN_ELSEWHERE.items() if why in reasons}
    here = {*_ON_KWOK, *_ON_AWS, _PIPED, _SAME_START, *_ON_A_CLUSTER, _CONTROLLER}

    assert set() == expected - here
    assert _SHOWN[_ON_AWS[0]].name == _SHOWN[_SAME_START].name


def test_the_sandbox_does_what_its_page_says(kubectl: str, tmp_path: Path) -> None:
    terminal = Shell(tmp_path)
    start, *rest = (_SHOWN[name] for name in _ON_KWOK)
    with terminal.background("sandbox", start) as sandbox:
        sandbox.wait_until((tmp_path / "karpenter.kubeconfig").exists, seconds=PATIENCE)
        for shown in rest:
            if shown.name.endswith(" -f"):
                _read_some(terminal, shown)
                continue
            terminal.follow(shown)
            if "scale deployment" in shown.name:
                wait_for(lambda: bool(terminal.nodes()), "a node")

        def replicas() -> str:
            return terminal.type("kubectl get deployment inflate -o jsonpath='{.spec.replicas}'")

        wait_for(lambda: replicas() == "8", "eight replicas")


def test_the_simulated_aws_does_what_the_pages_say(kubectl: str, tmp_path: Path) -> None:
    terminal = Shell(tmp_path)
    start, *rest = (_SHOWN[name] for name in (*_ON_AWS, _PIPED))
    with terminal.background("sandbox", start) as sandbox:
        sandbox.wait_until((tmp_path / "karpenter.kubeconfig").exists, seconds=PATIENCE)
        for shown in rest:
            if "NODE" in shown.name:
                wait_for(lambda: bool(terminal.nodes()), "a node")
            terminal.follow(shown, NODE=next(iter(terminal.nodes()), ""))
            if "scale deployment" in shown.name:
                wait_for(lambda: bool(terminal.nodes()), "a node")


@pytest.fixture
def untouched(
    control_plane_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane on which nothing is installed."""
    with running(tmp_path_factory.mktemp("pages")) as cluster:
        yield cluster


def test_a_cluster_takes_what_the_pages_say(
    kubectl: str, untouched: ControlPlane, tmp_path: Path
) -> None:
    terminal = Shell(tmp_path)
    # Ports that other tests do not use
    mine = {"KUBECONFIG": str(untouched.kubeconfig), "METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0"}
    terminal.environment.update(mine)
    for name in _ON_A_CLUSTER:
        terminal.follow(_SHOWN[name], NODE_ROLE="KarpenterNodeRole-demo")
        if name.endswith("legacy-kinds-aws.yaml"):
            terminal.type("kubectl apply -f examples/legacy/provisioner.yaml")

    pools = terminal.type("kubectl get nodepools,ec2nodeclasses -o name")
    assert ["shop", "shop"] == [name.rpartition("/")[2] for name in pools.split()]
    with terminal.background("controller", _SHOWN[_CONTROLLER]) as controller:
        log = tmp_path / "controller.log"
        controller.wait_until(lambda: "became leader" in log.read_text(), seconds=PATIENCE)


def _read_some(terminal: Shell, shown: pages.Shown) -> None:
    """Run a command that goes on for ever until it prints something."""
    with terminal.background("following", shown) as following:
        log = terminal.folder / "following.log"
        following.wait_until(lambda: '"logger":"controller"' in log.read_text(), seconds=PATIENCE)
