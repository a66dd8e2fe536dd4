"""How fast the dashboard's page is, and what the dashboard costs the process that serves it.

    python -m benchmarks dashboard            1,000 nodes and 10,000 pods: two minutes
    python -m benchmarks dashboard --smoke    20 nodes: that everything still runs
    python -m benchmarks dashboard --json     figures for programs

The dashboard of a cluster in memory is served in a process of its own, as ``karpenter dashboard``
serves one, with its history; a page is open in headless Chromium, which draws without a graphics
card. Figures of the server's work are those of the processor; what people wait for is real time.
"""

import argparse
import asyncio
import importlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import IO, Any, Final

import aiohttp
from benchmarks.measuring import ROOT
from benchmarks.options import options
from rich.console import Console
from rich.table import Table

from karpenter.dashboard.assets import Asset, load_assets

Json = dict[str, Any]

NODES, SMOKE_NODES = 1_000, 20
WATCHING: Final = 10  # clients beside which the event loop is measured
MANY: Final = 30  # clients whose memory is measured
ROUNDS: Final = 10  # of a hundred changed pods
SECONDS: Final = 20.0  # that the event loop is looked at
_SETTLING: Final = 2.0
_STEPS: Final = 150  # of the pointer, one for each frame
_PATIENCE: Final = 120.0
_MS: Final = 1e3

# Notes when a map was drawn and for how long, and lets gaps between frames be noted
_NOTES = """
globalThis.draws = [];
globalThis.shown = [];
const ask = requestAnimationFrame.bind(globalThis);
globalThis.requestAnimationFrame = (callback) => ask((time) => {
  const begun = performance.now();
  callback(time);
  const canvas = document.querySelector(".map-frame canvas");
  if (callback.name === "redraw" && canvas?.width && canvas.width !== 300)
    draws.push({ at: performance.now(), took: performance.now() - begun });
});
globalThis.gaps = () => {
  const found = [];
  let last = 0;
  let isOver = false;
  const frame = (time) => {
    if (last) found.push(time - last);
    last = time;
    if (!isOver) ask(frame);
  };
  ask(frame);
  return () => { isOver = true; return found; };
};
"""
# Notes the moment at which the frame with each new view has been drawn
_FOLLOW = """async () => {
  const base = document.querySelector("script[type=module]").src;
  const { live } = await import(base.replace("app.js", "stream.js"));
  const { effect } = await import(base.replace("app.js", "vendor/signals.js"));
  effect(() => {
    const { seq } = live.value;
    const drawn = draws.length;
    const look = () => {
      if (draws.length > drawn) shown.push({ seq, at: performance.timeOrigin + draws.at(-1).at });
      else setTimeout(look, 1);
    };
    look();
  });
}"""


@dataclass(frozen=True, slots=True)
class Target:
    """A figure with what it should be."""

    what: str
    value: float
    most: float | None  # None: only to be known
    unit: str  # ms, s, MB, KB or nothing

    @property
    def is_met(self) -> bool:
        return self.most is None or self.value <= self.most

    @property
    def found(self) -> str:
        digits = 1 if self.unit in {"ms", "MB"} and self.value < 100 else 0
        return f"{self.value:,.{2 if self.unit == 's' else digits}f} {self.unit}"

    @property
    def wanted(self) -> str:
        return "" if self.most is None else f"at most {self.most:g} {self.unit}"


class Server:
    """The process that serves the dashboard."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to: IO[str] = process.stdin
        self._from: IO[str] = process.stdout
        self.begun = self._answer()

    def told(self, word: str) -> Json:
        """Have something done, and return what it came to."""
        self._to.write(f"{word}\n")
        self._to.flush()
        return self._answer()

    def _answer(self) -> Json:
        line = self._from.readline()
        if not line:
            raise SystemExit("the process that serves the dashboard has ended")
        found: Json = json.loads(line)
        return found


@contextmanager
def served(nodes: int) -> Iterator[Server]:
    """Serve a dashboard of so many nodes for as long as a block runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.dashboard_served", str(nodes)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Server(process)
    finally:
        process.terminate()
        process.communicate()


def main() -> int:
    """Measure and report; the exit code says whether the targets are met."""
    parser = options("Measure the dashboard and its page.", smoke="a small cluster")
    arguments = parser.parse_args()
    nodes = SMOKE_NODES if arguments.smoke else NODES
    found: list[Target] = [*_assets()]
    with served(nodes) as server:
        found += _views(server.begun)
        found += _in_browser(server, arguments.smoke)
        found += asyncio.run(_clients(server, is_smoke=arguments.smoke))
    _show(found, arguments)
    return 0 if arguments.smoke or all(each.is_met for each in found) else 1


