"""Mixes about machines that may go: each puts one method of disruption to the test."""

from dataclasses import dataclass
from typing import Any, Final

from parity import around
from parity import parts as k
from parity.parts import Parts, ago
from parity.problems import NOW, Json, Problem


@dataclass(frozen=True)
class Odds:
    """How often machines are what, and how many there are at most."""

    busy: float = 1.0
    drifted: float = 0.0
    broken: float = 0.0
    rested: float = 1.0
    most: int = 6


_QUIET: Final[Json] = {"policy": "WhenEmpty", "after": "Never"}  # nothing is done to save money


def empty(make: Parts, problem: Problem) -> None:
    """Machines of which many are empty."""
    _disrupted(make, problem, Odds(busy=0.3))


def consolidation(make: Parts, problem: Problem) -> None:
    """Machines with few pods, none of them empty."""
    _disrupted(make, problem, Odds())


def single(make: Parts, problem: Problem) -> None:
    """Machines of which mostly one may be disrupted at a time."""
    _disrupted(make, problem, Odds(), budgets=[{"nodes": "1"}])


def spot_to_spot(make: Parts, problem: Problem) -> None:
    """Spot machines that may be replaced by spot machines."""
    problem.options["gates"] = {"SpotToSpotConsolidation": True}
    _disrupted(make, problem, Odds())


def drift(make: Parts, problem: Problem) -> None:
    """Machines that are no longer what their pool wants."""
    quiet: Json = _QUIET if make.chance(0.7) else {}
    _disrupted(make, problem, Odds(busy=0.8, drifted=0.5), **quiet)


def balanced(make: Parts, problem: Problem) -> None:
    """Pools that weigh savings against disruption."""
    _disrupted(make, problem, Odds(), policy="Balanced")


def consolidate_after(make: Parts, problem: Problem) -> None:
    """Machines that are to be left in peace for a while."""
    _disrupted(make, problem, Odds(busy=0.8, rested=0.5), after="10m")


def repair(make: Parts, problem: Problem) -> None:
    """Machines with conditions that a policy wants repaired."""
    problem.options["gates"] = {"NodeRepair": True}
    problem.repair_policies = [
        {
            "type": "Ready",
            "status": "False",
            "toleration": "30m",
            "priority": 50,
            "action": "ReplaceNode",
        },
        {
            "type": "Disk",
            "status": "True",
            "reasonRegex": "^Full$",
            "toleration": "10m",
            "gracePeriod": "5m",
            "priority": 80,
            "action": "ReplaceNode",
        },
    ]
    # few of many, because nothing is repaired where too much is broken
    _disrupted(make, problem, Odds(busy=0.9, broken=0.2, most=12), **_QUIET)


def static_drift(make: Parts, problem: Problem) -> None:
    """Static pools whose machines are no longer what is wanted."""
    problem.options["gates"] = {"StaticCapacity": True}
    _disrupted(make, problem, Odds(busy=0.5, drifted=0.5), static=True)


def _disrupted(
    make: Parts, problem: Problem, odds: Odds, *, static: bool = False, **disruption: Any
) -> None:
    """A cluster with something to disrupt."""
    problem.disrupt = True
    problem.instance_types = {"": make.types()}
    problem.objects.append(around.namespace("default", {"kind": "apps"}))
    for name in ("a", "b")[: make.one((1, 1, 2))]:
        problem.objects.append(make.pool(name, **_wishes(make, dict(disruption), static=static)))
    pools = list(problem.of_kind("NodePool"))
    for number in range(make.random.randint(2, odds.most)):
        _candidate(make, problem, make.one(pools), f"n{number}", odds)
    if make.chance(0.25):
        problem.objects.append(make.pod())
    if make.chance(0.2):
        problem.objects.append(around.pdb(make))


def _wishes(make: Parts, chosen: Json, *, static: bool) -> Json:
    if make.chance(0.3):
        chosen.setdefault("budgets", [{"nodes": make.one(("1", "2", "50%", "0"))}])
    if make.chance(0.15):
        chosen.setdefault("policy", "WhenEmpty")
    if static and make.chance(0.7):
        chosen["replicas"] = make.random.randint(0, 4)
        if make.chance(0.5):
            chosen["limits"] = {"nodes": str(make.random.randint(2, 6))}
    elif make.chance(0.3):
        ways = make.expression(k.WAY, "In", *make.some((k.SPOT, k.ON_DEMAND)))
        chosen["requirements"] = [ways]
    return chosen


def _candidate(make: Parts, problem: Problem, pool: Json, name: str, odds: Odds) -> None:
    kind = make.one(problem.instance_types[""])
    problem.objects += make.machine(name, pool, kind, **_traits(make, odds))
    if not make.chance(odds.busy):
        return
    room = int(kind["capacity"]["cpu"]) * 1000 - 200
    is_full = make.chance(0.4)
    for _ in range(make.random.randint(1, 3)):
        share = make.random.uniform(0.3, 0.9)
        cpu = int(room * share) if is_full else make.one((100, 300, 500, 900))
        if cpu > room:
            break
        room -= cpu
        # costs that differ, because Go orders equals at random
        cost = make.random.randint(-1000, 1000) * 1000
        annotations = {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
        if make.chance(0.05):
            annotations["karpenter.sh/do-not-disrupt"] = "true"
        spec: Json = {"cpu": f"{cpu}m", "memory": "200Mi", "annotations": annotations}
        if make.chance(0.1):
            spec["nodeSelector"] = {k.ARCH: kind["labels"][k.ARCH][0]}
        problem.objects.append(make.bound(name, **spec))


def _traits(make: Parts, odds: Odds) -> Json:
    traits: Json = {}
    if make.chance(odds.drifted):
        at = ago(minutes=10 + make.number())
        traits["claim_conditions"] = [make.condition("Drifted", at)]
    if not make.chance(odds.rested):
        traits["without"] = ["Consolidatable"]
        traits["claim_status"] = {"lastPodEventTime": ago(minutes=2, seconds=make.number())}
    if make.chance(odds.broken):
        traits["node_conditions"] = _broken(make)
    if make.chance(0.08):
        traits["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    if make.chance(0.15):
        traits["claim_spec"] = {"terminationGracePeriod": "10m"}
    if make.chance(0.1):
        traits["stage"] = "registered"
    return traits


def _broken(make: Parts) -> list[Json]:
    at = ago(minutes=make.one((5, 15, 40, 60)), seconds=make.number())
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastTransitionTime": ago(hours=2),
        "lastHeartbeatTime": NOW,
    }
    if make.chance(0.5):
        return [{**ready, "status": "False", "reason": "KubeletNotReady", "lastTransitionTime": at}]
    full = {"type": "Disk", "status": "True", "reason": make.one(("Full", "Slow"))}
    return [ready, {**full, "lastTransitionTime": at, "lastHeartbeatTime": NOW}]
