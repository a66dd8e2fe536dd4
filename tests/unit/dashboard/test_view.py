"""What a view shows of nodes, claims and pods."""

from datetime import timedelta
from typing import Any

from helpers.builders import (
    NOW,
    condition,
    instance_type,
    node,
    node_claim,
    node_pool,
    offering,
    pdb,
    pod,
)
from karpenter.api.meta import OwnerReference, Resource
from karpenter.dashboard.contract import NODE_FLAGS, POD_FLAGS, View
from karpenter.dashboard.view import Picture, Shown, ViewBuilder
from karpenter.state.cluster import ClusterState


def builder(shown: Shown | None = None) -> ViewBuilder:
    """A builder of views of a sandbox."""
    return ViewBuilder(
        epoch="e",
        source="sandbox",
        provider="kwok",
        cluster="",
        is_live=True,
        shown=shown or Shown(),
    )


def view_of(*objects: Resource, shown: Shown | None = None, **more: Any) -> View:
    """The first view of a cluster of these objects."""
    state = ClusterState()
    for each in objects:
        state.apply(each)
    return builder(shown).build(Picture(state.snapshot(), more.pop("now", NOW), **more))


def owned_by(kind: str, name: str) -> OwnerReference:
    """A reference to a controller."""
    return OwnerReference(api_version="apps/v1", kind=kind, name=name, uid=name, controller=True)


def test_a_claim_a_starting_node_and_a_ready_one_are_rows_of_their_own() -> None:
    view = view_of(
        node_claim("early", provider_id=""),
        node_claim("late"),
        node("late", initialized=False),
        node_claim("up"),
        node("up", conditions=[condition("Ready")]),
        node("foreign", pool="", conditions=[condition("Ready", "False", reason="KubeletDown")]),
    )

    states = dict(zip(view.nodes.name, view.nodes.state, strict=True))
    found = {name: view.dictionaries.node_state[state] for name, state in states.items()}
    assert found == {"early": "Claimed", "late": "Starting", "up": "Ready", "foreign": "NotReady"}
    foreign = view.nodes.name.index("foreign")
    assert view.nodes.pool[foreign] == 0
    assert not view.nodes.flags[foreign] & NODE_FLAGS["managed"]
    assert view.dictionaries.reason[view.nodes.reason[foreign]] == "KubeletDown"


def test_a_row_keeps_its_id_while_a_claim_becomes_a_node() -> None:
    state, made = ClusterState(), builder()
    state.apply(node_claim("a", provider_id=""))
    first = made.build(Picture(state.snapshot(), NOW))
    state.apply(node_claim("a"))
    second = made.build(Picture(state.snapshot(), NOW))
    state.apply(node("a"))
    third = made.build(Picture(state.snapshot(), NOW))

    assert first.nodes.id == second.nodes.id == third.nodes.id


def test_a_pod_of_a_replica_set_belongs_to_its_deployment() -> None:
    view = view_of(pod("web-5d8f-x", owners=[owned_by("ReplicaSet", "web-5d8f")]))

    assert view.dictionaries.owner[view.pods.owner[0]] == "Deployment/web"


def test_a_pod_points_to_its_node_as_soon_as_there_is_one() -> None:
    state, made = ClusterState(), builder()
    state.apply(pod("web", node_name="a"))
    before = made.build(Picture(state.snapshot(), NOW))
    state.apply(node("a", pool=""))
    after = made.build(Picture(state.snapshot(), NOW))

    assert before.pods.node == [-1]
    assert after.pods.node == after.nodes.id


def test_a_budget_that_allows_nothing_marks_its_pods_and_their_node() -> None:
    labels = {"app": "t"}
    view = view_of(
        node_claim("a"),
        node("a"),
        pod("web", node_name="a", labels=labels),
        pod("other", node_name="a"),
        pdb(labels=labels, min_available=1),
    )

    held = dict(zip(view.pods.name, view.pods.flags, strict=True))
    assert held["web"] & POD_FLAGS["pdb"]
    assert not held["other"] & POD_FLAGS["pdb"]
    assert view.nodes.flags[0] & NODE_FLAGS["pdb"]


def test_pods_of_namespaces_that_are_not_shown_have_no_names() -> None:
    view = view_of(
        pod("secret-name", namespace="hidden", owners=[owned_by("ReplicaSet", "payroll-5d8f")]),
        pod("web", namespace="shop"),
        shown=Shown(namespaces=frozenset({"shop"})),
    )

    assert sorted(view.pods.name) == ["", "web"]
    assert view.dictionaries.namespace == ["", "shop"]
    assert view.dictionaries.owner == [""]
    assert view.pods.flags[view.pods.name.index("")] & POD_FLAGS["hidden"]


def test_names_are_hashed_where_they_are_not_to_be_shown() -> None:
    objects = (node_claim("a"), node("a"), pod("web", node_name="a"), node_pool("np"))
    one, other = (view_of(*objects, shown=Shown(is_redacted=True)) for _ in range(2))

    assert one == other
    assert not {"a", "web", "np", "default"} & {
        *one.nodes.name,
        *one.nodes.claim,
        *one.pods.name,
        *one.dictionaries.namespace,
        *one.dictionaries.pool,
        *(pool.name for pool in one.pools),
    }
    assert one.pods.node == one.nodes.id


def test_a_price_comes_from_the_catalogue_and_what_has_none_is_counted() -> None:
    priced = instance_type(
        "big", offerings=[offering("z1", "spot", 0.25), offering("z1", "on-demand", 0.5)]
    )
    view = view_of(
        *(node_claim("a", instance_type="big"), node("a", instance_type="big")),
        *(node_claim("b", instance_type="odd"), node("b", instance_type="odd")),
        node_claim("c", provider_id="", instance_type=""),
        node_pool("np"),
        types={"np": {"big": priced}},
    )

    prices = dict(zip(view.nodes.name, view.nodes.price, strict=True))
    assert prices["a"] in (0.25, 0.5)
    assert prices["b"] is None
    assert view.totals.hourly == prices["a"]
    assert view.totals.unpriced == 1, "a claim without a machine costs nothing yet"


def test_time_alone_ends_a_nomination_and_begins_an_expiry() -> None:
    state, made = ClusterState(), builder()
    state.apply(node_claim("a"))
    state.apply(node("a"))
    state.nominate("a", NOW + timedelta(seconds=10))
    snapshot = state.snapshot()

    early = made.build(Picture(snapshot, NOW)).nodes.flags[0]
    later = made.build(Picture(snapshot, NOW + timedelta(seconds=10))).nodes.flags[0]
    last = made.build(Picture(snapshot, NOW + timedelta(days=31))).nodes.flags[0]

    assert early & NODE_FLAGS["nominated"]
    assert not later & NODE_FLAGS["nominated"]
    assert last & NODE_FLAGS["expired"]
