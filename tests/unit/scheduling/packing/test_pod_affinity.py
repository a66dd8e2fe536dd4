"""Pods that want to be near others or away from them, in this pass and in later ones."""

import pytest

from helpers.builders import (
    APP_T,
    expression,
    managed_node,
    node_pool,
    pod,
    pod_term,
    pods,
    selector,
    taint,
    toleration,
)
from helpers.solver import bare, claim_value, solved
from karpenter.api.pods import Pod, PodAffinityTerm
from karpenter.model import labels as keys
from karpenter.scheduling.compiled.topology_groups import NamespaceDirectory
from karpenter.scheduling.plan import Why
from karpenter.state.nodes import StateNode

BY_ZONE = pod_term(key=keys.ZONE)
BY_HOST = pod_term()
Z1 = {keys.ZONE: "z1"}


def running(name: str, zone: str, **labels: str) -> StateNode:
    """A machine in a zone, without room, that runs one pod with these labels."""
    held = pod(f"on-{name}", labels=labels, node_name=name)
    return managed_node(name, zone=zone, slots=1, pods=[held])


@pytest.mark.case("SCH-182")
@pytest.mark.parametrize("key", [keys.ZONE, keys.HOSTNAME])
def test_nobody_to_be_near_to(key: str) -> None:
    answer = solved([pod("p", affinity=[pod_term(key=key)])])

    assert {"p": {Why.TOPOLOGY}} == answer.unplaced


@pytest.mark.case("SCH-183")
@pytest.mark.parametrize(
    ("cpu_of_target", "cpu_of_follower"),
    [
        pytest.param("2", "1", id="the target is placed first"),
        pytest.param("1", "2", id="the follower is tried first"),
    ],
)
def test_a_pod_goes_to_the_machine_of_another(cpu_of_target: str, cpu_of_follower: str) -> None:
    target = pod("target", cpu=cpu_of_target, labels=APP_T, node_selector={keys.ARCH: "arm64"})

    answer = solved([target, pod("follower", cpu=cpu_of_follower, affinity=[BY_HOST])])

    assert {"default/target", "default/follower"} == set(answer.only.pods)


@pytest.mark.case("SCH-184")
def test_the_zone_of_an_unpinned_target_is_known_only_later() -> None:
    target = pod("target", cpu="2", labels=APP_T)
    follower = pod("follower", cpu="1", affinity=[BY_ZONE])

    now = solved([target, follower])
    later = solved([follower], nodes=now.settled(), pools=[node_pool()])
    meanwhile = solved([target, follower], nodes=now.launching())

    assert ["target"] == now.placed
    assert {"follower": {Why.TOPOLOGY}} == now.unplaced
    assert ["follower"] == later.placed
    assert now.zones == list(later.pods_by(keys.ZONE))
    assert now.zones == list(meanwhile.pods_by(keys.ZONE))


@pytest.mark.case("SCH-185")
def test_a_pinned_target_pins_its_followers() -> None:
    target = pod("target", cpu="2", labels=APP_T, node_selector=Z1)

    answer = solved([target, *pods(8, "follower", cpu="1", affinity=[BY_ZONE])])

    assert {"z1": 9} == answer.pods_by(keys.ZONE)


CHAIN = ["ui", "cache", "web", "db"]


@pytest.mark.case("SCH-186")
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param(["1", "2", "3", "4"], id="the last link is tried first"),
        pytest.param(["4", "3", "2", "1"], id="the first link is tried first"),
        pytest.param(["2", "4", "1", "3"], id="the links are tried in no order"),
    ],
)
def test_a_chain_ends_up_on_one_machine(sizes: list[str]) -> None:
    waiting = [
        pod(
            name,
            cpu=cpu,
            labels={"app": name},
            node_selector={keys.ARCH: "arm64"},
            affinity=[pod_term({"app": target})] if target else [],
        )
        for name, target, cpu in zip(CHAIN, [*CHAIN[1:], ""], sizes, strict=True)
    ]

    answer = solved(waiting)

    assert {f"default/{name}" for name in CHAIN} == set(answer.only.pods)


