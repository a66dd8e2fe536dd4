"""One count for all who make or remove claims of a static pool."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from helpers.builders import NOW, condition, launching_node, managed_node, node_claim, node_pool
from karpenter.api.karpenter import NodeClaim
from karpenter.model.labels import NODEPOOL, REPLACES
from karpenter.state.expectations import ComingClaim
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot
from karpenter.state.static_node_counts import PATIENCE, StaticCount, count_static

POOL: Final = node_pool("fixed", replicas=3, limits={"nodes": "5"})
LONG_AGO: Final = NOW - timedelta(days=1)
INITIALIZED: Final = condition("Initialized", "True")
DRIFTED: Final = condition("Drifted", "True")


def machine(name: str, **options: Any) -> StateNode:
    options.setdefault("created", LONG_AGO)
    return managed_node(name, pool="fixed", **options)


def waiting(name: str, **options: Any) -> NodeClaim:
    return node_claim(name, provider_id="", pool="fixed", **options)


def instead_of(replaced: str, made: StateNode) -> StateNode:
    """A machine whose claim replaces another."""
    assert made.node_claim is not None
    metadata = msgspec.structs.replace(made.node_claim.metadata, annotations={REPLACES: replaced})
    return replace(made, node_claim=msgspec.structs.replace(made.node_claim, metadata=metadata))


def counted(*nodes: StateNode, unlaunched: Sequence[NodeClaim] = (), **rest: Any) -> StaticCount:
    cluster = Snapshot(nodes=nodes, unlaunched=tuple(unlaunched), **rest)
    return count_static(POOL, cluster, now=NOW)


def uid(name: str) -> str:
    return waiting(name).metadata.uid


@pytest.mark.parametrize(
    ("nodes", "unlaunched", "standing", "slots_left"),
    [
        pytest.param([machine("a")], [], 1, 4, id="one runs"),
        pytest.param([machine("a", deleted=NOW)], [], 0, 4, id="one is on its way out"),
        pytest.param(
            [machine("a", conditions=[condition("InstanceTerminating", "True")])],
            [],
            0,
            4,
            id="one whose machine is being switched off",
        ),
        pytest.param(
            [machine("a", marked=True, deleted=NOW)], [], 0, 4, id="one that was replaced goes"
        ),
        pytest.param(
            [replace(machine("a"), node_claim=None)], [], 0, 5, id="a node without a claim"
        ),
        pytest.param([managed_node("a", pool="other")], [], 0, 5, id="one of another pool"),
        pytest.param([machine("a")], [waiting("b")], 2, 3, id="one that has not launched"),
        pytest.param([], [waiting("b", deleted=NOW)], 0, 4, id="one that never launches"),
        pytest.param(
            [],
            [node_claim("b", provider_id="", pool="other")],
            0,
            5,
            id="one of another pool that has not launched",
        ),
    ],
)
def test_who_stands_and_who_takes_a_slot(
    nodes: list[StateNode], unlaunched: list[NodeClaim], standing: int, slots_left: int
) -> None:
    count = counted(*nodes, unlaunched=unlaunched)

    assert (standing, slots_left) == (count.standing, count.slots_left)


def test_a_claim_counts_for_its_pool_whatever_its_node_says() -> None:
    made = machine("a")
    assert made.node is not None
    labels = {**made.node.metadata.labels, NODEPOOL: "other"}
    metadata = msgspec.structs.replace(made.node.metadata, labels=labels)

    count = counted(replace(made, node=msgspec.structs.replace(made.node, metadata=metadata)))

    assert 1 == count.standing


def test_a_claim_counts_from_before_it_is_created_and_only_once_when_it_is_seen() -> None:
    coming = {"b": ComingClaim("fixed"), "c": ComingClaim("other")}

    before = counted(machine("a"), coming=coming)
    after = counted(machine("a"), unlaunched=[waiting("b")], coming=coming)

    assert (2, 3, frozenset({"b"})) == (before.standing, before.slots_left, before.coming)
    assert (2, 3, frozenset()) == (after.standing, after.slots_left, after.coming)


@pytest.mark.parametrize(("seconds", "standing"), [(1, 1), (0, 0), (-1, 0)])
def test_a_claim_in_doubt_counts_for_a_while(seconds: int, standing: int) -> None:
    coming = {"b": ComingClaim("fixed", until=NOW + timedelta(seconds=seconds))}

    assert standing == counted(coming=coming).standing


def test_a_claim_that_was_asked_to_go_counts_for_the_limit_alone() -> None:
    count = counted(machine("a"), unlaunched=[waiting("b")], dismissed=frozenset({uid("b")}))

    assert (1, 3) == (count.standing, count.slots_left)


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param(
            {"nodes": [machine("a")], "coming": {"r": ComingClaim("fixed", replaces="a")}},
            id="not created yet, and the other is not marked yet",
        ),
        pytest.param(
            {"nodes": [machine("a"), instead_of("a", machine("r", created=NOW))]},
            id="seen before the other is marked",
        ),
        pytest.param(
            {
                "nodes": [
                    machine("a", marked=True),
                    instead_of("a", launching_node("r", pool="fixed")),
                ]
            },
            id="on its way",
        ),
        pytest.param(
            {
                "nodes": [
                    machine("a", marked=True),
                    instead_of("a", machine("r", conditions=[INITIALIZED])),
                ]
            },
            id="it stands, and the other has not been asked to go yet",
        ),
    ],
)
def test_a_claim_and_its_replacement_are_one_claim_and_take_two_slots(
    cluster: dict[str, Any],
) -> None:
    count = counted(machine("b"), machine("c"), *cluster.pop("nodes"), **cluster)

    assert {"a": "r"} == count.couples
    assert (3, 0, 0, 1) == (count.staying, count.missing, count.surplus, count.slots_left)
    assert count.has_too_many  # nothing else is replaced meanwhile


def test_a_replacement_that_nobody_waits_for_makes_the_other_superfluous_when_it_stands() -> None:
    stands = instead_of("a", machine("r", conditions=[INITIALIZED], created=NOW))

    count = counted(machine("a"), machine("b"), machine("c"), stands)

    assert (0, frozenset({"a"}), 1) == (len(count.couples), count.superseded, count.surplus)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"conditions": [INITIALIZED, DRIFTED]}, id="has drifted itself"),
        pytest.param({"created": NOW - PATIENCE}, id="does not stand in time"),
        pytest.param({"created": None}, id="has no age"),
    ],
)
def test_a_replacement_that_is_no_better_is_one_of_many(options: dict[str, Any]) -> None:
    made = instead_of("a", machine("r", **options))

    count = counted(machine("a"), machine("b"), machine("c"), made)

    assert {} == count.couples
    assert 1 == count.surplus


@pytest.mark.parametrize("name", ["r", "gone", ""])
def test_who_replaces_nobody_there_is_no_replacement(name: str) -> None:
    count = counted(machine("b"), instead_of(name, machine("r", created=NOW)))

    assert ({}, frozenset(), 2) == (count.couples, count.superseded, count.staying)


def test_nobody_replaces_a_younger_claim() -> None:
    count = counted(machine("a", created=NOW), instead_of("a", machine("r")))

    assert {} == count.couples


def test_one_claim_makes_one_couple_however_many_replace_it() -> None:
    several = [instead_of("a", machine(name, created=NOW)) for name in ("r1", "r2")]

    count = counted(machine("a", marked=True), *several)

    assert ({"a": "r1"}, 2) == (count.couples, count.staying)


def test_nobody_is_part_of_two_couples_whatever_annotations_say() -> None:
    first = instead_of("b", machine("a", created=NOW, marked=True))
    second = instead_of("a", machine("b", created=NOW, marked=True))
    third = instead_of("b", machine("c", created=NOW))

    count = counted(first, second, third)

    assert ({"b": "a"}, 2) == (count.couples, count.staying)


def test_one_that_goes_before_its_replacement_is_made_up_for_when_it_goes() -> None:
    going_first = counted(machine("a", marked=True), machine("b"), machine("c"))
    gone = counted(machine("a", marked=True, deleted=NOW), machine("b"), machine("c"))

    assert (2, 0, 0) == (going_first.staying, going_first.missing, going_first.surplus)
    assert (2, 1, 2) == (gone.staying, gone.missing, gone.slots_left)


@pytest.mark.parametrize(
    ("free", "wanted", "slots"),
    [
        pytest.param(None, 7, 7, id="without a limit"),
        pytest.param(5, 3, 3, id="room for all"),
        pytest.param(2, 3, 2, id="room for some"),
        pytest.param(0, 3, 0, id="room for none"),
        pytest.param(-1, 3, 0, id="more than the limit allows already"),
    ],
)
def test_slots(free: int | None, wanted: int, slots: int) -> None:
    assert slots == StaticCount(1, 1, free).slots(wanted)


def test_a_pool_without_replicas_has_too_many_of_any() -> None:
    none = node_pool("fixed", replicas=0)

    assert count_static(none, Snapshot(nodes=(machine("a"),)), now=NOW).has_too_many
    assert not count_static(none, Snapshot(), now=NOW).has_too_many


@pytest.mark.parametrize(("seconds", "is_held"), [(1, True), (0, False)])
def test_launches_are_held_up_for_a_while(seconds: int, is_held: bool) -> None:
    held = {"fixed": NOW + timedelta(seconds=seconds), "other": NOW + timedelta(days=1)}

    assert is_held == (counted(launches_held=held).held_until is not None)
