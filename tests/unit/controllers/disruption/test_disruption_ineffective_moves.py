"""Consolidation that brings a machine back leaves it in peace, the longer the more often it did."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from helpers.autoscaler import FakeCloud, JsonObject, bench
from helpers.builders import NOW
from helpers.clusters import in_virtual_time
from helpers.disruption import decided
from helpers.disruption_objects import TYPES, machine, pod_on, pool
from helpers.provisioning import FACTS
from karpenter.api.karpenter import NodeClaim
from karpenter.api.meta import ObjectMeta, OwnerReference
from karpenter.api.pods import Pod
from karpenter.clock import SystemClock, run_virtual
from karpenter.controllers.disruption.conditions import ClaimConditions
from karpenter.controllers.disruption.ineffective_moves import IneffectiveMoves, hold
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.disruption.commands import DRIFT, MULTI, REBALANCE, Command
from karpenter.model.conditions import is_true
from unit.controllers.disruption import disruption_bench

OTHER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="other", uid="other")


class Standing(SystemClock):
    """A clock that stands still."""

    def now(self) -> datetime:
        return NOW


def owned(owner: OwnerReference) -> Pod:
    reference = OwnerReference(
        api_version=owner.api_version,
        kind=owner.kind,
        name=owner.name,
        uid=owner.uid,
        controller=True,
    )
    return Pod(metadata=ObjectMeta(name="p", uid="p", owner_references=(reference,)))


def claim(name: str, *, after: float = 10.0) -> NodeClaim:
    born = NOW + timedelta(seconds=after)
    return NodeClaim(metadata=ObjectMeta(name=name, uid=name, creation_timestamp=born))


def moving() -> Command:
    """A command that moves a pod of ``web`` onto another machine."""
    moved = pod_on("a")
    owner = moved.metadata.owner_references[0]
    assert owner.controller
    full = machine("n2", *[pod_on(f"b{n}", cpu="1") for n in range(3)])
    (command,) = decided(machine("n1", moved), full, pools=[pool()]).commands
    return command


class TestBlaming:
    def test_a_machine_for_pods_that_were_moved_is_held_after_a_few_attempts(self) -> None:
        ineffective, command = IneffectiveMoves(Standing()), moving()
        moved = list(command.candidates[0].reschedulable)
        held = []
        for number in range(5):
            ineffective.attempted(command)
            made = claim(f"c{number}")
            ineffective.judge(made, moved)
            ineffective.judge(made, moved)
            until = ineffective.held_until(made)
            assert until is not None
            held.append((until - NOW).total_seconds() - 10)

        assert [0, 0, 60, 120, 240] == held

    @pytest.mark.parametrize(
        ("made", "pods"),
        [
            pytest.param(claim("c"), [owned(OTHER)], id="pods of somebody else"),
            pytest.param(claim("c", after=400), None, id="a machine that came much later"),
            pytest.param(claim("c", after=-60), None, id="a machine that was there before"),
            pytest.param(claim("replacement"), None, id="a machine that was asked for"),
        ],
    )
    def test_nobody_is_blamed_for(self, made: NodeClaim, pods: list[Pod] | None) -> None:
        ineffective, command = IneffectiveMoves(Standing()), moving()
        ineffective.begun([claim("replacement")])
        ineffective.attempted(command)

        ineffective.judge(made, command.candidates[0].reschedulable if pods is None else pods)

        assert None is ineffective.held_until(made)

    @pytest.mark.parametrize(
        ("method", "machines"),
        [
            pytest.param(DRIFT, 1, id="that was made for another reason than money"),
            pytest.param(MULTI, 3, id="that removed more machines than came back"),
        ],
    )
    def test_an_attempt_is_not_regretted(self, method: str, machines: int) -> None:
        ineffective, command = IneffectiveMoves(Standing()), moving()
        moved = command.candidates[0].reschedulable
        ineffective.attempted(
            replace(command, method=method, candidates=command.candidates * machines)
        )

        ineffective.judge(claim("c"), moved)

        assert None is ineffective.held_until(claim("c"))

    @pytest.mark.parametrize(
        ("price", "is_held"),
        [
            pytest.param(None, False, id="not launched so far"),
            pytest.param(0.4, False, id="that costs less than was saved"),
            pytest.param(0.5, True, id="that costs what was saved"),
        ],
    )
    def test_a_rebalance_is_judged_by_dollars(self, price: float | None, is_held: bool) -> None:
        ineffective = IneffectiveMoves(Standing())
        command = replace(moving(), method=REBALANCE, savings=0.5)
        moved = list(command.candidates[0].reschedulable)
        for number in range(3):
            ineffective.attempted(command)
            made = claim(f"c{number}")
            assert ineffective.needs_price(made, moved)
            ineffective.judge(made, moved, price)

        assert is_held is (made.metadata.uid in ineffective.held_at(NOW + timedelta(seconds=60)))

    def test_an_attempt_that_helps_ends_it(self) -> None:
        ineffective, command = IneffectiveMoves(Standing()), moving()
        moved = list(command.candidates[0].reschedulable)
        for number in range(4):
            ineffective.attempted(command)
            ineffective.judge(claim(f"c{number}"), moved)
        ineffective.attempted(command)  # nothing comes of this one
        ineffective.attempted(command)
        last = claim("last")
        ineffective.judge(last, moved)

        assert last.metadata.creation_timestamp == ineffective.held_until(last)

    def test_a_claim_that_is_gone_is_forgotten(self) -> None:
        ineffective, command = IneffectiveMoves(Standing()), moving()
        ineffective.attempted(command)
        ineffective.judge(claim("c"), command.candidates[0].reschedulable)
        ineffective.forget(claim("c"))

        assert None is ineffective.held_until(claim("c"))

    @pytest.mark.parametrize(
        ("attempts", "seconds"),
        [(0, 0), (2, 0), (3, 60), (4, 120), (8, 1920), (9, 3600), (99, 3600)],
    )
    def test_how_long(self, attempts: int, seconds: float) -> None:
        assert seconds == hold(attempts).total_seconds()


class TestTheCondition:
    @pytest.mark.parametrize("is_empty", [False, True], ids=["in use", "empty"])
    def test_a_held_machine_is_not_consolidatable_while_it_is(self, *, is_empty: bool) -> None:
        async def scene() -> None:
            async with bench(cloud=FakeCloud(facts=FACTS, types=TYPES)) as at_work:
                ineffective = IneffectiveMoves(at_work.clock)
                planned = PlannedPods()
                objects: list[JsonObject] = [
                    disruption_bench.pool(),
                    *disruption_bench.machine("n1", without=["Consolidatable"]),
                ]
                if not is_empty:
                    objects.append(disruption_bench.running("a", "n1"))
                await at_work.put(*objects)
                known = at_work.claim("n1-claim")
                ineffective._held[known.metadata.uid] = at_work.clock.now() + timedelta(seconds=100)
                controller = ClaimConditions(at_work.world, planned, ineffective)
                again = await at_work.reconcile(controller, "n1-claim")

                held = at_work.claim("n1-claim").status.conditions
                assert is_empty is is_true(held, "Consolidatable")
                assert (300.0 if is_empty else pytest.approx(100, abs=0.1)) == again

        run_virtual(scene())


class TestTheQueue:
    @in_virtual_time
    async def test_it_tells_what_was_attempted_and_what_was_made_for_it(self) -> None:
        large = disruption_bench.machine("n1", kind="s8")
        objects = (disruption_bench.pool(), large, disruption_bench.running("a", "n1"))
        async with disruption_bench.disrupting(*objects) as found:
            await found.run_pass()
            (made,) = found.replacements
            await found.bring_up(made)
            await found.pass_time(2)
            ineffective, now = found.queue._ineffective, found.clock.now()
            pods = [
                owned(OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="o", uid="o"))
            ]
            verdicts = []
            for uid in (made.metadata.uid, "another"):
                told = NodeClaim(metadata=ObjectMeta(name="c", uid=uid, creation_timestamp=now))
                ineffective.judge(told, pods)
                verdicts.append(ineffective.held_until(told))

            assert (["n1"], [None, now]) == (found.going(), verdicts)
