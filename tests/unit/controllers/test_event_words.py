"""Events say what Karpenter says, on the objects and of the type it has: people search for them."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.autoscaler import FakeCloud, JsonObject
from helpers.builders import NOW, node, pod
from helpers.clusters import in_virtual_time
from helpers.disruption import only, planned
from helpers.disruption_objects import ON_DEMAND_ONLY, TYPES, pod_on
from helpers.disruption_objects import machine as standing
from helpers.disruption_objects import pool as asked_for
from helpers.provisioning import FACTS, provisioning, ready_pool, waiting_pod
from karpenter.api.meta import ObjectMeta, ObjectReference
from karpenter.api.storage import VolumeAttachment
from karpenter.clock import run_virtual
from karpenter.cloud.provider import RepairPolicy
from karpenter.controllers.disruption import events as disruption_reports
from karpenter.controllers.termination import events as reports
from karpenter.disruption.events import announced_command
from karpenter.kube.events import Event
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

ROOT: Final = Path(__file__).parents[3]
DND: Final = labels.DO_NOT_DISRUPT
PROTECTED: Final = {DND: "true"}
A_POD: Final = "Pod=default/a"
_AN_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Known:
    """What Karpenter's specification and its users know of an event."""

    kinds: str
    type: str
    words: str  # a pattern; what follows is ours to say
    seconds: float = 120.0


WORDS: Final = {
    "Nominated": Known("Pod", "Normal", r"Pod should schedule on: (nodeclaim/\S+|node/\S+)"),
    "FailedScheduling": Known("Pod", "Warning", r"Failed to schedule pod, \S", 300.0),
    "NoCompatibleInstanceTypes": Known(
        "NodePool",
        "Warning",
        "NodePool requirements filtered out all compatible available instance types"
        "( due to minValues incompatibility)?:",
        60.0,
    ),
    "DisruptionBlocked": Known("Node NodeClaim NodePool", "Normal", "."),
    "Unconsolidatable": Known("Node NodeClaim", "Normal", ".", 900.0),
    "ConsolidationCandidate": Known(
        "Node NodeClaim", "Normal", r"Consolidation candidate: replace: \[n1\] -> \[1 replacement\]"
    ),
    "ConsolidationRejected": Known(
        "Node NodeClaim", "Normal", r"Consolidation rejected: .*, reason: \S+ \(savings: \$\d"
    ),
    "ConsolidationApproved": Known(
        "Node NodeClaim NodePool",
        "Normal",
        r"score \d+\.\d\d >= threshold 0\.50 \(k: 2, savings [\d.]+%, disruption [\d.]+%\)$",
    ),
    "DisruptionLaunching": Known("NodeClaim", "Normal", "Launching NodeClaim: Underutilized$"),
    "DisruptionWaitingReadiness": Known(
        "NodeClaim", "Normal", "Waiting on readiness to continue disruption$"
    ),
    "DisruptionTerminating": Known(
        "Node NodeClaim", "Normal", "Disrupting (Node|NodeClaim): Underutilized$"
    ),
    "NodeRepairBlocked": Known(
        "Node NodeClaim NodePool",
        "Warning",
        'more than 20% of nodes in nodepool "np" are unhealthy',
        900.0,
    ),
    "TerminationGracePeriodExpiring": Known(
        "Node NodeClaim", "Warning", r"All pods will be deleted by 20\S+Z$"
    ),
    "FailedDraining": Known(
        "Node",
        "Warning",
        r"Failed to drain node, (\d+ pods are waiting to be evicted$|evicting pod violates a PDB "
        r"\(Pod=default/a\)|eviction does not support multiple PDBs \(Pod=default/a\))",
    ),
    "AwaitingVolumeDetachment": Known(
        "Node",
        "Normal",
        r"Awaiting deletion of bound volumeattachments \(v0(, v\d)*( and \d"
        r" other\(s\))?\)$",
    ),
    "Evicted": Known("Pod", "Normal", "Evicted pod: "),
    "Disrupted": Known(
        "Pod",
        "Normal",
        r"Deleting the pod to accommodate the terminationTime \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000"
        r" UTC of the node\. The pod was granted 7 seconds of grace-period of its \d+"
        r" terminationGracePeriodSeconds\. This bypasses the PDB of the pod and the do-not-disrupt"
        r" annotation\.$",
    ),
    "InvalidDoNotDisruptAnnotation": Known(
        "Pod",
        "Warning",
        f'Invalid {DND} annotation: (failed to parse "yes" as a duration|duration "0s" must be'
        " positive), ignoring annotation",
    ),
    "DoNotDisruptUntil": Known("Pod", "Normal", rf"The {DND} grace period will elapse at 20\S+Z$"),
    "DoNotDisruptGracePeriodElapsed": Known(
        "Pod", "Normal", f"The {DND} grace period has elapsed, pod is now disruptable$"
    ),
}
# The others of Karpenter's are asked for where their controllers are tried
ELSEWHERE: Final = frozenset(
    {
        "InsufficientCapacityError",
        "UnregisteredTaintMissing",
        "FailedConsistencyCheck",
        "RebootObserved",
        "RebootFailed",
        "Finalized",
        "SpotInterrupted",
        "SpotRebalanceRecommendation",
        "CapacityReservationInstanceInterrupted",
        "InstanceStopping",
        "InstanceTerminating",
        "InstanceUnhealthy",
        "TerminatingOnInterruption",
        "ZonalShiftActive",
        "ZonalShiftCleared",
        "WaitingOnNodeClaimTermination",
    }
)


