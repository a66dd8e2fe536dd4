"""What the store refuses, and why."""

from typing import TYPE_CHECKING

from karpenter_sandbox.status import ApiError

if TYPE_CHECKING:
    from karpenter_sandbox.store.store import Key


class StoreError(Exception):
    """What the store refuses.

    * StoreError
      x AlreadyExistsError   the key is taken
      x MissingError         there is no object at the key
      x ConflictError        the object is at another resource version than expected
      x Gone                 the history no longer reaches back to a resource version
      x NotYet               a resource version that lies in the future
      x TooLargeError        an object that is too large to be kept (also an ApiError)
      x NotKeptError         a change that cannot be written down (also an ApiError)
    """


class AlreadyExistsError(StoreError):
    def __init__(self, key: "Key") -> None:
        super().__init__(f"{key.resource} {key.name} already exists")
        self.key = key


class MissingError(StoreError):
    def __init__(self, key: "Key") -> None:
        super().__init__(f"{key.resource} {key.name} does not exist")
        self.key = key


class ConflictError(StoreError):
    def __init__(self, key: "Key", expected: str, actual: str) -> None:
        super().__init__(f"{key.resource} {key.name} is at version {actual}, not {expected}")
        self.key = key
        self.expected = expected
        self.actual = actual


class Gone(StoreError):  # noqa: N818 the name of the HTTP status, which callers look for
    def __init__(self, wanted: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {wanted} ({oldest})")
        self.wanted = wanted
        self.oldest = oldest


class NotYet(StoreError):  # noqa: N818 a state of the world rather than a failure
    def __init__(self, wanted: int, current: int) -> None:
        super().__init__(f"Too large resource version: {wanted}, current: {current}")
        self.wanted = wanted
        self.current = current


class TooLargeError(StoreError, ApiError):
    """An object beyond etcd's size limit; API servers answer with etcd's message as a 500."""

    def __init__(self, key: "Key", size: int) -> None:
        ApiError.__init__(self, 500, "", "etcdserver: request is too large")
        self.key = key
        self.size = size


class NotKeptError(StoreError, ApiError):
    """A change that the journal could not write, and that was not applied."""

    def __init__(self, problem: str) -> None:
        details = {"causes": [{"message": problem}]}
        ApiError.__init__(self, 500, "InternalError", problem, details)
