"""The state follows events, whatever their order and however often they come, and shares the rest."""

from datetime import timedelta
from itertools import permutations

import pytest

from helpers.builders import (
    APP_T,
    NOW,
    condition,
    csi_node,
    daemon_pod,
    daemon_set,
    namespace,
    node,
    node_claim,
    node_pool,
    pdb,
    pod,
    pv,
    pvc,
    replica_set,
    service,
    storage_class,
    taint,
)
from karpenter.api.cluster import ConfigMap
from karpenter.api.karpenter import NodeClassReference
from karpenter.api.meta import ObjectMeta, Resource
from karpenter.api.node_classes.kwok import KWOKNodeClass
from karpenter.model import labels
from karpenter.state.cluster import ClusterState, snapshot_of
from karpenter.state.expectations import IN_DOUBT, ComingClaim
from karpenter.state.snapshot import Snapshot


def state_of(*resources: Resource) -> ClusterState:
    state = ClusterState()
    for resource in resources:
        state.apply(resource)
    return state


def names(snapshot: Snapshot) -> list[str]:
    return [machine.name for machine in snapshot.nodes]


def bound_to(snapshot: Snapshot, name: str) -> list[str]:
    machine = snapshot.node(name)
    assert machine is not None
    return [each.metadata.name for each in machine.pods]


# Fusion


def test_a_node_and_a_claim_with_one_provider_id_are_one_machine() -> None:
    real, claim = node("n-1", provider_id="cloud://1"), node_claim("c-1", provider_id="cloud://1")

    for order in permutations([real, claim, pod("a", node_name="n-1")]):
        (machine,) = snapshot_of(order).nodes

        assert (real, claim) == (machine.node, machine.node_claim)
        assert ["a"] == [each.metadata.name for each in machine.pods]


def test_a_node_and_a_claim_with_different_provider_ids_are_two_machines() -> None:
    snapshot = snapshot_of([node("n-1"), node_claim("c-1")])

    assert ["c-1", "n-1"] == names(snapshot)


def test_an_unmanaged_node_without_a_provider_id_is_known_by_its_name() -> None:
    snapshot = snapshot_of([node("a", pool="", provider_id=""), node("b", pool="", provider_id="")])

    assert ["a", "b"] == names(snapshot)
    assert not any(machine.is_managed for machine in snapshot.nodes)


@pytest.mark.parametrize(
    ("machine", "seen"),
    [
        pytest.param(node("n", provider_id=""), False, id="no provider ID"),
        pytest.param(
            node("n", instance_type="", initialized=False), False, id="no instance type yet"
        ),
        pytest.param(node("n", instance_type=""), True, id="initialized without an instance type"),
        pytest.param(node("n", initialized=False), True, id="not initialized, but known"),
        pytest.param(
            node("n", pool="", instance_type="", provider_id=""), True, id="not of a pool"
        ),
    ],
)
def test_a_node_of_a_pool_is_passed_over_until_enough_is_known(
    machine: Resource, seen: bool
) -> None:
    snapshot = snapshot_of([machine])

    skipped = [each.metadata.name for each in snapshot.skipped_nodes]
    assert ((["n"], []) if seen else ([], ["n"])) == (names(snapshot), skipped)


def test_a_node_that_was_passed_over_joins_its_claim_once_it_is_known() -> None:
    state = state_of(node_claim("c", provider_id="cloud://1"), node("n", provider_id=""))
    before = state.snapshot()

    state.apply(node("n", provider_id="cloud://1"))

    assert ["c"] == names(before)
    assert ["n"] == names(state.snapshot())
    assert () == state.snapshot().skipped_nodes


def test_a_claim_without_a_provider_id_is_known_by_name_only_and_blocks_planning() -> None:
    state = state_of(node_claim("c", provider_id=""))

    assert () == state.snapshot().nodes
    assert ["c"] == [claim.metadata.name for claim in state.snapshot().unlaunched]
    assert not state.is_synced