def _assets() -> Iterator[Target]:
    """How large the files of the page are; the budget is for those that others wrote."""
    assets = load_assets()
    files = {"index.html": assets.index, **assets.files}
    own = {name: each for name, each in files.items() if not name.startswith("vendor/")}
    fetched = [each for name, each in files.items() if name not in own and _is_fetched(name)]
    yield Target("assets, those of others, raw", _raw(fetched) / _MS, 300, "KB")
    yield Target("assets, those of others, gzip", _zipped(fetched) / _MS, 90, "KB")
    yield Target("assets, the page's own, raw", _raw(own.values()) / _MS, None, "KB")
    yield Target("assets, the page's own, gzip", _zipped(own.values()) / _MS, None, "KB")


def _is_fetched(name: str) -> bool:
    return name.endswith((".js", ".css"))


def _raw(assets: "Sequence[Asset] | Any") -> int:
    return sum(len(each.body) for each in assets)


def _zipped(assets: "Sequence[Asset] | Any") -> int:
    return sum(len(each.compressed) for each in assets)


def _views(said: Json) -> Iterator[Target]:
    yield Target("view built, off the loop", said["built"] * _MS, 150, "ms")
    yield Target("view built again after 100 changed pods", said["followed"] * _MS, None, "ms")
    yield Target("delta for 100 changed pods", said["delta"] * _MS, 10, "ms")
    yield Target("view, raw", said["bytes"] / _MS, 1_000, "KB")
    yield Target("view, gzip", said["gzipped"] / _MS, 350, "KB")
    yield Target("view compressed, off the loop", said["zipped"] * _MS, None, "ms")


@contextmanager
def _browser() -> Iterator[Any]:
    """Debian's Chromium as the tests open it; None where it or what drives it is missing."""
    try:
        api = importlib.import_module("playwright.sync_api")
    except ModuleNotFoundError:
        api = None
    program = shutil.which("chromium")
    if api is None or program is None:
        lacks = "playwright" if api is None else "chromium"
        print(
            f"{lacks} is not installed, so the page is not measured: make browser", file=sys.stderr
        )
        yield None
        return
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


def _in_browser(server: Server, is_smoke: bool) -> list[Target]:
    with _browser() as browser:
        if browser is None:
            return []
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_init_script(_NOTES)
        page = context.new_page()
        page.set_default_timeout(_PATIENCE * _MS)
        page.goto(server.begun["url"])
        _wait(page, "draws.length > 0")
        found = [Target("first map after the page is opened", _first(page), 1_000, "ms")]
        time.sleep(_SETTLING)
        found += _gestures(page)
        found += _changes(page, context.new_cdp_session(page), server, 2 if is_smoke else ROUNDS)
        return found


def _wait(page: Any, expression: str) -> None:
    """Wait for something; what Playwright has for it makes code of text, which the page forbids."""
    until = time.monotonic() + _PATIENCE
    while not page.evaluate(expression):
        if time.monotonic() > until:
            raise SystemExit(f"the page does not come to this: {expression}")
        time.sleep(0.01)


def _first(page: Any) -> float:
    return float(page.evaluate("draws[0].at"))


def _gestures(page: Any) -> Iterator[Target]:
    box = page.locator(".map-frame").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    whole = page.evaluate("draws.map((each) => each.took)")
    page.evaluate("globalThis.gapsOver = gaps(); 0")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 120, y - 60, steps=_STEPS)
    page.mouse.move(x + 40, y + 30, steps=_STEPS)
    page.mouse.up()
    panning = page.evaluate("gapsOver()")
    time.sleep(_SETTLING)
    page.evaluate("draws.length = 0; globalThis.gapsOver = gaps(); 0")
    page.keyboard.down("Control")
    for direction in (-1, 1, -1):
        for _ in range(_STEPS // 3):
            page.mouse.wheel(0, direction * 12)
    page.keyboard.up("Control")
    zooming = page.evaluate("gapsOver()")
    time.sleep(_SETTLING)
    parts = page.evaluate("draws.map((each) => each.took)")
    for what, each in (("pan", panning), ("zoom", zooming)):
        yield Target(f"gap between frames, {what}, median", statistics.median(each), 17, "ms")
        yield Target(f"gap between frames, {what}, p95", _percentile(each, 0.95), 33, "ms")
    yield Target("draw, the whole map, median", statistics.median(whole), 16, "ms")
    yield Target("draw, zoomed in, median", statistics.median(parts or [0.0]), 8, "ms")
    page.keyboard.press("Control+0")


def _changes(page: Any, cdp: Any, server: Server, rounds: int) -> Iterator[Target]:
    page.evaluate(_FOLLOW)
    time.sleep(_SETTLING)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    idle = _busy(cdp)
    time.sleep(rounds)
    idle = _busy(cdp) - idle
    waits = []
    busy = _busy(cdp)
    for _ in range(rounds):
        seen = page.evaluate("shown.length")
        begun = server.told("change")["at"]
        _wait(page, f"shown.length > {seen}")
        shown = float(page.evaluate("shown.at(-1).at"))
        waits.append(shown - begun * _MS)
        time.sleep(max(0.0, 1.0 - (time.time() - begun)))
    busy = _busy(cdp) - busy
    yield Target(
        "100 changed pods, until they are drawn, median", statistics.median(waits), 500, "ms"
    )
    yield Target("100 changed pods, until they are drawn, longest", max(waits), None, "ms")
    yield Target(
        "100 changed pods, time of the page", max(0.0, busy - idle) / rounds * _MS, 25, "ms"
    )
    yield Target(
        "an open page while nothing changes, share of a core", 100 * idle / rounds, None, "%"
    )
    cdp.send("HeapProfiler.collectGarbage")
    heap = cdp.send("Runtime.getHeapUsage")["usedSize"]
    yield Target("heap of the page", heap / 1e6, 60, "MB")


def _busy(cdp: Any) -> float:
    """Seconds that the page's thread has worked."""
    metrics = cdp.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def _percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1]


