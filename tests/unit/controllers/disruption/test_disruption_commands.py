"""A command marks its machines, has their replacements come up, and only then removes them."""

import pytest

from helpers.autoscaler import JsonObject, run_in_background
from helpers.clusters import in_virtual_time
from helpers.provisioning import waiting_pod
from karpenter.api.karpenter import NodeClaim
from karpenter.controllers.disruption.conflict_retry import GoneError, change
from karpenter.controllers.disruption.loop import DisruptionLoop
from karpenter.controllers.disruption.queue import CommandQueue, timeout
from karpenter.controllers.provisioning.batching import Batcher
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.provisioner import Provisioner
from karpenter.kube.errors import ConflictError
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    Hanging,
    Refusing,
    disrupting,
    machine,
    pool,
    running,
    true,
)

# One pod on a machine four times too large: a smaller one takes its place
UNDERUSED = (pool(), machine("n1"), running("a", "n1"))
# A machine that drifted, and pods that need two of the machines that take its place
SPLIT_IN_TWO = (
    pool(
        template={
            "requirements": [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["s4"]}]
        }
    ),
    machine("n1", kind="s8", conditions=[true("Drifted")]),
    running("p0", "n1", cpu="3"),
    running("p1", "n1", cpu="3"),
)


async def replacing(found: Disrupting) -> NodeClaim:
    """Begin to replace the only machine, and return what takes its place."""
    await found.run_pass()
    (replacement,) = found.replacements
    return replacement


