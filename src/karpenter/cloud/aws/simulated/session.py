"""Takes the place of a boto3 session: calls go to moto, or to a handler that replaces it.

Every call is first validated against the service's model, so that parameters accepted here are also
accepted by AWS.
"""

import importlib
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from karpenter.cloud.aws.simulated.faults import Faults, client_error, lost_answer

# Answers a call in moto's place; it may ask the real client
Handler = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]


class SimulatedSession:
    """Makes clients of a simulated AWS."""

    def __init__(self, region: str, faults: Faults) -> None:
        """Take the place of a boto3 session; moto must be active already."""
        self.region_name: Final = region
        self.faults: Final = faults
        self.handlers: Final[dict[tuple[str, str], Handler]] = {}  # by service and operation
        # moto is not thread-safe
        self.lock: Final = threading.RLock()

    def client(
        self,
        service: str,
        *,
        region_name: str = "",
        endpoint_url: str | None = None,
        config: Any = None,
    ) -> "SimulatedClient":
        """A client of a service."""
        return SimulatedClient(self, service, self.plain_client(service, region_name))

    def plain_client(self, service: str, region: str = "") -> Any:
        """A client that talks to moto directly, past all faults and handlers."""
        with self.lock:
            return _client(service, region or self.region_name)


# Service models are slow to load, and clients hold no state of the account
@cache
def _client(service: str, region: str) -> Any:
    return _session().client(service, region_name=region)


@cache
def _session() -> Any:
    return importlib.import_module("boto3").Session(
        aws_access_key_id="simulated",
        aws_secret_access_key="simulated",  # noqa: S106 not a real credential
    )


class SimulatedClient:
    """A client of one service."""

    def __init__(self, session: SimulatedSession, service: str, client: Any) -> None:
        self.meta: Final = client.meta
        self._session = session
        self._service = service
        self._client = client
        self._validator = importlib.import_module("botocore.validate").ParamValidator()

    def __getattr__(self, method: str) -> Callable[..., Mapping[str, Any]]:
        operation = self.meta.method_to_api_mapping.get(method)
        if operation is None:
            raise AttributeError(method)

        def call(**parameters: Any) -> Mapping[str, Any]:
            return self._call(method, operation, parameters)

        return call

    def _call(
        self, method: str, operation: str, parameters: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        self._validate(operation, parameters)
        failure = self._session.faults.strike(operation)
        handler = self._session.handlers.get((self._service, operation))
        with self._session.lock:
            if handler is None:
                answer: Mapping[str, Any] = getattr(self._client, method)(**parameters)
            else:
                answer = handler(self._client, parameters)
        if failure is not None:
            raise lost_answer(operation)
        return answer

    def _validate(self, operation: str, parameters: Mapping[str, Any]) -> None:
        shape = self.meta.service_model.operation_model(operation).input_shape
        if shape is None:
            return
        report = self._validator.validate(dict(parameters), shape)
        if report.has_errors():
            raise client_error(operation, "InvalidParameterValue", report.generate_report())
