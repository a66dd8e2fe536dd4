"""Every metric operators know is declared, with its labels, and tells what happened."""

import time

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families

from karpenter.telemetry import CloudCalls, Metrics

DISRUPTED = "reason nodepool capacity_type consolidation_policy termination_mode"
DECISION = "decision reason consolidation_type"
MOVE = "decision nodepool policy"
# attribute -> labels; the metric is called karpenter_<attribute>
DECLARED = {
    "build_info": "version goversion goarch commit",
    "nodeclaims_created_total": "reason nodepool min_values_relaxed",
    "nodeclaims_terminated_total": "nodepool capacity_type zone",
    "nodeclaims_disrupted_total": DISRUPTED,
    "nodeclaims_unhealthy_disrupted_total": (
        "condition nodepool capacity_type image_id termination_mode"
    ),
    "nodeclaims_instance_termination_duration_seconds": "nodepool",
    "nodeclaims_termination_duration_seconds": "nodepool",
    "nodes_created_total": "nodepool zone",
    "nodes_terminated_total": "nodepool zone",
    "nodes_drained_total": "nodepool",
    "nodes_termination_duration_seconds": "nodepool",
    "nodes_lifetime_duration_seconds": "nodepool",
    "nodes_reboots_total": "result",
    "nodes_reboot_duration_seconds": "result",
    "nodes_reboot_recovery_duration_seconds": "",
    "nodepools_cost_tracker_errors_total": "nodepool",
    "nodepools_allowed_disruptions": "nodepool reason",
    "nodepools_nodes_consuming_budgets": "nodepool reason",
    "cloudprovider_duration_seconds": "controller method provider",
    "cloudprovider_errors_total": "controller method provider error nodepool",
    "pods_startup_duration_seconds": "",
    "pods_bound_duration_seconds": "dynamic_resources",
    "pods_provisioning_bound_duration_seconds": "dynamic_resources",
    "pods_provisioning_startup_duration_seconds": "",
    "pods_scheduling_decision_duration_seconds": "",
    "pods_disruption_initiated_total": DISRUPTED,
    "pods_eviction_requests_total": "code",
    "pods_drained_total": "reason",
    "pod_deletion_cost_nodes_with_pending_annotation_writes": "nodepool",
    "pod_deletion_cost_pod_annotation_writes_total": "result",
    "scheduler_scheduling_duration_seconds": "controller",
    "scheduler_queue_depth": "controller scheduling_id",
    "scheduler_unfinished_work_seconds": "controller scheduling_id",
    "scheduler_ignored_pods_count": "",
    "scheduler_unschedulable_pods_count": "controller",
    "scheduler_pending_pods_by_effective_zone_count": "controller zone",
    "voluntary_disruption_decisions_total": DECISION,
    "voluntary_disruption_decisions_by_nodepool_total": f"nodepool {DECISION}",
    "voluntary_disruption_decision_evaluation_duration_seconds": "reason consolidation_type",
    "voluntary_disruption_eligible_nodes": "reason",
    "voluntary_disruption_consolidation_timeouts_total": "consolidation_type",
    "voluntary_disruption_failed_validations_total": "consolidation_type",
    "voluntary_disruption_queue_failures_total": DECISION,
    "voluntary_disruption_terminate_first_decisions_total": (
        "nodepool reason terminate_first_reason"
    ),
    "disruption_blocked_nodes": "nodepool reason",
    "disruption_blocked_savings": "reason",
    "consolidation_score": MOVE,
    "consolidation_moves_total": MOVE,
    "objects_set_aside": "kind namespace name",
    "objects_handler_failures_total": "kind",
    "controllers_failures_total": "controller",
}
RUNTIME = {
    "controller_runtime_reconcile_total": "controller result",
    "controller_runtime_reconcile_errors_total": "controller",
    "controller_runtime_reconcile_panics_total": "controller",
    "controller_runtime_reconcile_time_seconds": "controller",
    "controller_runtime_active_workers": "controller",
    "controller_runtime_max_concurrent_reconciles": "controller",
    "workqueue_depth": "name controller",
    "workqueue_adds_total": "name controller",
    "workqueue_retries_total": "name controller",
    "workqueue_queue_duration_seconds": "name controller",
    "workqueue_work_duration_seconds": "name controller",
    "workqueue_unfinished_work_seconds": "name controller",
    "workqueue_longest_running_processor_seconds": "name controller",
    "rest_client_requests_total": "code method host",
    "client_go_request_total": "code method",
    "client_go_request_duration_seconds": "verb group version kind subresource",
    "leader_election_master_status": "name",
}


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Everything that is scraped, by name and labels."""
    text = metrics.exposition().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, /, **labels: str) -> float:
    return samples(metrics)[name, tuple(sorted(labels.items()))]


@pytest.mark.parametrize(
    ("attribute", "name", "labels"),
    [
        *((each, f"karpenter_{each}", labels) for each, labels in DECLARED.items()),
        *((each, each, labels) for each, labels in RUNTIME.items()),
    ],
)
def test_a_metric_has_its_name_and_labels(attribute: str, name: str, labels: str) -> None:
    metrics = Metrics()
    metric = getattr(metrics, attribute)
    given = dict.fromkeys(labels.split(), "x")

    series = metric.labels(**given) if given else metric
    (series.observe if hasattr(series, "observe") else series.inc)(2)

    found = {
        frozenset(label_values) - {"le", "quantile"}
        for sample, label_values in (
            (found_name, dict(pairs)) for found_name, pairs in samples(metrics)
        )
        if sample.startswith(name) and (not given or "x" in label_values.values())
    }
    assert {frozenset(given)} == found


def test_two_instances_share_nothing() -> None:
    one, other = Metrics(), Metrics()

    one.nodes_drained_total.labels(nodepool="a").inc()

    assert 1 == value(one, "karpenter_nodes_drained_total", nodepool="a")
    assert b'nodes_drained_total{nodepool="a"}' not in other.exposition()


def test_no_moment_of_creation_is_exposed() -> None:
    metrics = Metrics()
    metrics.nodes_drained_total.labels(nodepool="a").inc()
    metrics.consolidation_score.labels(decision="a", nodepool="b", policy="c").observe(1)

    assert [] == [name for name, _ in samples(metrics) if name.endswith("_created")]


def test_what_this_is_can_be_read_from_build_info() -> None:
    (found,) = [
        dict(labels)
        for name, labels in samples(Metrics(commit="abcdef1-dirty"))
        if name == "karpenter_build_info"
    ]

    assert "abcdef1-dirty" == found["commit"]
    assert found["goversion"].startswith("python3.")


def test_timeouts_are_there_before_the_first_one() -> None:
    metrics = Metrics()

    found = [
        value(metrics, "karpenter_voluntary_disruption_consolidation_timeouts_total", **labels)
        for labels in ({"consolidation_type": "multi"}, {"consolidation_type": "single"})
    ]

    assert [0, 0] == found


@pytest.mark.parametrize(
    ("attribute", "first", "last", "count"),
    [
        ("nodeclaims_instance_termination_duration_seconds", 1.0, 1024.0, 11),
        ("nodeclaims_termination_duration_seconds", 1.0, 2048.0, 12),
        ("nodes_lifetime_duration_seconds", 900.0, 30 * 86400.0, 17),
        ("nodes_reboot_duration_seconds", 10.0, 1280.0, 8),
        ("scheduler_scheduling_duration_seconds", 0.005, 600.0, 45),
        ("consolidation_score", 0.1, 10.0, 11),
    ],
)
def test_buckets_reach_from_first_to_last(
    attribute: str, first: float, last: float, count: int
) -> None:
    metrics = Metrics()
    series = getattr(metrics, attribute)
    labels = ("x",) * len(series._labelnames)
    series.labels(*labels).observe(1)

    bounds = sorted(
        float(dict(pairs)["le"])
        for name, pairs in samples(metrics)
        if name == f"karpenter_{attribute}_bucket" and dict(pairs)["le"] != "+Inf"
    )

    assert (first, last, count) == (bounds[0], bounds[-1], len(bounds))


class TestReconciling:
    def test_a_success_is_counted_and_timed(self) -> None:
        metrics, watch = Metrics(), Watch()

        with metrics.reconciling("provisioner", watch):
            busy = value(metrics, "controller_runtime_active_workers", controller="provisioner")
            watch.seconds = 2.0

        labels = {"controller": "provisioner"}
        assert 1 == busy
        assert 0 == value(metrics, "controller_runtime_active_workers", **labels)
        assert 2 == value(metrics, "controller_runtime_reconcile_time_seconds_sum", **labels)
        total = "controller_runtime_reconcile_total"
        assert 1 == value(metrics, total, result="success", **labels)
        assert 0 == value(metrics, total, result="error", **labels)

    def test_a_failure_is_counted_as_one(self) -> None:
        metrics = Metrics()

        with metrics.reconciling("provisioner", Watch()) as outcome:
            outcome.result = "error"

        labels = {"controller": "provisioner"}
        assert 1 == value(metrics, "controller_runtime_reconcile_errors_total", **labels)
        total = "controller_runtime_reconcile_total"
        assert 1 == value(metrics, total, result="error", **labels)
        assert 0 == value(metrics, total, result="success", **labels)

    def test_work_that_goes_on_is_seen(self) -> None:
        metrics, watch = Metrics(), Watch()
        labels = {"name": "c", "controller": "c"}

        with metrics.reconciling("c", watch):
            watch.seconds = 3.0
            with metrics.reconciling("c", watch):
                watch.seconds = 5.0
                unfinished = value(metrics, "workqueue_unfinished_work_seconds", **labels)
                longest = value(metrics, "workqueue_longest_running_processor_seconds", **labels)

        assert (7.0, 5.0) == (unfinished, longest)
        assert 0 == value(metrics, "workqueue_unfinished_work_seconds", **labels)

    def test_an_error_that_escapes_leaves_no_worker_behind(self) -> None:
        metrics = Metrics()

        with pytest.raises(ZeroDivisionError), metrics.reconciling("c", Watch()):
            _ = 1 / 0

        assert 0 == value(metrics, "controller_runtime_active_workers", controller="c")


def test_a_queue_tells_its_depth_when_asked() -> None:
    metrics = Metrics()
    keys = ["a", "b"]
    labels = {"name": "c", "controller": "c"}

    watch = metrics.queue("c", lambda: len(keys))
    watch.added()
    watch.retried()
    watch.taken(0.5)

    assert 2 == value(metrics, "workqueue_depth", **labels)
    keys.clear()
    assert 0 == value(metrics, "workqueue_depth", **labels)
    assert 1 == value(metrics, "workqueue_adds_total", **labels)
    assert 1 == value(metrics, "workqueue_retries_total", **labels)
    assert 0.5 == value(metrics, "workqueue_queue_duration_seconds_sum", **labels)


def test_requests_are_counted_by_code_and_method() -> None:
    metrics = Metrics()
    metrics.api_server = "host:6443"
    metrics.resources = {"nodepools": ("karpenter.sh", "v1", "NodePool")}

    metrics.request("GET", "nodepools", 200, 0.25)
    metrics.request("GET", "nodepools", 0, 0.0)

    total = "rest_client_requests_total"
    assert 1 == value(metrics, total, code="200", method="GET", host="host:6443")
    assert 1 == value(metrics, total, code="<error>", method="GET", host="host:6443")
    assert 1 == value(metrics, "client_go_request_total", code="200", method="GET")
    timed = {"verb": "GET", "group": "karpenter.sh", "version": "v1", "kind": "NodePool"}
    name = "client_go_request_duration_seconds_sum"
    assert 0.25 == value(metrics, name, subresource="", **timed)


def test_calls_of_the_cloud_are_timed_and_their_errors_counted() -> None:
    metrics = Metrics()
    calls = CloudCalls(metrics)

    class Call:
        controller = "nodeclaim.lifecycle"
        method = "Create"
        provider = "kwok"

    calls.duration(Call(), 1.5)
    calls.error(Call(), "unknown", "general")

    labels = {"controller": "nodeclaim.lifecycle", "method": "Create", "provider": "kwok"}
    assert 1.5 == value(metrics, "karpenter_cloudprovider_duration_seconds_sum", **labels)
    errors = "karpenter_cloudprovider_errors_total"
    assert 1 == value(metrics, errors, error="unknown", nodepool="general", **labels)


def test_a_real_process_tells_of_itself() -> None:
    metrics = Metrics(with_process=True)

    assert 0 < value(metrics, "process_resident_memory_bytes")
    assert 0 <= value(metrics, "process_cpu_seconds_total")
    assert b"process_resident" not in Metrics().exposition()


def test_lines_are_asked_for_at_every_scrape_until_they_are_taken_away() -> None:
    metrics = Metrics()
    count = iter(range(10))
    remove = metrics.add_lines(lambda: [f"mine {next(count)}\n"])

    first, second = metrics.exposition(), metrics.exposition()
    remove()

    assert (b"mine 0\n", b"mine 1\n") == (first[-7:], second[-7:])
    assert b"mine" not in metrics.exposition()


def test_lines_that_fail_do_not_keep_others_from_being_scraped() -> None:
    metrics = Metrics()
    metrics.add_lines(lambda: [str(1 // 0)])
    metrics.add_lines(lambda: ["mine 1\n"])

    with structlog.testing.capture_logs() as said:
        text = metrics.exposition()

    assert text.endswith(b"mine 1\n")
    assert ["some metrics could not be worked out"] == [entry["event"] for entry in said]


def test_families_of_kinds_are_declared_once() -> None:
    metrics = Metrics()

    first = metrics.transitions.of("NodeClaim", ("karpenter_sh_nodepool",))
    second = metrics.transitions.of("NodeClaim", ("karpenter_sh_nodepool",))

    assert first is second
    first.transition_seconds.labels(
        type="Ready", status="Unknown", to_status="True", karpenter_sh_nodepool="a"
    ).observe(3)
    name = "operator_nodeclaim_status_condition_transition_seconds_sum"
    labels = {"type": "Ready", "status": "Unknown", "to_status": "True"}
    assert 3 == value(metrics, name, karpenter_sh_nodepool="a", **labels)


def test_the_clock_of_a_stopwatch_is_any_that_measures() -> None:
    metrics = Metrics()

    with metrics.reconciling("c", time):
        pass

    name = "controller_runtime_reconcile_time_seconds_count"
    assert 1 == value(metrics, name, controller="c")
