"""A pass turns pods that wait into NodeClaims with exactly the fields that were planned."""

import asyncio
from typing import Any

import pytest

from helpers.autoscaler import FakeCloud
from helpers.builders import instance_type
from helpers.cluster_texts import class_ref
from helpers.clusters import in_virtual_time
from helpers.provisioning import FACTS, provisioning, ready_pool, waiting_pod
from karpenter.api.karpenter import NodeClaim
from karpenter.api.node_classes import kwok_labels
from karpenter.cloud.provider import CloudError
from karpenter.controllers.provisioning import creation, planner
from karpenter.model import labels
from karpenter.scheduling.packing import packer
from karpenter.state.drift_hash import NODEPOOL_HASH_VERSION
from unit.controllers.disruption.disruption_bench import machine, running

KEEP = {"key": "team", "value": "a", "effect": "NoSchedule"}


async def stored(run: Any, claim: NodeClaim) -> dict[str, Any]:
    found: dict[str, Any] = await run.at.client.get(
        "karpenter.sh/v1", "NodeClaim", None, claim.metadata.name
    )
    return found


@pytest.mark.case("SCH-1")
@in_virtual_time
async def test_a_pod_that_waits_gets_a_claim_that_can_hold_it() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        (claim,) = await run.provision()

        assert {"cpu": "1", "memory": "64Mi", "pods": "1"} == claim.spec.resources.requests


@pytest.mark.case("SCH-115")
@in_virtual_time
async def test_a_claim_says_where_it_comes_from_and_what_it_may_become() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        (claim,) = await run.provision()

        body = await stored(run, claim)
        pool = await run.at.client.get("karpenter.sh/v1", "NodePool", None, "np")
        metadata, spec = body["metadata"], body["spec"]
        by_key = {entry["key"]: entry for entry in spec["requirements"]}
        assert [
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodePool",
                "name": "np",
                "uid": pool["metadata"]["uid"],
                "blockOwnerDeletion": True,
            }
        ] == metadata["ownerReferences"]
        assert "np-" == metadata["generateName"]
        assert metadata["name"].startswith("np-")
        assert 8 == len(metadata["name"])
        assert [labels.TERMINATION] == metadata["finalizers"]
        assert {labels.NODEPOOL: "np", kwok_labels.NODE_CLASS: "default"} == metadata["labels"]
        assert ["np"] == by_key[labels.NODEPOOL]["values"]
        assert 6 == len(by_key[labels.INSTANCE_TYPE]["values"])
        assert (
            sorted(by_key[labels.INSTANCE_TYPE]["values"])
            == (by_key[labels.INSTANCE_TYPE]["values"])
        )
        assert class_ref() == (spec["nodeClassRef"])


@pytest.mark.case("SCH-123")
@in_virtual_time
async def test_what_the_template_says_is_on_the_claim() -> None:
    pool = ready_pool(
        "np",
        {"key": "tier", "operator": "In", "values": ["gold"]},
        metadata={"labels": {"team": "a"}, "annotations": {labels.DO_NOT_DISRUPT: "true"}},
        template={
            "taints": [KEEP],
            "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
            "expireAfter": "24h",
            "terminationGracePeriod": "10s",
        },
    )
    pod = waiting_pod(tolerations=[{"operator": "Exists"}])
    async with provisioning(pool, pod) as run:
        (claim,) = await run.provision()

        body = await stored(run, claim)
        annotations = body["metadata"]["annotations"]
        assert "a" == body["metadata"]["labels"]["team"]
        assert "gold" == body["metadata"]["labels"]["tier"]
        assert "true" == annotations[labels.DO_NOT_DISRUPT]
        assert NODEPOOL_HASH_VERSION == annotations[labels.NODEPOOL_HASH_VERSION]
        assert annotations[labels.NODEPOOL_HASH].isdigit()
        assert "false" == annotations[labels.MIN_VALUES_RELAXED]
        assert [KEEP] == body["spec"]["taints"]
        assert [{"key": "cni", "effect": "NoExecute"}] == body["spec"]["startupTaints"]
        assert ("24h", "10s") == (
            body["spec"]["expireAfter"],
            body["spec"]["terminationGracePeriod"],
        )


@pytest.mark.row("S2-09")
@in_virtual_time
async def test_pods_that_need_several_nodes_get_them_in_one_pass() -> None:
    pods = [waiting_pod(f"web-{number}", cpu="3") for number in range(5)]
    types = (instance_type("four", cpu="4", memory="8Gi"),)
    async with provisioning(ready_pool(), *pods, types=types) as run:
        claims = await run.provision()

        assert 5 == len(claims)
        assert 5 == len({claim.metadata.name for claim in claims})


