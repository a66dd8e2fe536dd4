"""A null is read as Kubernetes reads it: the field was not given."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from karpenter.api import codec
from karpenter.api.pods import Pod, PodSpec, Toleration


def pod(**members: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "Pod", **members}).encode()


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param({"metadata": None}, Pod(), id="metadata"),
        pytest.param({"metadata": {"creationTimestamp": None}}, Pod(), id="creationTimestamp"),
        pytest.param({"metadata": {"labels": None, "name": None}}, Pod(), id="labels and name"),
        pytest.param({"spec": {"containers": None}}, Pod(), id="containers"),
        pytest.param({"spec": {"hostNetwork": None, "affinity": None}}, Pod(), id="scalars"),
        pytest.param({"status": None, "spec": None}, Pod(), id="whole sections"),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a", "value": None}], "nodeSelector": None}},
            Pod(spec=PodSpec(tolerations=(Toleration(key="a"),))),
            id="inside an item of a list",
        ),
        pytest.param({"spec": {"unheardOf": None, "priority": None}}, Pod(), id="unknown fields"),
    ],
)
def test_a_null_field_is_an_absent_field(members: dict[str, Any], expected: Pod) -> None:
    assert expected == codec.decode(pod(**members))
    assert expected == codec.convert({"apiVersion": "v1", "kind": "Pod", **members})


@pytest.mark.parametrize(
    ("kind", "value", "read", "expected"),
    [
        pytest.param(
            "v1 Node", {"spec": {"taints": None}}, lambda o: o.spec.taints, (), id="node taints"
        ),
        pytest.param(
            "storage.k8s.io/v1 CSINode",
            {"spec": {"drivers": None}},
            lambda o: o.spec.drivers,
            (),
            id="drivers of a CSINode that has none",
        ),
        pytest.param(
            "resource.k8s.io/v1 ResourceSlice",
            {"spec": {"devices": [{"name": "d", "attributes": {"a": {"int": 1, "bool": None}}}]}},
            lambda o: o.spec.devices[0].attributes["a"].bool_value,
            None,
            id="inside a model in a map",
        ),
        pytest.param(
            "karpenter.sh/v1 NodePool",
            {"spec": {"template": {"spec": {"expireAfter": None, "requirements": None}}}},
            lambda o: o.spec.template.spec.expire_after,
            "720h",
            id="a field with a default of its own",
        ),
        pytest.param(
            "karpenter.k8s.aws/v1 EC2NodeClass",
            {"spec": {"tags": None, "kubelet": {"maxPods": None}}},
            lambda o: o.spec.kubelet,
            {"maxPods": None},
            id="but free data is left alone",
        ),
    ],
)
def test_nulls_are_absent_in_other_kinds_too(
    kind: str, value: dict[str, Any], read: Callable[[Any], object], expected: object
) -> None:
    api_version, name = kind.split()

    resource = codec.convert({"apiVersion": api_version, "kind": name, **value})

    assert expected == read(resource)
