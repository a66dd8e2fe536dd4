"""A call of the cloud that fails is counted with its pool, as dashboards ask for it."""

import pytest

from helpers.autoscaler import FakeCloud
from helpers.builders import node_claim
from helpers.clusters import in_virtual_time
from karpenter.clock import running_clock
from karpenter.cloud.metered import MeteredProvider, current_controller
from karpenter.telemetry import CloudCalls, Metrics

NAME = "karpenter_cloudprovider_errors_total"


@pytest.mark.case("V15-S39")
@in_virtual_time
async def test_an_error_of_no_class_is_counted_for_the_pool_of_the_claim() -> None:
    metrics = Metrics()
    cloud = FakeCloud(failures={"create": [RuntimeError("broken")]})
    metered = MeteredProvider(cloud, CloudCalls(metrics), running_clock().monotonic)
    current_controller.set("nodeclaim.lifecycle")
    with pytest.raises(RuntimeError):
        await metered.create(node_claim("a", pool="default"))
    await metered.create(node_claim("b", pool="default"))

    counted = {
        tuple(sorted(sample.labels.items())): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == NAME
    }
    labels = {
        "controller": "nodeclaim.lifecycle",
        "method": "Create",
        "provider": cloud.facts.name,
        "error": "unknown",
        "nodepool": "default",
    }
    assert {tuple(sorted(labels.items())): 1.0} == counted
