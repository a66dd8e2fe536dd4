"""What people see of a running sandbox: its nodes, its pods and what has just happened.

``overview`` shrinks the cluster to what a screen shows and is pure; the rest lays it out. Where
there is no terminal, each event becomes a line of its own.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.cli import screen
from karpenter.cli.sandbox_deployment import runs_here
from karpenter.model.quantity import millis, units
from karpenter.sandbox.backend import parse_timestamp
from karpenter.sandbox.conditions import find_condition
from karpenter.visible import visible, visible_lines

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from karpenter.sandbox.store import Event

JsonObject = dict[str, Any]

_ZONE: Final = "topology.kubernetes.io/zone"
_TYPE: Final = "node.kubernetes.io/instance-type"
_FINISHED: Final = ("Succeeded", "Failed")
_FEWEST_NODES: Final = 3
_RECENT: Final = 8
_AROUND: Final = 10  # lines that are neither nodes nor events
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as the screen shows it."""

    name: str
    status: str
    zone: str
    kind: str
    pods: int
    cpu: str  # what is asked for of what there is
    memory: str
    price: float | None  # dollars an hour, where it is known
    age: str


@dataclass(frozen=True, slots=True)
class Overview:
    """A cluster as the screen shows it."""

    nodes: list[NodeRow]
    ready: int
    phases: Counter[str]
    has_estimates: bool = False  # instead of prices that a cloud has told

    @property
    def summary(self) -> str:
        """The cluster in one line."""
        nodes = f"{screen.counted(len(self.nodes), 'node')}, {self.ready} ready"
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
        unknown = len(self.nodes) - len(known)
        return f"{cost} and {screen.counted(unknown, 'node')} of unknown price" if unknown else cost


class EventFeed:
    """The latest events, as lines."""

    def __init__(self, is_hidden: Callable[[JsonObject], bool] | None = None) -> None:
        self._is_hidden = is_hidden
        self.recent: deque[str] = deque(maxlen=_RECENT)
        self.fresh: deque[str] = deque(maxlen=1000)

    def follow(self, change: "Event") -> None:
        """Take in a change of the store."""
        key = change.stored.key
        if (key.group, key.resource) == ("", "events") and change.type != "DELETED":
            # read anew, so that the store does not keep what only this line is made from
            event = msgspec.json.decode(change.stored.data)
            if self._is_hidden is None or not self._is_hidden(event):
                self.add(event_line(event))

    def add(self, line: str) -> None:
        """Show a line as the latest one."""
        line = visible_lines(line)
        self.recent.append(line)
        self.fresh.append(line)

    def taken(self) -> list[str]:
        """The lines since this was asked last."""
        lines = list(self.fresh)
        self.fresh.clear()
        return lines


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
    has_estimates: bool = False,
) -> Overview:
    """Shrink a cluster to what a screen shows: the pod of the controllers is not among it."""
    phases: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    cpu: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for pod in pods:
        if runs_here(pod):
            continue
        phases[_phase(pod)] += 1
        name = pod["spec"].get("nodeName")
        if not name or (pod.get("status") or {}).get("phase") in _FINISHED:
            continue
        counts[name] += 1
        for container in pod["spec"].get("containers") or ():
            requests = (container.get("resources") or {}).get("requests") or {}
            cpu[name] += millis(requests.get("cpu", 0))
            memory[name] += units(requests.get("memory", 0))
    rows = []
    ready = 0
    for node in nodes:
        metadata, status = node["metadata"], node_status(node)
        ready += status.startswith("Ready")
        name, labels = metadata["name"], metadata.get("labels") or {}
        room = (node.get("status") or {}).get("allocatable") or {}
        rows.append(
            NodeRow(
                name=name,
                status=status,
                zone=labels.get(_ZONE, ""),
                kind=labels.get(_TYPE, ""),
                pods=counts[name],
                cpu=_share(cpu[name], millis(room.get("cpu", 0))),
                memory=_share(memory[name], units(room.get("memory", 0))),
                price=price_of(labels),
                age=age_text(
                    (now - parse_timestamp(metadata["creationTimestamp"])).total_seconds()
                ),
            )
        )
    by_name = {row.name: row for row in rows}
    ordered = [by_name[name] for name in screen.in_order(by_name)]
    return Overview(ordered, ready, phases, has_estimates)


def node_status(node: JsonObject) -> str:
    """The state of a node in the words of ``kubectl``."""
    condition = find_condition(node, "Ready")
    if condition is None:
        status = "Booting"
    elif condition["status"] == "Unknown":
        status = "Unreachable"
    else:
        status = "Ready" if condition["status"] == "True" else "NotReady"
    if (node.get("spec") or {}).get("unschedulable"):
        status += ",SchedulingDisabled"
    return f"{status},Deleting" if "deletionTimestamp" in node["metadata"] else status


def event_line(event: JsonObject) -> str:
    """An event in one line: when, how serious, what about, and what it says."""
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
    """An age in the unit that says most."""
    for unit, letter in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if seconds >= 2 * unit:
            return f"{int(seconds // unit)}{letter}"
    return f"{max(0, int(seconds))}s"


def laid_out(
    view: Overview, events: Iterable[str], *, headline: str, height: int
) -> "RenderableType":
    """The whole screen."""
    from rich.console import Group

    lines: list[Any] = [
        screen.words(headline, "bold"),
        screen.words(view.summary),
        screen.words(""),
    ]
    recent = list(events)
    room = max(_FEWEST_NODES, height - _AROUND - len(recent))
    shown = view.nodes[:room]
    if shown:
        lines.append(_node_table(shown, has_estimates=view.has_estimates))
    else:
        lines.append(screen.words("  no nodes yet; start with --nodes 3 to have some", "dim"))
    if len(view.nodes) > len(shown):
        lines.append(screen.words(f"  and {len(view.nodes) - len(shown):,} more", "dim"))
    lines += [screen.words(""), *(_event_text(line) for line in recent)]
    return Group(*lines)


def _node_table(rows: list[NodeRow], *, has_estimates: bool) -> "RenderableType":
    return screen.fitted(
        [
            screen.Column("NODE", [row.name for row in rows]),
            screen.Column("STATUS", [row.status for row in rows]),
            screen.Column("TYPE", [row.kind for row in rows], may_go=2),
            screen.Column("ZONE", [row.zone for row in rows], may_go=1),
            screen.Column("PODS", [f"{row.pods:,}" for row in rows], is_number=True),
            screen.Column("CPU", [row.cpu for row in rows], is_number=True),
            screen.Column("MEMORY", [row.memory for row in rows], is_number=True),
            *_price_column(rows, has_estimates=has_estimates),
            screen.Column("AGE", [row.age for row in rows], is_number=True),
        ]
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
