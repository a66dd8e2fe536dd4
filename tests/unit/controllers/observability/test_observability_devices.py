"""How long pods wait is told apart for those that ask for devices, and forgotten with them."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers.autoscaler import FAKE_FACTS, Bench, FakeCloud, JsonObject, bench, run_in_background
from helpers.clusters import in_virtual_time
from karpenter.controllers.controllers import observability_controllers
from karpenter.controllers.provisioning.planned_pods import PlannedPods

UNBOUND = "karpenter_pods_unbound_time_seconds"
PROMISED = "karpenter_pods_provisioning_unbound_time_seconds"
DEVICE = {"name": "gpu", "resourceClaimName": "gpu"}


def node() -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": {"providerID": "fake://n1"},
    }


def waiting(claims: list[JsonObject]) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {
            "containers": [{"name": "app", "image": "pause"}],
            **({"resourceClaims": claims} if claims else {}),
        },
        "status": {"phase": "Pending"},
    }


def told(at_work: Bench, name: str) -> list[str]:
    """What a gauge says of devices, for every pod it speaks of."""
    text = at_work.world.metrics.exposition().decode()
    families = {each.name: each for each in text_string_to_metric_families(text)}
    samples = families[name].samples if name in families else []
    return [sample.labels["dynamic_resources"] for sample in samples]


@pytest.mark.case("V15-S40")
@pytest.mark.parametrize("ends", ["bound", "deleted"])
@pytest.mark.parametrize(
    ("claims", "devices"),
    [
        pytest.param([DEVICE], "true", id="a pod that asks for a device"),
        pytest.param([], "false", id="a pod that does not"),
    ],
)
def test_gauges_of_a_pod(claims: list[JsonObject], devices: str, ends: str) -> None:
    @in_virtual_time
    async def scene() -> None:
        planned = PlannedPods()
        async with bench(cloud=FakeCloud(facts=FAKE_FACTS)) as at_work:
            await at_work.put(node())
            task = run_in_background(observability_controllers(at_work.world, planned))
            stored = await at_work.put(waiting(claims))
            await at_work.clock.sleep(5)
            planned.see(stored["metadata"]["uid"], at_work.clock.now())
            planned.decide(stored["metadata"]["uid"], at_work.clock.now(), is_placed=True)
            await at_work.clock.sleep(5)
            before = told(at_work, UNBOUND), told(at_work, PROMISED)
            if ends == "bound":
                await at_work.client.bind("default", "a", "n1")
            else:
                await at_work.client.delete("v1", "Pod", "default", "a", grace_period=0)
            await at_work.clock.sleep(5)
            after = told(at_work, UNBOUND), told(at_work, PROMISED)
            task.cancel()

        assert ([devices], [devices]) == before
        assert ([], []) == after

    scene()
