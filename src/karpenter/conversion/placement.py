"""The assignment of node classes to Provisioners, such that each keeps its kubelet settings.

Kubelet settings belonged to the Provisioner and belong to the node class now. Provisioners with
different settings can therefore no longer share one class: the first of them by name keeps it,
and every other set of settings gets a copy of the class.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from karpenter.api.meta import JsonObject
from karpenter.conversion.values import compact_json


class Carrier(Enum):
    """Which v1 object holds the kubelet settings of a Provisioner."""

    NOTHING = "there are none, or the class has them already"
    CLASS = "the class itself, which this Provisioner gives them to"
    COPY = "a copy of the class, which this Provisioner adds"
    ANNOTATION = "the NodePool, because the class is not at hand"


@dataclass(frozen=True, slots=True)
class User:
    """A Provisioner that refers to a class by name."""

    item: int
    name: str
    class_name: str
    kubelet: JsonObject | None


@dataclass(frozen=True, slots=True)
class KnownClass:
    """A class among the inputs.

    One that ``is_settled`` keeps its kubelet settings, also if it has none. Another keeps
    ``kubelet``, if there is any, for the pools that use it already.
    """

    kubelet: JsonObject | None = None
    is_settled: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """The class a Provisioner's NodePool refers to."""

    class_name: str
    carrier: Carrier


def assign(users: Iterable[User], classes: Mapping[str, KnownClass]) -> dict[int, Assignment]:
    """Give every user a class; the result is by the user's item."""
    by_class: dict[str, list[User]] = defaultdict(list)
    for user in users:
        by_class[user.class_name].append(user)
    assignments: dict[int, Assignment] = {}
    for class_name, sharing in by_class.items():
        sharing.sort(key=lambda user: (user.name, user.item))
        known = classes.get(class_name)
        if known is None:
            assignments.update(_on_unknown_class(sharing))
        else:
            assignments.update(_on_known_class(sharing, known))
    return assignments


def _on_unknown_class(users: Sequence[User]) -> dict[int, Assignment]:
    return {
        user.item: Assignment(
            user.class_name, Carrier.NOTHING if user.kubelet is None else Carrier.ANNOTATION
        )
        for user in users
    }


def _on_known_class(users: Sequence[User], known: KnownClass) -> dict[int, Assignment]:
    home: dict[str, str] = {}  # kubelet settings -> the class that has them
    if known.is_settled:
        # A Provisioner without settings can use those of the class.
        home = dict.fromkeys(map(compact_json, (known.kubelet, None)), users[0].class_name)
    elif known.kubelet is not None:
        home = {compact_json(known.kubelet): users[0].class_name}
    assignments = {}
    for user in users:
        settings = compact_json(user.kubelet)
        if settings in home:
            assignment = Assignment(home[settings], Carrier.NOTHING)
        elif not home:
            carrier = Carrier.NOTHING if user.kubelet is None else Carrier.CLASS
            assignment = Assignment(user.class_name, carrier)
        else:
            assignment = Assignment(f"{user.class_name}-{user.name}", Carrier.COPY)
        home.setdefault(settings, assignment.class_name)
        assignments[user.item] = assignment
    return assignments
