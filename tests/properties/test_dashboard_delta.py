"""Whatever happens to a cluster, a view with its delta is the next view."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.builders import NOW, node, node_claim, pod
from karpenter.api.meta import Resource
from karpenter.dashboard.contract import Delta, View
from karpenter.dashboard.delta import Replay, applied, changed_rows, delta, is_empty
from karpenter.dashboard.view import Picture, ViewBuilder
from karpenter.state.cluster import ClusterState

pytestmark = pytest.mark.case("DASH-4")
NAMES = st.sampled_from(["a", "b", "c"])
nodes = st.builds(
    node,
    NAMES,
    pool=st.sampled_from(["", "np"]),
    provider_id=st.sampled_from(["", "x://1", "x://2"]),
    initialized=st.booleans(),
    cpu=st.sampled_from(["1", "2"]),
)
claims = st.builds(node_claim, NAMES, provider_id=st.sampled_from(["", "x://1", "x://2"]))
pods = st.builds(
    pod,
    NAMES,
    namespace=st.sampled_from(["default", "shop"]),
    node_name=st.sampled_from(["", "a", "b"]),
    phase=st.sampled_from(["Running", "Succeeded"]),
)
resources = st.one_of(nodes, claims, pods)
histories = st.lists(st.lists(st.tuples(st.booleans(), resources), max_size=8), max_size=6)


def views_of(history: list[list[tuple[bool, Resource]]]) -> list[View]:
    """The views of an epoch, one after each part of a history."""
    state = ClusterState()
    builder = ViewBuilder(epoch="e", source="files", provider="", cluster="", is_live=True)
    views = [builder.build(Picture(state.snapshot(), NOW))]
    for part in history:
        for deleted, resource in part:
            (state.delete if deleted else state.apply)(resource)
        view = builder.build(Picture(state.snapshot(), NOW))
        view.seq = views[-1].seq + 1
        views.append(view)
    return views


def sent(difference: Delta) -> Delta:
    """A delta as a client has it, after its way through JSON."""
    return msgspec.json.decode(msgspec.json.encode(difference), type=Delta)


@given(histories)
def test_a_view_with_its_delta_is_the_next_one_byte_for_byte(
    history: list[list[tuple[bool, Resource]]],
) -> None:
    views = views_of(history)
    replay = Replay(views[0])
    for before, after in pairwise(views):
        difference = sent(delta(before, after))
        replay.apply(difference)

        assert msgspec.json.encode(applied(before, difference)) == msgspec.json.encode(after)
    assert msgspec.json.encode(replay.view()) == msgspec.json.encode(views[-1])


@given(histories)
def test_the_delta_of_equal_views_is_empty(history: list[list[tuple[bool, Resource]]]) -> None:
    last = views_of(history)[-1]
    again = msgspec.convert(msgspec.to_builtins(last), View)

    assert is_empty(delta(last, again))


@given(histories)
def test_no_id_is_given_twice_and_no_text_moves(
    history: list[list[tuple[bool, Resource]]],
) -> None:
    views = views_of(history)
    for table in ("nodes", "pods"):
        seen: set[int] = set()
        gone: set[int] = set()
        for view in views:
            here = set(getattr(view, table).id)
            assert getattr(view, table).id == sorted(here)
            assert not here & gone
            seen |= here
            gone = seen - here
    for before, after in pairwise(views):
        for name in before.dictionaries.__struct_fields__:
            texts = getattr(before.dictionaries, name)
            assert getattr(after.dictionaries, name)[: len(texts)] == texts


def test_a_delta_holds_what_changed_and_no_more() -> None:
    machines = [each for name in "abc" for each in (node_claim(name), node(name))]
    web, other = pod("web", node_name="a"), pod("other", node_name="b")
    before, after = views_of(
        [
            [(False, each) for each in (*machines, web, other)],
            [(True, other), (False, pod("late", node_name="c"))],
        ]
    )[1:]
    difference = delta(before, after)

    assert [row[2] for row in difference.pods.set] == ["late"]
    assert difference.pods.removed == [before.pods.id[before.pods.name.index("other")]]
    assert changed_rows(difference) == 2 + len(difference.nodes.set)
    assert {row[1] for row in difference.nodes.set} <= {"b", "c"}
    assert difference.pools is None
    assert difference.notices is None
    assert not is_empty(difference)
