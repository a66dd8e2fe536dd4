"""The site of the documentation: stages its pages for the build, and checks the built site.

``python tools/docs_site.py stage`` copies them, and what they link to, into the folder that ``mkdocs.yml``
reads, with the same paths, so that links between pages hold. ``python tools/docs_site.py check`` reads every
built page: each link leads to a file and a place in it, and nothing is fetched from another host.
"""

import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = ROOT / "build" / "site" / "pages"
HTML: Final = ROOT / "build" / "site" / "html"
_FOLDERS: Final = ("docs", "examples", "charts", "benchmarks", "monitoring")
_MADE: Final = shutil.ignore_patterns("__pycache__", "results")
# Attributes that make a browser fetch something; a link that a reader may follow is none
_FETCHED: Final = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}


class Page(HTMLParser):
    """A built page: where it leads, what it fetches, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def has(self, place: str) -> bool:
        """Whether a place is in the page; no place is its beginning."""
        return not place or place in self.places

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the links and ids of a tag."""
        values = {name: value for name, value in attrs if value}
        if place := values.get("id") or values.get("name"):
            self.places.add(place)
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        fetched = values.get(_FETCHED.get(tag, ""), "")
        if fetched and values.get("rel") != "canonical":
            self.fetched.add(fetched)


def stage() -> None:
    """Copy the pages, and what they link to."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for file in (*ROOT.glob("*.md"), ROOT / "LICENSE"):
        shutil.copyfile(file, PAGES / file.name)
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, PAGES / name, ignore=_MADE)


def problems(folder: Path) -> Iterator[str]:
    """Everything that is wrong with a built site, a sentence each."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        for address in sorted(page.fetched):
            if urlsplit(address).netloc:
                yield f"{name} fetches {address} from another host"
        if name == "404.html":  # served at any path: relative links cannot be checked
            continue
        for address in sorted(page.links | page.fetched):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name} leads to {address}, which does not exist"
            elif target in pages and not pages[target].has(unquote(parts.fragment)):
                yield f"{name} leads to {address}, and there is no such place on that page"


def main() -> None:
    """Do what the argument says."""
    match sys.argv[1:]:
        case ["stage"]:
            stage()
        case ["check"]:
            found = list(problems(HTML))
            sys.stderr.writelines(f"error: {each}\n" for each in found)
            if found or not HTML.is_dir():
                sys.exit("the site is not sound" if found else f"there is no site in {HTML}")
            sys.stdout.write(f"the site is in {HTML.relative_to(ROOT)}: open index.html\n")
        case _:
            sys.exit("usage: python tools/docs_site.py stage|check")


if __name__ == "__main__":
    main()