@pytest.mark.case("SCH-20")
@in_virtual_time
async def test_no_pass_is_made_while_a_claim_has_no_machine() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        (first,) = await run.provision()
        await run.at.put(waiting_pod("later"))
        run.batcher.trigger("later")
        before = [await run.provisioner.step(), len(run.claims)]

        await run.launch(first)
        await asyncio.wait_for(run.provisioner.step(), 60)

        assert [0.2, 1] == before
        assert 1 == len(run.claims)
        assert {"web", "later"} == {
            pod.metadata.name for pod in run.planned.pods_of(first.metadata.name)
        }


@in_virtual_time
async def test_in_flight_capacity_is_counted_and_nominated() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        (claim,) = await run.provision()
        await run.launch(claim)

        again = await run.provision()

        machine = run.world.state.snapshot().node(claim.metadata.name)
        assert () == again
        assert machine is not None
        assert machine.is_nominated(run.at.clock.now())


@in_virtual_time
async def test_pods_are_told_where_they_are_expected() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        (claim,) = await run.provision()

        ((pod, message),) = run.events("Nominated")
        assert "web" == pod
        assert f"nodeclaim/{claim.metadata.name}" in message


@pytest.mark.case("SCH-21")
@in_virtual_time
async def test_without_a_dynamic_pool_pods_are_not_placed_and_not_told() -> None:
    async with provisioning(waiting_pod()) as run:
        await run.provision()
        await run.provision()

        assert [] == run.claims
        assert [] == run.events("FailedScheduling")
        assert 1 == len(run.lines("no dynamic nodepools found"))


@in_virtual_time
async def test_a_pod_nobody_can_serve_is_told_why_once() -> None:
    async with provisioning(ready_pool(), waiting_pod(cpu="512")) as run:
        await run.provision()
        await run.provision()

        (line,) = run.lines("could not schedule pod")
        told = run.events("FailedScheduling")
        assert {"namespace": "default", "name": "web"} == line["Pod"]
        assert "nodepool np" in line["error"]
        assert ("web", f"Failed to schedule pod, {line['error']}") == told[0]
        assert 1.0 == run.world.metrics.registry.get_sample_value(
            "karpenter_scheduler_unschedulable_pods_count", {"controller": "provisioner"}
        )


@in_virtual_time
async def test_the_log_tells_of_a_pass_in_the_words_tools_look_for() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        (claim,) = await run.provision()

        (found,) = run.lines("found provisionable pod(s)")
        (computed,) = run.lines("computed new nodeclaim(s) to fit pod(s)")
        (created,) = run.lines("created nodeclaim")
        assert "default/web" == found["Pods"]
        assert (1, 1) == (computed["nodeclaims"], computed["pods"])
        assert ({"name": "np"}, {"name": claim.metadata.name}) == (
            created["NodePool"],
            created["NodeClaim"],
        )


@in_virtual_time
async def test_what_is_made_is_counted() -> None:
    async with provisioning(ready_pool(), waiting_pod()) as run:
        await run.provision()

        sample = run.world.metrics.registry.get_sample_value
        made = {"reason": "provisioned", "nodepool": "np", "min_values_relaxed": "false"}
        assert 1.0 == sample("karpenter_nodeclaims_created_total", made)
        assert 1.0 == sample("karpenter_pods_scheduling_decision_duration_seconds_count")
        assert 1.0 == sample(
            "karpenter_scheduler_scheduling_duration_seconds_count", {"controller": "provisioner"}
        )
        assert 1.0 == sample(
            "karpenter_scheduler_pending_pods_by_effective_zone_count",
            {"controller": "provisioner", "zone": "flexible"},
        )


@in_virtual_time
async def test_a_pool_whose_types_cannot_be_had_is_skipped_without_an_event() -> None:
    cloud = FakeCloud(facts=FACTS, types=())
    async with provisioning(ready_pool(), waiting_pod(), cloud=cloud) as run:
        await run.provision()

        (line,) = run.lines("skipping nodepool")
        assert {"name": "np"} == line["NodePool"]
        assert [] == run.events("NoCompatibleInstanceTypes")


@in_virtual_time
async def test_one_pool_whose_types_cannot_be_had_does_not_stop_the_others() -> None:
    cloud = FakeCloud(
        facts=FACTS,
        types=(instance_type("four", cpu="4", memory="8Gi"),),
        failures={"instance_types": [CloudError("the cloud is away")]},
    )
    async with provisioning(ready_pool("a"), ready_pool("b"), waiting_pod(), cloud=cloud) as run:
        (claim,) = await run.provision()

        assert "b" == claim.metadata.labels[labels.NODEPOOL]


@in_virtual_time
async def test_a_cloud_that_does_not_answer_ends_the_pass() -> None:
    cloud = FakeCloud(facts=FACTS, failures={"instance_types": [TimeoutError()]})
    async with provisioning(ready_pool(), waiting_pod(), cloud=cloud) as run:
        with pytest.raises(TimeoutError):
            await run.provision()

        assert [] == run.claims


