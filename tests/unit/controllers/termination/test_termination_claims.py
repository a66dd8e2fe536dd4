"""A claim that was deleted goes after its nodes and its machine, and leaves nothing behind."""

import pytest

from helpers.clusters import in_virtual_time
from karpenter.cloud.provider import CloudError
from karpenter.controllers.termination.claims import ClaimFinalizer
from karpenter.kube.transport import Response
from karpenter.model.conditions import find
from unit.controllers.termination.termination_bench import leaving, refusal
from unit.controllers.termination.termination_objects import (
    FINALIZER,
    TERMINATION_TIMESTAMP,
    claim,
    node,
    pod,
    provider_id,
)


@pytest.mark.case("DIS-53")
@in_virtual_time
async def test_a_claim_takes_its_node_its_pods_and_its_machine_with_it() -> None:
    async with leaving(claim(), node(), pod()) as run:
        await run.delete("NodeClaim")
        await run.pass_time(2)
        assert run.bench.node("n").metadata.deletion_timestamp is not None
        assert ["a"] == run.evictions
        assert [] == run.cloud.calls_of("delete")

        await run.reap()
        await run.until(lambda: not run.has_claim())

        assert not run.has_node()
        assert {} == run.cloud.instances
        labels = {"nodepool": "np", "capacity_type": "spot", "zone": "z1"}
        assert 1 == run.counted("nodeclaims_terminated_total", **labels)
        assert 1 == run.counted("nodeclaims_termination_duration_seconds_count", nodepool="np")


@pytest.mark.case("DIS-54")
@in_virtual_time
async def test_a_node_takes_its_claim_with_it() -> None:
    async with leaving(claim(), node(), pod()) as run:
        await run.delete("Node")
        await run.pass_time(2)
        assert run.bench.claim("n").metadata.deletion_timestamp is not None
        assert ["a"] == run.evictions

        await run.reap()
        await run.until(lambda: not run.has_claim() and not run.has_node())

        assert {} == run.cloud.instances


@pytest.mark.case("DIS-55")
@in_virtual_time
async def test_a_claim_that_was_never_launched_goes_at_once() -> None:
    async with leaving(claim(registered=False, machine="")) as run:
        await run.delete("NodeClaim")
        await run.pass_time(1)

        assert not run.has_claim()
        assert [] == run.cloud.calls_of("delete")
        pool = {"nodepool": "np"}
        assert 1 == run.counted("nodeclaims_termination_duration_seconds_count", **pool)
        assert 0 == run.counted("nodeclaims_instance_termination_duration_seconds_count", **pool)


@pytest.mark.case("DIS-56")
@in_virtual_time
async def test_the_node_of_a_claim_that_has_not_registered_is_left_alone() -> None:
    async with leaving(claim(registered=False), node()) as run:
        await run.delete("NodeClaim")
        await run.until(lambda: not run.has_claim())

        assert run.bench.node("n").metadata.deletion_timestamp is None
        assert ["n", "n"] == run.cloud.calls_of("delete")


@pytest.mark.case("DIS-57")
@in_virtual_time
async def test_a_machine_is_ended_only_when_both_of_its_nodes_are_gone() -> None:
    second = node("n2", machine=provider_id("n"))
    async with leaving(claim(), node(), second, pod(on="n2", held="true")) as run:
        await run.delete("NodeClaim")
        await run.until(lambda: not run.has_node("n"))
        await run.pass_time(30)
        assert run.bench.node("n2").metadata.deletion_timestamp is not None
        assert [] == run.cloud.calls_of("delete")

        await run.delete("Pod", "a", grace_period=0)
        await run.until(lambda: not run.has_claim())

        assert not run.has_node("n2")
        assert {} == run.cloud.instances


@pytest.mark.case("DIS-57")
@in_virtual_time
async def test_no_machine_is_ended_by_the_claim_while_a_node_is_there() -> None:
    # Without our finalizer nobody drains the nodes, so only the claim could end the machine
    held = ["example.com/slow"]
    nodes = [node(name, machine=provider_id("n"), finalizers=held) for name in ("n", "n2")]
    async with leaving(claim(), *nodes) as run:
        await run.delete("NodeClaim")
        await run.pass_time(30)
        await run.change("v1", "Node", "n", {"metadata": {"finalizers": []}})
        await run.pass_time(30)
        assert [] == run.cloud.calls_of("delete")

        await run.change("v1", "Node", "n2", {"metadata": {"finalizers": []}})
        await run.until(lambda: not run.has_claim())

        assert ["n", "n"] == run.cloud.calls_of("delete")


@pytest.mark.case("DIS-58")
@in_virtual_time
async def test_the_claim_goes_five_seconds_after_its_machine_was_told_to() -> None:
    async with leaving(claim(registered=False)) as run:
        await run.delete("NodeClaim")
        await run.pass_time(1)
        assert ("True", "InstanceTerminating") == run.condition("InstanceTerminating")
        assert ["n"] == run.cloud.calls_of("delete")

        waited = await run.until(lambda: not run.has_claim())

        assert 3.9 < waited < 4.5
        assert ["n", "n"] == run.cloud.calls_of("delete")
        assert 1 == run.counted(
            "nodeclaims_instance_termination_duration_seconds_count", nodepool="np"
        )


