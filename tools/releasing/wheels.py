"""Wheels: those of the program, those it is installed with, and the bill of materials of both.

    python -m releasing.wheels [linux/amd64 …]     # PYTHONPATH=tools; build/wheels, this platform by default

Every wheel that is fetched is one that ``requirements/*.txt`` pin by hash, for each Python that the program
supports. Tests and archives install from that folder, without a network.
"""

import argparse
import base64
import hashlib
import json
import os
import platform as machine
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from itertools import groupby
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "build" / "wheels"
REQUIREMENTS: Final = ROOT / "requirements"
PYTHONS: Final = ("3.11", "3.12", "3.13")
PURPOSES: Final = (
    "run",
    "build",
    "installer",
)  # each names a requirements file and a folder of wheels
# SOURCE_DATE_EPOCH of reproducible builds; zip files cannot hold times before 1980
EPOCH: Final = 315532800
_LICENCE: Final = "License :: OSI Approved :: "
_FETCHED: Final = ".fetched"
_VENDOR_LOCK: Final = "karpenter/dashboard/web/vendor/LOCK.json"


@dataclass(frozen=True, slots=True)
class Platform:
    """An operating system with a processor, in the words of Go, and the tags of wheels it takes."""

    system: str
    processor: str
    tags: tuple[str, ...]

    @property
    def name(self) -> str:
        """Both, such as ``linux/amd64``."""
        return f"{self.system}/{self.processor}"

    @property
    def folder(self) -> Path:
        """Where its wheels are kept."""
        return FOLDER / self.name.replace("/", "-")

    def wheels(self, purpose: str) -> list[Path]:
        """Its wheels for running, building or installing."""
        return sorted((self.folder / purpose).glob("*.whl"))

    @property
    def is_fetched(self) -> bool:
        """Whether the wheels are those that are pinned now."""
        stamp = self.folder / _FETCHED
        return stamp.is_file() and stamp.read_text("utf-8") == _pins_digest()


def _manylinux(processor: str) -> tuple[str, ...]:
    versions = ("_2_28", "_2_17", "2014")
    return tuple(f"manylinux{version}_{processor}" for version in versions)


# macOS on Intel is missing: cryptography has no wheels for it any more
PLATFORMS: Final = (
    Platform("linux", "amd64", _manylinux("x86_64")),
    Platform("linux", "arm64", _manylinux("aarch64")),
    Platform("darwin", "arm64", ("macosx_13_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64")),
)


def native() -> Platform | None:
    """The platform of this machine, if there are wheels for it."""
    processor = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine.machine(), machine.machine())
    system = machine.system().lower()
    return next((p for p in PLATFORMS if (p.system, p.processor) == (system, processor)), None)


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


def licences(metadata: Message) -> list[str]:
    """What a distribution says about its licence, most precise first."""
    if expression := metadata.get("License-Expression"):
        return [expression]
    classified = [c.removeprefix(_LICENCE) for c in metadata.get_all("Classifier", [])]
    named = [c for c in classified if "::" not in c and "Licen" in c]
    stated = (metadata.get("License") or "").strip().splitlines()
    return named or stated[:1]


def sbom(wheels: Iterable[Wheel]) -> dict[str, Any]:
    """The bill of materials of the wheels, as CycloneDX 1.6: each distribution with all its wheels."""
    described = sorted(((_identity(wheel), wheel) for wheel in wheels), key=_by_identity)
    components = [
        _component(name, version, [wheel for _, wheel in group])
        for (name, version), group in groupby(described, key=lambda each: each[0])
    ]
    components += [
        each
        for (name, _), wheel in described
        if name == "karpenter"
        for each in vendored(wheel.file)
    ]
    program = next(each for each in components if each["name"] == "karpenter")
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**program, "type": "application"}},
        "components": [each for each in components if each is not program],
    }


def _identity(wheel: Wheel) -> tuple[str, str]:
    metadata = wheel.metadata
    return metadata["Name"], metadata["Version"]


def _by_identity(described: tuple[tuple[str, str], Wheel]) -> tuple[tuple[str, str], str]:
    identity, wheel = described
    return identity, wheel.file.name


