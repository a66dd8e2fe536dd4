"""What ``karpenter plan`` says of commitments; the example is the one of the docs."""

import json
from pathlib import Path

import pytest

from helpers.commands import run

EXAMPLE = str(Path(__file__).resolve().parents[4] / "examples" / "commitments")
PLAN = ("plan", EXAMPLE, "--only", "provisioning", "--packing", "cheapest")


def test_the_example_buys_what_is_paid_and_says_what_the_bill_rises_by() -> None:
    ran = run(*PLAN)

    assert ran.code == 0, ran.err
    assert "$0.5556 of it is covered by compute-plan" in ran.out
    assert "$0.2687 of it is covered by reserved-m" in ran.out
    assert "The bill rises by $0.2290 per hour" in ran.out


def test_as_json_with_every_part() -> None:
    document = json.loads(run(*PLAN, "-o", "json").out)["provisioning"]

    cost = document["cost"]
    assert cost["hourly"] == pytest.approx(cost["marginalHourly"] + cost["coveredHourly"])
    parts = [p for c in document["nodeClaims"] for p in c["launch"].get("coveredBy", ())]
    assert sum(part["hourly"] for part in parts) == pytest.approx(cost["coveredHourly"])
    plan, reserved = document["commitments"]
    assert ("compute-plan", "reserved-m") == (plan["name"], reserved["name"])
    assert [0.4, 0.4, 0.0] == pytest.approx(
        [plan["usedHourly"], plan["leftHourly"], plan["wastedHourly"]]
    )
    assert 0.0 == pytest.approx(reserved["wastedHourly"])


def test_without_the_gate_not_one_byte_tells_of_them(tmp_path: Path) -> None:
    text = (Path(EXAMPLE) / "commitments.yaml").read_text()
    rest = [part for part in text.split("---\n") if "kind: Commitment" not in part]
    (tmp_path / "rest.yaml").write_text("---\n".join(rest))
    command = ("--only", "provisioning", "--packing", "cheapest", "-o", "json")

    off = run("plan", EXAMPLE, *command, "--set", "FEATURE_GATES=Commitments=false")

    assert run("plan", str(tmp_path), *command).out == off.out


@pytest.mark.case("OPT-52")
def test_a_file_that_states_two_quantities_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "apiVersion: cost.karpenter.sh/v1alpha1\nkind: Commitment\nmetadata: {name: bad}\n"
        'spec:\n  type: SavingsPlan\n  hourly: "1"\n  units: "4"\n  discount: 10%\n'
    )

    ran = run("plan", str(file))

    assert ran.code != 0
    assert f"{file}:4: Commitment/bad spec: " in ran.err
    assert "state exactly one quantity" in ran.err


def test_one_that_has_expired_is_told_as_unusable(tmp_path: Path) -> None:
    text = (Path(EXAMPLE) / "commitments.yaml").read_text().replace("2099-", "2020-")
    (tmp_path / "old.yaml").write_text(text)

    ran = run("plan", str(tmp_path), "--only", "provisioning", "--packing", "cheapest")

    assert "Commitment compute-plan" in ran.out
    assert "it expired at 2020-05-01T00:00:00Z" in ran.out
