"""What a node class's ``spec.kubelet`` and a Provisioner's ``kubeletConfiguration`` may hold.

The node class takes the kubelet's whole configuration file, so its fields are checked here and
not by the CRD; every problem carries the condition reason the controller would report. The rules
both generations share (eviction maps, reserved resources, ranges) are public for the legacy ones.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from karpenter.admission.cel.expression import ExpressionError, compile_expression
from karpenter.admission.errors import ErrorKind, FieldError, Path
from karpenter.admission.kubelets.fields import KUBELET_CONFIGURATION
from karpenter.admission.shapes import is_integer, shape_errors
from karpenter.model import durations
from karpenter.model.quantity import is_quantity, parse

EVICTION_SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
RESERVED_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pid")

# The variables of an expression: properties of an instance type.
EXPRESSION_VARIABLES = (
    "default_enis",
    "instance_type",
    "ips_per_eni",
    "max_pods",
    "memory_mib",
    "vcpus",
)

# The settings that every AMI family supports; only AL2023 passes on others.
MANAGED_FIELDS = frozenset(
    {
        "clusterDNS",
        "cpuCFSQuota",
        "evictionHard",
        "evictionMaxPodGracePeriod",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "kubeReserved",
        "maxPods",
        "podsPerCore",
        "systemReserved",
    }
)

_RESERVED_FIELDS = ("kubeReserved", "systemReserved")
_THRESHOLD_FIELDS = ("evictionHard", "evictionSoft", "evictionMinimumReclaim")
_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]*)?)%")
_HIGH, _LOW = "imageGCHighThresholdPercent", "imageGCLowThresholdPercent"


class KubeletReason(StrEnum):
    """Why a node class's kubelet settings are refused, in the order of the controller's checks."""

    INVALID = "InvalidKubeletConfiguration"
    EXPRESSIONS_DISABLED = "KubeletExpressionsDisabled"
    EXPRESSION_INVALID = "KubeletExpressionInvalid"
    UNSUPPORTED = "UnsupportedKubeletConfiguration"


@dataclass(frozen=True, slots=True)
class KubeletProblem:
    """One error, with the condition reason it would be reported under."""

    reason: KubeletReason
    error: FieldError


def kubelet_problems(
    kubelet: object, path: Path, *, family: str, expressions: bool = False
) -> list[KubeletProblem]:
    """Check a node class's kubelet settings for the AMI family it resolves to.

    ``expressions`` is the feature gate NodeClassCEL: with it ``maxPods`` and reserved resources
    may be CEL expressions. The problems are in the order of ``KubeletReason``.
    """
    if kubelet is None:
        return []
    if not isinstance(kubelet, Mapping):
        return _with_reason(
            KubeletReason.INVALID, shape_errors(kubelet, KUBELET_CONFIGURATION, path)
        )
    expression_reason = (
        KubeletReason.EXPRESSION_INVALID if expressions else KubeletReason.EXPRESSIONS_DISABLED
    )
    return [
        *_with_reason(KubeletReason.INVALID, _invalid(kubelet, path)),
        *_with_reason(expression_reason, _expression_errors(kubelet, path, enabled=expressions)),
        *_with_reason(KubeletReason.UNSUPPORTED, _unsupported(kubelet, path, family)),
    ]


def eviction_errors(kubelet: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    """Check the signals, thresholds and grace periods of the eviction maps, and their pairing."""
    for field in _THRESHOLD_FIELDS:
        for signal, threshold in _items(kubelet, field):
            yield from _signal_errors(signal, (*path, field))
            if isinstance(threshold, str) and not _is_threshold(threshold):
                yield FieldError(
                    ErrorKind.INVALID,
                    (*path, field, signal),
                    "must be a percentage from 0% to 100% or a quantity that is not negative",
                    threshold,
                )
    for signal, period in _items(kubelet, "evictionSoftGracePeriod"):
        yield from _signal_errors(signal, (*path, "evictionSoftGracePeriod"))
        if isinstance(period, str) and durations.period(period) is None:
            yield FieldError(
                ErrorKind.INVALID,
                (*path, "evictionSoftGracePeriod", signal),
                'must be a duration that is not negative, such as "1m30s"',
                period,
            )
    yield from _pairing_errors(kubelet, path)


def reserved_errors(kubelet: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    """Check that only resources the kubelet can reserve are reserved, and never less than 0."""
    for field in _RESERVED_FIELDS:
        for resource, amount in _items(kubelet, field):
            if resource not in RESERVED_RESOURCES:
                yield FieldError(
                    ErrorKind.NOT_SUPPORTED,
                    (*path, field, resource),
                    f"cannot be reserved; use {_one_of(RESERVED_RESOURCES)}",
                )
            if str(amount).startswith("-"):
                yield FieldError(
                    ErrorKind.INVALID, (*path, field, resource), "must not be negative", amount
                )


def image_gc_errors(
    kubelet: Mapping[str, Any], path: Path, *, equal_allowed: bool
) -> Iterator[FieldError]:
    """Check the two image garbage collection percentages and their order."""
    for field in (_HIGH, _LOW):
        percent = kubelet.get(field)
        if is_integer(percent) and not 0 <= percent <= 100:
            yield FieldError(
                ErrorKind.INVALID, (*path, field), "must be between 0 and 100", percent
            )
    high, low = kubelet.get(_HIGH), kubelet.get(_LOW)
    if not (is_integer(high) and is_integer(low)):
        return
    if high < low or (high == low and not equal_allowed):
        relation = "not be below" if equal_allowed else "be above"
        yield FieldError(
            ErrorKind.INVALID, (*path, _HIGH), f"must {relation} {_LOW}, which is {low}", high
        )


def negative_errors(
    kubelet: Mapping[str, Any], fields: Iterable[str], path: Path
) -> Iterator[FieldError]:
    """Refuse a number below 0 in any of ``fields``."""
    for field in fields:
        number = kubelet.get(field)
        if is_integer(number) and number < 0:
            yield FieldError(ErrorKind.INVALID, (*path, field), "must not be negative", number)


def _invalid(kubelet: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    if isinstance(kubelet.get("maxPods"), str):
        # An expression is text where the kubelet wants a number; it is checked on its own.
        kubelet = {key: part for key, part in kubelet.items() if key != "maxPods"}
    yield from shape_errors(kubelet, KUBELET_CONFIGURATION, path)
    if kubelet.get("registerWithTaints") is not None:
        yield FieldError(
            ErrorKind.FORBIDDEN,
            (*path, "registerWithTaints"),
            "is set by Karpenter; put taints and startupTaints into the NodePool",
        )
    yield from eviction_errors(kubelet, path)
    yield from reserved_errors(kubelet, path)
    yield from image_gc_errors(kubelet, path, equal_allowed=False)
    counted = ("podsPerCore", "evictionMaxPodGracePeriod", "maxPods")
    yield from negative_errors(kubelet, counted, path)


def _expression_errors(
    kubelet: Mapping[str, Any], path: Path, *, enabled: bool
) -> Iterator[FieldError]:
    for place, text in _expressions(kubelet):
        if not enabled:
            wanted = "an integer" if place == ("maxPods",) else "a quantity"
            problem: str | None = (
                f"must be {wanted}; an expression needs the feature gate NodeClassCEL"
            )
        else:
            problem = _expression_problem(text)
        if problem:
            yield FieldError(ErrorKind.INVALID, (*path, *place), problem, text)


def _expressions(kubelet: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    max_pods = kubelet.get("maxPods")
    if isinstance(max_pods, str):
        yield ("maxPods",), max_pods
    for field in _RESERVED_FIELDS:
        for resource, amount in _items(kubelet, field):
            if isinstance(amount, str) and not amount.startswith("-") and not is_quantity(amount):
                yield (field, resource), amount


def _expression_problem(text: str) -> str | None:
    """Only parse the expression; evaluating it needs instance types, which the provider has."""
    try:
        compile_expression(text, EXPRESSION_VARIABLES)
    except ExpressionError as error:
        # The parser's list of expected tokens is long and of no use to users.
        reason, _, _ = str(error).partition(" expecting {")
        return f"is not a usable expression: {reason}"
    return None


def _unsupported(kubelet: Mapping[str, Any], path: Path, family: str) -> Iterator[FieldError]:
    if family not in ("AL2", "Bottlerocket") and not family.startswith("Windows"):
        return
    known = KUBELET_CONFIGURATION.fields.keys() - {"registerWithTaints"}
    for field in kubelet:
        if field in known and field not in MANAGED_FIELDS:
            yield FieldError(
                ErrorKind.NOT_SUPPORTED,
                (*path, field),
                f"cannot be passed to the kubelet by AMI family {family}; use AL2023 or remove it",
            )
    dns = kubelet.get("clusterDNS")
    if isinstance(dns, list) and len(dns) > 1:
        yield FieldError(
            ErrorKind.TOO_MANY,
            (*path, "clusterDNS"),
            f"AMI family {family} takes one cluster DNS address only",
        )
    if family == "Bottlerocket" and kubelet.get("podsPerCore") is not None:
        yield FieldError(
            ErrorKind.NOT_SUPPORTED,
            (*path, "podsPerCore"),
            "AMI family Bottlerocket has no such setting; use maxPods",
        )


def _pairing_errors(kubelet: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    soft, periods = (
        dict(_items(kubelet, field)) for field in ("evictionSoft", "evictionSoftGracePeriod")
    )
    for given, other, field, needed in (
        (
            soft,
            periods,
            "evictionSoftGracePeriod",
            "evictionSoft sets {}, so it needs a grace period",
        ),
        (periods, soft, "evictionSoft", "evictionSoftGracePeriod sets {}, so it needs a threshold"),
    ):
        for signal in given:
            if signal not in other:
                here = (*path, field, signal)
                yield FieldError(ErrorKind.REQUIRED, here, needed.format(signal))


def _signal_errors(signal: str, path: Path) -> Iterator[FieldError]:
    if signal not in EVICTION_SIGNALS:
        yield FieldError(
            ErrorKind.NOT_SUPPORTED,
            (*path, signal),
            f"is not an eviction signal; use {_one_of(EVICTION_SIGNALS)}",
        )


def _is_threshold(text: str) -> bool:
    if percentage := _PERCENTAGE.fullmatch(text):
        return float(percentage[1]) <= 100
    return is_quantity(text) and parse(text) >= 0


def _items(kubelet: Mapping[str, Any], field: str) -> list[tuple[str, object]]:
    entries = kubelet.get(field)
    if not isinstance(entries, Mapping):
        return []
    return [(str(key), entry) for key, entry in entries.items()]


def _one_of(names: Iterable[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} or {last}"


def _with_reason(reason: KubeletReason, errors: Iterable[FieldError]) -> list[KubeletProblem]:
    return [KubeletProblem(reason, error) for error in errors]
