"""DaemonSets: the room they take on nodes that are yet to come and on nodes that exist."""

from datetime import timedelta
from typing import Unpack

import pytest

from helpers.builders import (
    NOW,
    SIZE,
    PodOptions,
    daemon_pod,
    daemon_set,
    expression,
    managed_node,
    node_pool,
    pod,
    pods,
    taint,
    toleration,
    unmanaged_node,
)
from helpers.builders.parts import Expressions
from helpers.solver import Setting, solved
from karpenter.api.workloads import DaemonSet
from karpenter.model import labels as keys
from karpenter.model.resources import Resources
from karpenter.scheduling.plan import Why

MIB = 2**20
DEDICATED = taint("dedicated=db:NoSchedule")


def large_daemon(**options: Unpack[PodOptions]) -> DaemonSet:
    options["cpu"], options["memory"] = "2", "2Gi"
    return daemon_set(**options)


@pytest.mark.parametrize(
    ("daemons", "setting", "launched"),
    [
        pytest.param([large_daemon()], Setting(), "std", id="SCH-84 a daemon takes its room"),
        pytest.param(
            [large_daemon()],
            Setting(pools=[node_pool(startup_taints=[DEDICATED])]),
            "std",
            id="SCH-85 startup taints do not keep daemons away",
        ),
        pytest.param(
            [large_daemon()],
            Setting(pools=[node_pool(taints=[DEDICATED])]),
            "small",
            id="SCH-86 a taint the daemon does not tolerate does",
        ),
        pytest.param(
            [large_daemon(tolerations=[toleration("dedicated")])],
            Setting(pools=[node_pool(taints=[DEDICATED])]),
            "std",
            id="a taint the daemon tolerates does not",
        ),
        pytest.param(
            [large_daemon(node_selector={"k": "v"})],
            Setting(),
            "small",
            id="SCH-87 it selects a label that no pool defines",
        ),
        pytest.param(
            [large_daemon(node_selector={keys.INSTANCE_TYPE: "nope"})],
            Setting(),
            "small",
            id="SCH-88 it asks for a type that does not exist",
        ),
        pytest.param(
            [large_daemon(node_selector={"k": "v"})],
            Setting(pools=[node_pool(labels={"k": "v"})]),
            "std",
            id="SCH-89 it selects the pool's label",
        ),
        pytest.param(
            [
                daemon_set("a", cpu="1", node_selector={SIZE: "small"}),
                daemon_set("b", cpu="10", node_selector={SIZE: "large"}),
            ],
            Setting(),
            "std",
            id="SCH-90 each type has the daemons that will run on it",
        ),
        pytest.param(
            [large_daemon(required=[[expression("foo", "NotIn", "bar")]])],
            Setting(),
            "std",
            id="SCH-91 NotIn is content with no label",
        ),
        pytest.param(
            [
                large_daemon(
                    required=[[expression("foo", "In", "voo")], [expression("foo", "In", "bar")]]
                )
            ],
            Setting(pools=[node_pool(labels={"foo": "bar"})]),
            "std",
            id="SCH-92 one of its alternatives is enough",
        ),
        pytest.param(
            [large_daemon(preferred=[(1, [expression("foo", "In", "bar")])])],
            Setting(),
            "std",
            id="SCH-93 a preference keeps no daemon away",
        ),
        pytest.param(
            [large_daemon()],
            Setting(pools=[node_pool(taints=[taint("k=v:PreferNoSchedule")])]),
            "std",
            id="SCH-93 a pool's preference keeps no daemon away",
        ),
    ],
)
def test_daemons_decide_the_type(daemons: list[DaemonSet], setting: Setting, launched: str) -> None:
    wanted = pod(cpu="1", memory="1Gi", tolerations=[toleration("dedicated")])

    answer = solved([wanted], **(setting | {"daemon_sets": daemons}))

    assert [launched] == answer.types


@pytest.mark.case("SCH-94")
def test_a_daemon_is_as_large_as_its_newest_pod() -> None:
    daemon = daemon_set(cpu="4")
    shrunk = daemon_pod(daemon, "elsewhere", cpu="2")

    answer = solved([pod(cpu="1")], daemon_sets=[daemon], daemon_pods=[shrunk])

    assert 3000 == answer.only.requests.cpu


