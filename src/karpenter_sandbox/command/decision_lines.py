"""The decisions of the controllers as sentences, for the display of a sandbox.

A few log entries become one short line each; the others are omitted unless they are errors. The
full log is kept as well.
"""

import contextlib
from collections.abc import Callable, Mapping, MutableMapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias, cast

import structlog
from structlog.typing import FilteringBoundLogger, WrappedLogger

from karpenter.console import screen
from karpenter.telemetry.logs import line_processors

Entry: TypeAlias = Mapping[str, Any]
_INFO: Final = 20
_ERRORS: Final = ("error", "exception", "critical")
_AGAIN_AFTER: Final = timedelta(minutes=10)  # until a persisting error is shown again


def decision_logger(
    say: Callable[[str], object],
    now: Callable[[], datetime],
    keep: Callable[[datetime, str], object] = lambda moment, line: None,
    commit: str = "",
) -> FilteringBoundLogger:
    """Return a logger that passes the decisions among its entries to ``say``.

    All of them go to ``keep`` as the lines that ``karpenter controller`` of that revision writes.
    """
    processors = line_processors(now, commit)
    shown: dict[str, datetime] = {}  # errors, and when they were last shown

    def write(target: WrappedLogger, method: str, event: Any) -> None:
        with contextlib.suppress(structlog.DropEvent):  # the rate limit of repeated lines
            for process in processors:
                event = process(target, method, event)
            keep(now(), str(event))

    def show(target: WrappedLogger, method: str, event: MutableMapping[str, Any]) -> str:
        write(target, method, dict(event))
        text = sentence(method, str(event.get("event", "")), event)
        if text and not (method in _ERRORS and _is_known(shown, text, now())):
            say(f"{now():%H:%M:%S} {text}")
        raise structlog.DropEvent

    logger = structlog.wrap_logger(
        None,
        processors=[show],
        wrapper_class=structlog.make_filtering_bound_logger(_INFO),
        cache_logger_on_first_use=True,
    )
    return cast(FilteringBoundLogger, logger)


def _is_known(shown: dict[str, datetime], text: str, now: datetime) -> bool:
    """Whether an error was shown recently; if not, record that it is shown now."""
    for old in [each for each, moment in shown.items() if now - moment >= _AGAIN_AFTER]:
        del shown[old]
    is_known = text in shown
    shown.setdefault(text, now)
    return is_known


def sentence(method: str, message: str, entry: Entry) -> str:
    """The sentence for a log entry; empty for entries that are not shown."""
    show = _SENTENCES.get(message)
    if show is not None:
        return show(entry)
    if method in _ERRORS:
        return f"! {message}: {entry.get('error', '')}".rstrip(": ")
    return ""


def _computed(entry: Entry) -> str:
    pods, claims = int(entry.get("pods", 0)), int(entry.get("nodeclaims", 0))
    verb = "has" if pods == 1 else "have"
    needed = screen.counted(claims, "new node")
    return f"{screen.counted(pods, 'pod')} {verb} no place: {needed} needed"


def _created(entry: Entry) -> str:
    wanted = entry.get("requests") or {}
    needs = ", ".join(f"{wanted[name]} {name}" for name in ("cpu", "memory") if name in wanted)
    listed, _, hidden = str(entry.get("instance-types", "")).partition(" and ")
    first, *others = listed.split(", ")
    more = len(others) + int(hidden.partition(" ")[0] or 0)
    choice = f"{first} or {screen.counted(more, 'other type')}" if more else first
    purchase = " on ".join(filter(None, (needs, choice)))  # claims of static pools have neither
    return f"asking for {_name(entry, 'NodeClaim')}: {purchase or 'any type its pool allows'}"


def _launched(entry: Entry) -> str:
    kind, place = entry.get("instance-type"), entry.get("zone")
    bought = entry.get("capacity-type")
    return f"launched {_name(entry, 'NodeClaim')}: {kind}, {bought}, in {place}"


def _not_placed(entry: Entry) -> str:
    return f"! no place for pod {_name(entry, 'Pod')}: {entry.get('error', '')}"


def _waiting(entry: Entry) -> str:
    return f"pod {_name(entry, 'Pod')} {entry.get('reason', '')}"


def _disrupting(entry: Entry) -> str:
    reason = str(entry.get("reason", "")).lower()
    count = int(entry.get("disrupted-node-count", 1))
    replaced = int(entry.get("replacement-node-count", 0))
    instead = f", with {screen.counted(replaced, 'node')} in place" if replaced else ""
    return f"removing {screen.counted(count, 'node')} because {reason}{instead}"


_SENTENCES: Final[Mapping[str, Callable[[Entry], str]]] = {
    "computed new nodeclaim(s) to fit pod(s)": _computed,
    "created nodeclaim": _created,
    "launched nodeclaim": _launched,
    "registered nodeclaim": lambda entry: f"{_name(entry, 'NodeClaim')} has joined the cluster",
    "initialized nodeclaim": lambda entry: f"{_name(entry, 'NodeClaim')} is ready for pods",
    "could not schedule pod": _not_placed,
    "pod has to wait for another pass": _waiting,
    "disrupting node(s)": _disrupting,
    "tainted node": lambda entry: f"draining {_claim_of(_name(entry, 'Node'))}",
    "deleted nodeclaim": lambda entry: f"{_name(entry, 'NodeClaim')} is gone",
}


def _name(entry: Entry, key: str) -> str:
    about = entry.get(key) or {}
    if not isinstance(about, Mapping):
        return str(about)
    return "/".join(filter(None, (about.get("namespace", ""), about.get("name", ""))))


def _claim_of(node: str) -> str:
    """The NodeClaim's name, extracted from the longer name of its simulated node."""
    parts = node.removeprefix("kwok-").split("-")
    return "-".join(parts[:-5]) if node.startswith("kwok-") and len(parts) > 5 else node