def check(events: Iterable[Event], *reasons: str) -> None:
    """Check that these were told, and that all that was told is as it is known."""
    told = list(events)
    assert set(reasons) <= {event.reason for event in told}
    for event in told:
        known = WORDS[event.reason]
        assert not isinstance(event.target, ObjectReference)
        assert event.target.kind in known.kinds.split()
        assert (known.type, True) == (event.type, bool(event.dedupe))
        assert re.match(known.words, event.message), event.message
        seconds = known.seconds
        if (event.reason, event.target.kind) == ("DisruptionBlocked", "NodePool"):
            seconds = 60.0
        assert seconds == event.dedupe_seconds


def _with(**options: Any) -> list[Any]:
    return [pool(), machine("n1", **options)]


def _spot_pool() -> JsonObject:
    return ready_pool(disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]})


def _heard(found: Disrupting, reason: str) -> list[Event]:
    return [event for event in found.bench.events.heard if event.reason == reason]


ILL: Final = (pool(disruption={"consolidateAfter": "Never"}),)
SPOT: Final = {labels.CAPACITY_TYPE: "spot"}


class TestDisruption:
    @pytest.mark.parametrize(
        ("objects", "words"),
        [
            pytest.param(
                [pool(), machine("n1")[0]],
                "Nodeclaim does not have an associated node",
                id="a claim without a node",
            ),
            pytest.param(
                _with(conditions=[true("Rebooting", "RebootRequested")]),
                "Node is rebooting",
                id="a node that is restarted",
            ),
            pytest.param(
                _with(node_labels={labels.INITIALIZED: None}),
                "Node isn't initialized",
                id="a node that is not initialized",
            ),
            pytest.param(
                _with(node_labels={labels.INITIALIZED: None, labels.REGISTERED: None}),
                "Node isn't initialized nor registered",
                id="a node that is not even registered",
            ),
            pytest.param(
                _with(annotations=PROTECTED),
                f'Disruption is blocked through the "{DND}" annotation',
                id="a node that is protected",
            ),
            pytest.param(
                _with(node_labels={labels.NODEPOOL: None}),
                f"Node doesn't have required label (label={labels.NODEPOOL})",
                id="a node of no pool",
            ),
            pytest.param([machine("n1")], "NodePool not found (NodePool=np)", id="no such pool"),
            pytest.param(
                [*_with(), running("a", "n1", annotations=PROTECTED)],
                f'Pod has "{DND}" annotation ({A_POD})',
                id="a pod that is protected",
            ),
            pytest.param(
                [*_with(), pdb(), running("a", "n1")],
                "Pdb prevents pod evictions (PodDisruptionBudget=[default/pdb])",
                id="a closed budget",
            ),
            pytest.param(
                [*_with(), pdb("p1", allowed=5), pdb("p2", allowed=5), running("a", "n1")],
                "Eviction does not support multiple PDBs"
                " (PodDisruptionBudget(s)=[default/p1 default/p2])",
                id="two budgets for one pod",
            ),
            pytest.param(
                [
                    pool(),
                    machine("n1", conditions=[true("Drifted")]),
                    running("a", "n1", nodeSelector={"nobody": "has"}),
                ],
                "Not all pods would schedule, no place for default/a",
                id="a drifted node whose pod has nowhere to go",
            ),
            pytest.param(
                [
                    pool(replicas=1, limits={"nodes": "1"}),
                    machine("n1", conditions=[true("Drifted")]),
                ],
                "static NodePool is at its node limit and cannot stage a replacement",
                id="a drifted node of a static pool at its limit",
            ),
        ],
    )
    def test_why_a_node_stays(self, objects: list[Any], words: str) -> None:
        async def scene() -> None:
            async with disrupting(*objects, on=["StaticCapacity"]) as found:
                await found.run_pass()

                told = _heard(found, "DisruptionBlocked")
                check(told, "DisruptionBlocked")
                assert [True] * len(told) == [event.message.startswith(words) for event in told]

        run_virtual(scene())

    @in_virtual_time
    async def test_nodes_that_are_awaited_and_pools_without_a_budget(self) -> None:
        async with disrupting(pool(budget="0"), machine("n1"), machine("n2")) as found:
            found.bench.world.state.nominate("n2", NOW.replace(year=9000))
            await found.run_pass()

            told = _heard(found, "DisruptionBlocked")
            check(told, "DisruptionBlocked")
            assert {
                "Node is nominated for a pending pod",
                "No allowed disruptions for disruption reason Empty due to blocking budget",
            } == {event.message for event in told}

    @pytest.mark.parametrize(
        ("objects", "words"),
        [
            pytest.param(
                _with(node_labels={labels.INSTANCE_TYPE: "odd"}),
                'Instance Type "odd" not found',
                id="a type nobody knows",
            ),
            pytest.param(
                _with(node_labels={labels.CAPACITY_TYPE: None}),
                f'Node does not have label "{labels.CAPACITY_TYPE}"',
                id="no capacity type",
            ),
            pytest.param(
                _with(node_labels={labels.ZONE: None}),
                f'Node does not have label "{labels.ZONE}"',
                id="no zone",
            ),
            pytest.param(
                [pool(disruption={"consolidateAfter": "Never"}), machine("n1")],
                'NodePool "np" has consolidation disabled',
                id="a pool that never consolidates",
            ),
            pytest.param(
                [pool(disruption={"consolidationPolicy": "WhenEmpty"}), machine("n1")],
                'NodePool "np" has consolidation policy WhenEmpty, but node is not empty',
                id="a pool that consolidates empty nodes",
            ),
            pytest.param(
                [pool(), machine("n1", kind="s1")],
                "Can't replace with a cheaper node: the cheapest replacement is s1",
                id="nothing that fits is cheaper",
            ),
            pytest.param(
                [_spot_pool(), machine("n1", node_labels=SPOT)],
                "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node",
                id="spot for spot",
            ),
        ],
    )
    def test_why_a_node_is_not_consolidated(self, objects: list[Any], words: str) -> None:
        async def scene() -> None:
            async with disrupting(*objects, running("a", "n1")) as found:
                await found.run_pass()

                told = _heard(found, "Unconsolidatable")
                check(told, "Unconsolidatable")
                assert {True} == {event.message.startswith(words) for event in told}

        run_virtual(scene())

    @in_virtual_time
    async def test_few_types_for_a_spot_node(self) -> None:
        objects = (_spot_pool(), machine("n1", node_labels=SPOT), running("a", "n1"))
        async with disrupting(*objects, on=["SpotToSpotConsolidation"]) as found:
            await found.run_pass()

            words = (
                "SpotToSpotConsolidation requires 15 cheaper instance type options than the current"
                r" candidate to consolidate, got \d+$"
            )
            told = _heard(found, "Unconsolidatable")
            check(told, "Unconsolidatable")
            assert {True} == {bool(re.match(words, event.message)) for event in told}

    @in_virtual_time
    async def test_a_node_that_is_replaced(self) -> None:
        async with disrupting(pool(), machine("n1"), running("a", "n1")) as found:
            await found.run_pass()
            (replacement,) = found.replacements
            await found.launch(replacement)
            await found.pass_time(30)
            await found.bring_up(replacement)
            await found.pass_time(30)

            reasons = (
                "ConsolidationCandidate",
                "DisruptionLaunching",
                "DisruptionWaitingReadiness",
                "DisruptionTerminating",
                "Nominated",
            )
            check([e for e in found.bench.events.heard if e.reason in reasons], *reasons)
            (said, *_) = found.messages("ConsolidationCandidate")
            assert said.endswith("[1 replacement] (savings: $0.30)")

    def test_a_replacement_that_is_given_up(self) -> None:
        command = only(planned(standing("n1", pod_on("a", cpu="500m"))))

        told = list(disruption_reports.rejected(command, "churn", "a pod has come"))

        check(told, "ConsolidationRejected")
        said = "replace: [n1] -> [1 replacement], reason: churn (savings: $0.37): a pod has come"
        assert {f"Consolidation rejected: {said}"} == {event.message for event in told}

    def test_a_move_that_is_worth_it(self) -> None:
        balanced = asked_for(requirements=ON_DEMAND_ONLY, policy="Balanced")
        command = only(planned(standing("n1", pod_on("a", cpu="500m")), pools=[balanced]))

        told = [each for each in announced_command(command) if "Approved" in each.reason]

        words = WORDS["ConsolidationApproved"].words
        assert ["Node/n1", "NodeClaim/n1"] == [each.target for each in told]
        assert {(True, False)} == {
            (bool(re.match(words, each.message)), each.is_warning) for each in told
        }

    @pytest.mark.parametrize(
        ("objects", "reason", "words"),
        [
            pytest.param(
                [
                    machine(
                        "n1", node_conditions=[bad()], annotations={labels.DO_NOT_REPAIR: "true"}
                    )
                ],
                "DisruptionBlocked",
                f'repair is blocked through the "{labels.DO_NOT_REPAIR}" annotation',
                id="a veto",
            ),
            pytest.param(
                [
                    machine("n1", node_conditions=[bad()]),
                    running("a", "n1", annotations=PROTECTED),
                ],
                "DisruptionBlocked",
                "repair requires a termination grace period to bypass blocking pods: pod default/a",
                id="a pod that nothing ends",
            ),
            pytest.param(
                [machine(f"n{n}", node_conditions=[bad()]) for n in range(1, 6)],
                "NodeRepairBlocked",
                'more than 20% of nodes in nodepool "np" are unhealthy: 5 of 9 nodes',
                id="too many at once",
            ),
        ],
    )
    def test_why_a_node_is_not_repaired(self, objects: list[Any], reason: str, words: str) -> None:
        async def scene() -> None:
            cloud = FakeCloud(
                facts=FACTS,
                types=TYPES,
                repair_policies=(RepairPolicy("BadNode", "False", _AN_HOUR),),
            )
            crowd: list[Any] = [machine(f"h{number}") for number in range(4)]
            crowd += [running(f"h{number}", f"h{number}") for number in range(4)]
            async with disrupting(*ILL, *crowd, *objects, cloud=cloud, on=["NodeRepair"]) as found:
                await found.pass_time(3601)
                await found.run_pass()

                told = _heard(found, reason)
                check(told, reason)
                assert words in {event.message[: len(words)] for event in told}

        run_virtual(scene())


