"""The report as one page: its policy, its size, and that foreign text stays data."""

import base64
import hashlib
import json
import random
import re
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.reports import report, variant
from karpenter.simulate.report.html import MOST_POINTS, page, thinned

MEBI = 2**20


def data_of(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_policy_allows_this_script_and_this_style_and_nothing_else() -> None:
    text = page(report())

    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    script = text.split("</script>\n<script>")[1].split("</script>")[0]
    style = text.split("<style>")[1].split("</style>")[0]
    assert (
        f"default-src 'none'; script-src '{hashed(script)}'; style-src '{hashed(style)}'" == policy
    )


def hashed(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def test_the_page_names_no_address_to_fetch_from() -> None:
    text = page(report())

    assert not re.search(r"""(src|href)=["']""", text)
    assert "@import" not in text
    assert "url(" not in text


@pytest.mark.case("SIM-40")
@pytest.mark.parametrize(
    "name",
    ["</script><img src=x onerror=alert(1)>", "<!--<script>", "\u2028\u2029", "'\"&lt;"],
)
def test_foreign_text_is_data(name: str) -> None:
    found = page(report(variant(name), name=name), name)

    assert name == data_of(found)["scenario"]["name"]
    assert name == data_of(found)["source"]
    assert "<img" not in found
    assert 2 == found.count("</script>")


def test_four_variants_of_a_week_fit_into_three_mebibytes() -> None:
    life = variant()["lifelines"][0]
    entry = variant()["timeline"][0]
    long = [
        variant(
            f"variant {number}",
            points=60_480,
            step=10.0,
            lifelines=[{**life, "name": f"node-{n:06}-of-a-pool"} for n in range(5000)],
            timeline=[{**entry, "sentence": "x" * 200} for n in range(20_000)],
        )
        for number in range(4)
    ]

    text = page(report(*long))

    assert len(text.encode()) < 3 * MEBI
    for each in data_of(text)["variants"]:
        assert len(each["series"]["times"]) <= MOST_POINTS
        assert 5000 == each["lifelinesLeftOut"] + len(each["lifelines"])
        assert 20_000 == each["timelineLeftOut"] + len(each["timeline"])


def test_evictions_are_not_lost_where_points_are() -> None:
    long = variant(points=10_000, step=10.0)

    shown = data_of(page(report(long)))["variants"][0]["series"]

    assert sum(long["series"]["evictions"]) == sum(shown["evictions"])


@given(st.integers(0, 10**6), st.integers(MOST_POINTS + 1, MOST_POINTS * 4))
def test_thinned_series_keep_their_extremes(seed: int, count: int) -> None:
    chance = random.Random(seed)
    values = [chance.uniform(-1e6, 1e6) for _ in range(count)]
    kept = thinned([float(n) for n in range(len(values))], [values])

    assert len(kept) <= MOST_POINTS
    assert max(values) == max(values[n] for n in kept)
    assert min(values) == min(values[n] for n in kept)


def test_vendored_files_are_those_of_the_version_that_is_named() -> None:
    folder = resources.files("karpenter.simulate.report") / "static" / "uplot"
    version = json.loads((folder / "VERSION.json").read_text("utf-8"))

    assert version["sha256"] == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in version["sha256"]
    }
    assert f"v{version['version']}" in (folder / "uPlot.iife.min.js").read_text("utf-8")[:100]
    assert "MIT" in (folder / "LICENSE").read_text("utf-8")
