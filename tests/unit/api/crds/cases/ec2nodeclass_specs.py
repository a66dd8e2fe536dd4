"""Pieces of EC2NodeClass specs that the case tables are written with."""

from collections.abc import Mapping
from typing import Any

import pytest

ABSENT = object()  # as a value: leave the field out
PROFILE = {"role": ABSENT, "instanceProfile": "profile"}
SUBNET_ID = {"id": "subnet-0a1b"}
TAGS = {"tags": {"team": "web"}}
ALIAS = {"alias": "al2023@latest"}
VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3")


def without_absent(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not ABSENT}


def tagged(count: int) -> list[dict[str, Any]]:
    """A list of one selector term with so many tags."""
    return [{"tags": {f"tag{number}": "*" for number in range(count)}}]


def ebs(**fields: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": fields}]}


def ami(*terms: dict[str, Any], family: Any = "AL2023") -> dict[str, Any]:
    return {"amiSelectorTerms": list(terms), "amiFamily": family}


def old_ami(*terms: dict[str, Any]) -> dict[str, Any]:
    """AMI terms of v1beta1, where the family is always there."""
    return {"amiSelectorTerms": list(terms)}


def alias(text: str, family: Any = ABSENT) -> dict[str, Any]:
    return ami({"alias": text}, family=family)


def interfaces(*triples: tuple[int, int, str]) -> dict[str, Any]:
    return {
        "networkInterfaces": [
            {"networkCardIndex": card, "deviceIndex": device, "interfaceType": interface_type}
            for card, device, interface_type in triples
        ]
    }


EVERY_EBS_FIELD: dict[str, Any] = {
    "deleteOnTermination": True,
    "encrypted": True,
    "iops": 3000,
    "kmsKeyID": "key",
    "snapshotID": "snap-1",
    "throughput": 125,
    "volumeSize": "100Gi",
    "volumeType": "gp3",
}
REFUSED_METADATA_OPTIONS = [
    pytest.param(
        {"metadataOptions": {option: value}},
        f"spec.metadataOptions.{option}",
        id=f"{option}-{value}",
    )
    for option, value in (
        ("httpEndpoint", "on"),
        ("httpProtocolIPv6", "on"),
        ("httpPutResponseHopLimit", 0),
        ("httpPutResponseHopLimit", 65),
        ("httpTokens", "none"),
    )
]