@pytest.mark.case("SCH-94")
def test_the_newest_of_several_pods_counts() -> None:
    daemon = daemon_set(cpu="4")
    running = [
        daemon_pod(daemon, "old", cpu="3", created=NOW - timedelta(hours=2)),
        daemon_pod(daemon, "new", cpu="2", created=NOW - timedelta(hours=1)),
        daemon_pod(daemon, "older", cpu="1", created=NOW - timedelta(hours=3)),
    ]

    answer = solved([pod(cpu="1")], daemon_sets=[daemon], daemon_pods=running)

    assert 3000 == answer.only.requests.cpu


@pytest.mark.case("SCH-95")
def test_limits_stand_in_for_missing_requests() -> None:
    daemon = daemon_set(limits={"cpu": "10000"})

    answer = solved([pod("p")], daemon_sets=[daemon])

    assert {"p": {Why.INSUFFICIENT_RESOURCES}} == answer.unplaced


@pytest.mark.case("SCH-96")
def test_a_claim_asks_for_its_pods_and_daemons_once() -> None:
    daemon = daemon_set(cpu="1", memory="1Mi")

    answer = solved(pods(2, cpu="1", memory="1Mi"), daemon_sets=[daemon])

    assert Resources(3000, 3 * MIB, 3) == answer.only.requests


def test_a_claim_asks_for_the_least_that_daemons_take_on_any_of_its_types() -> None:
    daemons = [
        daemon_set("a", cpu="1", memory="2Mi", node_selector={SIZE: "small"}),
        daemon_set("b", cpu="10", memory="1Mi", node_selector={SIZE: "large"}),
    ]

    claim = solved([pod(cpu="0.5")], daemon_sets=daemons).only

    assert {"small", "arm"} <= set(claim.instance_types)
    assert Resources(1500, MIB, 2) == claim.requests


@pytest.mark.case("SCH-97")
def test_a_daemon_takes_its_host_port_on_every_node() -> None:
    answer = solved([pod("p", host_ports=[8080])], daemon_sets=[daemon_set(host_ports=[8080])])

    assert {"p": {Why.HOST_PORT}} == answer.unplaced


@pytest.mark.case("SCH-98")
def test_a_host_port_is_free_where_the_daemon_does_not_run() -> None:
    daemon = daemon_set(host_ports=[8080], node_selector={SIZE: "large"})

    answer = solved(
        [pod("p", host_ports=[8080], node_selector={SIZE: "small"})], daemon_sets=[daemon]
    )

    assert ["p"] == answer.placed


@pytest.mark.case("SCH-99")
def test_daemons_that_wait_for_initialized_nodes_count() -> None:
    daemon = daemon_set(cpu="1", node_selector={keys.INITIALIZED: "true"})

    claim = solved([pod(cpu="1")], daemon_sets=[daemon]).only

    assert 2000 == claim.requests.cpu
    assert keys.INITIALIZED not in claim.labels
    assert claim.requirements.get(keys.INITIALIZED) is None


@pytest.mark.case("SCH-100")
def test_a_daemon_that_runs_already_takes_no_more_room() -> None:
    daemon = daemon_set(cpu="1")
    held = managed_node("n", cpu="15.9", pods=[daemon_pod(daemon, "n", cpu="1")])

    answer = solved([pod("p", cpu="14.9")], nodes=[held], daemon_sets=[daemon])

    assert {"n": ["p"]} == answer.existing


def test_a_daemon_that_is_yet_to_come_is_given_its_room() -> None:
    answer = solved(
        [pod("p", cpu="15")],
        nodes=[managed_node("n", cpu="15.9")],
        daemon_sets=[daemon_set(cpu="1")],
    )

    assert {} == answer.existing


def test_a_daemon_larger_than_expected_gives_no_room_back() -> None:
    daemon = daemon_set(cpu="1")
    held = managed_node("n", cpu="15.9", pods=[daemon_pod(daemon, "n", cpu="3")])

    answer = solved([pod("p", cpu="13")], nodes=[held], daemon_sets=[daemon])

    assert {} == answer.existing


