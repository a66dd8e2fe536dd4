"""Amounts of resources in Kubernetes' own kinds: each a quantity, and none negative.

An API server refuses the same; a manifest from a file has not passed one. The places of amounts are
derived from the wire models, so exactly the amounts that the project reads are checked.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec

from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.api.meta import Quantity, Resource, ResourceMap
from karpenter.model.memo import remembered
from karpenter.model.quantity import QuantityError, parse

_Found: TypeAlias = Iterator[tuple[Path, Any]]  # the path of an amount, and the amount
_Walk: TypeAlias = Callable[[Any, Path], _Found]

_Test: TypeAlias = Callable[[Any], bool]

_UNIONS: Final = (Union, UnionType)


def quantity_errors(resource: Resource) -> list[FieldError]:
    """List the invalid amounts of an object."""
    walk = _walk_of(type(resource))
    if walk is None:
        return []
    return [
        FieldError(ErrorKind.INVALID, path, problem, amount)
        for path, amount in walk(resource, ())
        if (problem := _problem_of(amount)) is not None
    ]


def amounts_test(kind: type[Resource]) -> Callable[[Resource], bool]:
    """Return a predicate on objects of a kind: whether all amounts are valid."""
    return _test_of(kind) or (lambda resource: True)


def _problem_of(amount: str | int | float) -> str | None:
    return _problem_of_text(amount) if isinstance(amount, str) else _problem(amount)


@remembered(4096)
def _problem_of_text(amount: str) -> str | None:
    return _problem(amount)


def _problem(amount: str | int | float) -> str | None:
    try:
        value = parse(amount)
    except QuantityError:
        return "must be a quantity such as 2, 500m, 1.5Gi or 1e3"
    return "must not be negative" if value < 0 else None


@cache
def _walk_of(kind: Any) -> _Walk | None:
    """A function that finds the amounts in values of a type, or None when it can hold none."""
    if kind == Quantity:
        return _amount
    if kind == Quantity | None:
        return _if_there(_amount)
    origin, args = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        walks = [walk for arg in args if (walk := _walk_of(arg)) is not None]
        return _if_there(walks[0]) if len(walks) == 1 else None
    if origin is tuple:
        inner = _walk_of(args[0])
        return _each(inner, enumerate) if inner is not None else None
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner = _walk_of(args[1])
        return _each(inner, lambda value: value.items()) if inner is not None else None
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _fields(kind)
    return None


def _amount(value: Any, path: Path) -> _Found:
    yield path, value


def _if_there(walk: _Walk) -> _Walk:
    def found(value: Any, path: Path) -> _Found:
        return walk(value, path) if value is not None else iter(())

    return found


def _each(walk: _Walk, items: Callable[[Any], Any]) -> _Walk:
    def found(value: Any, path: Path) -> _Found:
        for key, item in items(value):
            yield from walk(item, (*path, key))

    return found


def _fields(kind: type[msgspec.Struct]) -> _Walk | None:
    walks = [
        (field.name, field.encode_name, walk)
        for field in msgspec.structs.fields(kind)
        if (walk := _walk_of(field.type)) is not None
    ]
    if not walks:
        return None

    def found(value: Any, path: Path) -> _Found:
        for name, written, walk in walks:
            held = getattr(value, name)
            if held:
                yield from walk(held, (*path, written))

    return found


@cache
def _test_of(kind: Any) -> _Test | None:
    """A predicate on values of a type: whether all amounts are valid, without their paths.

    It is the fast path for every object; the walk is for objects with an invalid amount.
    """
    if _walk_of(kind) is None:
        return None
    origin, args = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _test_of_fields(kind)
    if origin is tuple:
        return _test_of_each(_test_of(args[0]), iter)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if args[1] == Quantity:
            return _are_sound
        return _test_of_each(_test_of(args[1]), lambda value: value.values())
    if kind in (Quantity, Quantity | None):
        return lambda amount: amount is None or _problem_of(amount) is None
    (inner,) = (test for arg in args if (test := _test_of(arg)) is not None)
    return lambda value: value is None or inner(value)


def _are_sound(amounts: ResourceMap) -> bool:
    for amount in amounts.values():  # noqa: SIM110 a loop takes half the time of all()
        if _problem_of(amount) is not None:
            return False
    return True


def _test_of_each(test: _Test | None, items: Callable[[Any], Any]) -> _Test | None:
    if test is None:
        return None
    is_sound = test

    def are_sound(value: Any) -> bool:
        for item in items(value):  # noqa: SIM110 a loop takes half the time of all()
            if not is_sound(item):
                return False
        return True

    return are_sound


def _test_of_fields(kind: type[msgspec.Struct]) -> _Test:
    tests = [
        (field.name, test)
        for field in msgspec.structs.fields(kind)
        if (test := _test_of(field.type)) is not None
    ]

    def are_sound(value: Any) -> bool:
        for name, is_sound in tests:
            held = getattr(value, name)
            # None, an empty collection and zero are all valid
            if held and not is_sound(held):
                return False
        return True

    return are_sound
