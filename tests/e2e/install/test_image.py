"""The container image, built without a daemon: what is in it, as whom it runs, and that it is always the same.

``make image-test`` runs these: they take minutes and need Debian's buildah, skopeo, umoci and mmdebstrap. The
base is made from Debian's packages once and kept in the user's cache.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import image

TOOLS: Final = ("buildah", "skopeo", "umoci", "mmdebstrap", "unshare", "chroot")
MISSING: Final = [tool for tool in TOOLS if shutil.which(tool) is None]
CACHE: Final = Path.home() / ".cache" / "karpenter-image"
UID: Final = 65532
MOST_BYTES: Final = 150_000_000  # compressed
VENV: Final = "opt/karpenter"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.image,
    pytest.mark.skipif(
        bool(MISSING) or os.geteuid() != 0,
        reason=f"the image is NOT tried: it needs root and {', '.join(MISSING) or 'nothing else'}",
    ),
]


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=image.ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Built:
    """An image, and where it was unpacked."""

    ids: tuple[str, str]  # of two builds
    layout: Path
    root: Path
    config: dict[str, Any]

    def inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run something as the image's user, on a root that cannot be written to."""
        command = (
            'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"'
            f' && exec chroot --userspec={UID}:{UID} "$0" "$@"'
        )
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", command, str(self.root), *words],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/opt/karpenter/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        )

    def files(self) -> Iterator[Path]:
        """Everything in the image but what a container runtime mounts over."""
        for path in self.root.rglob("*"):
            if path.relative_to(self.root).parts[0] not in ("dev", "proc", "sys"):
                yield path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("image")
    storage = folder / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
        patch.setenv("STORAGE_DRIVER", "vfs")
        patch.setenv("BUILDAH_ISOLATION", "chroot")
        _base(folder)
        image.prepare()
        ids = []
        for tag in ("localhost/karpenter:first", "localhost/karpenter:second"):
            image.build("localhost/base", tag)
            ids.append(run("buildah", "inspect", "--format", "{{.FromImageID}}", tag))
        layout = folder / "oci"
        run(
            "skopeo",
            "copy",
            "-q",
            "containers-storage:localhost/karpenter:first",
            f"oci:{layout}:it",
        )
        run("umoci", "unpack", "--image", f"{layout}:it", str(folder / "bundle"))
        config = json.loads(run("skopeo", "inspect", "--config", f"oci:{layout}:it"))
        yield Built((ids[0], ids[1]), layout, folder / "bundle" / "rootfs", config)
        run("buildah", "rmi", "--all", "--force")


def _base(folder: Path) -> None:
    """Import the base, which is made only once."""
    kept = CACHE / "base.tar"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        image.make_base(CACHE / "unfinished.tar")
        (CACHE / "unfinished.tar").rename(kept)
    shutil.copy(kept, folder / "copied.tar")
    (folder / "Containerfile").write_text("FROM scratch\nADD copied.tar /\n")
    run("buildah", "build", "-q", "--timestamp", "0", "-t", "localhost/base", str(folder))
    (folder / "copied.tar").unlink()


@pytest.mark.case("OPS-20")
def test_two_builds_are_one_image(built: Built) -> None:
    first, second = built.ids

    assert first
    assert first == second


@pytest.mark.case("OPS-20")
def test_it_runs_as_nobody_on_a_root_that_cannot_be_written(built: Built) -> None:
    from karpenter import __version__

    version = built.inside("karpenter", "--version")
    helped = built.inside("karpenter", "controller", "--help")
    crds = built.inside("karpenter", "crds", "NodePool")
    written = built.inside("python3", "-c", "open('/tmp/file', 'w')")

    assert (0, f"karpenter {__version__}\n", "") == (
        version.returncode,
        version.stdout,
        version.stderr,
    )
    assert (0, "") == (helped.returncode, helped.stderr)
    assert "Usage: karpenter controller" in helped.stdout
    assert (0, "") == (crds.returncode, crds.stderr)
    assert "Read-only file system" in written.stderr


