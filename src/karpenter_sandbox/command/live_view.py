"""The display of a running sandbox: its nodes, its pods and the latest events.

``overview`` reduces the cluster to what a screen shows and is pure; the rest is layout. On a
terminal decisions are lines that stay; below them the nodes and the latest events are redrawn
periodically. Without a terminal, each decision and each event is a line of its own.
"""

import logging
import textwrap
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter.api.times import in_seconds
from karpenter.console import screen
from karpenter.model.conditions import INITIALIZED, LAUNCHED, REGISTERED
from karpenter.model.durations import in_largest_unit
from karpenter.model.quantity import millis, units
from karpenter.visible import visible, visible_lines
from karpenter_sandbox.backend import parse_timestamp
from karpenter_sandbox.command.controller_deployment import runs_here
from karpenter_sandbox.conditions import find_condition, is_true

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from karpenter_sandbox.cluster import Cluster
    from karpenter_sandbox.command.prices import Prices
    from karpenter_sandbox.store.store import Event

_ZONE: Final = "topology.kubernetes.io/zone"
_TYPE: Final = "node.kubernetes.io/instance-type"
# What a NodeClaim waits for next, and what it is doing meanwhile
_STAGES: Final = (
    (LAUNCHED, "Launching"),
    (REGISTERED, "Registering"),
    (INITIALIZED, "Initializing"),
)
_FINISHED: Final = ("Succeeded", "Failed")
_DISRUPTED: Final = "karpenter.sh/disrupted"
_FEWEST_ROWS: Final = 3
_OTHER_LINES: Final = 5  # blank, headline, blank, names of the columns, and how many more
_RECENT: Final = 8
_LINES_PER_EVENT: Final = 8  # of the screen
_FOR_DECISIONS: Final = 3  # one line in three of the screen stays free for decisions
_SHORTEST_NAME, _SHORTEST_STATUS, _SHORTEST_TYPE, _SHORTEST_ZONE = 13, 8, 9, 7
_NARROW: Final = 40  # columns
_KEPT: Final = 1000  # bounds the lines that are not read yet


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as the screen shows it, or a NodeClaim whose node has not joined."""

    name: str
    status: str
    zone: str
    kind: str
    pods: int
    cpu: str  # share of the allocatable amount that pods request
    memory: str
    price: float | None  # dollars an hour, where it is known
    age: str
    is_claim: bool = False  # there is no node yet


@dataclass(frozen=True, slots=True)
class Overview:
    """A cluster as the screen shows it."""

    nodes: list[NodeRow]
    ready: int
    phases: Counter[str]
    has_estimates: bool = False  # instead of the cloud's own prices

    @property
    def summary(self) -> str:
        """The cluster in one line."""
        coming = sum(row.is_claim for row in self.nodes)
        nodes = f"{screen.counted(len(self.nodes) - coming, 'node')}, {self.ready} ready"
        if coming:
            nodes += f", {coming:,} on {'its' if coming == 1 else 'their'} way"
        if cost := self._cost():
            nodes += f" · {cost}"
        pods = screen.counted(self.phases.total(), "pod")
        states = ", ".join(f"{count:,} {name.lower()}" for name, count in self.phases.most_common())
        return f"{nodes} · {pods}" + (f": {states}" if states else "")

    def _cost(self) -> str:
        known = [row.price for row in self.nodes if row.price is not None]
        if not known:
            return ""
        hour = screen.per_hour(sum(known), is_estimate=self.has_estimates)
        month = screen.per_month(sum(known), is_estimate=self.has_estimates)
        cost = f"{hour}/h, {month}/month" + (" (estimate)" if self.has_estimates else "")
        unknown = sum(row.price is None and not row.is_claim for row in self.nodes)
        return f"{cost} and {screen.counted(unknown, 'node')} of unknown price" if unknown else cost


class EventFeed:
    """Lines for the display: events of the cluster, and decisions of the controllers."""

    def __init__(self, is_hidden: Callable[[JsonObject], bool] | None = None) -> None:
        self._is_hidden = is_hidden
        self.recent: deque[str] = deque(maxlen=_RECENT)  # events
        self._said: deque[str] = deque(maxlen=_KEPT)
        self._all: deque[str] = deque(maxlen=_KEPT)

    def follow(self, change: "Event") -> None:
        """Take in a change of the store."""
        key = change.stored.key
        if (key.group, key.resource) == ("", "events") and change.type != "DELETED":
            # decoded separately, so that the store does not cache the parsed event
            event = msgspec.json.decode(change.stored.data)
            if self._is_hidden is None or not self._is_hidden(event):
                line = event_line(event)
                self.recent.append(line)
                self._all.append(line)

    def add(self, line: str) -> None:
        """Add a line that is not an event, such as a decision."""
        line = visible_lines(line)
        self._said.append(line)
        self._all.append(line)

    def taken(self) -> list[str]:
        """Remove and return all lines."""
        return _emptied(self._all)

    def said(self) -> list[str]:
        """Remove and return the lines that are not events."""
        return _emptied(self._said)


def _emptied(lines: deque[str]) -> list[str]:
    taken = list(lines)
    lines.clear()
    return taken


def show_logs(say: Callable[[str], object]) -> None:
    """Show what goes wrong inside among the events, where it does not break the screen."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            first, *more = self.format(record).splitlines()
            say(f"         ! {first}")
            for line in more:
                say(f"           {line}")

    logging.basicConfig(
        level=logging.WARNING, format="%(message)s", handlers=[Handler()], force=True
    )