class TestProvisioning:
    @in_virtual_time
    async def test_pods_with_and_without_a_place(self) -> None:
        async with provisioning(ready_pool(), waiting_pod("p"), waiting_pod("q", cpu="512")) as run:
            await run.provision()

            check(run.at.events.heard, "Nominated", "FailedScheduling")
            (claim,) = run.claims
            assert [("p", f"Pod should schedule on: nodeclaim/{claim.metadata.name}")] == (
                run.events("Nominated")
            )

    @pytest.mark.parametrize(
        ("requirement", "words"),
        [
            pytest.param(
                {"operator": "In", "values": ["odd"]}, "instance types:", id="nothing is left"
            ),
            pytest.param(
                {"operator": "Exists", "minValues": 50},
                "instance types due to minValues incompatibility:",
                id="too little is left",
            ),
        ],
    )
    @in_virtual_time
    async def test_pools_without_types(self, requirement: dict[str, Any], words: str) -> None:
        wanted = {"key": labels.INSTANCE_TYPE, **requirement}
        async with provisioning(ready_pool("np", wanted), waiting_pod("p")) as run:
            await run.provision()

            told = [e for e in run.at.events.heard if e.reason == "NoCompatibleInstanceTypes"]
            check(told, "NoCompatibleInstanceTypes")
            assert {True} == {f"compatible available {words}" in event.message for event in told}


