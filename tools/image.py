"""Builds the container image, without a daemon where buildah is installed.

    python tools/image.py prepare          # build/image: wheels, pip's own wheel, requirements, SBOM
    python tools/image.py base FILE.tar    # a base from Debian's packages, where no registry can be reached
    python tools/image.py build [--base IMAGE] [--tag NAME]

Both take ``--platform linux/arm64``, for which a machine of that kind, or an emulator, is needed.

``prepare`` fetches what `requirements/image.txt` pins, builds the wheel of the program with fixed times, and
describes both in an SBOM (CycloneDX 1.6). ``build`` needs no network but for a base that is not there yet.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from releasing.wheels import EPOCH, PLATFORMS, Wheel, download, sbom

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "build" / "image"
PINNED: Final = ROOT / "requirements" / "image.txt"
INSTALLER: Final = ROOT / "requirements" / "installer.txt"
TAG: Final = "localhost/karpenter"
_ENGINES: Final = ("buildah", "podman", "docker")


def prepare(python_version: str = "", platform: str = "") -> None:
    """Fill ``build/image`` anew, for the Python and the platform of this machine unless others are named."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    wheels = FOLDER / "wheels"
    wheels.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip"]
    tags = next((each.tags for each in PLATFORMS if each.name == platform), ())
    download(wheels, PINNED, python_version, tags)
    download(FOLDER, INSTALLER)
    _run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(ROOT))
    found = [Wheel(file) for file in sorted(wheels.glob("*.whl"))]
    program = next(each for each in found if each.metadata["Name"] == "karpenter")
    pinned = f"karpenter=={program.metadata['Version']} --hash=sha256:{program.sha256}\n"
    (FOLDER / "requirements.txt").write_text(PINNED.read_text("utf-8") + pinned, "utf-8")
    document = json.dumps(sbom(found), indent=1, ensure_ascii=False)
    (FOLDER / "sbom.cdx.json").write_text(document + "\n", "utf-8")


def make_base(file: Path) -> None:
    """Write a base image's file system: the smallest Debian that runs Python."""
    without = [
        f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in ("doc", "man", "locale", "info")
    ]
    _run("mmdebstrap", "--quiet", "--variant=minbase", "--include=python3,ca-certificates,tzdata",
         *without, "--customize-hook=rm -rf \"$1\"/var/log/* \"$1\"/var/cache/*", "bookworm",
         str(file))  # fmt: skip


def build(base: str, tag: str, platform: str = "") -> None:
    """Build the image with the first engine there is."""
    engine = next((each for each in _ENGINES if shutil.which(each)), None)
    if engine is None:
        sys.exit(f"none of {', '.join(_ENGINES)} is installed: install one to build the image")
    if not (FOLDER / "requirements.txt").exists():
        sys.exit("build/image is not prepared: run 'python tools/image.py prepare' first")
    arguments = {"VERSION": _version(), "REVISION": _revision(), **({"BASE": base} if base else {})}
    options = [word for each in arguments.items() for word in ("--build-arg", "=".join(each))]
    if platform:
        options += ["--platform", platform]
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
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
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
    linux = [each.name for each in PLATFORMS if each.system == "linux"]
    preparing.add_argument(
        "--platform", choices=linux, default="", help="that of this machine if not given"
    )
    basing = commands.add_parser("base", help="make a base from Debian's packages")
    basing.add_argument("file", type=Path)
    building = commands.add_parser("build", help="build the image")
    building.add_argument("--base", default="", help="in place of that of the Containerfile")
    building.add_argument("--tag", default=TAG)
    building.add_argument("--platform", choices=linux, default="", help="as it was prepared")
    return parser.parse_args()


def main() -> None:
    """Run a command."""
    given = _arguments()
    match given.command:
        case "prepare":
            prepare(given.python_version, given.platform)
        case "base":
            make_base(given.file)
        case _:
            build(given.base, given.tag, given.platform)


if __name__ == "__main__":
    main()