def overview(
    nodes: Iterable[JsonObject],
    pods: Iterable[JsonObject],
    now: datetime,
    price_of: Callable[[Mapping[str, str]], float | None] = lambda labels: None,
    *,
    claims: Iterable[JsonObject] = (),
    has_estimates: bool = False,
) -> Overview:
    """Reduce a cluster to what a screen shows, without the pod of the controllers.

    NodeClaims that have no node yet come first, so that they are seen in a large cluster too.
    """
    load = _Load(pods)
    by_provider_id = {_provider_id(claim): claim for claim in claims}
    rows = {}
    ready = 0
    for node in nodes:
        metadata = node["metadata"]
        ready += is_true(node, "Ready")
        name, labels = metadata["name"], metadata.get("labels") or {}
        room = (node.get("status") or {}).get("allocatable") or {}
        provider_id = (node.get("spec") or {}).get("providerID")
        claim = by_provider_id.pop(provider_id, None) if provider_id else None
        rows[name] = NodeRow(
            name=name,
            status=node_status(node, claim),
            zone=labels.get(_ZONE, ""),
            kind=labels.get(_TYPE, ""),
            pods=load.pods[name],
            cpu=_share(load.cpu[name], millis(room.get("cpu", 0))),
            memory=_share(load.memory[name], units(room.get("memory", 0))),
            price=price_of(labels),
            age=_age(metadata, now),
        )
    coming = {
        claim["metadata"]["name"]: _claim_row(claim, now, price_of)
        for claim in by_provider_id.values()
    }
    ordered = [
        *(coming[name] for name in screen.in_order(coming)),
        *(rows[name] for name in screen.in_order(rows)),
    ]
    return Overview(ordered, ready, load.phases, has_estimates)


def overview_of(cluster: "Cluster", prices: "Prices") -> Overview:
    """A running cluster as the screen shows it."""
    list_of = cluster.store.list
    return overview(
        list_of("", "nodes"),
        list_of("", "pods"),
        cluster.clock.now(),
        prices.of,
        claims=list_of("karpenter.sh", "nodeclaims"),
        has_estimates=prices.are_estimates,
    )


