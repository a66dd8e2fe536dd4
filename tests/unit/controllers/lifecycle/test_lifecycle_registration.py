"""Registration: the Node becomes what the claim says, in one write, and once only."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from helpers.autoscaler import FakeCloud
from helpers.claims import (
    NAME,
    PROVIDER_ID,
    UNREGISTERED,
    V1,
    claim,
    count,
    disrupted,
    lifecycle,
    node,
)
from helpers.clusters import in_virtual_time
from helpers.manifests import condition, taint
from karpenter.api.karpenter import NodeClaim
from karpenter.api.nodes import Node
from karpenter.cloud.provider import HookResult
from karpenter.controllers.lifecycle.registration import node_patch, sum_up
from karpenter.kube.errors import ConflictError, ServerError
from karpenter.model import labels

JsonObject = dict[str, Any]
T = taint("example.com/t")
DRIFTED = condition("Drifted", "True")


@dataclass
class Hook:
    """A registration hook that gives the answers it was told, the last one for ever."""

    name: str
    answers: list[HookResult | Exception] = field(default_factory=lambda: [HookResult(True)])

    async def __call__(self, claim: NodeClaim, node: Node) -> HookResult:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def taints_of(found: Node) -> list[tuple[str, str, str]]:
    return [(each.key, each.value, each.effect) for each in found.spec.taints]


@pytest.mark.case("DIS-11")
@in_virtual_time
async def test_without_a_node_a_claim_waits() -> None:
    async with lifecycle(claim(stage="Launched")) as run:
        await run.reconcile()

        assert ("Unknown", "NodeNotFound") == run.condition("Registered")
        assert ("Unknown", "AwaitingReconciliation") == run.condition("Initialized")


@pytest.mark.case("DIS-12")
@in_virtual_time
async def test_a_node_is_registered() -> None:
    async with lifecycle(
        claim(stage="Launched"), node(taints=[UNREGISTERED], ready="False")
    ) as run:
        await run.reconcile()

        found = run.bench.node("node-1")
        assert ("True", "Registered") == run.condition("Registered")
        assert "node-1" == run.claim.status.node_name
        assert "true" == found.metadata.labels[labels.REGISTERED]
        assert [] == taints_of(found)
        assert (labels.TERMINATION,) == found.metadata.finalizers
        assert 1 == count(run.bench, "nodes_created_total", nodepool="default")
        assert [(NAME, "", "")] == run.health.told
        assert [] == run.bench.events.reasons
        told = [line for line in run.bench.lines if line["message"] == "registered nodeclaim"]
        assert [{"name": "node-1"}] == [line["Node"] for line in told]


@pytest.mark.case("DIS-12")
@in_virtual_time
async def test_the_node_is_owned_by_its_claim() -> None:
    async with lifecycle(claim(stage="Launched"), node(taints=[UNREGISTERED])) as run:
        await run.reconcile()

        owner = run.bench.node("node-1").metadata.owner_references[0]
        assert ("karpenter.sh/v1", "NodeClaim", NAME) == (owner.api_version, owner.kind, owner.name)
        assert run.claim.metadata.uid == owner.uid
        assert owner.block_owner_deletion


@pytest.mark.case("DIS-13")
@in_virtual_time
async def test_a_node_without_the_taint_registers_with_a_warning() -> None:
    async with lifecycle(claim(stage="Launched"), node()) as run:
        await run.reconcile()

        assert ("True", "Registered") == run.condition("Registered")
        assert [("NodeClaim", "Warning", "UnregisteredTaintMissing")] == [
            (event.target.kind, event.type, event.reason) for event in run.bench.events.heard
        ]
        said = (
            "Missing karpenter.sh/unregistered taint which prevents registration related race"
            " conditions on Karpenter-managed nodes: Node node-1 joined without it"
        )
        assert run.bench.events.heard[0].message.startswith(said)


@pytest.mark.case("DIS-13")
@in_virtual_time
async def test_no_warning_when_only_the_claim_does_not_know_of_its_registration() -> None:
    registered = node(metadata={"labels": {labels.REGISTERED: "true"}})
    async with lifecycle(claim(stage="Launched"), registered) as run:
        await run.reconcile()

        assert ("True", "Registered") == run.condition("Registered")
        assert [] == run.bench.events.reasons


@pytest.mark.case("DIS-14")
@in_virtual_time
async def test_two_nodes_of_one_instance_are_not_touched() -> None:
    both = [node(name, taints=[UNREGISTERED]) for name in ("node-2", "node-1")]
    async with lifecycle(claim(stage="Launched"), *both) as run:
        before = [run.bench.node(name) for name in ("node-1", "node-2")]
        await run.reconcile()

        assert ("False", "MultipleNodesFound") == run.condition("Registered")
        assert run.message("Registered").endswith(f"{PROVIDER_ID}: node-1, node-2")
        assert before == [run.bench.node(name) for name in ("node-1", "node-2")]
        assert ("False", "UnhealthyDependents") == run.condition("Ready")


@pytest.mark.case("DIS-15")
@in_virtual_time
async def test_the_refusal_stands_until_the_claim_is_given_up() -> None:
    both = [node(name, taints=[UNREGISTERED]) for name in ("node-1", "node-2")]
    async with lifecycle(claim(stage="Launched"), *both) as run:
        await run.bench.clock.sleep(60)
        await run.reconcile()
        await run.bench.client.delete("v1", "Node", None, "node-2")
        await run.bench.settle()

        again = await run.reconcile()
        assert ("False", "MultipleNodesFound") == run.condition("Registered")
        assert again is not None
        assert 890 < again <= 900

        await run.bench.clock.sleep(again)
        await run.reconcile()
        assert run.is_gone
        assert {"registration_timeout": 1} == disrupted(run.bench)


@pytest.mark.case("DIS-16")
@in_virtual_time
async def test_annotations_and_labels_go_to_the_node() -> None:
    given = claim(
        stage="Launched",
        metadata={
            "annotations": {labels.DO_NOT_DISRUPT: "true"},
            "labels": {"team": "a", "kept": "claim"},
        },
    )
    joined = node(taints=[UNREGISTERED], metadata={"labels": {"kept": "node", "own": "1"}})
    async with lifecycle(given, joined) as run:
        await run.reconcile()

        held = run.bench.node("node-1").metadata
        assert "true" == held.annotations[labels.DO_NOT_DISRUPT]
        assert ("a", "claim", "1") == (held.labels["team"], held.labels["kept"], held.labels["own"])


@pytest.mark.parametrize(
    ("held", "node_labels", "expected"),
    [
        pytest.param(
            [],
            {},
            [("example.com/t", "w", "NoSchedule"), ("example.com/s", "", "NoExecute")],
            id="DIS-17 taints of the claim are added",
        ),
        pytest.param(
            [taint("example.com/t", value="v")],
            {},
            [("example.com/t", "v", "NoSchedule"), ("example.com/s", "", "NoExecute")],
            id="DIS-18 a taint that is there keeps its value",
        ),
        pytest.param(
            [taint("example.com/t", "NoExecute", "v")],
            {},
            [
                ("example.com/t", "v", "NoExecute"),
                ("example.com/t", "w", "NoSchedule"),
                ("example.com/s", "", "NoExecute"),
            ],
            id="DIS-18 another effect is another taint",
        ),
        pytest.param(
            [],
            {labels.DO_NOT_SYNC_TAINTS: "true"},
            [],
            id="DIS-19 taints are not synced if told so",
        ),
        pytest.param(
            [],
            {labels.DO_NOT_SYNC_TAINTS: "yes"},
            [("example.com/t", "w", "NoSchedule"), ("example.com/s", "", "NoExecute")],
            id="DIS-20 only the word true tells so",
        ),
    ],
)
def test_taints_of_a_registered_node(
    held: list[JsonObject],
    node_labels: Mapping[str, str],
    expected: list[tuple[str, str, str]],
) -> None:
    @in_virtual_time
    async def check() -> None:
        given = claim(
            stage="Launched",
            taints=[taint("example.com/t", value="w")],
            startupTaints=[taint("example.com/s", "NoExecute")],
        )
        joined = node(taints=[UNREGISTERED, *held], metadata={"labels": node_labels})
        async with lifecycle(given, joined) as run:
            await run.reconcile()

            assert expected == taints_of(run.bench.node("node-1"))
            assert ("True", "Registered") == run.condition("Registered")

    check()


@pytest.mark.case("DIS-21")
@in_virtual_time
async def test_a_startup_taint_that_was_removed_stays_away() -> None:
    given = claim(stage="Launched", startupTaints=[T])
    async with lifecycle(given, node(taints=[UNREGISTERED], ready="False")) as run:
        await run.reconcile()
        assert [("example.com/t", "", "NoSchedule")] == taints_of(run.bench.node("node-1"))
        await run.taint("node-1", [])

        await run.reconcile()

        assert [] == taints_of(run.bench.node("node-1"))


@pytest.mark.case("DIS-21")
@in_virtual_time
async def test_also_when_the_claim_does_not_know_of_its_registration_yet() -> None:
    given = claim(stage="Launched", startupTaints=[T])
    registered = node(ready="False", metadata={"labels": {labels.REGISTERED: "true"}})
    async with lifecycle(given, registered) as run:
        await run.reconcile()

        assert [] == taints_of(run.bench.node("node-1"))


@pytest.mark.case("DIS-22")
@in_virtual_time
async def test_a_hook_that_is_not_ready_keeps_the_node_closed() -> None:
    cloud = FakeCloud(
        registration_hooks=(Hook("a"), Hook("b", [HookResult(False, retry_after=10.0)]))
    )
    given = claim(stage="Launched", metadata={"labels": {"team": "a"}})
    async with lifecycle(given, node(taints=[UNREGISTERED]), cloud=cloud) as run:
        again = await run.reconcile()

        found = run.bench.node("node-1")
        assert "a" == found.metadata.labels["team"]
        assert (labels.TERMINATION,) == found.metadata.finalizers
        assert labels.REGISTERED not in found.metadata.labels
        assert [(labels.UNREGISTERED, "", "NoExecute")] == taints_of(found)
        assert ("Unknown", "RegistrationHookPending") == run.condition("Registered")
        assert "waiting for b" == run.message("Registered")
        assert 10.0 == again


@pytest.mark.case("DIS-22")
@in_virtual_time
async def test_a_hook_that_fails_is_asked_again() -> None:
    cloud = FakeCloud(registration_hooks=(Hook("a", [RuntimeError("boom"), HookResult(True)]),))
    async with lifecycle(claim(stage="Launched"), node(taints=[UNREGISTERED]), cloud=cloud) as run:
        with pytest.raises(RuntimeError, match="boom"):
            await run.reconcile()
        assert ("Unknown", "RegistrationHookPending") == run.condition("Registered")

        await run.reconcile()

        assert ("True", "Registered") == run.condition("Registered")


@pytest.mark.case("DIS-23")
@in_virtual_time
async def test_a_label_of_a_hook_goes_to_claim_and_node() -> None:
    cloud = FakeCloud(registration_hooks=(Hook("a", [HookResult(True, labels={"rack": "7"})]),))
    async with lifecycle(claim(stage="Launched"), node(taints=[UNREGISTERED]), cloud=cloud) as run:
        await run.reconcile()

        assert "7" == run.claim.metadata.labels["rack"]
        assert "7" == run.bench.node("node-1").metadata.labels["rack"]
        assert ("True", "Registered") == run.condition("Registered")


def test_hooks_together_name_all_that_wait_and_the_shortest_wait() -> None:
    verdict = sum_up(
        [
            ("slow", HookResult(False, retry_after=30.0, labels={"rack": "7"})),
            ("done", HookResult(True, labels={"row": "2"}, annotations={"seen": "yes"})),
            ("broken", RuntimeError("boom")),
            ("quick", HookResult(False, retry_after=3.0)),
        ]
    )

    assert ("broken", "quick", "slow") == verdict.pending
    assert 3.0 == verdict.again
    assert "boom" == str(verdict.error)
    assert {"rack": "7", "row": "2"} == verdict.labels
    assert {"seen": "yes"} == verdict.annotations


def test_a_hook_that_is_cancelled_is_no_hook_that_failed() -> None:
    with pytest.raises(asyncio.CancelledError):
        sum_up([("done", HookResult(True)), ("stopped", asyncio.CancelledError())])


@pytest.mark.case("DIS-24")
@in_virtual_time
async def test_a_node_that_is_as_its_claim_says_needs_nothing() -> None:
    async with lifecycle(claim(stage="Launched", taints=[T])) as run:
        await run.join(node(taints=[UNREGISTERED]))
        await run.reconcile()

        assert {} == node_patch(run.claim, run.bench.node("node-1"), is_ready=True)


@pytest.mark.case("DIS-24")
@in_virtual_time
async def test_the_owner_reference_is_added_once() -> None:
    async with lifecycle(claim(stage="Launched")) as run:
        owner = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "name": NAME,
            "uid": run.claim.metadata.uid,
        }
        await run.join(node(taints=[UNREGISTERED], metadata={"ownerReferences": [owner]}))

        await run.reconcile()

        assert 1 == len(run.bench.node("node-1").metadata.owner_references)
        assert ("True", "Registered") == run.condition("Registered")


@in_virtual_time
async def test_a_node_that_changed_meanwhile_is_looked_at_again() -> None:
    async with lifecycle(claim(stage="Launched"), node(taints=[UNREGISTERED])) as run:
        run.wire.losing = lambda request: 409 if "/nodes/" in request.path else 0
        with pytest.raises(ConflictError):
            await run.reconcile()
        assert "True" != run.condition("Registered")[0]
        run.wire.mend()

        await run.reconcile()

        assert ("True", "Registered") == run.condition("Registered")


@in_virtual_time
async def test_a_node_is_written_once_at_registration() -> None:
    async with lifecycle(
        claim(stage="Launched", taints=[T]), node(taints=[UNREGISTERED], ready="False")
    ) as run:
        await run.reconcile()

        assert [("PATCH", "/api/v1/nodes/node-1")] == [
            write for write in run.wire.writes if "/nodes/" in write[1]
        ]


@in_virtual_time
async def test_a_node_that_is_already_leaving_is_not_taken_over() -> None:
    leaving = node(taints=[UNREGISTERED], metadata={"finalizers": ["example.com/wait"]})
    async with lifecycle(claim(stage="Launched"), leaving) as run:
        await run.bench.client.delete("v1", "Node", None, "node-1")
        await run.bench.settle()

        await run.reconcile()

        assert ("Unknown", "NodeNotFound") == run.condition("Registered")
        assert ("example.com/wait",) == run.bench.node("node-1").metadata.finalizers


@in_virtual_time
async def test_a_node_of_ours_that_is_already_leaving_is_still_registered() -> None:
    ours = node(taints=[UNREGISTERED], metadata={"finalizers": [labels.TERMINATION]})
    async with lifecycle(claim(stage="Launched"), ours) as run:
        await run.bench.client.delete("v1", "Node", None, "node-1")
        await run.bench.settle()

        await run.reconcile()

        assert ("True", "Registered") == run.condition("Registered")


@in_virtual_time
async def test_a_registration_counts_only_once_it_is_written_down() -> None:
    async with lifecycle(
        claim(stage="Launched", conditions=[condition("Registered", "Unknown")]),
        node(taints=[UNREGISTERED]),
    ) as run:
        run.wire.losing = lambda request: 409 if request.path.endswith("/status") else 0
        with pytest.raises(ConflictError):
            await run.reconcile()
        assert 0 == count(run.bench, "nodes_created_total")
        run.wire.mend()

        await run.reconcile()

        assert 1 == count(run.bench, "nodes_created_total")
        assert [(NAME, "", "")] == run.health.told


@in_virtual_time
async def test_a_registration_counts_once_when_the_next_step_fails() -> None:
    async with lifecycle(claim(stage="Launched")) as run:
        await run.join(node(taints=[UNREGISTERED]))
        initialized = labels.INITIALIZED.encode()
        run.wire.losing = lambda request: 500 if initialized in request.body else 0
        with pytest.raises(ServerError):
            await run.reconcile()

        assert ("True", "Registered") == run.condition("Registered")
        assert 1 == count(run.bench, "nodes_created_total")
        assert [(NAME, "", "")] == run.health.told


@in_virtual_time
async def test_a_record_that_cannot_be_kept_is_told_and_costs_no_registration() -> None:
    async def broken(claim: NodeClaim) -> None:
        raise ServerError(500, "no record today")

    async with lifecycle(claim(stage="Launched"), node(taints=[UNREGISTERED])) as run:
        run.health.succeeded = broken  # type: ignore[method-assign]
        with pytest.raises(ServerError, match="no record today"):
            await run.reconcile()

        assert ("True", "Registered") == run.condition("Registered")


@in_virtual_time
async def test_what_others_wrote_unseen_is_not_overwritten() -> None:
    async with lifecycle(claim(stage="Launched"), node(taints=[UNREGISTERED])) as run:
        client = run.bench.client
        foreign = {"spec": {"taints": [UNREGISTERED, T]}}
        await client.patch("merge", "v1", "Node", None, "node-1", foreign)
        # the mirrors have not heard of it
        with pytest.raises(ConflictError):
            await run.controller.reconcile(("", NAME))
        await run.bench.settle()

        drifted = {"status": {"conditions": [condition("Launched", "True"), DRIFTED]}}
        await client.patch("merge", V1, "NodeClaim", None, NAME, drifted, subresource="status")
        with pytest.raises(ConflictError):
            await run.controller.reconcile(("", NAME))
        await run.bench.settle()
        await run.reconcile()

        assert [("example.com/t", "", "NoSchedule")] == taints_of(run.bench.node("node-1"))
        assert ("True", "Drifted") == run.condition("Drifted")
        assert ("True", "Registered") == run.condition("Registered")
