"""The pages for users: the commands on them, and what the pages say that these print."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "reference").glob("*.md")),
    # tests/unit/test_indexes.py runs the commands of the index of examples
    *sorted(set((ROOT / "examples").rglob("*.md")) - {ROOT / "examples" / "README.md"}),
)
_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT: Final = "$ "
ELISION: Final = "…"  # alone in a line of output: lines that the page does not show

# Pages that tests/e2e/commands/test_guides.py follows from beginning to end, and the sandbox on which it does so.
# Where a page itself starts the sandbox, that is the one.
GUIDES: Final = {
    "docs/expiry.md": "karpenter sandbox --example --speed 10",
    "docs/high-availability.md": "karpenter sandbox --example --speed 10",
    "docs/migrate-cluster-autoscaler.md": (
        "karpenter sandbox --speed 10 --nodes 1 --load examples/migrate/cluster.yaml"
    ),
    "docs/migrate-karpenter.md": "karpenter sandbox --example --speed 10 --load scene.yaml",
    "docs/migrate-nth.md": "karpenter sandbox --provider aws --example --speed 10",
    "docs/scale-walk.md": "",
    "docs/stopped-controller.md": "",
    "docs/troubleshooting.md": "karpenter sandbox --example --speed 10",
    "docs/uninstall.md": "karpenter sandbox --example --speed 10 --load scene.yaml",
    "docs/upgrade.md": "karpenter sandbox --example --speed 10",
}

# Pages whose commands make things in an account; tests/unit/conformance/test_start_aws.py judges them
ACCOUNT_PAGES: Final = frozenset({"docs/start-aws.md"})

# The page that tests/e2e/install/test_install_page.py follows, on a real control plane with helm
INSTALLING: Final = "docs/install.md"

ON_A_SANDBOX: Final = "tests/e2e/commands/test_pages.py runs it on a sandbox"
ON_A_CLUSTER: Final = "tests/e2e/commands/test_pages.py runs it on a real control plane"
_OFFLINE: Final = (
    "tests/unit/cloud/aws/simulated/test_aws_offline_plan.py runs it, as it takes longer"
)
_PLUGIN: Final = "tests/e2e/commands/test_kubectl_plugin.py runs it on a sandbox"
_RELEASE: Final = "tests/e2e/install/test_release_files.py runs it on a release"
_IN_AN_ACCOUNT: Final = "needs an AWS account"
# Commands that tests/unit/cli/test_cli_docs.py does not run, and why
RUN_ELSEWHERE: Final = {
    "README.md: make run": "installs; tests/unit/test_make.py looks at what it would do",
    "README.md: make test": "is what runs this test",
    "README.md: export PATH=$PWD/.venv/bin:$PATH": "sets the environment of a shell",
    "docs/aws.md: pip install '.[aws]'": "installs",
    "docs/aws.md: export AWS_REGION=us-west-2 CLUSTER_NAME=my-cluster"
    " INTERRUPTION_QUEUE=my-cluster": "sets the environment of a shell",
    "docs/aws.md: LEADER_ELECTION_NAMESPACE=kube-system CLOUD_PROVIDER=aws karpenter controller": (
        _IN_AN_ACCOUNT
    ),
    "docs/aws.md: karpenter sandbox --provider aws --example": ON_A_SANDBOX,
    "docs/aws.md: kubectl --kubeconfig karpenter.kubeconfig get nodes": ON_A_SANDBOX,
    "docs/aws.md: karpenter sandbox interrupt NODE": ON_A_SANDBOX,
    "docs/aws.md: karpenter sandbox interrupt NODE --event scheduled-change": ON_A_SANDBOX,
    "docs/aws.md: karpenter sandbox fault sold-out '*/*/spot'": ON_A_SANDBOX,
    "docs/aws.md: COLUMNS=110 karpenter plan --provider aws examples/aws-plan --only provisioning"
    " --now 2026-08-01T12:00:00Z": (_OFFLINE),
    "docs/aws.md: COLUMNS=100 karpenter explain nodepool gpu --provider aws examples/aws-plan"
    " --now 2026-08-01T12:00:00Z": _OFFLINE,
    "docs/aws.md: kubectl get nodepools,ec2nodeclasses,nodeclaims,nodes,deployments,replicasets,pods"
    " -A -o yaml | karpenter plan --provider aws -": ON_A_SANDBOX,
    "docs/aws.md: eksctl create cluster -f docs/aws/eksctl.yaml": _IN_AN_ACCOUNT,
    "docs/aws.md: aws cloudformation deploy --stack-name karpenter-my-cluster --template-file"
    " docs/aws/cloudformation.yaml --capabilities CAPABILITY_NAMED_IAM --parameter-overrides"
    " ClusterName=my-cluster": _IN_AN_ACCOUNT,
    "docs/aws.md: kubectl apply -f examples/install/rbac.yaml -f examples/install/rbac-aws.yaml": (
        ON_A_CLUSTER
    ),
    "docs/controller.md: kubectl apply -f examples/install/rbac.yaml": ON_A_CLUSTER,
    "docs/controller.md: LEADER_ELECTION_NAMESPACE=kube-system karpenter controller": ON_A_CLUSTER,
    "docs/controller.md: kubectl apply -f examples/install/optional/early-binding.yaml": (
        ON_A_CLUSTER
    ),
    "docs/convert.md: kubectl get provisioners,awsnodetemplates -o yaml | karpenter convert -": (
        ON_A_CLUSTER
    ),
    "docs/dashboard.md: karpenter sandbox --example": (
        "tests/e2e/dashboard/test_dashboard_sandbox.py starts it and opens the address"
    ),
    """docs/dashboard.md: curl -s -H "Karpenter-Token: $TOKEN" -H "Content-Type: application/json" """
    """-d '{"drain": ["node-1"]}' http://127.0.0.1:36305/api/v1/what-if | jq .diff.hourly""": (
        "tests/e2e/dashboard/test_sandbox_dashboard.py asks a sandbox the same"
    ),
    "docs/explain.md: karpenter explain pod shop/cart-3": (
        "its pod is made up; tests/e2e/real_control_plane/test_plan_live.py explains pods of clusters"
    ),
    "docs/image.md: make image": "fetches and builds; tests/e2e/install/test_image.py does both",
    "docs/kubectl.md: kubectl karpenter plan": _PLUGIN,
    "docs/kubectl.md: kubectl karpenter explain nodepool default": _PLUGIN,
    "docs/legacy.md: kubectl apply -f examples/install/optional/legacy-kinds.yaml": ON_A_CLUSTER,
    "docs/legacy.md: kubectl apply -f examples/install/optional/legacy-kinds-aws.yaml": (
        ON_A_CLUSTER
    ),
    "docs/legacy.md: kubectl get provisioners,awsnodetemplates -o yaml | karpenter convert -"
    " --node-role NODE_ROLE > v1.yaml": ON_A_CLUSTER,
    "docs/legacy.md: kubectl delete provisioners,awsnodetemplates --all --cascade=orphan": (
        ON_A_CLUSTER
    ),
    "docs/legacy.md: kubectl apply -f v1.yaml": ON_A_CLUSTER,
    "docs/migrate-cluster-autoscaler.md: aws eks update-nodegroup-config --cluster-name my-cluster"
    " --nodegroup-name workers --scaling-config minSize=0,maxSize=1,desiredSize=0": _IN_AN_ACCOUNT,
    "docs/plan.md: karpenter plan --with examples/v1/nodepool-kwok.yaml": ON_A_CLUSTER,
    "docs/providers.md: kubectl annotate kwoknodeclass default"
    " 'karpenter.kwok.sh/sold-out=*/*/spot'": ON_A_SANDBOX,
    "docs/provider-example.md: kubectl patch machineclass default --subresource=status --type=merge -p"
    """ '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'""": (
        "tests/integration/test_foreign_provider.py does the same to a cluster"
    ),
    "docs/sandbox.md: karpenter sandbox --example": ON_A_SANDBOX,
    "docs/sandbox.md: export KUBECONFIG=$PWD/karpenter.kubeconfig": ON_A_SANDBOX,
    "docs/sandbox.md: kubectl scale deployment inflate --replicas=5": ON_A_SANDBOX,
    "docs/sandbox.md: kubectl get nodeclaims,nodes,pods -o wide": ON_A_SANDBOX,
    "docs/sandbox.md: kubectl scale deployment inflate --replicas=1": ON_A_SANDBOX,
    "docs/sandbox.md: kubectl autoscale deployment inflate --min 1 --max 20 --cpu-percent 50": (
        ON_A_SANDBOX
    ),
    "docs/sandbox.md: kubectl annotate hpa inflate sandbox.karpenter.sh/metric-total=400": (
        ON_A_SANDBOX
    ),
    "docs/sandbox.md: karpenter sandbox --provider aws --example": ON_A_SANDBOX,
    "docs/sandbox.md: karpenter sandbox fault sold-out '*/*/spot'": ON_A_SANDBOX,
    "docs/sandbox.md: karpenter sandbox fault lost-zone us-west-2a": ON_A_SANDBOX,
    "docs/sandbox.md: karpenter sandbox fault --list": ON_A_SANDBOX,
    "docs/sandbox.md: karpenter sandbox fault --undo": ON_A_SANDBOX,
    "docs/sandbox.md: kubectl logs -n karpenter -l app.kubernetes.io/name=karpenter"
    " -c controller -f": ON_A_SANDBOX,
    "docs/scale-walk.md: eksctl create cluster -f examples/scale-walk/eksctl.yaml": _IN_AN_ACCOUNT,
    "docs/uninstall.md: aws ec2 describe-instances --filters"
    " Name=tag-key,Values=karpenter.sh/nodepool Name=instance-state-name,Values=running"
    " --query 'Reservations[].Instances[].InstanceId'": _IN_AN_ACCOUNT,
    "docs/validation.md: kubectl get crd nodepools.karpenter.sh"
    " -o jsonpath='{.status.storedVersions}'": ON_A_CLUSTER,
    "docs/verify.md: openssl dgst -sha256 -verify karpenter-release.pub -signature SHA256SUMS.sig"
    " SHA256SUMS": _RELEASE,
    "docs/verify.md: sha256sum --check --strict --quiet SHA256SUMS": _RELEASE,
    "docs/verify.md: .venv/bin/python tools/release.py --check RELEASE --key karpenter-release.pub": (
        _RELEASE
    ),
    "docs/webhooks.md: kubectl apply -f examples/install/optional/webhook.yaml": ON_A_CLUSTER,
    "docs/webhooks.md: LEADER_ELECTION_NAMESPACE=kube-system WEBHOOK_PORT=8443"
    " karpenter controller": "tests/e2e/real_control_plane/test_real_webhook.py runs two of them, on free ports",
    "docs/webhooks.md: karpenter crds migrate --dry-run": ON_A_CLUSTER,
    "docs/webhooks.md: karpenter crds migrate": ON_A_CLUSTER,
    "docs/webhooks.md: kubectl patch crd nodepools.karpenter.sh nodeclaims.karpenter.sh"
    " ec2nodeclasses.karpenter.k8s.aws --type=merge"
    """ -p '{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}'""": (
        ON_A_CLUSTER
    ),
    "docs/webhooks.md: kubectl delete -f examples/install/optional/webhook.yaml": ON_A_CLUSTER,
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A command on a page."""

    page: str
    command: str  # as a shell takes it: with its comment, and perhaps of several lines
    output: str  # what it prints; empty where the page shows nothing

    @property
    def name(self) -> str:
        """The command as one line without a comment."""
        return re.sub(r"\s+# .*", "", re.sub(r"\\\n\s*", "", self.command))

    def __str__(self) -> str:
        """The page and the command, for the ids of tests."""
        return f"{self.page}: {self.name}"


def text_of(page: str) -> str:
    """The text of a page, by its path from the root."""
    return (ROOT / page).read_text("utf-8")


def is_run_here(shown: Shown) -> bool:
    """Whether tests/unit/cli/test_cli_docs.py runs a command."""
    elsewhere = {*GUIDES, *ACCOUNT_PAGES, INSTALLING}
    return shown.page not in elsewhere and str(shown) not in RUN_ELSEWHERE


def commands() -> Iterator[Shown]:
    """All commands on all pages, in order."""
    for path in PAGES:
        page = path.relative_to(ROOT).as_posix()
        for block in _BLOCK.findall(path.read_text("utf-8")):
            yield from _commands(page, block)


def files() -> Iterator[tuple[str, str]]:
    """The files that pages show for their commands: blocks of YAML that begin with a name."""
    for path in PAGES:
        yield from _FILE.findall(path.read_text("utf-8"))


def is_as_shown(shown: str, printed: str) -> bool:
    """Whether a text is what a page shows, which may leave lines out."""
    parts = re.split(rf"^{ELISION}\n", shown, flags=re.MULTILINE)
    pattern = r"(?:.*\n)*".join(map(re.escape, parts))
    return re.fullmatch(pattern, printed) is not None


def _commands(page: str, block: str) -> Iterator[Shown]:
    assert block.startswith(_PROMPT), f"{page}: a block of commands begins with a prompt: {block}"
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        end = re.search(r"(?<!\\)\n", part)  # of a line that does not continue
        assert end is not None, part
        yield Shown(page, part[: end.start()], part[end.end() :])