@pytest.mark.case("SCH-20")
@pytest.mark.parametrize("way", ["launch", "deletion"])
def test_planning_goes_on_once_the_claim_has_launched_or_is_gone(way: str) -> None:
    state = state_of(node_claim("c", provider_id=""))

    if way == "launch":
        state.apply(node_claim("c"))
    else:
        state.delete(node_claim("c"))

    assert state.is_synced
    assert () == state.snapshot().unlaunched


def test_claims_that_have_not_launched_come_by_name() -> None:
    state = state_of(*(node_claim(name, provider_id="") for name in ("c", "a", "d", "b")))

    assert ["a", "b", "c", "d"] == [each.metadata.name for each in state.snapshot().unlaunched]


def test_a_machine_lasts_until_both_its_objects_are_gone() -> None:
    real, claim = node("m"), node_claim("m")
    state = state_of(real, claim)

    state.delete(claim)
    assert [False] == [machine.is_managed for machine in state.snapshot().nodes]
    state.delete(real)
    assert () == state.snapshot().nodes


def test_where_two_nodes_claim_one_machine_the_newest_speaks_and_all_pods_count() -> None:
    old = node("z-old", provider_id="cloud://1", created=NOW - timedelta(hours=1))
    new = node("a-new", provider_id="cloud://1")
    pods = [pod("a", node_name="z-old"), pod("b", node_name="a-new")]

    for order in permutations([old, new, *pods]):
        (machine,) = snapshot_of(order).nodes

        assert "a-new" == machine.name
        assert ["a", "b"] == [each.metadata.name for each in machine.pods]


# Pods


def test_pods_may_be_known_before_their_node() -> None:
    state = state_of(pod("a", node_name="n"))

    state.apply(node("n"))

    assert ["a"] == bound_to(state.snapshot(), "n")


@pytest.mark.parametrize(
    ("candidate", "uses_room"),
    [
        pytest.param(pod("a", node_name="n"), True, id="a running pod"),
        pytest.param(pod("a", node_name="n", deleted=NOW), True, id="a terminating pod"),
        pytest.param(pod("a", node_name="n", phase="Succeeded"), False, id="a finished pod"),
        pytest.param(pod("a", node_name="n", phase="Failed"), False, id="a failed pod"),
        pytest.param(pod("a"), False, id="a pending pod"),
        pytest.param(pod("a", node_name="other"), False, id="a pod of another node"),
    ],
)
def test_which_pods_use_room(candidate: Resource, uses_room: bool) -> None:
    snapshot = snapshot_of([node("n"), candidate])

    assert (["a"] if uses_room else []) == bound_to(snapshot, "n")
    assert ["default/a"] == list(snapshot.pods)


def test_a_pod_that_finishes_gives_its_room_back() -> None:
    state = state_of(node("n"), pod("a", node_name="n", cpu="1"))

    state.apply(pod("a", node_name="n", cpu="1", phase="Succeeded"))

    (machine,) = state.snapshot().nodes
    assert 0 == machine.requested.cpu


def test_a_pod_that_is_deleted_gives_its_room_back() -> None:
    state = state_of(node("n"), pod("a", node_name="n", cpu="1"))

    state.delete(pod("a", node_name="n"))

    assert [] == bound_to(state.snapshot(), "n")
    assert {} == state.snapshot().pods


def test_a_name_that_is_used_again_moves_its_room_to_the_new_node() -> None:
    state = state_of(node("n1"), node("n2"), pod("db-0", node_name="n1", cpu="1"))

    state.apply(pod("db-0", node_name="n2", cpu="2"))

    first, second = state.snapshot().nodes
    assert (0, 2000) == (first.requested.cpu, second.requested.cpu)


