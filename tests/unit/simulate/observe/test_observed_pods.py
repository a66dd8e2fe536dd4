"""How long pods waited, and which of them were evicted."""

import pytest

from helpers.observing import HOUR, MINUTE, Stage
from karpenter.kube.transport import Request
from karpenter.simulate.observe.pods import BY_AUTOSCALER


def test_a_pod_waits_from_its_creation_until_it_is_ready() -> None:
    stage = Stage()
    stage.at(10).pod("web")
    stage.at(40).change("web", spec={"nodeName": "n"})
    stage.at(70).runs("web")

    seen = stage.at(HOUR).finish()

    assert [60.0] == seen.pending
    assert [30.0] == seen.binding


def test_who_still_waits_counts_with_the_wait_so_far() -> None:
    stage = Stage()
    stage.at(10).pod("big")

    seen = stage.at(110).finish()

    assert [100.0] == seen.pending
    assert ["default/big"] == [each.pod for each in seen.unscheduled]


def test_pods_of_the_warm_up_and_of_daemon_sets_are_left_out() -> None:
    stage = Stage(warmup=60)
    stage.pod("early")
    stage.at(100).pod("agent", owner="agent", kind="DaemonSet")
    stage.pod("late")
    for name in ("early", "agent", "late"):
        stage.at(130).runs(name)

    assert [30.0] == stage.at(HOUR).finish().pending


@pytest.mark.case("SIM-34")
def test_a_pod_whose_predecessor_was_evicted_lately_is_evicted_again() -> None:
    stage = Stage()
    ten = 10 * MINUTE
    stage.pod("first", owner="web")
    stage.runs("first")
    stage.at(ten).evicted("first")
    stage.pod("second", owner="web")
    stage.runs("second")
    stage.at(ten + 20 * MINUTE).evicted("second")
    stage.pod("third", owner="web")
    stage.runs("third")
    stage.at(ten + 51 * MINUTE).evicted("third")

    seen = stage.at(2 * HOUR).finish()

    assert [False, True, False] == [each.is_again for each in seen.evictions]


def test_each_owner_has_a_queue_of_its_own() -> None:
    stage = Stage()
    stage.pod("web-1", owner="web")
    stage.runs("web-1")
    stage.at(60).evicted("web-1")
    stage.pod("api-1", owner="api")
    stage.runs("api-1")
    stage.at(120).evicted("api-1")

    assert [False, False] == [each.is_again for each in stage.at(HOUR).finish().evictions]


@pytest.mark.case("SIM-35")
def test_pods_that_their_owner_removes_or_that_finish_are_not_evicted() -> None:
    stage = Stage()
    for name in ("scaled-down", "finished", "deleted"):
        stage.pod(name, owner="web")
        stage.runs(name)
    stage.at(60).deleted("scaled-down")
    stage.change("finished", status={"phase": "Succeeded", "conditions": []})
    stage.deleted("finished")
    stage.deleted("deleted")

    assert [] == stage.at(HOUR).finish().evictions


def test_a_pod_that_the_autoscaler_deletes_is_evicted() -> None:
    stage = Stage()
    stage.pod("stuck", owner="web")
    stage.runs("stuck")
    stage.at(60).deleted("stuck")
    stage.watcher.wrote(Request("DELETE", "/api/v1/namespaces/default/pods/stuck"))

    assert [BY_AUTOSCALER] == [each.reason for each in stage.at(HOUR).finish().evictions]


def test_a_pod_that_never_ran_is_not_evicted() -> None:
    stage = Stage()
    stage.pod("waiting", owner="web")
    stage.at(60).evicted("waiting")

    assert [] == stage.at(HOUR).finish().evictions


def test_a_job_does_again_what_it_had_done() -> None:
    stage = Stage()
    stage.pod("mail-1", owner="mail", kind="Job")
    stage.at(10).runs("mail-1")
    stage.at(100).evicted("mail-1")

    seen = stage.at(HOUR).finish()

    assert [90.0] == [each.lost for each in seen.evictions]
    assert ["Job/default/mail"] == [each.workload for each in seen.evictions]


def test_the_fewest_pods_of_each_interval_are_those_that_were_served_all_along() -> None:
    stage = Stage(grid=100, until=400)
    stage.machine("launched")
    for number in range(3):
        stage.pod(f"web-{number}")
        stage.runs(f"web-{number}")
    stage.at(150).deleted("web-0")
    stage.at(160).pod("web-3")
    stage.runs("web-3")
    stage.at(350).machine("gone")

    (crowd,) = stage.at(400).finish().crowds

    assert [0, 2, 3, 0] == crowd.fewest
