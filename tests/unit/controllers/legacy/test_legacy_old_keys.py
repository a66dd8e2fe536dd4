"""Workloads with the keys of Provisioners are treated as if they used those of today."""

from dataclasses import replace
from typing import Any

import pytest

from helpers.autoscaler import JsonObject
from helpers.builders import daemon_set, expression, managed_node, pod
from helpers.clusters import in_virtual_time
from karpenter.api.pods import PodAffinityTerm
from karpenter.model import labels
from karpenter.scheduling.inputs.legacy_keys import in_current_keys
from karpenter.state.cluster import snapshot_of
from karpenter.state.snapshot import Snapshot
from unit.controllers.disruption.disruption_bench import disrupting, machine, pool, running, true
from unit.controllers.termination.termination_bench import leaving
from unit.controllers.termination.termination_objects import claim, node
from unit.controllers.termination.termination_objects import pod as leaving_pod

PROVISIONER: JsonObject = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "np"},
    "spec": {"providerRef": {"name": "default"}},
}
OLD, NEW = labels.PROVISIONER_NAME, labels.NODEPOOL


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"node_selector": {OLD: "a"}}, {"node_selector": {NEW: "a"}}, id="selector"),
        pytest.param(
            {"required": [[expression(OLD, "In", "a")], [expression("k", "Exists")]]},
            {"required": [[expression(NEW, "In", "a")], [expression("k", "Exists")]]},
            id="one of several required terms",
        ),
        pytest.param(
            {"preferred": [(5, [expression(OLD, "NotIn", "a")])]},
            {"preferred": [(5, [expression(NEW, "NotIn", "a")])]},
            id="a preference",
        ),
        pytest.param(
            {"required": [[expression(OLD, "DoesNotExist")]]},
            {"required": [[expression(NEW, "DoesNotExist")]]},
            id="no node of a Provisioner means no node of a pool",
        ),
        pytest.param(
            {"anti_affinity": [PodAffinityTerm(OLD)]},
            {"anti_affinity": [PodAffinityTerm(NEW)]},
            id="pods that keep apart by Provisioner",
        ),
        pytest.param(
            {"preferred_affinity": [(1, PodAffinityTerm(OLD))]},
            {"preferred_affinity": [(1, PodAffinityTerm(NEW))]},
            id="pods that would like to be together by Provisioner",
        ),
        pytest.param({"cpu": "1"}, {"cpu": "1"}, id="nothing to translate"),
    ],
)
def test_pods(old: dict[str, Any], new: dict[str, Any]) -> None:
    snapshot = snapshot_of([pod("web", **old)])

    translated = in_current_keys(snapshot)

    assert pod("web", **new).spec == translated.unbound_pods["default/web"].spec
    assert pod("web", **new).spec == translated.pods["default/web"].spec


def test_what_needs_no_translation_stays_the_same_object() -> None:
    snapshot = snapshot_of([pod("web")])

    assert snapshot.pods is in_current_keys(snapshot).pods


def test_daemon_sets() -> None:
    snapshot = snapshot_of([daemon_set("ds", node_selector={OLD: "a"})])

    (translated,) = in_current_keys(snapshot).daemon_sets.values()

    assert {NEW: "a"} == translated.spec.template.spec.node_selector


def test_pods_on_machines_may_have_to_leave_and_are_translated_too() -> None:
    running_one = pod("web", node_name="n1", node_selector={OLD: "a"})
    snapshot = snapshot_of([running_one])

    (translated,) = in_current_keys(
        replace(snapshot, nodes=(managed_node("n1", pods=[running_one]),))
    ).nodes

    assert {NEW: "a"} == translated.pods[0].spec.node_selector


def test_a_machine_whose_pods_need_no_translation_stays_the_same_object() -> None:
    machine_ = managed_node("n1", pods=[pod("web", node_name="n1")])

    (translated,) = in_current_keys(Snapshot(nodes=(machine_,))).nodes

    assert machine_ is translated


@in_virtual_time
async def test_a_drifted_node_is_replaced_for_pods_that_select_a_provisioner() -> None:
    drifted = machine("n1", conditions=[true("Drifted")], node_labels={OLD: "np"})
    web = running("a", "n1", nodeSelector={OLD: "np"})
    async with disrupting(pool(), PROVISIONER, drifted, web) as found:
        await found.run_pass()

        assert ["n1"] == found.tainted()
        assert 1 == len(found.replacements)


@pytest.mark.parametrize(
    ("legacy", "value", "going"),
    [
        pytest.param(
            [PROVISIONER], "true", [], id="holds the node while Provisioners are honoured"
        ),
        pytest.param([PROVISIONER], "false", ["n1"], id="any other value means nothing"),
        pytest.param([], "true", ["n1"], id="DIS-286 means nothing without Provisioners"),
    ],
)
@in_virtual_time
async def test_do_not_evict(legacy: list[JsonObject], value: str, going: list[str]) -> None:
    web = running("a", "n1", annotations={labels.DO_NOT_EVICT: value})
    async with disrupting(pool(), *legacy, machine("n1"), machine("n2", kind="s8"), web) as found:
        await found.put(running("b", "n2", annotations={labels.DO_NOT_DISRUPT: "true"}))
        await found.run_pass()
        await found.pass_time(2)

        assert going == found.going()


@pytest.mark.parametrize(
    ("legacy", "evicted"),
    [
        pytest.param([PROVISIONER], 0, id="a pod is not drained while Provisioners are honoured"),
        pytest.param([], 1, id="DIS-286 it is without Provisioners"),
    ],
)
@in_virtual_time
async def test_do_not_evict_on_a_node_that_goes(legacy: list[JsonObject], evicted: int) -> None:
    held = leaving_pod(annotations={labels.DO_NOT_EVICT: "true"})
    async with leaving(claim(), node(), held, *legacy) as run:
        await run.delete("NodeClaim")
        await run.pass_time(30)

        assert evicted == len(run.evictions)
