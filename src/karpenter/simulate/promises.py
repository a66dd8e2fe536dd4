"""What must hold at every change of a simulated cluster, and what must hold when it is at rest.

A judge reads the store and the autoscaler's writes, and shares no code with what it judges. It reads
PodDisruptionBudgets, disruption budgets, deadlines and limits anew, in their plainest form: where the
plain form cannot tell, such as for a minute after a machine was lost, it does not accuse.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter.api.times import earlier, in_seconds, later
from karpenter.kube.transport import Request
from karpenter.model import durations, labels
from karpenter.model.cron import ScheduleError, parse_schedule
from karpenter.model.quantity import QuantityError, parse
from karpenter.simulate import invariants
from karpenter.simulate.seam import MachineEvent, Mark, PriceChange, View
from karpenter_sandbox.conditions import find_condition, is_true
from karpenter_sandbox.matching import read_selector
from karpenter_sandbox.store.store import Event, Key

PROMISES: Final = {
    "A1": "no PodDisruptionBudget is broken",
    "A2": "no disruption budget is exceeded",
    "A3": "no protected pod is evicted before its node's deadline",
    "A4": "pods leave by eviction alone, but past a deadline",
    "A6": "limits of pools hold",
}
AT_REST: Final = {
    "R1": "no instance without a claim, none twice, no claim without one",
    "R2": "no finalizer, mark or taint of the autoscaler is left over",
    "R3": "every pod runs",
    "R4": "every claim is Ready or going",
}
# Changes this recent may be missing from what a decision was based on
UNSEEN_SECONDS: Final = 60.0
_CLOCK_SECONDS: Final = 31.0  # that the controllers' time of day may be off
_GRACE: Final = 30
_MOST_TOLD: Final = 100
_DISRUPTED: Final = "karpenter.sh/disrupted"
_EVICTED: Final = "EvictionByEvictionAPI"


@dataclass(slots=True)
class Promise:
    """One promise: how often it was judged, and where it was broken."""

    id: str
    text: str
    judged: int = 0
    broken: list[JsonObject] = field(default_factory=list)

    def document(self) -> JsonObject:
        """The promise as reports have it."""
        return {"id": self.id, "promise": self.text, "judged": self.judged, "broken": self.broken}


@dataclass(frozen=True, slots=True)
class _AtRest:
    """The objects of a cluster."""

    nodes: Sequence[JsonObject]
    claims: Sequence[JsonObject]
    pods: Sequence[JsonObject]


class Judge:
    """An observer that judges promises."""

    def __init__(self, *, rests: bool = False) -> None:
        """Judge a run; ``rests`` says that it ends with a rest, after which all has to be settled."""
        self._rests = rests
        known = PROMISES | AT_REST if rests else PROMISES
        self._promises = {name: Promise(name, text) for name, text in known.items()}
        self._lost: dict[str, float] = {}  # nodes that are taken away from outside, and since when
        self._most: dict[str, list[tuple[float, int]]] = {}  # pool -> nodes it had, lately
        self._loosened: dict[str, float] = {}  # pools whose limits or budgets changed, and when
        self._tainted: set[str] = set()
        self._gone: dict[str, JsonObject] = {}  # pods deleted at this instant, by namespace/name
        self._instant = 0.0

    def begin(self, view: View) -> None:
        """Begin to judge."""
        self._view = view
        self._store = view.store

    def changed(self, event: Event) -> None:
        """The store has changed."""
        resource = event.stored.key.resource
        if resource == "pods":
            self._pod_changed(event)
        elif resource == "nodeclaims":
            self._claim_changed(event)
        elif resource == "nodepools":
            self._pool_changed(event)
        elif resource == "nodes" and not event.stored.key.group:
            self._node_changed(event)

    def machine(self, event: MachineEvent) -> None:
        """The cloud takes machines back; a decision made meanwhile cannot know."""
        if event.kind == "noticed" or event.cause in ("interrupted", "disappeared"):
            self._lost[event.name] = event.at

    def priced(self, change: PriceChange) -> None:
        """See nothing."""

    def marked(self, mark: Mark) -> None:
        """Nodes that a step hits are lost to others than the autoscaler."""
        self._lost |= dict.fromkeys(mark.nodes, mark.at)

    def wrote(self, request: Request) -> None:
        """The autoscaler has just changed something."""
        parts = request.path.split("/")
        if request.method == "DELETE" and len(parts) > 2 and parts[-2] == "pods":
            self._judge_deletion(parts[-3], parts[-1])
        elif (
            request.method == "PATCH"
            and parts[-2] == "nodes"
            and _DISRUPTED.encode() in request.body
        ):
            self._judge_budget(parts[-1])

    def finish(self) -> list[JsonObject]:
        """What was judged; at rest, the whole cluster as well."""
        if self._rests:
            self._judge_rest()
        return [promise.document() for promise in self._promises.values()]

    # --- Pods

    def _pod_changed(self, event: Event) -> None:
        obj, previous = event.obj, event.previous
        if previous is None:
            return
        metadata = obj["metadata"]
        before = previous.obj
        is_going = event.type == "DELETED" or "deletionTimestamp" in metadata
        if is_going and "deletionTimestamp" not in before["metadata"]:
            now = self._view.now()
            if now != self._instant:
                self._instant = now
                self._gone.clear()
            self._gone[f"{metadata['namespace']}/{metadata['name']}"] = before
        mark, known = (find_condition(each, "DisruptionTarget") for each in (obj, before))
        if mark is not None and mark.get("reason") == _EVICTED and known is None:
            self._judge_eviction(obj, before)

    def _judge_eviction(self, pod: JsonObject, before: JsonObject) -> None:
        name = _name(pod)
        self._judge_pdbs(pod, before)
        annotations = pod["metadata"].get("annotations") or {}
        if annotations.get(labels.DO_NOT_DISRUPT) == "true":
            deadline = self._deadline(pod)
            text = f"{name} has {labels.DO_NOT_DISRUPT} and was evicted before a deadline"
            self._judge("A3", "" if self._is_due(pod, deadline) else text)

    def _judge_pdbs(self, pod: JsonObject, before: JsonObject) -> None:
        metadata = pod["metadata"]
        if not is_true(before, "Ready") or "deletionTimestamp" in before["metadata"]:
            return  # no count of healthy pods has it
        for budget in self._store.list("policy", "poddisruptionbudgets", metadata["namespace"]):
            selector = read_selector(budget["spec"].get("selector"))
            if not selector.matches(metadata.get("labels") or {}):
                continue
            status = budget.get("status") or {}
            # The server notes a pod that it lets go before it does so
            if metadata["name"] in (status.get("disruptedPods") or {}):
                self._judge("A1", "")
                continue
            healthy = sum(
                is_true(each, "Ready") and "deletionTimestamp" not in each["metadata"]
                for each in self._store.list("", "pods", metadata["namespace"])
                if selector.matches(each["metadata"].get("labels") or {})
                if each["metadata"]["name"] != metadata["name"]
            )
            wanted = int(status.get("desiredHealthy", 0))
            text = (
                f"{_name(pod)} was evicted past PodDisruptionBudget {budget['metadata']['name']}:"
                f" {healthy} healthy pods are left of {wanted}"
            )
            self._judge("A1", text if healthy < wanted else "")

    def _judge_deletion(self, namespace: str, name: str) -> None:
        """Judge that the autoscaler has deleted a pod itself."""
        pod = self._gone.get(f"{namespace}/{name}") if self._view.now() == self._instant else None
        if pod is None or (pod.get("status") or {}).get("phase") != "Running":
            return
        deadline = self._deadline(pod)
        text = f"{namespace}/{name} was deleted, not evicted, and its node has no deadline by then"
        self._judge("A4", "" if self._is_due(pod, deadline) else text)

    def _deadline(self, pod: JsonObject) -> datetime | None:
        """When the node of a pod has to be gone."""
        node = (pod.get("spec") or {}).get("nodeName", "")
        claim = self._claim_of(node)
        text = (claim["metadata"].get("annotations") or {}).get(labels.TERMINATION_TIMESTAMP)
        return datetime.fromisoformat(text) if text else None

    def _is_due(self, pod: JsonObject, deadline: datetime | None) -> bool:
        """Whether a pod has to go now if it is to end before a deadline."""
        if deadline is None:
            return False
        needs = (pod.get("spec") or {}).get("terminationGracePeriodSeconds", _GRACE)
        moment = later(self._view.start, in_seconds(self._view.now() + _CLOCK_SECONDS + needs))
        return moment >= deadline

    # --- Nodes

    def _node_changed(self, event: Event) -> None:
        node = event.obj
        name, pool = node["metadata"]["name"], _pool_of(node)
        if event.type == "DELETED":
            self._tainted.discard(name)
        if pool and (event.type == "DELETED" or event.previous is None):
            now = self._view.now()
            seen = self._most.setdefault(pool, [])
            # Before and after: a decision may be based on either
            count = sum(_pool_of(each) == pool for each in self._store.list("", "nodes"))
            seen.append((now, count + (event.type == "DELETED")))
            self._most[pool] = [each for each in seen if now - each[0] <= 2 * UNSEEN_SECONDS]
        ready = find_condition(node, "Ready")
        if event.previous is not None and ready is not None and ready["status"] != "True":
            self._lost.setdefault(name, self._view.now())

    def _judge_budget(self, name: str) -> None:
        """Judge that a node was closed because the autoscaler wants it to go."""
        node = self._store.get(Key("", "nodes", "", name))
        if node is None or not _is_closed(node):
            self._tainted.discard(name)
            return
        claim, pool = self._claim_of(name), _pool_of(node)
        if name in self._tainted or not pool or "deletionTimestamp" in claim["metadata"]:
            return  # it goes for another reason, which no budget holds up
        self._tainted.add(name)
        now = self._view.now()
        if now - self._loosened.get(pool, -math.inf) <= UNSEEN_SECONDS:
            return
        nodes = [each for each in self._store.list("", "nodes") if _pool_of(each) == pool]
        going = [
            each["metadata"]["name"]
            for each in nodes
            if _is_closed(each)
            or "deletionTimestamp" in self._claim_of(each["metadata"]["name"])["metadata"]
            if each["metadata"]["name"] not in self._lost
        ]
        most = max([len(nodes), *(count for _, count in self._most.get(pool, ()))])
        allowed = self._allowed(pool, most)
        text = f"{len(going)} nodes of nodepool {pool} go at a time, {allowed} are allowed"
        self._judge("A2", text if allowed is not None and len(going) > allowed else "")

    def _allowed(self, pool: str, nodes: int) -> int | None:
        """How many nodes of a pool may go for whatever reason; None where nothing says so."""
        found = self._store.get(Key("karpenter.sh", "nodepools", "", pool))
        if found is None:
            return None
        budgets = found["spec"].get("disruption", {}).get("budgets") or [{"nodes": "10%"}]
        # One for certain reasons binds only decisions whose reason the store does not show
        values = [
            _share(str(budget.get("nodes", "10%")), nodes)
            for budget in budgets
            if not budget.get("reasons") and self._is_open(budget)
        ]
        return min(values, default=None)

    def _is_open(self, budget: JsonObject) -> bool:
        if not budget.get("schedule"):
            return True
        length = durations.period(str(budget.get("duration", "")))
        if length is None:
            return False
        # Twice, a minute apart: the decision was made a little before it was carried out
        moments = [
            later(self._view.start, in_seconds(self._view.now() - ago))
            for ago in (0.0, UNSEEN_SECONDS)
        ]
        try:
            schedule = parse_schedule(budget["schedule"])
            return all(schedule.next_after(earlier(moment, length)) <= moment for moment in moments)
        except ScheduleError:
            return False

    # --- Claims and pools

    def _claim_changed(self, event: Event) -> None:
        claim = event.obj
        metadata = claim["metadata"]
        node = (claim.get("status") or {}).get("nodeName")
        before = event.previous.obj["metadata"] if event.previous is not None else {}
        is_going = "deletionTimestamp" in metadata
        if is_going and "deletionTimestamp" not in before and node and node not in self._tainted:
            self._lost.setdefault(node, self._view.now())
        had = event.previous is not None and (event.previous.obj.get("status") or {}).get(
            "capacity"
        )
        if not had and (claim.get("status") or {}).get("capacity") and not is_going:
            self._judge_limits(_pool_of(claim))

    def _judge_limits(self, pool: str) -> None:
        found = self._store.get(Key("karpenter.sh", "nodepools", "", pool))
        limits = found["spec"].get("limits") if found is not None else None
        if not limits or self._view.now() - self._loosened.get(pool, -math.inf) <= UNSEEN_SECONDS:
            return
        claims = [
            (claim.get("status") or {}).get("capacity") or {}
            for claim in self._store.list("karpenter.sh", "nodeclaims")
            if _pool_of(claim) == pool
        ]
        for resource, most in limits.items():
            used = len(claims) if resource == "nodes" else sum(_sums(claims, resource))
            text = f"nodepool {pool} has {used:g} {resource}, its limit is {most}"
            self._judge("A6", text if used > _amount(most) * (1 + 1e-9) else "")

    def _pool_changed(self, event: Event) -> None:
        spec, previous = event.obj["spec"], event.previous
        if previous is None:
            return
        for part in ("limits", "disruption"):
            if spec.get(part) != previous.obj["spec"].get(part):
                self._loosened[event.obj["metadata"]["name"]] = self._view.now()

    # --- At rest

    def _judge_rest(self) -> None:
        store = self._store
        rest = _AtRest(
            store.list("", "nodes"),
            store.list("karpenter.sh", "nodeclaims"),
            store.list("", "pods"),
        )
        wrong = {
            "R1": [*invariants.leaked_instances(rest), *invariants.doubled_instances(rest)],
            "R2": [*invariants.orphaned_finalizers(rest), *_closed_for_nothing(rest)],
            "R3": invariants.waiting_pods(rest),
            "R4": invariants.unfinished_claims(rest),
        }
        for name, texts in wrong.items():
            self._promises[name].judged += 1
            for text in texts:
                self._accuse(name, text)

    def _claim_of(self, node: str) -> JsonObject:
        return next(
            (
                claim
                for claim in self._store.list("karpenter.sh", "nodeclaims")
                if (claim.get("status") or {}).get("nodeName") == node
            ),
            {"metadata": {}},
        )

    def _judge(self, name: str, problem: str) -> None:
        self._promises[name].judged += 1
        if problem:
            self._accuse(name, problem)

    def _accuse(self, name: str, text: str) -> None:
        broken = self._promises[name].broken
        if len(broken) < _MOST_TOLD:
            broken.append({"at": self._view.now(), "text": text})


def _closed_for_nothing(rest: _AtRest) -> Iterator[str]:
    """Nodes that take no pods though nothing takes them away."""
    going = {
        (claim.get("status") or {}).get("nodeName")
        for claim in rest.claims
        if "deletionTimestamp" in claim["metadata"]
    }
    for node in rest.nodes:
        name = node["metadata"]["name"]
        if _is_closed(node) and name not in going:
            yield f"node {name} is closed though nothing takes it away"


def _is_closed(node: JsonObject) -> bool:
    return any(taint["key"] == _DISRUPTED for taint in node["spec"].get("taints") or ())


def _pool_of(obj: JsonObject) -> str:
    return str((obj["metadata"].get("labels") or {}).get(labels.NODEPOOL, ""))


def _name(pod: JsonObject) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _share(text: str, nodes: int) -> int:
    if text.endswith("%"):
        return math.ceil(int(text[:-1]) * nodes / 100)
    return int(text)


def _sums(claims: Sequence[JsonObject], resource: str) -> Iterator[float]:
    for capacity in claims:
        yield _amount(capacity.get(resource, 0))


def _amount(value: Any) -> float:
    try:
        return float(parse(str(value)))
    except QuantityError:
        return math.inf
