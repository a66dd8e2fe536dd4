"""The claims planned so far, found by how many pods they hold and which labels they have."""

from bisect import insort
from collections.abc import Iterable, Iterator

from karpenter.scheduling.claims import OpenClaim, Shape


class ClaimBook:
    """Planned claims as bits of a mask, in the order they were opened."""

    __slots__ = (
        "_by_count",
        "_counts",
        "_defining",
        "_keys",
        "_loose",
        "_pinned",
        "claims",
        "times_told",
    )

    def __init__(self, topology_keys: Iterable[str], told_labels: Iterable[str] = ()) -> None:
        """Keep track of domains for some labels, and of who defines others at all."""
        self.claims: list[OpenClaim] = []
        self.times_told = 0  # how often a claim came to define one of the latter
        self._defining: dict[str, int] = dict.fromkeys(told_labels, 0)  # label -> claims
        self._by_count: dict[int, int] = {}  # pods on a claim -> claims with as many
        self._counts: list[int] = []  # its keys, sorted
        self._keys = tuple(topology_keys)
        self._pinned: dict[tuple[str, str], int] = {}  # (label, domain) -> claims that list it
        self._loose: dict[str, int] = dict.fromkeys(self._keys, 0)  # claims open to any domain

    def add(self, claim: OpenClaim) -> None:
        """Enter a claim that was just opened; it holds no pod yet."""
        self.claims.append(claim)
        bit = 1 << claim.index
        self._put(0, bit)
        for key in self._keys:
            self._enter(key, claim.shape, bit)
        if self._defining:
            self._tell(claim.shape, bit)

    def grow(self, claim: OpenClaim, before: int, after: int) -> None:
        """Note that a claim holds more pods than before."""
        bit = 1 << claim.index
        left = self._by_count[before] & ~bit
        if left:
            self._by_count[before] = left
        else:
            del self._by_count[before]
            self._counts.remove(before)
        self._put(after, bit)

    def reshape(self, claim: OpenClaim, shape: Shape) -> None:
        """Narrow a claim to another shape."""
        bit = 1 << claim.index
        for key in self._keys:
            if claim.shape.requirements.get(key) != shape.requirements.get(key):
                self._leave(key, claim.shape, bit)
                self._enter(key, shape, bit)
        if self._defining:
            self._tell(shape, bit)
        claim.shape = shape

    def fewest_pods_first(self, among: int) -> Iterator[OpenClaim]:
        """Yield the claims in a mask, those with the fewest pods first."""
        for count in self._counts:
            bits = self._by_count[count] & among
            while bits:
                low = bits & -bits
                yield self.claims[low.bit_length() - 1]
                bits ^= low

    def open_to(self, key: str, domains: Iterable[str]) -> int:
        """Claims that are, or could still be, in one of the domains of a label."""
        bits = self._loose[key]
        for domain in domains:
            bits |= self._pinned.get((key, domain), 0)
        return bits

    def defining(self, key: str) -> int:
        """Claims that define a label, one of those that are kept track of."""
        return self._defining[key]

    def _tell(self, shape: Shape, bit: int) -> None:
        for key, claims in self._defining.items():
            if not claims & bit and shape.requirements.get(key) is not None:
                self._defining[key] = claims | bit
                self.times_told += 1

    def _put(self, count: int, bit: int) -> None:
        having = self._by_count.get(count)
        if having is None:
            insort(self._counts, count)
            having = 0
        self._by_count[count] = having | bit

    def _enter(self, key: str, shape: Shape, bit: int) -> None:
        requirement = shape.requirements.get(key)
        if requirement is None or requirement.complement:
            self._loose[key] |= bit
            return
        for value in requirement.values:
            self._pinned[key, value] = self._pinned.get((key, value), 0) | bit

    def _leave(self, key: str, shape: Shape, bit: int) -> None:
        requirement = shape.requirements.get(key)
        if requirement is None or requirement.complement:
            self._loose[key] &= ~bit
            return
        for value in requirement.values:
            self._pinned[key, value] &= ~bit