def test_a_late_deletion_does_not_touch_the_successor_of_its_object() -> None:
    def known_as(uid: str, pod_name: str = "db-0") -> Resource:
        made = pod(pod_name, node_name="n")
        return type(made)(
            metadata=ObjectMeta(name=pod_name, namespace="default", uid=uid),
            spec=made.spec,
            status=made.status,
        )

    state = state_of(node("n"), known_as("old"), known_as("new"))

    assert not state.delete(known_as("old"))
    assert ["db-0"] == bound_to(state.snapshot(), "n")
    assert state.delete(known_as("new"))
    assert [] == bound_to(state.snapshot(), "n")


def test_unbound_and_daemon_pods_are_at_hand() -> None:
    agent = daemon_set("agent")
    state = state_of(pod("waiting"), pod("a", node_name="n"), daemon_pod(agent, "n"))
    snapshot = state.snapshot()

    assert ["default/waiting"] == list(snapshot.unbound_pods)
    assert ["default/agent-n"] == list(snapshot.daemon_pods)

    state.apply(pod("waiting", node_name="n"))
    state.delete(daemon_pod(agent, "n"))

    assert ({}, {}) == (state.snapshot().unbound_pods, state.snapshot().daemon_pods)
    assert ["default/waiting"] == list(snapshot.unbound_pods)


# Telling the same again


EVERYTHING = [
    node("n"),
    node_claim("n"),
    pod("a", node_name="n"),
    pod("b"),
    node_pool(),
    daemon_set(),
    pvc("data"),
    pv("disk"),
    storage_class(),
    csi_node("n", {"csi.example.com": 10}),
    pdb(),
    namespace("default"),
    service("web", APP_T),
    replica_set(),
    KWOKNodeClass(metadata=ObjectMeta(name="default")),
]


@pytest.mark.parametrize("resource", EVERYTHING, ids=lambda resource: resource.kind)
def test_hearing_the_same_again_changes_nothing(resource: Resource) -> None:
    state = state_of(*EVERYTHING)
    before = state.snapshot()

    assert not state.apply(resource)
    assert before is state.snapshot()


@pytest.mark.parametrize("resource", EVERYTHING, ids=lambda resource: resource.kind)
def test_what_is_deleted_is_gone_and_can_be_deleted_again(resource: Resource) -> None:
    state = state_of(resource)

    assert state.delete(resource)
    assert not state.delete(resource)
    assert ClusterState().snapshot() == state.snapshot()


def test_kinds_nobody_plans_with_pass_by() -> None:
    state = ClusterState()
    before = state.snapshot()

    assert not state.apply(ConfigMap(metadata=ObjectMeta(name="settings")))
    assert not state.delete(ConfigMap(metadata=ObjectMeta(name="settings")))
    assert before is state.snapshot()


def test_objects_of_every_kind_are_found_by_name() -> None:
    snapshot = snapshot_of(EVERYTHING)

    assert ["np"] == list(snapshot.node_pools)
    assert ["default/daemon"] == list(snapshot.daemon_sets)
    assert ["default/data"] == list(snapshot.pvcs)
    assert ["disk"] == list(snapshot.pvs)
    assert ["standard"] == list(snapshot.storage_classes)
    assert ["n"] == list(snapshot.csi_nodes)
    assert ["default/pdb"] == list(snapshot.pdbs)
    assert ["default"] == list(snapshot.namespaces)
    assert ["default/web"] == list(snapshot.services)
    assert ["default/web"] == list(snapshot.replica_sets)
    reference = NodeClassReference(group="karpenter.kwok.sh", kind="KWOKNodeClass", name="default")
    assert [reference] == list(snapshot.node_classes)


# Sharing


def test_machines_nothing_happened_to_stay_the_same_objects() -> None:
    state = state_of(*(node(f"n{i}") for i in range(5)), pod("a", node_name="n1"))
    before = state.snapshot()

    state.apply(pod("b", node_name="n3"))
    after = state.snapshot()

    assert [True, True, True, False, True] == [
        old is new for old, new in zip(before.nodes, after.nodes, strict=True)
    ]
    assert before.node_pools is after.node_pools
    assert before.pods is not after.pods


