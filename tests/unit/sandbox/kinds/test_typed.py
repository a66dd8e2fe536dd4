"""Objects of built-in kinds are read and completed as an API server's Go code does it."""

import copy
from typing import Any

import pytest

from karpenter_sandbox.kinds.typed import DecodeError, complete_object, decode_object

JsonObject = dict[str, Any]


def read(obj: JsonObject, api_version: str = "v1", kind: str = "Pod") -> JsonObject:
    decoded = decode_object(obj, api_version, kind)
    assert decoded is not None
    return decoded.object


@pytest.mark.parametrize(
    ("written", "understood"),
    [
        pytest.param({"spec": {"hostNetwork": False}}, {"spec": {}}, id="false that Go omits"),
        pytest.param({"spec": {"nodeName": ""}}, {"spec": {}}, id="empty text that Go omits"),
        pytest.param({"spec": {"volumes": []}}, {"spec": {}}, id="an empty list that Go omits"),
        pytest.param(
            {"spec": {"containers": []}}, {"spec": {"containers": []}}, id="an empty list it writes"
        ),
        pytest.param({"metadata": None, "spec": None}, {}, id="null is nothing"),
        pytest.param(
            {"spec": {"hostUsers": False, "priority": 0}},
            {"spec": {"hostUsers": False, "priority": 0}},
            id="zero behind a pointer stays",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": "2026-01-01T01:00:00.5+01:00"}},
            {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}},
            id="times in UTC to the second",
        ),
        pytest.param(
            {"spec": {"overhead": {"cpu": 0.5, "memory": "1024Ki", "x": "1000m"}}},
            {"spec": {"overhead": {"cpu": "500m", "memory": "1Mi", "x": "1"}}},
            id="canonical quantities",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": None}}},
            {"metadata": {"labels": {"a": ""}}},
            id="null in a map is the empty value",
        ),
        pytest.param(
            {"spec": {"containers": [None]}}, {"spec": {"containers": [{}]}}, id="null in a list"
        ),
    ],
)
def test_reading(written: JsonObject, understood: JsonObject) -> None:
    before = copy.deepcopy(written)

    actual = read(written)

    assert understood == actual
    assert before == written


def test_bytes_are_read_as_base64_without_line_breaks() -> None:
    actual = read({"data": {"a": "YW\nI="}}, kind="Secret")

    assert {"data": {"a": "YWI="}} == actual


def test_micro_times_keep_their_digits() -> None:
    lease = {"spec": {"renewTime": "2026-01-01T00:00:00.1Z"}}

    actual = read(lease, "coordination.k8s.io/v1", "Lease")

    assert {"spec": {"renewTime": "2026-01-01T00:00:00.100000Z"}} == actual


