"""Pages say what users were promised they would say."""

from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.row("S2-64")
def test_the_page_on_node_pools_advises_on_limits() -> None:
    text = " ".join((DOCS / "nodepools.md").read_text("utf-8").split())

    assert "median instance type" in text
    assert "times the number of nodes" in text
    assert "nested `limits.resources.cpu` of v1alpha5 is refused from v1beta1 on" in text


@pytest.mark.row("S2-88")
def test_the_page_on_interruption_says_not_to_run_a_second_handler() -> None:
    text = " ".join((DOCS / "aws.md").read_text("utf-8").split())

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
