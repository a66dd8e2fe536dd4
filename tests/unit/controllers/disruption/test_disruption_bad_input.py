"""What nobody should have written: it is told in one sentence, and nothing goes by mistake.

Admission refuses much of this. An API server without our rules, or with older ones, does not, so
what it would refuse is put before the controllers as if it had passed.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from helpers.autoscaler import FakeCloud, JsonObject
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from helpers.provisioning import FACTS
from karpenter.api.karpenter import Budget, NodeClaim, NodePool
from karpenter.api.meta import Resource
from karpenter.clock import EPOCH, run_virtual
from karpenter.cloud.provider import RepairPolicy
from karpenter.controllers.lifecycle.expiration import ExpirationController
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    bad,
    disrupting,
    later,
    machine,
    pdb,
    pool,
    running,
    true,
)

PROTECTED_FOR_AN_HOUR = {labels.DO_NOT_DISRUPT: "1h"}
A_YEAR = 365 * 86400.0
# One that is empty, one that is half used and one that has drifted: each would go by itself
ANY_REASON = (
    machine("empty"),
    machine("half"),
    running("a", "half"),
    machine("old", conditions=[true("Drifted")], without=["Consolidatable"]),
    running("b", "old", cpu="3"),
)


def rewrite(found: Disrupting, kind: type[Any], name: str, change: Callable[[Any], Any]) -> None:
    """Let controllers see an object that admission would not have let pass."""
    mirror = found.world.mirror(kind)
    known = mirror.get(name)
    assert known is not None
    version = str(int(known.metadata.resource_version) + 1000)
    changed: Resource = change(known)
    mirror.put(replace(changed, metadata=replace(changed.metadata, resource_version=version)))


def disrupted_so(**disruption: Any) -> Callable[[NodePool], NodePool]:
    """A pool whose nodes go in another way."""

    def changed(known: NodePool) -> NodePool:
        said = replace(known.spec.disruption, **disruption)
        return replace(known, spec=replace(known.spec, disruption=said))

    return changed


def is_one_sentence(text: str) -> bool:
    return bool(text) and "\n" not in text and "Traceback" not in text and len(text) < 300


@pytest.mark.parametrize(
    "budget",
    [
        pytest.param({"nodes": "10", "schedule": "never", "duration": "1h"}, id="no schedule"),
        pytest.param({"nodes": "10", "schedule": "0 25 * * *", "duration": "1h"}, id="hour 25"),
        pytest.param({"nodes": "10", "schedule": "* * *", "duration": "1h"}, id="three fields"),
        pytest.param({"nodes": "10", "schedule": "@daily", "duration": "-1h"}, id="no duration"),
        pytest.param({"nodes": "10", "schedule": "@daily"}, id="a schedule without a duration"),
        pytest.param({"nodes": "10", "duration": "1h"}, id="a duration without a schedule"),
        pytest.param({"nodes": "-1"}, id="fewer than no nodes"),
        pytest.param({"nodes": "-10%"}, id="less than no percentage"),
        pytest.param({"nodes": "ten"}, id="a word"),
        pytest.param({"nodes": ""}, id="nothing"),
        pytest.param(
            {"nodes": "-1", "reasons": ("Empty",)}, id="DIS-131 one for a single reason closes all"
        ),
    ],
)
def test_a_budget_that_cannot_be_read(budget: JsonObject) -> None:
    async def scene() -> None:
        async with disrupting(pool(), *ANY_REASON) as found:
            readable = Budget(nodes="100%")
            both = (readable, Budget(**budget))
            rewrite(found, NodePool, "np", disrupted_so(budgets=both))
            for _ in range(3):
                await found.run_pass()
                await found.pass_time(20)

            assert ([], []) == (found.tainted(), found.going())
            told = [e for e in found.bench.events.heard if isinstance(e.target, NodePool)]
            assert {"DisruptionBlocked"} == {event.reason for event in told}
            for reason in ("Empty", "Drifted", "Underutilized"):
                (message,) = {e.message for e in told if f" {reason} " in e.message}
                assert "spec.disruption.budgets[1]" in message
                assert is_one_sentence(message)
            (line,) = found.lines("invalid budget")
            assert line["error"].startswith("spec.disruption.budgets[1]")

    run_virtual(scene())


@in_virtual_time
async def test_a_schedule_that_never_comes_is_told_and_nothing_goes() -> None:
    """A 30th of February is as good as no schedule: nobody can say what was meant by it."""
    async with disrupting(pool(), *ANY_REASON) as found:
        never = Budget(nodes="0", schedule="0 0 30 2 *", duration="1h")
        rewrite(found, NodePool, "np", disrupted_so(budgets=(never,)))
        await found.run_pass()

        assert [] == found.tainted()
        assert any("budgets[0]" in text for text in found.messages("DisruptionBlocked"))


@pytest.mark.parametrize(
    ("disruption", "said"),
    [
        pytest.param(
            {"consolidation_policy": "WhenUnderutilized"},
            "NodePool np has the unknown consolidation policy 'WhenUnderutilized'",
            id="a policy of an older version",
        ),
        pytest.param(
            {"consolidation_policy": ""},
            "NodePool np has the unknown consolidation policy ''",
            id="no policy at all",
        ),
        pytest.param(
            {"consolidate_after": "soon"},
            "NodePool np consolidates after 'soon', which is no duration",
            id="a time that is none",
        ),
        pytest.param(
            {"consolidate_after": "-30s"},
            "NodePool np consolidates after '-30s', which is no duration",
            id="less than no time",
        ),
        pytest.param(
            {"consolidation_policy": "WhenEmptyOrUnderutilized", "consolidate_after": "Never"},
            'NodePool "np" has consolidation disabled',
            id="a policy that removes and a time that never comes",
        ),
    ],
)
def test_policies_that_contradict_themselves(disruption: JsonObject, said: str) -> None:
    async def scene() -> None:
        nodes = (machine("empty"), machine("half"), running("a", "half"))
        async with disrupting(pool(), *nodes) as found:
            rewrite(found, NodePool, "np", disrupted_so(**disruption))
            for _ in range(3):
                await found.run_pass()
                await found.pass_time(20)

            assert ([], []) == (found.tainted(), found.going())
            assert {("Node", "empty"), ("Node", "half")} <= set(found.heard("Unconsolidatable"))
            assert {said} == set(found.messages("Unconsolidatable"))

    run_virtual(scene())


@in_virtual_time
async def test_of_budgets_that_contradict_each_other_the_strictest_holds() -> None:
    budgets = [{"nodes": "100%"}, {"nodes": "0"}, {"nodes": "5", "reasons": ["Empty"]}]
    async with disrupting(pool(disruption={"budgets": budgets}), *ANY_REASON) as found:
        await found.run_pass()

        assert [] == found.tainted()
        assert 3 == len({m for m in found.messages("DisruptionBlocked") if "budget" in m})


@in_virtual_time
async def test_a_static_pool_that_says_how_to_consolidate_keeps_its_nodes() -> None:
    fixed = pool(replicas=2, disruption={"consolidationPolicy": "WhenEmptyOrUnderutilized"})
    nodes = (machine("empty"), machine("half"), running("a", "half"))
    async with disrupting(fixed, *nodes, on=["StaticCapacity"]) as found:
        await found.run_pass()
        await found.pass_time(20)
        await found.run_pass()

        assert ([], []) == (found.tainted(), found.going())


def everything(name: str, *, allowed: int) -> JsonObject:
    """A budget that selects every pod of its namespace."""
    return {**pdb(name, allowed=allowed), "spec": {"selector": {}, "maxUnavailable": 1}}


@pytest.mark.parametrize(
    ("budgets", "said"),
    [
        pytest.param(
            [everything("all", allowed=0)],
            "Pdb prevents pod evictions (PodDisruptionBudget=[default/all]):"
            " PDB default/all allows 0 of 2 for pod default/a",
            id="one that selects everything and allows nothing",
        ),
        pytest.param(
            [everything("all", allowed=5), pdb("web", allowed=5)],
            "Eviction does not support multiple PDBs (PodDisruptionBudget(s)="
            "[default/all default/web]): pod default/a is selected by several budgets: all, web",
            id="two that overlap, both open",
        ),
        pytest.param(
            [everything("all", allowed=5), everything("more", allowed=5), pdb("web", allowed=5)],
            "Eviction does not support multiple PDBs (PodDisruptionBudget(s)="
            "[default/all default/more default/web]):"
            " pod default/a is selected by several budgets: all, more, web",
            id="three that overlap",
        ),
    ],
)
@pytest.mark.parametrize("reason", ["Underutilized", "Drifted"])
def test_budgets_of_pods_that_select_too_much(
    reason: str, budgets: list[JsonObject], said: str
) -> None:
    async def scene() -> None:
        conditions = [true("Drifted")] if reason == "Drifted" else []
        nodes = (machine("n1", conditions=conditions), running("a", "n1"))
        async with disrupting(pool(), *nodes, *budgets) as found:
            await found.run_pass()
            await found.pass_time(20)
            await found.run_pass()

            assert ([], []) == (found.tainted(), found.going())
            told = [("Node", "n1"), ("NodeClaim", "n1-claim")]
            assert told == found.heard("DisruptionBlocked")[:2]
            assert {said} == set(found.messages("DisruptionBlocked"))

    run_virtual(scene())


@in_virtual_time
async def test_a_budget_that_selects_nothing_holds_nobody() -> None:
    nothing = {**pdb("none"), "spec": {"maxUnavailable": 1}}
    async with disrupting(pool(), nothing, machine("n1"), running("a", "n1")) as found:
        await found.run_pass()

        assert ["n1"] == found.tainted()


@in_virtual_time
async def test_a_pod_that_nobody_owns_is_somebody_all_the_same() -> None:
    """Nobody makes it again when it is evicted, so its node is not empty and its room is kept."""
    naked = running("naked", "n1", cpu="3", owner="")
    as_it_is = [
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["s4"]},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ]
    like = pool(template={"requirements": as_it_is})
    async with disrupting(like, machine("n1"), naked, machine("n2")) as found:
        await found.run_pass()
        await found.pass_time(1)

        assert ["n2"] == found.going()
        assert "Empty" == found.reason("n2")

        await found.run_pass()

        assert ["n2"] == found.tainted()


@in_virtual_time
async def test_a_drifted_node_with_a_pod_that_nobody_owns_gets_a_replacement_for_it() -> None:
    naked = running("naked", "n1", cpu="3", owner="")
    async with disrupting(pool(), machine("n1", conditions=[true("Drifted")]), naked) as found:
        await found.run_pass()

        (replacement,) = found.replacements
        assert "3" == replacement.spec.resources.requests["cpu"]
        assert [] == found.going()


@in_virtual_time
async def test_nodes_without_a_claim_and_claims_without_a_node_stay() -> None:
    foreign, lost = machine("foreign")[1], machine("lost")[0]
    stray = machine("stray", node_labels={labels.NODEPOOL: None})[1]
    async with disrupting(pool(), foreign, lost, stray) as found:
        for _ in range(3):
            await found.run_pass()
            await found.pass_time(100)

        assert ([], []) == (found.tainted(), found.going())
        # What has no claim is not ours, so there is nothing to say about it
        assert [("NodeClaim", "lost-claim")] == list(
            dict.fromkeys(found.heard("DisruptionBlocked"))
        )
        assert {"Nodeclaim does not have an associated node: its node is gone"} == set(
            found.messages("DisruptionBlocked")
        )


class TestClocksInTheFuture:
    """Times that have not come yet, as a clock that was wrong has left them."""

    @in_virtual_time
    async def test_a_claim_from_the_future_does_not_expire(self) -> None:
        async with disrupting(pool(), machine("n1"), running("a", "n1", cpu="3")) as found:
            controller = ExpirationController(found.world, Remover(found.world))

            def from_the_future(known: NodeClaim) -> NodeClaim:
                born = EPOCH + timedelta(seconds=A_YEAR)
                return replace(
                    known,
                    metadata=replace(known.metadata, creation_timestamp=born),
                    spec=replace(known.spec, expire_after="1h"),
                )

            rewrite(found, NodeClaim, "n1-claim", from_the_future)
            again = await controller.reconcile(("", "n1-claim"))

            assert again is not None
            assert again > A_YEAR
            assert [] == found.going()

    @pytest.mark.parametrize("pods", [[], [running("a", "n1")]], ids=["empty", "in use"])
    def test_pods_that_change_in_the_future_keep_their_node_and_it_is_told(
        self, pods: list[JsonObject]
    ) -> None:
        async def scene() -> None:
            slow = pool(disruption={"consolidateAfter": "30s"})
            async with disrupting(slow, machine("n1", without=["Consolidatable"]), *pods) as found:
                ahead = {"status": {"lastPodEventTime": later(A_YEAR)}}
                await found.change("NodeClaim", "n1-claim", ahead, subresource="status")
                await found.pass_time(600)
                await found.run_pass()

                assert ([], []) == (found.tainted(), found.going())
                assert ("Node", "n1") in found.heard("Unconsolidatable")
                (message,) = set(found.messages("Unconsolidatable"))
                assert later(A_YEAR) in message
                assert is_one_sentence(message)

        run_virtual(scene())

    @pytest.mark.parametrize("lifetime", ["-1h", "soon", ""])
    def test_a_lifetime_that_is_none_does_not_end(self, lifetime: str) -> None:
        async def scene() -> None:
            async with disrupting(pool(), machine("n1")) as found:
                controller = ExpirationController(found.world, Remover(found.world))
                rewrite(
                    found,
                    NodeClaim,
                    "n1-claim",
                    lambda known: replace(known, spec=replace(known.spec, expire_after=lifetime)),
                )
                await found.pass_time(7200)

                assert None is await controller.reconcile(("", "n1-claim"))
                assert [] == found.going()

        run_virtual(scene())

    @in_virtual_time
    async def test_a_protected_pod_that_starts_in_the_future_keeps_its_node(self) -> None:
        odd = running("a", "n1", annotations=PROTECTED_FOR_AN_HOUR, started=later(A_YEAR))
        async with disrupting(pool(), machine("n1"), odd) as found:
            await found.pass_time(7200)
            await found.run_pass()

            assert [] == found.tainted()
            assert ("Node", "n1") in found.heard("DisruptionBlocked")
            said = f'Pod has "{labels.DO_NOT_DISRUPT}" annotation (Pod=default/a)'
            said += " until 2031-01-01T01:00:00Z"
            assert {said} == set(found.messages("DisruptionBlocked"))

    @in_virtual_time
    async def test_a_node_that_turned_bad_in_the_future_is_not_repaired(self) -> None:
        policy = RepairPolicy("BadNode", "False", timedelta(minutes=30))
        cloud = FakeCloud(facts=FACTS, types=TYPES, repair_policies=(policy,))
        odd = machine("n1", node_conditions=[bad(since=A_YEAR)])
        quiet = pool(disruption={"consolidateAfter": "Never"})
        async with disrupting(quiet, odd, cloud=cloud, on=["NodeRepair"]) as found:
            await found.pass_time(7200)
            await found.run_pass()

            assert ([], []) == (found.tainted(), found.going())

    @in_virtual_time
    async def test_a_node_that_drifted_in_the_future_is_replaced_once_and_in_order(self) -> None:
        odd = machine("n1", conditions=[true("Drifted", since=A_YEAR)])
        plain = machine("n2", conditions=[true("Drifted", since=5)])
        pods = (running("a", "n1", cpu="3"), running("b", "n2", cpu="3"))
        async with disrupting(pool(budget="1"), odd, plain, *pods) as found:
            await found.run_pass()
            await found.launch()
            await found.run_pass()

            assert (["n2"], []) == (found.tainted(), found.going())
