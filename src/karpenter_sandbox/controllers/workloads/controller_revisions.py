"""ControllerRevisions: the templates that StatefulSets and DaemonSets have had."""

from collections.abc import Iterable
from typing import Final

import msgspec

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.owning import BY_CONTROLLER
from karpenter_sandbox.controllers.pods import controller_reference
from karpenter_sandbox.controllers.workloads.revisions import code_of
from karpenter_sandbox.runtime.runtime import Runtime, controller_uids

POD_LABEL: Final = "controller-revision-hash"
_HASH_LABEL: Final = "controller.kubernetes.io/hash"
_API: Final = ("apps/v1", "controllerrevisions")
_encoder = msgspec.json.Encoder(order="deterministic")


class History:
    """The revisions of the owners that one controller looks after."""

    def __init__(self, runtime: Runtime, client: Client, label: str = _HASH_LABEL) -> None:
        """Follow the revisions; ``label`` is the one that carries the hash of a template."""
        self._client = client
        self._label = label
        self._revisions = runtime.informer(*_API)
        self._revisions.add_index(BY_CONTROLLER, controller_uids)

    def all(self, owner: JsonObject) -> list[JsonObject]:
        """The revisions of an owner, the oldest first."""
        found = self._revisions.by_index(BY_CONTROLLER, owner["metadata"]["uid"])
        return sorted(found, key=lambda entry: (entry["revision"], entry["metadata"]["name"]))

    async def latest(self, owner: JsonObject) -> JsonObject:
        """The revision of the owner's template, created or renumbered as the newest if needed."""
        known = self.all(owner)
        data = _data(owner)
        found = next((entry for entry in reversed(known) if entry.get("data") == data), None)
        following = known[-1]["revision"] + 1 if known else 1
        if found is None:
            return await self._client.create(self._new(owner, data, following))
        if found["revision"] < following - 1:
            return await self._client.update({**found, "revision": following})
        return found

    async def trim(self, owner: JsonObject, live: Iterable[str]) -> None:
        """Delete the oldest unused revisions, beyond those kept for a rollback."""
        used = set(live)
        past = [entry for entry in self.all(owner) if entry["metadata"]["name"] not in used]
        limit = owner["spec"].get("revisionHistoryLimit", 10)
        for entry in past[: max(0, len(past) - limit)]:
            metadata = entry["metadata"]
            await self._client.delete(*_API, metadata["namespace"], metadata["name"])

    def _new(self, owner: JsonObject, data: JsonObject, number: int) -> JsonObject:
        code = code_of(_encoder.encode(data))
        metadata = owner["metadata"]
        labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
        return {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                "name": f"{metadata['name']}-{code}",
                "namespace": metadata["namespace"],
                "labels": {**labels, self._label: code},
                "annotations": metadata.get("annotations") or {},
                "ownerReferences": [controller_reference(owner)],
            },
            "data": data,
            "revision": number,
        }


def template_of(revision: JsonObject) -> JsonObject:
    """The template that a revision stores."""
    template: JsonObject = revision["data"]["spec"]["template"]
    return {key: value for key, value in template.items() if key != "$patch"}


def _data(owner: JsonObject) -> JsonObject:
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}
