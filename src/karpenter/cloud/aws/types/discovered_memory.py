"""The memory that nodes reported, which overrides the estimate of their type.

How much memory the kernel sees depends on the image, so what is learned holds for a type with one
list of images. The least value reported is kept: a plan must fit every node of the type.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from karpenter.api.node_classes.ec2 import AMIStatus
from karpenter.clock import Clock
from karpenter.cloud.aws.ec2.cache import TtlCache

_LIFETIME: Final = timedelta(days=60)


class DiscoveredMemory:
    """What is known of the memory of types."""

    def __init__(self, clock: Clock) -> None:
        self.sequence = 0  # grows with every change
        self._bytes: TtlCache[tuple[str, frozenset[str]], int] = TtlCache(
            clock, _LIFETIME.total_seconds()
        )

    def learn(self, instance_type: str, images: Sequence[AMIStatus], memory: int) -> None:
        """Take note of the memory of a node that booted the type's present image."""
        key = (instance_type, _ids(images))
        known = self._bytes.get(key)
        if known is not None and memory > known:
            return
        self._bytes.put(key, memory)
        if memory != known:
            self.sequence += 1

    def of(self, instance_type: str, images: Sequence[AMIStatus]) -> int | None:
        """The bytes of memory that nodes of a type had, or None if none has come yet."""
        return self._bytes.get((instance_type, _ids(images)))

    def known(self, images: Sequence[AMIStatus]) -> dict[str, int]:
        """All types that nodes are known of with a list of images."""
        wanted = _ids(images)
        return {kind: memory for (kind, ids), memory in self._bytes.items() if ids == wanted}


def _ids(images: Sequence[AMIStatus]) -> frozenset[str]:
    return frozenset(image.id for image in images)
