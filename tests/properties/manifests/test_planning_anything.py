"""Whatever cluster it is given, ``karpenter plan`` accounts for every pod or says what is wrong."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.cluster_texts import everyone
from helpers.commands import run
from helpers.json_places import places
from karpenter.manifests.reader import read

pytestmark = pytest.mark.storm

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "plan"
CLUSTER: list[dict[str, Any]] = [
    document.data
    for path in sorted(EXAMPLES.glob("*.yaml"))
    for document in read(path.read_bytes(), path.name)
]
ODD = [
    None,
    "",
    0,
    -1,
    1e300,
    2**70,
    True,
    "-1",
    "1e400",
    "NaN",
    "a b",
    "é",
    [],
    {},
    ["a"],
    {"a": 1},
    "In",
    "Gt",
    "karpenter.sh/nodepool",
    "kubernetes.io/hostname",
    "10%",
    "2026-01-01T00:00:00Z",
]


@st.composite
def clusters(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A part of a good cluster in which a value or two are no longer what they were."""
    wanted = draw(st.lists(st.booleans(), min_size=len(CLUSTER), max_size=len(CLUSTER)))
    items = [deepcopy(item) for item, is_in in zip(CLUSTER, wanted, strict=True) if is_in]
    for _ in range(draw(st.integers(0, 2))):
        found = [spot for item in items for spot in places(item)]
        if found:
            container, key = found[draw(st.integers(0, len(found) - 1))]
            container[key] = draw(st.sampled_from(ODD))
    return items


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_any_cluster_is_planned_for_or_refused(items: list[dict[str, Any]]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})

    ran = run("plan", "-", "-o", "json", stdin=text)

    assert ran.code in (0, 2)
    if ran.code == 2:
        assert ran.out == ""
        assert ran.errors
        return
    accounted = everyone(json.loads(ran.out)["provisioning"])
    assert len(accounted) == len(set(accounted))
    waiting = {
        f"{item['metadata'].get('namespace') or 'default'}/{item['metadata']['name']}"
        for item in items
        if item["kind"] == "Pod"
        and item["metadata"].get("name")
        and not item.get("spec", {}).get("nodeName")
    }
    assert waiting <= set(accounted)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), st.sampled_from(["web-0", "cache-0", "training", "report-1"]))
def test_any_pod_is_explained_or_refused(items: list[dict[str, Any]], name: str) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})

    ran = run("explain", "pod", name, "-", stdin=text)

    assert ran.code in (0, 2)
    assert (ran.code == 2) == (ran.out == "")


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_objects_does_not_matter(items: list[dict[str, Any]], order: Any) -> None:
    shuffled = list(items)
    order.shuffle(shuffled)
    outputs = [
        run(
            "plan",
            "-",
            "-o",
            "json",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": each}),
        ).out
        for each in (items, shuffled)
    ]

    assert outputs[0] == outputs[1]
