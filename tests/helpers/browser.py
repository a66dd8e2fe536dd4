"""Debian's Chromium, for tests of pages."""

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

_CHROMIUM = shutil.which("chromium")


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped where there is none."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: make browser"
    )
    if _CHROMIUM is None:
        pytest.skip("there is no chromium on this machine: apt-get install chromium")
    with api.sync_playwright() as playwright:
        # Without a sandbox, because tests may run as root; the page is ours
        launched = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()
