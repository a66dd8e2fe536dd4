"""What rebalancing proposes, by the cases of docs/spec/optimize.md."""

from dataclasses import replace
from datetime import timedelta
from typing import Final, Unpack

import pytest

from helpers.builders import (
    NOW,
    expression,
    offering,
    owner,
    priced_type,
    reserved_instances,
)
from helpers.disruption import found_by, going, only, planned, snapshot
from helpers.disruption_objects import (
    OD_POOL,
    ON_DEMAND_ONLY,
    SPOT_POOL,
    Standing,
    pdb_of,
    pool,
)
from helpers.priced_catalogues import L, S, X
from helpers.rebalancing import (
    COST,
    completed,
    look,
    pods_of,
    rebalance,
    rebalanced,
    running,
)
from karpenter.cloud.types import InstanceType
from karpenter.disruption.context import DisruptionSettings, Memory
from karpenter.disruption.plan import METHODS, Search
from karpenter.disruption.rebalance.history import (
    Moves,
    RebalanceHistory,
    history_of,
    listed,
    note_of,
    stamp,
)
from karpenter.disruption.rebalance.refusals import Proposal
from karpenter.disruption.rebalance.search import Rebalancing
from karpenter.disruption.rebalance.settings import RebalanceMode
from karpenter.model import labels as keys
from karpenter.scheduling.inputs.cost_annotations import invalid_annotations
from karpenter.state.nodes import StateNode

TWELVE: Final = priced_type("twelve", 12, 0.55)
SIXTEEN: Final = priced_type("sixteen", 16, 0.60)
THREE: Final = (TWELVE, SIXTEEN)
WEB: Final = {"app": "guarded"}


def three_of_twelve(**options: Unpack[Standing]) -> list[StateNode]:
    """Three machines of 12 cpu with 10 cpu each, which two machines of 16 cpu would hold."""
    return [
        running(f"n{n}", TWELVE, pods_of(5, f"p{n}-", cpu="2"), THREE, **options) for n in range(3)
    ]


@pytest.mark.case("OPT-33")
def test_one_machine_becomes_two_cheaper_ones() -> None:
    node = running("big", X, pods_of(10, "p"))

    found = only(rebalanced(node))

    assert ("rebalance", "replace", ("big",)) == (found.method, found.decision, found.names)
    assert ["l", "s"] == sorted(c.launch.instance_type for c in found.replacements if c.launch)
    assert 1.54 == pytest.approx(found.savings)
    assert [] == going(found_by("single", node, **completed({})))


def test_a_machine_that_is_paid_already_is_not_rebalanced() -> None:
    node = running("big", X, pods_of(10, "p"))
    pays_it = reserved_instances("one", types=["x"], instances=1)

    assert () == rebalanced(node, commitments=[pays_it]).commands


def test_a_replacement_that_is_paid_already_saves_its_price_too() -> None:
    node = running("big", X, pods_of(10, "p"))
    pays_an_l = reserved_instances("one", types=["l"], instances=1)

    found = only(rebalanced(node, commitments=[pays_an_l]))

    assert ["l", "s"] == sorted(c.launch.instance_type for c in found.replacements if c.launch)
    assert 1.90 == pytest.approx(found.savings)


@pytest.mark.case("OPT-34")
def test_three_machines_become_two() -> None:
    found = only(rebalanced(*three_of_twelve(), types=THREE))

    assert ("n0", "n1", "n2") == tuple(sorted(found.names))
    assert ["sixteen"] * 2 == [c.launch.instance_type for c in found.replacements if c.launch]
    assert 0.45 == pytest.approx(found.savings)


@pytest.mark.case("OPT-35")
@pytest.mark.parametrize(("allowed", "moves"), [(0, []), (1, ["n0", "n1", "n2"])])
def test_a_pdb_that_allows_nothing_keeps_its_machines(allowed: int, moves: list[str]) -> None:
    nodes = [
        running(
            f"n{n}",
            TWELVE,
            [*pods_of(4, f"p{n}-", cpu="2"), *pods_of(1, f"g{n}-", cpu="2", labels=WEB)]
            if n < 2
            else pods_of(5, f"p{n}-", cpu="2"),
            THREE,
        )
        for n in range(3)
    ]

    found = rebalanced(*nodes, types=THREE, pdbs=[pdb_of(allowed, labels=WEB)])

    assert moves == sorted(going(found))


