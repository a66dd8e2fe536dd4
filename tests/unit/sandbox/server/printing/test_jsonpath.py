"""JSON paths find what the columns of CRDs point at."""

from typing import Any

import pytest

from karpenter_sandbox.server.printing.jsonpath import JsonPathError, find

OBJECT: dict[str, Any] = {
    "spec": {"replicas": 3, "list": [{"n": 1}, {"n": 2}, {"n": 3}], "empty": None},
    "metadata": {"labels": {"topology.kubernetes.io/zone": "a", "x": "y"}},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "weight": 2},
            {"type": "Drifted", "status": "False"},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(".spec.replicas", [3], id="a field"),
        pytest.param("{.spec.replicas}", [3], id="in braces"),
        pytest.param("spec.replicas", [3], id="without the dot"),
        pytest.param("$.spec.replicas", [3], id="from the root"),
        pytest.param(".spec.nope", [], id="a field that is not there"),
        pytest.param(".spec.replicas.deeper", [], id="below a scalar"),
        pytest.param(".spec.empty", [None], id="null is a value"),
        pytest.param(".metadata.labels.topology\\.kubernetes\\.io/zone", ["a"], id="escaped dots"),
        pytest.param(".metadata.labels['topology.kubernetes.io/zone']", ["a"], id="quoted"),
        pytest.param('.metadata.labels["x"]', ["y"], id="double quotes"),
        pytest.param('.status.conditions[?(@.type=="Ready")].status', ["True"], id="a filter"),
        pytest.param(
            ".status.conditions[?(@.type == 'Drifted')].status", ["False"], id="a spaced filter"
        ),
        pytest.param('.status.conditions[?(@.type!="Ready")].type', ["Drifted"], id="not equal"),
        pytest.param(".status.conditions[?(@.weight>1)].type", ["Ready"], id="greater"),
        pytest.param(".status.conditions[?(@.weight)].type", ["Ready"], id="has a field"),
        pytest.param(".status.conditions[?(@.type<1)].type", [], id="texts and numbers"),
        pytest.param(".spec.list[0].n", [1], id="an index"),
        pytest.param(".spec.list[-1].n", [3], id="an index from the end"),
        pytest.param(".spec.list[9].n", [], id="an index beyond the end"),
        pytest.param(".spec.list[1:].n", [2, 3], id="a slice"),
        pytest.param(".spec.list[0:3:2].n", [1, 3], id="a slice with steps"),
        pytest.param(".spec.list[*].n", [1, 2, 3], id="all items"),
        pytest.param(".metadata.labels.*", ["a", "y"], id="all values"),
        pytest.param("..n", [1, 2, 3], id="anywhere"),
        pytest.param(".", [OBJECT], id="the object itself"),
    ],
)
def test_finding(path: str, expected: list[Any]) -> None:
    assert expected == find(path, OBJECT)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(".a[", id="an open bracket"),
        pytest.param(".a[b]", id="a word for an index"),
        pytest.param(".a[?(@.b==c)]", id="a value without quotes"),
        pytest.param(".a..", id="dots to nowhere"),
        pytest.param(".a b", id="a blank"),
    ],
)
def test_malformed_paths(path: str) -> None:
    with pytest.raises(JsonPathError):
        find(path, OBJECT)
