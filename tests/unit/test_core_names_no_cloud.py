"""The core knows no cloud: what belongs to a provider stands with the provider.

Otherwise a new provider would have to change the core. Every file that may name a cloud is listed with
the reason, and one that stopped doing so leaves the list. Not of the core are ``api``, ``admission`` and
``conversion``, which hold the CRDs of this project and old kinds of AWS, and the commands that convert.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "karpenter"
CORE = (
    "checker",
    "console",
    "controllers",
    "disruption",
    "inquiry",
    "kube",
    "model",
    "operator",
    "report",
    "scheduling",
    "state",
    "telemetry",
    "cloud/contract.py",
    "cloud/metered.py",
    "cloud/provider.py",
    "cloud/registry.py",
    "cloud/repair.py",
    "cloud/types.py",
    "runtime.py",
    "settings.py",
    "pass_settings.py",
)
CLOUD = re.compile(
    r"karpenter\.k8s\.aws|karpenter\.kwok\.sh"  # domains of their keys
    r"|EC2NodeClass|KWOKNodeClass"
    r"|[\"'](?:aws|kwok)[\"']"  # their names
    r"|karpenter\.cloud\.(?:aws|kwok)|\b(?:ec2|kwok)_labels\b"
    r"|karpenter\.api\.node_classes(?:\.| import )(?:ec2|kwok)"
)
EXCEPTIONS = {
    "controllers/legacy/bridge.py": "an AWSNodeTemplate becomes an EC2NodeClass, whose kubelet settings are kept",
    "controllers/legacy/translation.py": "alpha kinds speak of AWS; it says what they mean elsewhere",
    "inquiry/aws_catalogue.py": "the offline catalogue of AWS",
    "inquiry/files.py": "a Provisioner without a class is converted to one of AWS, and the user is told",
    "inquiry/offline.py": "the providers that commands know without anybody to ask",
    "operator/run.py": "the provider that is run when nobody chooses one",
}


def lines_naming_a_cloud(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if CLOUD.search(line))


def files() -> list[Path]:
    found = [SOURCE / name for name in CORE]
    return sorted(
        file for each in found for file in ([each] if each.is_file() else each.rglob("*.py"))
    )


def test_every_part_of_the_core_is_looked_at() -> None:
    assert [] == [name for name in CORE if not (SOURCE / name).exists()]
    assert len(files()) > len(CORE)


def test_no_file_of_the_core_names_a_cloud_without_a_reason() -> None:
    found = {
        name: lines
        for file in files()
        if (name := file.relative_to(SOURCE).as_posix()) not in EXCEPTIONS
        and (lines := list(lines_naming_a_cloud(file.read_text("utf-8"))))
    }

    assert {} == found


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_is_needed(name: str) -> None:
    assert list(lines_naming_a_cloud((SOURCE / name).read_text("utf-8")))


@pytest.mark.parametrize(
    ("line", "names_one"),
    [
        ('def well_known(provider: str = "aws") -> frozenset[str]:', True),
        ("NodeClass: TypeAlias = EC2NodeClass | KWOKNodeClass", True),
        ('ZONE_ID: Final = "karpenter.k8s.aws/zone-id"', True),
        ("from karpenter.cloud.kwok import catalogue", True),
        ("from karpenter.api.node_classes import ec2_labels", True),
        ("from karpenter.api.node_classes.kwok import KWOKNodeClassSpec", True),
        ("from karpenter.api.node_classes import NodeClass", False),
        ("# volumes of AWS are told by the in-tree name kubernetes.io/aws-ebs", False),
        ("from karpenter.cloud.provider import CloudProvider", False),
    ],
)
def test_what_counts_as_naming_a_cloud(line: str, names_one: bool) -> None:
    assert names_one == bool(list(lines_naming_a_cloud(line)))
