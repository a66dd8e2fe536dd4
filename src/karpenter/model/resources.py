"""Resource vectors: the amounts a pod requests, a node has, a plan adds up to.

Amounts are integers in base units: millicores of cpu, bytes of memory and storage, and counts of
everything else. A resource that is not mentioned is zero, and zero is not stored, so two vectors
are equal when they mean the same. Where the presence of a name matters (limits, capacity
overrides) keep the wire mapping beside the vector.

The four resources every node has are plain attributes and the rest is one mapping, which is empty
for most pods: this makes ``fits``, the solver's most frequent call, twice as fast as with a dict
of names. Vectors are immutable; share them freely.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import add, sub
from typing import Final

from karpenter.model.quantity import Family, QuantityError, format_quantity, millis, units

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
NODES: Final = "nodes"
HUGEPAGES_PREFIX: Final = "hugepages-"

_OF_EVERY_NODE: Final = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE)
_NANOS_PER_MILLI: Final = 10**6
_NANOS_PER_UNIT: Final = 10**9
_MANY_CPUS: Final = 10**9  # a million, in millicores
_FEW_DIGITS: Final = 5
_BINARY_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_NOTHING_ELSE: Final[Mapping[str, int]] = {}


class Resources:
    """An immutable vector of resource amounts; missing means zero."""

    __slots__ = ("cpu", "ephemeral_storage", "memory", "others", "pods")

    def __init__(
        self,
        cpu: int = 0,
        memory: int = 0,
        pods: int = 0,
        ephemeral_storage: int = 0,
        others: Mapping[str, int] = _NOTHING_ELSE,
    ) -> None:
        """Take the amounts as they are; ``others`` may hold neither a zero nor one of the four."""
        self.cpu: Final = cpu
        self.memory: Final = memory
        self.pods: Final = pods
        self.ephemeral_storage: Final = ephemeral_storage
        self.others: Final = others

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> "Resources":
        """Build a vector from amounts in base units by resource name."""
        others = {name: amount for name, amount in amounts.items() if amount}
        return cls(
            cpu=others.pop(CPU, 0),
            memory=others.pop(MEMORY, 0),
            pods=others.pop(PODS, 0),
            ephemeral_storage=others.pop(EPHEMERAL_STORAGE, 0),
            others=others or _NOTHING_ELSE,
        )

    @classmethod
    def from_wire(cls, quantities: Mapping[str, object]) -> "Resources":
        """Build a vector from quantities by resource name, each rounded away from zero.

        Raises:
            QuantityError: naming the resource whose quantity cannot be read.
        """
        amounts = dict.fromkeys(_OF_EVERY_NODE, 0)
        for name, quantity in quantities.items():
            try:
                amounts[name] = millis(quantity) if name == CPU else units(quantity)
            except QuantityError as error:
                raise QuantityError(f"{name}: {error}") from error
        if len(amounts) > len(_OF_EVERY_NODE):
            return cls.of(amounts)
        return cls(amounts[CPU], amounts[MEMORY], amounts[PODS], amounts[EPHEMERAL_STORAGE])

    def to_wire(self) -> dict[str, str]:
        """Write every amount that is not zero as a canonical quantity, by resource name."""
        return {name: format_amount(name, amount) for name, amount in self.items()}

    def items(self) -> Iterator[tuple[str, int]]:
        """Yield the resources that are not zero: the four of every node, then others by name."""
        for name, amount in (
            (CPU, self.cpu),
            (MEMORY, self.memory),
            (PODS, self.pods),
            (EPHEMERAL_STORAGE, self.ephemeral_storage),
        ):
            if amount:
                yield name, amount
        yield from sorted(self.others.items())

    def __getitem__(self, name: str) -> int:
        """The amount of one resource in base units."""
        match name:
            case "cpu":
                return self.cpu
            case "memory":
                return self.memory
            case "pods":
                return self.pods
            case "ephemeral-storage":
                return self.ephemeral_storage
            case _:
                return self.others.get(name, 0)

    def fits(self, available: "Resources") -> bool:
        """Whether this request can be met from ``available``.

        A negative amount of any resource in ``available``, requested or not, meets no request.
        """
        return (
            0 <= available.cpu >= self.cpu
            and 0 <= available.memory >= self.memory
            and 0 <= available.pods >= self.pods
            and 0 <= available.ephemeral_storage >= self.ephemeral_storage
            and (
                not (self.others or available.others) or _others_fit(self.others, available.others)
            )
        )

    def __add__(self, other: "Resources") -> "Resources":
        """Add amount by amount."""
        return Resources(
            self.cpu + other.cpu,
            self.memory + other.memory,
            self.pods + other.pods,
            self.ephemeral_storage + other.ephemeral_storage,
            _combine(add, self.others, other.others) if other.others else self.others,
        )

    def __sub__(self, other: "Resources") -> "Resources":
        """Subtract amount by amount; the result may be negative."""
        return Resources(
            self.cpu - other.cpu,
            self.memory - other.memory,
            self.pods - other.pods,
            self.ephemeral_storage - other.ephemeral_storage,
            _combine(sub, self.others, other.others) if other.others else self.others,
        )

    def __mul__(self, count: int) -> "Resources":
        """Repeat the vector ``count`` times."""
        return Resources.of({name: amount * count for name, amount in self.items()})

    def highest(self, other: "Resources") -> "Resources":
        """Take the larger amount of each resource."""
        return Resources(
            max(self.cpu, other.cpu),
            max(self.memory, other.memory),
            max(self.pods, other.pods),
            max(self.ephemeral_storage, other.ephemeral_storage),
            _combine(max, self.others, other.others),
        )

    def lowest(self, other: "Resources") -> "Resources":
        """Take the smaller amount of each resource."""
        return Resources(
            min(self.cpu, other.cpu),
            min(self.memory, other.memory),
            min(self.pods, other.pods),
            min(self.ephemeral_storage, other.ephemeral_storage),
            _combine(min, self.others, other.others),
        )

    def __eq__(self, other: object) -> bool:
        """Equal in every amount."""
        if not isinstance(other, Resources):
            return NotImplemented
        return (
            self.cpu == other.cpu
            and self.memory == other.memory
            and self.pods == other.pods
            and self.ephemeral_storage == other.ephemeral_storage
            and self.others == other.others
        )

    def __hash__(self) -> int:
        """Equal vectors hash alike."""
        others = frozenset(self.others.items()) if self.others else None
        return hash((self.cpu, self.memory, self.pods, self.ephemeral_storage, others))

    def __bool__(self) -> bool:
        """Whether any amount is not zero."""
        return self != NO_RESOURCES

    def __repr__(self) -> str:
        """The vector in wire quantities, for debugging."""
        return f"Resources({self.to_wire()})"


NO_RESOURCES: Final = Resources()


def total(vectors: Iterable[Resources]) -> Resources:
    """Add up any number of vectors without intermediate ones."""
    cpu = memory = pods = ephemeral_storage = 0
    others = _NOTHING_ELSE
    for each in vectors:
        cpu += each.cpu
        memory += each.memory
        pods += each.pods
        ephemeral_storage += each.ephemeral_storage
        if each.others:
            others = _combine(add, others, each.others)
    return Resources(cpu, memory, pods, ephemeral_storage, others)


def format_amount(name: str, amount: int) -> str:
    """Write an amount in base units of the named resource as a canonical quantity."""
    if name == CPU:
        return format_quantity(amount * _NANOS_PER_MILLI, Family.DECIMAL)
    decimal = format_quantity(amount * _NANOS_PER_UNIT, Family.DECIMAL)
    if not _counts_bytes(name):
        return decimal
    # The suffix family that needs fewer digits: 10G and not 9765625Ki, 1Gi and not 1073741824
    binary = format_quantity(amount * _NANOS_PER_UNIT, Family.BINARY)
    return min(binary, decimal, key=_count_digits)


def readable_amount(name: str, amount: int) -> str:
    """Write an amount for display: half a cpu as 0.5, and memory with few digits, rounded down."""
    if name == CPU and -_MANY_CPUS < amount < _MANY_CPUS:
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    exact = format_amount(name, amount)
    if not _counts_bytes(name) or amount < 0 or _count_digits(exact) <= _FEW_DIGITS:
        return exact
    power = min((amount.bit_length() - 1) // 10, len(_BINARY_UNITS) - 1)
    hundredths = amount * 100 >> 10 * power
    return f"{hundredths // 100}.{hundredths % 100:02}{_BINARY_UNITS[power]}"


def _counts_bytes(name: str) -> bool:
    return name in (MEMORY, EPHEMERAL_STORAGE) or name.startswith(HUGEPAGES_PREFIX)


def _count_digits(text: str) -> int:
    return sum(character.isdigit() for character in text)


def _others_fit(request: Mapping[str, int], available: Mapping[str, int]) -> bool:
    return all(amount >= 0 for amount in available.values()) and all(
        amount <= available.get(name, 0) for name, amount in request.items()
    )


def _combine(
    operation: Callable[[int, int], int], left: Mapping[str, int], right: Mapping[str, int]
) -> Mapping[str, int]:
    if not (left or right):
        return _NOTHING_ELSE
    results = {
        name: operation(left.get(name, 0), right.get(name, 0)) for name in left.keys() | right
    }
    return {name: amount for name, amount in results.items() if amount} or _NOTHING_ELSE
