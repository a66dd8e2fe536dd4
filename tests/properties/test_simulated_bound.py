"""Nobody pays less than the lower bound: random demand, prices and mishaps under every policy of consolidation."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.autoscaler import kwok_pool
from helpers.simulated import JsonObject, scenario, setup_of
from karpenter.cloud.kwok.catalogue import built_in
from karpenter.simulate.lengths import seconds
from karpenter.simulate.observing import make_observers
from karpenter.simulate.report.document import variant_document
from karpenter.simulate.variant_run import run_world
from karpenter.simulate.world import Hooks

POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")
ZONES = ("test-zone-a", "test-zone-b")
MINUTES = 5
SIZES = ("2", "4", "8", "16", "32")  # processors
TYPES = tuple(
    kind
    for kind in built_in()
    if kind.name in {f"{family}-{size}x-amd64-linux" for family in "csm" for size in SIZES}
)
GUARDED = {"key": "guarded", "value": "yes", "effect": "NoSchedule"}


WITHOUT_SPOT = {
    "spec": {
        "template": {
            "spec": {
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
                ]
            }
        }
    }
}


@dataclass(frozen=True)
class Case:
    """A scenario and the objects that are there from its start."""

    scenario: JsonObject
    objects: tuple[JsonObject, ...]


whens = st.integers(0, MINUTES * 6).map(lambda number: f"{number * 10}s")


@st.composite
def pods(draw: st.DrawFn) -> JsonObject:
    """What a pod asks for; some pods may use few machines only, or have to spread."""
    found: JsonObject = {
        "cpu": f"{draw(st.integers(1, 30)) * 100}m",
        "memory": f"{draw(st.integers(1, 90)) * 100}Mi",
    }
    selector = {}
    if draw(st.integers(0, 3)) == 0:
        selector["topology.kubernetes.io/zone"] = draw(st.sampled_from(ZONES))
    if draw(st.integers(0, 3)) == 0:
        selector["karpenter.sh/capacity-type"] = draw(st.sampled_from(["spot", "on-demand"]))
    if selector:
        found["nodeSelector"] = selector
    if draw(st.integers(0, 3)) == 0:
        found["spread"] = draw(st.sampled_from(["zone", "hostname"]))
    if draw(st.booleans()):
        found["tolerations"] = [{"key": GUARDED["key"], "operator": "Exists"}]
    return found


@st.composite
def workloads(draw: st.DrawFn, name: str) -> JsonObject:
    """Replicas that come and go, or Jobs that end by themselves."""
    found: JsonObject = {"name": name, "pod": draw(pods())}
    if name != "first" and draw(st.integers(0, 3)) == 0:
        lasts = draw(st.integers(5, 200))
        jobs = {"rate": f"{draw(st.integers(20, 300))}/h", "duration": f"{lasts}s"}
        return found | {"jobs": jobs}
    moments = draw(st.lists(whens, max_size=2, unique=True))
    moments = ["0s", *sorted(set(moments) - {"0s"}, key=seconds)]
    return found | {"steps": [{"at": at, "replicas": draw(st.integers(0, 7))} for at in moments]}


@st.composite
def happenings(draw: st.DrawFn) -> JsonObject:
    """A step of the timeline that moves prices or takes machines away."""
    offerings = draw(st.sampled_from(["*/*/*", "*/*/spot", "c-*/test-zone-a/*", "s-*/*/on-demand"]))
    what: JsonObject = draw(
        st.sampled_from(
            [
                {"price": {"match": offerings, "factor": draw(st.sampled_from([0.2, 0.7, 3]))}},
                {"interrupt": {"percent": 50}, "notice": "20s"},
                {"fail": {"fault": "disappears", "count": 1}},
                {"fail": {"fault": "not-ready", "count": 1}},
                {"soldOut": [offerings]},
                {"scale": {"target": "Deployment/first", "replicas": 0}},
                {"patch": [{"target": "NodePool/default", "merge": WITHOUT_SPOT}]},
            ]
        )
    )
    for_ = {"for": "70s"} if "interrupt" not in what and draw(st.booleans()) else {}
    return {"at": draw(whens), **what, **for_}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A cluster of one or two pools, of every policy, and what happens to it."""
    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=2, max_size=4, unique=True))
    disruption = {
        "consolidationPolicy": draw(st.sampled_from(POLICIES)),
        "consolidateAfter": draw(st.sampled_from(["0s", "30s", "2m"])),
        "budgets": [{"nodes": draw(st.sampled_from(["1", "50%", "100%"]))}],
    }
    size = {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": sizes}
    objects = [kwok_pool("default", size, disruption=disruption)]
    if draw(st.booleans()):
        taint = {"taints": [GUARDED]}
        objects.append(kwok_pool("guarded", template=taint, disruption=disruption, weight=10))
    names = ["first", "second", "third"][: draw(st.integers(1, 3))]
    timeline = draw(st.lists(happenings(), max_size=3))
    timeline.sort(key=lambda step: seconds(step["at"]))
    body: JsonObject = {
        "until": f"{MINUTES * 60 + draw(st.sampled_from([0, 7]))}s",
        "seed": draw(st.integers(1, 1000)),
        "warmup": draw(st.sampled_from(["0s", "95s"])),
        "billing": {"minimum": draw(st.sampled_from(["0s", "60s"]))},
        "machines": {
            "launch": draw(st.sampled_from(["0s", "7s"])),
            "boot": "20s",
            "shutdown": "3s",
        },
        "report": {"every": draw(st.sampled_from(["10s", "33.3s", "1m"]))},
        "workloads": [draw(workloads(name)) for name in names],
        "timeline": timeline,
    }
    if draw(st.booleans()):
        body["prices"] = [{"match": "*/*/spot", "walk": {"volatility": "40%", "every": "45s"}}]
    return Case(body, tuple(objects))


def run(case: Case) -> Any:
    """The report of a run; the pools, workloads and steps are as in a file."""
    wanted = scenario(**case.scenario)
    minimum = seconds(wanted.billing.minimum)
    observers = make_observers(billing_minimum=minimum)
    setup = replace(setup_of(wanted, *case.objects), types=TYPES)
    return variant_document(run_world(setup, Hooks(observers=observers)))


def judge(variant: Any) -> None:
    """No interval and no run costs less than its bound."""
    series, cost = variant["series"], variant["cost"]
    pairs = zip(series["boundHourly"], series["dollarsHourly"], strict=True)
    assert [] == [(bound, paid) for bound, paid in pairs if bound > paid + 1e-9]
    assert cost["lowerBound"]["dollarHours"] <= cost["dollarHours"]


@pytest.mark.case("SIM-32")
@pytest.mark.slow
@settings(max_examples=40)
@given(cases())
def test_nobody_pays_less_than_the_bound(case: Case) -> None:
    judge(run(case))
