"""Liveness and expiration: what takes too long is given up, to the second."""

from datetime import timedelta

import pytest

from helpers.autoscaler import FakeCloud, run_in_background
from helpers.claims import NAME, claim, count, disrupted, is_going, lifecycle, node
from helpers.clusters import in_virtual_time
from helpers.manifests import condition
from karpenter.api.karpenter import NodeClaim, NodeClaimSpec, NodeClaimStatus
from karpenter.api.meta import Condition, ObjectMeta
from karpenter.clock import EPOCH
from karpenter.cloud.provider import CloudError, CreateError
from karpenter.controllers.lifecycle.expiration import ExpirationController
from karpenter.controllers.lifecycle.liveness import RemainingTime, patience_with
from karpenter.controllers.lifecycle.removal import Remover
from karpenter.disruption.methods.expiration import expires_at
from karpenter.telemetry.capacity import termination_mode


def aged(**since: tuple[str, float]) -> NodeClaim:
    """A claim made at the beginning, with conditions: status, and seconds since when."""
    return NodeClaim(
        metadata=ObjectMeta(name=NAME, creation_timestamp=EPOCH),
        status=NodeClaimStatus(
            conditions=tuple(
                Condition(
                    type=kind,
                    status=status,
                    last_transition_time=EPOCH + timedelta(seconds=seconds),
                )
                for kind, (status, seconds) in since.items()
            )
        ),
    )


@pytest.mark.parametrize(
    ("given", "seconds", "expected"),
    [
        pytest.param(
            aged(Launched=("Unknown", 0), Registered=("Unknown", 0)),
            299,
            RemainingTime(1.0),
            id="DIS-37 launching for 4m59s: kept",
        ),
        pytest.param(
            aged(Launched=("Unknown", 0), Registered=("Unknown", 0)),
            300,
            RemainingTime(reason="launch_timeout"),
            id="DIS-37 launching for 5m: given up",
        ),
        pytest.param(
            aged(Launched=("True", 10), Registered=("Unknown", 0)),
            899,
            RemainingTime(1.0),
            id="DIS-38 no node for 14m59s: kept",
        ),
        pytest.param(
            aged(Launched=("True", 10), Registered=("Unknown", 0)),
            900,
            RemainingTime(reason="registration_timeout"),
            id="DIS-38 no node for 15m: given up",
        ),
        pytest.param(
            aged(Launched=("True", 10), Registered=("True", 20), Initialized=("Unknown", 0)),
            3 * 3600,
            RemainingTime(),
            id="DIS-39 registered and never initialized: kept",
        ),
        pytest.param(
            aged(Launched=("True", 10), Registered=("Unknown", 600)),
            1499,
            RemainingTime(1.0),
            id="DIS-40 measured from the condition, not from creation: kept",
        ),
        pytest.param(
            aged(Launched=("True", 10), Registered=("Unknown", 600)),
            1500,
            RemainingTime(reason="registration_timeout"),
            id="DIS-40 measured from the condition, not from creation: given up",
        ),
        pytest.param(
            aged(),
            300,
            RemainingTime(reason="launch_timeout"),
            id="DIS-37 without conditions, from creation",
        ),
    ],
)
def test_how_long_a_claim_may_take(
    given: NodeClaim, seconds: float, expected: RemainingTime
) -> None:
    assert expected == patience_with(given, now=EPOCH + timedelta(seconds=seconds))


@pytest.mark.case("DIS-37")
@in_virtual_time
async def test_a_claim_that_cannot_launch_is_given_up_after_five_minutes() -> None:
    cloud = FakeCloud(failures={"create": [CreateError("NoQuota", "ask for more")] * 1000})
    async with lifecycle(claim(), cloud=cloud) as run:
        task = run_in_background([run.controller])
        await run.bench.clock.sleep(299 - run.bench.clock.monotonic())
        assert not run.is_gone

        await run.bench.clock.sleep(1.5)
        task.cancel()

        assert run.is_gone
        assert {"launch_timeout": 1} == disrupted(run.bench)
        assert [(NAME, "NoQuota", "ask for more")] == run.health.told


