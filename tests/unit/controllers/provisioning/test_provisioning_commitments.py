"""Commitments are told how much of them is used; those that cannot count are warned of."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from helpers.autoscaler import Bench, FakeCloud, JsonObject, gates
from helpers.builders import offering, priced_type, savings_plan
from helpers.clusters import in_virtual_time
from helpers.provisioning import FACTS, provisioning, ready_pool, waiting_pod
from karpenter.api.karpenter import Commitment
from karpenter.controllers.mirrors import kinds_to_follow
from karpenter.controllers.provisioning.commitments import CommitmentController
from karpenter.inquiry.live import with_commitments
from karpenter.model import labels
from karpenter.model.conditions import find, timestamp
from karpenter.settings import MinTypes, Settings
from karpenter.state.snapshot import Snapshot

ON = Settings(
    packing="cheapest",
    packing_node_cost=0.0,
    packing_min_types=MinTypes(1, 1),
    feature_gates=gates(Commitments=True),
)
L = priced_type(
    "l", 8, ways=[offering("z1", labels.ON_DEMAND, 0.36), offering("z1", labels.SPOT, 0.15)]
)


def plan(name: str = "plan", **spec: Any) -> JsonObject:
    wanted = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["l"]}]
    stated = {"type": "SavingsPlan", "requirements": wanted, "hourly": "0.27", "discount": "25%"}
    return {
        "apiVersion": "cost.karpenter.sh/v1alpha1",
        "kind": "Commitment",
        "metadata": {"name": name},
        "spec": {**stated, **spec},
    }


def seen(at: Bench, name: str = "plan") -> Commitment:
    found = at.world.mirror(Commitment).get(name)
    assert found is not None
    return found


def verdict(at: Bench, kind: str = "Ready", name: str = "plan") -> tuple[str, str]:
    condition = find(seen(at, name).status.conditions, kind)
    assert condition is not None
    return condition.status, condition.reason


@in_virtual_time
async def test_the_controller_launches_what_is_paid_and_says_so() -> None:
    pods = [waiting_pod(f"p{n}", cpu="1", memory="1Gi") for n in range(8)]
    async with provisioning(ready_pool(), *pods, plan(), types=(L,), settings=ON) as run:
        (claim,) = await run.provision()

        (way,) = (r for r in claim.spec.requirements if r.key == labels.CAPACITY_TYPE)
        assert (labels.ON_DEMAND,) == way.values


@in_virtual_time
async def test_without_the_gate_it_is_not_even_listed() -> None:
    pods = [waiting_pod(f"p{n}", cpu="1", memory="1Gi") for n in range(8)]
    off = Settings(packing="cheapest", packing_node_cost=0.0, packing_min_types=MinTypes(1, 1))
    required, optional = kinds_to_follow(off, ())
    assert Commitment not in (*required, *optional)
    async with provisioning(ready_pool(), *pods, plan(), types=(L,), settings=off) as run:
        (claim,) = await run.provision()

        (way,) = (r for r in claim.spec.requirements if r.key == labels.CAPACITY_TYPE)
        assert labels.SPOT in way.values


@in_virtual_time
async def test_its_status_says_what_is_used_and_left() -> None:
    async with provisioning(ready_pool(), plan(), types=(L,), settings=ON) as run:
        again = await run.at.reconcile(CommitmentController(run.world), "")

        status = seen(run.at).status
        assert ("0.0000", "0.2700", 0) == (status.used_hourly, status.left_hourly, status.machines)
        assert (("True", "Ready"), ("False", "NotSoon")) == (
            verdict(run.at),
            verdict(run.at, "Expiring"),
        )
        assert 300 == again
        registry = run.world.metrics.registry
        labelled = {"commitment": "plan"}
        assert 0.27 == registry.get_sample_value("karpenter_commitment_left_hourly", labelled)
        assert 0.0 == registry.get_sample_value("karpenter_commitment_used_hourly", labelled)
        assert [] == run.events("InvalidCommitment")


@in_virtual_time
async def test_one_that_expires_soon_says_so() -> None:
    async with provisioning(ready_pool(), types=(L,), settings=ON) as run:
        soon = timestamp(run.world.clock.now() + timedelta(days=10))
        await run.world.create(Commitment, plan(expires=soon))

        await run.at.reconcile(CommitmentController(run.world), "")

        assert ("True", "ExpiresSoon") == verdict(run.at, "Expiring")
        assert "True" == verdict(run.at)[0]


@in_virtual_time
async def test_one_that_has_expired_is_a_warning_once() -> None:
    past = plan(expires="2020-01-01T00:00:00Z")
    async with provisioning(ready_pool(), past, types=(L,), settings=ON) as run:
        controller = CommitmentController(run.world)
        await run.at.reconcile(controller, "")
        await run.at.reconcile(controller, "")

        assert ("False", "Expired") == verdict(run.at)
        assert [("plan", "it expired at 2020-01-01T00:00:00Z")] == run.events("InvalidCommitment")
        assert seen(run.at).status.used_hourly is None


@in_virtual_time
async def test_one_that_nothing_matches_is_a_warning() -> None:
    wanted = [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["nobody"]}]
    async with provisioning(
        ready_pool(), plan(requirements=wanted), types=(L,), settings=ON
    ) as run:
        await run.at.reconcile(CommitmentController(run.world), "")

        assert ("False", "NoMatchingOfferings") == verdict(run.at)
        ((name, message),) = run.events("InvalidCommitment")
        assert ("plan", True) == (name, "no on-demand offering" in message)


class Committed(FakeCloud):
    """A cloud whose account has a Savings Plan."""

    def commitments(self) -> Sequence[Commitment]:
        return (savings_plan("sp-1", "0.27", types=["l"]),)

    async def refresh_commitments(self) -> None:
        """Nothing to read."""


@in_virtual_time
async def test_what_the_cloud_reports_counts_like_what_is_declared() -> None:
    pods = [waiting_pod(f"p{n}", cpu="1", memory="1Gi") for n in range(8)]
    cloud = Committed(facts=FACTS, types=(L,))
    async with provisioning(ready_pool(), *pods, cloud=cloud, settings=ON) as run:
        (claim,) = await run.provision()

        (way,) = (r for r in claim.spec.requirements if r.key == labels.CAPACITY_TYPE)
        assert (labels.ON_DEMAND,) == way.values


@in_virtual_time
async def test_a_declared_object_takes_the_place_of_what_the_cloud_reports() -> None:
    pods = [waiting_pod(f"p{n}", cpu="1", memory="1Gi") for n in range(8)]
    cloud = Committed(facts=FACTS, types=(L,))
    half = plan("sp-1", share="50%")
    async with provisioning(ready_pool(), *pods, half, cloud=cloud, settings=ON) as run:
        (claim,) = await run.provision()
        await run.at.reconcile(CommitmentController(run.world), "")

        (way,) = (r for r in claim.spec.requirements if r.key == labels.CAPACITY_TYPE)
        assert labels.SPOT in way.values
        assert "0.1350" == seen(run.at, "sp-1").status.left_hourly


@in_virtual_time
async def test_a_plan_of_a_live_cluster_counts_what_the_account_has() -> None:
    cloud = Committed(facts=FACTS, types=(L,))

    found = await with_commitments(Snapshot(), cloud)

    assert ["sp-1"] == list(found.commitments)
    assert {} == (await with_commitments(Snapshot(), FakeCloud(facts=FACTS))).commitments
