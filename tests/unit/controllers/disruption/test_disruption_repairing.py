"""Unhealthy machines are repaired by the loop: replaced within budgets, or restarted in place."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from helpers.autoscaler import FakeCloud, JsonObject
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.provisioning import FACTS
from karpenter.clock import run_virtual
from karpenter.cloud.provider import REBOOT_NODE, RepairPolicy
from karpenter.model import labels
from karpenter.model.conditions import to_wire
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    bad,
    disrupting,
    later,
    machine,
    pool,
    running,
)

TOLERATION = timedelta(minutes=30)
POLICY = RepairPolicy("BadNode", "False", TOLERATION)
REBOOT = RepairPolicy("BadKernel", "True", TOLERATION, reason_regex="Broken", action=REBOOT_NODE)
PROTECTED = {labels.DO_NOT_DISRUPT: "true"}
DUE = 1801.0
QUIET = {"consolidateAfter": "Never"}


def cloud(*policies: RepairPolicy) -> FakeCloud:
    return FakeCloud(facts=FACTS, types=TYPES, repair_policies=policies or (POLICY,))


def crowd(count: int = 9) -> list[Any]:
    """Healthy machines in use, so that one that is not well is one of many."""
    found: list[Any] = []
    for number in range(count):
        found += [machine(f"h{number}", kind="s1"), running(f"h{number}", f"h{number}")]
    return found


def ill(name: str = "n1", kind: str = "BadNode", status: str = "False", **options: Any) -> Any:
    return machine(name, node_conditions=[bad(kind, status)], **options)


def scene(*objects: Any, policies: tuple[RepairPolicy, ...] = ()) -> Any:
    quiet = pool(disruption=QUIET)
    return disrupting(quiet, *crowd(), *objects, cloud=cloud(*policies), on=["NodeRepair"])


async def later_look(found: Disrupting, seconds: float = DUE) -> float:
    await found.pass_time(seconds)
    return await found.run_pass()


class TestReplacing:
    @pytest.mark.case("V15-D02")
    @in_virtual_time
    async def test_a_machine_with_pods_goes_when_its_replacement_is_there(self) -> None:
        async with scene(ill(), running("a", "n1", cpu="3")) as found:
            again = await later_look(found)

            assert 0.0 == again
            assert ["n1"] == found.tainted()
            assert ("True", "Unhealthy") == found.condition("n1", "DisruptionReason")
            assert [] == found.going()
            assert 1 == found.metric("nodeclaims_created_total", reason="unhealthy")

            await found.bring_up()
            await found.pass_time(2)

            assert ["n1"] == found.going()
            assert 1 == found.metric("nodeclaims_disrupted_total", reason="unhealthy")
            facts = {"condition": "bad_node", "nodepool": "np", "termination_mode": "graceful"}
            assert 1 == found.metric("nodeclaims_unhealthy_disrupted_total", **facts)

    @pytest.mark.case("V15-D03")
    @in_virtual_time
    async def test_an_empty_one_goes_at_once(self) -> None:
        async with scene(ill()) as found:
            await later_look(found)
            await found.pass_time(1)

            assert ["n1"] == found.going()
            facts = {"decision": "delete", "reason": "unhealthy", "consolidation_type": ""}
            assert 1 == found.metric("voluntary_disruption_decisions_total", **facts)

    @pytest.mark.case("V15-D04")
    @in_virtual_time
    async def test_a_replacement_that_never_comes_changes_nothing(self) -> None:
        bounded = replace(POLICY, termination_grace_period=timedelta(minutes=5))
        async with scene(ill(), running("a", "n1", cpu="3"), policies=(bounded,)) as found:
            await later_look(found)
            await found.launch()
            await found.pass_time(605)

            assert [] == found.tainted()
            annotations = found.bench.claim("n1-claim").metadata.annotations
            assert labels.TERMINATION_TIMESTAMP not in annotations

    @pytest.mark.case("V15-D05")
    @in_virtual_time
    async def test_a_closed_budget_keeps_only_initialized_machines(self) -> None:
        none: JsonObject = {**QUIET, "budgets": [{"nodes": "0", "reasons": ["Unhealthy"]}]}
        young = ill("n2", node_labels={labels.INITIALIZED: None}, without=["Initialized"])
        objects = (pool(disruption=none), *crowd(), ill("n1"), young)
        async with disrupting(*objects, cloud=cloud(), on=["NodeRepair"]) as found:
            await later_look(found)
            await found.pass_time(1)

            assert ["n2"] == found.going()

    @pytest.mark.case("V15-D06")
    @in_virtual_time
    async def test_that_a_machine_is_not_ready_does_not_stop_its_repair(self) -> None:
        paced: JsonObject = {**QUIET, "budgets": [{"nodes": "1"}]}
        objects = (pool(disruption=paced), *crowd(), ill("n1", ready="False"))
        async with disrupting(*objects, cloud=cloud(), on=["NodeRepair"]) as found:
            await later_look(found)
            await found.pass_time(1)

            assert ["n1"] == found.going()
            consuming = "nodepools_nodes_consuming_budgets"
            assert 0 == found.metric(consuming, reason="unhealthy")
            assert 1 == found.metric(consuming, reason="drifted")

    @pytest.mark.case("V15-D07")
    @pytest.mark.parametrize(
        ("annotations", "is_repaired"),
        [
            pytest.param(PROTECTED, True, id="do-not-disrupt does not hold it"),
            pytest.param({labels.DO_NOT_REPAIR: "true"}, False, id="do-not-repair does"),
            pytest.param({labels.DO_NOT_REPAIR: "yes"}, True, id="but for the value true"),
        ],
    )
    def test_the_veto(self, annotations: dict[str, str], *, is_repaired: bool) -> None:
        async def run() -> None:
            async with scene(ill(annotations=annotations)) as found:
                await later_look(found)

                assert is_repaired is (found.tainted() == ["n1"])
                told = ("Node", "n1") in found.heard("DisruptionBlocked")
                assert is_repaired or told

        run_virtual(run())

    @pytest.mark.case("V15-D08")
    @in_virtual_time
    async def test_the_veto_is_not_spoken_of_before_it_counts(self) -> None:
        async with scene(ill(annotations={labels.DO_NOT_REPAIR: "true"})) as found:
            await later_look(found, 60)

            assert ("Node", "n1") not in found.heard("DisruptionBlocked")

    @pytest.mark.case("V15-D09")
    @pytest.mark.parametrize(
        ("bound", "period", "is_repaired"),
        [
            pytest.param(None, None, False, id="nothing ends the protection of a pod"),
            pytest.param(5, None, True, id="the policy does"),
            pytest.param(None, "10m", True, id="the claim does"),
        ],
    )
    def test_a_protected_pod(
        self, bound: int | None, period: str | None, *, is_repaired: bool
    ) -> None:
        async def run() -> None:
            limit = timedelta(minutes=bound) if bound is not None else None
            policy = replace(POLICY, termination_grace_period=limit)
            protected = running("a", "n1", cpu="3", annotations=PROTECTED)
            async with scene(ill(period=period), protected, policies=(policy,)) as found:
                await later_look(found)

                assert is_repaired is (found.tainted() == ["n1"])
                # The replacement has room for that pod too
                assert (1 if is_repaired else 0) == len(found.replacements)

        run_virtual(run())

    @pytest.mark.parametrize(
        ("existing", "expected"),
        [
            pytest.param("", DUE + 600, id="V15-D10 the shorter of both bounds counts"),
            pytest.param(later(1900), 1900, id="V15-D10 an earlier deadline is kept"),
            pytest.param("tomorrow", DUE + 600, id="one that cannot be read is replaced"),
        ],
    )
    def test_the_deadline_is_written_when_the_claim_is_deleted(
        self, existing: str, expected: float
    ) -> None:
        async def run() -> None:
            policy = replace(POLICY, termination_grace_period=timedelta(minutes=30))
            held = {labels.TERMINATION_TIMESTAMP: existing} if existing else {}
            broken = ill(period="10m", claim_annotations=held)
            async with scene(broken, policies=(policy,)) as found:
                await later_look(found)
                await found.pass_time(1)

                assert ["n1"] == found.going()
                annotations = found.bench.claim("n1-claim").metadata.annotations
                assert later(expected) == annotations[labels.TERMINATION_TIMESTAMP]

        run_virtual(run())

    @pytest.mark.case("V15-D11")
    @in_virtual_time
    async def test_a_bound_of_nothing_ends_everything_now(self) -> None:
        policy = replace(POLICY, termination_grace_period=timedelta(0))
        async with scene(ill(), policies=(policy,)) as found:
            await later_look(found)
            await found.pass_time(1)

            annotations = found.bench.claim("n1-claim").metadata.annotations
            assert later(DUE) == annotations[labels.TERMINATION_TIMESTAMP]
            facts = {"termination_mode": "forceful"}
            assert 1 == found.metric("nodeclaims_unhealthy_disrupted_total", **facts)

    @pytest.mark.case("V15-D12")
    @in_virtual_time
    async def test_too_many_at_once_stop_all_repair_of_a_pool(self) -> None:
        fresh = [machine(f"f{n}", node_conditions=[bad(since=DUE - 1)]) for n in range(2)]
        objects = (pool(disruption=QUIET), *crowd(7), ill(), *fresh)
        async with disrupting(*objects, cloud=cloud(), on=["NodeRepair"]) as found:
            await later_look(found)

            assert [] == found.tainted()
            told = {("Node", "n1"), ("NodeClaim", "n1-claim"), ("NodePool", "np")}
            assert told == set(found.heard("NodeRepairBlocked"))
            events = [e for e in found.bench.events.heard if e.reason == "NodeRepairBlocked"]
            assert {("Warning", 900.0)} == {(e.type, e.dedupe_seconds) for e in events}

    @pytest.mark.case("V15-D13")
    @in_virtual_time
    async def test_one_of_three_is_repaired(self) -> None:
        objects = (pool(disruption=QUIET), *crowd(2), ill())
        async with disrupting(*objects, cloud=cloud(), on=["NodeRepair"]) as found:
            await later_look(found)

            assert ["n1"] == found.tainted()

    @in_virtual_time
    async def test_without_the_gate_nothing_is_repaired(self) -> None:
        objects = (pool(disruption=QUIET), *crowd(), ill())
        async with disrupting(*objects, cloud=cloud()) as found:
            await later_look(found)

            assert [] == found.tainted()


class TestTheLog:
    @in_virtual_time
    async def test_a_line_when_a_policy_begins_to_match_and_when_none_does(self) -> None:
        async with scene(machine("n1")) as found:
            assert [] == found.lines("matched repair policy")
            ready = {"type": "Ready", "status": "True"}
            body: JsonObject = {"status": {"conditions": [ready, bad(since=5)]}}
            await found.change("Node", "n1", body, subresource="status")
            heartbeat = {"status": {"conditions": [ready, {**bad(since=5), "message": "again"}]}}
            await found.change("Node", "n1", heartbeat, subresource="status")

            (line,) = found.lines("matched repair policy")
            assert ("n1", "BadNode", True) == (
                line["Node"]["name"],
                line["condition"],
                line["fallback"],
            )
            assert later(1805) == line["eligible-at"]

            well: JsonObject = {"status": {"conditions": [ready]}}
            await found.change("Node", "n1", well, subresource="status")

            assert 1 == len(found.lines("no longer matches any repair policy"))


class TestRestarting:
    @pytest.mark.case("V15-D23")
    @in_virtual_time
    async def test_a_restart_is_asked_for_and_nothing_else(self) -> None:
        bounded = replace(REBOOT, termination_grace_period=timedelta(minutes=5))
        broken = ill("n1", "BadKernel", "True")
        async with scene(broken, running("a", "n1"), policies=(POLICY, bounded)) as found:
            again = await later_look(found)

            assert 0.0 == again
            assert [] == found.replacements
            assert [] == found.tainted()
            assert ("True", "RebootRequested") == found.condition("n1", "Rebooting")
            assert ("True", "Unhealthy") == found.condition("n1", "DisruptionReason")
            annotations = found.bench.claim("n1-claim").metadata.annotations
            assert "5m0s" == annotations[labels.REBOOT_GRACE_PERIOD]
            facts = {"decision": "reboot", "reason": "unhealthy"}
            assert 1 == found.metric("voluntary_disruption_decisions_total", **facts)
            assert 1 == found.metric("nodeclaims_disrupted_total", reason="unhealthy")
            assert 1 == found.metric("pods_disruption_initiated_total", reason="unhealthy")

            version = found.bench.claim("n1-claim").metadata.resource_version
            await found.run_pass()

            assert version == found.bench.claim("n1-claim").metadata.resource_version
            assert 1 == found.metric("voluntary_disruption_decisions_total", **facts)

    @pytest.mark.case("V15-D24")
    @in_virtual_time
    async def test_an_old_bound_is_taken_off(self) -> None:
        stale = {labels.REBOOT_GRACE_PERIOD: "1m"}
        broken = ill("n1", "BadKernel", "True", claim_annotations=stale)
        async with scene(broken, policies=(POLICY, REBOOT)) as found:
            await later_look(found)

            annotations = found.bench.claim("n1-claim").metadata.annotations
            assert labels.REBOOT_GRACE_PERIOD not in annotations

    @in_virtual_time
    async def test_the_deadline_of_the_claim_bounds_a_restart_without_a_policy_bound(self) -> None:
        broken = ill("n1", "BadKernel", "True", period="1h30m")
        async with scene(broken, policies=(POLICY, REBOOT)) as found:
            await later_look(found)

            annotations = found.bench.claim("n1-claim").metadata.annotations
            assert "1h30m0s" == annotations[labels.REBOOT_GRACE_PERIOD]

    @pytest.mark.case("V15-D25")
    @in_virtual_time
    async def test_the_third_time_in_a_day_it_is_replaced(self) -> None:
        broken = ill("n1", "BadKernel", "True")
        async with scene(broken, running("a", "n1", cpu="3"), policies=(POLICY, REBOOT)) as found:
            for _ in range(2):
                await later_look(found)
                assert ("True", "RebootRequested") == found.condition("n1", "Rebooting")
                await _end_reboot(found)
            await later_look(found)

            assert ["n1"] == found.tainted()
            assert 1 == len(found.replacements)

    @pytest.mark.case("V15-D25")
    @pytest.mark.storm
    @in_virtual_time
    async def test_after_a_day_it_is_restarted_again(self) -> None:
        broken = ill("n1", "BadKernel", "True")
        async with scene(broken, policies=(POLICY, REBOOT)) as found:
            for _ in range(2):
                await later_look(found)
                await _end_reboot(found)
            await later_look(found, 24 * 3600)

            assert ("True", "RebootRequested") == found.condition("n1", "Rebooting")
            assert [] == found.tainted()

    @pytest.mark.case("V15-D26")
    @in_virtual_time
    async def test_a_restart_gives_its_whole_toleration_again(self) -> None:
        broken = ill("n1", "BadKernel", "True")
        async with scene(broken, policies=(POLICY, REBOOT)) as found:
            await later_look(found)
            await _end_reboot(found)
            await later_look(found, 29 * 60)

            assert ("False", "RebootSucceeded") == found.condition("n1", "Rebooting")

            await later_look(found, 61)

            assert ("True", "RebootRequested") == found.condition("n1", "Rebooting")

    @in_virtual_time
    async def test_the_reason_stays_during_the_restart_and_goes_after_it(self) -> None:
        broken = ill("n1", "BadKernel", "True")
        async with scene(broken, policies=(POLICY, REBOOT)) as found:
            await later_look(found)
            await found.run_pass()

            assert "Unhealthy" == found.reason("n1")

            await _end_reboot(found)
            await found.run_pass()

            assert "" == found.reason("n1")

    @pytest.mark.case("V15-D36")
    @in_virtual_time
    async def test_nobody_else_picks_a_machine_that_restarts(self) -> None:
        broken = ill("n1", "BadKernel", "True")
        objects = (pool(budget="1"), *crowd(), broken)
        async with disrupting(*objects, cloud=cloud(POLICY, REBOOT), on=["NodeRepair"]) as found:
            await later_look(found)
            assert ("True", "RebootRequested") == found.condition("n1", "Rebooting")
            await found.put(machine("n2"))
            await found.run_pass()

            assert [] == found.tainted()
            consuming = "nodepools_nodes_consuming_budgets"
            for reason in ("empty", "drifted", "underutilized", "unhealthy"):
                assert 1 == found.metric(consuming, reason=reason)


async def _end_reboot(found: Disrupting) -> None:
    """Let a restart succeed that was asked for."""
    now = found.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    held = [dict(each) for each in to_wire(found.bench.claim("n1-claim").status.conditions)]
    for each in held:
        if each["type"] == "Rebooting":
            each |= {"status": "False", "reason": "RebootSucceeded", "lastTransitionTime": now}
    body: JsonObject = {"status": {"conditions": held}}
    await found.change("NodeClaim", "n1-claim", body, subresource="status")
