"""DaemonSets: one pod on every node that the template allows."""

from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.owning import (
    BURST,
    BY_CONTROLLER,
    GATHERING,
    OwningController,
    by_age,
    nonzero,
)
from karpenter_sandbox.controllers.pods import (
    is_available,
    is_leaving,
    is_ready,
    next_available,
    phase,
)
from karpenter_sandbox.controllers.workloads.controller_revisions import POD_LABEL, History
from karpenter_sandbox.controllers.workloads.daemon_placement import (
    Verdict,
    daemon_pod,
    node_of_daemon,
    verdict,
)
from karpenter_sandbox.controllers.workloads.rollout import scaled_value
from karpenter_sandbox.runtime.events import NORMAL, WARNING
from karpenter_sandbox.runtime.informer import ObjectKey, key_of
from karpenter_sandbox.runtime.runtime import Runtime

_FIRST_BACKOFF: Final = 1.0
_LAST_BACKOFF: Final = 900.0


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, its verdict, and the pods there or on their way to it, the oldest first."""

    node: str
    verdict: Verdict
    pods: list[JsonObject]


@dataclass(slots=True)
class _Backoff:
    """Back-off of a daemon that keeps failing on one node."""

    seconds: float
    until: float


class DaemonSetController(OwningController):
    name = "daemonset-controller"
    resource = "daemonsets"
    kind = "DaemonSet"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._pods = runtime.informer("v1", "pods")
        self._nodes = runtime.informer("v1", "nodes")
        self._history = History(runtime, client, POD_LABEL)
        self._verdicts: dict[tuple[str, int], dict[str, Verdict]] = {}  # uid and generation -> node
        self._backoffs: dict[tuple[str, str], _Backoff] = {}  # (uid of the owner, node)
        self.own(self._pods)
        self.owners.on_change(self._forget_owner)
        self._nodes.on_change(self._follow_node)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Create and delete daemons until each node has what it should."""
        owner = self.owners.get(*key)
        if owner is None:
            return None
        await self.owned(owner, self._pods)
        revision = await self._history.latest(owner)
        code = revision["metadata"]["labels"][POD_LABEL]
        again: float | None = None
        if not is_leaving(owner):
            again = await self._manage(owner, code)
            await self._renew(owner, code)
        await self.write_status(owner, self._status(owner, code))
        await self._trim(owner, revision)
        pods = self._pods.by_index(BY_CONTROLLER, owner["metadata"]["uid"])
        seconds = owner["spec"].get("minReadySeconds", 0)
        waits = [again, next_available(pods, seconds, self.clock.now())]
        return min((wait for wait in waits if wait is not None), default=None)

    def _places(self, owner: JsonObject) -> list[_Place]:
        """All nodes, and the nodes that are gone but still have a pod waiting for them."""
        by_node: dict[str, list[JsonObject]] = {}
        uid = owner["metadata"]["uid"]
        for pod in self._pods.by_index(BY_CONTROLLER, uid):
            by_node.setdefault(node_of_daemon(pod), []).append(pod)
        known = self._verdicts.setdefault((uid, owner["metadata"].get("generation", 0)), {})
        places = []
        for node in self._nodes.list():
            name = node["metadata"]["name"]
            if name not in known:
                known[name] = verdict(owner, node)
            pods = by_node.pop(name, [])
            places.append(_Place(name, known[name], by_age(pods) if len(pods) > 1 else pods))
        gone = Verdict(False, False)
        # Bound pods on a vanished node are for the pod garbage collector
        waiting = {
            n: [p for p in pods if not p["spec"].get("nodeName")] for n, pods in by_node.items()
        }
        return places + [_Place(node, gone, pods) for node, pods in waiting.items() if pods]

    async def _manage(self, owner: JsonObject, code: str) -> float | None:
        missing: list[str] = []
        surplus: list[JsonObject] = []
        waits: list[float] = []
        for place in self._places(owner):
            if place.verdict.should_run and not place.pods:
                missing.append(place.node)
            elif not place.verdict.may_stay:
                surplus += [pod for pod in place.pods if not is_leaving(pod)]
            else:
                surplus += self._finished(owner, place, waits)
                surplus += self._superfluous(owner, place, code)
                if _surges(owner) and place.verdict.should_run and not _alive(place.pods):
                    missing.append(place.node)
        await self._delete(owner, surplus)
        await self._create(owner, missing, code)
        return min(waits, default=None)

    def _finished(self, owner: JsonObject, place: _Place, waits: list[float]) -> list[JsonObject]:
        """Daemons that have ended and are deleted; those in back-off add to ``waits``."""
        ended = []
        for pod in place.pods:
            where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']} on node {place.node}"
            if is_leaving(pod):
                continue
            if phase(pod) == "Succeeded":
                text = f"Found succeeded daemon pod {where}, will try to delete it"
                self.recorder.emit(owner, NORMAL, "SucceededDaemonPod", text)
                ended.append(pod)
            elif phase(pod) == "Failed":
                if (wait := self._wait(owner, place.node)) > 0:
                    waits.append(wait)
                    continue
                text = f"Found failed daemon pod {where}, will try to kill it"
                self.recorder.emit(owner, WARNING, "FailedDaemonPod", text)
                ended.append(pod)
        return ended

    def _wait(self, owner: JsonObject, node: str) -> float:
        """Remaining back-off of failed daemons on a node; zero counts as a replacement."""
        now = self.clock.monotonic()
        key = (owner["metadata"]["uid"], node)
        known = self._backoffs.get(key)
        if known is None or now - known.until > 2 * _LAST_BACKOFF:
            self._backoffs[key] = _Backoff(_FIRST_BACKOFF, now + _FIRST_BACKOFF)
            return 0.0
        if now < known.until:
            return known.until - now
        known.seconds = min(known.seconds * 2, _LAST_BACKOFF)
        known.until = now + known.seconds
        return 0.0

    def _superfluous(self, owner: JsonObject, place: _Place, code: str) -> list[JsonObject]:
        """All but one daemon of a node; while surging, all but one of each template."""
        running = _alive(place.pods)
        if len(running) < 2:
            return []
        if not _surges(owner):
            return running[1:]
        new = [pod for pod in running if _code(pod) == code]
        old = [pod for pod in running if _code(pod) != code]
        surplus = new[1:] + old[1:]
        if new and old:
            seconds = owner["spec"].get("minReadySeconds", 0)
            if not is_ready(old[0]) or is_available(new[0], seconds, self.clock.now()):
                surplus.append(old[0])
        return surplus

    async def _renew(self, owner: JsonObject, code: str) -> None:
        """Replace daemons of an older template, within maxUnavailable and maxSurge."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        places = self._places(owner)
        rules = strategy.get("rollingUpdate") or {}
        wanted = sum(place.verdict.should_run for place in places)
        seconds, now = owner["spec"].get("minReadySeconds", 0), self.clock.now()
        old: list[tuple[str, JsonObject]] = []
        broken: list[tuple[str, JsonObject]] = []
        down = surging = 0
        for place in places:
            running = _alive(place.pods)
            outdated = [pod for pod in running if _code(pod) != code]
            is_up = any(is_available(pod, seconds, now) for pod in running)
            down += place.verdict.should_run and not is_up
            surging += bool(outdated) and len(running) > 1
            if outdated and len(running) == 1:
                (old if is_up else broken).append((place.node, outdated[0]))
        if _surges(owner):
            most = scaled_value(rules.get("maxSurge", 0), wanted, round_up=True)
            nodes = [node for node, _ in broken + old[: max(0, most - surging)]]
            await self._create(owner, nodes, code)
            return
        most = max(1, scaled_value(rules.get("maxUnavailable", 1), wanted, round_up=True))
        await self._delete(owner, [pod for _, pod in broken + old[: max(0, most - down)]])

    async def _create(self, owner: JsonObject, nodes: list[str], code: str) -> None:
        template = owner["spec"]["template"]
        for node in nodes[:BURST]:
            await self.create_pod(owner, daemon_pod(owner, node, template, code))
        if len(nodes) > BURST:
            self.queue.add(key_of(owner))

    async def _delete(self, owner: JsonObject, pods: list[JsonObject]) -> None:
        for pod in pods:
            await self.delete_pod(owner, pod)

    async def _trim(self, owner: JsonObject, revision: JsonObject) -> None:
        codes = {_code(pod) for pod in self._pods.by_index(BY_CONTROLLER, owner["metadata"]["uid"])}
        used = {
            entry["metadata"]["name"]
            for entry in self._history.all(owner)
            if entry["metadata"]["labels"].get(POD_LABEL) in codes
        }
        await self._history.trim(owner, used | {revision["metadata"]["name"]})

    def _status(self, owner: JsonObject, code: str) -> JsonObject:
        seconds, now = owner["spec"].get("minReadySeconds", 0), self.clock.now()
        places = self._places(owner)
        meant = [place for place in places if place.verdict.should_run]
        pods = [place.pods[0] for place in meant if place.pods]
        available = sum(is_available(pod, seconds, now) for pod in pods)
        counts: dict[str, Any] = {
            "numberAvailable": available,
            "numberUnavailable": len(meant) - available,
            "observedGeneration": owner["metadata"].get("generation", 0),
            "updatedNumberScheduled": sum(_code(pod) == code for pod in pods),
        }
        return {
            "currentNumberScheduled": len(pods),
            "desiredNumberScheduled": len(meant),
            "numberMisscheduled": sum(
                bool(place.pods) and not place.verdict.should_run for place in places
            ),
            "numberReady": sum(is_ready(pod) for pod in pods),
            **nonzero(counts),
        }

    def _follow_node(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is not None and new is not None and _placement(old) == _placement(new):
            return
        name = (new or old or {})["metadata"]["name"]
        for verdicts in self._verdicts.values():
            verdicts.pop(name, None)
        for owner in self.owners.list():
            self.queue.add_after(key_of(owner), GATHERING)

    def _forget_owner(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is None:
            return
        uid, generation = old["metadata"]["uid"], old["metadata"].get("generation", 0)
        if new is None or new["metadata"].get("generation", 0) != generation:
            self._verdicts.pop((uid, generation), None)
        if new is None:
            self._backoffs = {k: v for k, v in self._backoffs.items() if k[0] != uid}


def _placement(node: JsonObject) -> tuple[object, object]:
    """What decides whether daemons belong on a node."""
    return node["metadata"].get("labels"), (node.get("spec") or {}).get("taints")


def _surges(owner: JsonObject) -> bool:
    strategy = owner["spec"].get("updateStrategy") or {}
    surge = (strategy.get("rollingUpdate") or {}).get("maxSurge", 0)
    return surge not in (0, "0%")


def _alive(pods: list[JsonObject]) -> list[JsonObject]:
    return [p for p in pods if not is_leaving(p) and phase(p) not in ("Failed", "Succeeded")]


def _code(pod: JsonObject) -> str:
    code: str = (pod["metadata"].get("labels") or {}).get(POD_LABEL, "")
    return code
