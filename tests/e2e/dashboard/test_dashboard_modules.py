"""The parts of the dashboard's page that decide nothing but how things are written, laid out and applied."""

import random
from collections.abc import Iterator
from itertools import pairwise

import msgspec
import pytest

from helpers import dashboard_sample
from helpers.browser import chromium
from helpers.builders import NOW, node, node_claim, pod
from helpers.dashboard_page import Page, served
from helpers.dashboard_tab import Opened
from karpenter.dashboard.contract import View
from karpenter.dashboard.delta import delta
from karpenter.dashboard.view import Picture, ViewBuilder
from karpenter.state.cluster import ClusterState

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    page = Page(dashboard_sample.sample())
    with served(page), chromium() as browser:
        yield Opened(browser, page.address)


def views(changes: int) -> list[View]:
    """Views of a cluster that changes by chance, the same every time."""
    chance = random.Random(11)
    state = ClusterState()
    builder = ViewBuilder(epoch="e", source="files", provider="", cluster="", is_live=True)
    found = [builder.build(Picture(state.snapshot(), NOW))]
    for number in range(changes):
        for _ in range(chance.randint(1, 6)):
            name = f"{chance.choice('abcdef')}"
            made = chance.choice(
                [
                    node(name, pool=chance.choice(["", "np"]), cpu=chance.choice(["1", "2"])),
                    node_claim(name, provider_id=chance.choice(["", f"x://{number}"])),
                    pod(
                        name,
                        namespace=chance.choice(["d", "s"]),
                        node_name=chance.choice(["", "a"]),
                    ),
                ]
            )
            (state.delete if chance.random() < 0.3 else state.apply)(made)
        view = builder.build(Picture(state.snapshot(), NOW))
        view.seq = found[-1].seq + 1
        found.append(view)
    return found


@pytest.mark.case("DASH-4")
def test_the_page_applies_deltas_as_the_server_does(opened: Opened) -> None:
    history = views(80)
    deltas = [delta(old, new) for old, new in pairwise(history)]

    applied = opened.module(
        "store.js",
        "({ applied }, [view, deltas]) => deltas.map((each) => (view = applied(view, each)))",
        [
            msgspec.to_builtins(history[0]),
            [msgspec.json.decode(msgspec.json.encode(d)) for d in deltas],
        ],
    )

    assert [msgspec.to_builtins(each) for each in history[1:]] == applied


def test_a_delta_that_is_not_the_next_one_is_not_applied(opened: Opened) -> None:
    view = msgspec.to_builtins(dashboard_sample.sample())

    for seq in (view["seq"], view["seq"] + 2):
        asked = [view, {"seq": seq, "at": view["at"]}]
        assert opened.module("store.js", "({ applied }, [v, d]) => applied(v, d)", asked) is None


_WRITTEN = {
    "hourly(0.2344)": "$0.2344/h",
    "hourly(1234.5, true)": "~$1,234.5000/h",
    "hourly(null)": "unknown",
    "hourly(-0.5)": "\u2212$0.5000/h",
    "monthly(1)": "$730.00/month",
    "cpu(250)": "0.25",
    "cpu(15900)": "15.9",
    "memory(134217728)": "128 MiB",
    "memory(34091302912)": "31.8 GiB",
    "percent(0.126, 1)": "12.6 %",
    "counted(1, 'node')": "1 node",
    "counted(1200, 'node')": "1,200 nodes",
    "span(0)": "0 s",
    "span(59)": "59 s",
    "span(3660)": "1 h 1 min",
    "span(90000)": "1 d 1 h",
    "moment('2026-11-18T10:00:01.120Z', 1795000000)": "10:00:01",
    "moment('2026-11-17T10:00:01Z', 1795000000)": "2026-11-17 10:00:01",
    "upcoming('2026-08-03T09:00:00Z', 1785664800)": "Monday 09:00 UTC (in 23 h)",
    "shortened('general-00007', 9)": "gene…0007",
    "shortened('ab', 9)": "ab",
    "spaced('NotReady')": "not ready",
    "routeOf('Node/a b')": "#/nodes/a%20b",
    "routeOf('Pod/default/web')": "#/pods/default/web",
    "routeOf('Deployment/default/web')": "",
    "csv([['a', '=1+1', 'x,\"y'], [1, null, true]])": 'a,\'=1+1,"x,""y"\r\n1,,true\r\n',
}


