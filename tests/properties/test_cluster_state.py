"""Whatever happened before, the state is what the objects that are left make of it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from helpers.builders import node, node_claim, pod
from karpenter.api.meta import Resource
from karpenter.state.cluster import ClusterState, snapshot_of
from karpenter.state.object_keys import identity_of
from karpenter.state.snapshot import Snapshot

NAMES = st.sampled_from(["a", "b", "c"])
PROVIDER_IDS = st.sampled_from(["", "x://1", "x://2"])

nodes = st.builds(
    node,
    NAMES,
    pool=st.sampled_from(["", "np"]),
    provider_id=PROVIDER_IDS,
    instance_type=st.sampled_from(["", "std"]),
    initialized=st.booleans(),
    cpu=st.sampled_from(["1", "2"]),
)
node_claims = st.builds(node_claim, NAMES, provider_id=PROVIDER_IDS)
pods = st.builds(
    pod,
    NAMES,
    node_name=st.sampled_from(["", "a", "b"]),
    phase=st.sampled_from(["Running", "Succeeded"]),
    cpu=st.sampled_from(["1", "2"]),
)
resources = st.one_of(nodes, node_claims, pods)
events = st.lists(st.tuples(st.booleans(), resources), max_size=30)  # (is it a deletion?, object)


def left_over(happened: Sequence[tuple[bool, Resource]]) -> list[Resource]:
    """What remains of objects after these events, told in another order."""
    remaining: dict[tuple[str, str, str], Resource] = {}
    for deleted, resource in happened:
        if deleted:
            remaining.pop(identity_of(resource), None)
        else:
            remaining[identity_of(resource)] = resource
    return list(reversed(remaining.values()))


def as_seen(snapshot: Snapshot) -> tuple[object, ...]:
    return (
        snapshot.nodes,
        snapshot.unlaunched,
        snapshot.skipped_nodes,
        dict(snapshot.pods),
        dict(snapshot.unbound_pods),
    )


@given(events, st.sets(st.integers(0, 29)))
def test_events_lead_to_the_state_of_what_is_left(
    happened: list[tuple[bool, Resource]], looked_at: set[int]
) -> None:
    state = ClusterState()

    for number, (deleted, resource) in enumerate(happened):
        (state.delete if deleted else state.apply)(resource)
        if number in looked_at:  # taking a snapshot must not disturb what comes after
            state.snapshot()

    assert as_seen(snapshot_of(left_over(happened))) == as_seen(state.snapshot())


@given(events)
def test_a_machine_is_kept_exactly_as_long_as_it_stays_the_same(
    happened: list[tuple[bool, Resource]],
) -> None:
    state = ClusterState()
    before = state.snapshot()

    for deleted, resource in happened:
        (state.delete if deleted else state.apply)(resource)
        after = state.snapshot()

        kept = {id(machine) for machine in before.nodes}
        for machine in after.nodes:
            if id(machine) not in kept:
                assert machine not in before.nodes
        before = after


@given(events)
def test_every_bound_pod_is_on_exactly_the_machine_of_its_node(
    happened: list[tuple[bool, Resource]],
) -> None:
    snapshot = snapshot_of(left_over(happened))

    seen = [each.metadata.name for machine in snapshot.nodes for each in machine.pods]

    assert len(seen) == len(set(seen))
    for machine in snapshot.nodes:
        assert machine.node is not None or not machine.pods
