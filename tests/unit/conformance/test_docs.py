"""Pages say what users were promised they would say."""

from pathlib import Path

import pytest

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