@pytest.mark.case("DIS-37")
@in_virtual_time
async def test_of_two_errors_the_one_that_is_no_race_is_told_and_the_other_noted() -> None:
    cloud = FakeCloud(failures={"create": [CloudError("no such image")]})
    async with lifecycle(claim(), cloud=cloud) as run:
        await run.bench.clock.sleep(300)
        run.wire.losing = lambda request: 409 if request.method == "DELETE" else 0

        with pytest.raises(CloudError, match="no such image") as raised:
            await run.reconcile()

        (note,) = raised.value.__notes__
        assert note.startswith("and also: ")
        assert not run.is_gone


@pytest.mark.case("DIS-38")
@in_virtual_time
async def test_a_claim_whose_node_never_comes_is_given_up_after_fifteen_minutes() -> None:
    async with lifecycle(claim()) as run:
        task = run_in_background([run.controller])
        await run.bench.clock.sleep(899 - run.bench.clock.monotonic())
        assert not run.is_gone

        await run.bench.clock.sleep(1.5)
        task.cancel()

        assert run.is_gone
        assert {"registration_timeout": 1} == disrupted(run.bench)
        assert [(NAME, "RegistrationFailed")] == [told[:2] for told in run.health.told]


@pytest.mark.case("DIS-39")
@in_virtual_time
async def test_a_registered_node_is_not_given_up() -> None:
    waiting = condition("Initialized", "Unknown", "NodeNotReady")
    async with lifecycle(
        claim(stage="Registered", conditions=[waiting]), node(ready="False")
    ) as run:
        await run.bench.clock.sleep(3 * 3600)

        again = await run.reconcile()

        assert again is None
        assert not run.is_gone


@in_virtual_time
async def test_a_failed_deletion_is_tried_again_and_counted_once() -> None:
    late = condition("Registered", "Unknown", "NodeNotFound")
    async with lifecycle(claim(stage="Launched", conditions=[late])) as run:
        await run.bench.clock.sleep(1000)
        run.wire.losing = lambda request: 500 if request.method == "DELETE" else 0
        with pytest.raises(Exception, match="lost"):
            await run.reconcile()
        assert {} == disrupted(run.bench)
        run.wire.mend()

        await run.reconcile()

        assert run.is_gone
        assert {"registration_timeout": 1} == disrupted(run.bench)
        assert 1 == len(run.health.told)


@pytest.mark.parametrize(
    ("reason", "disturbed"),
    [
        pytest.param("garbage_collected", 1, id="a machine that was in use"),
        pytest.param("registration_timeout", 0, id="DIS-38 a machine that was never ours"),
        pytest.param("launch_timeout", 0, id="DIS-37 a machine that never was"),
    ],
)
def test_which_pods_count_as_disturbed(reason: str, disturbed: int) -> None:
    @in_virtual_time
    async def check() -> None:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "app", "namespace": "default"},
            "spec": {"containers": [{"name": "app", "image": "pause"}], "nodeName": "node-1"},
        }
        async with lifecycle(claim(stage="Launched"), node(), pod) as run:
            await Remover(run.bench.world).remove(run.claim, reason)

            assert disturbed == count(run.bench, "pods_disruption_initiated_total")
            assert {reason: 1} == disrupted(run.bench)

    check()


