"""The manifests people really wrote are read, or refused with the line to mend."""

import pytest
import yaml

from helpers.seeds import ABSENT, SEEDS
from karpenter.manifests.errors import ManifestError
from karpenter.manifests.reader import read

INDEX = SEEDS / "index.yaml"

if not INDEX.exists():
    pytest.skip(ABSENT, allow_module_level=True)

FILES = yaml.safe_load(INDEX.read_text("utf-8"))["files"]
GOOD = [entry["file"] for entry in FILES if entry.get("parse") != "error"]
BAD = [entry["file"] for entry in FILES if entry.get("parse") == "error"]
PLACES = {
    "bad-s001-provisioner-requirements.yaml": "34:23: several values stand where one is expected",
    "bad-s002-nodepool-full.yaml": "6:1: `...` ends the document",
    "bad-s002-requirement-notin-instancetype.yaml": "6:13: this pair is indented as if",
    "bad-s002-multi-gpu-default.yaml": "29:3: something was left out here",
    "bad-s002-deployment-graceful-shutdown.yaml": "7:1: `...` ends the document",
}


@pytest.mark.parametrize("name", GOOD)
def test_a_manifest_that_parses(name: str) -> None:
    documents = read((SEEDS / name).read_bytes(), name)

    plain = list(yaml.load_all((SEEDS / name).read_text("utf-8"), yaml.SafeLoader))
    assert plain == [document.data for document in documents]


@pytest.mark.parametrize("name", BAD)
def test_a_manifest_that_does_not_parse(name: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read((SEEDS / name).read_bytes(), name)

    assert str(refused.value).startswith(f"{name}:{PLACES[name]}")
