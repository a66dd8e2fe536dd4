"""Whatever a static pool has, what is planned for it is needed, fits, and is not undone."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.builders import NOW, MachineOptions, condition, managed_node, node_claim, node_pool
from karpenter.api.karpenter import NodeClaim, NodePool
from karpenter.model.labels import REPLACES
from karpenter.scheduling.static_pools import plan_static
from karpenter.state.expectations import ComingClaim
from karpenter.state.nodes import StateNode
from karpenter.state.snapshot import Snapshot
from karpenter.state.static_node_counts import count_static

NAMES: Final = tuple("abcdefgh")
EXAMPLES: Final = settings(max_examples=300, deadline=None)
AGES: Final = (timedelta(0), timedelta(minutes=5), timedelta(hours=1))


@st.composite
def pools(draw: st.DrawFn) -> NodePool:
    limit = draw(st.none() | st.integers(0, 10))
    limits = {} if limit is None else {"nodes": str(limit)}
    return node_pool("fixed", replicas=draw(st.integers(0, 8)), limits=limits)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Claims in every state, some of them replacing each other in every way."""
    nodes: list[StateNode] = []
    unlaunched: list[NodeClaim] = []
    coming: dict[str, ComingClaim] = {}
    others = st.sampled_from(("", *NAMES))
    for name in draw(st.sets(st.sampled_from(NAMES))):
        match draw(st.sampled_from(("node", "claim", "coming"))):
            case "node":
                nodes.append(_machine(draw, name, draw(others)))
            case "claim":
                claim = _annotated(node_claim(name, provider_id="", pool="fixed"), draw(others))
                unlaunched.append(claim)
            case _:
                coming[name] = ComingClaim("fixed", replaces=draw(others))
    dismissed = draw(st.sets(st.sampled_from([*map(_uid, NAMES)]), max_size=2))
    return Snapshot(
        nodes=tuple(nodes),
        unlaunched=tuple(unlaunched),
        coming=coming,
        dismissed=frozenset(dismissed),
    )


def _machine(draw: st.DrawFn, name: str, replaces: str) -> StateNode:
    conditions = draw(st.sets(st.sampled_from(("Initialized", "Drifted", "InstanceTerminating"))))
    options = MachineOptions(
        pool="fixed",
        created=NOW - draw(st.sampled_from(AGES)),
        conditions=[condition(kind, "True") for kind in sorted(conditions)],
    )
    if draw(st.booleans()):
        options["deleted"] = NOW
    made = managed_node(name, marked=draw(st.booleans()), **options)
    assert made.node_claim is not None
    return replace(made, node_claim=_annotated(made.node_claim, replaces))


def _annotated(claim: NodeClaim, replaces: str) -> NodeClaim:
    annotations = {REPLACES: replaces} if replaces else {}
    metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return msgspec.structs.replace(claim, metadata=metadata)


def _uid(name: str) -> str:
    return node_claim(name).metadata.uid


@EXAMPLES
@given(pools(), clusters())
def test_what_is_planned_is_needed_and_fits(pool: NodePool, cluster: Snapshot) -> None:
    count = count_static(pool, cluster, now=NOW)
    (outcome,) = plan_static([pool], cluster, now=NOW)

    assert 0 <= count.staying <= count.standing
    assert not (outcome.create and outcome.delete)
    assert outcome.have + outcome.create <= max(count.replicas, outcome.have)
    if count.slots_left is not None and outcome.create:
        assert outcome.create <= count.slots_left
    assert len(outcome.delete) == len(set(outcome.delete))


@EXAMPLES
@given(pools(), clusters())
def test_what_was_created_is_not_removed_again(pool: NodePool, cluster: Snapshot) -> None:
    (outcome,) = plan_static([pool], cluster, now=NOW)
    if not outcome.create:
        return
    new = {f"new-{number}": ComingClaim("fixed") for number in range(outcome.create)}
    expected = replace(cluster, coming={**cluster.coming, **new})
    claims = tuple(node_claim(name, provider_id="", pool="fixed") for name in new)
    seen = replace(cluster, unlaunched=(*cluster.unlaunched, *claims))

    for after in (expected, seen):
        (again,) = plan_static([pool], after, now=NOW)
        assert () == again.delete
        assert 0 == again.create


@EXAMPLES
@given(pools(), clusters())
def test_what_is_removed_is_not_created_again(pool: NodePool, cluster: Snapshot) -> None:
    (outcome,) = plan_static([pool], cluster, now=NOW)
    gone = frozenset(map(_uid, outcome.delete))

    (again,) = plan_static([pool], replace(cluster, dismissed=cluster.dismissed | gone), now=NOW)

    assert (0, ()) == (again.create, again.delete) or not outcome.delete


@EXAMPLES
@given(pools(), clusters(), st.sampled_from(NAMES))
def test_a_replacement_changes_nothing_for_those_who_scale(
    pool: NodePool, cluster: Snapshot, name: str
) -> None:
    before = count_static(pool, cluster, now=NOW)
    standing = {machine.name for machine in cluster.nodes if not machine.is_deleting}
    coupled = before.couples.keys() | set(before.couples.values())
    if name not in standing or _uid(name) in cluster.dismissed or name in coupled:
        return
    coming = {**cluster.coming, "new": ComingClaim("fixed", replaces=name)}

    after = count_static(pool, replace(cluster, coming=coming), now=NOW)

    assert (before.missing, before.surplus) == (after.missing, after.surplus)
