"""What is kept from one solve to the next never changes an answer."""

from dataclasses import replace

import pytest

from helpers.builders import expression, node_pool, pod
from helpers.solver import FIXTURE_F, launch_of, question
from karpenter.model import labels as keys
from karpenter.scheduling.compiled import compiler as compiler_module
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.problem import PoolCatalogue
from karpenter.scheduling.solve import solve


def test_requirements_of_an_earlier_problem_are_not_mistaken_for_later_ones() -> None:
    """They were known by identity, and Python gives the identity of a dead object to a new one."""
    compiler = Compiler()
    pools = (PoolCatalogue(node_pool(), FIXTURE_F),)
    wanted = [f"z{1 + number % 3}" for number in range(100)]

    found = []
    for zone in wanted:
        problem = replace(question([pod(node_selector={keys.ZONE: zone})]), pools=pools)
        (claim,) = solve(problem, compiler=compiler).claims
        found.append(launch_of(claim).zone)

    assert wanted == found


def test_what_is_kept_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_module, "_MOST_SHAPES", 10)
    compiler = Compiler()
    pools = (PoolCatalogue(node_pool(), FIXTURE_F),)
    sizes = []

    for number in range(40):
        problem = replace(question([pod(node_selector={keys.CAPACITY_TYPE: "spot"})]), pools=pools)
        odd = pod("odd", required=[[expression("cores", "Gt", str(number))]])
        problem = replace(problem, pods=[*problem.pods, odd])
        solve(problem, compiler=compiler)
        sizes.append(len(compiler.templates(problem)[0].shapes))

    assert max(sizes) <= 10 + 5
