"""Which pods count as those that a rebalance moved, and when they are bound to its places."""

from datetime import UTC, datetime
from typing import Final, Unpack

import msgspec
import pytest

from helpers.builders import expression, owner
from helpers.builders.workloads import PodOptions
from helpers.disruption_objects import WEB, machine, pod_on
from helpers.priced_catalogues import M, X
from helpers.rebalancing import rebalance, rebalanced, running
from karpenter.api.nodes import Node
from karpenter.api.pods import Pod, PodAffinityTerm, Toleration, TopologySpreadConstraint
from karpenter.api.selectors import LabelSelector
from karpenter.disruption.commands import Command, Finding
from karpenter.disruption.rebalance.planned_places import (
    Awaited,
    awaited_after,
    awaited_by,
    is_waiting,
    kind_of,
    missing_on,
)
from karpenter.model.labels import AWAITS_PODS, HOSTNAME, ZONE
from karpenter.model.taints import AWAITS_PODS as TAINT
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot

SOON: Final = datetime(2026, 8, 1, 12, 10, tzinfo=UTC)
WEB_PODS: Final = LabelSelector(match_labels=WEB)


def again(**changes: Unpack[PodOptions]) -> Pod:
    """The pod that takes the place of ``BEFORE``, with some differences."""
    changes.setdefault("node_name", "")
    return pod_on("web-new", **changes)


BEFORE: Final = pod_on("web-old", annotations={"seen": "yes"})


def test_a_pod_is_known_again_by_its_owner_and_what_its_place_depends_on() -> None:
    assert kind_of(BEFORE) == kind_of(again()) != ""


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(again(owners=[owner("ReplicaSet", "api")]), id="of another owner"),
        pytest.param(again(cpu="501m"), id="of another size"),
        pytest.param(again(node_selector={"disk": "ssd"}), id="that selects nodes"),
        pytest.param(again(required=[[expression(ZONE, "In", "z1")]]), id="with an affinity"),
        pytest.param(again(tolerations=[Toleration(operator="Exists")]), id="that tolerates more"),
        pytest.param(again(labels={"app": "web", "v": "2"}), id="with other labels"),
        pytest.param(again(namespace="other"), id="in another namespace"),
        pytest.param(again(claims=["data"]), id="with storage"),
    ],
)
def test_another_pod_is_not_taken_for_it(other: Pod) -> None:
    assert kind_of(BEFORE) != kind_of(other)


def test_a_pod_that_nobody_creates_again_is_of_no_kind() -> None:
    assert "" == kind_of(pod_on("bare", owners=[]))


def test_what_a_node_awaits_is_read_as_it_was_written() -> None:
    awaited = Awaited(SOON, ("a", "b"), {"o/1": 2, "o/2": 1})

    assert awaited == awaited_by(noted(awaited.text()))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("soon", id="no JSON"),
        pytest.param('{"until": "2026-08-01T12:00:00Z"}', id="incomplete"),
        pytest.param('{"until": "2026-08-01T12:00:00", "leaving": [], "pods": {}}', id="no zone"),
        pytest.param('{"until": "x", "leaving": [], "pods": {}}', id="no time"),
        pytest.param(
            '{"until": "2026-08-01T12:00:00Z", "leaving": [], "pods": {"a": "b"}}', id="x"
        ),
    ],
)
def test_a_note_that_cannot_be_read_is_none(text: str) -> None:
    assert awaited_by(noted(text)) is None


def noted(text: str) -> Node:
    node = machine("n").node
    assert node is not None
    metadata = msgspec.structs.replace(node.metadata, annotations={AWAITS_PODS: text})
    return msgspec.structs.replace(node, metadata=metadata)


def test_what_is_missing_is_what_is_not_there() -> None:
    awaited = Awaited(SOON, (), {"a": 2, "b": 1, "c": 1})

    assert {"a": 1, "c": 1} == missing_on(awaited, ["a", "b", "b", "x"])
    assert {} == missing_on(awaited, ["a", "a", "a", "b", "c"])


@pytest.mark.parametrize(
    ("pod", "waits"),
    [
        pytest.param(again(), True, id="unschedulable"),
        pytest.param(again(conditions=[]), True, id="not looked at by the scheduler so far"),
        pytest.param(again(gates=["quota"]), False, id="with a gate"),
        pytest.param(again(nominated="n2"), False, id="that has others evicted"),
        pytest.param(again(deleted=datetime(2026, 1, 1, tzinfo=UTC)), False, id="being deleted"),
        pytest.param(BEFORE, False, id="bound"),
    ],
)
def test_a_pod_that_may_be_bound(pod: Pod, waits: bool) -> None:
    assert waits is is_waiting(pod)


