"""What pools have in common is worked out once, however many pools there are."""

from helpers.builders import daemon_set, node_pool, pod, taint, toleration
from helpers.solver import FIXTURE_F, question
from karpenter.scheduling.compiled.compiler import Compiler
from karpenter.scheduling.packing.topology import HostCounts
from karpenter.scheduling.problem import PoolCatalogue, Problem


def problem_with_three_pools() -> Problem:
    pools = [
        node_pool("a"),
        node_pool("b"),
        node_pool("tainted", taints=[taint("dedicated:NoSchedule")]),
    ]
    daemon = daemon_set("agent", cpu="1", tolerations=[toleration("other")])
    return question([pod()], pools=pools, daemon_sets=[daemon])


def test_pools_with_one_catalogue_share_its_index() -> None:
    problem = problem_with_three_pools()

    templates = Compiler().templates(problem)

    assert 1 == len({id(template.universe) for template in templates})


def test_pools_share_room_unless_other_daemons_run_on_them() -> None:
    problem = problem_with_three_pools()

    rooms = {t.name: t.levels("cpu") for t in Compiler().templates(problem)}

    assert rooms["a"] is rooms["b"]
    assert rooms["a"] is not rooms["tainted"]


def test_a_catalogue_of_its_own_has_its_own_index() -> None:
    problem = question([pod()])
    own = (*FIXTURE_F[:2],)
    pools = [PoolCatalogue(node_pool("a"), FIXTURE_F), PoolCatalogue(node_pool("b"), own)]

    templates = Compiler().templates(
        Problem(pods=problem.pods, nodes=(), pools=pools, facts=problem.facts)
    )

    assert {6, 2} == {len(template.universe.types) for template in templates}


def test_a_pod_that_is_no_longer_counted_opens_its_host_again() -> None:
    counts = HostCounts()
    counts.add(3, 2)

    counts.remove(3)

    assert (1, 1 << 3, 0) == (counts.of(3), counts.above(0), counts.above(1))