def _component(name: str, version: str, wheels: Sequence[Wheel]) -> dict[str, Any]:
    package = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    hashes = sorted({wheel.sha256 for wheel in wheels})
    return {
        "type": "library",
        "bom-ref": package,
        "name": name,
        "version": version,
        "purl": package,
        "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
        "licenses": [{"license": {"name": each}} for each in licences(wheels[0].metadata)],
    }


def vendored(program: Path) -> list[dict[str, Any]]:
    """The packages of npm whose files lie in the program's wheel, as components of a bill."""
    with zipfile.ZipFile(program) as archive:
        if _VENDOR_LOCK not in archive.namelist():
            return []
        return [_npm_component(each) for each in json.loads(archive.read(_VENDOR_LOCK))["packages"]]


def _npm_component(package: Mapping[str, str]) -> dict[str, Any]:
    """One of them, with the hash of the archive that npm has."""
    url = f"pkg:npm/{package['name'].replace('@', '%40')}@{package['version']}"
    digest = base64.b64decode(package["integrity"].removeprefix("sha512-")).hex()
    return {
        "type": "library",
        "bom-ref": url,
        "name": package["name"],
        "version": package["version"],
        "purl": url,
        "hashes": [{"alg": "SHA-512", "content": digest}],
        "licenses": [{"license": {"name": package["licence"]}}],
    }


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the source archive of the program, the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    _run([sys.executable, *command], cwd=source)
    (wheel,) = folder.glob("karpenter-*.whl")
    (archive,) = folder.glob("karpenter-*.tar.gz")
    return wheel, archive


def export(commit: str, folder: Path) -> None:
    """Put the files of a commit into a folder: what is built is what is in git, and nothing else.

    Raises:
        SystemExit: git knows no such commit.
    """
    with tempfile.TemporaryFile() as written:
        done = subprocess.run(  # noqa: S603 words of this file
            ["git", "archive", commit],  # noqa: S607 whichever git there is
            cwd=ROOT,
            stdout=written,
            stderr=subprocess.PIPE,
            text=False,
            check=False,
        )
        if done.returncode:
            sys.exit(f"git cannot export {commit}: {done.stderr.decode().strip()}")
        written.seek(0)
        with tarfile.open(fileobj=written) as archive:
            archive.extractall(folder, filter="data")


def fetch(platform: Platform) -> None:
    """Fetch what is pinned for running, for building and for installing, unless it is there already."""
    if platform.is_fetched:
        return
    shutil.rmtree(platform.folder, ignore_errors=True)
    for python in PYTHONS:
        for name in PURPOSES:
            pinned = REQUIREMENTS / f"{name}.txt"
            download(platform.folder / name, pinned, python, platform.tags)
    (platform.folder / _FETCHED).write_text(_pins_digest(), "utf-8")


def download(folder: Path, pinned: Path, python: str = "", tags: Sequence[str] = ()) -> None:
    """Fetch the wheels that a file pins, for this Python and platform unless others are named."""
    options = [*(["--python-version", python] if python else [])]
    options += [word for tag in tags for word in ("--platform", tag)]
    _run(
        [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check",
         "--require-hashes", "--no-deps", "--only-binary", ":all:", *options,
         "-d", str(folder), "-r", str(pinned)],
        cwd=ROOT,
    )  # fmt: skip


def _pins_digest() -> str:
    files = (REQUIREMENTS / f"{name}.txt" for name in PURPOSES)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _run(words: Sequence[str], *, cwd: Path) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    done = subprocess.run(  # noqa: S603 words of this file
        words, cwd=cwd, env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{done.stderr.strip()}\n{words[0]} failed with {done.returncode}")


def main() -> None:
    """Fetch wheels for platforms."""
    names = {platform.name: platform for platform in PLATFORMS}
    parser = argparse.ArgumentParser(description="Fetch the pinned wheels for platforms.")
    parser.add_argument("platforms", nargs="*", choices=[*names, []], metavar="|".join(names))
    given = [names[name] for name in parser.parse_args().platforms]
    here = native()
    for platform in given or ([here] if here else []):
        fetch(platform)
        print(platform.folder.relative_to(ROOT))


if __name__ == "__main__":
    main()