def test_schemas_of_crds_are_read_to_the_bottom() -> None:
    schema = {"items": {"type": "object", "nullable": False, "properties": {"a": {"title": ""}}}}
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}

    actual = read(crd, "apiextensions.k8s.io/v1", "CustomResourceDefinition")

    understood = actual["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert {"items": {"type": "object", "properties": {"a": {}}}} == understood


def test_unknown_fields_are_dropped_and_told() -> None:
    pod = {"foo": 1, "spec": {"containers": [{"name": "a"}, {"bar": 1, "env": [{"baz": 1}]}]}}

    decoded = decode_object(pod, "v1", "Pod")

    assert decoded is not None
    assert ("foo", "spec.containers[1].bar", "spec.containers[1].env[0].baz") == decoded.unknown
    assert {"spec": {"containers": [{"name": "a"}, {"env": [{}]}]}} == decoded.object


def test_kinds_of_crds_are_none_of_its_business() -> None:
    assert decode_object({}, "karpenter.sh/v1", "NodePool") is None
    assert {"a": 1} == complete_object({"a": 1}, "karpenter.sh/v1", "NodePool")


@pytest.mark.parametrize(
    ("deployment", "message"),
    [
        pytest.param(
            {"spec": {"replicas": "3"}},
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas"
            " of type int32",
            id="text for a number",
        ),
        pytest.param(
            {"spec": {"replicas": 1.5}},
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas"
            " of type int32",
            id="a fraction for a whole number",
        ),
        pytest.param(
            {"spec": {"replicas": 2**31}},
            "json: cannot unmarshal number 2147483648 into Go struct field"
            " DeploymentSpec.spec.replicas of type int32",
            id="a number that is too large",
        ),
        pytest.param(
            {"spec": {"paused": 1}},
            "json: cannot unmarshal number into Go struct field DeploymentSpec.spec.paused"
            " of type bool",
            id="a number for a boolean",
        ),
        pytest.param(
            {"spec": []},
            "json: cannot unmarshal array into Go struct field Deployment.spec"
            " of type v1.DeploymentSpec",
            id="a list for an object",
        ),
        pytest.param(
            {"spec": {"template": {"spec": {"containers": {"a": 1}}}}},
            "json: cannot unmarshal object into Go struct field"
            " PodSpec.spec.template.spec.containers of type []v1.Container",
            id="an object for a list",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": True}}},
            "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels"
            " of type string",
            id="a boolean in labels",
        ),
        pytest.param(
            {"metadata": {"labels": "a"}},
            "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels"
            " of type map[string]string",
            id="text for labels",
        ),
        pytest.param(
            {"spec": {"template": {"spec": {"overhead": {"cpu": "many"}}}}},
            "quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="no quantity",
        ),
        pytest.param(
            {"spec": {"template": {"spec": {"overhead": {"cpu": []}}}}},
            "quantities must match the regular expression"
            " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="a list for a quantity",
        ),
        pytest.param(
            {"spec": {"template": {"spec": {"overhead": "x"}}}},
            "json: cannot unmarshal string into Go struct field"
            " PodSpec.spec.template.spec.overhead of type v1.ResourceList",
            id="text for quantities",
        ),
        pytest.param(
            {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1.5}}}},
            "json: cannot unmarshal number 1.5 into Go struct field"
            " RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
            id="neither number nor text",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": "yesterday"}},
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
            id="no time",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": "2026-01-01T00:00"}},
            'parsing time "2026-01-01T00:00" as "2006-01-02T15:04:05Z07:00":'
            ' cannot parse "" as ":"',
            id="half a time",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z!"}},
            'parsing time "2026-01-01T00:00:00Z!": extra text: "!"',
            id="more than a time",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": "2026-02-30T00:00:00Z"}},
            'parsing time "2026-02-30T00:00:00Z": day out of range',
            id="a day that is not",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": "2026-13-01T00:00:00Z"}},
            'parsing time "2026-13-01T00:00:00Z": month out of range',
            id="a month that is not",
        ),
        pytest.param(
            {"metadata": {"creationTimestamp": 5}},
            "json: cannot unmarshal number into Go struct field"
            " ObjectMeta.metadata.creationTimestamp of type string",
            id="a number for a time",
        ),
    ],
)
def test_wrong_types(deployment: JsonObject, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_object(deployment, "apps/v1", "Deployment")

    assert message == caught.value.message


def test_broken_base64() -> None:
    with pytest.raises(DecodeError, match="illegal base64 data at input byte 4"):
        decode_object({"data": {"a": "YWJj!"}}, "v1", "Secret")


@pytest.mark.parametrize(
    ("api_version", "kind", "obj", "complete"),
    [
        pytest.param(
            "apps/v1",
            "Deployment",
            {"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}},
            {
                "metadata": {},
                "spec": {
                    "selector": None,
                    "strategy": {},
                    "template": {
                        "metadata": {},
                        "spec": {"containers": [{"name": "a", "resources": {}}]},
                    },
                },
                "status": {},
            },
            id="structs and required pointers",
        ),
        pytest.param(
            "policy/v1",
            "PodDisruptionBudget",
            {},
            {
                "metadata": {},
                "spec": {},
                "status": {
                    "disruptionsAllowed": 0,
                    "currentHealthy": 0,
                    "desiredHealthy": 0,
                    "expectedPods": 0,
                },
            },
            id="numbers that are always written",
        ),
        pytest.param(
            "v1",
            "Event",
            {},
            {
                "metadata": {},
                "involvedObject": {},
                "source": {},
                "firstTimestamp": None,
                "lastTimestamp": None,
                "eventTime": None,
                "reportingComponent": "",
                "reportingInstance": "",
            },
            id="times that never were",
        ),
        pytest.param(
            "v1",
            "Service",
            {"spec": {"ports": [{"port": 80}]}},
            {
                "metadata": {},
                "spec": {"ports": [{"port": 80, "targetPort": 0}]},
                "status": {"loadBalancer": {}},
            },
            id="ports by number or name",
        ),
        pytest.param("v1", "ConfigMap", {}, {"metadata": {}}, id="nothing but metadata"),
    ],
)
def test_completing(api_version: str, kind: str, obj: JsonObject, complete: JsonObject) -> None:
    actual = complete_object(obj, api_version, kind)

    assert complete == actual
    assert complete == complete_object(actual, api_version, kind)
