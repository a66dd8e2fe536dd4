"""SSM parameters, in which AWS publishes the ids of its images."""

from datetime import timedelta
from typing import Final

from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache
from karpenter.cloud.aws.ec2.calls import Calls
from karpenter.cloud.aws.ec2.errors import AwsNotFoundError

SWEEP: Final = timedelta(minutes=30)
_LIFETIME: Final = timedelta(hours=24)
_CUSTOM_LIFETIME: Final = timedelta(minutes=5)
_MOVING: Final = frozenset({"latest", "recommended"})


class Parameters:
    """Parameters by name; that one does not exist is not cached."""

    def __init__(self, calls: Calls, clock: Clock) -> None:
        self._calls = calls
        self._values: TtlCache[str, str] = TtlCache(clock, _LIFETIME.total_seconds())

    async def get(self, name: str, *, is_custom: bool = False) -> str | None:
        """The value of a parameter, or None if there is none.

        Args:
            name: the name or the ARN of the parameter.
            is_custom: whether a user wrote it, who may change it at any time.
        """
        known = self._values.get(name)
        if known is not None:
            return known
        try:
            answer = await self._calls.call("ssm", "GetParameter", Name=name)
        except AwsNotFoundError:
            return None
        value = str(answer["Parameter"]["Value"])
        lifetime = _CUSTOM_LIFETIME if is_custom else _LIFETIME
        return self._values.put(name, value, lifetime.total_seconds())

    def moving_images(self) -> dict[str, list[str]]:
        """The images of parameters that AWS updates to newer images: image -> parameters."""
        found: dict[str, list[str]] = {}
        for name, value in self._values.items():
            if _MOVING & set(name.split("/")) or "ami-windows-latest" in name:
                found.setdefault(value, []).append(name)
        return found

    def forget(self, name: str) -> None:
        """Drop a cached parameter, so that the next ``get`` reads it again."""
        self._values.drop(name)