@pytest.mark.case("OPT-36")
def test_a_budget_of_one_node_leaves_too_few_machines() -> None:
    strict = pool(requirements=ON_DEMAND_ONLY, budgets=["1"])

    found = rebalanced(*three_of_twelve(), types=THREE, pools=[strict])

    assert ([], True) == (going(found), found.is_constrained)


@pytest.mark.parametrize("allowed", [1, 2])
def test_machines_with_more_excess_that_save_nothing_do_not_hold_up_others(allowed: int) -> None:
    # a pod of 5 cpu pays for 8, and no smaller machine holds it
    stuck = [running(f"stuck{n}", L, pods_of(1, f"s{n}-", cpu="5")) for n in range(allowed)]
    big = running("big", X, pods_of(28, "p"))
    tight = pool(requirements=ON_DEMAND_ONLY, budgets=[str(allowed)])

    found = rebalanced(*stuck, big, pools=[tight])

    assert ["big"] == going(found)


@pytest.mark.case("OPT-37")
def test_a_machine_with_a_protected_pod_is_in_no_set() -> None:
    protected = pods_of(1, "held", annotations={keys.DO_NOT_DISRUPT: "true"})
    nodes = [running("best", X, protected), running("big", X, pods_of(10, "p"))]

    found = rebalanced(*nodes)

    assert ["big"] == going(found)


@pytest.mark.case("OPT-38")
def test_a_machine_within_consolidate_after_takes_no_moved_pod() -> None:
    patient = pool("patient", requirements=ON_DEMAND_ONLY, after="1h")
    held = pods_of(1, "q", annotations={keys.DO_NOT_DISRUPT: "true"})
    busy = running("busy", L, held, pool="patient", last_pod_event=NOW)
    at_ease = running("busy", L, held, pool="patient")
    big = running("big", X, pods_of(10, "p"))

    taken = []
    for beside in (busy, at_ease):
        consolidation = Search(look(big, beside, pools=[OD_POOL, patient])).consolidation
        proposal = Rebalancing(consolidation, consolidation.candidates).proposal(
            consolidation.candidates
        )
        assert isinstance(proposal, Proposal)
        taken.append(len(proposal.command.placements.get("busy", ())))

    assert [0, 7] == taken


@pytest.mark.case("OPT-39")
def test_what_saves_one_percent_is_not_worth_it() -> None:
    types = (priced_type("a", 4, 1.0), priced_type("b", 4, 0.99))

    cost = replace(COST, price_slack=0.0)

    found = rebalanced(running("n", types[0], pods_of(4, "p"), types), types=types, cost=cost)

    assert [] == going(found)
    (said,) = set(found.refused)
    assert said.startswith("NotWorthIt: saving $0.0100/h is less than 2% of $1.0000/h")


def on_spot(count: int) -> list[InstanceType]:
    """So many types alike on spot at 10 cents and more, and a dear one."""
    cheap = [
        priced_type(f"t{n:02}", 4, ways=[offering("z1", keys.SPOT, 0.1 + n / 10_000)])
        for n in range(count)
    ]
    return [*cheap, priced_type("dear", 16, ways=[offering("z1", keys.SPOT, 2.0)])]


