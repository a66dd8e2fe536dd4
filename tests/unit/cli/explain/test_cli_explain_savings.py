"""What ``explain node`` says of savings in one place, it says everywhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import machine, pool, put, running
from helpers.commands import run

SETTLED = {
    "conditions": [
        {
            "type": "Consolidatable",
            "status": "True",
            "reason": "Consolidatable",
            "lastTransitionTime": "2026-08-01T00:00:00Z",
        }
    ]
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def kind(name: str, cpu: str, prices: dict[str, float]) -> dict[str, Any]:
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": cpu, "memory": f"{2 * int(cpu)}Gi", "pods": "110"},
        "offerings": [
            {"zone": zone, "capacityType": "on-demand", "price": price, "available": True}
            for zone, price in prices.items()
        ],
    }


def story(*types: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What is told of a node that would do with less, for people and as data."""
    Path("types.json").write_text(json.dumps(types), "utf-8")
    held = machine(kind="big-4x", zone="z1", status=SETTLED)
    file = put("c.json", pool(), *held, running("web", "n1", "500m"))
    words = ["explain", "node", "n1", file, "--instance-types", "types.json"]
    words += ["--now", "2026-08-01T12:00:00Z"]
    return run(*words).out, json.loads(run(*words, "-o", "json").out)


def test_a_replacement_that_may_cost_as_much_elsewhere_saves_at_best() -> None:
    shown, told = story(
        kind("big-4x", "4", {"z1": 0.4, "z2": 0.4}), kind("small", "1", {"z1": 0.1, "z2": 0.9})
    )

    assert "not in every zone it is sure to cost less" in shown
    assert "that would save $0.3000/h ($219.00/month) at best" in shown
    assert pytest.approx(0.3) == told["move"]["savingsHourly"]


def test_a_node_whose_price_nobody_knows_saves_nobody_knows_what() -> None:
    shown, told = story(kind("small", "1", {"z1": 0.1}))

    assert "at an unknown price" in shown
    assert "small on-demand in z1 at $0.1000/h in its place, the saving is unknown" in shown
    assert "more" not in shown
    assert told["move"]["savingsHourly"] is None


def test_what_a_node_could_become_is_what_its_command_makes_of_it() -> None:
    # the cheapest type is not sure to cost less, so another takes its place
    _, told = story(
        kind("big-4x", "4", {"z1": 0.4, "z2": 0.4}),
        kind("small", "1", {"z1": 0.1, "z2": 0.9}),
        kind("middle", "2", {"z1": 0.2, "z2": 0.2}),
    )

    assert pytest.approx(0.2) == told["command"]["savingsHourly"]
    assert pytest.approx(0.2) == told["move"]["savingsHourly"]
    assert ["middle"] == [each["launch"]["instanceType"] for each in told["move"]["replacements"]]


def test_a_replacement_at_the_same_price_saves_nothing() -> None:
    shown, told = story(kind("big-4x", "4", {"z1": 0.4}))

    assert "that would save nothing" in shown
    assert "not below $0.4/h" in shown
    assert pytest.approx(0.0) == told["move"]["savingsHourly"]
