"""Strict parsing of the instance-types file, a JSON list of machines, with precise errors.

Property names are case-insensitive and unknown ones are ignored, as in Karpenter's own reader.
Unlike it, this one refuses entries that would silently become a machine that can never
be launched, and accepts the older shorthand in which an offering names its zone and capacity type
directly. Four properties are ours, so that the catalogue of any cloud can be written as such a file:
``requirements``, ``overhead`` and ``volumeAttachmentLimits`` of a machine, and ``isEstimate`` of an offering.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from karpenter.api.node_classes import kwok_labels
from karpenter.model import labels
from karpenter.model.label_rules import label_key_problem, label_value_problem
from karpenter.model.quantity import QuantityError, parse
from karpenter.model.requirement import Requirement, RequirementError, requirement
from karpenter.model.requirements import Requirements
from karpenter.model.resources import CPU, MEMORY

_NO_LABELS: Final = Requirements()
_SHORTHAND: Final = {"zone": labels.ZONE, "capacitytype": labels.CAPACITY_TYPE}


class CatalogueError(ValueError):
    """An instance-types file that cannot be used; the text names the type and the field."""


@dataclass(frozen=True, slots=True)
class OfferingEntry:
    """One offering of a machine, as in the file."""

    requirements: Requirements
    price: float
    available: bool
    reservation_id: str = ""
    reservation_capacity: int = 0
    is_estimate: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One machine, as in the file."""

    name: str
    architecture: str
    operating_systems: tuple[str, ...]
    resources: Mapping[str, str | int | float]  # resource name -> quantity
    offerings: tuple[OfferingEntry, ...]
    requirements: Requirements = _NO_LABELS  # labels that its nodes have besides
    overhead: Mapping[str, str | int | float] | None = None  # what pods cannot use; None: the usual
    volume_attachment_limits: Mapping[str, int] | None = None  # by storage driver


def read_entries(data: bytes, name: str) -> tuple[Entry, ...]:
    """Read the machines of an instance-types file called ``name``.

    Raises:
        CatalogueError: with one sentence about the first thing that is wrong.
    """
    listed = _json(data, name)
    if not isinstance(listed, list):
        raise CatalogueError(f"{name}: the file must be a JSON list of instance types")
    if not listed:
        raise CatalogueError(f"{name}: the list is empty; name at least one instance type")
    entries: dict[str, Entry] = {}
    for position, item in enumerate(listed):
        entry = _entry(item, f"{name}: [{position}]", name)
        if entry.name in entries:
            raise CatalogueError(
                f"{name}: instance type {entry.name}: the name is used twice;"
                " give each type a name of its own"
            )
        entries[entry.name] = entry
    return tuple(entries.values())


def _json(data: bytes, name: str) -> object:
    try:
        return json.loads(data)
    except UnicodeDecodeError as error:
        raise CatalogueError(f"{name}: the file is not UTF-8 text") from error
    except json.JSONDecodeError as error:
        raise CatalogueError(f"{name}:{error.lineno}: the file is not JSON: {error.msg}") from error
    except (RecursionError, ValueError) as error:
        raise CatalogueError(f"{name}: the file is nested too deeply or too large") from error


