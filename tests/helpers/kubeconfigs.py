"""Kubeconfig files for tests, and plugins they may name."""

import stat
import sys
from pathlib import Path
from typing import Any

import yaml

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


def kubeconfig(
    path: Path,
    *,
    name: str = "main",
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    **top: Any,
) -> Path:
    """Write a file with one context of everything."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.example", **(cluster or {})}}
        ],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
        **top,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def plugin(path: Path, body: str) -> Path:
    """Write a Python program that can be run by its path."""
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def saying(status: str, version: str = V1) -> str:
    """The body of a plugin that answers with a status, given as a Python expression."""
    answer = f'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {status}}}'
    return f"print(json.dumps({answer}))"
