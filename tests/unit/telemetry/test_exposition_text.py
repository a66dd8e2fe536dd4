"""Lines for Prometheus: escaped, grouped, without digits nobody needs."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from karpenter.telemetry.exposition import (
    AT_A_TIME,
    gauge,
    gauge_pieces,
    label_name,
    label_text,
    number,
    snake_case,
)


def test_a_gauge_can_be_read_back() -> None:
    labels = {"name": 'a"b\\c\nd', "zone": ""}

    text = gauge("my_gauge", "What it means.", [f"{{{label_text(labels)}}} 1.5", "{} 2"])

    (family,) = text_string_to_metric_families(text)
    assert ("gauge", "What it means.") == (family.type, family.documentation)
    assert [(labels, 1.5), ({}, 2)] == [(each.labels, each.value) for each in family.samples]


def test_a_gauge_without_samples_is_still_announced() -> None:
    text = gauge("my_gauge", "What it means.", [])

    assert "# HELP my_gauge What it means.\n# TYPE my_gauge gauge\n" == text


@pytest.mark.parametrize("count", [0, 1, AT_A_TIME, 2 * AT_A_TIME + 1])
def test_a_gauge_in_pieces_says_the_same(count: int) -> None:
    samples = [f'{{number="{each}"}} 1' for each in range(count)]

    pieces = list(gauge_pieces("my_gauge", "What it means.", samples))

    assert gauge("my_gauge", "What it means.", samples) == "".join(pieces)
    assert AT_A_TIME >= max(piece.count("\n") for piece in pieces)


@pytest.mark.parametrize(
    ("key", "whole", "last"),
    [
        ("karpenter.sh/capacity-type", "karpenter_sh_capacity_type", "capacity_type"),
        ("ephemeral-storage", "ephemeral_storage", "ephemeral_storage"),
        ("nvidia.com/gpu", "nvidia_com_gpu", "gpu"),
    ],
)
def test_keys_become_labels(key: str, whole: str, last: str) -> None:
    assert (whole, last) == (label_name(key), snake_case(key))


@pytest.mark.parametrize(
    ("value", "expected"), [(3.0, "3"), (0.1, "0.1"), (True, "1"), (10**20, "1" + "0" * 20)]
)
def test_numbers_are_short(value: float, expected: str) -> None:
    assert expected == number(value)
