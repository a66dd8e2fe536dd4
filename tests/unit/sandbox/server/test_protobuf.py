"""Protobuf bodies become the objects their JSON would have been; damaged ones are refused.

``kubectl_bodies.json`` holds what kubectl 1.32 sent for each command and the object it meant; a
real API server answers both the same.
"""

import base64
import json
import struct as packing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karpenter_sandbox.kinds import typed
from karpenter_sandbox.kinds.schemas.structs import Form, GoType, Struct, struct, struct_of_kind
from karpenter_sandbox.server.protobuf import ProtobufError, decode

BODIES = json.loads((Path(__file__).parent / "kubectl_bodies.json").read_text("utf-8"))


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def chunk(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    type_meta = chunk(1, api_version.encode()) + chunk(2, kind.encode())
    return b"k8s\x00" + chunk(1, type_meta) + chunk(2, raw) + chunk(3, b"") + chunk(4, b"")


def encode_struct(value: dict[str, Any], found: Struct) -> bytes:
    """What a client would send, for the types the properties below generate."""
    out = b""
    for field in found.fields:
        if not field.number:
            continue  # the envelope tells the kind
        if not field.json:
            out += chunk(field.number, encode_struct(value, struct(field.type.name)))
        elif field.json in value:
            for part in parts_of(value[field.json], field.type):
                out += encode_part(field.number, part, field.type)
    return out


def parts_of(value: Any, go_type: GoType) -> list[Any]:
    if go_type.form is Form.LIST:
        return list(value)
    return list(value.items()) if go_type.form is Form.MAP else [value]


def encode_part(number: int, part: Any, go_type: GoType) -> bytes:
    if go_type.form is Form.LIST:
        return encode_part(number, part, go_type.parts)
    if go_type.form is Form.MAP:
        key, value = part
        return chunk(number, chunk(1, key.encode()) + encode_part(2, value, go_type.parts))
    if go_type.form is Form.STRUCT:
        return chunk(number, encode_struct(part, struct(go_type.name)))
    return encode_leaf(number, part, go_type.name)


def encode_leaf(number: int, part: Any, name: str) -> bytes:
    if name in ("int32", "int64", "bool"):
        return varint(number << 3) + varint(int(part))
    if name == "Quantity":
        return chunk(number, chunk(1, part.encode()))
    if name == "IntOrString":
        is_text = isinstance(part, str)
        inner = encode_leaf(1, int(is_text), "int32")
        inner += chunk(3, part.encode()) if is_text else encode_leaf(2, part, "int32")
        return chunk(number, inner)
    if name == "bytes":
        return chunk(number, base64.b64decode(part))
    return chunk(number, part.encode())


@pytest.mark.parametrize("sent", [pytest.param(entry, id=entry["command"]) for entry in BODIES])
def test_what_kubectl_sends_is_understood(sent: dict[str, Any]) -> None:
    decoded = decode(bytes.fromhex(sent["body"]))

    assert sent["object"] == decoded


POD = struct_of_kind("v1", "Pod")
names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=5)
containers = st.fixed_dictionaries(
    {"name": names},
    optional={
        "command": st.lists(names, min_size=1, max_size=3),
        "stdin": st.just(True),
        "ports": st.lists(
            st.fixed_dictionaries({"containerPort": st.integers(1, 65535)}), min_size=1, max_size=2
        ),
        "livenessProbe": st.fixed_dictionaries(
            {
                "httpGet": st.fixed_dictionaries(
                    {"port": st.integers(0, 65535) | names}, optional={"path": names}
                ),
                "periodSeconds": st.integers(1, 2**31 - 1),
            }
        ),
        "resources": st.fixed_dictionaries(
            {"requests": st.dictionaries(names, st.sampled_from(["1", "500m", "1Gi"]), min_size=1)}
        ),
    },
)
pods = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": names},
            optional={
                "labels": st.dictionaries(names, names, min_size=1, max_size=3),
                "deletionGracePeriodSeconds": st.integers(-(2**63), 2**63 - 1),
            },
        ),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(containers, min_size=1, max_size=3)},
            optional={
                "hostUsers": st.booleans(),
                "priority": st.integers(-(2**31), 2**31 - 1),
                "volumes": st.lists(
                    st.fixed_dictionaries(
                        {"name": names, "secret": st.fixed_dictionaries({"secretName": names})}
                    ),
                    min_size=1,
                    max_size=2,
                ),
            },
        ),
    }
)


@settings(max_examples=60, deadline=None)
@given(pods)
def test_reading_undoes_writing(pod: dict[str, Any]) -> None:
    assert POD is not None
    body = envelope("v1", "Pod", encode_struct(pod, POD))

    decoded = decode(body)

    assert {"kind": "Pod", "apiVersion": "v1", **pod} == without_empty_structs(decoded)


def without_empty_structs(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: without_empty_structs(part) for key, part in value.items()}
        return {key: part for key, part in kept.items() if part != {}}
    return [without_empty_structs(part) for part in value] if isinstance(value, list) else value


CRD_SCHEMA = (
    varint(9 << 3 | 1)
    + packing.pack("<d", 1.5)
    + chunk(30, varint(1 << 3) + varint(1))
    + chunk(24, chunk(1, chunk(5, b"string")))
    + chunk(32, chunk(1, b"d") + chunk(2, chunk(2, b"x") + chunk(2, b"y")))
)