def test_nodes_and_pods_that_go() -> None:
    pods = [
        pod(name="a", annotations={DND: value}, started=NOW, node_name="n")
        for value in ("yes", "0s", "1h", "1ns")
    ]
    here, gone = node(), pods[0]
    attached = [VolumeAttachment(metadata=ObjectMeta(name=f"v{each}")) for each in range(7)]
    told = [
        reports.expiring(here, later(60)),
        reports.waiting(here, 1),
        reports.waiting(here, 2),
        reports.budget_in_the_way(here, gone, "no"),
        reports.budget_in_the_way(here, gone, "never", are_several=True),
        reports.volumes_attached(here, attached[:1]),
        reports.volumes_attached(here, attached),
        reports.evicted(gone, "Drifted"),
        reports.disrupted(gone, NOW, grace=7),
        *(reports.protection(each, now=NOW.replace(minute=1)) for each in pods),
    ]

    check(
        [event for event in told if event is not None],
        "TerminationGracePeriodExpiring",
        "FailedDraining",
        "AwaitingVolumeDetachment",
        "Evicted",
        "Disrupted",
        "InvalidDoNotDisruptAnnotation",
        "DoNotDisruptUntil",
        "DoNotDisruptGracePeriodElapsed",
    )


_A_REASON: Final = re.compile(r"[A-Z][a-z0-9]+([A-Z][a-z0-9]+)*")
_PUBLISHING: Final = re.compile(
    r"karpenter\.kube\.events import|^class Event\b|\bAnnouncement\b", re.MULTILINE
)
# Words in modules that publish events which are no reasons of events
_OTHER_WORDS: Final = frozenset(
    {
        "Active",
        "BestEffort",
        "ClusterStateNotSynced",
        "Commitments",
        "ConsistencyCheckFailed",
        "ConsistentStateFound",
        "Deployment",
        "DisruptionContext",
        "Drifted",
        "Expired",
        "ExpiresSoon",
        "Expiring",
        "GetManagedResource",
        "InstanceTypeResolutionFailed",
        "LaunchFailed",
        "MultipleNodesFound",
        "NextPass",
        "Node",
        "NodeClaim",
        "NodeClaims",
        "NodeNotFound",
        "NodeOverlay",
        "NodeRepair",
        "NodePool",
        "Normal",
        "NotEvaluated",
        "NotSoon",
        "Pod",
        "OffsetClock",
        "RebootInstances",
        "RebootSucceeded",
        "RegistrationHookPending",
        "ReplicaSet",
        "ReservedCapacity",
        "ReservedCapacityTaken",
        "Respect",
        "ScheduleAnyway",
        "StatefulSet",
        "Unknown",
        "Unschedulable",
        "Warning",
    }
)


