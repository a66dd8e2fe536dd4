"""Autoscalers and CronJobs of a recording that act again, in place of what they did.

An autoscaler gets the load that was recorded, as the number of pods that would carry it, and one that
never told it stays as it was: what it did is replayed.
"""

from collections.abc import Sequence
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter.simulate.demand.objects import METRIC_TOTAL, RUN_DURATION, total_metric
from karpenter.simulate.demand.sktrace import DURATIONS, SERIES
from karpenter.simulate.record.kinds import controller_of
from karpenter.simulate.record.segments import Change, Gap, Key

LIVE: Final = ("HorizontalPodAutoscaler", "CronJob")


class LiveOwners:
    """What acts again, as far as a recording has been read."""

    def __init__(self) -> None:
        self.autoscalers: set[Key] = set()  # whose load is known at some time
        self.without_load: set[Key] = set()
        self.scaled: set[Key] = set()  # what they scale
        self._jobs: dict[Key, dict[str, None]] = {}  # CronJob -> uids of its Jobs

    def take(self, change: Change | Gap) -> None:
        """Take a change."""
        if isinstance(change, Gap) or change.after is None:
            return
        key, obj = change.key, change.after
        if key[0] == "HorizontalPodAutoscaler":
            self._autoscaler(key, obj)
        elif key[0] == "Job" and (name := cron_job_of(obj)):
            uid = str(obj["metadata"].get("uid", ""))
            self._jobs.setdefault(("CronJob", key[1], name), {})[uid] = None

    def jobs_of(self, cron_job: Key) -> list[str]:
        """The uids of the Jobs of a CronJob, in their order."""
        return list(self._jobs.get(cron_job, ()))

    def _autoscaler(self, key: Key, obj: JsonObject) -> None:
        if key in self.autoscalers:
            return
        if _load(obj) is None:
            self.without_load.add(key)
            return
        self.without_load.discard(key)
        self.autoscalers.add(key)
        target = obj["spec"]["scaleTargetRef"]
        self.scaled.add((str(target["kind"]), key[1], str(target["name"])))


def cron_job_of(obj: JsonObject) -> str:
    """The CronJob that made a Job, if one did."""
    owner = controller_of(obj) or {}
    return str(owner.get("name", "")) if owner.get("kind") == "CronJob" else ""


def live_autoscaler(obj: JsonObject, known: JsonObject | None) -> JsonObject:
    """An autoscaler whose metric is the recorded load; where that is not told, it is what it was."""
    metadata, load = obj["metadata"], _load(obj)
    before = known["metadata"]["annotations"] if known is not None else {}
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": {
            **{key: metadata[key] for key in ("name", "namespace") if key in metadata},
            "annotations": before if load is None else {METRIC_TOTAL: f"{load:.3f}"},
        },
        "spec": {**obj["spec"], "metrics": [total_metric(1.0)]},
    }


def live_cron_job(obj: JsonObject, job: JsonObject, lengths: Sequence[float]) -> JsonObject:
    """A CronJob whose pods run one after the other as long as those that were recorded did."""
    metadata, spec = job["metadata"], dict(job["spec"])
    if lengths:
        template = spec["template"]
        notes = {**template["metadata"]["annotations"]}
        notes.pop(RUN_DURATION, None)
        notes[DURATIONS] = ",".join(f"{each:.3f}" for each in lengths)
        notes[SERIES] = f"{metadata.get('namespace', '')}/{metadata['name']}"
        spec["template"] = {**template, "metadata": {**template["metadata"], "annotations": notes}}
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": metadata,
        "spec": {**(obj.get("spec") or {}), "jobTemplate": {"spec": spec}},
    }


def _load(obj: JsonObject) -> float | None:
    return (obj.get("status") or {}).get("load")