def test_a_pending_pod_changes_no_machine() -> None:
    state = state_of(node("n"))
    before = state.snapshot()

    state.apply(pod("waiting"))

    assert before.nodes is state.snapshot().nodes


def test_a_snapshot_never_changes() -> None:
    state = state_of(node("n"), pod("a", node_name="n"), node_pool("np"))
    before = state.snapshot()

    state.apply(pod("b", node_name="n"))
    state.apply(node_pool("other"))
    state.delete(node("n"))

    assert ["n"] == names(before)
    assert ["a"] == bound_to(before, "n")
    assert ["np"] == list(before.node_pools)


def test_machines_come_in_one_order_whatever_the_order_of_events() -> None:
    machines = [node(name) for name in "cab"]

    assert {("a", "b", "c")} == {
        tuple(names(snapshot_of(order))) for order in permutations(machines)
    }


# Marks and nominations


def test_a_mark_stays_until_it_is_taken_back() -> None:
    state = state_of(node("n", provider_id="x"), node_claim("c", provider_id="x"))

    state.mark("n")
    assert [True] == [machine.is_deleting for machine in state.snapshot().nodes]
    state.apply(node("n", provider_id="x", taints=[taint("a:NoSchedule")]))
    assert [True] == [machine.is_deleting for machine in state.snapshot().nodes]
    state.unmark("c")
    assert [False] == [machine.is_deleting for machine in state.snapshot().nodes]


def test_a_mark_set_on_a_launching_claim_holds_once_it_is_a_node() -> None:
    state = state_of(node_claim("c", provider_id="x"))

    state.mark("c")
    state.apply(node("n", provider_id="x"))

    assert [("n", True)] == [(each.name, each.is_marked) for each in state.snapshot().nodes]


@pytest.mark.parametrize(
    "lost", [pytest.param(node("n"), id="its Node"), pytest.param(node_claim("n"), id="its claim")]
)
def test_a_machine_that_has_lost_one_of_its_objects_keeps_its_mark_and_nomination(
    lost: Resource,
) -> None:
    state = state_of(node("n"), node_claim("n"))
    state.mark("n")
    state.nominate("n", NOW)

    state.delete(lost)

    (machine,) = state.snapshot().nodes
    assert (True, NOW) == (machine.is_marked, machine.nominated_until)


def test_a_machine_that_is_gone_takes_its_mark_and_nomination_along() -> None:
    state = state_of(node("n"))
    state.mark("n")
    state.nominate("n", NOW)

    state.delete(node("n"))
    state.apply(node("n"))

    (machine,) = state.snapshot().nodes
    assert (False, None) == (machine.is_marked, machine.nominated_until)


def test_nominations_are_extended_and_never_shortened() -> None:
    state = state_of(node("n"))
    later = NOW + timedelta(seconds=20)

    state.nominate("n", NOW)
    state.nominate("n", later)
    state.nominate("n", NOW)

    assert [later] == [machine.nominated_until for machine in state.snapshot().nodes]


def test_marking_or_nominating_nobody_changes_nothing() -> None:
    state = state_of(node("n"))
    before = state.snapshot()

    state.mark("nobody")
    state.unmark("n")
    state.nominate("nobody", NOW)

    assert before is state.snapshot()


def test_marking_twice_changes_nothing_more() -> None:
    state = state_of(node("n"))
    state.mark("n")
    before = state.snapshot()

    state.mark("n")

    assert before is state.snapshot()


# Claims that come and claims that go, before anybody is told


def test_a_claim_is_expected_until_it_is_seen() -> None:
    state = ClusterState()
    state.expect("c", "np", replaces="b")

    before = state.snapshot()
    state.apply(node_claim("c", provider_id=""))

    assert {"c": ComingClaim("np", "b")} == before.coming
    assert {} == state.snapshot().coming


