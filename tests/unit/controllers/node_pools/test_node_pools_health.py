"""A pool whose machines do not become nodes says so, and begins anew when it is changed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.autoscaler import Bench, JsonObject, bench, kwok_pool
from helpers.clusters import in_virtual_time
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.api.meta import ObjectMeta, OwnerReference
from karpenter.controllers.node_pools.registration_health import (
    RegistrationHealth,
    RegistrationHealthController,
    is_unhealthy,
)
from karpenter.model import labels
from karpenter.model.conditions import find

V1 = "karpenter.sh/v1"
HEALTHY = "NodeRegistrationHealthy"


def pool_of(at: Bench) -> NodePool:
    pool = at.world.mirror(NodePool).get("default")
    assert pool is not None
    return pool


def told(at: Bench) -> tuple[str, str, str]:
    found = find(pool_of(at).status.conditions, HEALTHY)
    return (found.status, found.reason, found.message) if found is not None else ("", "", "")


def claim_of(at: Bench, *, uid: str = "") -> NodeClaim:
    owner = OwnerReference(
        api_version=V1, kind="NodePool", name="default", uid=uid or pool_of(at).metadata.uid
    )
    metadata = ObjectMeta(name="c", labels={labels.NODEPOOL: "default"}, owner_references=(owner,))
    return NodeClaim(metadata=metadata)


async def note(at: Bench, health: RegistrationHealth, outcomes: str, **claim: Any) -> None:
    """Let registrations succeed (s) or fail (f)."""
    for outcome in outcomes:
        if outcome == "s":
            await health.succeeded(claim_of(at, **claim))
        else:
            await health.failed(claim_of(at, **claim), "", "no node came")
        await at.settle()


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        pytest.param("", "Unknown", id="nothing has happened"),
        pytest.param("f", "Unknown", id="DIS-278 one failure"),
        pytest.param("ff", "False", id="DIS-278 two failures"),
        pytest.param("s", "True", id="one success"),
        pytest.param("fs", "True", id="a failure and a success"),
        pytest.param("sfsf", "False", id="two failures among four"),
        pytest.param("ffsss", "True", id="failures are forgotten"),
        pytest.param("ffss", "False", id="two failures among the last four"),
    ],
)
@in_virtual_time
async def test_health(outcomes: str, status: str) -> None:
    async with bench(kwok_pool()) as at:
        await at.reconcile(RegistrationHealthController(at.world), "default")

        await note(at, RegistrationHealth(at.world), outcomes)

        assert status == told(at)[0]


@in_virtual_time
async def test_the_reason_is_that_of_the_launch_when_it_never_got_so_far() -> None:
    async with bench(kwok_pool()) as at:
        health = RegistrationHealth(at.world)
        await note(at, health, "f")

        await health.failed(claim_of(at), "LaunchFailed", "the cloud said no")
        await at.settle()

        assert ("False", "LaunchFailed", "the cloud said no") == told(at)


@in_virtual_time
async def test_without_a_reason_of_its_own_the_registration_failed() -> None:
    async with bench(kwok_pool()) as at:
        await note(at, RegistrationHealth(at.world), "ff")

        assert ("False", "RegistrationFailed", "no node came") == told(at)


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        pytest.param("ff", "s", "False", id="DIS-280 one success does not make up for a False"),
        pytest.param("ff", "sss", "True", id="three successes do"),
        pytest.param("s", "f", "True", id="one failure does not spoil a True"),
        pytest.param("s", "ff", "False", id="two failures do"),
    ],
)
@in_virtual_time
async def test_a_new_process_begins_with_what_the_condition_says(
    before: str, after: str, status: str
) -> None:
    async with bench(kwok_pool()) as at:
        await at.reconcile(RegistrationHealthController(at.world), "default")
        await note(at, RegistrationHealth(at.world), before)

        await note(at, RegistrationHealth(at.world), after)

        assert status == told(at)[0]


@pytest.mark.case("DIS-281")
@in_virtual_time
async def test_a_claim_of_an_earlier_pool_of_that_name_says_nothing() -> None:
    async with bench(kwok_pool()) as at:
        await note(at, RegistrationHealth(at.world), "ff", uid="of-an-earlier-pool")

        assert ("", "", "") == told(at)


POOL_CHANGE = (V1, "NodePool", {"spec": {"weight": 5}})
CLASS_CHANGE = (
    "karpenter.kwok.sh/v1alpha1",
    "KWOKNodeClass",
    {"spec": {"nodeRegistrationDelay": "5s"}},
)


@pytest.mark.case("DIS-279")
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(POOL_CHANGE, id="the pool is edited"),
        pytest.param(CLASS_CHANGE, id="the node class is edited"),
    ],
)
@in_virtual_time
async def test_what_changes_begins_anew(change: tuple[str, str, JsonObject]) -> None:
    api_version, kind, patch = change
    async with bench(kwok_pool()) as at:
        health, controller = RegistrationHealth(at.world), RegistrationHealthController(at.world)
        await at.reconcile(controller, "default")
        await note(at, health, "ff")
        await at.change(api_version, kind, "default", patch)

        await at.reconcile(controller, "default")
        reset = told(at)[0]
        await note(at, health, "f")

        assert ("Unknown", "Unknown") == (reset, told(at)[0])
        node_class = at.world.state.snapshot().node_classes
        generations = [each.metadata.generation for each in node_class.values()]
        assert generations == [pool_of(at).status.node_class_observed_generation]


@in_virtual_time
async def test_a_new_process_takes_nothing_from_what_was_said_before_a_change() -> None:
    async with bench(kwok_pool()) as at:
        await at.reconcile(RegistrationHealthController(at.world), "default")
        await note(at, RegistrationHealth(at.world), "ff")
        await at.change(V1, "NodePool", "default", POOL_CHANGE[2])

        await note(at, RegistrationHealth(at.world), "s")

        assert "True" == told(at)[0]


@in_virtual_time
async def test_what_is_known_of_a_pool_that_does_not_change_stays() -> None:
    async with bench(kwok_pool()) as at:
        controller = RegistrationHealthController(at.world)
        await at.reconcile(controller, "default")
        await note(at, RegistrationHealth(at.world), "s")
        before = pool_of(at)

        await at.reconcile(controller, "default")

        assert before == pool_of(at)


@in_virtual_time
async def test_nothing_is_known_of_a_pool_whose_class_is_missing() -> None:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "missing"}
    async with bench(kwok_pool("default", template={"nodeClassRef": reference})) as at:
        await at.reconcile(RegistrationHealthController(at.world), "default")

        assert ("", "", "") == told(at)


@pytest.mark.case("DIS-281")
@in_virtual_time
async def test_a_claim_of_a_pool_that_is_gone_says_nothing() -> None:
    async with bench(kwok_pool()) as at:
        claim = claim_of(at)
        await at.client.delete(V1, "NodePool", None, "default")
        await at.settle()

        await RegistrationHealth(at.world).succeeded(claim)

        assert not at.has(NodePool, "default")


@in_virtual_time
async def test_health_is_no_part_of_ready() -> None:
    async with bench(kwok_pool()) as at:
        await note(at, RegistrationHealth(at.world), "ff")

        ready = find(pool_of(at).status.conditions, "Ready")
        assert ready is not None
        assert HEALTHY not in ready.message


@in_virtual_time
async def test_others_may_write_to_the_pool_at_the_same_time() -> None:
    async with bench(kwok_pool()) as at:
        health = RegistrationHealth(at.world)
        claim = claim_of(at)
        await at.client.patch(
            "merge", V1, "NodePool", None, "default", {"metadata": {"labels": {"a": "b"}}}
        )

        await health.succeeded(claim)

        assert "True" == told(at)[0]


@given(st.lists(st.booleans(), max_size=8))
def test_only_the_last_four_count(outcomes: list[bool]) -> None:
    expected = sum(not each for each in outcomes[-4:]) >= 2

    assert expected is is_unhealthy(tuple(outcomes))
