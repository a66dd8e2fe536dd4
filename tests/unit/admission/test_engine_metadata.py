"""Every object has a kind, a name, and labels and annotations of text."""

from typing import Any

import pytest

from karpenter.admission.metadata import metadata_errors

NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'example.com', regex used for"
    " validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def obj(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", **metadata}}


@pytest.mark.parametrize(
    "accepted",
    [
        pytest.param(obj(), id="a name"),
        pytest.param(obj(name="a.b-c.1"), id="a name with dots and dashes"),
        pytest.param(obj(name="a" * 253), id="a name of 253 characters"),
        pytest.param(obj(name=None, generateName="web-"), id="the beginning of a name"),
        pytest.param(obj(namespace="kube-system"), id="a namespace"),
        pytest.param(obj(labels={"a": "", "example.com/b": "C_d.e-1"}), id="labels"),
        pytest.param(obj(labels=None, annotations=None, finalizers=None), id="nulls"),
        pytest.param(obj(annotations={"Example.COM/a": "any text: {}"}), id="annotations"),
        pytest.param(obj(finalizers=["karpenter.sh/termination"]), id="finalizers"),
    ],
)
def test_accepted(accepted: dict[str, Any]) -> None:
    assert metadata_errors(accepted) == []


@pytest.mark.parametrize(
    ("refused", "complaint"),
    [
        pytest.param(
            {"kind": "Pod", "metadata": {"name": "a"}},
            "apiVersion: Required value: every object says its apiVersion, such as karpenter.sh/v1",
            id="no apiVersion",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "", "metadata": {"name": "a"}},
            "kind: Required value: every object says its kind, such as NodePool",
            id="an empty kind",
        ),
        pytest.param(
            {"apiVersion": 1, "kind": "Pod", "metadata": {"name": "a"}},
            'apiVersion: Invalid value: "integer": must be of type string',
            id="an apiVersion that is a number",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod"},
            "metadata.name: Required value: name or generateName is required",
            id="no metadata",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": []},
            'metadata: Invalid value: "array": must be of type object',
            id="metadata that is a list",
        ),
        pytest.param(
            obj(name=""),
            "metadata.name: Required value: name or generateName is required",
            id="no name",
        ),
        pytest.param(
            obj(name=3),
            'metadata.name: Invalid value: "integer": must be of type string',
            id="a name that is a number",
        ),
        pytest.param(
            obj(name="My_Pool"),
            f'metadata.name: Invalid value: "My_Pool": {NAME_RULE}',
            id="a name in upper case",
        ),
        pytest.param(
            obj(name="a" * 254),
            f'metadata.name: Invalid value: "{"a" * 198}…: must be no more than 253 characters',
            id="a name of 254 characters",
        ),
        pytest.param(
            obj(generateName="Web-"),
            f'metadata.generateName: Invalid value: "Web-": {NAME_RULE}',
            id="the beginning of a name in upper case",
        ),
        pytest.param(
            obj(namespace="a.b"),
            'metadata.namespace: Invalid value: "a.b": a lowercase RFC 1123 label must consist of'
            " lower case alphanumeric characters or '-', and must start and end with an"
            " alphanumeric character (e.g. 'my-name', regex used for validation is"
            " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            id="a namespace with a dot",
        ),
        pytest.param(
            obj(labels=["a"]),
            'metadata.labels: Invalid value: "array": must be of type object',
            id="labels that are a list",
        ),
        pytest.param(
            obj(labels={"a": 1}),
            "metadata.labels.a: Invalid value: 1: must be a string, not integer; write it in quotes",
            id="a label that is a number",
        ),
        pytest.param(
            obj(labels={1: "a"}),
            "metadata.labels[1]: Invalid value: a key must be a string; write it in quotes",
            id="a label key that is a number",
        ),
        pytest.param(
            obj(labels={"a/b/c": "d"}),
            'metadata.labels[a/b/c]: Invalid value: "a/b/c": a label key must have at most one'
            " '/', between its prefix and its name",
            id="a label key with two slashes",
        ),
        pytest.param(
            obj(labels={"a": "hi there"}),
            'metadata.labels.a: Invalid value: "hi there": a label value must be empty or text that'
            " starts and ends with a letter or digit and has only letters, digits, '-', '_' and '.'"
            " between",
            id="a label value with a blank",
        ),
        pytest.param(
            obj(annotations={"karpenter.sh/do-not-disrupt": True}),
            "metadata.annotations[karpenter.sh/do-not-disrupt]: Invalid value: true: must be a"
            " string, not boolean; write it in quotes",
            id="an annotation without quotes",
        ),
        pytest.param(
            obj(annotations={"???": "a"}),
            'metadata.annotations[???]: Invalid value: "???": an annotation key must have a name'
            " that starts and ends with a letter or digit and has only letters, digits, '-', '_'"
            " and '.' between",
            id="an annotation key of odd characters",
        ),
        pytest.param(
            obj(annotations={"a": "x" * 262144}),
            "metadata.annotations: Too long: may not be more than 262144 bytes",
            id="too many annotations",
        ),
        pytest.param(
            obj(finalizers="a"),
            'metadata.finalizers: Invalid value: "string": must be of type array',
            id="finalizers that are a text",
        ),
        pytest.param(
            obj(finalizers=[1]),
            'metadata.finalizers[0]: Invalid value: "integer": must be of type string',
            id="a finalizer that is a number",
        ),
    ],
)
def test_refused(refused: dict[str, Any], complaint: str) -> None:
    assert [complaint] == [str(error) for error in metadata_errors(refused)]