def test_a_claim_that_is_not_created_is_expected_no_more() -> None:
    state = ClusterState()
    state.expect("c", "np")
    state.expect("d", "np")

    state.settle("c")

    assert ["d"] == [*state.snapshot().coming]
    assert (False, True) == (state.is_expected("c"), state.is_expected("d"))


def test_a_claim_is_expected_under_the_name_it_gets() -> None:
    state = ClusterState()
    state.expect("c", "np", replaces="b")

    state.rename("c", "d")
    state.rename("nobody", "e")

    assert {"d": ComingClaim("np", "b")} == state.snapshot().coming


def test_a_claim_in_doubt_is_expected_for_a_while_and_then_forgotten() -> None:
    state = ClusterState()
    state.expect("c", "np")
    state.doubt("c", NOW)
    (coming,) = state.snapshot().coming.values()

    later = NOW + IN_DOUBT
    state.expect("d", "np")
    state.doubt("d", later)
    state.doubt("nobody", later)

    assert (True, False) == (coming.may_come(NOW), coming.may_come(later))
    assert ["d"] == [*state.snapshot().coming]


def test_a_claim_that_was_asked_to_go_is_remembered_until_it_is_gone() -> None:
    claim = node_claim("c", provider_id="")
    state = state_of(claim)
    state.dismiss(claim)

    before = state.snapshot()
    state.delete(claim)

    assert {claim.metadata.uid} == before.dismissed
    assert frozenset() == state.snapshot().dismissed


def test_launches_of_a_pool_are_held_up_and_let_go() -> None:
    state = ClusterState()
    state.hold_launches("np", NOW)
    state.hold_launches("other", NOW)

    before = state.snapshot()
    state.hold_launches("np", None)

    assert {"np": NOW, "other": NOW} == before.launches_held
    assert {"other": NOW} == state.snapshot().launches_held


# Looking things up


def test_a_machine_is_found_by_the_name_of_its_node_and_of_its_claim() -> None:
    snapshot = snapshot_of([node("n", provider_id="x"), node_claim("c", provider_id="x")])

    (machine,) = snapshot.nodes
    assert machine is snapshot.node("n") is snapshot.node("c")
    assert snapshot.node("other") is None


def test_the_machines_of_a_pool_are_found() -> None:
    snapshot = snapshot_of([node("a"), node("b", pool="other"), node("c", pool="")])

    assert ["a"] == [machine.name for machine in snapshot.nodes_of("np")]
    assert () == snapshot.nodes_of("unknown")


def test_the_machines_of_a_pool_are_found_by_their_claims() -> None:
    claim = node_claim("c", provider_id="x")
    snapshot = snapshot_of([claim, node("n", provider_id="x", pool="other"), node("m")])

    assert ["n"] == [machine.name for machine in snapshot.claimed_for("np")]
    assert () == snapshot.claimed_for("other")


def test_what_a_namespace_has_is_found_by_name() -> None:
    snapshot = snapshot_of(
        [
            pdb("b"),
            pdb("a"),
            pdb("c", namespace="other"),
            service("s", APP_T),
            namespace("other", {"team": "x"}),
        ]
    )

    assert ["a", "b"] == [each.metadata.name for each in snapshot.pdbs_in("default")]
    assert ["s"] == [each.metadata.name for each in snapshot.services_in("default")]
    assert () == snapshot.services_in("other")
    assert {"other": {"team": "x"}} == snapshot.namespace_labels


def test_a_machine_being_terminated_is_still_in_the_snapshot() -> None:
    snapshot = snapshot_of([node_claim("c", conditions=[condition("InstanceTerminating")])])

    assert [True] == [machine.is_deleting for machine in snapshot.nodes]
    assert labels.NODEPOOL in snapshot.nodes[0].labels
