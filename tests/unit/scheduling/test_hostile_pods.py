"""One pod that lists thousands of anything costs others next to nothing.

Told by counting work, never by time: how many topology groups are compiled, how many rules are
looked at, and which pods have their turn.
"""

from collections.abc import Callable, Sequence
from typing import Unpack

import pytest

from helpers.builders import (
    APP_T,
    FACTS_F,
    NOW,
    PodOptions,
    expression,
    fixture_types,
    managed_node,
    node_pool,
    pod,
    pod_term,
    pods,
    spread,
    taint,
    toleration,
)
from helpers.solver import question, solved, time_for
from karpenter.api.pods import Pod
from karpenter.model import labels as keys
from karpenter.model import taints
from karpenter.model.requirements import Requirements
from karpenter.scheduling.compiled import pod_classes
from karpenter.scheduling.compiled.effort import MOST_ALTERNATIVES, MOST_PREFERENCES
from karpenter.scheduling.compiled.host_ports import HostPort
from karpenter.scheduling.compiled.problem import CompiledProblem
from karpenter.scheduling.compiled.topology_groups import MOST_RULES
from karpenter.scheduling.packing import topology
from karpenter.scheduling.packing.topology import GroupState
from karpenter.scheduling.plan import Plan, Why
from karpenter.scheduling.provisioning import PassSettings, plan_provisioning
from karpenter.scheduling.solve import solve
from karpenter.state.cluster import ClusterState

NOWHERE = "100000"  # so much cpu has no type


def spreads(count: int) -> PodOptions:
    return {"spread": [spread(f"example.com/k{n}", soft=True) for n in range(count)]}


def spreads_over_zones(count: int) -> PodOptions:
    return {"spread": [spread(max_skew=1 + n, soft=True) for n in range(count)]}


def drawn(count: int) -> PodOptions:
    terms = [(1 + n % 100, pod_term(key=f"example.com/k{n}")) for n in range(count)]
    return {"preferred_affinity": terms}


def apart(count: int) -> PodOptions:
    terms = [(1 + n % 100, pod_term({"app": f"{n}"})) for n in range(count)]
    return {"preferred_anti_affinity": terms}


def nodes(count: int) -> PodOptions:
    wanted = [expression(f"example.com/k{n}", "Exists") for n in range(count)]
    return {"preferred": [(1 + n % 100, [each]) for n, each in enumerate(wanted)]}


def alternatives(count: int) -> PodOptions:
    return {"required": [[expression(f"example.com/k{n}", "Exists")] for n in range(count)]}


Many = Callable[[int], PodOptions]
RULES = [
    pytest.param(spreads, id="spreads"),
    pytest.param(spreads_over_zones, id="spreads over zones"),
    pytest.param(drawn, id="affinity"),
    pytest.param(apart, id="anti-affinity"),
]
WISHES = [*RULES, pytest.param(nodes, id="node affinity")]


