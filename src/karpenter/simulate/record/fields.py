"""What a recording takes of an object: rules by field, and nothing that has no rule.

A rule is given a value of an object and returns what is recorded of it, or None for nothing. A new
field of Kubernetes has no rule, so it is not recorded until one is written here.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from karpenter.model import labels
from karpenter.simulate.record.names import Names

Rule: TypeAlias = Callable[[Any, Names], Any]

_LONGEST: Final = 253  # of a text that is taken as it stands
_TRUTH: Final = re.compile(r"true|false|[0-9hms.]+")
# Annotations that decide something, with the values that they may have
_ANNOTATIONS: Final = {
    labels.DO_NOT_DISRUPT: _TRUTH,
    labels.SAFE_TO_EVICT: _TRUTH,
    "controller.kubernetes.io/pod-deletion-cost": re.compile(r"-?[0-9]{1,10}"),
    "storageclass.kubernetes.io/is-default-class": _TRUTH,
}


def plain(value: Any, _: Names) -> Any:
    """A number, a truth or a short word of the API."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else None
    return value if isinstance(value, bool | int | float) else None


def name(value: Any, names: Names) -> Any:
    """The name of an object."""
    return names.name(value) if isinstance(value, str) else None


def image(value: Any, names: Names) -> Any:
    """The name of an image."""
    return names.image(value) if isinstance(value, str) else None


def labelled(value: Any, names: Names) -> Any:
    """Labels, or a selector of them."""
    if not isinstance(value, dict):
        return None
    return {key: names.value(key, text) for key, text in value.items() if isinstance(text, str)}


def annotations(value: Any, _: Names) -> Any:
    """The annotations that decide something."""
    found = {
        key: text
        for key, pattern in _ANNOTATIONS.items()
        if isinstance(value, dict)
        and isinstance(text := value.get(key), str)
        and pattern.fullmatch(text)
    }
    return found or None


def amounts(value: Any, _: Names) -> Any:
    """Amounts of resources."""
    if not isinstance(value, dict):
        return None
    return {
        key: each
        for key, each in value.items()
        if isinstance(each, int | float) or (isinstance(each, str) and len(each) <= 40)
    }


def fields(**rules: Rule) -> Rule:
    """The fields of a part that have rules; a name of Python has an underscore at its end."""
    listed = [(key.rstrip("_"), rule) for key, rule in rules.items()]

    def take(value: Any, names: Names) -> Any:
        if not isinstance(value, dict):
            return None
        found = {}
        for key, rule in listed:
            if key in value and (taken := rule(value[key], names)) is not None:
                found[key] = taken
        return found if found or not value else None

    return take


def each(rule: Rule) -> Rule:
    """Every entry of a list."""

    def take(value: Any, names: Names) -> Any:
        if not isinstance(value, list | tuple):
            return None
        return [taken for item in value if (taken := rule(item, names)) is not None]

    return take


def of_types(*types: str) -> Rule:
    """The conditions of these types, without their messages."""
    shape = each(fields(type=plain, status=plain, reason=plain, lastTransitionTime=plain))

    def take(value: Any, names: Names) -> Any:
        if not isinstance(value, list | tuple):
            return None
        wanted = [item for item in value if isinstance(item, dict) and item.get("type") in types]
        return shape(wanted, names) or None

    return take


def by_key(value: Any, names: Names) -> Any:
    """Terms on labels: a key, an operator, and values; tolerations and taints have one."""
    if not isinstance(value, dict) or not isinstance(value.get("key", ""), str):
        return None
    key = value.get("key", "")
    found = {
        field: value[field]
        for field in ("key", "operator", "effect", "tolerationSeconds", "minValues", "timeAdded")
        if isinstance(value.get(field), str | int)
    }
    if isinstance(value.get("value"), str):
        found["value"] = names.value(key, value["value"])
    if isinstance(value.get("values"), list | tuple):
        listed = [text for text in value["values"] if isinstance(text, str)]
        found["values"] = [names.value(key, text) for text in listed]
    return found


SELECTOR: Final = fields(matchLabels=labelled, matchExpressions=each(by_key))
OWNERS: Final = each(fields(apiVersion=plain, kind=plain, name=name, uid=plain, controller=plain))
METADATA: Final = fields(
    name=name,
    namespace=name,
    uid=plain,
    creationTimestamp=plain,
    deletionTimestamp=plain,
    labels=labelled,
    annotations=annotations,
    ownerReferences=OWNERS,
)