def _reasons_in_code() -> set[str]:
    """Every word in a module that publishes events that could be the reason of one."""
    found: set[str] = set()
    package = ROOT / "src" / "karpenter"
    for path in package.rglob("*.py"):
        text = path.read_text()
        # what becomes of legacy objects is told by their bridge, in words of the translation
        is_publishing = _PUBLISHING.search(text) or path.name == "translation.py"
        is_reading = path.is_relative_to(package / "dashboard")  # it tells of events of others
        if not is_publishing or is_reading:
            continue
        tree = ast.parse(text)
        found |= {
            each.value
            for each in ast.walk(tree)
            if isinstance(each, ast.Constant)
            and isinstance(each.value, str)
            and _A_REASON.fullmatch(each.value)
        }
    return found - _OTHER_WORDS


def _documented() -> dict[str, str]:
    """The reasons that the documentation lists, and whose they are."""
    rows = (line.split(" | ") for line in (ROOT / "docs" / "events.md").read_text().splitlines())
    return {
        row[0].strip("| `"): row[4]
        for row in rows
        if len(row) == 6 and row[0].startswith("| `") and row[2] in ("Normal", "Warning")
    }


def test_the_documentation_lists_every_reason_and_no_other() -> None:
    assert _reasons_in_code() == set(_documented())


def test_the_documentation_knows_which_reasons_are_karpenters() -> None:
    karpenters = {reason for reason, whose in _documented().items() if whose == "Karpenter's"}

    assert karpenters == set(WORDS) | ELSEWHERE