async def _clients(server: Server, *, is_smoke: bool) -> list[Target]:
    """What clients cost the process that serves them, and how long their questions take."""
    seconds = 2.0 if is_smoke else SECONDS
    url, token = server.begun["page"], server.begun["url"].partition("#token=")[2]
    headers = {"Karpenter-Token": token}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, headers=headers, connector=connector) as session:
        server.told("churn")
        alone = await _turns(server, seconds)
        async with _reading(session, WATCHING):
            watched = await _turns(server, seconds)
        async with _reading(session, 2):
            await asyncio.sleep(_SETTLING)
            few = server.told("memory")["memory"]
            async with _reading(session, MANY - 2):
                await asyncio.sleep(2 * _SETTLING)
                many = server.told("memory")["memory"]
        server.told("churn")
        found = [
            Target("event loop late, p99, 10 clients", watched["p99"] * _MS, 50, "ms"),
            Target("event loop late, p99, no clients", alone["p99"] * _MS, None, "ms"),
            Target("longest turn of the loop, 10 clients", watched["turn"] * _MS, 10, "ms"),
            Target("longest turn of the loop, no clients", alone["turn"] * _MS, None, "ms"),
            Target(
                "memory of the server for a client", max(0, many - few) / (MANY - 2) / _MS, 50, "KB"
            ),
        ]
        found += await _questions(session)
    return found


async def _turns(server: Server, seconds: float) -> Json:
    await asyncio.sleep(_SETTLING)
    server.told("turns")
    await asyncio.sleep(seconds)
    return server.told("turns")


@asynccontextmanager
async def _reading(session: aiohttp.ClientSession, count: int) -> AsyncIterator[None]:
    """So many clients that read the stream for as long as a block runs."""

    async def read(begun: asyncio.Event) -> None:
        async with session.get("api/v1/stream") as stream:
            begun.set()
            async for _ in stream.content.iter_any():
                pass

    streams = [asyncio.Event() for _ in range(count)]
    tasks = [asyncio.create_task(read(each)) for each in streams]
    try:
        for each in streams:
            await each.wait()
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _questions(session: aiohttp.ClientSession) -> list[Target]:
    async with session.get("api/v1/view") as answer:
        node = (await answer.json())["nodes"]["name"][0]
    begun = time.perf_counter()
    async with session.get("api/v1/plan") as answer:
        plan = await answer.json()
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    async with session.post("api/v1/what-if", json={"drain": [node]}) as answer:
        await answer.read()
        answer.raise_for_status()
    asked = time.perf_counter() - begun
    seconds = plan["took"] if isinstance(plan["took"], float) else first
    return [
        Target("plan, the first, with the start of its process", first, None, "s"),
        Target("plan", seconds, 5, "s"),
        Target("plan is partial", float(plan["isPartial"]), None, ""),
        Target("what-if of one node", asked, 1, "s"),
    ]


def _show(found: Sequence[Target], arguments: argparse.Namespace) -> None:
    load = os.getloadavg()
    if arguments.json:
        figures = {each.what: each.value for each in found}
        missed = [each.what for each in found if not each.is_met]
        print(json.dumps({"figures": figures, "missed": missed, "load": load}, indent=2))
        return
    table = Table("what", "figure", "target", "")
    for each in found:
        verdict = "" if arguments.smoke or each.most is None else "met" if each.is_met else "MISSED"
        table.add_row(each.what, each.found, each.wanted, verdict)
    Console(width=None if Console().is_terminal else 160).print(table)
    print(f"load of the machine over the last minute: {load[0]:.1f}")


if __name__ == "__main__":
    raise SystemExit(main())