@in_virtual_time
async def test_a_limit_that_was_passed_meanwhile_is_respected() -> None:
    pool = ready_pool(limits={"cpu": "100"})
    async with provisioning(pool, waiting_pod()) as run:
        (first,) = await run.provision()
        await run.launch(first, cpu="4")
        await run.at.put(waiting_pod("second", cpu="3.5"))
        planned = await run.provisioner._planner.plan(())
        await run.at.change("karpenter.sh/v1", "NodePool", "np", {"spec": {"limits": {"cpu": "3"}}})

        made = await run.provisioner._create(planned)

        assert () == made
        (line,) = run.lines("creating nodeclaim")
        assert "cpu of 4 is over the limit of 3" in line["error"]


@pytest.mark.parametrize(
    ("hold", "is_new", "why"),
    [
        pytest.param([], False, "nodepool np is gone", id="is gone"),
        pytest.param([], True, "nodepool np is gone", id="was made anew"),
        pytest.param(["example.com/hold"], False, "nodepool np is being deleted", id="is going"),
    ],
)
@in_virtual_time
async def test_nothing_is_made_for_a_pool_that_meanwhile(
    hold: list[str], is_new: bool, why: str
) -> None:
    pool = ready_pool()
    async with provisioning(pool, waiting_pod()) as run:
        planned = await run.provisioner._planner.plan(())
        await run.at.change("karpenter.sh/v1", "NodePool", "np", {"metadata": {"finalizers": hold}})
        await run.at.client.delete("karpenter.sh/v1", "NodePool", None, "np")
        await run.at.put(*([pool] if is_new else []))

        made = await run.provisioner._create(planned)

        assert ((), [why]) == (made, [each["error"] for each in run.lines("creating nodeclaim")])


@in_virtual_time
async def test_a_name_that_is_taken_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(("np-taken", "np-taken", "np-free"))
    monkeypatch.setattr(creation, "draw_name", lambda *_: next(names))
    async with provisioning(ready_pool(), waiting_pod()) as run:
        (first,) = await run.provision()
        await run.launch(first, cpu="1")
        await run.at.put(waiting_pod("second", cpu="3"))

        (second,) = await run.provision()

        assert ("np-taken", "np-free") == (first.metadata.name, second.metadata.name)


@in_virtual_time
async def test_a_pool_is_complained_about_once_and_again_after_it_was_well() -> None:
    cloud = FakeCloud(facts=FACTS, types=())
    async with provisioning(ready_pool(), waiting_pod(), cloud=cloud) as run:
        counts = []
        for types in ((), (), (instance_type("tiny", cpu="100m"),), ()):
            cloud.types = types
            await run.provision()
            counts.append(len(run.lines("skipping nodepool")))

        assert [1, 1, 1, 2] == counts


@in_virtual_time
async def test_pods_of_one_node_that_goes_are_planned_for_although_nobody_waits() -> None:
    staying, full = machine("n1"), running("full", "n1", cpu="3")
    objects = (ready_pool(), *staying, full, *machine("n2"), running("a", "n2", cpu="2"))
    async with provisioning(*objects) as run:
        await run.at.client.delete("karpenter.sh/v1", "NodeClaim", None, "n2-claim")
        await run.at.settle()

        (claim,) = await run.provision()

        assert ["a"] == [pod.metadata.name for pod in run.planned.pods_of(claim.metadata.name)]


@pytest.mark.case("SCH-22")
@in_virtual_time
async def test_a_pod_that_is_refused_does_not_hold_up_others() -> None:
    refused = waiting_pod("refused", nodeSelector={"kubernetes.io/hostname": "red"})
    async with provisioning(ready_pool(), refused, waiting_pod()) as run:
        (claim,) = await run.provision()

        assert ["web"] == [pod.metadata.name for pod in run.planned.pods_of(claim.metadata.name)]
        assert ["refused"] == [name for name, _ in run.events("FailedScheduling")]
        assert 1.0 == run.world.metrics.registry.get_sample_value(
            "karpenter_scheduler_ignored_pods_count"
        )


def let_time_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "_LONGEST_PLANNING", 0.0)
    monkeypatch.setattr(packer, "_PODS_BETWEEN_TIME_CHECKS", 1)


@in_virtual_time
async def test_pods_the_time_did_not_suffice_for_come_first_in_the_next_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_time_run_out(monkeypatch)
    pods = [waiting_pod(f"web-{number}") for number in range(3)]
    async with provisioning(ready_pool(), *pods) as run:
        made = await run.provision()
        monkeypatch.undo()
        late = set(run.provisioner._first)

        (claim,) = await run.provision()

        held = run.planned.pods_of(claim.metadata.name)
        assert () == made
        assert 3 == len(late)
        assert late == {pod.metadata.uid for pod in held}
        assert [] == run.events("FailedScheduling")


@in_virtual_time
async def test_a_pass_that_ran_out_of_time_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_time_run_out(monkeypatch)
    async with provisioning(ready_pool(), waiting_pod()) as run:
        await run.provision()

        await asyncio.wait_for(run.batcher.batch(), 5)
