"""The client of simulated kubelets, which makes heartbeats cheap.

A thousand nodes renew a hundred leases every second. These writes come from the sandbox itself and
change nothing but a time, so they go to the store without validation.
"""

from typing import Any, Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.backend import Backend
from karpenter_sandbox.client import Client
from karpenter_sandbox.status import not_found
from karpenter_sandbox.store.store import Key

_LEASES: Final = ("coordination.k8s.io", "leases")


class KubeletClient(Client):
    """A client that renews leases directly in the store and does everything else as usual."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._store = backend.store

    async def patch(
        self,
        patch_type: str,
        api_version: str,
        resource: str,
        namespace: str | None,
        name: str,
        patch: Any,
        **options: Any,
    ) -> JsonObject:
        """Change an object in part."""
        if resource == _LEASES[1] and _is_renewal(patch):
            return self._renew(Key(*_LEASES, namespace or "", name), patch["spec"])
        return await super().patch(
            patch_type, api_version, resource, namespace, name, patch, **options
        )

    def _renew(self, key: Key, times: JsonObject) -> JsonObject:
        lease = self._store.get(key)
        if lease is None:
            raise not_found(*_LEASES, key.name)
        return self._store.replace(key, {**lease, "spec": {**lease["spec"], **times}})


def _is_renewal(patch: Any) -> bool:
    return (
        isinstance(patch, dict) and list(patch) == ["spec"] and list(patch["spec"]) == ["renewTime"]
    )
