"""Makes the files of a release, or checks those of one; publishes nothing.

    python tools/release.py [--url URL] [--key FILE] [--image LAYOUT] [--snapshot]   # into dist/VERSION
    python tools/release.py --check FOLDER [--key PUBLIC]

Everything is made from the commit that is checked out, whatever else is in the folder, and again the same byte
for byte: wheel, source archive, charts, archives and manifest of the kubectl plugin, pinned requirements,
bill of materials, licences, notes, provenance, checksums, and with a key their signature. It needs a network
only to fetch wheels that are not there yet. RELEASING.md has the steps around it.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from releasing import archives, krew, licences, provenance, wheels
from releasing.provenance import ReleaseError

ROOT: Final = wheels.ROOT
DIST: Final = ROOT / "dist"
CHARTS: Final = ("karpenter", "karpenter-crd")
BILL: Final = "sbom.cdx.json"
_NPM: Final = "pkg:npm/"
_BY_HAND: Final = "urn:karpenter:builder:by-hand"
_VERSION: Final = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
_UNRELEASED: Final = "Unreleased"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a release is to be made of."""

    platforms: Sequence[wheels.Platform] = wheels.PLATFORMS
    url: str = ""  # from where the archives will be fetched; without it the plugin has no manifest
    key: Path | None = None
    image: Path | None = None  # an OCI layout
    builder: str = _BY_HAND
    is_snapshot: bool = False


