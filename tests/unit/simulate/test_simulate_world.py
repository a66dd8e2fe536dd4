"""The world of a run: the real controllers, and everything around them that a scenario says."""

from typing import Any

import pytest

from helpers.autoscaler import kwok_pool
from helpers.simulated import (
    SPOT,
    PodLife,
    Watched,
    scenario,
    setup_of,
    simulated,
    small_pool,
    steps,
)
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks, Progress

WEB = steps("web", ("0", 12))


def waits(watched: Watched, prefix: str = "") -> list[float]:
    """How long the pods of a workload waited until they were ready, in the order of creation."""
    lives = [life for life in watched.pods.values() if life.name.startswith(prefix)]
    assert all(life.ready is not None for life in lives)
    return [(life.ready or 0) - life.created for life in lives]


def alive(watched: Watched, moment: float) -> list[PodLife]:
    return [
        life
        for life in watched.pods.values()
        if life.ready is not None
        and life.ready <= moment
        and (life.gone is None or life.gone > moment)
    ]


def test_machines_come_and_go_with_demand() -> None:
    watched, run = simulated(scenario(workloads=[steps("web", ("0", 12), ("30m", 0))]))

    assert (0.0, True) == (watched.node_counts[0][0] // 60, run.is_complete)
    assert 12 == len(alive(watched, 1790))
    assert watched.nodes_at(1790) > 0
    assert 0 == watched.nodes_at(3600)
    launched, gone = watched.events("launched"), watched.events("gone")
    assert {each.name for each in launched} == {each.name for each in gone}
    assert {"deleted"} == {each.cause for each in gone}
    assert {"Provision", "Launch", "Disrupt", "Terminate"} <= {each.kind for each in run.decisions}
    assert watched.writes > 0


def test_two_runs_of_a_scenario_are_the_same() -> None:
    wanted = scenario(until="20m", workloads=[WEB], machines={"boot": {"uniform": ["20s", "60s"]}})
    first, again = simulated(wanted), simulated(wanted)

    assert first[0].machines == again[0].machines
    assert first[1] == again[1]
    assert first[0].pods == again[0].pods


@pytest.mark.case("SIM-22")
def test_a_pod_waits_for_its_machine_its_image_and_its_start() -> None:
    wanted = scenario(
        until="10m",
        machines={
            "boot": "45s",
            "start": "5s",
            "images": {"bandwidth": "100Mi", "sizes": {"shop/*": "800Mi", "*": "0"}},
        },
        workloads=[
            steps("web", ("0", 1), ("5m", 2), pod={"cpu": "1", "image": "shop/web:1"}),
        ],
    )
    watched, _ = simulated(wanted)
    first, second = waits(watched)

    assert abs(first - 59) <= 1.6  # the batch of pods closes a second after the pod
    assert abs(second - 5) <= 1
    pulled = [mark for mark in watched.marks if mark.kind == "pulled"]
    assert [str(800 * 2**20)] == [mark.text for mark in pulled]


def test_pods_start_as_their_image_does_and_the_first_of_a_node_as_one_that_is_pulled() -> None:
    start = [{"image": "shop/*", "is": "5s", "first": "40s"}, {"is": "2s"}]
    wanted = scenario(
        until="10m",
        machines={"start": start},
        workloads=[
            steps("web", ("1m", 1), ("5m", 2), pod={"cpu": "500m", "image": "shop/web:1"}),
            steps("mail", ("0", 1), ("6m", 2), pod={"cpu": "500m", "image": "mail:1"}),
        ],
    )
    watched, _ = simulated(wanted, small_pool(limits={"nodes": "1"}))

    assert waits(watched, "web") == pytest.approx([40, 5], abs=1.6)
    assert waits(watched, "mail")[1] == pytest.approx(2, abs=1.6)


@pytest.mark.case("SIM-23")
def test_a_running_machine_pays_the_price_of_the_moment() -> None:
    wanted = scenario(
        workloads=[steps("web", ("0", 1))],
        timeline=[
            {"at": "30m", "price": {"match": "*/*/spot", "factor": 2}},
            {"at": "40m", "price": {"match": "*/*/spot", "factor": 3}, "for": "5m"},
        ],
    )
    watched, _ = simulated(wanted, small_pool(SPOT))
    (machine,) = watched.events("launched")
    offering = (machine.instance_type, machine.zone, machine.capacity_type)
    moves = [
        (each.at, each.price / machine.price)
        for each in watched.prices
        if (each.instance_type, each.zone, each.capacity_type) == offering
    ]

    assert [(1800.0, 2.0), (2400.0, pytest.approx(6.0)), (2700.0, 2.0)] == moves


@pytest.mark.case("SIM-25")
def test_nothing_is_launched_that_is_sold_out() -> None:
    gone = "*/test-zone-a/spot"
    wanted = scenario(
        until="2h",
        workloads=[steps("web", *((f"{m}m", m // 6) for m in range(6, 118, 6)), pod={"cpu": "3"})],
        timeline=[{"at": "20m", "soldOut": [gone], "for": "40m"}],
    )
    watched, _ = simulated(wanted, small_pool(SPOT))

    def launched_there(first: float, last: float) -> int:
        return sum(
            first <= each.at < last and each.zone == "test-zone-a"
            for each in watched.events("launched")
        )

    assert 0 == launched_there(1200, 3600)
    assert 0 < launched_there(3600, 7200)
    assert [each for each in watched.events("launched") if 1200 <= each.at < 3600]


@pytest.mark.slow
@pytest.mark.case("SIM-26")
def test_an_interruption_drains_its_machines_before_they_go() -> None:
    apart = {"cpu": "1", "antiAffinity": "hostname"}
    wanted = scenario(
        until="15m",
        workloads=[steps("web", ("0", 50), pod=apart)],
        timeline=[
            {"at": "10m", "interrupt": {"capacityType": "spot", "percent": 20}, "notice": "2m"}
        ],
    )
    watched, run = simulated(wanted, small_pool(SPOT))
    noticed = {each.name for each in watched.events("noticed")}
    gone = {each.name: each for each in watched.events("gone")}

    assert 10 == len(noticed)
    assert noticed == gone.keys()
    # The claim is deleted at the notice, so the machine goes as soon as it is empty
    assert {"deleted"} == {each.cause for each in gone.values()}
    assert all(600 < each.at < 720 for each in gone.values())
    assert 10 == sum(each.kind == "Interrupt" for each in run.decisions)
    assert 50 == len(alive(watched, 900))


def test_a_machine_that_cannot_be_drained_is_taken_at_the_end_of_its_notice() -> None:
    held = {"cpu": "1", "antiAffinity": "hostname"}
    wanted = scenario(
        until="20m",
        workloads=[steps("web", ("0", 2), pod=held, pdb={"maxUnavailable": 0})],
        timeline=[{"at": "10m", "interrupt": {"count": 1}, "notice": "2m"}],
    )
    watched, _ = simulated(wanted)
    (gone,) = watched.events("gone")

    assert (720.0, "interrupted") == (gone.at, gone.cause)
    assert 2 == len(alive(watched, 1200))


@pytest.mark.case("SIM-27")
def test_pods_of_a_lost_zone_come_back_elsewhere_and_nothing_leaks() -> None:
    wanted = scenario(
        until="2h",
        workloads=[steps("web", ("0", 12), pod={"cpu": "3", "antiAffinity": "hostname"})],
        timeline=[{"at": "20m", "zoneDown": "test-zone-b", "for": "1h"}],
    )
    watched, _ = simulated(wanted, small_pool(SPOT))
    (mark,) = [each for each in watched.marks if each.kind == "zoneDown"]
    there = {each.name for each in watched.events("launched")}
    gone = {each.name for each in watched.events("gone")}

    assert mark.nodes
    assert not [
        each
        for each in watched.events("launched")
        if each.zone == "test-zone-b" and 1200 <= each.at < 4800
    ]
    # One pod on each machine: as many as were lost are ready elsewhere while the zone is down
    moved = [life for life in alive(watched, 4790) if life.created >= 1200]
    assert len(moved) == len(mark.nodes)
    assert len(there - gone) == watched.nodes_at(7200)


@pytest.mark.case("SIM-28")
def test_controllers_that_die_right_after_a_launch_leave_one_machine() -> None:
    wanted = scenario(
        until="15m",
        machines={"boot": "30s"},
        workloads=[steps("web", ("0", 1))],
        timeline=[{"at": "1501ms", "kill": "controllers", "for": "20s"}],
    )
    watched, _ = simulated(wanted)
    (pod,) = watched.pods.values()

    assert 1 == len(watched.events("launched"))
    assert 1 == len(watched.created["nodeclaims"])
    assert 1 == watched.nodes_at(900)
    assert pod.ready is not None


@pytest.mark.slow
@pytest.mark.case("SIM-29")
def test_the_client_limits_of_a_control_plane_hold_pods_back() -> None:
    wanted = scenario(
        until="1m",
        workloads=[steps("web", ("0", 500), pod={"cpu": "1m"})],
    )
    free = scenario(
        until="1m",
        controlPlane={"controllerManager": {"qps": 0}, "scheduler": {"qps": 0}},
        workloads=[steps("web", ("0", 500), pod={"cpu": "1m"})],
    )

    assert 23 <= simulated(wanted)[0].created["pods"][-1] <= 30
    assert simulated(free)[0].created["pods"][-1] < 1


@pytest.mark.case("SIM-14")
def test_an_autoscaler_follows_its_metric() -> None:
    metric = {"points": [{"at": "0", "value": 4000}, {"at": "20m", "value": 8000}]}
    wanted = scenario(
        until="30m",
        workloads=[
            {
                "name": "web",
                "pod": {"cpu": "10m"},
                "hpa": {"perPod": 100, "min": 10, "max": 600, "metric": metric},
            }
        ],
    )
    watched, _ = simulated(wanted)

    assert 10 == watched.replicas[0][2]
    assert [40, 40, 80] == [watched.replicas_at("web", at) for at in (60, 1190, 1230)]


@pytest.mark.case("SIM-15")
def test_a_cron_job_runs_at_each_full_five_minutes() -> None:
    wanted = scenario(
        until="1h1m",
        workloads=[
            {
                "name": "report",
                "pod": {"cpu": "1"},
                "cron": {"schedule": "*/5 * * * *", "duration": "2m"},
            }
        ],
    )
    watched, _ = simulated(wanted)
    made = watched.created["jobs"]

    assert 12 == len(made)
    assert [300.0 * n for n in range(1, 13)] == [at // 10 * 10 for at in made]
    finished = [life.finished is not None for life in watched.pods.values()]
    assert [True] * 11 + [False] == finished


@pytest.mark.case("SIM-16")
def test_a_rollout_surges_and_evicts_nobody() -> None:
    wanted = scenario(
        until="20m",
        machines={"start": "10s"},
        workloads=[
            steps("web", ("0", 20), pod={"cpu": "100m"}),
            {"name": "release", "rollout": {"target": "Deployment/web", "at": "10m"}},
        ],
    )
    watched, run = simulated(wanted)
    there = [
        sum(
            life.created <= at and (life.gone is None or life.gone > at)
            for life in watched.pods.values()
        )
        for at in range(600, 900)
    ]
    ready = [len(alive(watched, at)) for at in range(600, 900)]

    assert 40 == len(watched.pods)
    assert max(there) <= 25
    assert min(ready) >= 15
    assert 20 == ready[-1]
    assert not [each for each in run.decisions if each.kind == "Drain"]


def test_a_rate_of_interruptions_takes_machines_back() -> None:
    wanted = scenario(
        until="40m",
        interruptions=[{"match": "*/*/spot", "rate": "300%/h"}],
        workloads=[steps("web", ("0", 8), pod={"cpu": "1", "antiAffinity": "hostname"})],
    )
    watched, _ = simulated(wanted, small_pool(SPOT))

    # Eight machines for forty minutes, each of which lives twenty on average
    assert 6 <= len(watched.events("noticed")) <= 30
    assert len(alive(watched, 2400)) >= 6  # some may just have been evicted


def test_another_image_of_the_node_class_makes_machines_drift() -> None:
    image = {"metadata": {"annotations": {"karpenter.kwok.sh/image": "v2"}}}
    wanted = scenario(
        workloads=[steps("web", ("0", 4))],
        timeline=[{"at": "10m", "patch": [{"target": "KWOKNodeClass/default", "merge": image}]}],
    )
    watched, run = simulated(wanted)

    assert "Drifted" in {each.reason for each in run.decisions}
    assert watched.events("gone")
    assert 4 == len(alive(watched, 3590))


def _run_with(step: dict[str, Any], until: str = "30m") -> tuple[Watched, Any]:
    wanted = scenario(
        until=until, workloads=[steps("web", ("0", 4))], timeline=[{"at": "10m", **step}]
    )
    return simulated(wanted)


def test_steps_are_undone_after_a_while() -> None:
    watched, _ = _run_with({"scale": {"target": "Deployment/web", "replicas": 9}, "for": "5m"})
    assert [4, 9, 4] == [watched.replicas_at("web", at) for at in (590, 610, 910)]

    pool = {"spec": {"limits": {"cpu": "0"}}}
    watched, _ = _run_with({"patch": [{"target": "NodePool/default", "merge": pool}], "for": "5m"})
    assert ["patch"] == [mark.kind for mark in watched.marks]


def test_settings_change_while_the_cluster_runs() -> None:
    wanted = scenario(
        until="30m",
        workloads=[steps("web", ("0", 1), ("15m", 30))],
        timeline=[
            {"at": "10m", "set": {"BATCH_IDLE_DURATION": "60s", "BATCH_MAX_DURATION": "60s"}}
        ],
    )
    watched, _ = simulated(wanted)
    first, *others = watched.events("launched")

    assert first.at < 5
    assert all(each.at >= 960 for each in others)


def test_a_step_that_the_api_refuses_is_a_warning() -> None:
    wanted = scenario(until="5m", timeline=[{"at": "1m", "delete": ["Deployment/gone"]}])
    run = run_world(setup_of(wanted), Hooks())

    assert ('00:01:00 timeline[0]: deployments.apps "gone" not found',) == run.warnings


def test_a_run_stops_at_the_present_instant() -> None:
    seen: list[Progress] = []
    watched = Watched()
    hooks = Hooks(observers=[watched], progress=seen.append, is_stopped=lambda: len(seen) >= 60)
    run = run_world(setup_of(scenario(workloads=[WEB])), hooks)

    assert (False, seen[-1].at) == (run.is_complete, run.ended)
    assert (12, 590.0, 3600.0) == (seen[-1].pods, seen[-1].at, seen[-1].until)
    assert seen[-1].dollars > 0
    shorter, _ = simulated(scenario(until="590s", workloads=[WEB]))
    assert shorter.machines == watched.machines


def test_a_pool_is_given_the_node_class_that_it_names() -> None:
    pool = kwok_pool("spot", SPOT)
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "other"
    watched, _ = simulated(scenario(until="5m", workloads=[WEB]), pool)

    assert 12 == len(alive(watched, 300))
