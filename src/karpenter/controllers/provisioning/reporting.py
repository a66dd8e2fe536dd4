"""Reports of a provisioning pass: events, log lines and metrics.

A log line is written when its content has changed, not again in every pass.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from karpenter.api.karpenter import NodePool
from karpenter.api.meta import Resource
from karpenter.api.pods import Pod
from karpenter.api.times import in_seconds
from karpenter.controllers import decision_drafts as drafts
from karpenter.controllers.context import Context
from karpenter.controllers.provisioning.planned_pods import PlannedPods
from karpenter.controllers.provisioning.planner import CONTROLLER, PlannedPass
from karpenter.kube.events import NOMINATED, NORMAL, WARNING, Event
from karpenter.model import labels
from karpenter.scheduling.inputs.cost_annotations import INVALID_COST_ANNOTATION
from karpenter.scheduling.plan import Plan, PlannedClaim, Unplaced, Why
from karpenter.scheduling.provisioning import (
    CLASS_NOT_READY,
    COSTLY_TO_PLAN,
    FAILED_SCHEDULING,
    Announcement,
    failure_message,
)
from karpenter.scheduling.spot.annotations import SPOT_RATIO_IGNORED
from karpenter.state.nodes import StateNode

FLEXIBLE: Final = "flexible"
NOWHERE: Final = "none"

T = TypeVar("T")

_A_DAY: Final = timedelta(days=1)
_LASTING: Final = timedelta(minutes=5)  # after which a pod without a place is worth a warning
_SHOWN: Final = 5
_AT_A_TIME: Final = 200  # items between two yields to the event loop
_DEDUPE_SECONDS: Final = {
    INVALID_COST_ANNOTATION: 600,
    SPOT_RATIO_IGNORED: 600,
    NOMINATED: 120.0,
    FAILED_SCHEDULING: 300.0,
    COSTLY_TO_PLAN: 300.0,
    CLASS_NOT_READY: 300.0,
    "NoCompatibleInstanceTypes": 60.0,
}


class Reporter:
    """Reports passes."""

    def __init__(self, context: Context, planned: PlannedPods, log: Any) -> None:
        self._context = context
        self._planned = planned
        self._log = log
        self._found: frozenset[str] = frozenset()
        self._failures: Mapping[str, str] = {}  # pod -> why no pool takes it, or not in this pass
        # Pod -> since when it has no place; None once the warning has been written
        self._refused: dict[str, datetime | None] = {}
        self._without_pools = False
        self._unready: Mapping[str, str] = {}  # pool -> why it is not used
        self._solver_failures: set[str] = set()  # of the solver, each logged once
        self._zones: frozenset[str] = frozenset()
        # pod uid -> the pod's name, and when its preferences were pointed out
        self._reported_preferences: dict[str, tuple[str, datetime]] = {}

    async def report(self, done: PlannedPass) -> None:
        """Report a pass, before it is carried out."""
        self._report_pools(done)
        self._report_pods(done)
        self._report_preferences(done)
        await self._count(done)

    async def report_failures(self, done: PlannedPass) -> None:
        """Publish why pods have no place, on them and on the pools and node classes to blame."""
        await self._log_failures(done)
        async for announcement in paced(done.outcome.events):
            self._announce(announcement, done)

    async def nominate(self, pods: Iterable[Pod], *, node: str = "", claim: str = "") -> None:
        """Publish on pods where they are expected to run."""
        targets = [f"nodeclaim/{claim}"] if claim else []
        targets += [f"node/{node}"] if node else []
        message = f"Pod should schedule on: {', '.join(targets)}"
        async for pod in paced(pods):
            self._publish(pod, NORMAL, NOMINATED, message)

    def _report_pools(self, done: PlannedPass) -> None:
        outcome = done.outcome
        unready = {
            reason.node_pool: reason.detail
            for reason in outcome.pools.excluded
            if reason.why in (Why.POOL_NOT_READY, Why.CLASS_NOT_READY, Why.CLASS_NOT_FOUND)
        }
        for pool, why in sorted(unready.items()):
            if self._unready.get(pool) != why:
                self._context.decide(
                    self._log.error,
                    "ignoring nodepool, not ready",
                    drafts.pool_problem(pool, Why.POOL_NOT_READY.value, why),
                    NodePool={"name": pool},
                    error=why,
                )
        self._unready = unready
        without_pools = bool(outcome.plan.unplaced) and not outcome.pools.dynamic
        if without_pools and not self._without_pools:
            self._context.decide(self._log.info, "no dynamic nodepools found", drafts.no_pools())
        self._without_pools = without_pools

    def _report_pods(self, done: PlannedPass) -> None:
        plan = done.outcome.plan
        found = frozenset(all_pods(plan))
        if found and found != self._found:
            self._log.info(
                "found provisionable pod(s)",
                Pods=listed(sorted(found)),
                duration=in_seconds(done.seconds),
            )
        self._found = found
        if plan.claims:
            count = sum(len(claim.pods) for claim in plan.claims)
            self._context.decide(
                self._log.info,
                "computed new nodeclaim(s) to fit pod(s)",
                drafts.pass_planned(plan),
                nodeclaims=len(plan.claims),
                pods=count,
            )

    async def _log_failures(self, done: PlannedPass) -> None:
        waiting = done.outcome.next_passes
        entries = {entry.pod: entry for entry in done.outcome.plan.unplaced}
        failures = {pod: failure_message(entry) for pod, entry in entries.items()}
        failures |= waiting
        async for pod, why in paced(failures.items()):
            is_known = self._failures.get(pod) == why
            if pod not in waiting:
                self._report_refusal(entries[pod], why, done, is_known=is_known)
            elif not is_known:
                self._context.decide(
                    self._log.info,
                    "pod has to wait for another pass",
                    drafts.pod_waits(pod, why),
                    Pod=_about(pod),
                    reason=why,
                )
        self._failures = failures
        self._refused = {pod: since for pod, since in self._refused.items() if pod in entries}

    def _report_refusal(
        self, entry: Unplaced, why: str, done: PlannedPass, *, is_known: bool
    ) -> None:
        """Log a refusal when it is new or has changed, and once more when it has lasted."""
        now = self._context.clock.now()
        since = self._refused.setdefault(entry.pod, now)
        is_old = since is not None and now - since > _LASTING
        if is_known and not is_old:
            return
        if is_old:
            self._refused[entry.pod] = None  # the warning has been written
        pod = done.snapshot.pods.get(entry.pod)
        uid = pod.metadata.uid if pod is not None else ""
        self._context.decide(
            self._log.error,
            "could not schedule pod",
            drafts.pod_refused(entry, why, uid, is_old=is_old),
            Pod=_about(entry.pod),
            error=why,
        )

    def _report_preferences(self, done: PlannedPass) -> None:
        """Point out, once a day for each pod, preferences that block consolidation."""
        if self._context.settings.preference_policy != "Respect":
            return
        now = self._context.clock.now()
        names = []
        for name in self._found:
            pod = done.snapshot.pods.get(name)
            if pod is None or not has_hindering_preferences(pod):
                continue
            _, reported = self._reported_preferences.get(pod.metadata.uid, (name, None))
            if reported is None or now - reported >= _A_DAY:
                self._reported_preferences[pod.metadata.uid] = name, now
                names.append(name)
        self._reported_preferences = {
            uid: (name, reported)
            for uid, (name, reported) in self._reported_preferences.items()
            if now - reported < _A_DAY
            and (pod := done.snapshot.pods.get(name)) is not None
            and pod.metadata.uid == uid
        }
        if names:
            self._log.info(
                "pod(s) prefer to be apart, which can prevent consolidation",
                Pods=listed(sorted(names)),
            )

    async def report_cost(self, done: PlannedPass) -> None:
        """Export what a plan that was packed by price costs, and its lower bound.

        The bound takes about as long as packing, so claims should be created before.
        """
        plan, metrics = done.outcome.plan, self._context.metrics
        if plan.packing is None:
            return
        metrics.plan_cost_hourly.set(plan.hourly_cost)
        metrics.plan_lower_bound_hourly.set(await asyncio.to_thread(lambda: plan.lower_bound))
        metrics.packing_candidate_total.labels(plan.packing.candidate.value).inc()
        for failure in set(plan.packing.failures) - self._solver_failures:
            self._log.error("packing without the solver", error=failure)
        self._solver_failures |= set(plan.packing.failures)

    async def _count(self, done: PlannedPass) -> None:
        plan, metrics = done.outcome.plan, self._context.metrics
        refused = [entry.pod for entry in done.outcome.ignored if entry.is_refused]
        metrics.scheduler_ignored_pods_count.set(len(refused))
        unplaced = metrics.scheduler_unschedulable_pods_count.labels(CONTROLLER)
        unplaced.set(len(plan.unplaced))
        zones = effective_zones(plan, done)
        gauge = metrics.scheduler_pending_pods_by_effective_zone_count
        for zone in self._zones - zones.keys():
            gauge.remove(CONTROLLER, zone)
        for zone, count in zones.items():
            gauge.labels(CONTROLLER, zone).set(count)
        self._zones = frozenset(zones)
        placed = [pod for claim in plan.claims for pod in claim.pods]
        placed += [pod for pods in plan.existing.values() for pod in pods]
        await self._decide(done, placed, is_placed=True)
        await self._decide(
            done, [*refused, *(entry.pod for entry in plan.unplaced)], is_placed=False
        )

    async def _decide(self, done: PlannedPass, pods: Iterable[str], *, is_placed: bool) -> None:
        now = self._context.clock.now()
        histogram = self._context.metrics.pods_scheduling_decision_duration_seconds
        async for pod in paced(pods_named(pods, done)):
            seconds = self._planned.decide(pod.metadata.uid, now, is_placed=is_placed)
            if seconds is not None:
                histogram.observe(seconds)

    def _announce(self, announcement: Announcement, done: PlannedPass) -> None:
        kind, _, name = announcement.target.partition("/")
        target: Resource | None
        if kind == "NodePool":
            target = self._context.mirror(NodePool).get(name)
            if name in done.skipped_pools:
                return
        elif kind == "Pod":
            target = done.snapshot.pods.get(name)
        else:
            classes = done.snapshot.node_classes.items()
            found = (each for ref, each in classes if (ref.kind, ref.name) == (kind, name))
            target = next(found, None)
        if target is not None:
            severity = WARNING if announcement.is_warning else NORMAL
            # "Waits for a later pass" and "fits nowhere" are deduplicated separately
            is_waiting = kind == "Pod" and name in done.outcome.next_passes
            self._publish(
                target,
                severity,
                announcement.reason,
                announcement.message,
                *(("waits",) if is_waiting else ()),
            )

    def _publish(
        self, target: Resource, severity: str, reason: str, message: str, *apart: str
    ) -> None:
        self._context.recorder.publish(
            Event(
                target,
                severity,
                reason,
                message,
                dedupe=(target.metadata.uid, *apart),
                dedupe_seconds=_DEDUPE_SECONDS[reason],
            )
        )


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield items, and give control to the event loop now and then."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % _AT_A_TIME == 0:
            await asyncio.sleep(0)


def has_hindering_preferences(pod: Pod) -> bool:
    """Whether a pod has preferred anti-affinity or a ``ScheduleAnyway`` spread constraint."""
    if any(
        each.when_unsatisfiable == "ScheduleAnyway" for each in pod.spec.topology_spread_constraints
    ):
        return True
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return False
    return bool(affinity.pod_anti_affinity.preferred)


def pods_named(names: Iterable[str], done: PlannedPass) -> Iterator[Pod]:
    """The pods a plan names, those that are real and were there when it was made."""
    for name in names:
        pod = done.snapshot.pods.get(name)
        if pod is not None:
            yield pod


def all_pods(plan: Plan) -> Iterator[str]:
    """Every pod of a plan."""
    for claim in plan.claims:
        yield from claim.pods
    for pods in plan.existing.values():
        yield from pods
    for entry in plan.unplaced:
        yield entry.pod
    yield from plan.deferred
    yield from plan.unevaluated


def effective_zones(plan: Plan, done: PlannedPass) -> Counter[str]:
    """How many pods can go to which zone: to one, to several, or to none at all."""
    zones: Counter[str] = Counter()
    for claim in plan.claims:
        zones[_zone_of_claim(claim)] += len(claim.pods)
    for name, pods in plan.existing.items():
        zones[_zone_of_machine(done.snapshot.node(name))] += len(pods)
    zones[NOWHERE] += len(plan.unplaced)
    return +zones


def _about(pod: str) -> dict[str, str]:
    namespace, _, name = pod.partition("/")
    return {"namespace": namespace, "name": name}


def listed(names: Sequence[str]) -> str:
    """A few names, and how many there are beyond them."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} other(s)" if more > 0 else "")


def _zone_of_claim(claim: PlannedClaim) -> str:
    held = claim.requirements[labels.ZONE]
    if held.complement or len(held.values) != 1:
        return FLEXIBLE
    return next(iter(held.values))


def _zone_of_machine(machine: StateNode | None) -> str:
    return machine.labels.get(labels.ZONE, FLEXIBLE) if machine is not None else FLEXIBLE
