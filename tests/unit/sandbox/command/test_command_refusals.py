"""What a sandbox cannot begin with is told in one sentence each, and nothing is started."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
import typer

from helpers.commands import run
from karpenter.clock import SystemClock
from karpenter.cloud.aws.simulated.account import simulated_account
from karpenter_sandbox.cluster import Cluster
from karpenter_sandbox.command.autoscaler import autoscaling, report_end
from karpenter_sandbox.command.cloud import Account, CloudOptions, first_nodes


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(
            "kind: Pod\n", 'no matches for kind "Pod" in version ""', id="no version and no name"
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: [a]}\n",
            ".metadata.name: expected string, got ",
            id="a list in place of a name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: [b]}\n",
            "namespace",
            id="a list in place of a namespace",
        ),
    ],
)
def test_an_object_that_makes_no_sense_is_one_sentence(
    manifest: str, expected: str, tmp_path: Path
) -> None:
    file, kubeconfig = tmp_path / "bad.yaml", tmp_path / "kubeconfig"
    file.write_text(manifest, "utf-8")

    ran = run("sandbox", "--load", str(file), "--kubeconfig", str(kubeconfig))

    assert (2, "") == (ran.code, ran.out)
    first, last = ran.errors
    assert first.startswith(f"error: {file}:1: Pod")
    assert expected in first
    assert "error: nothing is started: 1 problem above" == last
    assert not kubeconfig.exists()


def test_without_moto_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "moto", None)
    kubeconfig = tmp_path / "kubeconfig"

    ran = run("sandbox", "--provider", "aws", "--nodes", "1", "--kubeconfig", str(kubeconfig))

    assert (2, "") == (ran.code, ran.out)
    (error,) = ran.errors
    assert error == (
        "error: AWS is simulated with moto, which is missing; install it with:"
        " pip install 'karpenter[aws-sandbox]' (in a clone: make install)"
    )
    assert not kubeconfig.exists()


@pytest.mark.parametrize("options", [(), ("--nodes", "1")])
def test_a_region_that_cannot_be_simulated_is_one_sentence(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"

    command = ("sandbox", "--provider", "aws", "--region", "mars-1", *options)
    ran = run(*command, "--kubeconfig", str(kubeconfig))

    assert (2, "") == (ran.code, ran.out)
    (error,) = ran.errors
    assert error.startswith("error: AWS cannot be simulated in the region mars-1; those that can")
    assert not kubeconfig.exists()


async def test_a_scheduler_configuration_that_makes_no_sense_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCHEDULER_CONFIG", "podTopologySpred: {}")
    cluster = Cluster(SystemClock())

    with pytest.raises(typer.Exit) as ended:
        async with autoscaling(cluster, CloudOptions("kwok"), print):
            pass

    assert 2 == ended.value.exit_code
    assert capsys.readouterr().err.startswith("error: SCHEDULER_CONFIG: ")


async def test_of_controllers_that_stop_the_reason_is_told_and_not_its_wrapping() -> None:
    said: list[str] = []

    async def fail() -> None:
        raise ValueError("nobody has seen this coming")

    async def controllers() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    task = asyncio.create_task(controllers())
    await asyncio.wait({task})
    report_end(task, said.append)

    assert ["! the controllers have stopped: nobody has seen this coming"] == said


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        pytest.param(
            ["--provider", "kwokk"],
            {},
            "error: no provider is called kwokk; known are ",
            id="a provider nobody has heard of",
        ),
        pytest.param(
            [],
            {"FEATURE_GATES": "NodeRepair=perhaps"},
            "error: FEATURE_GATES: NodeRepair needs true or false, not 'perhaps'",
            id="a setting that makes no sense",
        ),
        pytest.param(
            ["--instance-types", "/dev/null"],
            {},
            "error: /dev/null:1: the file is not JSON",
            id="machines that cannot be read",
        ),
    ],
)
def test_controllers_that_could_not_begin_are_refused_before_a_cluster_is_up(
    arguments: list[str],
    environment: dict[str, str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    ran = run("sandbox", "--kubeconfig", str(kubeconfig), *arguments)

    assert (2, "") == (ran.code, ran.out)
    (only,) = ran.errors
    assert only.startswith(expected)
    assert not kubeconfig.exists()


def test_the_first_nodes_stand_in_the_zones_of_the_simulated_cloud() -> None:
    zones = ("test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d")

    assert zones == first_nodes(CloudOptions("kwok")).zones


@pytest.mark.parametrize("region", ["us-west-2", "ap-northeast-1"])  # the second has no zone b
def test_the_first_nodes_stand_in_the_zones_of_the_simulated_account(region: str) -> None:
    options = CloudOptions("aws", account=Account(region=region))
    with simulated_account(SystemClock(), region=region) as account:
        assert tuple(account.subnets) == first_nodes(options).zones


def test_the_first_nodes_stand_in_zones_of_the_machines_that_are_listed(tmp_path: Path) -> None:
    offering = {"zone": "rack-1", "capacityType": "on-demand", "price": 1}
    kind = {
        "name": "metal",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "2", "memory": "4Gi"},
        "offerings": [offering],
    }
    file = tmp_path / "types.json"
    file.write_text(json.dumps([kind]), "utf-8")

    assert ("rack-1",) == first_nodes(CloudOptions("kwok", str(file))).zones
