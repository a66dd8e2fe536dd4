"""Metrics of the runtime: reconciles, work queues, requests to the API server, leadership."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, get_args

from prometheus_client import Counter, Histogram

from karpenter.telemetry.families import Families

# How a reconcile can end: done, in an error, in a conflict that is retried, or with a time of the
# next reconcile
Result: TypeAlias = Literal["success", "error", "requeue", "requeue_after"]
_QUEUE: Final = "name controller"
_QUEUE_BUCKETS: Final = tuple(10.0**power for power in range(-8, 4))
_REQUEST_BUCKETS: Final = tuple(0.001 * 1.5**step for step in range(20))


class Stopwatch(Protocol):
    """The part of a clock that measures."""

    def monotonic(self) -> float:
        """Seconds that only grow."""


@dataclass(slots=True)
class Outcome:
    """The result of a reconcile, set by the code that runs it."""

    result: Result = "success"


class QueueWatch:
    """The metrics of one work queue."""

    def __init__(self, adds: Counter, retries: Counter, waits: Histogram) -> None:
        self._adds = adds
        self._retries = retries
        self._waits = waits

    def added(self) -> None:
        """Note that a key was asked for."""
        self._adds.inc()

    def retried(self) -> None:
        """Note that a key comes again because its work failed."""
        self._retries.inc()

    def taken(self, waited: float) -> None:
        """Note that work on a key begins after so many seconds."""
        self._waits.observe(waited)


class _Reconciles:
    """The reconciles of one controller, with its series looked up once."""

    def __init__(self, metrics: "RuntimeMetrics", name: str) -> None:
        total = metrics.controller_runtime_reconcile_total
        self.ended: Final[dict[Result, Counter]] = {
            result: total.labels(controller=name, result=result) for result in get_args(Result)
        }
        self.errors = metrics.controller_runtime_reconcile_errors_total.labels(controller=name)
        self.seconds = metrics.controller_runtime_reconcile_time_seconds.labels(controller=name)
        self.workers = metrics.controller_runtime_active_workers.labels(controller=name)
        self.work = metrics.workqueue_work_duration_seconds.labels(name=name, controller=name)
        self.running: dict[int, tuple[Stopwatch, float]] = {}  # since when
        unfinished = metrics.workqueue_unfinished_work_seconds
        unfinished.labels(name=name, controller=name).set_function(lambda: sum(self._ages()))
        longest = metrics.workqueue_longest_running_processor_seconds
        longest.labels(name=name, controller=name).set_function(
            lambda: max(self._ages(), default=0.0)
        )

    def _ages(self) -> list[float]:
        return [watch.monotonic() - began for watch, began in list(self.running.values())]


class RuntimeMetrics:
    """Metrics of the controller runtime."""

    def __init__(self, make: Families) -> None:
        self._reconciles: dict[str, _Reconciles] = {}
        self._numbers: Final = itertools.count()
        self.controller_runtime_reconcile_total = make.counter(
            "controller_runtime_reconcile_total", "Reconciles, by outcome.", "controller result"
        )
        self.controller_runtime_reconcile_errors_total = make.counter(
            "controller_runtime_reconcile_errors_total", "Reconciles that failed.", "controller"
        )
        self.controller_runtime_reconcile_panics_total = make.counter(
            "controller_runtime_reconcile_panics_total",
            "Reconciles that failed with an unexpected error.",
            "controller",
        )
        self.controller_runtime_terminal_reconcile_errors_total = make.counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Reconciles that failed and are not retried.",
            "controller",
        )
        self.controller_runtime_reconcile_time_seconds = make.histogram(
            "controller_runtime_reconcile_time_seconds", "Duration of reconciles.", "controller"
        )
        self.controller_runtime_active_workers = make.gauge(
            "controller_runtime_active_workers", "Reconciles that are running.", "controller"
        )
        self.controller_runtime_max_concurrent_reconciles = make.gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Reconciles that may run at the same time.",
            "controller",
        )
        self._add_queues(make)
        self._add_requests(make)
        self._add_guards(make)
        self._add_webhook(make)
        self.leader_election_master_status = make.gauge(
            "leader_election_master_status", "Whether this process holds the leader lease.", "name"
        )

    @contextmanager
    def reconciling(self, controller: str, clock: Stopwatch) -> Iterator[Outcome]:
        """Measure one reconcile; the block sets ``result`` on what it is given."""
        series = self._reconciles.get(controller)
        if series is None:
            series = self._reconciles[controller] = _Reconciles(self, controller)
        outcome = Outcome()
        number = next(self._numbers)
        began = clock.monotonic()
        series.running[number] = (clock, began)
        series.workers.inc()
        try:
            yield outcome
        finally:
            del series.running[number]
            series.workers.dec()
            seconds = clock.monotonic() - began
            series.seconds.observe(seconds)
            series.work.observe(seconds)
            series.ended[outcome.result].inc()
            if outcome.result == "error":
                series.errors.inc()

    def queue(self, controller: str, depth: Callable[[], int]) -> QueueWatch:
        """Follow a work queue; ``depth`` gives its length at every scrape."""
        labels = {"name": controller, "controller": controller}
        self.workqueue_depth.labels(**labels).set_function(depth)
        return QueueWatch(
            self.workqueue_adds_total.labels(**labels),
            self.workqueue_retries_total.labels(**labels),
            self.workqueue_queue_duration_seconds.labels(**labels),
        )

    def request(self, method: str, resource: str, status: int, seconds: float) -> None:
        """Note an answer of the API server; a status of 0 means that there was none."""
        code = str(status) if status else "<error>"
        self.rest_client_requests_total.labels(code, method, self.api_server).inc()
        self.client_go_request_total.labels(code, method).inc()
        group, version, kind = self.resources.get(resource, ("", "", resource))
        durations = self.client_go_request_duration_seconds
        durations.labels(method, group, version, kind, "").observe(seconds)

    def set_aside(self, kind: str, namespace: str, name: str, *, is_aside: bool) -> None:
        """Note that an object cannot be read, or that it can be again."""
        if is_aside:
            self.objects_set_aside.labels(kind, namespace, name).set(1)
        else:
            with suppress(KeyError):
                self.objects_set_aside.remove(kind, namespace, name)

    def handler_failed(self, kind: str) -> None:
        """Note that a handler of a kind raised for one object."""
        self.objects_handler_failures_total.labels(kind).inc()

    def _add_guards(self, make: Families) -> None:
        self.objects_set_aside = make.gauge(
            "karpenter_objects_set_aside",
            "1 for each object that cannot be read and is not acted on.",
            "kind namespace name",
        )
        self.objects_handler_failures_total = make.counter(
            "karpenter_objects_handler_failures_total",
            "Errors while an object from a watch was processed.",
            "kind",
        )
        self.controllers_failures_total = make.counter(
            "karpenter_controllers_failures_total",
            "Controllers and workers that an error ended and that were restarted.",
            "controller",
        )

    def _add_webhook(self, make: Families) -> None:
        self.webhook_requests_total = make.counter(
            "karpenter_webhook_requests_total",
            "Requests of API servers to the webhook, by path and status of the answer.",
            "path code",
        )
        self.certificate_expiry_seconds = make.gauge(
            "karpenter_certificate_expiry_seconds",
            "Seconds until a certificate of the webhook expires; below zero it has.",
            "certificate",
        )

    def _add_queues(self, make: Families) -> None:
        self.workqueue_depth = make.gauge("workqueue_depth", "Keys that wait in the queue.", _QUEUE)
        self.workqueue_adds_total = make.counter(
            "workqueue_adds_total", "Keys that were added to the queue.", _QUEUE
        )
        self.workqueue_retries_total = make.counter(
            "workqueue_retries_total",
            "Keys that were retried because their processing failed.",
            _QUEUE,
        )
        self.workqueue_queue_duration_seconds = make.histogram(
            "workqueue_queue_duration_seconds",
            "Time a key waited in the queue.",
            _QUEUE,
            buckets=_QUEUE_BUCKETS,
        )
        self.workqueue_work_duration_seconds = make.histogram(
            "workqueue_work_duration_seconds",
            "Time to process a key.",
            _QUEUE,
            buckets=_QUEUE_BUCKETS,
        )
        self.workqueue_unfinished_work_seconds = make.gauge(
            "workqueue_unfinished_work_seconds",
            "Time that all keys in process have taken so far, in total.",
            _QUEUE,
        )
        self.workqueue_longest_running_processor_seconds = make.gauge(
            "workqueue_longest_running_processor_seconds",
            "Time that the oldest key in process has taken so far.",
            _QUEUE,
        )

    def _add_requests(self, make: Families) -> None:
        self.api_server = ""  # host and port, once they are known
        # Plural name -> group, version and kind, once they are known
        self.resources: Mapping[str, tuple[str, str, str]] = {}
        self.rest_client_requests_total = make.counter(
            "rest_client_requests_total", "Requests to the API server.", "code method host"
        )
        self.client_go_request_total = make.counter(
            "client_go_request_total", "Requests to the API server.", "code method"
        )
        self.client_go_request_duration_seconds = make.histogram(
            "client_go_request_duration_seconds",
            "Time until the API server answered a request.",
            "verb group version kind subresource",
            buckets=_REQUEST_BUCKETS,
        )
