"""Deployments: one ReplicaSet per template, and rollouts from one to the next."""

from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.conditions import find_condition
from karpenter_sandbox.controllers.owning import (
    BY_CONTROLLER,
    OwningController,
    by_age,
    is_terminating_namespace,
)
from karpenter_sandbox.controllers.pods import controller_reference, is_finished, is_leaving
from karpenter_sandbox.controllers.workloads import deployment_status as statuses
from karpenter_sandbox.controllers.workloads.revisions import (
    HASH_LABEL,
    REVISION,
    renewed_annotations,
    resized_annotations,
    revision,
    same_template,
    template_hash,
    unfit_for_history,
)
from karpenter_sandbox.controllers.workloads.rollout import (
    Step,
    first_size,
    is_resized,
    is_rolling,
    recreate_step,
    rolling_step,
    scaling_step,
    size,
)
from karpenter_sandbox.runtime.events import NORMAL, WARNING
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Runtime, controller_of
from karpenter_sandbox.status import ApiError

_CONFLICT: Final = 409
_LONGEST_NAME: Final = 253


class DeploymentController(OwningController):
    name = "deployment-controller"
    resource = "deployments"
    kind = "Deployment"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime, client)
        self._replica_sets = runtime.informer("apps/v1", "replicasets")
        self._pods = runtime.informer("v1", "pods")
        self.own(self._replica_sets)
        # Recreate creates new pods only after the last old pod is gone
        self._pods.on_change(self._look_when_gone)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Take the next step towards what the Deployment asks for."""
        deployment = self.owners.get(*key)
        if deployment is None:
            return None
        replica_sets = by_age(await self.owned(deployment, self._replica_sets))
        if not is_leaving(deployment):
            noted = statuses.paused_or_resumed(deployment, self.clock.now())
            if noted is not None:
                deployment = await self.write_status(deployment, noted)
        new = next((rs for rs in replica_sets if same_template(rs, deployment)), None)
        old = [rs for rs in replica_sets if rs is not new]
        if is_leaving(deployment):
            return await self._report(deployment, new)
        if new is not None:
            deployment, new = await self._keep_revision(deployment, new, old)
        if deployment["spec"].get("paused") or is_resized(deployment, replica_sets):
            return await self._rescale(deployment, new, old)
        return await self._roll_out(deployment, new, old)

    async def _rescale(
        self, deployment: JsonObject, new: JsonObject | None, old: list[JsonObject]
    ) -> float | None:
        for replica_set, count in scaling_step(deployment, new, old):
            await self._resize(deployment, replica_set, count)
        if deployment["spec"].get("paused"):
            await self._clean_up(deployment, old)
        return await self._report(deployment, new)

    async def _roll_out(
        self, deployment: JsonObject, new: JsonObject | None, old: list[JsonObject]
    ) -> float | None:
        step: Step = [] if is_rolling(deployment) else recreate_step(old)
        may_create = is_rolling(deployment) or not (step or self._has_pods(old))
        if new is None and may_create:
            deployment, new = await self._create(deployment, old)
        if new is not None and is_rolling(deployment):
            step = rolling_step(deployment, new, old)
        elif new is not None and may_create:
            step = [(new, size(deployment))]
        is_changed = False
        for replica_set, count in step:
            is_changed |= await self._resize(deployment, replica_set, count)
        known = deployment.get("status") or {}
        if not is_changed and statuses.is_complete(deployment, known):
            await self._clean_up(deployment, old)
        return await self._report(deployment, new, is_rollout=True)

    async def _report(
        self, deployment: JsonObject, new: JsonObject | None, *, is_rollout: bool = False
    ) -> float | None:
        now = self.clock.now()
        uid = deployment["metadata"]["uid"]
        everything = by_age(self._replica_sets.by_index(BY_CONTROLLER, uid))
        if new is not None:
            new = self._replica_sets.get(new["metadata"]["namespace"], new["metadata"]["name"])
        report = statuses.rolled_out if is_rollout else statuses.counted
        status = report(deployment, new, everything, now)
        await self.write_status(deployment, status)
        return statuses.seconds_to_deadline(deployment, status, now) if is_rollout else None

    async def _create(
        self, deployment: JsonObject, old: list[JsonObject]
    ) -> tuple[JsonObject, JsonObject | None]:
        """Make the ReplicaSet of the current template."""
        wanted = _new_replica_set(deployment, old)
        name, count = wanted["metadata"]["name"], wanted["spec"]["replicas"]
        try:
            created = await self.client.create(wanted)
        except ApiError as error:
            await self._report_refusal(deployment, name, error)
            raise
        if count:
            text = f"Scaled up replica set {name} from 0 to {count}"
            self.recorder.emit(deployment, NORMAL, "ScalingReplicaSet", text)
        if statuses.has_deadline(deployment):
            deployment = self._with_progress(
                deployment, "True", "NewReplicaSetCreated", f'Created new replica set "{name}"'
            )
        return await self.client.update_status(_numbered(deployment, created)), created

    async def _report_refusal(self, deployment: JsonObject, name: str, error: ApiError) -> None:
        if is_terminating_namespace(error):
            return
        if error.status == _CONFLICT and error.reason == "AlreadyExists":
            # Another template has the same hash: the next attempt hashes the count with it
            status = deployment.get("status") or {}
            count = status.get("collisionCount", 0) + 1
            await self.write_status(deployment, {**status, "collisionCount": count})
            return
        text = f'Failed to create new replica set "{name}": {error}'
        self.recorder.emit(deployment, WARNING, "ReplicaSetCreateError", text)
        if statuses.has_deadline(deployment):
            failed = self._with_progress(deployment, "False", "ReplicaSetCreateError", text)
            await self.client.update_status(failed)

    async def _keep_revision(
        self, deployment: JsonObject, new: JsonObject, old: list[JsonObject]
    ) -> tuple[JsonObject, JsonObject]:
        """Give the new set the highest revision, and record it on the Deployment."""
        annotations = renewed_annotations(deployment, new, old)
        seconds = deployment["spec"].get("minReadySeconds")
        known = new["metadata"].get("annotations") or {}
        if annotations != known or seconds != new["spec"].get("minReadySeconds"):
            spec = {**new["spec"], "minReadySeconds": seconds or 0}
            metadata = {**new["metadata"], "annotations": annotations}
            new = await self.client.update({**new, "metadata": metadata, "spec": spec})
        changed = _numbered(deployment, new)
        if statuses.has_deadline(deployment) and find_condition(deployment, "Progressing") is None:
            text = f'Found new replica set "{new["metadata"]["name"]}"'
            changed = self._with_progress(changed, "True", "FoundNewReplicaSet", text)
        if changed is not deployment:
            deployment = await self.client.update_status(changed)
        return deployment, new

    async def _resize(self, deployment: JsonObject, replica_set: JsonObject, count: int) -> bool:
        """Scale a set, annotate it with the Deployment's size, and return whether it was scaled."""
        before, name = size(replica_set), replica_set["metadata"]["name"]
        annotations = resized_annotations(deployment, replica_set)
        if count == before and annotations == replica_set["metadata"].get("annotations"):
            return False
        metadata = {**replica_set["metadata"], "annotations": annotations}
        spec = {**replica_set["spec"], "replicas": count}
        await self.client.update({**replica_set, "metadata": metadata, "spec": spec})
        if count == before:
            return False
        way = "up" if count > before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {count}"
        self.recorder.emit(deployment, NORMAL, "ScalingReplicaSet", text)
        return True

    async def _clean_up(self, deployment: JsonObject, old: list[JsonObject]) -> None:
        """Delete the oldest empty sets beyond ``revisionHistoryLimit``."""
        for replica_set in unfit_for_history(deployment, old):
            metadata = replica_set["metadata"]
            await self.client.delete(
                "apps/v1", "replicasets", metadata["namespace"], metadata["name"]
            )

    def _with_progress(
        self, deployment: JsonObject, value: str, reason: str, text: str
    ) -> JsonObject:
        status = statuses.with_condition(
            deployment.get("status") or {},
            statuses.PROGRESSING,
            value,
            reason,
            text,
            self.clock.now(),
        )
        return {**deployment, "status": status}

    def _has_pods(self, replica_sets: list[JsonObject]) -> bool:
        return any(
            (rs.get("status") or {}).get("replicas", 0)
            or any(
                not is_finished(pod)
                for pod in self._pods.by_index(BY_CONTROLLER, rs["metadata"]["uid"])
            )
            for rs in replica_sets
        )

    def _look_when_gone(self, old: JsonObject | None, new: JsonObject | None) -> None:
        if old is None or new is not None:
            return
        owner = controller_of(old)
        if owner is None or owner["kind"] != "ReplicaSet":
            return
        namespace = old["metadata"]["namespace"]
        replica_set = self._replica_sets.get(namespace, owner["name"])
        reference = controller_of(replica_set) if replica_set else None
        deployment = self.owners.get(namespace, reference["name"]) if reference else None
        if deployment is not None and not is_rolling(deployment):
            self.queue.add((namespace, deployment["metadata"]["name"]))


