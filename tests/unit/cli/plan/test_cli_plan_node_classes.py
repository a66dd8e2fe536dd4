"""Node classes of providers that this project knows nothing of, in manifests."""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import instance_type, planned, pod, pool, put, reasons
from helpers.commands import run
from third_party import installed

REFERENCE = {"group": "machines.example.com", "kind": "MachineClass", "name": "racks"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def foreign_pool() -> dict[str, Any]:
    made = pool()
    made["spec"]["template"]["spec"]["nodeClassRef"] = dict(REFERENCE)
    return made


def machine_class(name: str = "racks", **status: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "apiVersion": "machines.example.com/v1alpha7",
        "kind": "MachineClass",
        "metadata": {"name": name},
        "spec": {"anything": ["goes"]},
    }
    if status:
        made["status"] = {"conditions": [{"type": "Ready", **status}]}
    return made


def with_machines(*objects: dict[str, Any]) -> list[str]:
    Path("types.json").write_text(json.dumps([instance_type()]), "utf-8")
    return [put("c.json", foreign_pool(), pod(), *objects), "--instance-types", "types.json"]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        pytest.param([], {}, id="none in the input"),
        pytest.param([machine_class()], {}, id="nothing says how it fares"),
        pytest.param([machine_class(status="True")], {}, id="ready"),
        pytest.param(
            [machine_class(status="False", reason="NoRack", message="no rack has power")],
            {"default/web": ["NodeClassNotReady"]},
            id="not ready",
        ),
        pytest.param(
            [machine_class("others")],
            {"default/web": ["NodeClassNotFound"]},
            id="only another one is there",
        ),
    ],
)
def test_a_pool_follows_its_node_class_whosever_kind_it_is(
    classes: list[dict[str, Any]], expected: dict[str, list[str]]
) -> None:
    assert expected == reasons(planned(*with_machines(*classes)))


def test_such_a_class_is_passed_through_without_a_warning() -> None:
    ran = run("plan", *with_machines(machine_class()))

    assert (0, [], []) == (ran.code, ran.errors, ran.warnings)


def test_its_metadata_is_checked_as_that_of_any_object() -> None:
    ran = run("plan", *with_machines(machine_class("Not A Name")))

    assert 0 != ran.code
    assert any("MachineClass" in line and "metadata.name" in line for line in ran.errors)


def test_a_kind_that_no_pool_names_is_still_passed_over() -> None:
    stranger = {**machine_class(), "kind": "RackClass"}

    ran = run("plan", *with_machines(machine_class(), stranger))

    (warning,) = ran.warnings
    assert "RackClass/racks is ignored: no plan depends on this kind" in warning


def test_with_machines_of_a_file_the_provider_may_be_anybody(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    files = with_machines(machine_class(status="True"))

    with installed(site):
        ran = run("plan", *files, "--provider", "static")
        without = run("plan", files[0], "--provider", "static")

    assert (0, [], []) == (ran.code, ran.errors, ran.warnings)
    assert 2 == without.code
    assert "what provider static sells is known only where it runs" in without.err


def test_a_provider_that_is_not_installed_is_refused_all_the_same() -> None:
    ran = run("plan", *with_machines(machine_class()), "--provider", "statik")

    assert 2 == ran.code
    assert "no provider is called statik" in ran.err
