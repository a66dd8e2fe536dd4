"""Claims say when they have drifted and when they are at rest, as soon as it is so."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from helpers.autoscaler import Bench, FakeCloud, JsonObject, bench, run_in_background
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.manifests import at, condition
from helpers.provisioning import FACTS
from karpenter.api.karpenter import NodePool
from karpenter.clock import run_virtual
from karpenter.cloud.provider import CloudError, InstanceNotFoundError
from karpenter.controllers.disruption.conditions import ClaimConditions
from karpenter.controllers.node_pools.hashing import HashController
from karpenter.model import labels
from karpenter.model.conditions import find
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION
from unit.controllers.disruption.disruption_bench import V1, machine, pool

HASH = {labels.NODEPOOL_HASH: "1", labels.NODEPOOL_HASH_VERSION: NODEPOOL_HASH_VERSION}
RESTLESS = ("Consolidatable", "Ready")


class Conditions:
    """The controller on a bare API server."""

    def __init__(self, bench_: Bench) -> None:
        self.bench = bench_
        self.clock = bench_.clock
        self.cloud = bench_.cloud
        self.controller = ClaimConditions(bench_.world)

    async def reconcile(self, name: str = "n1") -> float | None:
        found: float | None = await self.bench.reconcile(self.controller, f"{name}-claim")
        return found

    def drift(self, name: str = "n1") -> str:
        return self._reason("Drifted", name)

    def is_at_rest(self, name: str = "n1") -> bool:
        return self._reason("Consolidatable", name) != ""

    def _reason(self, kind: str, name: str) -> str:
        found = find(self.bench.claim(f"{name}-claim").status.conditions, kind)
        assert found is None or found.status == "True"
        return found.reason if found is not None else ""

    async def change_pool(self, spec: JsonObject) -> None:
        await self.bench.change(V1, "NodePool", "np", {"spec": spec})

    async def change_claim(self, patch: JsonObject, *, subresource: str = "") -> None:
        await self.bench.change(V1, "NodeClaim", "n1-claim", patch, subresource=subresource)


@asynccontextmanager
async def conditions(
    *objects: JsonObject, cloud: FakeCloud | None = None
) -> AsyncIterator[Conditions]:
    async with bench(cloud=cloud or FakeCloud(facts=FACTS, types=TYPES)) as at_work:
        await at_work.put(*objects)
        yield Conditions(at_work)


def claim(name: str = "n1", **options: Any) -> JsonObject:
    return machine(name, **{"without": RESTLESS, **options})[0]


def quiet_for(seconds: str, **disruption: Any) -> JsonObject:
    return pool(disruption={"consolidateAfter": seconds, **disruption})


class TestConsolidatable:
    @pytest.mark.case("DIS-161")
    @in_virtual_time
    async def test_never_at_rest_in_a_pool_that_never_consolidates(self) -> None:
        async with conditions(quiet_for("Never"), claim(without=())) as found:
            again = await found.reconcile()

            assert not found.is_at_rest()
            assert 300.0 == again

    @pytest.mark.case("DIS-162")
    @in_virtual_time
    async def test_not_before_the_pool_wants_it(self) -> None:
        moved = claim()
        moved["status"]["lastPodEventTime"] = at(0)
        async with conditions(quiet_for("30s"), moved) as found:
            await found.clock.sleep(20)
            again = await found.reconcile()

            assert not found.is_at_rest()
            assert again == pytest.approx(10.0, abs=0.1)

            await found.clock.sleep(10)
            await found.reconcile()

            assert found.is_at_rest()

    @pytest.mark.case("DIS-163")
    @in_virtual_time
    async def test_counted_from_initialization_where_no_pod_ever_moved(self) -> None:
        async with conditions(quiet_for("30s"), claim()) as found:
            await found.clock.sleep(40)
            await found.reconcile()

            assert found.is_at_rest()

    @in_virtual_time
    async def test_a_pod_that_moves_takes_it_back(self) -> None:
        async with conditions(quiet_for("30s"), claim(without=())) as found:
            await found.clock.sleep(100)
            body = {"status": {"lastPodEventTime": at(100)}}
            await found.change_claim(body, subresource="status")
            await found.reconcile()

            assert not found.is_at_rest()

    @in_virtual_time
    async def test_at_once_where_the_pool_waits_for_nothing(self) -> None:
        async with conditions(pool(), claim()) as found:
            await found.reconcile()

            assert found.is_at_rest()

    @in_virtual_time
    async def test_not_before_initialization(self) -> None:
        young = claim(without=("Initialized", *RESTLESS))
        async with conditions(pool(), young) as found:
            await found.reconcile()

            assert not found.is_at_rest()

    @pytest.mark.case("DIS-261")
    @in_virtual_time
    async def test_never_in_a_static_pool(self) -> None:
        async with conditions(pool(replicas=1, disruption={}), claim()) as found:
            await found.reconcile()

            assert not found.is_at_rest()

    @in_virtual_time
    async def test_it_comes_by_itself_when_the_time_is_over(self) -> None:
        async with conditions(quiet_for("90s"), claim()) as found:
            task = run_in_background([found.controller])
            await found.clock.sleep(85)
            before = found.is_at_rest()
            await found.clock.sleep(10)

            assert (False, True) == (before, found.is_at_rest())
            task.cancel()


class TestDrift:
    @pytest.mark.case("DIS-233")
    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({"metadata": {"labels": {"a": "b"}}}, id="a template label"),
            pytest.param({"metadata": {"annotations": {"a": "b"}}}, id="an annotation"),
            pytest.param(
                {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, id="a taint"
            ),
            pytest.param({"spec": {"expireAfter": "10h"}}, id="expireAfter"),
            pytest.param({"spec": {"terminationGracePeriod": "1h"}}, id="the grace period"),
        ],
    )
    def test_a_changed_template_drifts_its_claims(self, change: JsonObject) -> None:
        async def scene() -> None:
            async with conditions(pool()) as found:
                hashing = HashController(found.bench.world)
                await found.bench.reconcile(hashing, "np")
                stamp = _stamp(_pool_of(found).metadata.annotations)
                await found.bench.put(claim(claim_annotations=stamp))
                await found.reconcile()
                before = found.drift()
                await found.change_pool({"template": change})
                await found.bench.reconcile(hashing, "np")
                await found.reconcile()

                assert ("", "NodePoolDrifted") == (before, found.drift())

        run_virtual(scene())

    @pytest.mark.case("DIS-235")
    @in_virtual_time
    async def test_budgets_limits_and_weight_drift_nothing(self) -> None:
        async with conditions(pool()) as found:
            hashing = HashController(found.bench.world)
            await found.bench.reconcile(hashing, "np")
            annotations = _pool_of(found).metadata.annotations
            await found.bench.put(claim(claim_annotations=_stamp(annotations)))
            await found.change_pool(
                {
                    "weight": 7,
                    "limits": {"cpu": "100"},
                    "disruption": {"consolidateAfter": "1m", "budgets": [{"nodes": "1"}]},
                }
            )
            await found.bench.reconcile(hashing, "np")
            await found.reconcile()

            assert "" == found.drift()

    @pytest.mark.case("DIS-236")
    @in_virtual_time
    async def test_a_requirement_the_claim_does_not_meet(self) -> None:
        async with conditions(pool(), claim()) as found:
            await found.change_pool({"template": {"spec": {"requirements": [_capacity("spot")]}}})
            await found.reconcile()

            assert "RequirementsDrifted" == found.drift()

    @pytest.mark.case("DIS-242")
    @pytest.mark.parametrize(
        ("age", "drift"),
        [
            pytest.param(59 * 60, "", id="not while the claim is younger than an hour"),
            pytest.param(61 * 60, "InstanceTypeNotFound", id="once it is older"),
        ],
    )
    def test_a_type_that_is_no_longer_sold(self, age: float, drift: str) -> None:
        async def scene() -> None:
            async with conditions(pool(), claim(kind="gone")) as found:
                await found.clock.sleep(age)
                await found.reconcile()

                assert drift == found.drift()

        run_virtual(scene())

    @in_virtual_time
    async def test_a_type_that_was_found_is_not_looked_for_again_for_half_an_hour(self) -> None:
        async with conditions(pool(), claim()) as found:
            await found.clock.sleep(3700)
            await found.reconcile()
            found.cloud.types = TYPES[:1]
            await found.clock.sleep(29 * 60)
            await found.reconcile()
            before = found.drift()
            await found.clock.sleep(2 * 60)
            await found.reconcile()

            assert ("", "InstanceTypeNotFound") == (before, found.drift())

    @pytest.mark.parametrize(
        "failures",
        [
            pytest.param([CloudError("busy")], id="a list that cannot be had"),
            pytest.param([], id="a list without any type"),
        ],
    )
    def test_nothing_drifts_because_of(self, failures: list[Exception]) -> None:
        async def scene() -> None:
            cloud = FakeCloud(facts=FACTS, types=() if not failures else TYPES)
            cloud.failures["instance_types"] = list(failures)
            async with conditions(pool(), claim(kind="gone"), cloud=cloud) as found:
                await found.clock.sleep(4000)
                await found.reconcile()

                assert "" == found.drift()

        run_virtual(scene())

    @pytest.mark.case("DIS-245")
    @in_virtual_time
    async def test_the_provider_has_a_reason_of_its_own(self) -> None:
        async with conditions(pool(), claim()) as found:
            found.cloud.drift = "ImageDrift"
            await found.reconcile()

            assert "ImageDrift" == found.drift()

    @pytest.mark.case("DIS-246")
    @in_virtual_time
    async def test_the_template_goes_before_the_provider(self) -> None:
        async with conditions(pool(), claim(claim_annotations=HASH)) as found:
            stamp = {"metadata": {"annotations": {**HASH, labels.NODEPOOL_HASH: "2"}}}
            await found.bench.change(V1, "NodePool", "np", stamp)
            found.cloud.drift = "ImageDrift"
            await found.reconcile()

            assert "NodePoolDrifted" == found.drift()

    @pytest.mark.case("DIS-247")
    @in_virtual_time
    async def test_a_claim_that_has_not_launched_has_not_drifted(self) -> None:
        held = [condition("Launched", "Unknown"), condition("Drifted", "True", "ImageDrift")]
        async with conditions(pool(), claim(conditions=held)) as found:
            found.cloud.drift = "ImageDrift"
            await found.reconcile()

            assert "" == found.drift()

    @pytest.mark.case("DIS-248")
    @in_virtual_time
    async def test_a_change_that_is_taken_back_is_forgotten(self) -> None:
        async with conditions(pool(), claim()) as found:
            found.cloud.drift = "ImageDrift"
            await found.reconcile()
            found.cloud.drift = ""
            await found.reconcile()

            assert "" == found.drift()

    @in_virtual_time
    async def test_another_reason_keeps_the_date(self) -> None:
        async with conditions(pool(), claim()) as found:
            found.cloud.drift = "ImageDrift"
            await found.reconcile()
            await found.clock.sleep(100)
            found.cloud.drift = "SubnetDrift"
            await found.reconcile()

            held = find(found.bench.claim("n1-claim").status.conditions, "Drifted")
            assert held is not None
            assert ("SubnetDrift", at(0)) == (held.reason, _text(held.last_transition_time))

    @in_virtual_time
    async def test_an_instance_that_is_gone_has_not_drifted(self) -> None:
        async with conditions(pool(), claim()) as found:
            found.cloud.failures["drift_reason"] = [InstanceNotFoundError("gone")]
            await found.reconcile()

            assert "" == found.drift()

    @in_virtual_time
    async def test_a_claim_whose_pool_is_gone_is_left_as_it_is(self) -> None:
        async with conditions(claim(conditions=[condition("Drifted", "True")])) as found:
            assert None is await found.reconcile()
            assert "Drifted" == found.drift()


class TestLookingAgain:
    @in_virtual_time
    async def test_a_pool_that_changes_wakes_its_claims(self) -> None:
        async with conditions(pool(), claim()) as found:
            task = run_in_background([found.controller])
            await found.clock.sleep(1)
            await found.change_pool({"template": {"spec": {"requirements": [_capacity("spot")]}}})
            await found.clock.sleep(1)

            assert "RequirementsDrifted" == found.drift()
            task.cancel()

    @pytest.mark.parametrize(
        ("body", "subresource"),
        [
            pytest.param({"metadata": {"annotations": {"changed": "yes"}}}, "", id="by a user"),
            pytest.param(
                {"status": {"conditions": [condition("AMIsReady", "True")]}},
                "status",
                id="by what it has found out",
            ),
        ],
    )
    def test_a_node_class_that_changes_wakes_the_claims_that_use_it(
        self, body: JsonObject, subresource: str
    ) -> None:
        async def scene() -> None:
            async with conditions(pool(), claim()) as found:
                task = run_in_background([found.controller])
                await found.clock.sleep(1)
                found.cloud.drift = "ClassDrift"
                kind = ("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass")
                await found.bench.change(*kind, "default", body, subresource=subresource)
                await found.clock.sleep(1)

                assert "ClassDrift" == found.drift()
                task.cancel()

        run_virtual(scene())

    @in_virtual_time
    async def test_a_status_of_a_pool_wakes_nobody(self) -> None:
        async with conditions(pool(), claim()) as found:
            task = run_in_background([found.controller])
            await found.clock.sleep(1)
            calls = len(found.cloud.calls_of("drift_reason"))
            body = {"status": {"nodes": 7}}
            await found.bench.change(V1, "NodePool", "np", body, subresource="status")
            await found.clock.sleep(1)

            assert calls == len(found.cloud.calls_of("drift_reason"))
            task.cancel()

    @in_virtual_time
    async def test_the_provider_is_asked_every_five_minutes(self) -> None:
        async with conditions(pool(), claim()) as found:
            task = run_in_background([found.controller])
            await found.clock.sleep(1)
            found.cloud.drift = "ImageDrift"
            await found.clock.sleep(290)
            before = found.drift()
            await found.clock.sleep(20)

            assert ("", "ImageDrift") == (before, found.drift())
            task.cancel()


def _pool_of(found: Conditions) -> NodePool:
    known = found.bench.world.mirror(NodePool).get("np")
    assert known is not None
    return known


def _stamp(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: annotations[key] for key in HASH}


def _capacity(value: str) -> JsonObject:
    return {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [value]}


def _text(moment: Any) -> str:
    return str(moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
