"""A controller with ``PACKING=cheapest``: what it launches, exports and says."""

import sys

import pytest

from helpers.builders import priced_type
from helpers.clusters import in_virtual_time
from helpers.provisioning import Provisioning, provisioning, ready_pool, waiting_pod
from karpenter.model import labels
from karpenter.scheduling.cheapest import solver_library
from karpenter.settings import MinTypes, Settings

CHEAPEST = Settings(packing="cheapest", packing_node_cost=0.0, packing_min_types=MinTypes(1, 1))


TYPES = (priced_type("l", 8, 0.36), priced_type("x", 32, 2.00))


def value(run: Provisioning, name: str, **labelled: str) -> float | None:
    return run.world.metrics.registry.get_sample_value(name, labelled)


@pytest.mark.case("OPT-2")
@in_virtual_time
async def test_claims_are_cheap_and_carry_their_ceiling() -> None:
    pods = [waiting_pod(f"p{n}", cpu="1", memory="1Gi") for n in range(16)]
    async with provisioning(ready_pool(), *pods, types=TYPES, settings=CHEAPEST) as run:
        claims = await run.provision()

        assert ["0.36", "0.36"] == [c.metadata.annotations[labels.PRICE_CEILING] for c in claims]
        assert 0.72 == value(run, "karpenter_plan_cost_hourly")
        assert 0.71 < (value(run, "karpenter_plan_lower_bound_hourly") or 0) <= 0.72
        kept = ("apart", "greedy", "configurations")
        name = "karpenter_packing_candidate_total"
        assert 1 == sum(value(run, name, candidate=each) or 0 for each in kept)


@pytest.mark.case("OPT-22")
@in_virtual_time
async def test_an_absent_solver_is_logged_once_and_plans_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    solver_library.library.cache_clear()
    pods = [waiting_pod(f"p{n}", cpu="1", memory="1Gi") for n in range(16)]
    async with provisioning(ready_pool(), *pods, types=TYPES, settings=CHEAPEST) as run:
        assert 2 == len(await run.provision())
        (line,) = run.lines("packing without the solver")
        assert "highspy is not installed" in line["error"]
    solver_library.library.cache_clear()


@in_virtual_time
async def test_an_annotation_that_cannot_be_read_is_a_warning_on_the_pool() -> None:
    pool = ready_pool()
    pool["metadata"]["annotations"] = {"cost.karpenter.sh/packing": "cheap"}
    async with provisioning(pool, waiting_pod("p"), types=TYPES) as run:
        await run.provision()

        ((name, message),) = run.events("InvalidCostAnnotation")
        assert "np" == name
        assert (
            "annotation cost.karpenter.sh/packing: 'cheap' is neither karpenter nor cheapest"
            in message
        )
