"""The page on starting on AWS: what it asks for, and that its names can be changed."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers import pages
from helpers.commands import run

PAGE = "docs/start-aws.md"
AWS = pages.ROOT / "docs" / "aws"
COMMANDS = [shown for shown in pages.commands() if shown.page == PAGE]
TOOLS = {"aws", "kubectl", "eksctl", "helm"}
OURS = {"karpenter"}
SHELL = {"export", "sed", "true"}


@pytest.mark.row("S0-18")
def test_it_asks_for_no_tools_beyond_four() -> None:
    programs = {
        words[0]
        for shown in COMMANDS
        for part in re.split(r"\|\|?", re.sub(r"^(?:\w+=\S+ )+", "", shown.name))
        if (words := shlex.split(part))
    }

    assert programs <= TOOLS | OURS | SHELL
    assert programs >= TOOLS


def piped(command: str, **names: str) -> str:
    """What a command of the page writes into the program behind its pipe."""
    (shown,) = [each for each in COMMANDS if command in each.name]
    writing = shown.command.rpartition("|")[0]
    return subprocess.run(
        ["/bin/sh", "-c", writing],
        cwd=pages.ROOT,
        env={"PATH": os.environ["PATH"], **names},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.row("S2-33")
def test_the_cluster_has_the_names_and_version_that_were_chosen() -> None:
    (first, *_) = COMMANDS
    chosen = {"CLUSTER_NAME": "shop", "AWS_REGION": "cn-north-1", "K8S_VERSION": "1.32"}
    assert chosen.keys() <= dict(word.split("=") for word in first.name.split()[1:]).keys()

    cluster = yaml.safe_load(piped("eksctl create cluster", **chosen))

    assert {
        "name": "shop",
        "region": "cn-north-1",
        "version": "1.32",
        "tags": {"karpenter.sh/discovery": "shop"},
    } == cluster["metadata"]


@pytest.mark.row("S2-33")
def test_the_pool_belongs_to_the_cluster_that_was_chosen(tmp_path: Path) -> None:
    file = tmp_path / "nodepool.yaml"
    file.write_text(piped("docs/aws/nodepool.yaml", CLUSTER_NAME="shop"), "utf-8")
    _, node_class = yaml.safe_load_all(file.read_text("utf-8"))

    planned = run("plan", "--provider", "aws", str(file), "-o", "json")

    assert 0 == planned.code, planned.err
    assert "KarpenterNodeRole-shop" == node_class["spec"]["role"]
    assert "CLUSTER_NAME" not in file.read_text("utf-8").partition("\n")[2]


@pytest.mark.row("S2-33")
@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_every_arn_follows_the_partition(partition: str) -> None:
    for file in (*AWS.glob("policies/*.json"), AWS / "cloudformation.yaml", AWS / "main.tf"):
        text = file.read_text("utf-8")
        if file.suffix == ".json":
            assert json.loads(text)
        places = r"\$\{(?:AWS::Partition|Partition|data\.aws_partition\.this\.partition)\}"
        arns = re.findall(r"\barn:[^\"\s]+", re.sub(places, partition, text))

        assert [] == [arn for arn in arns if not arn.startswith(f"arn:{partition}:")], file.name


def schema_has(schema: Any, path: list[str]) -> bool:
    for name in path:
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
    return True


@pytest.mark.row("S0-19")
def test_charts_install_by_hand_and_through_terraform_with_values_that_exist() -> None:
    """Pages for getting started, the chart and Terraform; what they set, the chart takes."""
    text = pages.text_of(PAGE)
    schema = json.loads((pages.ROOT / "charts/karpenter/values.schema.json").read_text("utf-8"))
    by_hand = {name for shown in COMMANDS for name in re.findall(r'--set "([\w.]+)=', shown.name)}
    terraform = text.partition("## With Terraform")[2]
    charts = re.findall(r'chart +(?:= )?"?(?:\./)?(charts/[\w-]+)', terraform)

    assert {"settings.clusterName", "controller.image.repository"} <= by_hand
    assert [] == [name for name in by_hand if not schema_has(schema, name.split("."))]
    (settings,) = re.findall(r"settings += \{ (.+) \}", terraform)
    for name in re.findall(r"(\w+) =", settings):
        assert schema_has(schema, ["settings", name]), name
    assert ["charts/karpenter-crd", "charts/karpenter"] == charts
    for chart in charts:
        assert (pages.ROOT / chart / "Chart.yaml").is_file()
        assert (pages.ROOT / chart / "README.md").is_file()
    (variables,) = re.findall(r'source += "\./docs/aws"\n((?:  .+\n)+)', terraform)
    module = (AWS / "main.tf").read_text("utf-8")
    for name in re.findall(r"^  (\w+)", variables, re.MULTILINE):
        assert f'variable "{name}"' in module