class Count:
    """How often something was called."""

    def __init__(self) -> None:
        self.calls = 0

    def of(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> "Count":
        """Count the calls of a function from now on."""
        counted = getattr(owner, name)

        def calling(*arguments: object, **named: object) -> object:
            self.calls += 1
            return counted(*arguments, **named)

        monkeypatch.setattr(owner, name, calling)
        return self


def pod_with(name: str, wishes: PodOptions, **options: Unpack[PodOptions]) -> Pod:
    both: PodOptions = {"labels": APP_T, **wishes, **options}
    return pod(name, **both)


def hostile(name: str, many: Many, count: int, *, cpu: str = "1") -> Pod:
    return pod_with(name, many(count), cpu=cpu)


def placed(plan: Plan) -> set[str]:
    return {name for claim in plan.claims for name in claim.pods}


@pytest.mark.parametrize("many", RULES)
def test_every_rule_of_a_pod_is_compiled_once(many: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Count().of(monkeypatch, pod_classes, "spread_group")
    compiled.of(monkeypatch, pod_classes, "affinity_group")

    CompiledProblem(question([hostile("harm", many, 200)]))

    assert 200 == compiled.calls


@pytest.mark.parametrize("many", RULES)
def test_of_thousands_of_wishes_so_many_are_compiled_as_are_tried(
    many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = Count().of(monkeypatch, pod_classes, "spread_group")
    compiled.of(monkeypatch, pod_classes, "affinity_group")

    world = CompiledProblem(question([hostile("harm", many, 5000)]))

    assert MOST_PREFERENCES == compiled.calls == len(world.groups.known)


@pytest.mark.parametrize("many", [*WISHES, pytest.param(alternatives, id="alternatives")])
def test_a_pod_that_fits_nowhere_is_soon_done_with(
    many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Count().of(monkeypatch, topology, "_open_in")
    stages = Count().of(monkeypatch, pod_classes.Stage, "__init__")

    plan = solve(question([hostile("harm", many, 5000, cpu=NOWHERE)]))

    assert ["default/harm"] == [entry.pod for entry in plan.unplaced]
    assert looks.calls <= MOST_PREFERENCES**2
    assert stages.calls <= 2 * (MOST_ALTERNATIVES + MOST_PREFERENCES + 2)


def test_wishes_are_tried_less_often_where_there_are_alternatives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Count().of(monkeypatch, topology, "_open_in")
    both: PodOptions = {**alternatives(5000), **spreads_over_zones(5000)}

    solve(question([pod_with("harm", both, cpu=NOWHERE)]))

    assert looks.calls <= 2 * MOST_PREFERENCES**2


def test_what_is_tried_is_what_would_be_given_up_last() -> None:
    impossible = [(100, [expression("example.com/k", "Exists")])] * 3000
    wanted = pod("harm", preferred=[*impossible, (1, [expression(keys.ZONE, "In", "z2")])])

    assert ["z2"] == solved([wanted]).zones


def test_spread_that_is_demanded_is_kept_however_many_wishes_come_before_it() -> None:
    demanded = [*spreads(3000)["spread"], spread()]

    answer = solved(pods(3, cpu="1", labels=APP_T, spread=demanded))

    assert {"z1": 1, "z2": 1, "z3": 1} == answer.pods_in_zones


def test_tolerations_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = Count().of(monkeypatch, taints, "tolerates")
    tolerations = [toleration(f"k{n}", operator="Exists") for n in range(5000)]
    wanted = pod_with("harm", apart(5000), cpu=NOWHERE, tolerations=tolerations)

    solve(question([wanted], pools=[node_pool(taints=[taint("x=y:NoSchedule")])]))

    assert checked.calls <= 20 * MOST_PREFERENCES**2


@pytest.mark.parametrize("many", WISHES)
@pytest.mark.parametrize("cpu", ["1", NOWHERE])
def test_others_get_what_they_get_without_it(many: Many, cpu: str) -> None:
    ordinary = [
        *pods(5, "web", cpu="1", labels={"app": "web"}, spread=[spread()]),
        *pods(5, "db", cpu="2", anti_affinity=[pod_term({"app": "db"})], labels={"app": "db"}),
    ]
    harm = pod_with("harm", many(3000), cpu=cpu, node_selector={keys.ZONE: "z3"}, labels={})

    alone = solve(question(ordinary))
    beside = solve(question([harm, *ordinary]))

    assert [(c.pods, c.launch) for c in alone.claims] == [
        (tuple(p for p in c.pods if p != "default/harm"), c.launch)
        for c in beside.claims
        if c.pods != ("default/harm",)
    ]


def test_it_is_planned_for_after_others_however_large_it_is() -> None:
    limited = node_pool(limits={"cpu": "16"})
    harm = hostile("harm", nodes, 3000, cpu="14")

    answer = solved([harm, *pods(3, "web", cpu="4")], pools=[limited])

    assert {"web-0", "web-1", "web-2"} <= set(answer.placed)


def test_a_pod_with_dozens_of_wishes_is_like_any_other() -> None:
    wanted = [hostile("many", many, 15) for many in (spreads, drawn, apart, nodes)]

    assert {} == solved(wanted).plan.costly


def several(count: int) -> list[Pod]:
    """Hostile pods of which no two are alike."""
    return [
        pod_with(f"harm-{number}", apart(1000), cpu=f"{100 + number}m") for number in range(count)
    ]


def test_hostile_pods_share_what_a_pass_can_afford_and_all_have_their_turn() -> None:
    harm, ordinary = several(30), pods(10, "web", cpu="1")
    uid_of = {f"default/{each.metadata.name}": each.metadata.uid for each in harm}
    seen: set[str] = set()
    late: list[str] = []
    for _ in range(5):
        plan = solve(question([*harm, *ordinary]), first=late)
        had_their_turn = uid_of.keys() - set(plan.unevaluated)
        assert 1 <= len(had_their_turn) <= 8
        assert {f"default/web-{n}" for n in range(10)} <= placed(plan)
        seen |= had_their_turn
        late = [uid_of[name] for name in plan.unevaluated]

    assert uid_of.keys() == seen


@pytest.mark.parametrize("looks", range(8))
def test_the_time_of_a_pass_is_kept_while_compiling_too(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    different = [pod(f"p-{n}", cpu=f"{n + 1}m") for n in range(300)]
    built = Count().of(monkeypatch, pod_classes.ClassBuilder, "build")

    plan = solve(question(different), has_time=time_for(looks))

    assert 300 == len(placed(plan)) + len(plan.unevaluated)
    assert built.calls <= 64 * (looks + 1)


def test_enough_passes_compile_every_pod() -> None:
    different = [pod(f"p-{n}", cpu=f"{n + 1}m") for n in range(300)]
    uid_of = {f"default/{each.metadata.name}": each.metadata.uid for each in different}
    seen: set[str] = set()
    late: list[str] = []
    for _ in range(10):
        plan = solve(question(different), has_time=time_for(1), first=late)
        seen |= placed(plan)
        late = [uid_of[name] for name in plan.unevaluated]

    assert set(uid_of) == seen


def test_pods_that_run_are_counted_once_for_rules_that_differ_only_in_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = Count().of(monkeypatch, GroupState, "admits")
    running = [
        managed_node(f"n{n}", pods=[pod(f"r{n}", labels=APP_T, node_name=f"n{n}")])
        for n in range(20)
    ]
    harm = pod("harm", labels=APP_T, spread=[spread(max_skew=n + 1, soft=True) for n in range(200)])

    world = CompiledProblem(question([harm], nodes=running))

    assert looked.calls <= 2 * 20
    assert [{"z1": 20}] * 200 == [
        {domain: count for domain, count in world.base(n).counts.items() if count}
        for n in range(200)
    ]


def test_ports_by_the_thousand_are_not_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Count().of(monkeypatch, HostPort, "conflicts")
    wanted = [
        pod(f"harm-{n}", cpu="100m", host_ports=range(1 + 3000 * n, 3001 + 3000 * n))
        for n in range(3)
    ]

    answer = solved(wanted)

    assert [3] == answer.loads
    assert compared.calls <= 3 * 3000


def test_a_node_selector_by_the_thousand_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = Count().of(monkeypatch, Requirements, "__and__")

    solve(question([pod("harm", node_selector={f"example.com/k{n}": "v" for n in range(3000)})]))

    assert copied.calls <= 100


def provisioned(*waiting: Pod) -> tuple[Plan, Sequence[tuple[str, str, str]]]:
    state = ClusterState()
    for each in (node_pool(), *waiting):
        state.apply(each)
    types = tuple(fixture_types())
    outcome = plan_provisioning(state.snapshot(), lambda _: types, FACTS_F, PassSettings(), now=NOW)
    return outcome.plan, [(e.target, e.reason, e.message) for e in outcome.events]


def test_its_owner_is_told_that_it_comes_last_and_what_is_not_tried() -> None:
    plan, events = provisioned(hostile("harm", apart, 3000), pod("web"))

    ((target, reason, message),) = events
    assert ("Pod/default/harm", "CostlyToPlan") == (target, reason)
    assert "3,000 alternatives and preferences" in message
    assert f"{3000 - MOST_PREFERENCES:,} that would be given up first are not tried" in message
    assert {"default/harm": message} == plan.costly


def test_its_owner_is_told_that_it_comes_last_where_everything_is_tried() -> None:
    _, events = provisioned(hostile("harm", apart, 100))

    assert ["its 100 alternatives and preferences take long to try"] == [
        message.partition("since ")[2] for _, _, message in events
    ]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"spread": [spread(max_skew=n + 1) for n in range(5000)]}, id="spread"),
        pytest.param({"affinity": [pod_term({"app": f"{n}"}) for n in range(5000)]}, id="affinity"),
        pytest.param(
            {"anti_affinity": [pod_term({"app": f"{n}"}) for n in range(5000)]}, id="anti-affinity"
        ),
    ],
)
def test_a_pod_that_insists_on_thousands_of_rules_is_not_planned_for(options: PodOptions) -> None:
    plan, events = provisioned(pod("harm", **options), pod("web"))

    ((target, reason, message),) = events
    assert ("Pod/default/harm", "FailedScheduling") == (target, reason)
    assert "it insists on 5,000 topology" in message
    assert {Why.TOO_MANY_RULES} == {r.why for entry in plan.unplaced for r in entry.reasons}
    assert {"default/web"} == placed(plan)


def test_a_pod_that_runs_keeps_others_away_by_so_many_rules_and_no_more() -> None:
    terms = [pod_term({"app": f"{n}"}, key=keys.ZONE) for n in range(5000)]
    harm = pod("harm", node_name="n1", anti_affinity=terms)

    world = CompiledProblem(question([pod("web")], nodes=[managed_node("n1", pods=[harm])]))

    assert MOST_RULES == len(world.groups.known)
