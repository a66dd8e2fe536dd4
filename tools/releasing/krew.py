"""The kubectl plugin for krew: an archive for each platform, and the manifest that leads to them.

An archive has a launcher for POSIX shells, the wheels of the program and of all it needs for every Python that
it supports, pip to install them with, and the licence. The first run makes an environment from these.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from releasing.archives import Entry, write
from releasing.wheels import REQUIREMENTS, ROOT, Platform, Wheel

_PLUGIN: Final = Path(__file__).resolve().parent / "plugin"
_PROGRAM: Final = "kubectl-karpenter"
SUMMARY: Final = "Ask what a node autoscaler would do, and why"
_DESCRIPTION: Final = """\
Plans nodes for pods with Karpenter's API, and explains each decision: which
nodes would be created, removed or replaced, what they cost, and for every
other pod and node why it is left as it is. It only reads the cluster.
"""
_CAVEATS: Final = """\
Needs Python 3.11, 3.12 or 3.13. The first run makes a private environment
beside the plugin, without a network, which takes some seconds.
"""


def archive_name(version: str, platform: Platform) -> str:
    """How the archive of a platform is called."""
    return f"{_PROGRAM}-{version}-{platform.system}-{platform.processor}.tar.gz"


def write_archive(folder: Path, version: str, platform: Platform, program: Path) -> Path:
    """Write the archive of a platform whose wheels are fetched."""
    pinned = (REQUIREMENTS / "run.txt").read_text("utf-8") + pin(version, program)
    entries = {
        _PROGRAM: Entry((_PLUGIN / _PROGRAM).read_bytes(), is_program=True),
        "install.py": Entry((_PLUGIN / "install.py").read_bytes()),
        "requirements.txt": Entry(pinned.encode()),
        "LICENSE": Entry((ROOT / "LICENSE").read_bytes()),
        f"wheels/{program.name}": Entry(program.read_bytes()),
    }
    entries |= {f"wheels/{each.name}": Entry(each.read_bytes()) for each in platform.wheels("run")}
    entries |= {each.name: Entry(each.read_bytes()) for each in platform.wheels("installer")}
    file = folder / archive_name(version, platform)
    write(file, entries)
    return file


def pin(version: str, program: Path) -> str:
    """The line that installs the program's own wheel and no other."""
    return f"karpenter=={version} --hash=sha256:{Wheel(program).sha256}\n"


def manifest(version: str, archives: Mapping[Platform, Path], url: str) -> str:
    """The manifest, for archives that are fetched from below an address."""
    document: dict[str, Any] = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "karpenter"},
        "spec": {
            "version": f"v{version}",
            "homepage": url,
            "shortDescription": SUMMARY,
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": each.system, "arch": each.processor}},
                    "uri": f"{url.rstrip('/')}/{archive.name}",
                    "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
                    "bin": _PROGRAM,
                }
                for each, archive in archives.items()
            ],
        },
    }
    return yaml.safe_dump(document, sort_keys=False, width=120)
