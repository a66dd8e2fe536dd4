"""The reference of metrics is what the code declares, and what is declared is what is scraped."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

import metrics_reference
from helpers.autoscaler import Autoscaler, autoscaler, deployment, kwok_pool
from helpers.clusters import in_virtual_time
from helpers.pages import text_of
from karpenter.cloud.aws.types.labels import FACTS as AWS
from karpenter.cloud.types import ProviderFacts
from karpenter.controllers.observability.node_gauges import well_known_names
from karpenter.settings import Settings
from karpenter.telemetry.family import Detail, Family
from karpenter.telemetry.stability import BETA, STABLE

DECLARED = {family.name: family for family in metrics_reference.families()}
# The name of the node class, which depends on the provider
OF_CLASSES = frozenset({"karpenter_k8s_aws_ec2nodeclass", "karpenter_kwok_sh_kwoknodeclass"})


def of_one_provider(facts: ProviderFacts) -> frozenset[str]:
    """Labels that only AWS, whose labels the page has, or only another provider has."""
    here, there = (well_known_names(each.well_known_labels) for each in (facts, AWS))
    return OF_CLASSES | (here.keys() ^ there.keys())


async def life(run: Autoscaler) -> dict[str, set[frozenset[str]]]:
    """The labels of all series of a cluster that has grown and shrunk, by name."""
    await run.until(lambda: len(run.running) == 3)
    await run.pass_time(60)
    found: dict[str, set[frozenset[str]]] = {}
    for _ in range(2):
        for family in text_string_to_metric_families(run.metrics.exposition().decode()):
            for sample in family.samples:
                found.setdefault(sample.name, set()).add(frozenset(sample.labels))
        await run.scale("inflate", 0)
        await run.pass_time(600)
    return found


@pytest.mark.case("OPS-35")
def test_the_page_is_written_from_the_code() -> None:
    assert metrics_reference.page() == text_of("docs/reference/metrics.md"), "run: make monitoring"


@pytest.mark.case("OPS-35")
@pytest.mark.parametrize("family", DECLARED.values(), ids=lambda family: family.name)
def test_a_metric_has_a_sentence_and_a_name_in_base_units(family: Family) -> None:
    assert re.fullmatch(r"[A-Z1].*\.", family.meaning)
    assert (family.kind == "counter") == family.name.endswith("_total") or family.kind == "gauge"
    assert not family.name.endswith(("_milliseconds", "_minutes", "_kilobytes"))


def test_no_metric_is_declared_twice() -> None:
    assert len(DECLARED) == len(metrics_reference.families())


def test_every_promise_is_about_a_metric_that_there_is() -> None:
    assert set() == (STABLE | BETA) - DECLARED.keys()
    assert set() == STABLE & BETA


@pytest.mark.parametrize("detail", Detail)
@in_virtual_time
async def test_what_is_scraped_is_what_is_declared(detail: Detail) -> None:
    settings = Settings(metrics_detail=detail.value)
    pool = kwok_pool("default", limits={"cpu": "100"})
    async with autoscaler(pool, deployment("inflate", 3), settings=settings) as run:
        found = await life(run)
        assert run.cloud is not None
        of_providers = of_one_provider(run.cloud.facts)

    known = {
        name: labels
        for family in DECLARED.values()
        if family.only in (None, detail)
        for name, labels in metrics_reference.series_names(family).items()
    }
    assert set() == found.keys() - known.keys()
    for name, kinds in found.items():
        for labels in kinds:
            own = labels - of_providers
            declared = known[name] - of_providers
            assert declared == own, name