@pytest.mark.case("DIS-58")
@in_virtual_time
async def test_whatever_changes_the_cloud_is_asked_once_in_five_seconds() -> None:
    async with leaving(claim(registered=False), gone_after=3) as run:
        await run.delete("NodeClaim")
        for number in range(9):
            await run.pass_time(1)
            labels = {"metadata": {"labels": {"touched": str(number)}}}
            await run.change("karpenter.sh/v1", "NodeClaim", "n", labels)

        assert ["n", "n"] == run.cloud.calls_of("delete")
        statuses = [path for _, path, _ in run.transport.writes if path.endswith("/n/status")]
        assert 1 == len(statuses)
        assert 5.5 < await run.until(lambda: not run.has_claim()) < 6.5


@pytest.mark.case("DIS-59")
@in_virtual_time
async def test_a_cloud_that_fails_is_asked_again_and_the_claim_is_kept() -> None:
    async with leaving(claim(registered=False)) as run:
        run.cloud.failures["delete"] = [CloudError("not now"), CloudError("not now")]
        await run.delete("NodeClaim")
        await run.pass_time(0.5)
        assert [FINALIZER] == list(run.bench.claim("n").metadata.finalizers)
        assert run.condition("InstanceTerminating") is None

        await run.until(lambda: not run.has_claim())

        assert ["n"] * 4 == run.cloud.calls_of("delete")


@pytest.mark.case("DIS-66")
@in_virtual_time
async def test_a_grace_period_becomes_a_deadline_when_the_claim_is_deleted() -> None:
    async with leaving(claim(period="1h"), node(), pod(held="true")) as run:
        await run.delete("NodeClaim")
        await run.pass_time(1)

        annotations = run.bench.claim("n").metadata.annotations
        assert "2030-01-01T01:00:00Z" == annotations[TERMINATION_TIMESTAMP]
        assert ("NodeClaim", "TerminationGracePeriodExpiring") in run.reasons
        assert ("Node", "TerminationGracePeriodExpiring") in run.reasons


@pytest.mark.case("DIS-67")
@in_virtual_time
async def test_a_deadline_that_is_there_already_stays() -> None:
    earlier = {TERMINATION_TIMESTAMP: "2030-01-01T00:30:00Z"}
    async with leaving(claim(period="1h", annotations=earlier), node(), pod(held="true")) as run:
        await run.delete("NodeClaim")
        await run.pass_time(60)

        annotations = run.bench.claim("n").metadata.annotations
        assert "2030-01-01T00:30:00Z" == annotations[TERMINATION_TIMESTAMP]


@pytest.mark.case("DIS-68")
@in_virtual_time
async def test_without_a_grace_period_there_is_no_deadline() -> None:
    async with leaving(claim(), node(), pod(held="true")) as run:
        await run.delete("NodeClaim")
        await run.pass_time(60)

        assert TERMINATION_TIMESTAMP not in run.bench.claim("n").metadata.annotations
        assert ("Node", "TerminationGracePeriodExpiring") not in run.reasons


@pytest.mark.case("DIS-69")
@in_virtual_time
async def test_ready_does_not_change_when_the_machine_is_told_to_end() -> None:
    async with leaving(claim(registered=False), gone_after=9) as run:
        before = find(run.bench.claim("n").status.conditions, "Ready")
        await run.delete("NodeClaim")
        await run.pass_time(2)

        after = run.bench.claim("n").status.conditions
        assert find(after, "InstanceTerminating") is not None
        assert before == find(after, "Ready")


@in_virtual_time
async def test_finalizers_of_others_stay_on_a_claim_of_which_ours_is_gone() -> None:
    theirs = "example.com/audit"
    async with leaving(claim(registered=False, finalizers=[theirs, FINALIZER])) as run:
        await run.delete("NodeClaim")
        await run.pass_time(60)

        assert [theirs] == list(run.bench.claim("n").metadata.finalizers)
        assert ["n", "n"] == run.cloud.calls_of("delete")


@in_virtual_time
async def test_a_claim_without_our_finalizer_is_not_ours_to_end() -> None:
    async with leaving(claim(finalizers=["example.com/audit"])) as run:
        await run.delete("NodeClaim")
        await run.pass_time(60)

        assert [] == run.cloud.calls_of("delete")


@in_virtual_time
async def test_a_claim_that_was_not_deleted_is_not_ours_to_end() -> None:
    async with leaving(claim(registered=False)) as run:
        assert await ClaimFinalizer(run.world).finalize(run.bench.claim("n")) is None

        assert [] == run.cloud.calls
        assert run.has_claim()


@in_virtual_time
async def test_a_claim_whose_end_somebody_else_has_seen_to_is_not_counted() -> None:
    gone = {"/nodeclaims/n": [refusal(404, reason="NotFound")]}
    async with leaving(claim(registered=False, machine=""), answers=gone) as run:
        await run.delete("NodeClaim")
        await run.pass_time(1)

        labels = {"nodepool": "np", "capacity_type": "spot", "zone": "z1"}
        assert 0 == run.counted("nodeclaims_terminated_total", **labels)
        assert [] == run.errors


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        pytest.param("/nodeclaims/n", refusal(409, reason="Conflict"), id="the finalizer"),
        pytest.param("/nodeclaims/n/status", refusal(409, reason="Conflict"), id="the condition"),
        pytest.param("/nodeclaims/n", refusal(500), id="a broken server"),
        pytest.param("/nodeclaims/n/status", refusal(503), id="a server that is not there"),
    ],
)
def test_a_write_that_is_refused_is_made_again(path: str, answer: Response) -> None:
    @in_virtual_time
    async def run_it() -> None:
        async with leaving(claim(registered=False), answers={path: [answer]}) as run:
            await run.delete("NodeClaim")
            await run.until(lambda: not run.has_claim())

            assert {} == run.cloud.instances

    run_it()
