"""CEL selectors: which devices a class or a request matches.

An expression has one variable, ``device``: its ``driver``, its ``attributes`` and ``capacity`` by
domain and then by name, and ``allowMultipleAllocations``. A lookup of a domain that a device does
not have gives an empty map, but a missing name in it is an error, which fails the whole attempt as
in Kubernetes.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from karpenter.admission.cel.expression import (
    LIBRARY,
    ExpressionError,
    Functions,
    compile_expression,
)
from karpenter.admission.cel.runtime import EVALUATION_ERRORS, Context
from karpenter.scheduling.devices.inventory import PROMISED, Fact, PoolDevice

_ByDomain: TypeAlias = dict[str, dict[str, Any]]

_STRING: Final = r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_LOOKUP: Final = re.compile(rf"{_STRING}|\bdevice\s*\.\s*(attributes|capacity)\s*\[")
_DOMAIN: Final = re.compile(rf"\bdevice\.(?:attributes|capacity)At\[\s*{_STRING}\s*\]")
_PIECE: Final = re.compile(
    rf"{_STRING}|(?P<bind>\bcel\s*\.\s*bind\s*\()|(?P<open>[(\[{{])|(?P<close>[)\]}}])|(?s:.)"
)


class SelectorError(ValueError):
    """A selector that cannot be compiled, or that failed on a device."""


class Selector:
    """One compiled expression; compared by identity."""

    __slots__ = ("_domains", "_expression", "_functions", "_known", "source")

    def __init__(self, source: str) -> None:
        """Compile an expression.

        Raises:
            SelectorError: it cannot be compiled.
        """
        self.source: Final = source
        written = _LOOKUP.sub(_as_lookup, _without_bind(source))
        try:
            self._expression = compile_expression(written, ("device",))
        except ExpressionError as error:
            raise SelectorError(f"selector {source!r} cannot be compiled: {error}") from error
        self._domains = frozenset(text[1:-1] for text in _DOMAIN.findall(written))
        self._functions = Functions(sorted(self._expression.functions))
        self._known: dict[PoolDevice, bool | SelectorError] = {}

    def matches(self, device: PoolDevice) -> bool:
        """Whether the selector matches a device.

        Raises:
            SelectorError: the expression fails on this device.
        """
        known = self._known.get(device)
        if known is None:
            known = self._known[device] = self._evaluate(device)
        if isinstance(known, SelectorError):
            raise known
        return known

    def _evaluate(self, device: PoolDevice) -> bool | SelectorError:
        seen = view(device, self._domains)
        context = Context(functions=self._functions.by_name)
        context.add_variable("device", seen)
        self._functions.forget()
        is_ascii = self.source.isascii() and str(seen).isascii()
        try:
            outcome = self._expression.run(context, is_ascii=is_ascii)
        except EVALUATION_ERRORS as error:
            problem = self._functions.explain(error)
            return SelectorError(
                f"selector {self.source!r} fails on device {device.key.name}: {problem}"
            )
        if isinstance(outcome, bool):
            return outcome
        return SelectorError(f"selector {self.source!r} answers with something else than a bool")


def view(device: PoolDevice, domains: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The CEL value of a device; ``domains`` are those that must not be missing."""
    attributes: _ByDomain = {}
    for name, fact in device.attributes.items():
        if fact[0] != PROMISED:
            _enter(attributes, name, _FACTS[fact[0]](fact))
    capacity: _ByDomain = {}
    for name, has in device.capacity.items():
        _enter(capacity, name, LIBRARY["quantity"](f"{has.value}n"))
    absent: _ByDomain = {domain: {} for domain in domains}
    return {
        "driver": device.key.driver,
        "allowMultipleAllocations": device.is_shared,
        "attributes": attributes,
        "capacity": capacity,
        "attributesAt": absent | attributes,
        "capacityAt": absent | capacity,
    }


def _enter(by_domain: _ByDomain, name: str, value: Any) -> None:
    domain, _, identifier = name.rpartition("/")
    by_domain.setdefault(domain, {})[identifier] = value


def _plain(fact: Fact) -> Any:
    return fact[1]


def _version(fact: Fact) -> Any:
    return LIBRARY["semver"](fact[1]) if LIBRARY["isSemver"](fact[1]) else fact[1]


_FACTS: Final[Mapping[str, Callable[[Fact], Any]]] = {
    "bool": _plain,
    "int": _plain,
    "string": _plain,
    "version": _version,
}


def _as_lookup(match: re.Match[str]) -> str:
    """Redirect lookups of a domain to the maps that have all domains; other uses are unchanged."""
    return match[1] or f"device.{match[2]}At["


def _without_bind(source: str) -> str:
    """Rewrite ``cel.bind(name, value, body)`` in macros that the engine supports.

    Text with unbalanced brackets is returned as it is, for the compiler to report.
    """
    stack: list[tuple[bool, list[str]]] = [(False, [""])]
    for match in _PIECE.finditer(source):
        if match["bind"] or match["open"]:
            stack.append((bool(match["bind"]), ["" if match["bind"] else match[0]]))
        elif match["close"] and len(stack) > 1:
            is_bind, parts = stack.pop()
            stack[-1][1][-1] += _bound(parts) if is_bind else parts[0] + match[0]
        elif match[0] == "," and stack[-1][0]:
            stack[-1][1].append("")
        else:
            stack[-1][1][-1] += match[0]
    return stack[0][1][0] if len(stack) == 1 else source


def _bound(parts: list[str]) -> str:
    if len(parts) != 3:
        return f"cel.bind({','.join(parts)})"
    name, value, body = parts
    return f"[{value}].map({name.strip()}, {body})[0]"
