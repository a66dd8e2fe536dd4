"""``karpenter values``: a values file of Karpenter's own chart becomes one of ours."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from helpers.commands import run

UPSTREAM = Path(__file__).parents[1] / "charts" / "karpenter-v1.14-values.yaml"


def translated(text: str) -> tuple[dict[str, Any], list[str]]:
    ran = run("values", "-", stdin=text)
    assert 0 == ran.code, ran.err
    return yaml.safe_load(ran.out), ran.warnings


def test_the_defaults_of_the_chart_for_aws_stay_as_they_are_but_for_the_image() -> None:
    given = yaml.safe_load(UPSTREAM.read_text("utf-8"))
    made, warnings = translated(UPSTREAM.read_text("utf-8"))

    del given["controller"]["image"]
    del (
        given["terminationGracePeriodSeconds"],
        given["serviceMonitor"]["sampleLimit"],
    )  # not given: null
    assert [] == [name for name in given if given[name] != made.get(name)]
    (said,) = warnings
    assert "controller.image is the image of another program; set controller.image to yours" in said


def test_values_of_older_charts_are_moved() -> None:
    made, warnings = translated("""
settings:
  aws:
    clusterName: shop
    interruptionQueueName: shop-queue
    reservedENIs: "1"
    defaultInstanceProfile: nodes
    unheardOf: 1
  featureGates: {driftEnabled: true, spotToSpotConsolidation: true}
controller: {logLevel: debug}
""")

    assert {
        "settings": {
            "clusterName": "shop",
            "interruptionQueue": "shop-queue",
            "reservedENIs": "1",
            "featureGates": {"spotToSpotConsolidation": True},
        },
        "logLevel": "debug",
    } == made
    assert [
        "warning: -:7: settings.aws.defaultInstanceProfile is gone: name it in each EC2NodeClass",
        "warning: -:8: settings.aws.unheardOf has no counterpart in the chart",
        "warning: -:9: settings.featureGates.driftEnabled is gone: drift is always on, within budgets",
    ] == [warning.replace("<stdin>", "-") for warning in warnings]


def test_a_value_with_todays_name_counts_before_an_older_one() -> None:
    made, _ = translated("settings: {clusterName: new, aws: {clusterName: old}}")

    assert {"settings": {"clusterName": "new"}} == made


def test_what_has_no_counterpart_is_named_with_its_line_and_as_a_whole() -> None:
    made, warnings = translated("replicas: 1\nextraObjects:\n  a: {b: c}\n")

    assert {"replicas": 1} == made
    (said,) = warnings
    assert said.endswith(":2: extraObjects has no counterpart in the chart")


def test_maps_whose_keys_are_free_are_kept_whole() -> None:
    given = {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:x"}}}

    assert (given, []) == translated(json.dumps(given))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param('replicas: "2"', "replicas: ", id="a wrong type"),
        pytest.param("a: [", "nothing is translated: ", id="no YAML"),
        pytest.param("a: 1\n---\na: 2\n", "holds 2 documents; values are one", id="two documents"),
        pytest.param("- 1\n", "nothing is translated: ", id="a list"),
    ],
)
def test_what_cannot_be_translated_is_said_and_nothing_printed(text: str, problem: str) -> None:
    ran = run("values", "-", stdin=text)

    assert (2, "") == (ran.code, ran.out)
    assert problem in ran.err


def test_no_values_are_no_values() -> None:
    assert "{}\n" == run("values", "-", stdin="").out
