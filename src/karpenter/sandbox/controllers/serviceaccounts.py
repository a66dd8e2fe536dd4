"""Service accounts: each namespace has one to begin with, and the certificate that clients check."""

from typing import Final

from karpenter.sandbox.controllers.informer import JsonObject, ObjectKey
from karpenter.sandbox.controllers.pods import is_leaving
from karpenter.sandbox.controllers.runtime import Controller, Runtime
from karpenter.sandbox.memory import Client

_ACCOUNT: Final[JsonObject] = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "default"},
}
# The sandbox speaks plain HTTP on loopback, so there is no certificate to put in
_CERTIFICATE: Final[JsonObject] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kube-root-ca.crt"},
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
        for obj, informer in (
            (_ACCOUNT, self._accounts),
            (_CERTIFICATE, self._config_maps),
        ):
            if informer.get(key[1], obj["metadata"]["name"]) is None:
                await self._client.create(obj, namespace=key[1])
        return None


def _namespace_key(obj: JsonObject) -> tuple[ObjectKey, ...]:
    return (("", obj["metadata"]["namespace"]),)
