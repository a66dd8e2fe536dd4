"""The variants of a scenario: the same demand under other settings, objects, machines or prices."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from karpenter.api.meta import JsonObject
from karpenter.simulate.scenario.models import (
    FaultMix,
    Machines,
    Price,
    Scenario,
    Setting,
    Variant,
)

MOST: int = 64
ONLY = "scenario"  # the name of the variant of a scenario that compares nothing


@dataclass(frozen=True, slots=True)
class ResolvedVariant:
    """All that a run needs beside the demand."""

    name: str
    settings: Mapping[str, str]
    objects: tuple[JsonObject, ...]
    machines: Machines
    prices: tuple[Price, ...]
    faults: Literal["storm"] | FaultMix | None = None


class NoTargetError(ValueError):
    """A patch or removal of an object that is not there."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target


def named_variants(scenario: Scenario) -> list[Variant]:
    """The variants that ``compare`` and ``matrix`` ask for; the first is the baseline."""
    if scenario.matrix:
        return [_joined(each) for each in itertools.product(*scenario.matrix.values())]
    return list(scenario.compare) or [Variant(name=ONLY)]


def resolved(
    scenario: Scenario,
    objects: Sequence[JsonObject],
    variant: Variant,
    added: Mapping[str, Sequence[JsonObject]],
) -> ResolvedVariant:
    """What a variant makes of a scenario.

    Args:
        scenario: the scenario.
        objects: that are there from the start in all variants.
        variant: what differs.
        added: the objects of the files that variants add.

    Raises:
        NoTargetError: an object to patch or to remove is not there.
    """
    held = list(objects)
    for target in variant.remove:
        index = _find(held, target)
        del held[index]
    for each in variant.add:
        held.extend(added[each] if isinstance(each, str) else [each])
    for patch in variant.patch:
        index = _find(held, patch.target)
        held[index] = merged(held[index], patch.merge)
    return ResolvedVariant(
        name=variant.name,
        settings={
            name: setting_text(value)
            for name, value in {**scenario.settings, **variant.settings}.items()
        },
        objects=tuple(held),
        machines=variant.machines or scenario.machines,
        prices=tuple(scenario.prices if variant.prices is None else variant.prices),
        faults=scenario.faults if variant.faults is None else variant.faults,
    )


def setting_text(value: Setting) -> str:
    """A setting as the environment would hold it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def merged(obj: JsonObject, patch: JsonObject) -> JsonObject:
    """An object with a JSON merge patch applied."""
    changed = dict(obj)
    for key, value in patch.items():
        if value is None:
            changed.pop(key, None)
        elif isinstance(value, dict):
            inner = changed.get(key)
            changed[key] = merged(inner if isinstance(inner, dict) else {}, value)
        else:
            changed[key] = value
    return changed


def inverse(obj: JsonObject, patch: JsonObject) -> JsonObject:
    """The merge patch that undoes another one on an object."""
    undo: JsonObject = {}
    for key, value in patch.items():
        before = obj.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            undo[key] = inverse(before, value)
        else:
            undo[key] = before
    return undo


def is_target(obj: JsonObject, target: str) -> bool:
    """Whether an object is the one that ``Kind/name`` means."""
    kind, _, name = target.partition("/")
    return obj.get("kind") == kind and (obj.get("metadata") or {}).get("name") == name


def _find(objects: Sequence[JsonObject], target: str) -> int:
    for index, obj in enumerate(objects):
        if is_target(obj, target):
            return index
    raise NoTargetError(target)


def _joined(parts: Sequence[Variant]) -> Variant:
    """One variant that differs in all ways that several do."""
    prices = [each.prices for each in parts if each.prices is not None]
    machines = [each.machines for each in parts if each.machines is not None]
    faults = [each.faults for each in parts if each.faults is not None]
    return Variant(
        name="-".join(each.name for each in parts),
        settings={name: value for each in parts for name, value in each.settings.items()},
        patch=[patch for each in parts for patch in each.patch],
        add=[obj for each in parts for obj in each.add],
        remove=[target for each in parts for target in each.remove],
        machines=machines[-1] if machines else None,
        prices=prices[-1] if prices else None,
        faults=faults[-1] if faults else None,
    )
