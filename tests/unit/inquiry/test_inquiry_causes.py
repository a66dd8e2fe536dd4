"""``plan`` and ``explain`` go on to the cause that an object at hand states."""

from pathlib import Path
from typing import Any

import pytest

from helpers.builders import node_pool
from helpers.cluster_texts import class_ref, machine, planned, pod, pool, put
from helpers.commands import run
from karpenter.api.karpenter import NodeClassReference
from karpenter.inquiry.offline import provider_of

EC2 = NodeClassReference("karpenter.k8s.aws", "EC2NodeClass", "shop")
KWOK = NodeClassReference("karpenter.kwok.sh", "KWOKNodeClass", "default")
HELD = {"key": "example.com/agent", "value": "missing", "effect": "NoSchedule"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    at = "2026-08-01T00:00:00Z"
    return {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": at,
    }


def unready_class() -> dict[str, Any]:
    conditions = [
        condition("Ready", "False", "UnhealthyDependents", "SubnetsReady=False"),
        condition("SubnetsReady", "False", "SubnetsNotFound", "no subnet matches the selector"),
        condition("AMIsReady", "True"),
    ]
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        "status": {"conditions": conditions},
    }


def test_a_node_class_that_is_not_ready_says_which_condition_fails_and_why() -> None:
    plan = planned(put("c.json", pool(), pod(), unready_class()))

    why = "SubnetsReady is False (SubnetsNotFound: no subnet matches the selector)"
    (entry,) = plan["unplaced"]
    assert [f"KWOKNodeClass default is not ready: {why}"] == [
        reason["detail"] for reason in entry["reasons"]
    ]
    told = {event["object"]: event for event in plan["events"]}
    assert {"Pod/default/web", "KWOKNodeClass/default"} == told.keys()
    of_class = told["KWOKNodeClass/default"]
    assert "NodeClassNotReady" == of_class["reason"]
    assert "1 pod waits for a node and no NodePool can make one; general: " in of_class["message"]
    assert all(why in event["message"] for event in told.values())


def unlaunched() -> dict[str, Any]:
    failed = condition("Launched", "Unknown", "LaunchFailed", "the subnet has no free addresses")
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "general-1", "labels": {"karpenter.sh/nodepool": "general"}},
        "spec": {"nodeClassRef": class_ref(), "requirements": []},
        "status": {"conditions": [failed]},
    }


def test_a_claim_that_has_not_launched_says_why() -> None:
    file = put("c.json", pool(), pod(), unlaunched())
    why = "Launched is Unknown (LaunchFailed: the subnet has no free addresses)"

    (entry,) = planned(file)["deferred"]

    assert (
        f"nothing is planned before NodeClaim general-1 has launched (general-1: {why})"
        == (entry["detail"])
    )
    assert [f"error: NodeClaim general-1 has no node, as it has not launched: {why}"] == (
        run("explain", "node", "general-1", file).errors
    )


def starting() -> list[dict[str, Any]]:
    claim, node = machine(spec={"startupTaints": [HELD]})
    del node["metadata"]["labels"]["karpenter.sh/initialized"]
    node["spec"]["taints"] = [HELD]
    return [claim, node]


def test_a_startup_taint_that_nobody_removes_is_named() -> None:
    file = put("c.json", pool(), pod(), *starting())
    why = "startup taint example.com/agent=missing:NoSchedule still on it"

    assert ["n1"] == list(planned(file)["existing"])
    assert f"not up yet: n1: {why}" in run("plan", file, "--only", "provisioning").out
    assert f"not up yet: {why}" in run("explain", "pod", "web", file).out
    assert why in run("explain", "node", "n1", file).out


def test_a_static_pool_whose_controller_does_not_heed_it_gets_no_nodes() -> None:
    static = pool(replicas=3)
    static["status"] = {
        "conditions": [
            condition("Ready", "True"),
            condition("StaticCapacity", "False", "FeatureGateDisabled", "spec.replicas ..."),
        ]
    }
    file = put("c.json", static)

    ran = run("plan", file)

    assert 0 == ran.code
    assert "note: spec.replicas of NodePool general has no effect" in ran.err
    assert [] == planned(file)["static"]
    (heeded,) = planned(file, "--set", "FEATURE_GATES=StaticCapacity=true")["static"]
    assert 3 == heeded["create"]


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        pytest.param([], "kwok", id="nobody tells"),
        pytest.param([EC2], "aws", id="EC2NodeClass"),
        pytest.param([KWOK], "kwok", id="KWOKNodeClass"),
        pytest.param([EC2, KWOK], "kwok", id="as many of either"),
        pytest.param([EC2, EC2, KWOK], "aws", id="most pools decide"),
        pytest.param([NodeClassReference("example.com", "Other", "x")], "kwok", id="another kind"),
    ],
)
def test_the_provider_of_a_running_cluster_follows_its_node_classes(
    classes: list[NodeClassReference], expected: str
) -> None:
    pools = [node_pool(f"p{number}", node_class=each) for number, each in enumerate(classes)]

    assert expected == provider_of(pools)
