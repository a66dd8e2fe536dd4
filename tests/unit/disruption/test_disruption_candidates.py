"""Group G: which machines may be disrupted at all, and the first reason why others may not."""

from datetime import timedelta
from typing import Final

import pytest

from helpers.builders import NOW, condition, launching_node, owner, unmanaged_node
from helpers.disruption import blocked, context_of, found_by, going
from helpers.disruption_objects import LONG_AGO, Standing, machine, pdb_of, pod_on
from karpenter.api.pods import Pod
from karpenter.api.policy import PodDisruptionBudget
from karpenter.disruption.candidates import Blocked, Kind
from karpenter.model import labels as keys
from karpenter.state.nodes import StateNode

DND: Final = {keys.DO_NOT_DISRUPT: "true"}
DAEMON: Final = [owner("DaemonSet", "logs")]
MIRROR: Final = [owner("Node", "n1", api_version="v1")]
DRIFTED: Final = condition("Drifted", at=LONG_AGO)
HOUR: Final = timedelta(hours=1)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(
            unmanaged_node("n1"), "NotManaged", id="DIS-97 a node without a claim is no candidate"
        ),
        pytest.param(
            launching_node("n1"), "NodeNotFound", id="DIS-98 a claim without a node is no candidate"
        ),
        pytest.param(
            machine("n1", initialized=False), "NotInitialized", id="DIS-99 nor one not initialized"
        ),
        pytest.param(machine("n1", deleted=NOW), "Deleting", id="DIS-100 nor one that is deleting"),
        pytest.param(
            machine("n1", marked=True), "Deleting", id="DIS-100 nor one that is marked for deletion"
        ),
        pytest.param(
            machine("n1", claim_conditions=[condition("InstanceTerminating")]),
            "Deleting",
            id="DIS-100 nor one whose instance terminates",
        ),
        pytest.param(
            machine("n1", nominated_until=NOW + timedelta(seconds=15)),
            "Nominated",
            id="DIS-101 a machine nominated 5s ago waits for its pods",
        ),
        pytest.param(
            machine("n1", initialized=False, nominated_until=NOW + timedelta(seconds=15)),
            "NotInitialized",
            id="V15-S33 that it is not initialized goes before its nomination",
        ),
        pytest.param(
            machine("n1", nominated_until=NOW), "", id="DIS-101 20s after its nomination it may go"
        ),
        pytest.param(
            machine("n1", annotations=DND),
            "DoNotDisrupt",
            id="DIS-102 do-not-disrupt on a node holds",
        ),
        pytest.param(
            machine("n1", annotations={keys.DO_NOT_DISRUPT: "false"}),
            "",
            id="DIS-103 false does not",
        ),
        pytest.param(
            machine("n1", annotations={keys.DO_NOT_DISRUPT: "30m"}), "", id="DIS-103 nor does 30m"
        ),
        pytest.param(machine("n1", pool=""), "NodePoolNotFound", id="DIS-104 no label of a pool"),
        pytest.param(machine("n1", pool="gone"), "NodePoolNotFound", id="DIS-105 no such pool"),
        pytest.param(
            machine("n1", claim_conditions=[condition("Rebooting")]),
            "Rebooting",
            id="V15-D36 nobody picks a machine that restarts",
        ),
        pytest.param(
            machine(
                "n1", deleted=NOW, claim_conditions=[condition("Rebooting")], initialized=False
            ),
            "Rebooting",
            id="a restart is named before a deletion, and that before a missing start",
        ),
        pytest.param(
            machine("n1", deleted=NOW, initialized=False),
            "Deleting",
            id="a deletion is named before a missing start",
        ),
        pytest.param(
            machine("n1", instance_type="", capacity_type="", zone=""),
            "",
            id="missing labels of type and place do not matter here",
        ),
    ],
)
def test_a_machine_is_a_candidate_or_has_a_reason(found: StateNode, why: str) -> None:
    assert why == blocked("n1", found)


@pytest.mark.case("DIS-106")
def test_a_pool_without_types_blocks_every_method() -> None:
    nodes = machine("n1", claim_conditions=[DRIFTED])

    assert "NoInstanceTypes" == blocked("n1", nodes, types=())
    assert "NoInstanceTypes" == blocked("n1", nodes, types=(), kind=Kind.EVENTUAL)


@pytest.mark.case("DIS-120")
def test_a_machine_in_a_command_is_no_candidate_and_nobody_is_told() -> None:
    found = context_of(machine("n1"), in_progress=["n1"]).standing(Kind.GRACEFUL)["n1"]

    assert isinstance(found, Blocked)
    assert ("DisruptionInProgress", False) == (found.why, found.has_event)