def together(count: int, name: str = "p") -> list[Pod]:
    return pods(count, name, labels=APP_T, affinity=[BY_HOST])


@pytest.mark.case("SCH-187")
def test_pods_bound_to_one_machine_fail_once_it_is_full() -> None:
    first = solved(together(10))
    later = solved(together(2, "late"), nodes=first.settled())

    assert [5] == first.loads
    assert 5 == len(first.unplaced)
    assert ["late-0", "late-1"] == sorted(later.unplaced)


@pytest.mark.case("SCH-188")
def test_pods_pinned_to_different_zones_are_near_to_themselves_alone() -> None:
    waiting = [
        pod(name, labels=APP_T, affinity=[BY_ZONE], node_selector={keys.ZONE: name})
        for name in ("z2", "z3")
    ]

    answer = solved(waiting)

    assert {"z2": 1, "z3": 1} == answer.pods_by(keys.ZONE)


def test_pods_near_to_one_another_share_a_zone_over_several_machines() -> None:
    answer = solved(pods(10, labels=APP_T, affinity=[BY_ZONE]))

    assert [5, 5] == answer.loads
    assert 1 == len(answer.pods_by(keys.ZONE))
    assert ["z1"] == list(answer.pods_by(keys.ZONE))


@pytest.mark.case("SCH-189")
@pytest.mark.parametrize(
    ("term", "is_near"),
    [
        pytest.param(pod_term(), False, id="no namespace is listed"),
        pytest.param(pod_term(namespaces=["other"]), True, id="the namespace is listed"),
        pytest.param(
            pod_term(namespace_selector=selector()), True, id="all namespaces are selected"
        ),
        pytest.param(
            pod_term(namespace_selector=selector({"team": "db"})),
            True,
            id="the namespace is selected by its label",
        ),
        pytest.param(
            pod_term(namespace_selector=selector({"team": "web"})),
            False,
            id="another namespace is selected",
        ),
        pytest.param(
            pod_term(namespaces=["other"], namespace_selector=selector({"team": "web"})),
            True,
            id="another namespace is selected and this one is listed",
        ),
    ],
)
def test_targets_in_another_namespace(term: PodAffinityTerm, is_near: bool) -> None:
    target = pod("target", cpu="2", namespace="other", labels=APP_T)
    follower = pod("follower", cpu="1", affinity=[term])

    answer = solved(
        [target, follower],
        namespaces={"default": {"team": "web"}, "other": {"team": "db"}},
    )

    assert [2 if is_near else 1] == answer.loads
    assert ([] if is_near else ["follower"]) == list(answer.unplaced)


@pytest.mark.case("SCH-190")
@pytest.mark.parametrize(
    ("occupied", "zone"),
    [
        pytest.param(["z1", "z2", "z3"], None, id="every zone is occupied"),
        pytest.param(["z1", "z2"], "z3", id="one zone is left"),
    ],
)
def test_zones_with_pods_to_avoid(occupied: list[str], zone: str | None) -> None:
    nodes = [running(f"n-{name}", name, **APP_T) for name in occupied]

    answer = solved([pod("p", anti_affinity=[BY_ZONE])], nodes=nodes)

    assert ([zone] if zone else []) == [claim_value(c, keys.ZONE) for c in answer.claims]
    assert ({} if zone else {"p": {Why.TOPOLOGY}}) == answer.unplaced


@pytest.mark.case("SCH-191")
def test_pods_that_avoid_each_other_take_a_zone_per_pass() -> None:
    waiting = pods(3, labels=APP_T, anti_affinity=[BY_ZONE])
    nodes: list[StateNode] = []
    zones: list[str] = []
    for _ in range(3):
        answer = solved(waiting, nodes=nodes)
        zones += answer.zones
        nodes = answer.settled()
        waiting = [p for p in waiting if p.metadata.name in answer.unplaced]

    assert ["z1", "z2", "z3"] == sorted(zones)
    assert [] == waiting


