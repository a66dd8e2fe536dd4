"""RuntimeClasses of files count for the pods that name them, as an API server sees to it."""

from pathlib import Path
from typing import Any

import pytest

from helpers.cluster_texts import planned, pod, pool, put
from helpers.commands import run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def runtime_class(**parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "gvisor"},
        "handler": "runsc",
        **parts,
    }


HEAVY = runtime_class(overhead={"podFixed": {"cpu": "2", "memory": "1Gi"}})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"runtimeClassName": "gvisor"}, "3", id="a pod that names the class"),
        pytest.param({}, "1", id="a pod that names none"),
        pytest.param({"runtimeClassName": "kata"}, "1", id="a pod of a class that is not there"),
        pytest.param(
            {"runtimeClassName": "gvisor", "overhead": {"cpu": "1"}},
            "2",
            id="a pod whose overhead is written already",
        ),
    ],
)
def test_the_overhead_of_a_class_counts(spec: dict[str, Any], expected: str) -> None:
    file = put("c.json", pool(), pod(**spec), HEAVY)

    (claim,) = planned(file)["nodeClaims"]

    assert expected == claim["requests"]["cpu"]


def test_pods_of_a_deployment_have_it_too_and_nobody_is_warned() -> None:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": pod(runtimeClassName="gvisor")["spec"],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    file = put("c.json", pool(), deployment, HEAVY)

    ran, (claim,) = run("plan", file), planned(file)["nodeClaims"]

    assert ("6", []) == (claim["requests"]["cpu"], ran.warnings)


def test_nodes_that_have_the_runtime_are_asked_for() -> None:
    scheduling = {
        "nodeSelector": {"topology.kubernetes.io/zone": "test-zone-c"},
        "tolerations": [{"key": "gvisor", "operator": "Exists"}],
    }
    taints = [{"key": "gvisor", "effect": "NoSchedule"}]
    file = put(
        "c.json",
        pool(taints=taints),
        pod(runtimeClassName="gvisor"),
        runtime_class(scheduling=scheduling),
    )

    (claim,) = planned(file)["nodeClaims"]

    assert "test-zone-c" == claim["launch"]["zone"]


def test_an_overhead_that_is_no_amount_is_one_sentence() -> None:
    file = put("c.json", pool(), runtime_class(overhead={"podFixed": {"cpu": "much"}}))

    ran = run("plan", file)

    assert 2 == ran.code
    first, last = ran.errors
    assert first.startswith("error: c.json:1: RuntimeClass/gvisor overhead.podFixed.cpu: Invalid")
    assert first.endswith('"much": must be a quantity such as 250m')
    assert "error: nothing is planned: 1 problem above" == last


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"scheduling": {"tolerations": 5}}, id="tolerations that are a number"),
        pytest.param({"scheduling": "none"}, id="scheduling that is text"),
        pytest.param({"overhead": ["cpu"]}, id="an overhead that is a list"),
    ],
)
def test_a_class_that_makes_no_sense_adds_nothing(parts: dict[str, Any]) -> None:
    file = put("c.json", pool(), pod(runtimeClassName="gvisor"), runtime_class(**parts))

    (claim,) = planned(file)["nodeClaims"]

    assert "1" == claim["requests"]["cpu"]
