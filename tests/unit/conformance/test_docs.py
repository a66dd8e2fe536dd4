"""Pages say what users were promised they would say."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml

from helpers import pages
from helpers.commands import run
from helpers.scale_walk import FIXED, manifests
from karpenter.cloud.registry import GROUP
from karpenter.manifests.reader import read
from unit.conformance.test_case_numbers import named

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.row("S1-09")
def test_the_rows_that_an_empty_section_leaves_to_others_are_all_tested() -> None:
    row = next(
        line for line in pages.text_of("docs/spec/api.md").splitlines() if "| S1-09 |" in line
    )
    first, last = map(int, re.findall(r"S3-(\d+)\.\.(\d+)", row)[0])
    others = ["S2-04", *(f"S3-{number}" for number in range(first, last + 1))]

    assert "no duty of its own; S2-04 and S3-32..39 apply" in row
    assert [] == [each for each in others if each not in named()]


@pytest.mark.row("S2-64")
def test_the_page_on_node_pools_advises_on_limits() -> None:
    text = " ".join((DOCS / "nodepools.md").read_text("utf-8").split())

    assert "median instance type" in text
    assert "times the number of nodes" in text
    assert "nested `limits.resources.cpu` of v1alpha5 is refused from v1beta1 on" in text


@pytest.mark.row("S2-88")
def test_the_page_on_interruption_says_not_to_run_a_second_handler() -> None:
    text = " ".join((DOCS / "aws-launches.md").read_text("utf-8").split())

    assert "Do not run the AWS Node Termination Handler" in text


@pytest.mark.row("S2-34")
def test_the_cluster_file_for_eksctl_has_what_karpenter_needs() -> None:
    cluster = yaml.safe_load((DOCS / "aws" / "eksctl.yaml").read_text("utf-8"))
    (group,) = cluster["managedNodeGroups"]

    assert cluster["metadata"]["name"] == cluster["metadata"]["tags"]["karpenter.sh/discovery"]
    assert cluster["iam"]["withOIDC"] is True
    assert (1, 3) == (group["minSize"], group["maxSize"])


@pytest.mark.row("S2-36")
def test_the_page_on_aws_maps_the_role_of_nodes() -> None:
    text = " ".join((DOCS / "aws.md").read_text("utf-8").split())

    assert "The stack adds an access entry for it" in text
    assert "the `aws-auth` ConfigMap need the role there, or nodes never register" in text


@pytest.mark.row("S2-80")
def test_the_page_on_cleaning_up_says_what_is_removed_and_what_is_not() -> None:
    text = (DOCS / "uninstall.md").read_text("utf-8")
    table = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE))

    assert "with the node class" == table["instance profiles made from `role`"]
    assert table["launch templates (`karpenter.k8s.aws/…`)"].endswith("with the node class")
    assert table["roles, policies, queue, rules"].startswith("by you")


@pytest.mark.row("S2-14")
def test_the_page_on_compatibility_names_the_providers_that_there_are() -> None:
    """The guide's limit of its time is stated, and which clouds and clusters there are instead."""
    text = (DOCS / "compatibility.md").read_text("utf-8")
    clouds = text.partition("## Clouds")[2].partition("\n\nGuides")[0]
    named = re.findall(r"^\| `(\w+)` \|", clouds, re.MULTILINE)
    installed = {entry.name for entry in entry_points(group=GROUP)}

    assert installed == set(named)
    assert 'Guides of 2023 say "EKS only"' in text


@pytest.mark.row("S2-14")
def test_the_page_on_compatibility_names_the_versions_that_are_tried() -> None:
    text = (DOCS / "compatibility.md").read_text("utf-8")
    (pythons,) = re.findall(r"^\| Python \| ([\d., ]+) \|", text, re.MULTILINE)
    workflow = yaml.safe_load((DOCS.parent / ".github/workflows/fast.yml").read_text("utf-8"))
    (job,) = workflow["jobs"].values()

    assert pythons.split(", ") == job["strategy"]["matrix"]["python"]


