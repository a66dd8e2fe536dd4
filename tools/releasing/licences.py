"""The licences of everything that is installed with the program, and which of them are allowed.

    python -m releasing.licences      # PYTHONPATH=tools; writes docs/reference/dependencies.md

What is distributed with the program must be under permissive licences, which require attribution
only; any other licence fails a test until it is added to the list.
"""

import importlib.metadata
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from typing import Final

from releasing.wheels import REQUIREMENTS, ROOT, licences
from vendor import LOCK, VENDOR

PAGE: Final = ROOT / "docs" / "reference" / "dependencies.md"
_PIN: Final = re.compile(r"^([a-z0-9._-]+)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)
_OF_WINDOWS: Final = "sys_platform == 'win32'"
# As distributions write them: expressions of SPDX, names of classifiers, and what is in between
_NAMES: Final = {
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0",
}
ALLOWED: Final = frozenset(
    {"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0"}
)
_HEAD: Final = """\
# Dependencies

<!-- Written by tools/releasing/licences.py -->

What is installed with the program, pinned by hash in `requirements/run.txt`, and with the extra for AWS in
`requirements/image.txt`. Each direct dependency has a [decision](../decisions/README.md). A licence that is not among
those here fails a test.

| distribution | version | licence | with |
| --- | --- | --- | --- |
"""
_VENDORED_HEAD: Final = """
## Vendored for pages

Scripts that browsers run, as files of the program's own wheel. `tools/vendor.py` takes those of the dashboard from npm by
SHA-512; their licences lie beside them, in `vendor/LICENSES`. The page of a simulation has its own copy of the same uPlot.

| package | version | licence |
| --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A distribution that is installed with the program."""

    name: str
    version: str
    licence: str
    extra: str

    @property
    def is_allowed(self) -> bool:
        """Whether every part of its licence is one that may be distributed."""
        parts = re.split(r" AND | OR ", self.licence.replace("(", "").replace(")", ""))
        return set(parts) <= ALLOWED


def dependencies() -> Iterator[Dependency]:
    """Everything that is pinned for running, as its own metadata describes it."""
    needed = dict(_pins("run"))
    for name, version in sorted(_pins("image")):
        metadata = importlib.metadata.metadata(name)
        extra = "" if name in needed else "aws"
        yield Dependency(name, version, licence(metadata), extra)


def vendored() -> Iterator[Dependency]:
    """The packages of npm whose files the program's wheel has in it."""
    for each in json.loads((VENDOR / LOCK).read_text("utf-8"))["packages"]:
        yield Dependency(each["name"], each["version"], each["licence"], "")


def licence(metadata: Message | importlib.metadata.PackageMetadata) -> str:
    """A licence as an expression of SPDX, as far as names are known."""
    assert isinstance(metadata, Message)
    return " OR ".join(_NAMES.get(each, each) for each in licences(metadata)) or "unknown"


def text() -> str:
    """The page."""
    installed = "".join(
        f"| {each.name} | {each.version} | {each.licence} | {each.extra or 'everything'} |\n"
        for each in dependencies()
    )
    brought = "".join(f"| {each.name} | {each.version} | {each.licence} |\n" for each in vendored())
    return _HEAD + installed + _VENDORED_HEAD + brought


def _pins(name: str) -> Iterator[tuple[str, str]]:
    for distribution, version, marker in _PIN.findall(
        (REQUIREMENTS / f"{name}.txt").read_text("utf-8")
    ):
        if marker != _OF_WINDOWS:
            yield distribution, version


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
