"""The manifests of the documents that this project grew from, and what their index says of them.

They live beside the repository; where they are not there, what needs them is skipped by name.
"""

import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from karpenter.api.node_classes import ec2_labels
from karpenter.cloud.aws.simulated.account import ACCOUNT, SimulatedAccount
from karpenter.manifests.reader import read

SEEDS: Final = Path(__file__).parents[3] / "shared" / "fixtures" / "seeds"
ABSENT: Final = f"the seed manifests, optional and kept beside the repository, are absent: {SEEDS}"
needs_seeds: Final = pytest.mark.skipif(not SEEDS.exists(), reason=ABSENT)

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_AWS_ALONE: Final = ("neither provider nor providerRef", "(kwok: accept)")


def entries() -> list[dict[str, Any]]:
    """What the index says of each file, with what it says of all of them filled in."""
    if not SEEDS.exists():
        return []
    index = yaml.safe_load((SEEDS / "index.yaml").read_text("utf-8"))
    return [{"why": "", **index["defaults"], **entry} for entry in index["files"]]


def each_entry() -> Iterable[Any]:
    """The same as parameters of a test, which is skipped without them."""
    absent = pytest.param({}, id="no fixtures", marks=pytest.mark.skip(reason=ABSENT))
    return [pytest.param(entry, id=entry["file"]) for entry in entries()] or [absent]


def load(name: str) -> list[dict[str, Any]]:
    """The objects of a file, unaltered."""
    return [document.data for document in read((SEEDS / name).read_bytes(), name)]


def is_refused(entry: dict[str, Any], provider: str) -> bool:
    """Whether the API refuses a file that can be read.

    Where the index names two generations of a schema, the last one is served. What only the rules
    of AWS forbid is fine elsewhere.
    """
    claimed = str(entry["claimed"])
    if provider != "aws" and any(words in entry["why"] for words in _AWS_ALONE):
        return False
    return claimed != "accept"


def as_applied(obj: dict[str, Any]) -> dict[str, Any]:
    """An object as ``kubectl apply`` sends it the first time: with a record of what was applied."""
    metadata = obj["metadata"]
    said = {**metadata.get("annotations", {}), _LAST_APPLIED: json.dumps(obj)}
    return {**obj, "metadata": {**metadata, "annotations": said}}


def register_image(account: SimulatedAccount) -> None:
    """An image of one's own, tagged as the node class of the seeds selects it."""
    ec2 = account.client("ec2")
    image = ec2.register_image(Name="mine", RootDeviceName="/dev/xvda")["ImageId"]
    tags = [{"Key": ec2_labels.DISCOVERY_TAG, "Value": account.discovery}]
    ec2.create_tags(Resources=[image], Tags=tags)
    backends = importlib.import_module("moto.backends").get_backend("ec2")
    # moto does not take it from the request
    backends[ACCOUNT][account.region].amis[image].architecture = "x86_64"