def _numbered(deployment: JsonObject, new: JsonObject) -> JsonObject:
    """The Deployment with the revision of its new set."""
    number = new["metadata"]["annotations"][REVISION]
    annotations = deployment["metadata"].get("annotations") or {}
    if annotations.get(REVISION) == number:
        return deployment
    metadata = {**deployment["metadata"], "annotations": {**annotations, REVISION: number}}
    return {**deployment, "metadata": metadata}


def _new_replica_set(deployment: JsonObject, old: list[JsonObject]) -> JsonObject:
    metadata, spec = deployment["metadata"], deployment["spec"]
    code = template_hash(deployment)
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: code}
    selector = spec["selector"]
    narrowed = {**(selector.get("matchLabels") or {}), HASH_LABEL: code}
    replica_set: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name'][: _LONGEST_NAME - len(code) - 1]}-{code}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": first_size(deployment, old),
            "selector": {**selector, "matchLabels": narrowed},
            "template": {
                **template,
                "metadata": {**(template.get("metadata") or {}), "labels": labels},
            },
        },
    }
    if spec.get("minReadySeconds"):
        replica_set["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    number = str(max((revision(rs) for rs in old), default=0) + 1)
    annotations = {**renewed_annotations(deployment, replica_set, old), REVISION: number}
    replica_set["metadata"]["annotations"] = annotations
    replica_set["metadata"]["annotations"] = resized_annotations(deployment, replica_set)
    return replica_set
