"""1,000 nodes and 10,000 pods: what is sent, and that the page shows all of it.

How long that takes is measured by ``python -m benchmarks dashboard``: a test asserts no time.
"""

import gzip
from collections.abc import Iterator

import msgspec
import pytest
from benchmarks.dashboard_served import objects_of

from helpers.browser import chromium
from helpers.builders import NOW
from helpers.dashboard_page import Page, served
from helpers.dashboard_tab import Opened
from karpenter.dashboard.contract import View
from karpenter.dashboard.feed import Published
from karpenter.dashboard.picture import Picture
from karpenter.dashboard.view import ViewBuilder
from karpenter.state.cluster import ClusterState

pytestmark = pytest.mark.slow
NODES, PODS = 1_000, 10_000


@pytest.fixture(scope="module")
def view() -> View:
    state = ClusterState()
    for each in objects_of(NODES)[0]:
        state.apply(each)
    builder = ViewBuilder(epoch="e", source="live", provider="", cluster="", is_live=True)
    return builder.build(Picture(state.snapshot(), NOW))


@pytest.fixture(scope="module")
def opened(view: View) -> Iterator[Opened]:
    with served(Page(view)) as page, chromium() as browser:
        yield Opened(browser, page.address)


@pytest.mark.case("DASH-5")
def test_the_view_of_a_large_cluster_is_small(view: View) -> None:
    published = Published(view)

    assert (NODES, PODS) == (len(view.nodes.id), len(view.pods.id))
    assert len(published.body) <= 1_000_000
    assert len(published.compressed) <= 350_000
    assert msgspec.json.decode(gzip.decompress(published.compressed), type=View) == view


@pytest.mark.case("DASH-5")
def test_the_page_shows_every_node_and_pod(opened: Opened) -> None:
    tab = opened.tab

    tab.wait_for_selector("[aria-label='Map of the nodes, 1,000 cells']")
    assert "10,000" in opened.text(".totals")
    tab.evaluate("location.hash = '#/?view=table'")
    tab.wait_for_selector("main table")
    counted = opened.module(
        "stream.js",
        "({ model }) => [model.value.nodes.length, model.value.pods.filter((pod) => pod.node).length]",
    )
    assert [NODES, PODS] == counted
