"""Rows of what runs pods: deployments and their kin, jobs, autoscalers and budgets."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from karpenter_sandbox.server.printing.parts import (
    NONE,
    UNKNOWN,
    UNSET,
    Cells,
    Column,
    JsonObject,
    Printer,
    age,
    at,
    columns,
    condition_status,
    containers,
    human_duration,
    labels,
    name_of,
    read_time,
    selector,
    since,
)

_REPLICA_COLUMNS: Final = ("Desired", "Current", "Ready")
_POD_COLUMNS: Final = "Containers|Images|Selector"
_MOST_METRICS: Final = 2
_ENDED: Final = ("Complete", "Failed")
_UNDER_WAY: Final = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _number(obj: JsonObject, *path: str) -> int:
    return int(at(obj, *path, default=0))


def _deployment(obj: JsonObject, now: datetime) -> Cells:
    return [
        name_of(obj),
        f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}",
        _number(obj, "status", "updatedReplicas"),
        _number(obj, "status", "availableReplicas"),
        age(obj, now),
        *containers(at(obj, "spec", "template")),
        selector(at(obj, "spec", "selector")),
    ]


def _replica_set(obj: JsonObject, now: datetime) -> Cells:
    return [
        *_replicas(obj, now),
        *containers(at(obj, "spec", "template")),
        selector(at(obj, "spec", "selector")) or NONE,
    ]


def _replication_controller(obj: JsonObject, now: datetime) -> Cells:
    return [
        *_replicas(obj, now),
        *containers(at(obj, "spec", "template")),
        labels(at(obj, "spec", "selector")),
    ]


def _replicas(obj: JsonObject, now: datetime) -> Cells:
    return [
        name_of(obj),
        _number(obj, "spec", "replicas"),
        _number(obj, "status", "replicas"),
        _number(obj, "status", "readyReplicas"),
        age(obj, now),
    ]


def _stateful_set(obj: JsonObject, now: datetime) -> Cells:
    return [
        name_of(obj),
        f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}",
        age(obj, now),
        *containers(at(obj, "spec", "template")),
    ]


def _daemon_set(obj: JsonObject, now: datetime) -> Cells:
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(obj),
        *(_number(obj, "status", count) for count in counts),
        labels(at(obj, "spec", "template", "spec", "nodeSelector")),
        age(obj, now),
        *containers(at(obj, "spec", "template")),
        selector(at(obj, "spec", "selector")) or NONE,
    ]


def _controller_revision(obj: JsonObject, now: datetime) -> Cells:
    owners = at(obj, "metadata", "ownerReferences", default=[])
    owner = next((o for o in owners if at(o, "controller")), None)
    shown = NONE
    if owner is not None:
        group, _, _ = str(at(owner, "apiVersion", default="")).rpartition("/")
        kind = f"{at(owner, 'kind')}.{group}" if group else str(at(owner, "kind"))
        shown = f"{kind.lower()}/{at(owner, 'name')}"
    return [name_of(obj), shown, _number(obj, "revision"), age(obj, now)]


def _job(obj: JsonObject, now: datetime) -> Cells:
    return [
        name_of(obj),
        _job_state(obj),
        _completions(obj),
        _job_duration(obj, now),
        age(obj, now),
        *containers(at(obj, "spec", "template")),
        selector(at(obj, "spec", "selector")) or NONE,
    ]


def _job_state(obj: JsonObject) -> str:
    holds = [c for c in (*_ENDED, *_UNDER_WAY) if condition_status(obj, c) == "True"]
    if not set(holds).isdisjoint(_ENDED):
        return holds[0]
    if at(obj, "metadata", "deletionTimestamp") is not None:
        return "Terminating"
    return holds[0] if holds else "Running"


def _completions(obj: JsonObject) -> str:
    succeeded = _number(obj, "status", "succeeded")
    completions = at(obj, "spec", "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = _number(obj, "spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(obj: JsonObject, now: datetime) -> str:
    start = read_time(at(obj, "status", "startTime"))
    end = read_time(at(obj, "status", "completionTime"))
    return "" if start is None else human_duration((end or now) - start)


def _cron_job(obj: JsonObject, now: datetime) -> Cells:
    suspend = at(obj, "spec", "suspend")
    scheduled = at(obj, "status", "lastScheduleTime")
    template = at(obj, "spec", "jobTemplate", "spec")
    return [
        name_of(obj),
        at(obj, "spec", "schedule", default=""),
        at(obj, "spec", "timeZone", default=NONE),
        UNSET if suspend is None else str(suspend),
        len(at(obj, "status", "active", default=[])),
        NONE if scheduled is None else since(scheduled, now),
        age(obj, now),
        *containers(at(template, "template")),
        selector(at(template, "selector")) or NONE,
    ]


def _autoscaler(obj: JsonObject, now: datetime) -> Cells:
    least = at(obj, "spec", "minReplicas")
    target = at(obj, "spec", "scaleTargetRef")
    return [
        name_of(obj),
        f"{at(target, 'kind', default='')}/{at(target, 'name', default='')}",
        _metrics(*_metric_lists(obj)),
        UNSET if least is None else str(least),
        _number(obj, "spec", "maxReplicas"),
        _number(obj, "status", "currentReplicas"),
        age(obj, now),
    ]


def _metric_lists(obj: JsonObject) -> tuple[list[Any], list[Any]]:
    """Wanted and measured metrics; ``autoscaling/v1`` has fields for the one it knows."""
    wanted = at(obj, "spec", "targetCPUUtilizationPercentage")
    if wanted is None:
        specs = at(obj, "spec", "metrics", default=[])
        return specs, at(obj, "status", "currentMetrics", default=[])

    def metric(place: str, value: Any) -> dict[str, Any]:
        return {
            "type": "Resource",
            "resource": {"name": "cpu", place: {"averageUtilization": value}},
        }

    measured = at(obj, "status", "currentCPUUtilizationPercentage")
    current = [] if measured is None else [metric("current", measured)]
    return [metric("target", wanted)], current


def _metrics(specs: Sequence[Any], statuses: Sequence[Any]) -> str:
    if not specs:
        return NONE
    shown = [
        _metric(spec, statuses[index] if index < len(statuses) else {})
        for index, spec in enumerate(specs)
    ]
    text = ", ".join(shown[:_MOST_METRICS])
    more = len(shown) - _MOST_METRICS
    return f"{text} + {more} more..." if more > 0 else text


def _metric(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    kind = str(at(spec, "type", default=""))
    field = kind[:1].lower() + kind[1:]
    if kind not in ("External", "Object", "Pods", "Resource", "ContainerResource"):
        return "<unknown type>"
    target, current = at(spec, field, "target"), at(status, field, "current")
    average = at(target, "averageValue")
    if kind in ("Resource", "ContainerResource"):
        prefix = f"{at(spec, field, 'name', default='')}: "
        if average is None:
            wanted = at(target, "averageUtilization")
            measured = at(current, "averageUtilization")
            shown = UNKNOWN if measured is None else f"{measured}%"
            return f"{prefix}{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"
        return f"{prefix}{_measured(current, 'averageValue')}/{average}"
    if kind == "Pods":
        return f"{_measured(current, 'averageValue')}/{average or 0}"
    if average is not None:
        return f"{at(current, 'averageValue', default=UNKNOWN)}/{average} (avg)"
    return f"{_measured(current, 'value')}/{at(target, 'value', default=0)}"


def _measured(current: Any, name: str) -> str:
    return UNKNOWN if current is None else str(at(current, name, default=0))


def _disruption_budget(obj: JsonObject, now: datetime) -> Cells:
    return [
        name_of(obj),
        str(at(obj, "spec", "minAvailable", default="N/A")),
        str(at(obj, "spec", "maxUnavailable", default="N/A")),
        _number(obj, "status", "disruptionsAllowed"),
        age(obj, now),
    ]


def _pod_template(obj: JsonObject, _now: datetime) -> Cells:
    template = at(obj, "template")
    return [name_of(obj), *containers(template), labels(at(template, "metadata", "labels"))]


_REPLICA_SET_COLUMNS: Final = columns(
    "Desired|Current|Ready|Age", wide=_POD_COLUMNS, integers=_REPLICA_COLUMNS
)
_CRON_JOB_COLUMNS: Final = tuple(
    Column("Suspend", "boolean") if column.name == "Suspend" else column
    for column in columns(
        "Schedule|Timezone|Suspend|Active|Last Schedule|Age",
        wide=_POD_COLUMNS,
        integers=("Active",),
    )
)

PRINTERS: Final[Mapping[str, Printer]] = {
    "Deployment": Printer(
        columns("Ready|Up-to-date|Available|Age", wide=_POD_COLUMNS), _deployment
    ),
    "ReplicaSet": Printer(_REPLICA_SET_COLUMNS, _replica_set),
    "ReplicationController": Printer(_REPLICA_SET_COLUMNS, _replication_controller),
    "StatefulSet": Printer(columns("Ready|Age", wide="Containers|Images"), _stateful_set),
    "DaemonSet": Printer(
        columns(
            "Desired|Current|Ready|Up-to-date|Available|Node Selector|Age",
            wide=_POD_COLUMNS,
            integers=(*_REPLICA_COLUMNS, "Up-to-date", "Available"),
        ),
        _daemon_set,
    ),
    "ControllerRevision": Printer(columns("Controller|Revision|Age"), _controller_revision),
    "Job": Printer(columns("Status|Completions|Duration|Age", wide=_POD_COLUMNS), _job),
    "CronJob": Printer(_CRON_JOB_COLUMNS, _cron_job),
    "HorizontalPodAutoscaler": Printer(
        columns("Reference|Targets|MinPods|MaxPods|Replicas|Age"), _autoscaler
    ),
    "PodDisruptionBudget": Printer(
        columns(
            "Min Available|Max Unavailable|Allowed Disruptions|Age",
            integers=("Allowed Disruptions",),
        ),
        _disruption_budget,
    ),
    "PodTemplate": Printer(columns("Containers|Images|Pod Labels"), _pod_template),
}
