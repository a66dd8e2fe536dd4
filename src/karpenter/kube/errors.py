"""The errors of an API server, by class: callers decide by class, never by text."""

from collections.abc import Mapping
from typing import Final

from karpenter.api.codec import decode_as
from karpenter.api.meta import Status, StatusDetails
from karpenter.api.problems import DecodeError
from karpenter.kube.transport import Response


class KubeError(Exception):
    """Base of the errors of requests to an API server.

    * KubeError
      x ConnectionLostError       no complete answer; the request may have been carried out
      x ConfigError               what describes the cluster cannot be used
      x CredentialsError          there are no usable credentials
      x UnreadableAnswerError     the answer cannot be decoded as what was requested
      x NoApiServerError          the server does not serve what every API server does
      x ApiError                  the server refused the request
        x BadRequestError           400  the request is malformed
        x UnauthorizedError         401  the credentials are missing or not accepted
        x ForbiddenError            403  no role allows the request
        x NotFoundError             404  there is no such object, or no such kind
        x ConflictError             409  the object has changed since it was read
        x AlreadyExistsError        409  the name is taken
        x GoneError                 410  the history does not reach back so far; list again
        x InvalidError              422  the object breaks a rule of its kind
        x TooManyRequestsError      429  retry later; or a PDB blocks the eviction
        x ServerError               5xx  the server is at fault
    """


class ConnectionLostError(KubeError):
    """No complete answer came."""


class ConfigError(KubeError):
    """The configuration of the cluster is missing or cannot be used."""


class CredentialsError(KubeError):
    """There are no usable credentials."""


class UnreadableAnswerError(KubeError):
    """An answer that cannot be decoded as what was requested; ``problem`` has the path."""

    def __init__(self, method: str, path: str, problem: DecodeError) -> None:
        # A decoding error within an object has a path; without one, the answer is not an API
        # server's
        hint = "" if problem.path else "; is it an API server?"
        super().__init__(f"the answer to {method} {path} cannot be read: {problem}{hint}")
        self.problem = problem


class NoApiServerError(KubeError):
    """The server does not serve the paths of an API server."""

    def __init__(self, path: str) -> None:
        super().__init__(f"the answer to GET {path} is 404 not found; is it an API server?")


class ApiError(KubeError):
    """The server refused a request."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        reason: str = "",
        details: StatusDetails | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.details = details
        self.retry_after = retry_after  # seconds the server asks us to wait, if it does


class BadRequestError(ApiError):
    pass


class UnauthorizedError(ApiError):
    def __str__(self) -> str:
        """The message with a remedy: the server's own text is a single word."""
        said = super().__str__()
        return (
            f"the API server does not know who asks ({said}); check the user of the kubeconfig,"
            " or the token of the service account"
        )


class ForbiddenError(ApiError):
    pass


class NotFoundError(ApiError):
    pass


class ConflictError(ApiError):
    pass


class AlreadyExistsError(ApiError):
    pass


class GoneError(ApiError):
    pass


class InvalidError(ApiError):
    pass


class TooManyRequestsError(ApiError):
    pass


class ServerError(ApiError):
    pass


_NO_HEADERS: Final[Mapping[str, str]] = {}
_CLASSES: Final[Mapping[int, type[ApiError]]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def refusal(response: Response) -> ApiError:
    """The error an answer with a status of 400 or more stands for."""
    return from_status(response.status, _status_in(response), response.headers)


def from_status(
    code: int, status: Status | None, headers: Mapping[str, str] = _NO_HEADERS
) -> ApiError:
    """The error for a ``Status`` object, from an answer or a line of a watch."""
    status = status or Status()
    known = _CLASSES.get(code, ServerError if code >= 500 else ApiError)
    if code == 409 and status.reason == "AlreadyExists":
        known = AlreadyExistsError
    message = status.message or f"the server answered {code}"
    return known(
        code,
        message,
        reason=status.reason,
        details=status.details,
        retry_after=_retry_after(status, headers),
    )


def _status_in(response: Response) -> Status | None:
    try:
        return decode_as(response.body, Status)
    except DecodeError:
        text = response.body[:200].decode(errors="replace").strip()
        return Status(message=f"the server answered {response.status}: {text}" if text else "")


def _retry_after(status: Status, headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    if value.isdigit():
        return float(value)
    if status.details is not None and status.details.retry_after_seconds:
        return float(status.details.retry_after_seconds)
    return None
