"""The example of a provider, installed as the package of a third party would be."""

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "providers" / "static_machines.py"
PAGE = "\n".join(
    (ROOT / "docs" / name).read_text("utf-8") for name in ("provider-example.md", "providers.md")
)
GROUP = "static-machines.example.com"
KIND = "MachineClass"
REFERENCE = {"group": GROUP, "kind": KIND, "name": "default"}
MACHINES = """
- {name: rack1-01, zone: rack1, cpu: "8", memory: 32Gi, price: 0.11}
- {name: rack1-02, zone: rack1, cpu: "8", memory: 32Gi, price: 0.12}
- {name: rack2-01, zone: rack2, cpu: "2", memory: 4Gi, price: 0.02}
"""


@contextmanager
def installed(site: Path) -> Iterator[None]:
    """Install the example in a folder, with the entry point that the page names."""
    shutil.copy(EXAMPLE, site)
    metadata = site / "static_machines-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: static-machines\nVersion: 1.0\n"
    )
    registration = re.search(
        r'```toml\n\[project\.entry-points\."(?P<group>.+)"\]\n(?P<line>.+)\n', PAGE
    )
    assert registration is not None
    name, _, target = registration["line"].replace('"', "").partition(" = ")
    (metadata / "entry_points.txt").write_text(f"[{registration['group']}]\n{name} = {target}\n")
    sys.path.insert(0, str(site))
    try:
        yield
    finally:
        sys.path.remove(str(site))
        sys.modules.pop("static_machines", None)


def machine_class_objects() -> list[dict[str, Any]]:
    """The CRD of its node class, and a node class, as the page shows them."""
    blocks = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    return [each for each in blocks if isinstance(each, dict)]


def ready(status: str, reason: str = "SaidSo", message: str = "") -> dict[str, Any]:
    """A patch of the status of a node class."""
    condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
    return {"status": {"conditions": [condition]}}
