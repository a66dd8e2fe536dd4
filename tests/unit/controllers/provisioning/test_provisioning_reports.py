"""Who is told of pods that get no node, and who is not."""

import pytest

from helpers.builders import instance_type, reserved
from helpers.clusters import in_virtual_time
from helpers.provisioning import Provisioning, provisioning, ready_pool, waiting_pod
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import machine

ONE_SLOT = (
    instance_type("small", cpu="2", memory="8Gi", reservations=[reserved("r-s", 1)]),
    instance_type("large", cpu="6", memory="8Gi"),
)


def unschedulable(run: Provisioning) -> float | None:
    """How many pods nobody can serve, as operators see it."""
    name = "karpenter_scheduler_unschedulable_pods_count"
    return run.world.metrics.registry.get_sample_value(name, {"controller": "provisioner"})


@pytest.mark.case("SCH-134")
@in_virtual_time
async def test_pods_that_wait_for_a_reservation_are_not_told_that_they_cannot_be_served() -> None:
    pods = [waiting_pod(f"p{number}", cpu="1.8") for number in range(3)]
    async with provisioning(ready_pool(), *pods, types=ONE_SLOT) as run:
        (claim,) = await run.provision()

        wanted = {each.key: each.values for each in claim.spec.requirements}
        assert ("reserved",) == wanted[labels.CAPACITY_TYPE]
        assert [] == run.events("FailedScheduling")
        assert 0 == unschedulable(run)


@pytest.mark.case("SCH-112")
@in_virtual_time
async def test_a_pool_that_no_type_suits_is_told_and_so_is_the_pod() -> None:
    nowhere = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["nonexistent"]}
    async with provisioning(ready_pool("np", nowhere), waiting_pod("p")) as run:
        made = await run.provision()

        assert () == made
        ((pool, of_pool),) = run.events("NoCompatibleInstanceTypes")
        ((pod, of_pod),) = run.events("FailedScheduling")
        assert ("np", "p") == (pool, pod)
        assert "instance type" in of_pool
        assert "np" in of_pod
        assert 1 == unschedulable(run)


@pytest.mark.case("SCH-125")
@in_virtual_time
async def test_a_pod_is_told_of_a_choice_that_cannot_be_had() -> None:
    picky = {"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 11}
    async with provisioning(ready_pool("np", picky), waiting_pod("p")) as run:
        made = await run.provision()

        assert () == made
        ((pod, message),) = run.events("FailedScheduling")
        assert "p" == pod
        assert "minValues" in message
        assert "11" in message


@pytest.mark.parametrize(
    ("skipped", "place"),
    [
        pytest.param((), "nodeclaim/n1-claim, node/n1", id="of ours"),
        pytest.param(("NodeClaim",), "node/n1", id="of nobody"),
    ],
)
@in_virtual_time
async def test_pods_are_told_of_a_node_that_is_there(skipped: tuple[str, ...], place: str) -> None:
    parts = [each for each in machine("n1") if each["kind"] not in skipped]
    async with provisioning(ready_pool(), *parts) as run:
        await run.at.change("v1", "Node", "n1", {"spec": {"taints": []}})
        await run.at.put(waiting_pod("p"))

        await run.provision()

        told = [("p", f"Pod should schedule on: {place}")]
        assert (told, ()) == (run.events("Nominated"), run.planned.pods_of("n1-claim"))