def test_pods_that_avoid_each_other_and_are_pinned_fit_in_one_pass() -> None:
    waiting = [
        pod(zone, labels=APP_T, anti_affinity=[BY_ZONE], node_selector={keys.ZONE: zone})
        for zone in ("z1", "z2", "z3")
    ]

    answer = solved(waiting)

    assert {"z1": 1, "z2": 1, "z3": 1} == answer.pods_by(keys.ZONE)


@pytest.mark.case("SCH-192")
def test_a_pod_that_is_avoided_waits_for_the_zone_to_be_known() -> None:
    big = pod("big", cpu="2", anti_affinity=[BY_ZONE])
    avoided = pod("avoided", cpu="1", labels=APP_T)

    now = solved([big, avoided])
    later = solved([avoided], nodes=now.settled())

    assert ["big"] == now.placed
    assert {"avoided": {Why.TOPOLOGY}} == now.unplaced
    assert ["avoided"] == later.placed
    assert not set(now.zones) & set(later.zones)


@pytest.mark.case("SCH-193")
def test_a_pod_that_could_be_anywhere_is_avoided_everywhere() -> None:
    answer = solved(
        [pod("first", cpu="2", labels=APP_T), pod("avoiding", cpu="1", anti_affinity=[BY_ZONE])]
    )

    assert ["first"] == answer.placed
    assert {"avoiding": {Why.TOPOLOGY}} == answer.unplaced


@pytest.mark.parametrize(
    ("required", "zones"),
    [
        pytest.param(True, "z2|z3", id="SCH-194 a running pod keeps others out of its zone"),
        pytest.param(False, "", id="SCH-195 a running pod's mere wish keeps nobody out"),
    ],
)
def test_a_running_pod_that_avoids_others(required: bool, zones: str) -> None:
    held = (
        pod("held", node_name="n", anti_affinity=[BY_ZONE])
        if required
        else pod("held", node_name="n", preferred_anti_affinity=[(1, BY_ZONE)])
    )

    answer = solved(
        [pod("p", labels=APP_T)], nodes=[managed_node("n", zone="z1", slots=1, pods=[held])]
    )

    assert zones == claim_value(answer.only, keys.ZONE)


@pytest.mark.case("SCH-196")
@pytest.mark.parametrize(
    ("cpu_of_avoided", "cpu_of_avoiding"),
    [
        pytest.param("2", "1", id="the pod that is avoided comes first"),
        pytest.param("1", "2", id="the pod that avoids comes first"),
    ],
)
def test_pods_on_different_machines(cpu_of_avoided: str, cpu_of_avoiding: str) -> None:
    answer = solved(
        [
            pod("avoided", cpu=cpu_of_avoided, labels=APP_T),
            pod("avoiding", cpu=cpu_of_avoiding, anti_affinity=[BY_HOST]),
        ]
    )

    assert [1, 1] == answer.loads


@pytest.mark.case("SCH-196")
@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        pytest.param(
            pod("held", node_name="n", labels=APP_T),
            pod("p", anti_affinity=[BY_HOST]),
            id="the pending pod avoids the running one",
        ),
        pytest.param(
            pod("held", node_name="n", anti_affinity=[BY_HOST]),
            pod("p", labels=APP_T),
            id="the running pod avoids the pending one",
        ),
    ],
)
def test_a_machine_with_room_is_avoided(held: Pod, wanted: Pod) -> None:
    answer = solved([wanted], nodes=[managed_node("n", pods=[held])])

    assert {} == answer.existing
    assert [1] == answer.loads