def wasteful(large: Pod | None = None) -> tuple[StateNode, list[Pod]]:
    """A dear machine whose pods fit on two of the small ones unless the small ones spread."""
    small = [pod_on(f"small-{n}", cpu="800m", memory="64Mi") for n in range(4)]
    large = large or pod_on("large", cpu="3500m", memory="64Mi")
    pods = [large, *small]
    return running("n1", X, pods, among=(M, X)), pods


def found(
    *others: StateNode, node: StateNode | None = None, binds: bool = True
) -> tuple[Finding, list[bool]]:
    """What rebalancing finds, and for each command whether its pods are bound."""
    node = node or wasteful()[0]
    finding = rebalanced(node, *others, types=(M, X), settings=rebalance(binds_pods=binds))
    return finding, [command.binds_pods for command in finding.commands]


@pytest.mark.case("OPT-45")
def test_the_scheduler_is_not_asked_where_pods_are_bound() -> None:
    left, _ = found(binds=False)
    bound, are_bound = found()

    assert ("PredictedRedisruption",) == tuple(text.split(":")[0] for text in left.refused)
    assert ((), [True]) == (bound.refused, are_bound)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(PodOptions(owners=[]), id="that nobody creates again"),
        pytest.param(PodOptions(ephemeral=["gp3"]), id="with a volume that is made for it"),
        pytest.param(PodOptions(host_ports=[8080]), id="with a port of the node"),
        pytest.param(
            PodOptions(spread=[TopologySpreadConstraint(3, HOSTNAME, "DoNotSchedule", WEB_PODS)]),
            id="that must be spread",
        ),
        pytest.param(
            PodOptions(affinity=[PodAffinityTerm(ZONE, WEB_PODS)]), id="that must be near others"
        ),
    ],
)
def test_the_scheduler_is_asked_where_it_has_to_place_a_pod(options: PodOptions) -> None:
    options = options | PodOptions(cpu="3500m", memory="64Mi")
    large = pod_on("large", **options)
    finding, are_bound = found(node=wasteful(large)[0])

    assert [] == [is_bound for is_bound in are_bound if is_bound]
    assert bool(finding.refused)


@pytest.mark.parametrize(("priority", "binds"), [(0, True), (10, False)])
def test_no_other_pod_is_evicted_for_one_that_seems_to_find_no_room(
    priority: int, binds: bool
) -> None:
    other = running("n2", M, [pod_on("other", cpu="3900m", memory="64Mi")], among=(M, X))
    large = pod_on("large", cpu="3500m", memory="64Mi", priority=priority)

    _, are_bound = found(other, node=wasteful(large)[0])

    assert ([True] if binds else []) == are_bound


def test_each_node_awaits_its_own_pods_and_counts_those_it_has() -> None:
    (command,) = found()[0].commands
    assert isinstance(command, Command)
    names = ["a", "b"]
    has_one = machine("a", pod_on("there", cpu="800m", memory="64Mi"))
    until = datetime(2026, 8, 1, tzinfo=UTC)

    awaited = awaited_after(command, names, Snapshot(nodes=(has_one, machine("b"))), until)

    kinds = {kind_of(pod): pod.metadata.name for pod in wasteful()[1]}
    told = {
        name: {kinds[kind].split("-")[0]: count for kind, count in each.pods.items()}
        for name, each in awaited.items()
    }
    by_place = [
        {"small" if "small" in p.pods[0] else "large": len(p.pods)} for p in command.replacements
    ]
    by_place[0] = {k: n + (k == "small") for k, n in by_place[0].items()}
    assert dict(zip(names, by_place, strict=True)) == told
    assert {("n1",)} == {each.leaving for each in awaited.values()}


def test_a_node_that_awaits_pods_is_open_to_planners() -> None:
    closed = machine("n1")
    assert closed.node is not None
    spec = msgspec.structs.replace(closed.node.spec, taints=(TAINT,))
    node = StateNode(msgspec.structs.replace(closed.node, spec=spec), closed.node_claim)

    assert (True, ()) == (node.awaits_pods, node.taints)