class _Load:
    """The pods of a cluster by phase, and the requests of those on each node."""

    def __init__(self, pods: Iterable[JsonObject]) -> None:
        self.phases: Counter[str] = Counter()
        self.pods: Counter[str] = Counter()
        self.cpu: Counter[str] = Counter()
        self.memory: Counter[str] = Counter()
        for pod in pods:
            if not runs_here(pod):
                self._add(pod)

    def _add(self, pod: JsonObject) -> None:
        self.phases[_phase(pod)] += 1
        name = pod["spec"].get("nodeName")
        if not name or (pod.get("status") or {}).get("phase") in _FINISHED:
            return
        self.pods[name] += 1
        for container in pod["spec"].get("containers") or ():
            requests = (container.get("resources") or {}).get("requests") or {}
            self.cpu[name] += millis(requests.get("cpu", 0))
            self.memory[name] += units(requests.get("memory", 0))


def _provider_id(claim: JsonObject) -> str:
    """What ties a NodeClaim to its node; one without a node is identified by its name."""
    known: str | None = (claim.get("status") or {}).get("providerID")
    return known or f"claim {claim['metadata']['name']}"


def _claim_row(
    claim: JsonObject, now: datetime, price_of: Callable[[Mapping[str, str]], float | None]
) -> NodeRow:
    metadata = claim["metadata"]
    labels = metadata.get("labels") or {}
    return NodeRow(
        name=metadata["name"],
        status=claim_status(claim),
        zone=labels.get(_ZONE, ""),
        kind=labels.get(_TYPE, ""),
        pods=0,
        cpu="-",
        memory="-",
        price=price_of(labels),
        age=_age(metadata, now),
        is_claim=True,
    )


def _age(metadata: JsonObject, now: datetime) -> str:
    return age_text((now - parse_timestamp(metadata["creationTimestamp"])).total_seconds())


def node_status(node: JsonObject, claim: JsonObject | None = None) -> str:
    """The state of a node in one word, or in two where it is cordoned besides."""
    if "deletionTimestamp" in node["metadata"]:
        return "Deleting"
    if claim is not None and not is_true(claim, REGISTERED):
        return claim_status(claim)
    spec = node.get("spec") or {}
    if any(taint.get("key") == _DISRUPTED for taint in spec.get("taints") or ()):
        return "Draining"
    condition = find_condition(node, "Ready")
    if condition is None:
        status = "Booting"
    elif condition["status"] == "True":
        status = "Ready" if claim is None else claim_status(claim)
    else:
        status = "Unreachable" if condition["status"] == "Unknown" else "NotReady"
    if spec.get("unschedulable"):
        return "Cordoned" if status == "Ready" else f"{status},Cordoned"
    return status


def claim_status(claim: JsonObject) -> str:
    """How far a NodeClaim has come."""
    if "deletionTimestamp" in claim["metadata"]:
        return "Deleting"
    for condition, status in _STAGES:
        if not is_true(claim, condition):
            return status
    return "Ready"


def event_line(event: JsonObject) -> str:
    """An event in one line: time, type, object and message."""
    moment = event.get("lastTimestamp") or event.get("eventTime") or ""
    about = event.get("involvedObject") or {}
    parts = (about.get("kind", "").lower(), about.get("namespace"), about.get("name"))
    if about.get("namespace") == "default":
        parts = (parts[0], None, parts[2])
    name = "/".join(part for part in parts if part)
    mark = "!" if event.get("type") == "Warning" else " "
    said = f"{name} {event.get('reason', '')}: {event.get('message', '')}"
    return visible(f"{moment[11:19]} {mark} {said}")


def age_text(seconds: float) -> str:
    """An age in its largest unit."""
    number, unit = in_largest_unit(in_seconds(seconds))
    return f"{number}{unit}"


