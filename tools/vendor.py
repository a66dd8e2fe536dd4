"""Takes the libraries of the dashboard's page from npm, by version and SHA-512.

    .venv/bin/python tools/vendor.py          # writes src/karpenter/dashboard/web/vendor (needs npm)
    .venv/bin/python tools/vendor.py checks   # build/browser: what checks pages in the tests, and is shipped nowhere

Modules are taken as they are published, but for two things that a browser without an import map
needs: bare names of imports become relative ones, and the mention of a source map goes, which is not
there. ``LOCK.json`` says what was taken and what became of it; a test computes its hashes anew.
"""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
VENDOR: Final = ROOT / "src" / "karpenter" / "dashboard" / "web" / "vendor"
CHECKS: Final = ROOT / "build" / "browser"
LOCK: Final = "LOCK.json"
LICENSES: Final = "LICENSES"
_WITHIN: Final = "package"  # the folder in every archive of npm
_BARE_IMPORT: Final = re.compile(r"""(\bfrom\s*|\bimport\s*)(["'])([^."'][^"']*)\2""")
_SOURCE_MAP: Final = re.compile(r"\n?//# sourceMappingURL=\S+\s*$")
_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Package:
    """One package, and which of its files are taken under which names."""

    name: str
    version: str
    licence: str
    integrity: str  # as npm writes it: SHA-512 of the archive, in base64
    files: Mapping[str, str]  # path in the package -> name here

    @property
    def archive(self) -> str:
        """The name that npm gives the file."""
        return f"{self.name.lstrip('@').replace('/', '-')}-{self.version}.tgz"


PACKAGES: Final = (
    Package(
        "@preact/signals",
        "2.11.4",
        "MIT",
        "sha512-Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw==",
        {"dist/signals.module.js": "signals.js"},
    ),
    Package(
        "@preact/signals-core",
        "1.14.5",
        "MIT",
        "sha512-vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        {"dist/signals-core.module.js": "signals-core.js"},
    ),
    Package(
        "htm",
        "3.1.1",
        "Apache-2.0",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        {"dist/htm.module.js": "htm.js"},
    ),
    Package(
        "preact",
        "10.29.8",
        "MIT",
        "sha512-ej2aVZ+vZ8WO7tvlQWRM9N63A0KzF9q4mWJfDUHgYaIofWY9hu74QdnQrjoPMmZi2/nZ5gN0bJCQF49xQqx09Q==",
        {"dist/preact.module.js": "preact.js", "hooks/dist/hooks.module.js": "preact-hooks.js"},
    ),
    Package(
        "uplot",
        "1.6.32",
        "MIT",
        "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        {"dist/uPlot.iife.min.js": "uPlot.iife.min.js", "dist/uPlot.min.css": "uPlot.min.css"},
    ),
)
# Finds what people who do not see, or use no pointer, would stumble over
AXE: Final = Package(
    "axe-core",
    "4.14.0",
    "MPL-2.0",
    "sha512-9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==",
    {"axe.min.js": "axe.min.js"},
)
# What modules call each other -> the file that it is here
_MODULES: Final = {
    "@preact/signals-core": "signals-core.js",
    "preact": "preact.js",
    "preact/hooks": "preact-hooks.js",
}


def fetched(package: Package, folder: Path) -> Path:
    """The archive of a package, fetched by npm and checked.

    Raises:
        SystemExit: npm is not there or fails, or the archive is not the one that is pinned.
    """
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not installed; it fetches the packages (apt-get install npm)")
    done = subprocess.run(  # noqa: S603 words of this file
        [npm, "pack", "--silent", f"{package.name}@{package.version}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        sys.exit(f"npm cannot fetch {package.name}@{package.version}: {done.stderr.strip()[-500:]}")
    archive = folder / package.archive
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != package.integrity:
        sys.exit(
            f"{package.name}@{package.version} has another SHA-512 than tools/vendor.py says;"
            " if the version was changed on purpose, change `integrity` with it"
        )
    return archive


def browser_module(text: str) -> str:
    """A published module as a browser takes it.

    Raises:
        SystemExit: it imports something that is not vendored.
    """

    def relative(match: re.Match[str]) -> str:
        keyword, quote, name = match.groups()
        if name not in _MODULES:
            sys.exit(f"a vendored module imports {name!r}, which is not vendored")
        return f"{keyword}{quote}./{_MODULES[name]}{quote}"

    return _BARE_IMPORT.sub(relative, _SOURCE_MAP.sub("\n", text))


def take(packages: Iterable[Package], target: Path) -> None:
    """Write the files of packages into a folder, with its lock file and the licences."""
    files: dict[str, bytes] = {}
    texts, entries = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for package in packages:
            taken, licence = _opened(package, fetched(package, Path(scratch)))
            files |= taken
            entries.append(_entry(package, taken))
            texts.append(f"{package.name} {package.version} ({package.licence})\n\n{licence}\n")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, body in files.items():
        (target / name).write_bytes(body)
    lock = {"about": "Written by tools/vendor.py", "packages": entries}
    (target / LOCK).write_text(json.dumps(lock, indent=1) + "\n", "utf-8")
    (target / LICENSES).write_text(f"\n{'-' * 80}\n\n".join(texts), "utf-8")


def _opened(package: Package, archive: Path) -> tuple[dict[str, bytes], str]:
    """Its files under their names here, and the text of its licence."""
    with tarfile.open(archive) as opened:

        def read(path: str) -> str:
            member = opened.extractfile(f"{_WITHIN}/{path}")
            assert member is not None, path
            return member.read().decode()

        found = {
            name: (browser_module(read(path)) if path.endswith(".module.js") else read(path))
            for path, name in package.files.items()
        }
        return {name: text.encode() for name, text in found.items()}, read("LICENSE").strip()


def _entry(package: Package, files: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "name": package.name,
        "version": package.version,
        "licence": package.licence,
        "integrity": package.integrity,
        "files": {name: hashlib.sha256(body).hexdigest() for name, body in sorted(files.items())},
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["checks"]:
        take([AXE], CHECKS)
    else:
        take(PACKAGES, VENDOR)
