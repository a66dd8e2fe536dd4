"""Drops old changes from the history every five minutes, as an API server compacts etcd."""

from karpenter_sandbox.runtime.runtime import Controller, Runtime
from karpenter_sandbox.store.store import Store


class Compaction(Controller):
    name = "compaction"
    period = 300.0

    def __init__(self, runtime: Runtime, store: Store) -> None:
        super().__init__(runtime)
        self._store = store

    async def tick(self) -> None:
        """Drop the changes that are older than the previous call."""
        self._store.compact()