def laid_out(
    view: Overview, events: Iterable[str], *, headline: str, columns: int, lines: int
) -> "RenderableType":
    """The redrawn area of a screen of that size; the rest is for the lines above it."""
    from rich.console import Group

    room = lines - lines // _FOR_DECISIONS
    summary = textwrap.wrap(view.summary, columns)
    recent = list(events)[-(lines // _LINES_PER_EVENT) :] if lines >= _LINES_PER_EVENT else []
    blank = screen.words("")
    below = [blank, *map(_event_text, recent)] if recent else []
    below.append(blank)  # separates later output from the area
    around = len(summary) + len(below) + _OTHER_LINES
    if room < around + _FEWEST_ROWS:
        return Group(*_on_a_small_screen(view, headline, columns, lines))
    shown = view.nodes[: room - around]
    parts: list[Any] = [blank, screen.words(headline, "bold"), *map(screen.words, summary), blank]
    if shown:
        parts.append(_node_table(shown, columns, has_estimates=view.has_estimates))
    else:
        hint = "  no nodes; start with --nodes 3 to have some from the beginning"
        parts.append(screen.words(hint, "dim"))
    if len(view.nodes) > len(shown):
        parts.append(screen.words(_more(view, shown), "dim"))
    return Group(*parts, *below)


def _on_a_small_screen(
    view: Overview, headline: str, columns: int, lines: int
) -> "Iterator[RenderableType]":
    """The layout without margins and events: headline, summary, and as many nodes as fit."""
    yield screen.words(headline, "bold")
    room = max(0, lines - lines // _FOR_DECISIONS - 1)
    summary = textwrap.wrap(view.summary, columns)[:room]
    yield from map(screen.words, summary)
    room -= len(summary) + 2  # the names of the columns, and how many more
    if room > 0 and view.nodes:
        shown = view.nodes[:room]
        yield _node_table(shown, columns, has_estimates=view.has_estimates)
        if len(view.nodes) > len(shown):
            yield screen.words(_more(view, shown), "dim")


def _more(view: Overview, shown: list[NodeRow]) -> str:
    return f"  and {len(view.nodes) - len(shown):,} more"


def _node_table(rows: list[NodeRow], room: int, *, has_estimates: bool) -> "RenderableType":
    pods = ["-" if row.is_claim else f"{row.pods:,}" for row in rows]
    least = _SHORTEST_STATUS if room < _NARROW else 0  # else other columns shrink first
    return screen.fitted(
        [
            screen.Column("NODE", [row.name for row in rows], least=_SHORTEST_NAME),
            screen.Column("STATUS", [row.status for row in rows], least=least),
            screen.Column("TYPE", [row.kind for row in rows], may_go=2, least=_SHORTEST_TYPE),
            screen.Column("ZONE", [row.zone for row in rows], may_go=1, least=_SHORTEST_ZONE),
            screen.Column("PODS", pods, is_number=True, may_go=5),
            screen.Column("CPU", [row.cpu for row in rows], is_number=True, may_go=4),
            screen.Column("MEM", [row.memory for row in rows], is_number=True, may_go=4),
            *_price_column(rows, has_estimates=has_estimates),
            screen.Column("AGE", [row.age for row in rows], is_number=True, may_go=6),
        ],
        room,
    )


def _price_column(rows: list[NodeRow], *, has_estimates: bool) -> list[screen.Column]:
    if all(row.price is None for row in rows):
        return []
    prices = [
        "-"
        if row.price is None
        else screen.in_column(screen.per_hour(row.price, is_estimate=has_estimates))
        for row in rows
    ]
    return [screen.Column("$/HOUR", prices, is_number=True, may_go=3)]


def said_text(line: str) -> "Text":
    """A line that stays, wrapped where it is too long."""
    is_trouble = line.lstrip("0123456789: ").startswith("!")
    if is_trouble:
        return screen.words(line, screen.WAITING)
    return screen.words(line, screen.TITLE if line.startswith("$ ") else "")


def _event_text(line: str) -> "Text":
    text = screen.words(line, screen.WAITING if line[9:10] == "!" else screen.QUIET)
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _phase(pod: JsonObject) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    phase: str = (pod.get("status") or {}).get("phase") or "Pending"
    return phase


def _share(part: int, whole: int) -> str:
    return f"{100 * part // whole}%" if whole else "-"
