"""Conditions that change are counted, timed and told on their object; finalizers as well."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers.autoscaler import Bench, JsonObject, bench, gates, kwok_pool, run_in_background
from helpers.cluster_texts import class_ref
from helpers.clusters import in_virtual_time
from karpenter.controllers.controllers import observability_controllers
from karpenter.settings import Settings

FINALIZER = "karpenter.sh/termination"
LABELS = {"karpenter.sh/nodepool": "general", "karpenter.kwok.sh/kwoknodeclass": "default"}
CLAIM_LABELS = {"karpenter_sh_nodepool": "general", "karpenter_kwok_sh_kwoknodeclass": "default"}


def condition(
    kind: str, status: str, at: int = 0, message: str = "", reason: str = ""
) -> JsonObject:
    """A condition that changed ``at`` seconds after the beginning of time."""
    return {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": f"2030-01-01T00:{at // 60:02}:{at % 60:02}Z",
    }


def claim(*conditions: JsonObject, finalizers: tuple[str, ...] = ()) -> JsonObject:
    reference = class_ref()
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "c1", "labels": LABELS, "finalizers": list(finalizers)},
        "spec": {"nodeClassRef": reference, "requirements": [], "expireAfter": "Never"},
        "status": {"conditions": list(conditions)},
    }


def node(*conditions: JsonObject) -> JsonObject:
    held = {**LABELS, "karpenter.sh/initialized": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": held},
        "status": {"conditions": list(conditions)},
    }


def samples(at_work: Bench, name: str) -> list[tuple[dict[str, str], float]]:
    """The samples of that name, with their labels."""
    text = at_work.world.metrics.exposition().decode()
    return [
        (dict(sample.labels), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    ]


@asynccontextmanager
async def watched(*objects: JsonObject, settings: Settings | None = None) -> AsyncIterator[Bench]:
    async with bench(*objects, settings=settings) as at_work:
        task = run_in_background(observability_controllers(at_work.world))
        try:
            await at_work.settle()
            yield at_work
        finally:
            task.cancel()


async def set_conditions(at_work: Bench, *conditions: JsonObject) -> None:
    status = {"status": {"conditions": list(conditions)}}
    await at_work.change("karpenter.sh/v1", "NodeClaim", "c1", status, subresource="status")


def said(at_work: Bench) -> list[tuple[str, str, str, str]]:
    return [(e.target.kind, e.type, e.reason, e.message) for e in at_work.events.heard]


class TestTransitions:
    @in_virtual_time
    async def test_a_transition_is_told_on_its_object(self) -> None:
        async with watched(claim(condition("Launched", "Unknown"))) as at_work:
            await set_conditions(at_work, condition("Launched", "True", 7))
            await set_conditions(at_work, condition("Launched", "False", 9, "gone", "Odd"))

        words = "Status condition transitioned, Type: Launched, Status:"
        assert [
            ("NodeClaim", "Normal", "Launched", f"{words} Unknown -> True, Reason: Launched"),
            (
                "NodeClaim",
                "Normal",
                "Launched",
                f"{words} True -> False, Reason: Odd, Message: gone",
            ),
        ] == said(at_work)

    @in_virtual_time
    async def test_a_condition_that_appears_was_unknown_before(self) -> None:
        async with watched(claim()) as at_work:
            unknown = condition("Initialized", "Unknown")
            await set_conditions(at_work, unknown)
            nothing = said(at_work)
            await set_conditions(at_work, unknown, condition("Launched", "True"))

        assert [] == nothing
        words = "Status condition transitioned, Type: Launched, Status: Unknown -> True"
        assert [f"{words}, Reason: Launched"] == [message for *_, message in said(at_work)]

    @in_virtual_time
    async def test_the_same_transition_is_told_each_time(self) -> None:
        async with watched(claim(condition("Ready", "False"))) as at_work:
            for second in range(4):
                status = "True" if second % 2 == 0 else "False"
                await set_conditions(at_work, condition("Ready", status, second))

        assert 4 == len(said(at_work))

    @in_virtual_time
    async def test_another_reason_alone_is_no_transition(self) -> None:
        async with watched(claim(condition("Ready", "False"))) as at_work:
            await set_conditions(at_work, condition("Ready", "False", reason="Other"))

        assert [] == said(at_work)
        assert [] == samples(at_work, "operator_nodeclaim_status_condition_transitions_total")

    @in_virtual_time
    async def test_transitions_are_counted_and_timed_with_the_status_entered(self) -> None:
        async with watched(claim(condition("Launched", "Unknown", 0))) as at_work:
            await set_conditions(at_work, condition("Launched", "True", 7))
            by_kind, twin = (
                [
                    samples(at_work, f"{prefix}{name}")
                    for name in (
                        "status_condition_transitions_total",
                        "status_condition_transition_seconds_sum",
                    )
                ]
                for prefix in ("operator_nodeclaim_", "operator_")
            )

        counted = {"type": "Launched", "status": "True", "reason": "Launched"}
        timed = {"type": "Launched", "status": "Unknown", "to_status": "True"}
        all_kinds = {"group": "karpenter.sh", "kind": "NodeClaim"}
        assert [[({**counted, **CLAIM_LABELS}, 1)], [({**timed, **CLAIM_LABELS}, 7)]] == by_kind
        assert [[({**counted, **all_kinds}, 1)], [({**timed, **all_kinds}, 7)]] == twin

    @in_virtual_time
    async def test_objects_of_old_are_not_told_again(self) -> None:
        async with watched(claim(condition("Launched", "True"))) as at_work:
            await at_work.clock.sleep(60)

        assert [] == said(at_work)

    @in_virtual_time
    async def test_nodes_have_no_twin(self) -> None:
        async with watched(node(condition("Ready", "False"))) as at_work:
            status = {"status": {"conditions": [condition("Ready", "True", 3)]}}
            await at_work.change("v1", "Node", "n1", status, subresource="status")
            own = samples(at_work, "operator_node_status_condition_transitions_total")
            twin = samples(at_work, "operator_status_condition_transitions_total")

        ((held, count),) = own
        assert ("true", "general", 1) == (
            held["karpenter_sh_initialized"],
            held["karpenter_sh_nodepool"],
            count,
        )
        assert [] == twin

    @pytest.mark.parametrize("is_on", [True, False])
    def test_buffers_are_watched_only_with_their_gate(self, is_on: bool) -> None:
        @in_virtual_time
        async def run() -> None:
            settings = replace(Settings(), feature_gates=gates(CapacityBuffer=is_on))
            async with watched(settings=settings) as at_work:
                text = at_work.world.metrics.exposition()

            assert is_on == (b"operator_capacitybuffer_status_condition_count" in text)

        run()


class TestGauges:
    @in_virtual_time
    async def test_conditions_as_they_are_now(self) -> None:
        async with watched(claim(condition("Ready", "True", 10))) as at_work:
            await at_work.clock.sleep(70 - at_work.clock.monotonic())
            found = {
                name: samples(at_work, name)
                for name in (
                    "operator_nodeclaim_status_condition_count",
                    "operator_nodeclaim_status_condition_current_status_seconds",
                    "operator_status_condition_count",
                    "operator_status_condition_current_status_seconds",
                )
            }

        ready = {
            "namespace": "",
            "name": "c1",
            "type": "Ready",
            "status": "True",
            "reason": "Ready",
        }
        own = {**ready, **CLAIM_LABELS}
        twin = {**ready, "group": "karpenter.sh", "kind": "NodeClaim"}
        assert [[(own, 1)], [(own, 60)], [(twin, 1)], [(twin, 60)]] == list(found.values())

    @in_virtual_time
    async def test_the_older_gauges_of_all_kinds_stand_together(self) -> None:
        pool = kwok_pool("general")
        pool["status"] = {"conditions": [condition("Ready", "True")]}
        async with watched(claim(condition("Ready", "True")), pool) as at_work:
            text = at_work.world.metrics.exposition().decode()
            kinds = {
                held["kind"] for held, _ in samples(at_work, "operator_status_condition_count")
            }

        assert {"NodeClaim", "NodePool"} == kinds
        assert 1 == text.count("# TYPE operator_status_condition_count gauge")


class TestTermination:
    @in_virtual_time
    async def test_an_object_that_goes_is_timed_and_its_finalizer_is_told(self) -> None:
        async with watched(claim(finalizers=(FINALIZER, "example.com/mine"))) as at_work:
            await at_work.client.delete("karpenter.sh/v1", "NodeClaim", None, "c1")
            await at_work.clock.sleep(20)
            going = samples(at_work, "operator_nodeclaim_termination_current_time_seconds")
            for left in (["example.com/mine"], []):
                patch = {"metadata": {"finalizers": left}}
                await at_work.change("karpenter.sh/v1", "NodeClaim", "c1", patch)
            gone = samples(at_work, "operator_nodeclaim_termination_current_time_seconds")
            took = samples(at_work, "operator_nodeclaim_termination_duration_seconds_sum")
            twin = samples(at_work, "operator_termination_duration_seconds_sum")

        ((held, seconds),) = going
        assert {"namespace": "", "name": "c1", **CLAIM_LABELS} == held
        assert 20 == pytest.approx(seconds, abs=1)
        assert [] == gone
        ((held, seconds),) = took
        assert CLAIM_LABELS == held
        assert 20 == pytest.approx(seconds, abs=1)
        assert [{"group": "karpenter.sh", "kind": "NodeClaim"}] == [held for held, _ in twin]
        assert [
            ("NodeClaim", "Normal", "Finalized", f"Finalized {FINALIZER}"),
            ("NodeClaim", "Normal", "Finalized", "Finalized example.com/mine"),
        ] == said(at_work)

    @in_virtual_time
    async def test_a_pool_without_labels_of_its_own_is_timed_too(self) -> None:
        pool: Any = kwok_pool("general")
        pool["metadata"]["finalizers"] = ["example.com/mine"]
        async with watched(pool) as at_work:
            await at_work.client.delete("karpenter.sh/v1", "NodePool", None, "general")
            await at_work.settle()
            patch: JsonObject = {"metadata": {"finalizers": []}}
            await at_work.change("karpenter.sh/v1", "NodePool", "general", patch)
            count = samples(at_work, "operator_nodepool_termination_duration_seconds_count")

        assert [({}, 1)] == count


@in_virtual_time
async def test_a_term_that_ends_takes_its_gauges_along() -> None:
    async with bench(claim(condition("Ready", "True"))) as at_work:
        task = run_in_background(observability_controllers(at_work.world))
        await at_work.settle()
        during = samples(at_work, "operator_nodeclaim_status_condition_count")
        task.cancel()
        await at_work.settle()
        after = samples(at_work, "operator_nodeclaim_status_condition_count")
        await set_conditions(at_work, condition("Ready", "False"))

    assert (1, 0) == (len(during), len(after))
    assert [] == said(at_work)
