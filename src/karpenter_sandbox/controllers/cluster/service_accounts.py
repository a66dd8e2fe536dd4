"""Service accounts: each namespace has one to begin with, and the certificate that clients check."""

from typing import Final

from karpenter.api.meta import JsonObject
from karpenter_sandbox.client import Client
from karpenter_sandbox.controllers.pods import is_leaving
from karpenter_sandbox.runtime.informer import ObjectKey
from karpenter_sandbox.runtime.runtime import Controller, Runtime

_ACCOUNT: Final = "default"
_CERTIFICATE: Final = "kube-root-ca.crt"


def first_account(namespace: str) -> JsonObject:
    """The account that pods of a namespace have when they ask for no other."""
    metadata = {"name": _ACCOUNT, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def root_certificate(namespace: str) -> JsonObject:
    """What pods check the API server with; on plain HTTP there is nothing to put in."""
    metadata = {"name": _CERTIFICATE, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"ca.crt": ""},
    }


class ServiceAccountController(Controller):
    name = "serviceaccount-controller"

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._namespaces = runtime.informer("v1", "namespaces")
        self._accounts = runtime.informer("v1", "serviceaccounts")
        self._config_maps = runtime.informer("v1", "configmaps")
        self.follow(self._namespaces)
        self.follow(self._accounts, _namespace_key)
        self.follow(self._config_maps, _namespace_key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Create what is missing."""
        namespace = self._namespaces.get(*key)
        if namespace is None or is_leaving(namespace):
            return None
        if self._accounts.get(key[1], _ACCOUNT) is None:
            await self._client.create(first_account(key[1]))
        if self._config_maps.get(key[1], _CERTIFICATE) is None:
            await self._client.create(root_certificate(key[1]))
        return None


def _namespace_key(obj: JsonObject) -> tuple[ObjectKey, ...]:
    return (("", obj["metadata"]["namespace"]),)
