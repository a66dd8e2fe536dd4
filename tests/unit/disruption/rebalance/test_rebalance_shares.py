"""The excess of machines, and shares that are kept from one pass to the next."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from helpers.builders import FACTS_F, NOW
from helpers.disruption import catalogue_of, settings_of, snapshot
from helpers.priced_catalogues import TYPES, L, X
from helpers.rebalancing import completed, look, pods_of, running
from karpenter.disruption.context import DisruptionContext
from karpenter.disruption.rebalance.shares import ClusterShares
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.state.nodes import StateNode


def passes(nodes: Sequence[StateNode], *after: int) -> list[DisruptionContext]:
    """Passes of one process over the same pools and prices, so many minutes after the first."""
    world = completed({})
    compiler, seen, types = Compiler(), snapshot(*nodes, **world), catalogue_of(world)
    return [
        DisruptionContext(
            seen,
            types,
            FACTS_F,
            settings_of(world),
            now=NOW + timedelta(minutes=minutes),
            compiler=compiler,
        )
        for minutes in (0, *after)
    ]


def test_pods_never_pay_more_than_a_machine_on_sale_costs() -> None:
    shares = ClusterShares(look(running("full", L, pods_of(8, "p")), running("big", X, [])))

    full, big = sorted(shares.machines, key=lambda each: each.price)

    assert 0.36 == pytest.approx(full.shares)
    assert (True, False) == (full.is_well_bought, big.is_well_bought)
    assert 2.0 == big.excess


@pytest.mark.parametrize(("minutes", "is_known"), [(4, True), (5, False)])
def test_shares_are_kept_for_five_minutes(minutes: int, is_known: bool) -> None:
    first, later = passes([running("big", X, pods_of(10, "p"))], minutes)
    before = ClusterShares(first, first.share_cache)
    expected = before.machines

    known = later.share_cache.find(later.now, later.ground.catalogues)

    assert is_known == (known is not None)
    assert expected == ClusterShares(later, later.share_cache).machines
    assert before.groups == ClusterShares(later, later.share_cache).groups


def test_a_pod_of_another_kind_is_worth_a_proof_of_its_own() -> None:
    one, _ = passes([running("big", X, pods_of(10, "p"))], 1)
    cache = one.share_cache
    assert ClusterShares(one, cache).machines

    other = look(running("big", X, pods_of(3, "q", cpu="2")))

    assert ClusterShares(other, cache).machines == ClusterShares(other).machines


def test_shares_of_other_prices_are_forgotten() -> None:
    one, _ = passes([running("big", X, pods_of(10, "p"))], 1)
    assert ClusterShares(one, one.share_cache).machines

    dearer = look(running("big", X, pods_of(10, "p")), types=TYPES[:3])

    assert one.share_cache.find(NOW, dearer.ground.catalogues) is None
