"""Workloads that select nodes by the name of a Provisioner are planned as if by that of its pool."""

from dataclasses import replace
from typing import Any

import pytest

from builders import daemon_set, expression, managed_node, pod
from karpenter.controllers.legacy.old_keys import in_current_keys
from karpenter.model import labels
from karpenter.state.cluster import snapshot_of
from karpenter.state.snapshot import Snapshot

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


@pytest.mark.parametrize(
    ("is_marked", "key"),
    [
        pytest.param(True, NEW, id="pods that have to leave are translated"),
        pytest.param(False, OLD, id="pods that stay are not looked at"),
    ],
)
def test_pods_on_machines(is_marked: bool, key: str) -> None:
    running = pod("web", node_name="n1", node_selector={OLD: "a"})
    machine = replace(managed_node("n1", pods=[running]), is_marked=is_marked)

    (translated,) = in_current_keys(Snapshot(nodes=(machine,))).nodes

    assert {key: "a"} == translated.pods[0].spec.node_selector
