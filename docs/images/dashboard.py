"""Make a picture of the dashboard: ``dashboard.py ADDRESS OUT.png`` opens the printed address and takes it.

``make browser`` fetches what it needs. ``--route "#/cost"`` is another page, ``--dark`` the other
colours, ``--width`` and ``--height`` the size of the window.
"""

import argparse
import shutil
import sys
from pathlib import Path

_MILLISECONDS = 30_000


def main() -> None:
    """Take the picture once everything on the page has its answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="as karpenter prints it, with the token")
    parser.add_argument("target", type=Path)
    parser.add_argument("--route", default="#/")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=800)
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no chromium on this machine: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("playwright is not installed: make browser")
    with sync_playwright() as playwright:
        # Without a sandbox, because it may run as root; the page is ours
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": options.width, "height": options.height},
            color_scheme="dark" if options.dark else "light",
        )
        page.set_default_timeout(_MILLISECONDS)
        page.goto(options.address)
        page.wait_for_selector("main h1", state="attached")
        page.evaluate("route => { location.hash = route }", options.route)
        page.wait_for_selector("main:not(:has-text('working out'))")
        page.wait_for_timeout(1000)  # until the map is drawn
        page.screenshot(path=options.target)
        browser.close()


if __name__ == "__main__":
    main()
