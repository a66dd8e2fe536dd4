"""What a sandbox cannot begin with is told in one sentence each, and nothing is started."""

import asyncio
from pathlib import Path

import pytest
import typer

from karpenter.cli.sandbox_autoscaler import autoscaling, told_when_over
from karpenter.clock import SystemClock
from karpenter.sandbox.cluster import Cluster
from unit.cli.commands import run


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


async def test_a_scheduler_configuration_that_makes_no_sense_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCHEDULER_CONFIG", "podTopologySpred: {}")
    cluster = Cluster(SystemClock())

    with pytest.raises(typer.Exit) as ended:
        async with autoscaling(cluster, provider="kwok", instance_types="", say=print):
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
    told_when_over(task, said.append)

    assert ["! the controllers have stopped: nobody has seen this coming"] == said