class _Properties:
    """The properties of one JSON object, with case-insensitive lookup."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise CatalogueError(f"{where}: must be an object, not {_kind(value)}")
        self.where = where
        self._by_name = {key.lower(): item for key, item in value.items()}

    def fails(self, field: str, problem: str) -> CatalogueError:
        return CatalogueError(f"{self.where}: {field} {problem}")

    def get(self, field: str) -> Any:
        return self._by_name.get(field.lower())

    def text(self, field: str) -> str:
        """A property that becomes the value of a label."""
        value = self.get(field)
        if value is None or value == "":
            raise self.fails(field, "is missing")
        if not isinstance(value, str):
            raise self.fails(field, f"must be text, not {_kind(value)}")
        problem = label_value_problem(value)
        if problem is not None:
            raise self.fails(field, f"{problem}, since it becomes a label; it is {value!r}")
        return value

    def items(self, field: str) -> list[Any]:
        value = self.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.fails(field, f"must be a list, not {_kind(value)}")
        return value

    def names(self, field: str) -> tuple[str, ...]:
        values = self.items(field)
        for value in values:
            if not isinstance(value, str):
                raise self.fails(field, f"must be a list of text, not of {_kind(value)}")
        return tuple(values)


def _entry(item: object, where: str, file: str) -> Entry:
    properties = _Properties(item, where)
    name = properties.text("name")
    properties.where = f"{file}: instance type {name}"
    systems = properties.names("operatingSystems")
    if not systems:
        raise properties.fails("operatingSystems", "must list at least one operating system")
    for system in systems:
        if label_value_problem(system) is not None or not system:
            raise properties.fails("operatingSystems", f"has {system!r}, which is no label value")
    offerings = tuple(_offerings(properties))
    if not offerings:
        raise properties.fails("offerings", "must list at least one offering")
    return Entry(
        name=name,
        architecture=properties.text("architecture"),
        operating_systems=systems,
        resources=_resources(properties),
        offerings=offerings,
        requirements=Requirements(_requirements(properties)),
        overhead=_overhead(properties),
        volume_attachment_limits=_limits(properties),
    )


def _quantities(properties: _Properties, field: str) -> Mapping[str, str | int | float]:
    listed = properties.get(field)
    if not isinstance(listed, dict):
        raise properties.fails(field, "must map resource names to quantities")
    for resource, quantity in listed.items():
        try:
            amount = parse(quantity)
        except QuantityError as error:
            raise properties.fails(f"{field}.{resource}", f"is wrong: {error}") from error
        if amount < 0:
            raise properties.fails(f"{field}.{resource}", f"must not be negative: {quantity}")
    return listed


def _overhead(properties: _Properties) -> Mapping[str, str | int | float] | None:
    return None if properties.get("overhead") is None else _quantities(properties, "overhead")


def _limits(properties: _Properties) -> Mapping[str, int] | None:
    listed = properties.get("volumeAttachmentLimits")
    if listed is None:
        return None
    if not isinstance(listed, dict) or not all(map(_is_count, listed.values())):
        raise properties.fails(
            "volumeAttachmentLimits", "must map storage drivers to whole numbers of volumes"
        )
    return listed


def _resources(properties: _Properties) -> Mapping[str, str | int | float]:
    listed = _quantities(properties, "resources")
    for needed in (CPU, MEMORY):
        if needed not in listed:
            raise properties.fails(f"resources.{needed}", "is missing")
    return listed


def _offerings(properties: _Properties) -> Iterator[OfferingEntry]:
    for position, item in enumerate(properties.items("offerings")):
        where = f"{properties.where}: offerings[{position}]"
        yield _offering(_Properties(item, where), properties.text("name"))


def _offering(properties: _Properties, type_name: str) -> OfferingEntry:
    requirements = Requirements([*_shorthand(properties), *_requirements(properties)])
    zone = _only_value(properties, requirements, labels.ZONE)
    capacity_type = _only_value(properties, requirements, labels.CAPACITY_TYPE)
    if capacity_type not in labels.CAPACITY_TYPES:
        known = ", ".join(sorted(labels.CAPACITY_TYPES))
        raise properties.fails("capacity type", f"must be one of {known}, not {capacity_type!r}")
    reservation_id = ""
    if capacity_type == labels.RESERVED:
        # a reservation without a name is one of its own for this type in this zone
        if requirements.get(kwok_labels.RESERVATION_ID) is None:
            own = frozenset({f"{type_name}.{zone}"})
            requirements &= (Requirement(kwok_labels.RESERVATION_ID, False, own),)
        reservation_id = _only_value(properties, requirements, kwok_labels.RESERVATION_ID)
    return OfferingEntry(
        requirements=requirements,
        price=_price(properties),
        available=_truth(properties, "available", usually=True),
        reservation_id=reservation_id,
        reservation_capacity=_reservation_capacity(properties),
        is_estimate=_truth(properties, "isEstimate", usually=False),
    )


def _only_value(properties: _Properties, requirements: Requirements, key: str) -> str:
    held = requirements.get(key)
    if held is None or held.complement or len(held.values) != 1:
        raise properties.fails("requirements", f"must have exactly one value for {key}")
    value = held.any()
    if not value or label_value_problem(value) is not None:
        raise properties.fails("requirements", f"must have a label value for {key}, not {value!r}")
    return value


def _shorthand(properties: _Properties) -> Iterator[Requirement]:
    for field, key in _SHORTHAND.items():
        if properties.get(field) is not None:
            yield Requirement(key, False, frozenset({properties.text(field)}))


def _requirements(properties: _Properties) -> Iterator[Requirement]:
    for position, item in enumerate(properties.items("requirements")):
        yield _requirement(_Properties(item, f"{properties.where}.requirements[{position}]"))


def _requirement(properties: _Properties) -> Requirement:
    key = properties.get("key")
    if not isinstance(key, str):
        raise properties.fails("key", "must be the key of a label")
    problem = label_key_problem(key)
    if problem is not None:
        raise properties.fails("key", f"{problem}; it is {key!r}")
    values = properties.names("values")
    for value in values:
        problem = label_value_problem(value)
        if problem is not None:
            raise properties.fails("values", f"{problem}; one is {value!r}")
    operator = properties.get("operator")
    try:
        return requirement(key, operator if isinstance(operator, str) else "", values)
    except RequirementError as error:
        raise properties.fails("operator", f"is wrong: {error}") from error


def _price(properties: _Properties) -> float:
    price = properties.get("price")
    if price is None:
        return 0.0
    if not _is_number(price):
        raise properties.fails("price", f"must be a number, not {_kind(price)}")
    try:
        hourly = float(price)
    except OverflowError:
        hourly = math.inf
    if not math.isfinite(hourly) or hourly < 0:
        raise properties.fails("price", f"must be a finite number and not negative: {hourly}")
    return hourly


def _truth(properties: _Properties, field: str, *, usually: bool) -> bool:
    value = properties.get(field)
    if value is not None and not isinstance(value, bool):
        raise properties.fails(field, f"must be true or false, not {_kind(value)}")
    return usually if value is None else value


def _reservation_capacity(properties: _Properties) -> int:
    capacity = properties.get("reservationCapacity")
    if capacity is None:
        return 0
    if not _is_count(capacity):
        raise properties.fails("reservationCapacity", "must be a whole number and not negative")
    return int(capacity)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: Final[tuple[tuple[Callable[[object], bool], str], ...]] = (
    (lambda value: value is None, "null"),
    (lambda value: isinstance(value, bool), "a boolean"),
    (_is_number, "a number"),
    (lambda value: isinstance(value, str), "text"),
    (lambda value: isinstance(value, list), "a list"),
)


def _kind(value: object) -> str:
    return next((word for test, word in _KINDS if test(value)), "an object")
