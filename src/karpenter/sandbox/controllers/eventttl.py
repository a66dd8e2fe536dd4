"""Events are kept for an hour, as an API server keeps them."""

from datetime import timedelta
from typing import Final

from karpenter.sandbox.backend import parse_timestamp
from karpenter.sandbox.controllers.informer import JsonObject
from karpenter.sandbox.controllers.runtime import Controller, Runtime, ignoring_missing
from karpenter.sandbox.memory import Client

_KEPT: Final = timedelta(hours=1)


class EventExpiry(Controller):
    name = "event-expiry"
    period = 60.0

    def __init__(self, runtime: Runtime, client: Client) -> None:
        super().__init__(runtime)
        self._client = client
        self._events = runtime.informer("v1", "events")

    async def tick(self) -> None:
        """Delete the events whose time is over."""
        limit = self.clock.now() - _KEPT
        for event in self._events.list():
            if parse_timestamp(_last(event)) < limit:
                metadata = event["metadata"]
                await ignoring_missing(
                    self._client.delete("v1", "events", metadata["namespace"], metadata["name"])
                )


def _last(event: JsonObject) -> str:
    """When an event happened last."""
    series = (event.get("series") or {}).get("lastObservedTime")
    moment: str = (
        series
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"]["creationTimestamp"]
    )
    return moment
