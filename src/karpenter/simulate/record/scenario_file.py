"""The scenario that a recording replays as."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter.manifests.writer import dump
from karpenter.model import labels
from karpenter.simulate.record.facts import Facts
from karpenter.simulate.record.mishaps import Mishaps
from karpenter.simulate.record.prices import PriceBook
from karpenter.simulate.record.segments import PATTERN, Key
from karpenter.simulate.scenario.models import API_VERSION, KIND

NAME: Final = "scenario.yaml"
_HEAD: Final = """\
# Written by `karpenter record` while it runs: copy it before you change it.
# Run it with: karpenter simulate {file}
apiVersion: {api_version}
kind: {kind}
metadata:
  name: recording
  description: what was recorded of a cluster
start: {start}
until: {until}s
workloads:
- name: recorded
  recording:
    file: {pattern}
"""
_CLASS: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass"}
_OF_CLUSTER: Final = ("uid", "creationTimestamp", "deletionTimestamp", "ownerReferences")


class Supply:
    """What pods of a recording can run on, as it was first seen."""

    def __init__(self) -> None:
        self._pools: dict[Key, JsonObject] = {}
        self._nodes: dict[Key, JsonObject] = {}
        self._text: str | None = None

    def begin(self, objects: Iterable[tuple[Key, JsonObject]]) -> None:
        """Take what is there when the recording begins."""
        self._nodes.clear()
        for key, obj in objects:
            if key[0] == "Node" and not _is_of_pool(obj):
                self._nodes[key] = obj
            self.take(key, obj)
        self._text = None

    def take(self, key: Key, obj: JsonObject) -> None:
        """Take an object; pools and overlays that come later count as well."""
        if key[0] in ("NodePool", "NodeOverlay") and key not in self._pools:
            self._pools[key] = obj
            self._text = None

    def text(self) -> str:
        """Its objects as documents."""
        if self._text is None:
            found = [*self._pools.values(), *self._nodes.values()]
            self._text = "".join(f"---\n{dump(_cleaned(obj))}" for obj in found)
        return self._text


class ScenarioText:
    """The scenario of what was recorded so far; written again and again, so little is made anew."""

    def __init__(
        self, facts: Facts, mishaps: Mishaps, supply: Supply, prices: PriceBook | None = None
    ) -> None:
        self._prices = prices
        self._facts = facts
        self._mishaps = mishaps
        self._supply = supply
        self._machines: tuple[int, str] = (-1, "")  # how many facts there were, and their text
        self._timeline: tuple[int, int, str] = (-1, -1, "")  # how many, since when, and their text

    def text(self, since: float, until: float) -> str:
        """The scenario of a recording from one time of day to another."""
        start = int(since)
        if self._machines[0] != self._facts.count:
            machines = self._facts.machines()
            said = dump({"machines": machines}) if machines else ""
            self._machines = (self._facts.count, said)
        head = _HEAD.format(
            api_version=API_VERSION,
            kind=KIND,
            file=NAME,
            start=f"{datetime.fromtimestamp(start, UTC):%Y-%m-%dT%H:%M:%SZ}",
            until=max(1, int(until - start)),
            pattern=PATTERN,
        )
        if self._timeline[:2] != (self._mishaps.count, start):
            timeline = self._mishaps.timeline(start, until)
            said = dump({"timeline": timeline}) if timeline else ""
            self._timeline = (self._mishaps.count, start, said)
        prices = self._prices.fields() if self._prices is not None else {}
        sold = dump(prices) if prices else ""
        return head + sold + self._machines[1] + self._timeline[2] + self._supply.text()


def _is_of_pool(node: JsonObject) -> bool:
    return labels.NODEPOOL in (node["metadata"].get("labels") or {})


def _cleaned(obj: JsonObject) -> JsonObject:
    """An object as a person would have written it."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _OF_CLUSTER}
    found = {**obj, "metadata": metadata}
    if obj["kind"] != "Node":
        found.pop("status", None)
        return _on_simulated_cloud(found)
    status = obj.get("status") or {}
    found["status"] = {key: status[key] for key in ("capacity", "allocatable") if key in status}
    return found


def _on_simulated_cloud(obj: JsonObject) -> JsonObject:
    """A pool whose machines the simulated cloud makes, whatever made those of the cluster."""
    template = (obj.get("spec") or {}).get("template") or {}
    spec = template.get("spec") or {}
    if "nodeClassRef" not in spec:
        return obj
    reference = {**_CLASS, "name": spec["nodeClassRef"].get("name", "default")}
    changed = {**template, "spec": {**spec, "nodeClassRef": reference}}
    return {**obj, "spec": {**obj["spec"], "template": changed}}
