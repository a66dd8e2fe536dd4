"""Builds the container image, without a daemon where buildah is installed.

    python tools/image.py prepare          # build/image: wheels, pip's own wheel, requirements, SBOM
    python tools/image.py base FILE.tar    # a base from Debian's packages, where no registry can be reached
    python tools/image.py build [--base IMAGE] [--tag NAME]

``prepare`` fetches what `requirements/image.txt` pins, builds the wheel of the program with fixed times, and
describes both in an SBOM (CycloneDX 1.6). ``build`` needs no network but for a base that is not there yet.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "build" / "image"
PINNED: Final = ROOT / "requirements" / "image.txt"
TAG: Final = "localhost/karpenter"
# Where times are recorded they are this, so that two builds are equal; zip files begin in 1980
EPOCH: Final = "315532800"
_ENGINES: Final = ("buildah", "podman", "docker")
_LICENCE: Final = "License :: OSI Approved :: "


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel, as its own metadata describes it."""

    file: Path

    @property
    def metadata(self) -> Message:
        """The fields of its METADATA."""
        with zipfile.ZipFile(self.file) as archive:
            (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
            return Parser().parsestr(archive.read(name).decode())

    @property
    def sha256(self) -> str:
        """The hash that installing it demands."""
        return hashlib.sha256(self.file.read_bytes()).hexdigest()

    @property
    def licences(self) -> list[str]:
        """What it says about its licence, most precise first."""
        found = self.metadata
        if expression := found.get("License-Expression"):
            return [expression]
        classified = [c.removeprefix(_LICENCE) for c in found.get_all("Classifier", [])]
        named = [c for c in classified if "::" not in c and "Licen" in c]
        stated = (found.get("License") or "").strip().splitlines()
        return named or stated[:1]


def sbom(wheels: Sequence[Wheel]) -> dict[str, Any]:
    """The bill of materials of the wheels, as CycloneDX 1.6."""
    components = [_component(wheel) for wheel in wheels]
    program = next(each for each in components if each["name"] == "karpenter")
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**program, "type": "application"}},
        "components": sorted(
            (each for each in components if each is not program), key=lambda each: each["name"]
        ),
    }


def _component(wheel: Wheel) -> dict[str, Any]:
    name, version = wheel.metadata["Name"], wheel.metadata["Version"]
    package = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    return {
        "type": "library",
        "bom-ref": package,
        "name": name,
        "version": version,
        "purl": package,
        "hashes": [{"alg": "SHA-256", "content": wheel.sha256}],
        "licenses": [{"license": {"name": each}} for each in wheel.licences],
    }


def prepare(python_version: str = "") -> None:
    """Fill ``build/image`` anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    wheels = FOLDER / "wheels"
    wheels.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip"]
    target = ["--python-version", python_version] if python_version else []
    _run(*pip, "download", "-q", "--require-hashes", "--no-deps", "--only-binary", ":all:", *target,
         "-d", str(wheels), "-r", str(PINNED))  # fmt: skip
    _run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(ROOT))
    _run(*pip, "download", "-q", "--no-deps", "-d", str(FOLDER), f"pip=={_version_of_pip(pip)}")
    found = [Wheel(file) for file in sorted(wheels.glob("*.whl"))]
    program = next(each for each in found if each.metadata["Name"] == "karpenter")
    pinned = f"karpenter=={program.metadata['Version']} --hash=sha256:{program.sha256}\n"
    (FOLDER / "requirements.txt").write_text(PINNED.read_text("utf-8") + pinned, "utf-8")
    document = json.dumps(sbom(found), indent=1, ensure_ascii=False)
    (FOLDER / "sbom.cdx.json").write_text(document + "\n", "utf-8")


def _version_of_pip(pip: Sequence[str]) -> str:
    said = subprocess.run(  # noqa: S603 its own interpreter
        [*pip, "--version"], check=True, capture_output=True, text=True
    ).stdout
    return said.split()[1]


def make_base(file: Path) -> None:
    """Write a base image's file system: the smallest Debian that runs Python."""
    without = [
        f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in ("doc", "man", "locale", "info")
    ]
    _run("mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,ca-certificates,tzdata",
         *without, "--customize-hook=rm -rf \"$1\"/var/log/* \"$1\"/var/cache/*", "bookworm",
         str(file))  # fmt: skip


def build(base: str, tag: str) -> None:
    """Build the image with the first engine there is."""
    engine = next((each for each in _ENGINES if shutil.which(each)), None)
    if engine is None:
        sys.exit(f"none of {', '.join(_ENGINES)} is installed: install one to build the image")
    if not (FOLDER / "requirements.txt").exists():
        sys.exit("build/image is not prepared: run 'python tools/image.py prepare' first")
    arguments = {"VERSION": _version(), "REVISION": _revision(), **({"BASE": base} if base else {})}
    options = [word for each in arguments.items() for word in ("--build-arg", "=".join(each))]
    if engine == "buildah":
        options += ["--isolation", "chroot", "--timestamp", "0", "--layers=false"]
    _run(engine, "build", "-q", *options, "-t", tag, "-f", "Containerfile", ".")


def _version() -> str:
    (line,) = [
        each
        for each in (FOLDER / "requirements.txt").read_text("utf-8").splitlines()
        if each.startswith("karpenter==")
    ]
    return line.split()[0].removeprefix("karpenter==")


def _revision() -> str:
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607 whichever git there is
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return head.stdout.strip() or "unknown"


def _run(*words: str) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    done = subprocess.run(  # noqa: S603 words of this file
        words, cwd=ROOT, env=environment, check=False
    )
    if done.returncode:
        sys.exit(f"{words[0]} failed with {done.returncode}: {' '.join(words)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the container image.")
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="fetch and build what goes in")
    preparing.add_argument("--python-version", default="", help="that of the base, if another")
    basing = commands.add_parser("base", help="make a base from Debian's packages")
    basing.add_argument("file", type=Path)
    building = commands.add_parser("build", help="build the image")
    building.add_argument("--base", default="", help="in place of that of the Containerfile")
    building.add_argument("--tag", default=TAG)
    return parser.parse_args()


def main() -> None:
    """Run a command."""
    given = _arguments()
    match given.command:
        case "prepare":
            prepare(given.python_version)
        case "base":
            make_base(given.file)
        case _:
            build(given.base, given.tag)


if __name__ == "__main__":
    main()