@pytest.mark.case("OPT-42")
@pytest.mark.parametrize(
    ("gate", "count", "outcome"),
    [
        (False, 15, "SpotToSpot: SpotToSpotConsolidation is off"),
        (True, 13, "SpotToSpot: spot replaces spot only with 15 instance types"),
        (True, 15, ""),
    ],
)
def test_spot_replaces_spot_with_a_choice_of_types(gate: bool, count: int, outcome: str) -> None:
    types = on_spot(count)
    node = running("n", types[-1], pods_of(8, "p"), types, capacity_type=keys.SPOT)
    settings = rebalance()

    found = rebalanced(
        node,
        types=types,
        pools=[SPOT_POOL],
        settings=DisruptionSettings(rebalance=settings.rebalance, spot_to_spot=gate),
    )

    assert (["n"] if not outcome else []) == going(found)
    assert all(said.startswith(outcome) for said in found.refused)
    assert bool(outcome) == bool(found.refused)


@pytest.mark.case("OPT-46")
def test_a_well_bought_cluster_stays_as_it_is() -> None:
    nodes = [running(f"n{n}", L, pods_of(8, f"p{n}-")) for n in range(3)]

    found = rebalanced(*nodes)

    assert ((), ()) == (found.commands, found.refused)


def test_nothing_is_rebalanced_unless_it_is_switched_on() -> None:
    node = running("big", X, pods_of(10, "p"))

    off = planned(node, **completed({"settings": DisruptionSettings()}))
    on = planned(node, **completed({}))

    assert ((), ["big"]) == (off.commands, going(on))
    assert "rebalance" == list(METHODS)[-1]


def test_a_preview_has_the_command_but_does_not_propose_it() -> None:
    node = running("big", X, pods_of(10, "p"))

    found = rebalanced(node, settings=rebalance(mode=RebalanceMode.PREVIEW))

    assert ([], ("big",)) == (going(found), found.previews[0].names)


@pytest.mark.parametrize(
    ("mode", "text", "moves"),
    [("Off", "on", True), ("On", "off", False), ("On", "perhaps", True), ("Off", "perhaps", False)],
)
def test_a_pool_has_its_own_say(mode: str, text: str, moves: bool) -> None:
    own = pool(requirements=ON_DEMAND_ONLY, annotations={"cost.karpenter.sh/rebalance": text})
    node = running("big", X, pods_of(10, "p"))

    found = planned(
        node, **completed({"settings": rebalance(mode=RebalanceMode(mode)), "pools": [own]})
    )

    assert moves == bool(found.commands)
    complaint = "'perhaps' is neither on nor off" if text == "perhaps" else ""
    assert complaint in "".join(invalid_annotations(own))


def test_moves_of_this_hour_limit_how_many_machines_go() -> None:
    nodes = [running(f"n{n}", X, pods_of(10, f"p{n}-")) for n in range(4)]
    spent = Memory(rebalance=RebalanceHistory((Moves(NOW - timedelta(minutes=59), 11),)))

    two = rebalanced(*nodes, settings=rebalance(moves=0.6))
    one = rebalanced(*nodes, settings=rebalance(moves=0.6), memory=spent)
    none = rebalanced(*nodes, settings=rebalance(moves=0.5), memory=spent)

    assert [2, 1, 0] == [len(going(each)) for each in (two, one, none)]
    assert any(said.startswith("MoveBudget: ") for said in none.refused)


@pytest.mark.parametrize("minutes", [59, 61])
def test_what_was_rebalanced_lately_is_left_in_peace(minutes: int) -> None:
    at = NOW - timedelta(minutes=minutes)
    command = only(rebalanced(running("old", X, pods_of(1, "p"))))
    note = note_of(command, at)
    node = running("new", X, pods_of(10, "p"), claim_annotations={keys.MOVED_BY_REBALANCE: note})

    found = rebalanced(node)

    assert (["new"] if minutes > 60 else []) == going(found)
    if minutes < 60:
        (said,) = found.refused
        assert said.startswith("Cooldown: new came from a rebalance; it stays until ")


def test_pods_of_a_workload_are_moved_once_in_a_while() -> None:
    ours = owner("ReplicaSet", "ours")
    node = running("big", X, pods_of(10, "p", owners=[ours]))
    moved = RebalanceHistory(owners={ours.uid: NOW - timedelta(minutes=30)})

    found = rebalanced(node, memory=Memory(rebalance=moved))

    assert [] == going(found)
    (said,) = found.refused
    assert said.startswith("Cooldown: pods of a workload on big were moved by a rebalance")


