"""What keeps nodes from being disrupted is counted, with what it certainly costs."""

import pytest

from helpers.autoscaler import JsonObject
from helpers.clusters import in_virtual_time
from helpers.disruption_objects import TYPES
from karpenter.model import labels
from unit.controllers.disruption.disruption_bench import (
    Disrupting,
    disrupting,
    machine,
    pdb,
    pool,
    running,
)

Objects = JsonObject | tuple[JsonObject, JsonObject]
PROTECTED = {labels.DO_NOT_DISRUPT: "true"}
PRICE = {kind.name: kind.offerings[0].price for kind in TYPES}


def nodes(found: Disrupting) -> dict[tuple[str, str], float]:
    (family,) = found.world.metrics.disruption_blocked_nodes.collect()
    return {(each.labels["nodepool"], each.labels["reason"]): each.value for each in family.samples}


def savings(found: Disrupting) -> dict[str, float]:
    (family,) = found.world.metrics.disruption_blocked_savings.collect()
    return {each.labels["reason"]: each.value for each in family.samples}


@in_virtual_time
async def test_nodes_are_counted_by_pool_and_by_the_first_reason() -> None:
    objects: list[Objects] = [
        *(pool("np"), pool("other")),
        *(machine("n1", annotations=PROTECTED), machine("n2", annotations=PROTECTED)),
        *(machine("n3", in_pool="other"), running("a", "n3", annotations=PROTECTED)),
        *(machine("n4", in_pool="other"), running("b", "n4", app="db"), pdb(app="db")),
    ]
    async with disrupting(*objects) as found:
        await found.run_pass()

    assert {
        ("np", "do_not_disrupt"): 2,
        ("other", "pod_do_not_disrupt"): 1,
        ("other", "pod_disruption_budget"): 1,
    } == nodes(found)


@in_virtual_time
async def test_only_nodes_without_pods_to_move_are_certain_savings() -> None:
    objects: list[Objects] = [
        *(pool(), machine("n1", kind="s4", annotations=PROTECTED)),
        *(machine("n2", kind="s8", annotations=PROTECTED), running("a", "n2")),
        *(machine("n3", kind="s2"), running("b", "n3", annotations=PROTECTED)),
    ]
    async with disrupting(*objects) as found:
        await found.run_pass()

    assert {
        "do_not_disrupt": pytest.approx(PRICE["s4"]),
        "pod_do_not_disrupt": 0,
    } == savings(found)


@in_virtual_time
async def test_empty_nodes_beyond_a_budget_are_savings_once_however_many_methods_saw_them() -> None:
    async with disrupting(pool(budget="0"), machine("n1"), machine("n2", kind="s8")) as found:
        await found.run_pass()

    assert {("np", "budget"): 2} == nodes(found)
    assert {"budget": pytest.approx(PRICE["s4"] + PRICE["s8"])} == savings(found)


@in_virtual_time
async def test_a_reason_that_is_gone_has_no_series() -> None:
    async with disrupting(pool(), machine("n1", annotations=PROTECTED)) as found:
        await found.run_pass()
        before = nodes(found)
        await found.change(
            "Node", "n1", {"metadata": {"annotations": {labels.DO_NOT_DISRUPT: None}}}
        )
        await found.run_pass()

    assert {("np", "do_not_disrupt"): 1} == before
    assert {} == nodes(found)
    assert {} == savings(found)


@in_virtual_time
async def test_nodes_that_are_not_ours_or_go_already_are_not_blocked() -> None:
    async with disrupting(pool(), machine("n1")[1], machine("n2")) as found:
        await found.run_pass()
        going = found.going()
        await found.run_pass()

    assert ["n2"] == going
    assert {} == nodes(found)
