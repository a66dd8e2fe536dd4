"""A capacity reservation that is full: a drifted node on it goes first, and its successor follows."""

from typing import Any, Final

from helpers.autoscaler import deployment, gates
from helpers.aws_sandbox import AwsSandbox, aws_sandbox, ec2_pool
from helpers.clusters import in_virtual_time
from karpenter.cloud.aws.simulated.account import ACCOUNT
from karpenter.settings import Settings

QUIET: Final = {"INTERRUPTION_QUEUE": ""}
RESERVED: Final = {
    "key": "karpenter.sh/capacity-type",
    "operator": "In",
    "values": ["reserved"],
}
SETTINGS: Final = Settings(feature_gates=gates(TerminateFirstDrift=True))


def offer(box: AwsSandbox, count: int) -> None:
    """Let the account have a reservation with so many places left."""
    box.account.fleets.reservations["cr-1"] = count
    box.account.gaps.reservations[:] = [
        {
            "CapacityReservationId": "cr-1",
            "InstanceType": "m5.large",
            "AvailabilityZone": "us-west-2a",
            "InstanceMatchCriteria": "targeted",
            "OwnerId": ACCOUNT,
            "State": "active",
            "AvailableInstanceCount": count,
        }
    ]


def names(box: AwsSandbox) -> list[str]:
    return [claim["metadata"]["name"] for claim in box.run.claims]


@in_virtual_time
async def test_a_drifted_node_on_a_full_reservation_is_terminated_first() -> None:
    async with aws_sandbox(
        ec2_pool(RESERVED), environment=QUIET, settings=SETTINGS, starts=False
    ) as box:
        run = box.run
        offer(box, 1)
        await box.change_class(capacityReservationSelectorTerms=[{"id": "cr-1"}])
        run.start()
        await run.apply(deployment("web", 1))
        await run.until(lambda: len(run.running) == 1)
        offer(box, 0)
        (old,) = names(box)
        await run.pass_time(120)

        label: dict[str, Any] = {"spec": {"template": {"metadata": {"labels": {"release": "two"}}}}}
        await run.client.patch("merge", "karpenter.sh/v1", "NodePool", None, "default", label)
        await run.until(lambda: old not in names(box), seconds=600)
        offer(box, 1)
        await run.until(lambda: len(run.running) == 1, seconds=600)

        (claim,) = run.claims
        assert "two" == claim["metadata"]["labels"]["release"]
        assert "cr-1" == claim["metadata"]["labels"]["karpenter.k8s.aws/capacity-reservation-id"]
