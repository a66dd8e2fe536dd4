"""Whatever object it is given, ``karpenter convert`` converts it or says in one line why not."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.commands import run
from helpers.json_places import places
from karpenter.manifests.reader import read

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
KINDS = [
    ("karpenter.sh/v1alpha5", "Provisioner"),
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"),
    ("karpenter.sh/v1beta1", "NodePool"),
    ("karpenter.sh/v1beta1", "NodeClaim"),
    ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"),
    ("compute.k8s.aws/v1beta1", "EC2NodeClass"),
    ("karpenter.sh/v1", "NodePool"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    ("karpenter.sh/v1alpha1", "NodeOverlay"),
    ("apps/v1", "Deployment"),
    ("v1", "Pod"),
    ("karpenter.sh/v9", "NodePool"),
]
FIELDS = [
    "metadata",
    "name",
    "labels",
    "annotations",
    "finalizers",
    "spec",
    "template",
    "requirements",
    "key",
    "operator",
    "values",
    "providerRef",
    "provider",
    "kubeletConfiguration",
    "kubelet",
    "limits",
    "resources",
    "consolidation",
    "enabled",
    "ttlSecondsAfterEmpty",
    "ttlSecondsUntilExpired",
    "weight",
    "taints",
    "startupTaints",
    "disruption",
    "expireAfter",
    "consolidateAfter",
    "consolidationPolicy",
    "budgets",
    "nodeClassRef",
    "subnetSelector",
    "subnetSelectorTerms",
    "securityGroupSelector",
    "amiSelector",
    "amiFamily",
    "tags",
    "metadataOptions",
    "blockDeviceMappings",
    "ebs",
    "volumeSize",
    "launchTemplate",
    "instanceProfile",
    "role",
    "userData",
    "cpu",
    "memory.available",
    "aws-ids",
    "a-b",
    "karpenter.sh/provisioner-name",
    "karpenter.sh/do-not-evict",
]
WORDS = [
    "",
    "In",
    "Exists",
    "AL2",
    "Ubuntu",
    "Custom",
    "30s",
    "Never",
    "10%",
    "1Gi",
    "a,b",
    "*",
    "ami-1",
    "é",
    "\n",
    "karpenter.sh/capacity-type",
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


GOOD: list[dict[str, Any]] = [
    document.data
    for path in sorted(EXAMPLES.rglob("*.yaml"))
    for document in read(path.read_bytes(), path.name)
]


@st.composite
def invented(draw: st.DrawFn) -> dict[str, Any]:
    """An object of a kind the converter knows, with any content."""
    api_version, kind = draw(st.sampled_from(KINDS))
    content = draw(st.dictionaries(st.sampled_from(FIELDS), values, max_size=4))
    spec = draw(values)
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": spec,
    } | content


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A good object in which up to three values are no longer what they were."""
    item: dict[str, Any] = deepcopy(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(item))
        container, key = found[draw(st.integers(0, len(found) - 1))]
        container[key] = draw(values)
    return item


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(invented() | damaged() | st.dictionaries(st.text(max_size=5), values), max_size=3))
def test_any_objects_are_converted_or_refused(objects: list[dict[str, Any]]) -> None:
    text = "\n".join(json.dumps(item) for item in objects)

    ran = run("convert", "-", "--node-role", "R", stdin=text)

    assert ran.code in (0, 2)
    if ran.code == 2:
        assert ran.out == ""
        assert ran.errors
    assert all(
        line.startswith(("error: ", "warning: ", "nothing to convert: "))
        for line in ran.err.splitlines()
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damaged() | invented())
def test_what_was_converted_converts_to_itself(item: dict[str, Any]) -> None:
    once = run("convert", "-", "--node-role", "R", stdin=json.dumps(item))
    if once.code == 2:
        return

    twice = run("convert", "-", stdin=once.out)

    assert (0, once.out) == (twice.code, twice.out)
