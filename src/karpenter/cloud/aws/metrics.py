"""The provider's metrics, under Karpenter's names; those of offerings are elsewhere."""

import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from karpenter.api.karpenter import NodeClaim
from karpenter.cloud.aws.ec2.calls import CompletedCall
from karpenter.model import labels
from karpenter.telemetry import Metrics
from karpenter.telemetry.capacity import termination_mode
from karpenter.telemetry.families import DURATIONS, Families
from karpenter.telemetry.family import Detail, Family

_SDK_LABELS = "service action code"
_SDK_SECONDS = tuple(0.01 * 1.5**step for step in range(20))
_RETRIES = tuple(float(count) for count in range(11))
_BATCH_SIZES = (
    *(1.0, 2.0, 4.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 75.0, 100.0),
    *(125.0, 150.0, 175.0, 200.0, 250.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0, 600.0),
    *(700.0, 800.0, 900.0, 1000.0),
)


class AwsMetrics:
    """The metrics of one provider."""

    def __init__(
        self, registry: CollectorRegistry | None = None, detail: Detail = Detail.OBJECT
    ) -> None:
        """Declare all metrics, in a registry of their own unless one is given."""
        self.declared: Final[list[Family]] = []
        make = Families(registry or CollectorRegistry(), time.monotonic, self.declared, detail)
        cloud, interruption = "karpenter_cloudprovider", "karpenter_interruption"
        self.launch_failures = make.counter(
            f"{cloud}_instance_launch_failures_total",
            "Fleet errors by reason, counted once for each NodeClaim of the request.",
            "zone zone_id capacity_type reason",
        )
        self.termination_failures = make.counter(
            f"{cloud}_instance_termination_failures_total",
            "Terminations that EC2 refused.",
            "zone zone_id",
        )
        self.batch_time = make.histogram(
            f"{cloud}_batcher_batch_time_seconds",
            "Time that a batch was open for requests.",
            "batcher",
        )
        self.batch_size = make.histogram(
            f"{cloud}_batcher_batch_size",
            "Requests in one batched call.",
            "batcher",
            buckets=_BATCH_SIZES,
        )
        self.received_messages = make.counter(
            f"{interruption}_received_messages_total", "Messages read.", "message_type"
        )
        self.deleted_messages = make.counter(
            f"{interruption}_deleted_messages_total", "Messages deleted from the queue."
        )
        self.failed_messages = make.counter(
            f"{interruption}_failed_messages_total",
            "Messages that could not be read or acted on, and were deleted.",
        )
        self.message_age = make.histogram(
            f"{interruption}_message_queue_duration_seconds",
            "Age of an event when its message was processed.",
            buckets=DURATIONS,
        )
        self.unhealthy = make.counter(
            f"{interruption}_instance_status_unhealthy_total",
            "Instances whose status checks failed or that have a scheduled event.",
            "category",
        )
        self.userdata_bytes = make.gauge(
            "karpenter_ec2nodeclasses_userdata_bytes",
            "Size of the rendered user data.",
            "nodeclass",
        )
        self._requests = make.counter("aws_sdk_go_request_total", "Calls to AWS.", _SDK_LABELS)
        self._attempts = make.counter(
            "aws_sdk_go_request_attempt_total", "Attempts of calls to AWS.", _SDK_LABELS
        )
        self._seconds = make.histogram(
            "aws_sdk_go_request_duration_seconds",
            "Duration of calls to AWS, including retries.",
            _SDK_LABELS,
            buckets=_SDK_SECONDS,
        )
        self._retries = make.histogram(
            "aws_sdk_go_request_retry_count",
            "Retries of a call to AWS.",
            _SDK_LABELS,
            buckets=_RETRIES,
        )

    def observe_call(self, made: CompletedCall) -> None:
        """Count a call to AWS."""
        values = (made.service, made.operation, made.code)
        self._requests.labels(*values).inc()
        self._attempts.labels(*values).inc(made.attempts)
        self._seconds.labels(*values).observe(made.seconds)
        self._retries.labels(*values).observe(made.attempts - 1)

    def observe_batch(self, batcher: str, requests: int, seconds: float) -> None:
        """Count a window that has closed."""
        self.batch_size.labels(batcher).observe(requests)
        self.batch_time.labels(batcher).observe(seconds)


def disruption_counter(metrics: Metrics) -> Callable[[NodeClaim, str], None]:
    """The counter of claims that AWS's notices disrupt, part of the metric of all disruptions."""

    def count(claim: NodeClaim, reason: str) -> None:
        held = claim.metadata.labels
        metrics.nodeclaims_disrupted_total.labels(
            reason=reason,
            nodepool=held.get(labels.NODEPOOL, ""),
            capacity_type=held.get(labels.CAPACITY_TYPE, ""),
            consolidation_policy="",
            termination_mode=termination_mode(claim),
        ).inc()

    return count