@pytest.mark.parametrize(
    ("api_version", "kind", "raw", "path", "expected"),
    [
        pytest.param(
            "coordination.k8s.io/v1",
            "Lease",
            chunk(2, chunk(3, varint(1 << 3) + varint(10**9) + varint(2 << 3) + varint(5000))),
            ["spec", "acquireTime"],
            "2001-09-09T01:46:40.000005Z",
            id="times to the microsecond",
        ),
        pytest.param(
            "v1",
            "DeleteOptions",
            varint(1 << 3) + varint(0),
            ["gracePeriodSeconds"],
            0,
            id="a zero that was set stays",
        ),
        pytest.param(
            "apps/v1",
            "ControllerRevision",
            chunk(2, chunk(1, b'{"a":[1]}')),
            ["data"],
            {"a": [1]},
            id="embedded JSON",
        ),
        pytest.param(
            "apps/v1",
            "ControllerRevision",
            varint(3 << 3) + varint(-7),
            ["revision"],
            -7,
            id="negative numbers",
        ),
        pytest.param(
            "v1",
            "Pod",
            chunk(2, chunk(14, chunk(4, varint(7) + varint(300)))),
            ["spec", "securityContext", "supplementalGroups"],
            [7, 300],
            id="packed numbers",
        ),
        pytest.param(
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            chunk(2, chunk(5, chunk(1, b"k") + chunk(2, chunk(1, b"x") + chunk(1, b"y")))),
            ["spec", "extra"],
            {"k": ["x", "y"]},
            id="maps of lists",
        ),
        pytest.param(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            chunk(2, chunk(7, chunk(4, chunk(1, CRD_SCHEMA)))),
            ["spec", "versions", 0, "schema", "openAPIV3Schema"],
            {
                "maximum": 1.5,
                "additionalProperties": True,
                "items": {"type": "string"},
                "dependencies": {"d": ["x", "y"]},
            },
            id="schemas and fractions",
        ),
    ],
)
def test_special_types(
    api_version: str, kind: str, raw: bytes, path: list[Any], expected: Any
) -> None:
    value: Any = decode(envelope(api_version, kind, raw))
    for key in path:
        value = value[key]

    assert expected == value


def test_the_kind_may_come_from_the_request() -> None:
    body = envelope("", "", chunk(1, chunk(1, b"x")))

    decoded = decode(body, default_kind=("v1", "ConfigMap"))

    assert {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}} == decoded


def test_fields_of_newer_versions_are_skipped() -> None:
    unknown = chunk(900, b"?") + varint(901 << 3 | 5) + b"1234" + varint(902 << 3) + varint(1)
    body = envelope("v1", "ConfigMap", unknown + chunk(1, chunk(1, b"x")))

    decoded = decode(body)

    assert {"name": "x"} == decoded["metadata"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"{}", "expected prefix", id="no envelope"),
        pytest.param(envelope("v1", "Nope", b""), 'no kind "Nope"', id="unknown kind"),
        pytest.param(b"k8s\x00\x0a\x10abc", "ends in the middle of a field", id="cut off"),
        pytest.param(b"k8s\x00\x0a\xff", "ends in the middle of a number", id="cut off number"),
        pytest.param(b"k8s\x00" + b"\xff" * 11, "longer than 10 bytes", id="endless number"),
        pytest.param(b"k8s\x00\x00", "number 0", id="field zero"),
        pytest.param(b"k8s\x00\x0b", "wire type 3", id="unknown wire type"),
        pytest.param(
            envelope("v1", "Pod", varint(1 << 3) + b"\x01"), "a number stands", id="wrong type"
        ),
        pytest.param(
            envelope("v1", "Pod", chunk(2, chunk(4, b"\x01"))), "text stands", id="text for number"
        ),
        pytest.param(
            envelope("v1", "ConfigMap", chunk(1, chunk(1, b"\xff"))), "cannot be read", id="no text"
        ),
        pytest.param(
            envelope(
                "v1", "ResourceQuota", chunk(2, chunk(1, chunk(1, b"c") + chunk(2, chunk(1, b"?"))))
            ),
            "quantities must match",
            id="bad quantity",
        ),
        pytest.param(
            envelope("apps/v1", "ControllerRevision", chunk(2, chunk(1, b"{"))),
            "cannot be read",
            id="bad embedded JSON",
        ),
    ],
)
def test_damaged_bodies_are_refused(body: bytes, problem: str) -> None:
    with pytest.raises(ProtobufError, match=problem):
        decode(body)


def test_bottomless_nesting_is_refused() -> None:
    schema = b""
    for _ in range(300):
        schema = chunk(28, schema)
    spec = chunk(7, chunk(4, chunk(1, schema)))

    with pytest.raises(ProtobufError, match="nested more than"):
        decode(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", chunk(2, spec)))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_an_object_or_an_error(noise: bytes) -> None:
    try:
        decoded = decode(
            b"k8s\x00" + chunk(1, chunk(1, b"v1") + chunk(2, b"Pod")) + chunk(2, noise)
        )
    except ProtobufError:
        return
    again = typed.decode_object(decoded, "v1", "Pod")

    assert again is not None
    assert again.object == decoded