@pytest.mark.parametrize(
    ("on", "options", "kind", "why"),
    [
        pytest.param(
            pod_on("p", annotations=DND),
            {},
            Kind.EVENTUAL,
            "PodDoNotDisrupt",
            id="DIS-107 a protected pod holds a drifted machine",
        ),
        pytest.param(
            pod_on("p", annotations=DND),
            {"grace_period": "1h"},
            Kind.EVENTUAL,
            "",
            id="DIS-108 unless its claim has a deadline",
        ),
        pytest.param(
            pod_on("p", annotations=DND),
            {"grace_period": "1h"},
            Kind.GRACEFUL,
            "PodDoNotDisrupt",
            id="DIS-109 consolidation waits nevertheless",
        ),
        pytest.param(
            pod_on("p", annotations=DND, owners=DAEMON),
            {},
            Kind.GRACEFUL,
            "PodDoNotDisrupt",
            id="DIS-110 a protected daemon holds",
        ),
        pytest.param(
            pod_on("p", annotations=DND, owners=MIRROR),
            {},
            Kind.GRACEFUL,
            "PodDoNotDisrupt",
            id="DIS-110 a protected mirror pod holds",
        ),
        pytest.param(
            pod_on("p", annotations=DND, deleted=NOW),
            {},
            Kind.GRACEFUL,
            "",
            id="DIS-111 a pod on its way out does not hold",
        ),
        pytest.param(
            pod_on("p", annotations=DND, phase="Succeeded"),
            {},
            Kind.GRACEFUL,
            "",
            id="DIS-111 nor does one that has finished",
        ),
        pytest.param(
            pod_on("p", annotations={keys.DO_NOT_DISRUPT: "2h"}, started=NOW - 1.99 * HOUR),
            {},
            Kind.GRACEFUL,
            "PodDoNotDisrupt",
            id="DIS-112 a pod is protected for two hours",
        ),
        pytest.param(
            pod_on("p", annotations={keys.DO_NOT_DISRUPT: "2h"}, started=NOW - 2 * HOUR),
            {},
            Kind.GRACEFUL,
            "",
            id="DIS-112 and not any longer",
        ),
        pytest.param(
            pod_on("p", annotations={keys.DO_NOT_DISRUPT: "banana"}),
            {},
            Kind.GRACEFUL,
            "",
            id="DIS-113 a banana protects nobody",
        ),
        pytest.param(
            pod_on("p", annotations={keys.DO_NOT_DISRUPT: "1h"}),
            {},
            Kind.GRACEFUL,
            "PodDoNotDisrupt",
            id="DIS-114 a pod that has not started is protected",
        ),
        pytest.param(
            pod_on("p", annotations={"karpenter.sh/do-not-evict": "true"}),
            {},
            Kind.GRACEFUL,
            "",
            id="DIS-286 the old annotation of pods is passed over",
        ),
        pytest.param(
            pod_on("p"),
            {"annotations": {"karpenter.sh/do-not-consolidate": "true"}},
            Kind.GRACEFUL,
            "",
            id="DIS-287 the old annotation of nodes is passed over",
        ),
    ],
)
def test_protected_pods(on: Pod, options: Standing, kind: Kind, why: str) -> None:
    assert why == blocked("n1", machine("n1", on, **options), kind=kind)


@pytest.mark.row("S2-13")
@pytest.mark.parametrize(
    ("on", "pdbs", "why"),
    [
        pytest.param(
            pod_on("p"), [pdb_of(0)], "PodDisruptionBudget", id="DIS-115 a spent budget holds a pod"
        ),
        pytest.param(
            pod_on("p", owners=DAEMON),
            [pdb_of(0)],
            "PodDisruptionBudget",
            id="DIS-115 and a daemon as well",
        ),
        pytest.param(
            pod_on("p", owners=MIRROR), [pdb_of(0)], "", id="DIS-116 a mirror pod asks no budget"
        ),
        pytest.param(
            pod_on("p", phase="Failed"), [pdb_of(0)], "", id="DIS-116 nor does a finished pod"
        ),
        pytest.param(
            pod_on("p", deleted=NOW), [pdb_of(0)], "", id="DIS-116 nor does one on its way out"
        ),
        pytest.param(
            pod_on("p"),
            [pdb_of(5, name="a"), pdb_of(5, name="b")],
            "PodDisruptionBudget",
            id="DIS-117 two budgets for one pod hold it, whatever they allow",
        ),
        pytest.param(
            pod_on("p", conditions=[condition("Ready", "False")]),
            [pdb_of(0, unhealthy_policy="AlwaysAllow")],
            "",
            id="DIS-118 an unhealthy pod may always go if its budget says so",
        ),
        pytest.param(
            pod_on("p"),
            [pdb_of(0, unhealthy_policy="AlwaysAllow")],
            "PodDisruptionBudget",
            id="DIS-118 a pod that says nothing of its health is not unhealthy",
        ),
        pytest.param(
            pod_on("p"),
            [pdb_of(0, namespace="other")],
            "",
            id="DIS-119 a budget of another namespace",
        ),
        pytest.param(pod_on("p"), [pdb_of(1)], "", id="a budget that allows one"),
    ],
)
def test_budgets_of_pods(on: Pod, pdbs: list[PodDisruptionBudget], why: str) -> None:
    assert why == blocked("n1", machine("n1", on), pdbs=pdbs)


def test_a_budget_is_asked_for_each_pod_by_itself() -> None:
    crowd = [pod_on(f"p{n}") for n in range(3)]

    assert "" == blocked("n1", machine("n1", *crowd), pdbs=[pdb_of(1)])


def test_what_holds_a_machine_is_named() -> None:
    found = context_of(machine("n1", pod_on("p")), pdbs=[pdb_of(0)]).standing(Kind.GRACEFUL)["n1"]

    assert isinstance(found, Blocked)
    assert "PDB default/pdb allows 0 of 2 for pod default/p" == found.detail


def test_an_empty_machine_whose_node_is_protected_stays() -> None:
    nodes = [machine("n1", annotations=DND), machine("n2")]

    assert ["n2"] == going(found_by("empty", *nodes))