def test_figures_are_written_as_the_commands_write_them(opened: Opened) -> None:
    calls = ", ".join(f"() => f.{call}" for call in _WRITTEN)

    assert list(_WRITTEN.values()) == opened.module(
        "format.js", f"(f) => [{calls}].map((g) => g())"
    )


@pytest.mark.parametrize("by", ["pool", "zone", "type", "capacity", "none"])
@pytest.mark.parametrize("area", ["cpu", "memory", "pods"])
def test_cells_lie_apart_and_none_is_more_than_sixteen_times_another(
    opened: Opened, by: str, area: str
) -> None:
    cells = opened.module(
        "stream.js",
        "async ({ model }, { by, area, at }) => { const { grouped, arranged } = await import(at);"
        " const found = arranged(grouped(model.value.nodes, by), { width: 900, height: 500, area });"
        " return [found.width, found.height, found.scale, found.cells.map((c) => [c.x, c.y, c.side, c.node.id])] }",
        {"by": by, "area": area, "at": opened.address_of("layout.js")},
    )
    width, height, scale, boxes = cells

    assert sorted(each[3] for each in boxes) == list(range(1, 41))
    for number, (x, y, side, _) in enumerate(boxes):
        assert x >= 0 <= y
        assert x + side <= width + 1e-9
        assert y + side <= height + 1e-9
        for u, v, other, _ in boxes[:number]:
            assert x >= u + other or u >= x + side or y >= v + other or v >= y + side
    assert width * scale <= 900 + 1e-6
    assert height * scale <= 500 + 1e-6
    sides = [each[2] for each in boxes]
    assert max(sides) ** 2 <= 17 * min(sides) ** 2, "but for the gap between cells"


def test_cells_stay_where_they_are_whatever_their_nodes_carry(opened: Opened) -> None:
    places = opened.module(
        "stream.js",
        "async ({ model }, at) => { const { grouped, arranged } = await import(at);"
        " const of = (nodes) => arranged(grouped(nodes, 'pool'), { width: 900, height: 500 })"
        ".cells.map((c) => [c.node.id, c.x, c.y]);"
        " const { nodes } = model.value;"
        " return [of(nodes), of([...nodes].reverse().map((n) => ({ ...n, pods: [], cpuUsed: 0, flags: {} })))] }",
        opened.address_of("layout.js"),
    )

    assert places[0] == places[1]


def test_blocks_fill_a_cell_from_its_bottom_by_their_share(opened: Opened) -> None:
    shares = [0.02, 0.3, 0.125, 0.125, 0.05, 0.01]
    pods = [
        {"pod": {"id": number, "flags": {"daemon": True} if number == 5 else {}}, "share": share}
        for number, share in enumerate(shares)
    ]

    placed = opened.module("layout.js", "({ blocks }, pods) => blocks(pods, 2, 1)", pods)
    crowded = opened.module(
        "layout.js",
        "({ blocks }, pods) => blocks(pods, 2, 1)",
        [{**each, "share": 0.5} for each in pods],
    )

    areas = {each["pod"]["id"]: each["width"] * each["height"] for each in placed}
    assert areas == pytest.approx({number: share * 2 for number, share in enumerate(shares)})
    lowest = max(placed, key=lambda each: each["y"] + each["height"])
    assert lowest["pod"]["id"] == 5, "daemons lie lowest"
    assert min(each["y"] for each in placed) == pytest.approx(1 - sum(shares)), "the rest is free"
    assert sum(each["width"] * each["height"] for each in crowded) == pytest.approx(2)
    assert all(each["y"] >= -1e-9 for each in crowded)


def test_many_nodes_become_cells_with_a_number(opened: Opened) -> None:
    found = opened.module(
        "layout.js",
        "({ condensed }) => { const node = (id) => ({ id, name: `n${id}`, pool: 'p', type: id % 2 ? 'a' : 'b',"
        " zone: 'z', capacityType: 'spot', state: 'Ready', cpu: 1, memory: 1, mostPods: 1, cpuUsed: 0,"
        " memoryUsed: 0, pods: [], count: 1 }); const of = (n) => condensed({ nodes: [...Array(n).keys()].map(node), pods: [] });"
        " return [of(5000), of(5001).map((each) => [each.type, each.count, each.cpu])] }",
    )

    assert [None, [["b", 2501, 2501], ["a", 2500, 2500]]] == found


def test_zoom_keeps_its_bounds_and_the_point_under_the_pointer(opened: Opened) -> None:
    found = opened.module(
        "layout.js",
        "({ zoomed }) => [zoomed({ zoom: 1, x: 10, y: 20 }, 2, 110, 220), zoomed({ zoom: 1, x: 0, y: 0 }, 1e9, 0, 0).zoom,"
        " zoomed({ zoom: 1, x: 0, y: 0 }, 1e-9, 0, 0).zoom]",
    )

    assert [{"zoom": 2, "x": -90, "y": -180}, 8, 0.05] == found