def test_running_pods_that_are_avoided_do_not_keep_their_like_away() -> None:
    """Only the pods that avoid others close a zone to them, not those others themselves."""
    avoiding = pod("avoiding", cpu="1", anti_affinity=[BY_ZONE], node_selector={keys.ZONE: "z2"})
    like = pod("like", cpu="2", labels=APP_T, node_selector=Z1)

    answer = solved([avoiding, like], nodes=[running("n", "z1", **APP_T)])

    assert {"z1": 1, "z2": 1} == answer.pods_by(keys.ZONE)


def test_running_pods_that_are_avoided_do_not_keep_their_like_from_their_machine() -> None:
    held = pod("held", labels=APP_T, node_name="n")

    answer = solved(
        [pod("like", labels=APP_T, cpu="1"), pod("avoiding", anti_affinity=[BY_HOST])],
        nodes=[managed_node("n", pods=[held])],
    )

    assert {"n": ["like"]} == answer.existing
    assert ["default/avoiding"] == list(answer.only.pods)


def test_affinity_counts_only_pools_the_pod_may_go_to() -> None:
    pools = [
        node_pool(
            "tainted",
            requirements=[expression(keys.ZONE, "In", "z1")],
            taints=[taint("a:NoSchedule")],
        ),
        node_pool("open", requirements=[expression(keys.ZONE, "In", "z2")]),
    ]
    own = pods(2, labels=APP_T, affinity=[BY_ZONE])
    tolerant = pod("t", labels=APP_T, affinity=[BY_ZONE], tolerations=[toleration("a")])

    answer = solved(own, pools=pools)
    anywhere = solved([tolerant], pools=pools)

    assert {"z2": 2} == answer.pods_by(keys.ZONE)
    assert ["t"] == anywhere.placed


def of_revisions(*revisions: str, term: PodAffinityTerm) -> list[Pod]:
    return [
        pod(f"p{number}", cpu="0.1", labels={**APP_T, "rev": revision}, anti_affinity=[term])
        for number, revision in enumerate(revisions)
    ]


@pytest.mark.case("SCH-196")
@pytest.mark.parametrize(
    ("term", "together"),
    [
        pytest.param(BY_HOST, {"p0", "p1", "p2", "p3"}, id="everybody is avoided"),
        pytest.param(
            pod_term(match_label_keys=["rev", "absent"]),
            {"p0 p2", "p1 p3"},
            id="only pods of the same revision are avoided",
        ),
        pytest.param(
            pod_term(mismatch_label_keys=["rev", "absent"]),
            {"p0 p1", "p2 p3"},
            id="only pods of other revisions are avoided",
        ),
    ],
)
def test_a_term_may_speak_of_the_labels_of_its_own_pod(
    term: PodAffinityTerm, together: set[str]
) -> None:
    answer = solved(of_revisions("a", "a", "b", "b", term=term))

    assert together == {" ".join(sorted(map(bare, c.pods))) for c in answer.claims}


@pytest.mark.case("SCH-189")
@pytest.mark.parametrize(
    "known",
    [
        pytest.param({}, id="a namespace known from its pods alone"),
        pytest.param({"other": {"env": "dev"}}, id="one that lacks its own label"),
    ],
)
def test_every_namespace_can_be_selected_by_its_name(known: dict[str, dict[str, str]]) -> None:
    named = selector({keys.NAMESPACE_NAME: "other"})
    directory = NamespaceDirectory(known, ["default/p", "other/target"])

    found = directory.meant_by(pod_term(namespace_selector=named), "default")

    assert frozenset({"other"}) == found


def test_a_pod_drawn_to_a_node_it_must_avoid_is_told_so() -> None:
    near, apart = pod_term({"app": "near"}), pod_term({"app": "apart"})
    together = [
        pod("a", cpu="1", labels={"app": "near"}),
        pod("b", cpu="1", labels={"app": "apart"}),
    ]

    answer = solved([*together, pod("p", affinity=[near], anti_affinity=[apart])])

    assert {"p": {Why.TOPOLOGY}} == answer.unplaced
    assert ["pod affinity binds it to nodes that do not take it"] == answer.details("p")
