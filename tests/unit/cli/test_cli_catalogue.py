"""``karpenter catalogue`` writes a file that gives the plan which the cloud itself gives."""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.builders import instance_type, offering
from helpers.cluster_texts import pod, pool, text_of
from helpers.commands import run
from karpenter.cli.catalogue import merged
from karpenter.model import labels

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def written(folder: Path, *args: str, stdin: str | None = None) -> str:
    """Write a catalogue, and return the name of its file."""
    ran = run("catalogue", *args, stdin=stdin)
    assert ran.code == 0, ran.err
    file = folder / "types.json"
    file.write_text(ran.out, "utf-8")
    return str(file)


def planned(*args: str) -> dict[str, Any]:
    """A plan, without the names that nodes would get."""
    ran = run("plan", "-o", "json", *args)
    assert ran.code == 0, ran.err
    plan: dict[str, Any] = json.loads(ran.out)
    return plan


def test_a_plan_with_the_file_is_that_without_it(tmp_path: Path) -> None:
    names = [str(path) for path in sorted((EXAMPLES / "plan").glob("*.yaml"))]
    file = written(tmp_path, *names)

    assert planned("--instance-types", file, *names) == planned(*names)


@pytest.mark.slow
def test_a_plan_with_a_file_of_aws_has_its_estimates_too(tmp_path: Path) -> None:
    names = [str(path) for path in sorted((EXAMPLES / "aws-plan").glob("*.yaml"))]
    file = written(tmp_path, "--provider", "aws", *names)
    found = planned("--instance-types", file, *names)

    assert found == planned("--provider", "aws", *names)
    assert all(each["launch"]["isEstimate"] for each in found["provisioning"]["nodeClaims"])


def test_one_pool_may_be_named(tmp_path: Path) -> None:
    foreign = pool("racks")
    foreign["spec"]["template"]["spec"]["nodeClassRef"]["kind"] = "Rack"
    text = text_of(pool("general"), foreign, pod())
    file = written(tmp_path, "--nodepool", "general", "-", stdin=text)

    assert len(json.loads(Path(file).read_text("utf-8"))) == 144
    ran = run("catalogue", "--nodepool", "racks", "--nodepool", "generall", "-", stdin=text)
    assert ran.code == 2
    assert ran.errors == [
        "error: --nodepool: there is no NodePool generall; there is NodePool general, racks"
    ]


def test_without_a_pool_there_is_nothing_to_list() -> None:
    ran = run("catalogue", "-", stdin=text_of(pod()))
    assert (ran.code, ran.out) == (2, "")
    assert ran.errors == ["error: there is no NodePool to list instance types for"]


def test_what_is_not_known_is_said() -> None:
    ran = run("catalogue", "--provider", "aws", "-", stdin=text_of(pool("general")))
    assert (ran.code, ran.out) == (1, "")
    assert ran.errors == [
        "error: no instance types are known for NodePool general; name the cloud with --provider"
    ]


def test_of_pools_that_differ_the_least_room_and_all_offerings_are_written() -> None:
    roomy = instance_type("a", memory="8Gi", offerings=[offering("z1", price=1.0)])
    tight = instance_type("a", memory="7Gi", offerings=[offering("z2", labels.ON_DEMAND, 2.0)])
    other = instance_type("b")
    for order in ({"x": (roomy, other), "y": (tight,)}, {"x": (tight,), "y": (other, roomy)}):
        first, second = merged(order)
        assert (first.name, second.name) == ("a", "b")
        assert first.capacity == tight.capacity
        assert {(way.zone, way.price) for way in first.offerings} == {("z1", 1.0), ("z2", 2.0)}