@in_virtual_time
async def test_a_claim_is_given_up_once_whoever_tries_again() -> None:
    async with lifecycle(claim(stage="Registered")) as run:
        remover, given = Remover(run.bench.world), run.claim

        first = await remover.remove(given, "expired")
        before_it_is_seen = await remover.remove(given, "expired")
        await run.bench.settle()
        after_a_restart = await Remover(run.bench.world).remove(run.claim, "expired")

        assert (True, False, False) == (first, before_it_is_seen, after_a_restart)
        assert {"expired": 1} == disrupted(run.bench)


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        pytest.param(None, "graceful", id="no-bound"),
        pytest.param("1h", "eventual", id="some-time"),
        pytest.param("0s", "forceful", id="no-time"),
        pytest.param("1ns", "eventual", id="the-shortest-time"),
        pytest.param("soon", "forceful", id="no-length-of-time"),
    ],
)
def test_termination_mode(period: str | None, expected: str) -> None:
    given = NodeClaim(spec=NodeClaimSpec(termination_grace_period=period))

    assert expected == termination_mode(given)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("1h30m", 5400, id="a-duration"),
        pytest.param("0s", 0, id="at-once"),
        pytest.param("Never", None, id="never"),
        pytest.param("99999999h", None, id="beyond-all-time"),
    ],
)
def test_when_a_claim_expires(text: str, seconds: int | None) -> None:
    given = NodeClaim(
        metadata=ObjectMeta(creation_timestamp=EPOCH), spec=NodeClaimSpec(expire_after=text)
    )

    expected = None if seconds is None else EPOCH + timedelta(seconds=seconds)
    assert expected == expires_at(given)


@in_virtual_time
async def test_a_claim_is_deleted_at_the_very_second_it_expires() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {"containers": [{"name": "app", "image": "pause"}], "nodeName": "node-1"},
    }
    async with lifecycle(claim(stage="Initialized", expireAfter="1h"), node(), pod) as run:
        world = run.bench.world
        born = run.claim.metadata.creation_timestamp
        assert born is not None
        task = run_in_background([ExpirationController(world, Remover(world))])
        left = (born + timedelta(hours=1) - run.bench.clock.now()).total_seconds()
        await run.bench.clock.sleep(left - 0.1)
        assert not run.is_gone

        await run.bench.clock.sleep(0.2)
        task.cancel()

        assert run.is_gone
        assert {"expired": 1} == disrupted(run.bench)
        counted = world.metrics.pods_disruption_initiated_total.collect()
        assert [1.0] == [
            sample.value
            for family in counted
            for sample in family.samples
            if sample.name.endswith("_total")
        ]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(claim(expireAfter="1h"), id="a-claim-that-was-never-launched"),
        pytest.param(
            claim(
                expireAfter="1h",
                stage="Registered",
                metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
            ),
            id="a-claim-that-must-not-be-disrupted",
        ),
    ],
)
def test_expiration_asks_nothing_else(given: dict[str, object]) -> None:
    @in_virtual_time
    async def check() -> None:
        async with lifecycle(given) as run:
            world = run.bench.world
            await run.bench.clock.sleep(3601)

            await run.bench.reconcile(ExpirationController(world, Remover(world)), NAME)

            assert run.is_gone

    check()


@pytest.mark.parametrize(
    ("expire_after", "name", "again"),
    [
        pytest.param("Never", NAME, None, id="a claim that never expires"),
        pytest.param("1h", "gone", None, id="a claim that is gone"),
        pytest.param("1h", NAME, 3600, id="a claim that expires in an hour"),
    ],
)
def test_when_a_claim_is_looked_at_again(expire_after: str, name: str, again: float | None) -> None:
    @in_virtual_time
    async def check() -> None:
        async with lifecycle(claim(expireAfter=expire_after)) as run:
            controller = ExpirationController(run.bench.world, Remover(run.bench.world))

            assert pytest.approx(again, abs=1) == await run.bench.reconcile(controller, name)

    check()


@in_virtual_time
async def test_an_expired_claim_of_another_cloud_is_left_alone() -> None:
    other = claim(expireAfter="1h", node_class=("example.com", "Other"), metadata={})
    async with lifecycle(other) as run:
        world = run.bench.world
        await run.bench.clock.sleep(3601)

        await run.bench.reconcile(ExpirationController(world, Remover(world)), NAME)

        assert not is_going(run.bench, NAME)