class TestReplacing:
    @pytest.mark.case("DIS-137")
    @in_virtual_time
    async def test_candidates_are_marked_and_stay_until_the_replacement_is_there(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            again = await found.run_pass()
            await found.pass_time(30)

            assert 0.0 == again
            assert ["n1"] == found.tainted()
            assert ("True", "Underutilized") == found.condition("n1", "DisruptionReason")
            assert [] == found.going()
            (replacement,) = found.replacements
            assert [labels.TERMINATION] == list(replacement.metadata.finalizers)
            assert 1 == found.metric("nodeclaims_created_total", reason="underutilized")

    @pytest.mark.case("DIS-137")
    @in_virtual_time
    async def test_the_decision_is_counted_and_logged(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            await found.run_pass()

            facts = {
                "decision": "replace",
                "reason": "underutilized",
                "consolidation_type": "single",
            }
            assert 1 == found.metric("voluntary_disruption_decisions_total", **facts)
            by_pool = "voluntary_disruption_decisions_by_nodepool_total"
            assert 1 == found.metric(by_pool, nodepool="np", **facts)
            (line,) = found.lines("disrupting node(s)")
            assert ("underutilized", "replace") == (line["reason"], line["decision"])
            counts = ("disrupted-node-count", "replacement-node-count", "pod-count")
            assert [1, 1, 1] == [line[key] for key in counts]
            assert line["command-id"]

    @pytest.mark.case("DIS-138")
    @in_virtual_time
    async def test_a_replacement_that_is_not_initialized_is_waited_for(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            replacement = await replacing(found)
            await found.launch(replacement)
            await found.pass_time(300)

            assert ["n1"] == found.tainted()
            assert [] == found.going()
            told = ("NodeClaim", replacement.metadata.name)
            assert told in found.heard("DisruptionLaunching")
            assert told in found.heard("DisruptionWaitingReadiness")

    @pytest.mark.case("DIS-139")
    @in_virtual_time
    async def test_all_replacements_are_waited_for(self) -> None:
        async with disrupting(*SPLIT_IN_TWO) as found:
            await found.run_pass()
            first, second = found.replacements
            await found.bring_up(first)
            await found.pass_time(60)

            assert [] == found.going()

            await found.bring_up(second)
            await found.pass_time(2)

            assert ["n1"] == found.going()

    @pytest.mark.case("DIS-140")
    @in_virtual_time
    async def test_candidates_go_when_all_replacements_are_initialized(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            await replacing(found)
            await found.bring_up()
            await found.pass_time(2)

            assert ["n1"] == found.going()
            kept = found.world.state.snapshot().node(found.replacements[0].metadata.name)
            assert kept is not None
            assert kept.is_nominated(found.clock.now())
            told = [("Node", "n1"), ("NodeClaim", "n1-claim")]
            assert told == found.heard("DisruptionTerminating")
            assert all(m.endswith("Underutilized") for m in found.messages("DisruptionTerminating"))
            facts = {
                "reason": "underutilized",
                "nodepool": "np",
                "capacity_type": "on-demand",
                "consolidation_policy": "when_empty_or_underutilized",
                "termination_mode": "graceful",
            }
            assert 1 == found.metric("nodeclaims_disrupted_total", **facts)
            assert 1 == found.metric("pods_disruption_initiated_total", **facts)
            assert found.lines("command succeeded")
            assert frozenset() == found.queue.in_progress

    @pytest.mark.case("DIS-140")
    @in_virtual_time
    async def test_a_replacement_that_was_seen_initialized_is_not_looked_at_again(self) -> None:
        async with disrupting(*SPLIT_IN_TWO) as found:
            await found.run_pass()
            first, second = found.replacements
            await found.bring_up(first)
            await found.pass_time(3)
            await found.vanish(first)
            await found.pass_time(3)

            assert ["n1"] == found.tainted()

            await found.bring_up(second)
            await found.pass_time(3)

            assert ["n1"] == found.going()

    @pytest.mark.case("DIS-141")
    @in_virtual_time
    async def test_a_command_without_replacements_deletes_at_once(self) -> None:
        async with disrupting(pool(), machine("n1")) as found:
            await found.run_pass()
            await found.pass_time(0.1)

            assert ["n1"] == found.going()
            assert "Empty" == found.reason("n1")
            facts = {"decision": "delete", "reason": "empty", "consolidation_type": "empty"}
            assert 1 == found.metric("voluntary_disruption_decisions_total", **facts)


class TestGivingUp:
    @pytest.mark.case("DIS-142")
    @in_virtual_time
    async def test_a_replacement_that_vanishes_sets_the_candidate_free(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            replacement = await replacing(found)
            await found.vanish(replacement)
            await found.pass_time(2)

            assert [] == found.tainted()
            assert "" == found.reason("n1")
            assert frozenset() == found.queue.in_progress
            machine_ = found.world.state.snapshot().node("n1")
            assert machine_ is not None
            assert not machine_.is_deleting
            facts = {
                "decision": "replace",
                "reason": "underutilized",
                "consolidation_type": "single",
            }
            assert 1 == found.metric("voluntary_disruption_queue_failures_total", **facts)

            await found.run_pass()

            assert ["n1"] == found.tainted()

    @pytest.mark.case("DIS-142")
    @in_virtual_time
    async def test_nobody_plans_for_pods_of_a_machine_that_stays_after_all(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            replacement = await replacing(found)
            deletes: JsonObject = {"metadata": {"finalizers": []}}
            await found.change("NodeClaim", replacement.metadata.name, deletes)
            marks: list[bool] = []

            def noticed(old: NodeClaim | None, new: NodeClaim | None) -> None:
                if new is None:
                    machine_ = found.world.state.snapshot().node("n1")
                    marks.append(machine_ is not None and machine_.is_deleting)

            found.world.mirror(NodeClaim).on_change(noticed)
            await found.vanish(replacement)

            assert [False] == marks

    @pytest.mark.case("DIS-143")
    @in_virtual_time
    async def test_a_replacement_that_only_the_mirror_lacks_is_waited_for(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            await replacing(found)
            mirror = found.world.mirror(NodeClaim)
            # As a list that lags behind would make it look
            mirror.replace_all([c for n, c in found.claims.items() if n.endswith("-claim")])
            await found.pass_time(5)

            assert ["n1"] == found.tainted()
            candidate = found.world.state.snapshot().node("n1")
            assert candidate is not None
            assert candidate.is_deleting
            assert 0 == found.metric("voluntary_disruption_queue_failures_total")

    @pytest.mark.case("DIS-144")
    @in_virtual_time
    async def test_a_command_ends_after_ten_minutes(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            replacement = await replacing(found)
            await found.launch(replacement)
            await found.pass_time(599)

            assert ["n1"] == found.tainted()

            await found.pass_time(3)

            assert [] == found.tainted()
            assert "" == found.reason("n1")
            assert [replacement.metadata.name] == [c.metadata.name for c in found.replacements]
            assert 1 == found.metric("voluntary_disruption_queue_failures_total")

    @pytest.mark.case("DIS-145")
    @pytest.mark.parametrize(
        ("candidates", "seconds"),
        [
            pytest.param(1, 600, id="a single candidate has ten minutes"),
            pytest.param(10_000, 800, id="ten thousand candidates have 13m20s"),
            pytest.param(80_000, 3600, id="eighty thousand candidates have an hour"),
        ],
    )
    def test_the_more_is_under_way_the_longer_it_may_take(
        self, candidates: int, seconds: float
    ) -> None:
        assert seconds == pytest.approx(timeout(candidates))

    @in_virtual_time
    async def test_a_claim_that_cannot_be_deleted_at_once_is_deleted_later(self) -> None:
        refused = Refusing("DELETE", "/nodeclaims/", 2, 500)
        async with disrupting(pool(), machine("n1"), wrap=refused.around) as found:
            await found.run_pass()
            await found.pass_time(10)

            assert 0 == refused.left
            assert ["n1"] == found.going()
            assert 1 == found.metric("nodeclaims_disrupted_total", reason="empty")

    @in_virtual_time
    async def test_a_candidate_that_somebody_else_deletes_is_not_counted_as_disrupted(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            await replacing(found)
            await found.bench.client.delete("karpenter.sh/v1", "NodeClaim", None, "n1-claim")
            await found.bring_up()
            await found.pass_time(2)

            assert ["n1"] == found.going()
            assert 0 == found.metric("nodeclaims_disrupted_total")
            assert frozenset() == found.queue.in_progress


class TestRestarting:
    @pytest.mark.case("DIS-146")
    @in_virtual_time
    async def test_the_next_process_takes_the_marks_off(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            replacement = await replacing(found)
            await found.launch(replacement)
            stranger = _next_process(found)
            await found.change("NodePool", "np", {"spec": {"disruption": _NEVER}})
            await stranger.step()
            await found.bench.settle()

            assert [] == found.tainted()
            assert "" == found.reason("n1")

    @pytest.mark.case("DIS-146")
    @in_virtual_time
    async def test_machines_on_their_way_out_keep_their_marks(self) -> None:
        async with disrupting(pool(), machine("n1"), machine("n2"), running("a", "n2")) as found:
            await found.run_pass()
            await found.pass_time(1)
            stranger = _next_process(found)
            await found.change("NodePool", "np", {"spec": {"disruption": _NEVER}})
            await stranger.step()
            await found.bench.settle()

            assert ["n1"] == found.going()
            assert ["n1"] == found.tainted()
            assert "Empty" == found.reason("n1")

    @pytest.mark.case("DIS-146")
    @in_virtual_time
    async def test_what_others_put_on_a_node_stays(self) -> None:
        theirs = {"key": "team", "value": "a", "effect": "NoSchedule"}
        ours = {"key": labels.DISRUPTED, "effect": "NoSchedule"}
        marked = machine("n1", taints=[theirs, ours], without=["Consolidatable"])
        async with disrupting(pool(disruption=_NEVER), marked, running("a", "n1")) as found:
            await found.run_pass()

            taints = [taint.key for taint in found.bench.node("n1").spec.taints]
            assert ["team"] == taints


class TestBesideProvisioning:
    @pytest.mark.case("DIS-147")
    @in_virtual_time
    async def test_no_second_machine_is_planned_while_a_replacement_is_being_created(
        self,
    ) -> None:
        hanging = Hanging("POST", "/nodeclaims")
        async with disrupting(*UNDERUSED, wrap=hanging.around) as found:
            provisioner = _provisioner(found)
            task = run_in_background([_Once(found.loop)])
            await hanging.is_waiting.wait()
            made = await provisioner.provision()

            assert ["n1"] == found.tainted()
            assert () == made

            hanging.go_on.set()
            await found.pass_time(1)
            (replacement,) = found.replacements
            await found.launch(replacement)
            made = await provisioner.provision()

            assert () == made
            assert 1 == len(found.replacements)
            await task

    @pytest.mark.case("DIS-148")
    @in_virtual_time
    async def test_a_pod_that_fits_the_replacement_needs_no_other_machine(self) -> None:
        async with disrupting(*UNDERUSED) as found:
            replacement = await replacing(found)
            await found.launch(replacement)
            await found.put(waiting_pod("late", cpu="500m"))
            made = await _provisioner(found).provision()

            assert () == made


class TestBeginning:
    @in_virtual_time
    async def test_a_limit_that_is_passed_ends_a_replacement_before_it_begins(self) -> None:
        drifted = machine("n1", conditions=[true("Drifted")])
        limited = pool(limits={"cpu": "1"})
        async with disrupting(limited, drifted, running("a", "n1")) as found:
            again = await found.run_pass()

            assert [] == found.replacements
            assert [] == found.going()
            assert again > 0

            later = await found.run_pass()

            assert frozenset() == found.queue.in_progress
            assert again < later
            assert 1 == len(found.lines("abandoned command"))

    @in_virtual_time
    async def test_a_machine_that_cannot_be_marked_does_not_keep_others_from_going(self) -> None:
        refused = Refusing("PATCH", "/nodes/n1", 100, 500)
        machines = (machine("n1"), machine("n2"))
        async with disrupting(pool(), *machines, wrap=refused.around) as found:
            await found.run_pass()
            await found.pass_time(1)

            assert ["n2"] == found.going()
            assert frozenset() == found.queue.in_progress

    @in_virtual_time
    async def test_a_replacement_is_not_made_for_a_machine_that_cannot_be_marked(self) -> None:
        refused = Refusing("PATCH", "/nodes/n1", 100, 500)
        async with disrupting(*UNDERUSED, wrap=refused.around) as found:
            await found.run_pass()

            assert [] == found.replacements
            assert found.lines("abandoned command")

    @in_virtual_time
    async def test_a_conflict_is_met_with_another_look(self) -> None:
        refused = Refusing("PATCH", "/nodes/n1", 2, 409)
        async with disrupting(pool(), machine("n1"), wrap=refused.around) as found:
            await found.run_pass()
            await found.pass_time(1)

            assert ["n1"] == found.going()

    @in_virtual_time
    async def test_conflicts_without_end_are_an_error(self) -> None:
        refused = Refusing("PATCH", "/nodes/n1", 100, 409)
        async with disrupting(pool(), machine("n1"), wrap=refused.around) as found:
            node = found.bench.node("n1")
            with pytest.raises(ConflictError):
                await change(found.world, node, lambda _: {"metadata": {"labels": {"a": "b"}}})

    @in_virtual_time
    async def test_what_is_gone_cannot_be_changed(self) -> None:
        async with disrupting(pool(), machine("n1")) as found:
            node = found.bench.node("n1")
            await found.bench.client.delete("v1", "Node", None, "n1")
            with pytest.raises(GoneError, match="Node n1 is gone"):
                await change(found.world, node, lambda _: {"metadata": {"labels": {"a": "b"}}})

    @in_virtual_time
    async def test_machines_that_take_pods_are_kept_for_them(self) -> None:
        full = [running(f"f{number}", "n2", cpu="1") for number in range(3)]
        small = [running("a", "n1")]
        async with disrupting(pool(), machine("n1"), machine("n2"), *full, *small) as found:
            await found.run_pass()
            await found.pass_time(1)

            assert ["n1"] == found.going()
            host = found.world.state.snapshot().node("n2")
            assert host is not None
            assert host.is_nominated(found.clock.now())
            assert ("Pod", "a") in found.heard("Nominated")


_NEVER: JsonObject = {"consolidateAfter": "Never"}


def _next_process(found: Disrupting) -> DisruptionLoop:
    """The loop of a process that has taken over; what the first one knew is gone."""
    for name in list(found.claims):
        found.world.state.unmark(name)
    return DisruptionLoop(found.world, CommandQueue(found.world), PlannedPods())


def _provisioner(found: Disrupting) -> Provisioner:
    settings = found.world.settings
    batcher = Batcher(
        found.clock, idle=settings.batch_idle_duration, longest=settings.batch_max_duration
    )
    return Provisioner(found.world, batcher, PlannedPods())


class _Once:
    """Runs one pass of a loop."""

    name = "once"

    def __init__(self, loop: DisruptionLoop) -> None:
        self._loop = loop

    async def run(self) -> None:
        await self._loop.step()
