"""PriorityClasses of files count for what it costs to move pods, as an API server sees to it."""

from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import document, machine, planned, pod, pool, put, running
from helpers.commands import run

NOW = ["--now", "2026-08-01T12:00:00Z"]
ONE = {"budgets": [{"nodes": "1"}], "consolidateAfter": "30s"}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def priority_class(name: str = "important", **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 100_000_000,
        **parts,
    }


def first_to_go(*objects: dict[str, Any], spec: dict[str, Any] | None = None) -> list[str]:
    """Which of two nodes that are alike is given up first; ``spec`` is that of the pod on n1."""
    cluster = [
        pool(disruption=ONE, requirements=[ON_DEMAND]),
        *machine("n1"),
        *machine("n2"),
        running("a", "n1", **(spec or {})),
        running("b", "n2"),
    ]
    plan = document(put("c.json", *cluster, *objects), *NOW)["disruption"]
    candidates: list[str] = plan["commands"][0]["candidates"]
    return candidates


@pytest.mark.parametrize(
    ("spec", "classes", "expected"),
    [
        pytest.param({}, [], ["n1"], id="nobody has a priority"),
        pytest.param({}, [priority_class()], ["n1"], id="nobody names the class"),
        pytest.param(
            {"priorityClassName": "important"}, [priority_class()], ["n2"], id="a pod of a class"
        ),
        pytest.param({"priorityClassName": "important"}, [], ["n1"], id="the class is not there"),
        pytest.param(
            {"priorityClassName": "system-node-critical"}, [], ["n2"], id="a class of the system"
        ),
        pytest.param(
            {"priorityClassName": "important", "priority": 0},
            [priority_class()],
            ["n1"],
            id="the priority that was written counts",
        ),
        pytest.param(
            {"priority": 0},
            [priority_class(globalDefault=True)],
            ["n1"],
            id="the default is for pods without one",
        ),
    ],
)
def test_a_node_whose_pod_matters_more_goes_later(
    spec: dict[str, Any], classes: list[dict[str, Any]], expected: list[str]
) -> None:
    assert expected == first_to_go(*classes, spec=spec)


def test_no_place_depends_on_it_and_nobody_is_warned() -> None:
    tight = pool(limits={"cpu": "2"})
    pods = [pod("large", "1500m"), pod("small", "1", priorityClassName="important")]

    file = put("c.json", tight, *pods, priority_class())

    assert "" == run("plan", file).err
    assert [["default/large"]] == [claim["pods"] for claim in planned(file)["nodeClaims"]]


def test_a_deployment_laid_over_its_own_pods_is_not_rolled_out_for_it() -> None:
    spec = pod(priorityClassName="important")["spec"]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
        },
    }
    base = put("base.json", pool(), *machine("n1"), running("web", "n1"), deployment)
    change = put("change.json", deployment, priority_class(globalDefault=True))

    plan = document(base, "--with", change, *NOW)["provisioning"]

    assert [] == plan["nodeClaims"]
