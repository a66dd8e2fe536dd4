"""Kubernetes' CEL functions on semantic versions.

The engine has no type for versions, so one is represented as a map with a single entry, like
quantities are. Both share the names of their comparisons; the type of the receiver decides.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from karpenter.admission.cel.objects import OBJECT_FUNCTIONS
from karpenter.admission.cel.text import CelError

_Precedence: TypeAlias = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]

_SEMVER: Final = "semver"
_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_PART: Final = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
    rf"(?:-({_PART}(?:\.{_PART})*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_LOOSE: Final = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(.*)", re.ASCII)
_LONGEST: Final = 256


def semver(text: Any, normalize: bool = False) -> dict[str, str]:
    """Read a version; ``normalize`` accepts a leading v, missing parts and leading zeros."""
    written = _normalized(text) if normalize else text
    if not isinstance(written, str):
        raise TypeError("not a text")
    if len(written) > _LONGEST or not _VERSION.fullmatch(written):
        raise CelError(f"invalid semantic version {text!r}")
    return {_SEMVER: written}


def _normalized(text: str) -> str:
    loose = _LOOSE.fullmatch(text)
    if loose is None or len(text) > _LONGEST:
        return text
    return ".".join(str(int(part or 0)) for part in loose.groups()[:3]) + loose[4]


def _is_semver(text: Any, normalize: bool = False) -> bool:
    try:
        semver(text, normalize)
    except CelError:
        return False
    return True


def _precedence(value: Any) -> _Precedence:
    """The sort key of a version; build metadata after a plus sign is ignored."""
    written = value.get(_SEMVER) if isinstance(value, dict) else None
    parts = _VERSION.fullmatch(written) if isinstance(written, str) else None
    if parts is None:
        raise TypeError("not a version")
    before = parts[4].split(".") if parts[4] else []
    identifiers = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in before
    )
    return int(parts[1]), int(parts[2]), int(parts[3]), not before, identifiers


def _compare(left: Any, right: Any) -> int:
    if not (isinstance(left, dict) and _SEMVER in left):
        return int(OBJECT_FUNCTIONS["compareTo"](left, right))
    one, other = _precedence(left), _precedence(right)
    return (one > other) - (one < other)


VERSION_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "compareTo": _compare,
        "isGreaterThan": lambda left, right: _compare(left, right) > 0,
        "isLessThan": lambda left, right: _compare(left, right) < 0,
        "isSemver": _is_semver,
        "major": lambda value: _precedence(value)[0],
        "minor": lambda value: _precedence(value)[1],
        "patch": lambda value: _precedence(value)[2],
        "semver": semver,
    }
)
