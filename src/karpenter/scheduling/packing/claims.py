"""Claims that are being planned: what they have been narrowed to, and an index of them.

Most claims of a pool are narrowed in the same few ways, so the narrowed requirements are shared:
a ``Shape`` is one pool's requirements after some chain of narrowings, with the offerings they
allow. Shapes are interned, which makes "this pod on a claim of that shape" a dictionary lookup.
``ClaimIndex`` finds claims by how many pods they hold and which labels they have.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from typing import Final

from karpenter.model.labels import HOSTNAME
from karpenter.model.requirement import Requirement
from karpenter.model.requirements import Requirements
from karpenter.scheduling.compiled.host_ports import HostPort
from karpenter.scheduling.compiled.offerings import OfferingIndex
from karpenter.scheduling.compiled.pod_classes import PodClass


class Shape:
    """Requirements a claim has been narrowed to, and the offerings they leave."""

    __slots__ = ("bits", "number", "requirements")

    def __init__(self, number: int, requirements: Requirements, bits: int) -> None:
        """Number a set of requirements; ``bits`` are the offerings that satisfy all of them."""
        self.number: Final = number
        self.requirements: Final = requirements
        self.bits: Final = bits


class Shapes:
    """Every shape of one universe, each made once."""

    __slots__ = ("_by_requirements", "_held", "_merged", "_settled", "_universe", "_well_known")

    def __init__(self, universe: OfferingIndex, well_known: frozenset[str]) -> None:
        """Make shapes over ``universe``; well-known labels need no definition by the pool."""
        self._universe = universe
        self._well_known = well_known
        self._by_requirements: dict[Requirements, Shape] = {}
        self._merged: dict[tuple[int, int], Shape | None] = {}  # (shape, incoming id) -> result
        self._held: list[Requirements] = []  # keeps incoming alive, so that their ids stay unique
        self._settled: dict[tuple[int, str, tuple[str, ...]], Shape | None] = {}

    def __len__(self) -> int:
        """How many shapes there are so far."""
        return len(self._by_requirements)

    def of(self, requirements: Requirements) -> Shape:
        """The shape with exactly these requirements."""
        shape = self._by_requirements.get(requirements)
        if shape is None:
            shape = Shape(
                len(self._by_requirements), requirements, self._universe.allowed(requirements)
            )
            self._by_requirements[requirements] = shape
        return shape

    def merged(self, shape: Shape, incoming: Requirements) -> Shape | None:
        """The shape after a pod with ``incoming`` requirements joined, or None when it cannot.

        The result is cached by the identity of ``incoming``: pass the same object for equal ones.
        """
        key = (shape.number, id(incoming))
        try:
            return self._merged[key]
        except KeyError:
            merged = self._merged[key] = self._merge(shape, incoming)
            self._held.append(incoming)
            return merged

    def forget_incoming(self) -> None:
        """Clear the cached merges: the next problem has other ``incoming`` objects."""
        self._merged.clear()
        self._held.clear()

    def settled(self, shape: Shape, key: str, domains: tuple[str, ...]) -> Shape | None:
        """The shape after a label was narrowed to some values, or None when it allows none."""
        known = (shape.number, key, domains)
        try:
            return self._settled[known]
        except KeyError:
            found = self._settled[known] = self._settle(shape, key, domains)
            return found

    def _settle(self, shape: Shape, key: str, domains: tuple[str, ...]) -> Shape | None:
        held = shape.requirements.get(key)
        if held is None:
            if key not in self._well_known:
                return None  # nodes of this pool will not have the label
            held = Requirement(key)
        allowed = frozenset(filter(held.has, domains))
        return (
            self.of(shape.requirements & (Requirement(key, False, allowed),)) if allowed else None
        )

    def _merge(self, shape: Shape, incoming: Requirements) -> Shape | None:
        if not shape.requirements.is_compatible(incoming, self._well_known):
            return None
        hostname = incoming.get(HOSTNAME)
        if hostname is not None and not hostname.complement:
            return None  # a pod may not require the hostname of a node that does not exist yet
        return self.of(shape.requirements & incoming)


class OpenClaim:
    """A claim that may still take pods."""

    __slots__ = (
        "bits",
        "bookings",
        "ceiling",
        "device_drivers",
        "index",
        "is_pinned",
        "members",
        "ports",
        "requests",
        "shape",
        "template",
        "volumes",
    )

    def __init__(self, index: int, template: int, shape: Shape, bits: int) -> None:
        """Open a claim from the template with that number."""
        self.index: Final = index
        self.template: Final = template
        self.shape = shape
        self.bits = bits  # offerings that still fit everything on the claim
        self.requests: dict[str, int] = {}  # of its pods, daemons not included
        self.members: list[int] = []  # positions of its pods in the pass
        self.ports: tuple[HostPort, ...] = ()
        self.volumes: dict[str, frozenset[str]] = {}  # CSI driver -> claims attached through it
        self.bookings: frozenset[str] = frozenset()  # reservations held
        self.ceiling: float | None = None  # dollars per hour that a launch may cost at most
        self.is_pinned = False  # kept off spot, although its pods and pool allow it
        self.device_drivers: frozenset[str] = frozenset()  # DRA drivers that must publish first

    def take(self, pod_class: PodClass, position: int, bits: int) -> None:
        """Add a pod, which leaves these offerings."""
        self.bits = bits
        self.members.append(position)
        requests = self.requests
        for name, amount in pod_class.needs:
            requests[name] = requests.get(name, 0) + amount
        if pod_class.ports:
            self.ports += pod_class.ports
        for driver, attached in pod_class.volumes.attached.items():
            self.volumes[driver] = self.volumes.get(driver, frozenset()) | attached


class ClaimIndex:
    """Planned claims as bits of a mask, in the order they were opened."""

    __slots__ = (
        "_by_count",
        "_counts",
        "_defining",
        "_keys",
        "_loose",
        "_pinned",
        "claims",
        "label_definitions",
    )

    def __init__(self, topology_keys: Iterable[str], custom_labels: Iterable[str] = ()) -> None:
        """Track the domains of topology keys, and the claims that define custom labels."""
        self.claims: list[OpenClaim] = []
        self.label_definitions = 0  # how often a claim came to define a custom label
        self._defining: dict[str, int] = dict.fromkeys(custom_labels, 0)  # label -> claims
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
            self._note_labels(claim.shape, bit)

    def grow(self, claim: OpenClaim, before: int, after: int) -> None:
        """Update the number of pods on a claim."""
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
            self._note_labels(shape, bit)
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
        """Claims that define a custom label."""
        return self._defining[key]

    def _note_labels(self, shape: Shape, bit: int) -> None:
        for key, claims in self._defining.items():
            if not claims & bit and shape.requirements.get(key) is not None:
                self._defining[key] = claims | bit
                self.label_definitions += 1

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
