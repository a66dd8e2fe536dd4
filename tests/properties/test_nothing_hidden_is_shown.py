"""Whatever objects say, nothing that commands print steers a terminal or hides in a name."""

import io
import json
from collections.abc import Iterable
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from helpers.cluster_texts import machine, node, pod, pool
from helpers.commands import Ran, run
from helpers.json_places import places
from karpenter.manifests.reader import read
from karpenter.settings import Settings
from karpenter.telemetry.logs import configure_logging
from karpenter.visible import has_hidden
from karpenter_sandbox.command.live_view import EventFeed, event_line, laid_out, overview, said_text

Json = dict[str, Any]

LEGACY = Path(__file__).resolve().parents[2] / "examples" / "legacy"
TO_CONVERT: list[Json] = [
    document.data
    for path in sorted(LEGACY.glob("*.yaml"))
    for document in read(path.read_bytes(), path.name)
]
CLUSTER: list[Json] = [pool(), *machine("n1"), node("n2"), pod("web", cpu="2"), pod("huge", "999")]
# Escapes of terminals, text that reads backwards, characters without width, odd breaks
HOSTILE = [
    *("\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\x00", "\x08", "\r", "\x7f", "\x85"),
    *("\u202e", "\u2066", "\u061c", "\u200b", "\u200d", "\ufeff", "\u2028", "\xad"),
    *("\U000e0041", "\n", "\t", "[red]", "a", "é"),
]
HALF = "\ud800"  # of a character, which no JSON may hold
texts = st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4).map("".join)
any_texts = st.lists(st.sampled_from([*HOSTILE, HALF]), min_size=1, max_size=4).map("".join)
quickly = settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@st.composite
def poisoned(draw: st.DrawFn, items: list[Json]) -> str:
    """Good objects in which some texts and some keys are no longer what they were."""
    changed = deepcopy(items)
    for item in changed:
        if item["kind"] in ("Node", "Pod"):
            item["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": draw(texts)}
        if item["kind"] == "Node":
            taint = {"key": "a", "value": draw(texts), "effect": "NoSchedule"}
            item.setdefault("spec", {})["taints"] = [taint]
    for _ in range(draw(st.integers(0, 2))):
        found = [spot for item in changed for spot in places(item)]
        container, key = found[draw(st.integers(0, len(found) - 1))]
        if isinstance(key, str) and draw(st.booleans()):
            container[f"{key}{draw(texts)}"] = container.pop(key)
        elif isinstance(container[key], str) and draw(st.booleans()):
            container[key] += draw(texts)
        else:
            container[key] = draw(texts)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": changed})


def check(*runs: Ran) -> None:
    for ran in runs:
        assert not has_hidden(ran.out), repr(ran.out)
        assert not has_hidden(ran.err), repr(ran.err)


@quickly
@given(poisoned(CLUSTER), st.sampled_from(["table", "json", "yaml"]))
def test_plans(cluster: str, form: str) -> None:
    ran = run("plan", "-", "-o", form, stdin=cluster)

    check(ran)
    if form == "json" and ran.code == 0:
        json.loads(ran.out)


@quickly
@given(poisoned(CLUSTER), texts)
def test_explanations(cluster: str, name: str) -> None:
    for what in (("pod", "web"), ("pod", "huge"), ("node", "n1"), ("nodepool", "general")):
        check(run("explain", *what, "-", stdin=cluster))
    if "\x00" not in name:  # which no shell hands over
        check(run("explain", "pod", f"x{name}", "-", stdin=cluster))


@quickly
@given(poisoned(TO_CONVERT), st.sampled_from(["json", "yaml"]))
def test_conversions(objects: str, form: str) -> None:
    check(run("convert", "-", "-o", form, stdin=objects))


@quickly
@given(any_texts, any_texts, any_texts)
def test_the_view_of_a_sandbox(name: str, kind: str, message: str) -> None:
    labels = {"node.kubernetes.io/instance-type": kind, "topology.kubernetes.io/zone": kind}
    machine = {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    waiting = {"metadata": {"name": name}, "spec": {}, "status": {"phase": message}}
    about = {"kind": kind, "namespace": name, "name": name}
    event = {"involvedObject": about, "reason": kind, "message": message, "lastTimestamp": name}
    feed = EventFeed()
    feed.recent.append(event_line(event))
    feed.add(f"         ! {message}")
    claim = {"metadata": machine["metadata"], "status": {}}

    view = overview([machine], [waiting], datetime(2026, 1, 1, tzinfo=UTC), claims=[claim])
    screen = laid_out(view, feed.recent, headline="now", columns=200, lines=40)
    console = Console(file=io.StringIO(), width=200, markup=False, emoji=False, highlight=False)
    console.print(screen, *map(said_text, feed.said()), sep="\n")

    assert isinstance(console.file, io.StringIO)
    none_hidden([console.file.getvalue(), *feed.taken()])
    assert "\n" not in event_line(event)


@pytest.mark.parametrize("form", ["json", "text"])
@quickly
@given(any_texts, any_texts)
def test_lines_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, form: str, name: str, message: str
) -> None:
    path = tmp_path_factory.mktemp("log") / "lines"
    log = configure_logging(Settings(log_output_paths=str(path), log_format=form))

    log.info(message, pod=name, error=ValueError(message), **{f"k{name}": [name]})

    written = path.read_text("utf-8")
    none_hidden([written])
    if form == "text":
        assert 1 == written.count("\n")
        return
    line = json.loads(written)
    assert (message, name) == (line["message"], line["pod"]) or HALF in name + message


def none_hidden(shown: Iterable[str]) -> None:
    for text in shown:
        assert not has_hidden(text), repr(text)
