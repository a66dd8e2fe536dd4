"""Real-shaped objects of every kind, read from ``wire_samples.yaml``."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from karpenter.api.problems import DecodeError

Sample = dict[str, Any]


@cache
def samples() -> tuple[Sample, ...]:
    text = Path(__file__).with_name("wire_samples.yaml").read_text("utf-8")
    return tuple(yaml.safe_load_all(text))


def sample(kind: str, name: str | None = None, *, version: str | None = None) -> Sample:
    """The first sample of ``kind``, if need be with that name or in that version."""
    for found in samples():
        if (
            found["kind"] == kind
            and name in (None, found["metadata"]["name"])
            and version in (None, found["apiVersion"])
        ):
            return found
    raise LookupError(f"wire_samples.yaml has no {kind} {name or ''} {version or ''}")


def sample_id(found: Sample) -> str:
    return f"{found['kind']}-{found['apiVersion']}-{found['metadata']['name']}"


def pod_text(**members: Any) -> bytes:
    """A Pod as the API server writes it, with these members."""
    return json.dumps({"apiVersion": "v1", "kind": "Pod", **members}).encode()


def error_of(call: Callable[..., object], *arguments: object) -> DecodeError:
    """What a call that must not succeed finds wrong."""
    with pytest.raises(DecodeError) as caught:
        call(*arguments)
    return caught.value
