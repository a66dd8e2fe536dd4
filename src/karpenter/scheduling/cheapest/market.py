"""Markets: classes of pods and sizes as numbers alone, the input of all packing by price.

A market holds no pods, pools or labels. It has classes of pods, each with its demand and
what one pod needs, and sizes, each with its room, its price and the classes that may use it. A
configuration is a size with how many pods of each class it holds; to pack is to buy configurations
until every demand is met.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

_SAME: Final = 1e-9  # rounding errors of amounts
PAIRS_PER_SECOND: Final = 150_000  # pairs of a class and a size evaluated in a nominal second


class Draw(NamedTuple):
    """What one machine of a size takes from an amount that several sizes share."""

    limit: int  # which amount
    amount: float


@dataclass(frozen=True, slots=True)
class Size:
    """Room for pods that can be bought, or that a machine which exists still has."""

    room: tuple[int, ...]  # by resource
    price: float  # dollars per hour
    users: tuple[int, ...]  # the classes that may use it, in ascending order
    count: int | None = None  # how many of it there are; None means any number
    draw: Draw | None = None  # what each of it takes from an amount that sizes share

    @property
    def is_unlimited(self) -> bool:
        """Whether any number of it can be bought."""
        return self.count is None and self.draw is None


class Configuration(NamedTuple):
    """A size with the pods it holds."""

    size: int
    pods: tuple[tuple[int, int], ...]  # (class, how many), by class


@dataclass(frozen=True, slots=True)
class Market:
    """Classes of pods, and sizes that can be bought for them."""

    needs: Sequence[tuple[int, ...]]  # class -> what one pod needs, by resource
    demand: Sequence[int]  # class -> how many pods there are
    sizes: Sequence[Size]
    limits: Sequence[float] = ()  # amounts that sizes draw on
    most: Sequence[Mapping[int, int]] = field(init=False)  # size -> class -> how many it holds

    def __post_init__(self) -> None:
        """Compute how many pods of each class alone a size holds; classes with none are omitted."""
        most = [
            {
                user: count
                for user in size.users
                if (count := min(self.demand[user], _fitting(size.room, self.needs[user]))) > 0
            }
            for size in self.sizes
        ]
        object.__setattr__(self, "most", most)

    @property
    def pairs(self) -> int:
        """How many pairs of a class and a size that holds it there are."""
        return sum(map(len, self.most))

    def filled(
        self, size: int, order: Iterable[int], left: Sequence[int], start: Mapping[int, int]
    ) -> dict[int, int]:
        """Fill a size with classes in this order, on top of the pods it starts with.

        Args:
            order: the classes to add; each takes as many pods as there is room for.
            left: class -> pods that are still without a place.
        """
        return fill(self.needs, self.sizes[size].room, order, left, start)

    def holds(self, size: int, pods: Mapping[int, int]) -> bool:
        """Whether there is room for so many pods of each class on a size."""
        return all(
            sum(self.needs[user][resource] * n for user, n in pods.items()) <= have
            for resource, have in enumerate(self.sizes[size].room)
        )

    def smallest(self, pods: Mapping[int, int], among: Sequence[int]) -> int | None:
        """The first of some sizes that holds these pods, or None."""
        total = [0] * len(self.needs[0])
        for user, count in pods.items():
            for resource, need in enumerate(self.needs[user]):
                total[resource] += need * count
        for size in among:
            most, room = self.most[size], self.sizes[size].room
            if all(user in most for user in pods) and all(
                want <= have for want, have in zip(total, room, strict=True)
            ):
                return size
        return None


def fill(
    needs: Sequence[Sequence[int]],
    room: Sequence[int],
    order: Iterable[int],
    left: Sequence[int],
    start: Mapping[int, int],
) -> dict[int, int]:
    """Fill a room with classes in this order, on top of the pods it starts with.

    Args:
        needs: class -> what one pod needs, by resource.
        order: the classes to add; each takes as many pods as there is room for.
        left: class -> pods that are still without a place.
    """
    pods = dict(start)
    rest = list(room)
    for user, count in pods.items():
        for resource, need in enumerate(needs[user]):
            rest[resource] -= need * count
    for user in order:
        most = left[user] - pods.get(user, 0)
        if most > 0 and (taken := min(most, _fitting(rest, needs[user]))) > 0:
            pods[user] = pods.get(user, 0) + taken
            for resource, need in enumerate(needs[user]):
                rest[resource] -= need * taken
    return pods


@dataclass(frozen=True, slots=True)
class Solution:
    """What is bought for one market."""

    bought: Sequence[tuple[Configuration, int]]
    shares: Sequence[float]  # class -> dollars per hour for one pod; never more than machines cost


_NO_DRAW: Final = Draw(-1, 0.0)


def copies_left(size: Size, limits: Sequence[float], wanted: int) -> int:
    """How many of a size the amounts it draws on still allow, and no more than are wanted."""
    if size.draw is None:
        return wanted
    left = limits[size.draw.limit] * (1 + _SAME)
    return min(wanted, int(left / size.draw.amount))


def draw(size: Size, limits: list[float], copies: int) -> None:
    """Take what copies of a size draw off the amounts."""
    if size.draw is not None:
        number = size.draw.limit
        limits[number] = max(0.0, limits[number] - copies * size.draw.amount)


def configuration(size: int, pods: Mapping[int, int]) -> Configuration:
    """A size with pods, in the order in which configurations are compared."""
    return Configuration(size, tuple(sorted((user, n) for user, n in pods.items() if n > 0)))


def without_dominated(sizes: Iterable[Size]) -> list[Size]:
    """Drop dominated sizes: another one has as much room for the same users at no higher price."""
    ordered = sorted(
        sizes,
        key=lambda size: (
            size.price,
            [-each for each in size.room],
            size.users,
            size.draw or _NO_DRAW,
        ),
    )
    kept: list[tuple[Size, frozenset[int]]] = []
    for size in ordered:
        users = frozenset(size.users)
        if size.is_unlimited and any(
            other.is_unlimited
            and users <= theirs
            and all(a >= b for a, b in zip(other.room, size.room, strict=True))
            for other, theirs in kept
        ):
            continue
        kept.append((size, users))
    return [size for size, _ in kept]


class Work:
    """A budget of work, counted rather than timed, so that plans do not depend on CPU speed."""

    __slots__ = ("_floor", "_has_time", "_left", "is_cut")

    def __init__(self, seconds: float, has_time: Callable[[], bool]) -> None:
        """Allow ``seconds`` of nominal time; ``has_time`` may end the work earlier."""
        self._left = seconds * PAIRS_PER_SECOND
        self._floor = 0.0
        self._has_time = has_time
        self.is_cut = False  # whether the clock, rather than the count, ended it

    def spend(self, pairs: int) -> bool:
        """Count work about to be done; return whether the budget allows it."""
        if self._left <= self._floor:
            return False
        if not self._has_time():
            self.is_cut = True
            return False
        self._left -= pairs
        return True

    def keep_for(self, others: int) -> None:
        """Keep an equal part of what is left for each of so many others, until told anew."""
        self._floor = max(0.0, self._left) * others / (others + 1)

    def unlimited(self) -> "Work":
        """Work that only the clock ends."""
        return Work(math.inf, self._has_time)


def _fitting(room: Sequence[int], needs: Sequence[int]) -> int:
    """How many pods fit, each with such needs; a pod needs something of some resource."""
    return min(have // need for have, need in zip(room, needs, strict=True) if need > 0)