def test_it_says_what_it_is(built: Built) -> None:
    from karpenter import __version__

    config = built.config["config"]
    labels = config["Labels"]

    assert (["karpenter"], ["controller"]) == (config["Entrypoint"], config["Cmd"])
    assert f"{UID}:{UID}" == config["User"]
    assert ("karpenter", __version__, "Apache-2.0") == tuple(
        labels[f"org.opencontainers.image.{name}"] for name in ("title", "version", "licenses")
    )


def test_the_aws_provider_is_included_and_its_simulation_is_not(built: Built) -> None:
    asked = "import boto3, importlib.util as u; print(u.find_spec('moto'))"

    assert "None\n" == built.inside("/opt/karpenter/bin/python", "-c", asked).stdout


@pytest.mark.case("OPS-21")
def test_it_holds_nothing_that_running_does_not_need(built: Built) -> None:
    unwanted = {"pip", "ensurepip", "setuptools", "gcc", "cc", "make", "git", "pytest", "tests"}
    found = [
        str(path.relative_to(built.root))
        for path in built.files()
        if (path.name in unwanted and path.parent.name in ("bin", "site-packages", "dist-packages"))
        or path.suffix in (".whl", ".pem.key", ".kubeconfig")
    ]

    assert [] == found


@pytest.mark.case("OPS-21")
def test_its_user_may_write_to_no_file_of_it(built: Built) -> None:
    writable = [
        str(path.relative_to(built.root))
        for path in built.files()
        if not path.is_symlink()
        and (path.stat().st_uid == UID or path.stat().st_mode & stat.S_IWOTH)
        # sticky temporary folders are world-writable, and read-only in a container like the rest
        and not path.stat().st_mode & stat.S_ISVTX
    ]

    assert [] == writable


def test_it_is_small_enough(built: Built) -> None:
    blobs = built.layout / "blobs" / "sha256"

    assert sum(file.stat().st_size for file in blobs.iterdir()) < MOST_BYTES


@pytest.mark.case("OPS-22")
def test_the_bill_of_materials_lists_what_is_installed_and_nothing_more(built: Built) -> None:
    bill = json.loads((built.root / "usr/share/karpenter/sbom.cdx.json").read_text())
    every = [bill["metadata"]["component"], *bill["components"]]
    listed = [each for each in every if each["purl"].startswith("pkg:pypi/")]
    asked = (
        "import importlib.metadata as m, json;"
        "print(json.dumps(sorted((d.name, d.version) for d in m.distributions())))"
    )
    installed = json.loads(built.inside("/opt/karpenter/bin/python", "-c", asked).stdout)
    wheels = {
        hashlib.sha256(file.read_bytes()).hexdigest()
        for file in (image.FOLDER / "wheels").glob("*.whl")
    }

    assert installed == sorted([each["name"], each["version"]] for each in listed)
    assert wheels == {each["hashes"][0]["content"] for each in listed}
    assert {"preact", "uplot"} <= {each["name"] for each in every if each not in listed}
    assert [] == [each["name"] for each in every if not each["licenses"]]


@pytest.mark.case("OPS-23")
def test_a_wheel_with_one_other_byte_is_refused(built: Built, tmp_path: Path) -> None:
    assert built.ids
    wheels = tmp_path / "wheels"
    shutil.copytree(image.FOLDER / "wheels", wheels)
    (spoilt,) = wheels.glob("structlog-*.whl")
    content = bytearray(spoilt.read_bytes())
    content[len(content) // 2] ^= 1
    spoilt.write_bytes(content)
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-index",
        "--no-deps",
        "--require-hashes",
    ]
    folders = ["--find-links", str(wheels), "--target", str(tmp_path / "target")]

    done = subprocess.run(
        [*install, *folders, "-r", str(image.FOLDER / "requirements.txt")],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
    )

    assert done.returncode != 0
    assert "do not match the hashes" in done.stderr.lower()
    assert "structlog" in done.stderr
