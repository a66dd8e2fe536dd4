"""The example of spot ratios, as tables and as JSON."""

import json
from pathlib import Path

import pytest

from helpers.cluster_texts import SCHEMA
from helpers.commands import run

EXAMPLE = str(Path(__file__).resolve().parents[4] / "examples" / "spot")


@pytest.mark.parametrize("packing", ["karpenter", "cheapest"])
def test_the_example_keeps_its_ratios(packing: str) -> None:
    ran = run("plan", EXAMPLE, "--only", "provisioning", "-o", "json", "--packing", packing)

    assert 0 == ran.code, ran.err
    document = json.loads(ran.out)
    SCHEMA.validate(document)
    cost = document["provisioning"]["cost"]
    (pool,) = cost["spotRatios"]
    assert ("general", 70, 8, True) == (
        pool["nodePool"],
        pool["askedPercent"],
        pool["onDemandBaseCpu"],
        pool["isMet"],
    )
    assert pool["spotCpu"] <= 0.7 * (pool["totalCpu"] - 8)
    (workload,) = cost["workloadRatios"]
    assert (10, 6, 6) == (
        workload["pods"],
        workload["offSpotAsked"],
        len(workload["offSpotPlanned"]),
    )
    how = {
        pod: claim["launch"]["capacityType"]
        for claim in document["provisioning"]["nodeClaims"]
        for pod in claim["pods"]
    }
    assert {"on-demand"} == {how[pod] for pod in workload["offSpotPlanned"]}


def test_the_table_says_what_was_asked() -> None:
    ran = run("plan", EXAMPLE, "--only", "provisioning")

    assert "NodePool general ratio: 64% spot, 70% asked beyond 8 cpu" in ran.out
    assert ": 6 of 10 pods off spot, 6 asked" in ran.out
