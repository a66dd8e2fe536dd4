"""What a controller may write into the status of the AWS kinds.

The lists are the same in every version; capacity reservations came with EC2NodeClass v1.
"""

from typing import Any

import pytest

from karpenter.admission.schemas.engine import Admitted, builtin

TERMS = [{"tags": {"karpenter.sh/discovery": "demo"}}]
NODE_CLASS = {
    "role": "node",
    "amiFamily": "AL2",
    "subnetSelectorTerms": TERMS,
    "securityGroupSelectorTerms": TERMS,
    "amiSelectorTerms": TERMS,
}
OBJECTS: dict[str, dict[str, Any]] = {
    "v1": {"kind": "EC2NodeClass", "spec": NODE_CLASS},
    "v1beta1": {"kind": "EC2NodeClass", "spec": NODE_CLASS},
    "v1alpha1": {"kind": "AWSNodeTemplate", "spec": {}},
}
ENTRIES: dict[str, dict[str, Any]] = {
    "subnets": {"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az1"},
    "securityGroups": {"id": "sg-1", "name": "default"},
    "amis": {
        "id": "ami-1",
        "name": "image",
        "deprecated": True,
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
    },
    "conditions": {
        "type": "Ready",
        "status": "True",
        "observedGeneration": 0,
        "lastTransitionTime": "2030-01-01T00:00:00Z",
        "reason": "Ready",
        "message": "",
    },
    "capacityReservations": {
        "id": "cr-1",
        "availabilityZone": "us-west-2a",
        "instanceType": "m5.large",
        "instanceMatchCriteria": "targeted",
        "ownerID": "012345678901",
        "reservationType": "capacity-block",
        "state": "expiring",
        "interruptible": False,
        "endTime": "2030-01-01T00:00:00Z",
    },
}
OPTIONAL = {
    "subnets": ["zoneID"],
    "securityGroups": ["name"],
    "amis": ["name", "deprecated"],
    "conditions": ["observedGeneration"],
    "capacityReservations": ["reservationType", "state", "interruptible", "endTime"],
}
RIGHT_VALUES = [
    ("amis", "requirements", []),
    ("conditions", "type", "karpenter.k8s.aws/Ready"),
    ("conditions", "type", "R" * 316),
    ("conditions", "status", "False"),
    ("conditions", "status", "Unknown"),
    ("conditions", "reason", "A"),
    ("conditions", "reason", "R" * 1024),
    ("conditions", "message", "m" * 32768),
    ("capacityReservations", "instanceMatchCriteria", "open"),
    ("capacityReservations", "reservationType", "default"),
    ("capacityReservations", "state", "active"),
]
WRONG_VALUES = [
    ("subnets", "zone", 1),
    ("securityGroups", "id", None),
    ("amis", "deprecated", "yes"),
    ("conditions", "type", "not ready"),
    ("conditions", "type", "R" * 317),
    ("conditions", "status", "Maybe"),
    ("conditions", "observedGeneration", -1),
    ("conditions", "observedGeneration", 2**63),
    ("conditions", "lastTransitionTime", "just now"),
    ("conditions", "reason", ""),
    ("conditions", "reason", "not ready"),
    ("conditions", "reason", "R" * 1025),
    ("conditions", "message", "m" * 32769),
    ("capacityReservations", "id", "my-cr-1"),
    ("capacityReservations", "instanceMatchCriteria", "closed"),
    ("capacityReservations", "ownerID", "me"),
    ("capacityReservations", "reservationType", "block"),
    ("capacityReservations", "state", "gone"),
    ("capacityReservations", "endTime", "soon"),
]


def versions_with(list_name: str) -> list[str]:
    return ["v1"] if list_name == "capacityReservations" else list(OBJECTS)


def admit(version: str, status: dict[str, Any]) -> Admitted:
    obj = {
        **OBJECTS[version],
        "apiVersion": f"karpenter.k8s.aws/{version}",
        "metadata": {"name": "default"},
        "status": status,
    }
    compiled = builtin(obj["apiVersion"], obj["kind"])
    assert compiled is not None
    return compiled.admit(obj)


def changed(list_name: str, field: str, value: object) -> dict[str, Any]:
    return {list_name: [{**ENTRIES[list_name], field: value}]}


def lacking(list_name: str, missing: str) -> dict[str, Any]:
    entry = {name: value for name, value in ENTRIES[list_name].items() if name != missing}
    return {list_name: [entry]}


def table(values: list[tuple[str, str, Any]]) -> list[Any]:
    """One case for each value in each version that has its list."""
    return [
        pytest.param(version, *case, id=f"{version}-{case[0]}-{case[1]}-{number}")
        for number, case in enumerate(values)
        for version in versions_with(case[0])
    ]


@pytest.mark.parametrize("version", OBJECTS)
def test_a_full_status_is_kept(version: str) -> None:
    lists = {name: [entry] for name, entry in ENTRIES.items() if version in versions_with(name)}
    profile = {} if version == "v1alpha1" else {"instanceProfile": "profile"}
    expected = lists | profile

    admitted = admit(version, expected)

    assert expected == admitted.object["status"]
    assert not admitted.errors
    assert not admitted.pruned


@pytest.mark.parametrize(("version", "list_name", "field", "value"), table(RIGHT_VALUES))
def test_right_value(version: str, list_name: str, field: str, value: object) -> None:
    assert not admit(version, changed(list_name, field, value)).errors


@pytest.mark.parametrize(("version", "list_name", "field", "value"), table(WRONG_VALUES))
def test_wrong_value(version: str, list_name: str, field: str, value: object) -> None:
    errors = admit(version, changed(list_name, field, value)).errors

    assert f"status.{list_name}[0].{field}" in [error.field for error in errors]


@pytest.mark.parametrize(
    ("version", "list_name", "field"),
    [
        pytest.param(version, list_name, field, id=f"{version}-{list_name}-without-{field}")
        for list_name, entry in ENTRIES.items()
        for version in versions_with(list_name)
        for field in entry
    ],
)
def test_which_fields_of_an_entry_may_be_left_out(version: str, list_name: str, field: str) -> None:
    expected = [] if field in OPTIONAL[list_name] else [f"status.{list_name}[0].{field}"]

    errors = admit(version, lacking(list_name, field)).errors

    assert expected == [error.field for error in errors if error.path]


@pytest.mark.parametrize("version", OBJECTS)
@pytest.mark.parametrize("field", ["key", "operator"])
def test_an_image_requirement_needs(version: str, field: str) -> None:
    requirement = {"key": "kubernetes.io/arch", "operator": "Exists"}
    del requirement[field]

    errors = admit(version, changed("amis", "requirements", [requirement])).errors

    assert f"status.amis[0].requirements[0].{field}" in [error.field for error in errors]