@pytest.mark.row("S3-03")
def test_installing_asks_for_nothing_that_made_the_cluster() -> None:
    """What is installed everywhere are CRDs and rights of Kubernetes' own kinds, and a process."""
    objects = [
        document.data
        for file in sorted((DOCS.parent / "examples/install").rglob("*.yaml"))
        for document in read(file.read_bytes(), file.name)
    ]
    text = yaml.safe_dump(objects)
    crds = list(yaml.safe_load_all(run("crds").out))

    rights = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    webhooks = {
        "Service",
        "Secret",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }
    assert rights | webhooks == {each["kind"] for each in objects}
    assert {"CustomResourceDefinition"} == {each["kind"] for each in crds}
    assert [] == re.findall(r"eksctl|kops|terraform|amazonaws", text, re.IGNORECASE)


@pytest.mark.row("S3-04")
def test_the_cluster_file_of_the_walk_is_the_cluster_of_the_walk() -> None:
    name = "examples/scale-walk/eksctl.yaml"
    cluster = yaml.safe_load((DOCS.parent / name).read_text("utf-8"))
    (group,) = cluster["managedNodeGroups"]
    (fixed,) = [each for each in manifests("cluster.yaml") if each["kind"] == "Node"]
    labels = fixed["metadata"]["labels"]

    assert ("mz-karpenter", True) == (cluster["metadata"]["name"], cluster["iam"]["withOIDC"])
    assert "mz-karpenter" == cluster["metadata"]["tags"]["karpenter.sh/discovery"]
    assert labels["topology.kubernetes.io/region"] == cluster["metadata"]["region"]
    assert labels["node.kubernetes.io/instance-type"] == group["instanceType"]
    assert (FIXED, 1) == (fixed["metadata"]["name"], group["desiredCapacity"])
    assert f"docs/scale-walk.md: eksctl create cluster -f {name}" in map(str, pages.commands())


@pytest.mark.row("S2-84")
def test_the_page_on_launch_templates_names_every_field_that_replaces_one(tmp_path: Path) -> None:
    """Those that the refusal of `karpenter convert` names, and none that does not exist."""
    template = tmp_path / "template.yaml"
    template.write_text(
        "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: mine}\n"
        "spec: {launchTemplate: mine, subnetSelector: {a: b}}\n",
        "utf-8",
    )
    refused = run("convert", str(template))
    (crd,) = yaml.safe_load_all(run("crds", "EC2NodeClass").out)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = set(schema["properties"]["spec"]["properties"])
    text = (DOCS / "launch-templates.md").read_text("utf-8")
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", text.partition("## What goes")[2], re.MULTILINE)
    named = {name for cell in rows for name in re.findall(r"`([a-z]\w+)`", cell)}

    assert 2 == refused.code
    advised = set(re.findall(r"\b\w+\b", refused.err.partition("machine with ")[2])) & fields
    assert len(advised) > 6
    assert set() == advised - named
    assert {"id"} == named - fields - {"alias"}


@pytest.mark.row("S2-77")
def test_crds_are_printed_one_for_a_kind_and_the_guide_to_upgrades_applies_them_first() -> None:
    text = (DOCS / "upgrade.md").read_text("utf-8")
    typed = [shown.name for shown in pages.commands() if shown.page == "docs/upgrade.md"]
    kinds = re.findall(r"^karpenter crds (\w+) > \S+\.yaml$", "\n".join(typed), re.MULTILINE)

    assert ["NodePool", "NodeClaim"] == kinds
    for kind in kinds:
        (crd,) = yaml.safe_load_all(run("crds", kind).out)
        assert kind == crd["spec"]["names"]["kind"]
    assert text.index("3. apply the CRDs") < text.index("4. replace the controller")
    assert "docs/upgrade.md" in pages.GUIDES, "where `diff` shows that objects are kept"


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "threat-model.md").read_text("utf-8")))
    sources = (path.read_text("utf-8") for path in (DOCS.parent / "tests").rglob("test_*.py"))
    defined = {name for text in sources for name in re.findall(r"def (test_\w+)\(", text)}

    assert len(named) > 15
    assert set() == named - defined


def test_every_threat_has_a_measure_and_a_test() -> None:
    text = (DOCS / "threat-model.md").read_text("utf-8").partition("## Threats")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ][2:]

    assert len(rows) > 12
    assert [] == [row[0] for row in rows if len(row) != 5 or not row[2] or "test_" not in row[4]]