@pytest.mark.case("SCH-101")
def test_a_daemon_nobody_expected_takes_room_as_well() -> None:
    held = managed_node("n", cpu="15.9", pods=[daemon_pod(daemon_set(), "n", cpu="1")])

    answer = solved([pod("p", cpu="15.5")], nodes=[held])

    assert {} == answer.existing
    assert ["arm"] == answer.types


@pytest.mark.case("SCH-102")
def test_a_daemon_that_fills_new_nodes_leaves_the_old_one_alone() -> None:
    daemon = daemon_set(cpu="1000", node_selector={keys.ZONE: "z1"})

    answer = solved(
        [pod("a", cpu="1"), pod("b", cpu="1")],
        nodes=[unmanaged_node("n", cpu="1", zone="")],
        daemon_sets=[daemon],
    )

    assert {"n": ["a"]} == answer.existing
    assert {"b": {Why.INSUFFICIENT_RESOURCES}} == answer.unplaced


@pytest.mark.case("SCH-88")
@pytest.mark.parametrize(
    "required",
    [
        pytest.param([[expression("cores", "Gt", "many")]], id="a bound that is no number"),
        pytest.param(
            [[expression("a", "In", "1"), expression("a", "In", "2")]],
            id="values that contradict one another",
        ),
    ],
)
def test_a_daemon_that_no_node_can_suit_takes_no_room(required: list[Expressions]) -> None:
    daemon = large_daemon(required=required)

    answer = solved([pod(cpu="1", memory="1Gi")], daemon_sets=[daemon])

    assert ["small"] == answer.types


def huge(name: str = "hog", cpu: str = "100000") -> DaemonSet:
    return daemon_set(name, namespace="kube-system", cpu=cpu)


def test_a_daemon_that_no_type_has_room_for_is_named_to_every_pod_it_leaves_without_a_place() -> (
    None
):
    answer = solved(pods(2, cpu="1"), daemon_sets=[huge(), daemon_set("small", cpu="100m")])

    told = (
        "daemons alone need more than any type it could use has,"
        " foremost DaemonSet kube-system/hog (100000 cpu); would fit otherwise"
    )
    assert {"pod-0": {Why.INSUFFICIENT_RESOURCES}, "pod-1": {Why.INSUFFICIENT_RESOURCES}} == (
        answer.unplaced
    )
    assert [told] == answer.details("pod-0") == answer.details("pod-1")


def test_daemons_that_are_too_much_together_are_named_together() -> None:
    daemons = [huge("a", "40"), huge("b", "50"), huge("c", "30")]

    (told,) = solved([pod()], daemon_sets=daemons).details("pod")

    assert (
        "foremost DaemonSets kube-system/b (50 cpu), kube-system/a (40 cpu),"
        " kube-system/c (30 cpu); would fit otherwise"
    ) in told


def test_a_daemon_that_leaves_a_pod_too_little_is_named() -> None:
    (told,) = solved([pod(cpu="14")], daemon_sets=[huge(cpu="3")]).details("pod")

    assert told.startswith("needs 14 cpu; the largest type has ")
    assert told.endswith("; would fit but for DaemonSet kube-system/hog (3 cpu)")


def test_daemons_are_not_blamed_for_a_pod_that_is_too_large_without_them() -> None:
    (told,) = solved([pod(cpu="500")], daemon_sets=[huge(cpu="1")]).details("pod")

    assert "DaemonSet" not in told


def test_a_daemon_in_the_way_of_everybody_is_named_to_a_pod_that_fits_nowhere_anyway() -> None:
    (told,) = solved([pod(cpu="500")], daemon_sets=[huge()]).details("pod")

    assert told.endswith("foremost DaemonSet kube-system/hog (100000 cpu)")


def test_a_daemon_with_more_memory_than_there_is_is_named_with_its_memory() -> None:
    hog = daemon_set("hog", namespace="kube-system", memory="900Ti")

    (told,) = solved([pod()], daemon_sets=[hog]).details("pod")

    assert told.endswith("DaemonSet kube-system/hog (900Ti memory); would fit otherwise")


def test_a_daemon_whose_amounts_cannot_be_read_takes_no_room() -> None:
    spoilt = daemon_set("spoilt", cpu="../../etc")

    answer = solved([pod("web", cpu="1")], daemon_sets=[spoilt])

    assert ["web"] == [name.rpartition("/")[2] for name in answer.placed]
