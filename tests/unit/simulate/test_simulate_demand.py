"""Demand is a pure function of scenario and seed: generators, curves and what they ask for."""

import math
from typing import Any

import pytest

from helpers.simulated import demand_of, operations_of, scenario, start_of, steps
from karpenter.simulate.chance import Chance
from karpenter.simulate.demand.curves import Days
from karpenter.simulate.scenario.models import Diurnal

HOUR = 3600.0
JOBS = {"rate": "60/h", "duration": {"exponential": {"mean": "5m"}}}


def jobs(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "pod": {"cpu": "1"}, "jobs": {**JOBS, **fields}}


@pytest.mark.case("SIM-12")
def test_a_diurnal_curve_is_high_at_its_peak_and_low_half_a_day_away() -> None:
    wanted = scenario(
        until="2d",
        workloads=[
            {
                "name": "web",
                "pod": {"cpu": "1"},
                "diurnal": {"low": 10, "high": 100, "peakAt": "14:00"},
            }
        ],
    )
    levels: list[tuple[float, int]] = [
        (each.at, each.replicas) for each in operations_of(wanted, "scale")
    ]
    first = operations_of(wanted, "create")[0].body or {}
    levels.insert(0, (0.0, first["spec"]["replicas"]))

    def at(moment: float) -> int:
        return [count for time, count in levels if time <= moment][-1]

    assert [100, 10, 100, 10] == [at(hour * HOUR) for hour in (14, 2, 38, 26)]
    assert (10, 100) == (min(c for _, c in levels), max(c for _, c in levels))


def test_a_plateau_stays_high_for_hours_and_weekends_are_lower() -> None:
    wanted = scenario()
    curve = Days(
        Diurnal(low=0, high=100, peak_at="12:00", shape="plateau", weekend=0.5),
        start_of(wanted),
        Chance(1),
        "web",
    )

    assert [0, 100, 100, 100, 0] == [round(curve.at(h * HOUR)) for h in (3, 8, 12, 16, 21)]
    saturday = 5 * 24 * HOUR
    assert 50 == round(curve.at(saturday + 12 * HOUR))


def test_noise_is_drawn_for_each_interval_by_itself() -> None:
    wanted = scenario()
    curve = Days(
        Diurnal(low=100, high=100, noise="10%", every="1m"), start_of(wanted), Chance(1), "web"
    )
    values = [curve.at(60.0 * minute) for minute in range(1000)]

    assert values[10] == curve.at(610.0)
    assert 500 < len(set(values))
    mean = sum(values) / len(values)
    deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    assert abs(mean - 100) < 1
    assert abs(deviation - 10) < 1


@pytest.mark.case("SIM-13")
def test_jobs_arrive_as_a_poisson_process() -> None:
    wanted = scenario(until="100h", workloads=[jobs("mail")])
    times = [each.at for each in operations_of(wanted, "create")]
    gaps = sorted(b - a for a, b in zip([0.0, *times], times, strict=False))

    assert abs(len(times) - 6000) <= 233
    distances = [
        abs((rank + 1) / len(gaps) - (1 - math.exp(-gap / 60))) for rank, gap in enumerate(gaps)
    ]
    assert max(distances) < 0.03


def test_a_rate_may_follow_a_curve() -> None:
    points = {"points": [{"at": "0", "value": 120}, {"at": "10h", "value": 0}]}
    wanted = scenario(until="20h", workloads=[jobs("mail", rate=points)])
    times = [each.at for each in operations_of(wanted, "create")]

    assert abs(len(times) - 1200) < 120
    assert max(times) < 10 * HOUR


def test_bursts_come_at_once_and_again() -> None:
    wanted = scenario(workloads=[jobs("batch", rate=None, bursts={"every": "20m", "jobs": 5})])
    times = [each.at for each in operations_of(wanted, "create")]

    assert [0.0] * 5 + [1200.0] * 5 + [2400.0] * 5 == times


@pytest.mark.case("SIM-4")
def test_leaving_out_a_workload_moves_no_draw_of_the_others() -> None:
    both = [jobs("mail"), jobs("video", rate="30/h"), steps("web", ("0", 3))]
    whole, less = scenario(workloads=both), scenario(workloads=[both[0]])
    of_mail = [each for each in demand_of(whole).operations() if each.name.startswith("mail")]

    assert of_mail == list(demand_of(less).operations())
    assert demand_of(whole).digest() != demand_of(less).digest()


def test_the_digest_of_demand_depends_on_seed_and_demand_alone() -> None:
    one = scenario(workloads=[jobs("mail")])
    other_pool = scenario(workloads=[jobs("mail")], settings={"PACKING": "cheapest"})
    other_seed = scenario(workloads=[jobs("mail")], seed=2)

    assert demand_of(one).digest() == demand_of(other_pool).digest()
    assert demand_of(one).digest() != demand_of(other_seed).digest()


def test_operations_of_all_workloads_come_in_order() -> None:
    wanted = scenario(workloads=[jobs("mail"), jobs("video"), steps("web", ("0", 1), ("30m", 2))])
    times = [each.at for each in demand_of(wanted).operations()]

    assert times == sorted(times)
    assert max(times) < HOUR


def test_a_pod_in_a_few_words_is_a_whole_template() -> None:
    few = {
        "cpu": "500m",
        "memory": "1Gi",
        "gpu": 1,
        "labels": {"team": "a"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}],
        "spread": "zone",
        "antiAffinity": "hostname",
        "priority": "high",
        "doNotDisrupt": True,
    }
    wanted = scenario(workloads=[steps("web", ("0", 2), pod=few, pdb={"maxUnavailable": "10%"})])
    budget, deployment = operations_of(wanted, "create")
    template = (deployment.body or {})["spec"]["template"]
    spec = template["spec"]

    assert {"app": "web", "team": "a"} == template["metadata"]["labels"]
    assert "true" == template["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"]
    resources = spec["containers"][0]["resources"]
    assert {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"} == resources["requests"]
    assert {"nvidia.com/gpu": "1"} == resources["limits"]
    assert "topology.kubernetes.io/zone" == spec["topologySpreadConstraints"][0]["topologyKey"]
    (term,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "kubernetes.io/hostname" == term["topologyKey"]
    assert ("high", {"disk": "ssd"}) == (spec["priorityClassName"], spec["nodeSelector"])
    assert {"matchLabels": {"app": "web"}} == (budget.body or {})["spec"]["selector"]