def test_machines_made_after_moves_in_vain_are_regretted() -> None:
    node = running("big", X, pods_of(10, "p"))
    assert node.node_claim is not None
    regretted = RebalanceHistory(regretted=frozenset({node.node_claim.metadata.uid}))

    found = rebalanced(node, memory=Memory(rebalance=regretted))

    assert [] == going(found)
    (said,) = found.refused
    assert said.startswith("Regretted: big ")


def test_one_rebalance_at_a_time() -> None:
    node = running("big", X, pods_of(10, "p"))

    found = rebalanced(node, memory=Memory(rebalance=RebalanceHistory(is_busy=True)))

    assert ((), ()) == (found.commands, found.refused)


def test_pools_that_share_no_pods_are_rebalanced_one_after_the_other() -> None:
    teams = [
        pool(team, requirements=[*ON_DEMAND_ONLY, expression("team", "In", team)])
        for team in ("a", "b")
    ]
    nodes = [
        running(
            f"of-{team}",
            X,
            pods_of(pods, f"{team}-", node_selector={"team": team}),
            pool=team,
            labels={"team": team},
        )
        for team, pods in (("a", 20), ("b", 10))
    ]

    begun = planned(*nodes, **completed({"pools": teams}))
    one = only(rebalanced(*nodes, pools=teams))

    assert ("of-b",) == one.names
    assert ["of-b"] == going(begun)


def test_any_machine_that_is_left_tells_when_and_how_many_were_moved() -> None:
    at = NOW.replace(microsecond=0)
    command = only(rebalanced(running("big", X, pods_of(10, "p"))))
    nodes = [
        running(f"new-{n}", S, [], claim_annotations={keys.MOVED_BY_REBALANCE: text})
        for n, text in enumerate((*[note_of(command, at)] * 2, "yesterday 3"))
    ]

    for left in (nodes, nodes[1:]):
        found = history_of(look(*left).snapshot)

        assert (Moves(at, 10),) == found.moves
        assert len(left) - 1 == len(found.claims)


def test_moves_that_would_not_repay_are_refused() -> None:
    node = running("big", X, pods_of(10, "p"))

    found = rebalanced(node, settings=rebalance(payback=timedelta(minutes=5)))

    assert [] == going(found)
    assert found.refused[0].startswith("NotWorthIt: ")


def test_a_machine_whose_pods_go_nowhere_does_not_keep_others_from_moving() -> None:
    lost = pods_of(1, "lost", cpu="31", node_selector={keys.ZONE: "z9"})
    nodes = [
        running("stuck", X, lost, zone="z9"),
        *(running(f"n{n}", X, pods_of(10, f"p{n}-")) for n in range(2)),
    ]

    found = rebalanced(*nodes)

    assert ["n0", "n1"] == sorted(going(found))


def test_a_price_that_may_rise_to_what_is_paid_saves_nothing() -> None:
    types = (
        priced_type("now", 4, 1.0),
        priced_type("a", 4, 0.5),
        priced_type("b", 4, 1.1),
    )
    node = running("n", types[0], pods_of(4, "p"), types)
    cost = replace(COST, min_types=3)

    found = rebalanced(node, types=types, cost=cost)

    assert [] == going(found)
    assert found.refused[0].startswith("NoSavings: ")


def test_a_pool_tells_what_was_moved_when_no_machine_of_it_is_left() -> None:
    first, second = NOW - timedelta(minutes=70), NOW - timedelta(minutes=9)
    hour = NOW - timedelta(hours=1)
    text = listed(stamp(Moves(first, 7)), Moves(second, 3), hour)
    text = listed(text, Moves(NOW, 5), hour)
    told = pool(annotations={keys.MOVED_BY_REBALANCE: f"{text}, yesterday 3"})

    found = history_of(snapshot(pools=[told]))

    assert (Moves(second, 3), Moves(NOW, 5)) == found.moves
    assert 8 == found.moved_since(hour)