def make(folder: Path, wanted: Wanted) -> str:
    """Fill a folder anew, and return the version.

    Raises:
        ReleaseError: something is missing.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    commit = git("rev-parse", "HEAD")
    if not wanted.is_snapshot and git("status", "--porcelain", "--untracked-files=no"):
        raise ReleaseError("files are changed and not committed; a release is made from a commit")
    with sources(commit) as source:
        version = version_of(source)
        notes = notes_of(source, _UNRELEASED if wanted.is_snapshot else version)
        program, _ = wheels.build(source, folder)
        write_charts(source, folder, version)
    (folder / "notes.md").write_text(notes, "utf-8")
    for platform in wanted.platforms:
        wheels.fetch(platform)
    write_plugin(folder, version, program, wanted)
    write_contents(folder, version, program, wanted.platforms)
    if wanted.image is not None:
        write_json(folder / "image.json", image_facts(wanted.image, version, commit))
    parameters = {"version": version, "platforms": [each.name for each in wanted.platforms]}
    inputs = [wheels.REQUIREMENTS / f"{name}.txt" for name in (*wheels.PURPOSES, "image")]
    inputs += unique(
        each for p in wanted.platforms for kind in ("run", "installer") for each in p.wheels(kind)
    )
    stated = provenance.statement(
        folder, commit=commit, parameters=parameters, inputs=inputs, builder=wanted.builder
    )
    write_json(folder / provenance.STATEMENT, stated)
    provenance.write_sums(folder)
    if wanted.key is not None:
        provenance.sign(folder, wanted.key)
    return version


def check(folder: Path, key: Path | None) -> list[str]:
    """Check a release, and return what was found to be right.

    Raises:
        ReleaseError: something is not as it should be.
    """
    done = []
    provenance.check_sums(folder)
    done.append(f"every file is the one that {provenance.SUMS} lists")
    if key is not None:
        provenance.check_signature(folder, key)
        done.append(f"{provenance.SUMS} is signed with the key of {key}")
    commit = provenance.commit_of(provenance.check_statement(folder))
    done.append(f"{provenance.STATEMENT} speaks of these files, made from {commit}")
    check_bill(folder)
    done.append(
        f"{BILL} lists what requirements.txt installs and the wheel holds, and nothing more"
    )
    check_rebuilt(folder, commit)
    done.append("wheel, source archive and charts are what that commit gives, byte for byte")
    return done


def check_bill(folder: Path) -> None:
    """Check that the bill of materials has everything that is installed, with hash and licence.

    That is distributions of Python, and the libraries for browsers that lie in the program's wheel.
    """
    bill = json.loads((folder / BILL).read_text("utf-8"))
    pinned = (folder / "requirements.txt").read_text("utf-8")
    (program,) = folder.glob("karpenter-*.whl")
    for_browsers = wheels.vendored(program)
    if for_browsers != [each for each in bill["components"] if each["purl"].startswith(_NPM)]:
        raise ReleaseError(f"{BILL} and the libraries for browsers in {program.name} differ")
    listed = [bill["metadata"]["component"], *bill["components"]]
    listed = [each for each in listed if each not in for_browsers]
    for each in listed:
        hashes = [entry["content"] for entry in each["hashes"]]
        if not each["licenses"] or not hashes or any(each not in pinned for each in hashes):
            raise ReleaseError(
                f"{BILL}: {each['name']} has no licence, or a hash that is not pinned"
            )
    names = {each["name"].lower().replace("_", "-") for each in listed}
    missing = set(
        re.findall(r"^([a-z0-9._-]+)==\S+ (?!; sys_platform == 'win32')", pinned, re.MULTILINE)
    )
    if missing != names:
        raise ReleaseError(
            f"{BILL} and requirements.txt differ: {', '.join(sorted(missing ^ names))}"
        )


def check_rebuilt(folder: Path, commit: str) -> None:
    """Build what needs no network again, and compare."""
    with sources(commit) as source, tempfile.TemporaryDirectory() as temporary:
        again = Path(temporary)
        wheels.build(source, again)
        write_charts(source, again, version_of(source))
        for file in sorted(again.iterdir()):
            made = folder / file.name
            if not made.is_file() or made.read_bytes() != file.read_bytes():
                raise ReleaseError(f"{file.name} is not what {commit} gives with these tools")


@contextmanager
def sources(commit: str) -> Iterator[Path]:
    """The files of a commit, in a folder of their own."""
    with tempfile.TemporaryDirectory() as temporary:
        wheels.export(commit, Path(temporary))
        yield Path(temporary)


def git(*words: str) -> str:
    """What git says about this folder."""
    done = subprocess.run(  # noqa: S603 words of this file
        ["git", *words],  # noqa: S607 whichever git there is
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ReleaseError(f"{ROOT} is no git repository, and a release is made from a commit")
    return done.stdout.strip()


def version_of(source: Path) -> str:
    """The version that the program says it is."""
    found = _VERSION.search((source / "src" / "karpenter" / "__init__.py").read_text("utf-8"))
    assert found is not None, "the program has a version"
    return found[1]


def notes_of(source: Path, version: str) -> str:
    """The section of the changelog about a version."""
    changes = (source / "CHANGELOG.md").read_text("utf-8")
    sections = re.split(r"^## (?=\S)", changes, flags=re.MULTILINE)[1:]
    for section in sections:
        title, _, body = section.partition("\n")
        if title.strip("[]").split("]")[0].split(" ")[0] == version:
            return body.strip() + "\n"
    raise ReleaseError(
        f"CHANGELOG.md has no section {version}; rename {_UNRELEASED} to it, or give --snapshot to try"
    )


def write_charts(source: Path, folder: Path, version: str) -> None:
    """Package the charts, which have the version of the program."""
    for name in CHARTS:
        about = (source / "charts" / name / "Chart.yaml").read_text("utf-8")
        if f"\nversion: {version}\n" not in about or f"\nappVersion: {version}\n" not in about:
            raise ReleaseError(
                f"charts/{name}/Chart.yaml is not of version {version}; run make charts"
            )
        entries = archives.folder_entries(source / "charts" / name, name)
        archives.write(folder / f"{name}-{version}.tgz", entries)


def write_plugin(folder: Path, version: str, program: Path, wanted: Wanted) -> None:
    """Write the archives of the kubectl plugin, and their manifest if they will be found somewhere."""
    made = {
        platform: krew.write_archive(folder, version, platform, program)
        for platform in wanted.platforms
    }
    if wanted.url:
        (folder / "karpenter.yaml").write_text(krew.manifest(version, made, wanted.url), "utf-8")


def write_contents(
    folder: Path, version: str, program: Path, platforms: Sequence[wheels.Platform]
) -> None:
    """Write what is installed: pinned requirements, bill of materials and licences."""
    pinned = (wheels.REQUIREMENTS / "run.txt").read_text("utf-8") + krew.pin(version, program)
    (folder / "requirements.txt").write_text(pinned, "utf-8")
    installed = unique(each for platform in platforms for each in platform.wheels("run"))
    write_json(folder / BILL, wheels.sbom(wheels.Wheel(each) for each in [program, *installed]))
    refused = [each for each in licences.dependencies() if not each.is_allowed]
    if refused:
        named = ", ".join(f"{each.name} ({each.licence})" for each in refused)
        raise ReleaseError(f"licences that nobody has decided about: {named}")
    (folder / "dependencies.md").write_text(licences.text(), "utf-8")


def image_facts(layout: Path, version: str, commit: str) -> dict[str, Any]:
    """The digest of an image in an OCI layout, which must be of this version and commit."""
    blobs = layout / "blobs"
    try:
        (entry,) = json.loads((layout / "index.json").read_text("utf-8"))["manifests"]
        for blob in blobs.glob("*/*"):
            if provenance.sha256(blob) != blob.name:
                raise ReleaseError(f"{blob} is not what its name says")
        manifest = json.loads((blobs / entry["digest"].replace(":", "/")).read_text("utf-8"))
        config = json.loads(
            (blobs / manifest["config"]["digest"].replace(":", "/")).read_text("utf-8")
        )
        labels = config["config"]["Labels"]
    except (OSError, ValueError, KeyError) as error:
        raise ReleaseError(f"{layout} is no OCI layout with one image") from error
    said = tuple(labels.get(f"org.opencontainers.image.{name}") for name in ("version", "revision"))
    if said != (version, commit):
        raise ReleaseError(f"{layout} holds an image of {' '.join(map(str, said))}; build it anew")
    platform = f"{config['os']}/{config['architecture']}"
    return {"digest": entry["digest"], "platform": platform, "version": version, "revision": commit}


def unique(files: Iterator[Path]) -> list[Path]:
    """Files by their names, each once."""
    return list({file.name: file for file in files}.values())


def write_json(file: Path, document: object) -> None:
    """Write a document for programs that people can read too."""
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", "utf-8")


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description="Make or check the files of a release.")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="check a release, make none")
    parser.add_argument(
        "--key", type=Path, help="private key to sign with; public one to check with"
    )
    parser.add_argument("--url", default="", help="address that the files will be fetched from")
    parser.add_argument("--image", type=Path, metavar="LAYOUT", help="OCI layout of the image")
    parser.add_argument("--builder", default=_BY_HAND, help="URI of who makes the release")
    parser.add_argument("--snapshot", action="store_true", help="take notes from Unreleased")
    parser.add_argument(
        "--platform",
        action="append",
        choices=[each.name for each in wheels.PLATFORMS],
        help="of the plugin; all by default",
    )
    return parser.parse_args()


def main() -> None:
    """Make or check a release."""
    given = arguments()
    try:
        if given.check is not None:
            print("\n".join(check(given.check, given.key)))
            return
        platforms = [p for p in wheels.PLATFORMS if not given.platform or p.name in given.platform]
        wanted = Wanted(platforms, given.url, given.key, given.image, given.builder, given.snapshot)
        with tempfile.TemporaryDirectory(dir=_made(DIST)) as temporary:
            folder = Path(temporary) / "release"
            version = make(folder, wanted)
            shutil.rmtree(DIST / version, ignore_errors=True)
            folder.rename(DIST / version)
        print((DIST / version).relative_to(ROOT))
    except ReleaseError as error:
        sys.exit(f"error: {error}")


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
