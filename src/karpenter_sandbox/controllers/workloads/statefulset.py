"""StatefulSets: pods with names and volumes of their own, started and stopped in order."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.owning import (
    BY_CONTROLLER,
    OwningController,
    is_terminating_namespace,
    nonzero,
)
from karpenter_sandbox.controllers.pods import (
    from_template,
    is_available,
    is_finished,
    is_leaving,
    is_ready,
    next_available,
    phase,
)
from karpenter_sandbox.controllers.workloads.controller_revisions import (
    POD_LABEL,
    History,
    template_of,
)
from karpenter_sandbox.controllers.workloads.rollout import scaled_value, size
from karpenter_sandbox.controllers.workloads.statefulset_claims import (
    claims_of,
    mounted,
    owners_of_claim,
)
from karpenter_sandbox.runtime.events import NORMAL, WARNING
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Runtime, ignoring_missing
from karpenter_sandbox.status import ApiError

_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_ORDINAL: Final = re.compile(r"^(.*)-([0-9]+)$")


@dataclass(frozen=True, slots=True)
class _Group:
    """A set with its pods by ordinal, and the revisions between which it moves."""

    owner: JsonObject
    pods: dict[int, JsonObject]
    current: JsonObject
    update: JsonObject
    now: datetime

    @property
    def ordinals(self) -> range:
        start = (self.owner["spec"].get("ordinals") or {}).get("start", 0)
        return range(start, start + size(self.owner))

    @property
    def condemned(self) -> list[int]:
        """The ordinals beyond those asked for, the highest first."""
        return sorted((n for n in self.pods if n not in self.ordinals), reverse=True)

    @property
    def is_ordered(self) -> bool:
        return bool(self.owner["spec"].get("podManagementPolicy", "OrderedReady") == "OrderedReady")

    def is_steady(self, pod: JsonObject) -> bool:
        """Whether a pod runs, stays and is available, so that the next ordinal may follow."""
        seconds = self.owner["spec"].get("minReadySeconds", 0)
        return (
            phase(pod) == "Running" and not is_leaving(pod) and is_available(pod, seconds, self.now)
        )


class StatefulSetController(OwningController):
    name = "statefulset-controller"
    resource = "statefulsets"
    kind = "StatefulSet"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._pods = runtime.informer("v1", "pods")
        self._claims = runtime.informer("v1", "persistentvolumeclaims")
        self._history = History(runtime, client)
        self.own(self._pods)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Take the next step in the order of the pods."""
        owner = self.owners.get(*key)
        if owner is None:
            return None
        await self.owned(owner, self._pods)
        update = await self._history.latest(owner)
        name = (owner.get("status") or {}).get("currentRevision")
        known = {entry["metadata"]["name"]: entry for entry in self._history.all(owner)}
        current = known.get(name, update)
        group = self._group(owner, current, update)
        try:
            if not is_leaving(owner):
                await self._advance(group)
        finally:
            # Also after a failure, so that the status counts the writes that succeeded
            group = self._group(owner, current, update)
            await self.write_status(owner, _status(group))
        live = {entry["metadata"]["name"] for entry in (current, update)}
        await self._history.trim(owner, live | {_revision(pod) for pod in group.pods.values()})
        seconds = owner["spec"].get("minReadySeconds", 0)
        return next_available(group.pods.values(), seconds, self.clock.now())

    def _group(self, owner: JsonObject, current: JsonObject, update: JsonObject) -> _Group:
        pods = {}
        for pod in self._pods.by_index(BY_CONTROLLER, owner["metadata"]["uid"]):
            found = _ORDINAL.match(pod["metadata"]["name"])
            if found and found[1] == owner["metadata"]["name"]:
                pods[int(found[2])] = pod
        return _Group(owner, pods, current, update, self.clock.now())

    async def _advance(self, group: _Group) -> None:
        for ordinal in group.ordinals:
            is_settled = await self._keep(group, ordinal)
            if group.is_ordered and not is_settled:
                return
        for ordinal in group.condemned:
            is_gone = await self._remove(group, ordinal)
            if group.is_ordered and not is_gone:
                return
        strategy = group.owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") == "RollingUpdate":
            await self._renew(group, strategy.get("rollingUpdate") or {})

    async def _keep(self, group: _Group, ordinal: int) -> bool:
        """Create the pod at ``ordinal`` if missing; return whether the next one may follow."""
        pod = group.pods.get(ordinal)
        if pod is None:
            await self._create(group, ordinal)
            return False
        if is_finished(pod):
            if not is_leaving(pod):
                await self._delete(group.owner, pod)
            return False
        if phase(pod) == "Pending":
            await self._create_claims(group.owner, ordinal)
        await self._settle_claims(group.owner, pod, ordinal, is_condemned=False)
        return group.is_steady(pod)

    async def _remove(self, group: _Group, ordinal: int) -> bool:
        pod = group.pods[ordinal]
        await self._settle_claims(group.owner, pod, ordinal, is_condemned=True)
        if is_leaving(pod):
            return False
        first_unsteady = min(
            (n for n, p in group.pods.items() if not group.is_steady(p)), default=-1
        )
        if group.is_ordered and not group.is_steady(pod) and ordinal != first_unsteady:
            return False
        await self._delete(group.owner, pod)
        return False

    async def _renew(self, group: _Group, rules: JsonObject) -> None:
        """Delete pods of an older revision, the highest first, as many as may be missing."""
        allowed = scaled_value(rules.get("maxUnavailable", 1), size(group.owner), round_up=False)
        pods = [group.pods[n] for n in reversed(group.ordinals) if n in group.pods]
        missing = len(group.ordinals) - len(pods)
        room = max(allowed, 1) - missing - sum(not group.is_steady(pod) for pod in pods)
        first = group.ordinals.start + rules.get("partition", 0)
        wanted = group.update["metadata"]["name"]
        for ordinal in reversed(group.ordinals):
            pod = group.pods.get(ordinal)
            if room <= 0 or ordinal < first:
                return
            if pod is not None and _revision(pod) != wanted and not is_leaving(pod):
                await self._delete(group.owner, pod)
                room -= 1

    async def _create(self, group: _Group, ordinal: int) -> None:
        owner = group.owner
        pod = _new_pod(group, ordinal)
        name = pod["metadata"]["name"]
        try:
            await self._create_claims(owner, ordinal)
            await self.client.create(pod)
        except ApiError as error:
            if is_terminating_namespace(error):
                return
            text = f"Create Pod {name} in StatefulSet {owner['metadata']['name']} failed error: {error}"
            self.recorder.emit(owner, WARNING, "FailedCreate", text)
            raise
        text = f"Create Pod {name} in StatefulSet {owner['metadata']['name']} successful"
        self.recorder.emit(owner, NORMAL, "SuccessfulCreate", text)

    async def _delete(self, owner: JsonObject, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        await ignoring_missing(
            self.client.delete("v1", "pods", metadata["namespace"], metadata["name"])
        )
        text = (
            f"Delete Pod {metadata['name']} in StatefulSet {owner['metadata']['name']} successful"
        )
        self.recorder.emit(owner, NORMAL, "SuccessfulDelete", text)

    async def _create_claims(self, owner: JsonObject, ordinal: int) -> None:
        set_name = owner["metadata"]["name"]
        for claim in claims_of(owner, ordinal).values():
            metadata = claim["metadata"]
            if self._claims.get(metadata["namespace"], metadata["name"]) is None:
                await self.client.create(claim)
                text = (
                    f"Create Claim {metadata['name']} Pod {set_name}-{ordinal}"
                    f" in StatefulSet {set_name} success"
                )
                self.recorder.emit(owner, NORMAL, "SuccessfulCreate", text)

    async def _settle_claims(
        self, owner: JsonObject, pod: JsonObject, ordinal: int, *, is_condemned: bool
    ) -> None:
        """Set the owner references of a pod's claims by the set's retention policy."""
        for wanted in claims_of(owner, ordinal).values():
            metadata = wanted["metadata"]
            claim = self._claims.get(metadata["namespace"], metadata["name"])
            if claim is None:
                continue
            references = owners_of_claim(claim, owner, pod, is_condemned=is_condemned)
            if references != (claim["metadata"].get("ownerReferences") or []):
                changed = {**claim["metadata"], "ownerReferences": references}
                await self.client.update({**claim, "metadata": changed})


def _new_pod(group: _Group, ordinal: int) -> JsonObject:
    owner = group.owner
    revision = _revision_for(group, ordinal)
    template = template_of(revision)
    name = f"{owner['metadata']['name']}-{ordinal}"
    spec: JsonObject = {"hostname": name}
    if owner["spec"].get("serviceName"):
        spec["subdomain"] = owner["spec"]["serviceName"]
    claims = claims_of(owner, ordinal)
    if claims:
        spec["volumes"] = mounted((template.get("spec") or {}).get("volumes") or [], claims)
    labels = {
        _NAME_LABEL: name,
        _INDEX_LABEL: str(ordinal),
        POD_LABEL: revision["metadata"]["name"],
    }
    return from_template(template, owner, name=name, labels=labels, spec=spec)


def _revision_for(group: _Group, ordinal: int) -> JsonObject:
    """The revision a missing pod is made of: the current one below the partition."""
    strategy = group.owner["spec"].get("updateStrategy") or {}
    rules = strategy.get("rollingUpdate")
    if strategy.get("type", "RollingUpdate") != "RollingUpdate" or rules is None:
        return group.update
    is_kept = ordinal < group.ordinals.start + rules.get("partition", 0)
    return group.current if is_kept else group.update


def _revision(pod: JsonObject) -> str:
    name: str = (pod["metadata"].get("labels") or {}).get(POD_LABEL, "")
    return name


def _status(group: _Group) -> JsonObject:
    owner, pods = group.owner, list(group.pods.values())
    seconds = owner["spec"].get("minReadySeconds", 0)
    ready = [pod for pod in pods if phase(pod) == "Running" and is_ready(pod)]
    revisions = [_revision(pod) for pod in pods if not is_leaving(pod)]
    current, update = (entry["metadata"]["name"] for entry in (group.current, group.update))
    total, updated = len(pods), revisions.count(update)
    kept = revisions.count(current)
    if total == updated == len(ready) == size(owner):
        current, kept = update, updated
    counts = {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "readyReplicas": len(ready),
        "currentReplicas": kept,
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": update,
    }
    return {
        **nonzero(counts),
        "replicas": total,
        "availableReplicas": sum(is_available(pod, seconds, group.now) for pod in ready),
        "collisionCount": 0,
    }