def test_events_are_read_from_pieces_as_they_come(opened: Opened) -> None:
    text = 'event: hello\r\ndata: {"a":1}\r\n\r\n: comment\n\nevent: delta\ndata: {"b":\ndata: 2}\n\nevent: pi'

    found = opened.module(
        "stream.js",
        "({ parsedEvents }, text) => { const heard = []; let rest = '';"
        " for (const letter of text) rest = parsedEvents(rest + letter, (name, data) => heard.push([name, data]));"
        " return [heard, rest] }",
        text,
    )

    assert [[["hello", {"a": 1}], ["delta", {"b": 2}]], "event: pi"] == found


def test_attempts_come_ever_later_and_not_all_at_once(opened: Opened) -> None:
    found = opened.module(
        "stream.js",
        "({ waitBefore }) => [0, 1, 2, 3, 9].flatMap((n) => [waitBefore(n, 0), waitBefore(n, 1)])",
    )

    assert [1000, 750, 2000, 1500, 4000, 3000, 8000, 6000, 30000, 22500] == found


@pytest.mark.parametrize(
    ("query", "nodes"),
    [
        ("", None),
        ("pool:general", "node => node.pool === 'general'"),
        ("pool:general is:spot", "node => node.pool === 'general' && node.capacityType === 'spot'"),
        ("state:draining zone:za", "node => node.state === 'Draining' && node.zone === 'za'"),
        ("is:empty", "node => node.flags.empty"),
        ("owner:Deployment/CART", "node => [...node.pods, ...node.expected].some((p) => p.owner.endsWith('cart'))"),
        ("ns:shop pod:web", "node => [...node.pods, ...node.expected].some((p) => p.namespace === 'shop' && p.name.includes('web'))"),
        ("is:nothing", "() => false"),
    ],
)  # fmt: skip
def test_a_search_finds_what_it_says(opened: Opened, query: str, nodes: str | None) -> None:
    found, wanted = opened.module(
        "search.js",
        "async ({ found }, { query, at }) => { const { model } = await import(at);"
        " const result = found(model.value, query);"
        f" return [result && [...result.nodes].sort(), {nodes and f'model.value.nodes.filter({nodes}).map((n) => n.id).sort()'}] }}".replace(
            "None", "null"
        ),
        {"query": query, "at": opened.address_of("stream.js")},
    )

    assert wanted == found


# Draws one node, and returns what was filled and in which colour
_DRAWN = """({ drawMap, GROUND }, { id, pods }) => {
  const filled = [];
  const context = new Proxy({}, {
    get: (held, name) => held[name] ?? (() => ({ width: 0 })),
    set: (held, name, value) => { held[name] = value; return true; },
  });
  context.fillRect = (...box) => filled.push([context.fillStyle, ...box]);
  const node = { id, cpu: 4, memory: 4, pods, count: 1, name: "", type: "", state: "Ready", flags: {} };
  const layout = { scale: 1, groups: [], cells: [{ node, x: 0, y: 0, side: 40 }] };
  drawMap(context, { layout, camera: { zoom: 1, x: 0, y: 0 }, width: 100, height: 100, ground: GROUND.light,
    colors: { of: (pod) => pod.state }, found: null, now: 0, selected: null });
  return filled;
}"""


def test_a_node_is_drawn_as_its_pods_are_however_often_it_was_drawn_before(opened: Opened) -> None:
    def pods(*rows: tuple[int, float, str]) -> list[dict[str, object]]:
        return [
            {"id": number, "cpu": cpu, "memory": 0, "state": state, "flags": {}}
            for number, cpu, state in rows
        ]

    steps = [
        pods((1, 1, "blue"), (2, 2, "red")),
        pods((1, 1, "green"), (2, 2, "red")),  # only a colour is another one
        pods((1, 1, "green"), (2, 2.5, "red")),
        pods((1, 1, "green")),
        pods((3, 1, "green")),
        [],
    ]
    for number, each in enumerate(steps):
        known = opened.module("draw.js", _DRAWN, {"id": 7, "pods": each})
        fresh = opened.module("draw.js", _DRAWN, {"id": 1000 + number, "pods": each})

        assert fresh == known
        assert {pod["state"] for pod in each} == {colour for colour, *_ in known}
